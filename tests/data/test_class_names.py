import numpy as np

from tests.data.small_data import real_root
from tnlpad.data.cifar import read_cifar_binary
from tnlpad.data.class_names import CIFAR100, CIFAR100_COARSE, CIFAR100_SUPERCLASS


def test_superclasses_have_five_classes_each():
    assert len(CIFAR100) == len(CIFAR100_SUPERCLASS) == 100
    assert np.bincount(CIFAR100_SUPERCLASS).tolist() == [5] * len(CIFAR100_COARSE)


def test_superclasses_name_what_belongs_together():
    groups = {name: CIFAR100_COARSE[coarse] for name, coarse in zip(CIFAR100, CIFAR100_SUPERCLASS, strict=True)}
    assert {name for name, group in groups.items() if group == "trees"} == {
        *("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree")
    }
    assert {name for name, group in groups.items() if group == "people"} == {"baby", "boy", "girl", "man", "woman"}


def test_superclasses_are_those_of_the_real_images():
    root = real_root("cifar-100-binary")
    for name in ("train.bin", "test.bin"):
        part = read_cifar_binary([root / "cifar-100-binary" / name], num_classes=100, coarse=True)
        assert np.array_equal(np.array(CIFAR100_SUPERCLASS)[part.labels], part.coarse_labels)
