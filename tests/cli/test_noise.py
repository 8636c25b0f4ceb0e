import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import tnlpad.data
from tnlpad.cli import app
from tnlpad.data import CIFAR100_SUPERCLASS
from tnlpad.noise import instance_dependent, read_label_file, write_label_file
from tnlpad.rng import numpy_stream
from tnlpad.types import ImageFiles, NoisyLabels, RawDataset


def run(*arguments):
    return CliRunner().invoke(app, ["noise", *map(str, arguments)])


@pytest.fixture
def out(tmp_path):
    return tmp_path / "labels.npz"


def data(monkeypatch, **names):
    """Stand-ins for what needs files on disk."""
    for name, value in names.items():
        monkeypatch.setitem(vars(tnlpad.data), name, value)


def cifar(num_classes):
    labels = np.arange(1000) % num_classes
    images = np.random.default_rng(0).integers(0, 256, (1000, 3, 4, 4), dtype=np.uint8)
    names = tuple(f"class {k}" for k in range(num_classes))
    return RawDataset(images=images, labels=labels, class_names=names)


def test_results_to_stdout_progress_to_stderr_and_the_files(out):
    picture = out.with_name("transition.png")
    result = run("digits", "--noise", "symmetric:0.4", "--seed", 3, "--out", out, "--picture", picture)
    assert result.exit_code == 0, result.output
    labels = read_label_file(out)
    assert (labels.dataset, labels.noise, labels.seed, labels.protocol) == ("digits", "symmetric:0.4", 3, "paper")
    wrong = labels.noisy.given != labels.noisy.clean
    assert len(wrong) == 1437
    assert f"actual:    {100 * wrong.mean():.2f} % of 1,437 labels" in result.stdout
    assert "requested: 40 %" in result.stdout
    assert "digits, symmetric:0.4, protocol paper, seed 3\n" in result.stdout
    assert "expected:  40.00 %" in result.stdout
    assert "sha256:" in result.stdout
    assert "Making symmetric:0.4 labels" in result.stderr
    assert "Making" not in result.stdout
    for digit in range(10):
        rate = 100 * wrong[labels.noisy.clean == digit].mean()
        assert re.search(rf"{digit} .*{rate:.1f}", result.stdout)
    assert Image.open(picture).format == "PNG"
    assert {path.name for path in out.parent.iterdir()} == {"labels.npz", "transition.png"}


def test_json_is_exactly_one_document(out):
    picture = out.with_name("transition.svg")
    result = run("digits", "--noise", "pairflip:0.2", "--out", out, "--picture", picture, "--json", "--quiet")
    assert result.exit_code == 0
    assert result.stderr == ""
    document = json.loads(result.stdout)
    noisy = read_label_file(out).noisy
    wrong = noisy.given != noisy.clean
    assert document["noise_rate"] == wrong.mean()
    assert (document["noise_rate_asked"], document["samples"], document["seed"]) == (0.2, 1437, 1)
    assert document["noise_rate_expected"] == pytest.approx(0.2)
    assert [each["wrong"] for each in document["classes"]] == np.bincount(noisy.clean[wrong], minlength=10).tolist()
    assert [each["most_often"] for each in document["classes"]] == [*"1234567890"]
    assert picture.read_text().startswith("<?xml")


def test_the_same_command_gives_the_same_labels_and_another_seed_others(out, tmp_path):
    words = ("digits", "--noise", "symmetric:0.4")
    checksums = [
        json.loads(run(*words, "--seed", seed, "--out", file, "--json").stdout)["checksum"]
        for file, seed in ((out, 1), (tmp_path / "again.npz", 1), (tmp_path / "other.npz", 2))
    ]
    assert checksums[0] == checksums[1] != checksums[2]


def test_own_data_are_noised_when_they_are_trained_on(out, tmp_path):
    (tmp_path / "photos").mkdir()
    result = run(tmp_path / "photos", "--noise", "symmetric:0.4", "--out", out)
    assert result.exit_code == 2
    assert f"`tnlpad train {tmp_path / 'photos'} --noise symmetric:0.4`" in result.stderr


def test_files_are_not_replaced_unasked(out, tmp_path):
    words = ("digits", "--noise", "symmetric:0.4", "--picture", tmp_path / "x.svg", "--out")
    (tmp_path / "x.svg").write_text("mine")
    out.write_text("mine")
    for file in (out, tmp_path / "other.npz"):
        result = run(*words, file)
        assert result.exit_code == 2
        assert "exists" in result.stderr
        assert "--overwrite" in result.stderr
    assert out.read_text() == (tmp_path / "x.svg").read_text() == "mine"
    assert run(*words, out, "--overwrite").exit_code == 0
    assert len(read_label_file(out).noisy.given)


def test_the_legacy_stream(out):
    assert run("digits", "--noise", "symmetric:0.4", "--legacy-stream", "--out", out).exit_code == 0
    labels = read_label_file(out)
    assert labels.legacy_stream
    random = np.random.RandomState(1)
    row = np.where(np.arange(10) == labels.noisy.clean[0], 0.6, 0.4 / 9)
    assert labels.noisy.given[0] == random.multinomial(1, row).argmax()


@pytest.mark.parametrize("inputs", ["raw", "standardized"])
def test_instance_noise_sees_the_images(out, inputs):
    result = run("digits", "--noise", "instance:0.4", "--inputs", inputs, "--out", out)
    assert result.exit_code == 0, result.output
    labels = read_label_file(out)
    assert labels.inputs == inputs
    assert f"seed 1, {inputs} inputs" in result.stdout
    digits = tnlpad.data.load("digits")
    expected = instance_dependent(digits.labels, digits.images, 0.4, 10, numpy_stream(1, "noise"), inputs)
    np.testing.assert_array_equal(labels.noisy.given, expected.given)
    assert 0.34 < np.mean(expected.given != expected.clean) < 0.46


@pytest.mark.parametrize(("protocol", "same_superclass"), [("paper", True), ("authors", False)])
def test_superclasses_of_cifar100(out, monkeypatch, protocol, same_superclass):
    data(monkeypatch, load=lambda name, root: cifar(100))
    result = run("cifar100", "--noise", "asymmetric:0.4", "--protocol", protocol, "--out", out)
    assert result.exit_code == 0, result.output
    noisy = read_label_file(out).noisy
    coarse = np.array(CIFAR100_SUPERCLASS)
    assert (coarse[noisy.given] == coarse[noisy.clean]).all() == same_superclass


@pytest.mark.parametrize("dataset", ["cifar10", "cifar10n"])
def test_human_labels(out, tmp_path, monkeypatch, dataset):
    asked = []

    def human_labels(name, label_set, root):
        asked.append((name, label_set, root))
        clean = cifar(10).labels
        return NoisyLabels(given=(clean + 1) % 10, clean=clean, transition=np.eye(10))

    data(monkeypatch, load=lambda name, root: cifar(10), human_labels=human_labels)
    result = run(dataset, "--noise", "human:worse", "--root", tmp_path, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert asked == [("cifar10n", "worse", tmp_path)]
    document = json.loads(result.stdout)
    assert (document["noise_rate"], document["noise_rate_asked"], document["dataset"]) == (1, None, "cifar10")
    assert document["made"] == "cifar10, human:worse"


def test_a_matrix_is_noted_by_its_name(out, tmp_path):
    path = tmp_path / "mine.csv"
    np.savetxt(path, np.roll(np.eye(10), 1, axis=1), delimiter=",")
    result = run("digits", "--noise", f"matrix:{path}", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["noise_rate"] == 1
    assert read_label_file(out).noise == "matrix:mine.csv"
    assert "requested" not in run("digits", "--noise", f"matrix:{path}", "--out", out).stdout


def test_a_label_file_from_elsewhere_may_call_its_noise_anything(out, tmp_path):
    run("digits", "--noise", "none", "--out", out)
    write_label_file(out, replace(read_label_file(out), noise="by our annotators"))
    result = run("digits", "--noise", out, "--out", tmp_path / "copy.npz", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["noise"] == "by our annotators"


def test_a_label_file_is_read_and_keeps_what_it_says_of_itself(out, tmp_path):
    run("digits", "--noise", "symmetric:0.4", "--seed", 9, "--out", out)
    copy = tmp_path / "copy.npz"
    result = run("digits", "--noise", out, "--out", copy, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["seed"] == 9
    np.testing.assert_array_equal(read_label_file(copy).noisy.given, read_label_file(out).noisy.given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digits", "--noise", "symetric:0.4"], "Did you mean symmetric:0.4?"),
        (["digits", "--noise", "symmetric:40"], "40 % is 0.4"),
        (["digitz", "--noise", "symmetric:0.4"], "Did you mean digits?"),
        (["digits", "--noise", "human:worse"], "human labels exist for cifar10"),
        (["digits", "--noise", "symmetric:0.4", "--protocol", "mine"], "mine"),
        (["digits", "--noise", "instance:0.4", "--inputs", "pixels"], "pixels"),
        (["digits", "--noise", "symmetric:0.4", "--seed", "-1"], "--seed"),
        (["digits", "--noise", "symmetric:0.4", "--seed", str(2**32), "--legacy-stream"], "legacy stream takes"),
        (["digits", "--noise", "symmetric:0.4", "--seed", str(2**63)], f"seed={2**63}"),
        (["digits", "--noise", "symmetric:0.4", "--picture", "x.jpg"], ".png or .svg"),
        (["digits"], "--noise"),
    ],
)
def test_wrong_usage_is_2_and_writes_nothing(out, arguments, message):
    result = run(*arguments, "--out", out)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert list(out.parent.iterdir()) == []


def test_the_sets_of_human_labels_are_named(out, monkeypatch):
    data(monkeypatch, load=lambda name, root: cifar(100))
    result = run("cifar100", "--noise", "human:worse", "--out", out)
    assert result.exit_code == 2
    assert "cifar100n has human:noisy." in result.stderr


def test_images_on_disk_have_no_instance_noise(out, monkeypatch):
    files = ImageFiles(paths=("a.jpg", "b.jpg"), labels=np.array([0, 1]), class_names=("pie", "ribs"))
    data(monkeypatch, load=lambda name, root: files)
    result = run("food101", "--noise", "instance:0.4", "--out", out)
    assert result.exit_code == 2
    assert "instance noise needs images in memory" in result.stderr
    assert run("food101", "--noise", "pairflip:1", "--out", out).exit_code == 0
    assert read_label_file(out).noisy.given.tolist() == [1, 0]


@pytest.mark.parametrize("path", ["labels.txt", "labels", "."])
def test_labels_go_into_an_npz(tmp_path, path):
    result = run("digits", "--noise", "none", "--out", tmp_path / path)
    assert result.exit_code == 2
    assert ".npz" in result.stderr


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "labels.npz").mkdir()
    result = run("digits", "--noise", "none", "--out", tmp_path / "labels.npz")
    assert result.exit_code == 2
    assert "is a folder" in result.stderr


def test_a_folder_that_cannot_be_made_is_1_before_anything_is_read(tmp_path, monkeypatch):
    data(monkeypatch, load=lambda name, root: pytest.fail("read"))
    (tmp_path / "file").write_text("")
    result = run("digits", "--noise", "none", "--out", tmp_path / "file" / "labels.npz")
    assert result.exit_code == 1
    assert "cannot write to its folder" in result.stderr


def test_bad_data_is_3(out, tmp_path):
    damaged, matrix = tmp_path / "damaged.npz", tmp_path / "matrix.csv"
    damaged.write_bytes(b"PK\x03\x04 and then nothing")
    matrix.write_text("1,2\n3,4\n")
    for noise, message in (
        (damaged, "is damaged"),
        (tmp_path / "no.npz", "does not exist"),
        (f"matrix:{matrix}", "Row"),
    ):
        result = run("digits", "--noise", noise, "--out", out)
        assert result.exit_code == 3, result.output
        assert message in result.stderr
        assert not out.exists()


def test_labels_of_another_dataset_are_3(out, tmp_path, monkeypatch):
    run("digits", "--noise", "none", "--out", out)
    data(monkeypatch, load=lambda name, root: cifar(10))
    result = run("cifar10", "--noise", out, "--out", tmp_path / "copy.npz")
    assert result.exit_code == 3
    assert "has 1437 labels" in result.stderr


def test_a_dataset_that_is_not_there_is_3(out, tmp_path):
    result = run("mnist", "--noise", "symmetric:0.4", "--root", tmp_path / "empty", "--out", out)
    assert result.exit_code == 3
    assert "tnlpad data get mnist" in result.stderr


def test_a_file_that_cannot_be_written_is_1(out, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    result = run("digits", "--noise", "none", "--out", out)
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert list(out.parent.iterdir()) == []


def test_the_help_imports_nothing_heavy():
    code = (
        "import sys; from tnlpad.cli import app; app(['noise', '--help'], standalone_mode=False); "
        "sys.exit(' '.join({'torch', 'numpy', 'scipy', 'matplotlib'} & set(sys.modules)) or None)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "--legacy-stream" in result.stdout
