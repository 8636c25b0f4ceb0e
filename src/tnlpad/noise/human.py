"""Labels that people gave, such as those of CIFAR-10N and CIFAR-100N (Wei et al., "Learning with Noisy Labels
Revisited"): nothing is drawn, but they are only noise of a dataset if they are labels of its samples in its order.

The transition is that seen in the labels. People's mistakes depend on the image: it sums the noise up, and does not
explain it.
"""

from numpy.typing import ArrayLike

from tnlpad.noise.labels import checked_labels, require_same_clean_labels
from tnlpad.noise.transition import empirical
from tnlpad.types import Labels, NoisyLabels


def human_noise(labels: ArrayLike, given: Labels, published_clean: Labels, num_classes: int) -> NoisyLabels:
    """People's labels as noise of these clean labels, which must be those that were published beside people's."""
    clean = checked_labels(labels, num_classes)
    require_same_clean_labels(checked_labels(published_clean, num_classes), clean, "The set of human labels")
    answers = checked_labels(given, num_classes)
    return NoisyLabels(given=answers, clean=clean, transition=empirical(clean, answers, num_classes))
