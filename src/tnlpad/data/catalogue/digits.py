"""The handwritten digits that scikit-learn bundles."""

from tnlpad.data import class_names
from tnlpad.data.catalogue.info import DatasetInfo, Normalisation

# The last fifth, in the order in which scikit-learn bundles them, is the test set; nobody published a split.
_TEST_SIZE = 360

DIGITS = DatasetInfo(
    name="digits",
    title="Handwritten digits bundled with scikit-learn",
    class_names=class_names.DIGITS,
    image_shape=(1, 8, 8),
    train_size=1_797 - _TEST_SIZE,
    test_size=_TEST_SIZE,
    normalisation=Normalisation(mean=(0.3054,), std=(0.3753,)),
    licence="CC BY 4.0. E. Alpaydin, C. Kaynak, UCI Machine Learning Repository.",
)
