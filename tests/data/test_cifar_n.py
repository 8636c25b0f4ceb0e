import io
import os
import pickle
import shutil
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.small_data import real_root, shared_file
from tnlpad.data import human_labels
from tnlpad.data.cifar_n import LABEL_SETS, WRONG_LABELS, noisy_labels, read_cifar_n, wrong_label_share
from tnlpad.errors import DataError

COUNT = 40
PUBLISHED = {
    "clean": "clean_label",
    "aggre": "aggre_label",
    "worse": "worse_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
}


def ten(count=COUNT):
    generator = np.random.default_rng(0)
    return {name: generator.integers(0, 10, count) for name in PUBLISHED}


def saved(labels, **options):
    stream = io.BytesIO()
    torch.save({PUBLISHED[name]: each for name, each in labels.items()}, stream, **options)
    return stream.getvalue()


def as_npz(labels):
    stream = io.BytesIO()
    np.savez_compressed(stream, **{name: each.astype(np.uint8) for name, each in labels.items()})
    return stream.getvalue()


FORMS = {
    "torch.pt": saved,
    "older torch.pt": lambda labels: saved(labels, _use_new_zipfile_serialization=False),
    "arrays.npz": as_npz,
}


@pytest.mark.parametrize("name", FORMS)
def test_all_label_sets_are_read(tmp_path, name):
    labels = ten()
    path = tmp_path / name
    path.write_bytes(FORMS[name](labels))
    read = read_cifar_n(path, dataset="cifar10n", num_classes=10)
    assert set(read) == {*LABEL_SETS["cifar10n"], "clean"}
    for key, values in labels.items():
        assert np.array_equal(read[key], values), key
        assert read[key].dtype == np.int64


@pytest.mark.parametrize("older", [False, True])
def test_cifar100n_has_lists_of_superclasses(tmp_path, older):
    generator = np.random.default_rng(0)
    fine, coarse = generator.integers(0, 100, (2, COUNT)), generator.integers(0, 20, (2, COUNT))
    path = tmp_path / "CIFAR-100_human.pt"
    stored = {
        "clean_label": fine[0],
        "noisy_label": fine[1],
        "clean_coarse_label": coarse[0].tolist(),
        "noisy_coarse_label": coarse[1].tolist(),
    }
    torch.save(stored, path, _use_new_zipfile_serialization=not older)
    read = read_cifar_n(path, dataset="cifar100n", num_classes=100)
    for key, values in (
        ("clean", fine[0]),
        ("noisy", fine[1]),
        ("clean_coarse", coarse[0]),
        ("noisy_coarse", coarse[1]),
    ):
        assert np.array_equal(read[key], values), key


class Hostile:
    def __reduce__(self):
        return os.system, ("exit 1",)


@pytest.mark.parametrize("older", [False, True])
def test_a_hostile_file_does_not_run(tmp_path, monkeypatch, older):
    path = tmp_path / "CIFAR-10_human.pt"
    path.write_bytes(saved({**ten(), "clean": Hostile()}, _use_new_zipfile_serialization=not older))
    monkeypatch.setattr(os, "system", lambda _: pytest.fail("the pickle ran"))
    with pytest.raises(DataError, match=r"CIFAR-10_human\.pt contains .*system.*do not trust"):
        read_cifar_n(path, dataset="cifar10n", num_classes=10)


def test_an_npz_of_objects_does_not_run(tmp_path, monkeypatch):
    path = tmp_path / "cifar10n.npz"
    np.savez(path, clean=np.array([Hostile()], dtype=object))
    monkeypatch.setattr(os, "system", lambda _: pytest.fail("the pickle ran"))
    with pytest.raises(DataError, match=r"cifar10n\.npz"):
        read_cifar_n(path, dataset="cifar10n", num_classes=10)


def test_a_label_out_of_range(tmp_path):
    labels = ten()
    labels["worse"][5] = 12
    path = tmp_path / "file.pt"
    path.write_bytes(saved(labels))
    with pytest.raises(DataError, match=r"file\.pt \(worse_label\): label 12 of image 5 is out of range"):
        read_cifar_n(path, dataset="cifar10n", num_classes=10)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"worse": np.zeros(COUNT - 1, np.int64)}, "different lengths"),
        ({"worse": np.zeros(COUNT)}, "whole number"),
        ({"worse": np.zeros((COUNT, 2), np.int64)}, "whole number"),
        ({"worse": "text"}, "is a str"),
    ],
)
def test_labels_of_another_kind(tmp_path, change, words):
    path = tmp_path / "file.pt"
    path.write_bytes(saved(ten() | change))
    with pytest.raises(DataError, match=words):
        read_cifar_n(path, dataset="cifar10n", num_classes=10)


def test_another_file_of_torch(tmp_path):
    path = tmp_path / "file.pt"
    for stored, words in (
        ([1, 2], "holds a list"),
        ({"x": 1}, "no entry 'aggre_label'"),
        (torch.zeros(2), "contains torch"),
    ):
        torch.save(stored, path)
        with pytest.raises(DataError, match=words):
            read_cifar_n(path, dataset="cifar10n", num_classes=10)
    path.write_bytes(pickle.dumps(ten()))
    with pytest.raises(DataError, match="not a file saved by torch"):
        read_cifar_n(path, dataset="cifar10n", num_classes=10)


def test_a_bomb_is_not_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(100_000_000))
    with pytest.raises(DataError, match="announces 100,000,000 bytes"):
        read_cifar_n(tmp_path / "bomb.pt", dataset="cifar10n", num_classes=10)


def test_an_array_cannot_claim_more_than_its_bytes(tmp_path):
    header = np.lib.format.magic(1, 0)
    text = b"{'descr': '|u1', 'fortran_order': False, 'shape': (9000000000000,), }"
    text = text.ljust(117) + b"\n"
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.writestr("aggre.npy", header + len(text).to_bytes(2, "little") + text + bytes(10))
    with pytest.raises(DataError, match=r"9000000000000.* 138 bytes"):
        read_cifar_n(tmp_path / "huge.npz", dataset="cifar10n", num_classes=10)


@pytest.mark.parametrize("name", FORMS)
def test_every_truncation_is_noticed(tmp_path, name):
    path = tmp_path / name
    whole = FORMS[name](ten(4))
    # The older format ends with an empty list of tensors that nobody needs; all before it is needed.
    needed = len(whole) - 20 if name.startswith("older") else len(whole)
    for length in range(0, needed, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"torch|arrays"):
            read_cifar_n(path, dataset="cifar10n", num_classes=10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(FORMS)),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=6),
    st.binary(max_size=60) | st.none(),
)
def test_damaged_files_give_our_error_or_labels(folder, name, changes, instead):
    content = bytearray(FORMS[name](ten(4)) if instead is None else instead)
    for place, byte in changes if content else []:
        content[place % len(content)] = byte
    path = folder / name
    path.write_bytes(content)
    try:
        labels = read_cifar_n(path, dataset="cifar10n", num_classes=10)
    except DataError:
        labels = {}
    assert all(((each >= 0) & (each < 10)).all() for each in labels.values())


def test_the_transition_is_measured(tmp_path):
    labels = {"clean": np.array([0, 0, 0, 0, 1]), "worse": np.array([0, 0, 0, 2, 2])}
    noisy = noisy_labels(labels, "worse", on_disk=labels["clean"], where=tmp_path, num_classes=3)
    assert noisy.transition.tolist() == [[0.75, 0, 0.25], [0, 0, 1], [0, 0, 1]]
    assert np.array_equal(noisy.given, labels["worse"])


def test_labels_in_another_order_than_the_images_are_refused(tmp_path):
    labels = ten()
    on_disk = labels["clean"][::-1]
    wrong = np.count_nonzero(on_disk != labels["clean"])
    with pytest.raises(DataError, match=f"differ .* for {wrong} of 40 images.*another order"):
        noisy_labels(labels, "worse", on_disk=on_disk, where=tmp_path / "file.pt", num_classes=10)
    with pytest.raises(DataError, match="labels 40 images, but 39"):
        noisy_labels(labels, "worse", on_disk=labels["clean"][1:], where=tmp_path / "file.pt", num_classes=10)


def test_a_changed_file_is_refused_before_it_is_unpickled(tmp_path, monkeypatch):
    (tmp_path / "CIFAR-10_human.pt").write_bytes(saved(ten()))
    monkeypatch.setattr("tnlpad.data.cifar_n.unpickle", lambda *_, **__: pytest.fail("the file was unpickled"))
    with pytest.raises(DataError, match=r"CIFAR-10_human\.pt has .* of the 2,401,007 bytes.*get cifar10n"):
        human_labels("cifar10n", "worse", tmp_path)


def test_shares_of_wrong_labels():
    assert wrong_label_share("cifar10n", "aggre") == 0.0901
    assert wrong_label_share("cifar100n", "noisy") == 0.402
    assert wrong_label_share("cifar10n", "noisy") is None
    assert wrong_label_share("cifar10", "worse") is None


def test_words_for_names_and_sets():
    with pytest.raises(ValueError, match="only cifar10n and cifar100n"):
        human_labels("cifar10", "worse")
    with pytest.raises(ValueError, match=r"'worst'.*aggre, random1"):
        human_labels("cifar10n", "worst")


@pytest.mark.parametrize(("name", "folder"), [("cifar10n", "cifar-10-batches-bin"), ("cifar100n", "cifar-100-binary")])
def test_real_labels_fit_the_real_images(tmp_path, name, folder):
    labels, root = shared_file(f"{name}.npz"), real_root(folder)
    (tmp_path / folder).symlink_to(root / folder)
    shutil.copy(labels, tmp_path)
    for label_set, wrong in WRONG_LABELS[name].items():
        noisy = human_labels(name, label_set, tmp_path)
        assert np.count_nonzero(noisy.given != noisy.clean) == wrong
        assert np.allclose(noisy.transition.sum(axis=1), 1)
        if label_set == "worse":  # the published rows worth knowing
            assert round(100 * noisy.transition[9, 1], 1) == 28.2
            assert round(100 * noisy.transition[3, 5], 1) == 20.6
