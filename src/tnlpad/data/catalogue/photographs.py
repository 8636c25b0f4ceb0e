"""Food-101 and Clothing1M: trees of large photographs, whose training labels are noisy as they come."""

from tnlpad.data import class_names
from tnlpad.data.catalogue.info import DatasetInfo, Layout, Normalisation, Published

IMAGENET_NORMALISATION = Normalisation(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))

FOOD101 = DatasetInfo(
    name="food101",
    title="Food-101 photographs, training labels uncleaned",
    class_names=class_names.FOOD101,
    train_size=75_750,
    test_size=25_250,
    normalisation=IMAGENET_NORMALISATION,
    licence="Scientific use only; the photographs belong to their takers. L. Bossard et al., ECCV 2014.",
    layouts=(Layout(folder="food-101", format="food101"),),
    sources=(
        Published.one_file(
            url="http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",
            size=4_996_278_331,
            checksums=(
                "sha256:d97d15e438b7f4498f96086a4f7e2fa42a32f2712e87d3295441b2b6314053a4",
                "md5:85eeb15f3717b99a5da872d97d918f87",
            ),
            unpack="tar",
        ),
    ),
)

CLOTHING1M = DatasetInfo(
    name="clothing1m",
    title="Clothing1M shop photographs with noisy labels",
    class_names=class_names.CLOTHING1M,
    train_size=1_000_000,
    test_size=10_526,
    normalisation=IMAGENET_NORMALISATION,
    licence="Given out by its authors on request, for research; not to be passed on. T. Xiao et al., CVPR 2015.",
    layouts=(Layout(folder="clothing1m", format="clothing1m"),),
    by_hand=(
        "Clothing1M cannot be downloaded: its authors give it out on request. Ask them as described at "
        "https://github.com/Cysu/noisy_label (T. Xiao, T. Xia, Y. Yang, C. Huang, X. Wang, CVPR 2015)."
    ),
)
