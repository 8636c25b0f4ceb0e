"""Small data of every kind that people have, good and bad."""

import json
import struct
import zlib

import numpy as np
from PIL import Image


def picture(seed=0, size=(12, 10), mode="RGB"):
    """A random image; width before height, as Pillow has it."""
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def scene(seed, size=(120, 90)):
    """A smooth picture with some texture, like a photograph out of focus."""
    generator = np.random.default_rng(seed)
    coarse = Image.fromarray(generator.integers(0, 256, (5, 6, 3), dtype=np.uint8))
    pixels = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC)).astype(int)
    return Image.fromarray(np.clip(pixels + generator.integers(-20, 21, pixels.shape), 0, 255).astype(np.uint8))


def save(path, image=None, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    (image or picture(abs(hash(path.name)) % 1000)).save(path, **options)
    return path


def class_folders(root, classes=("cat", "dog"), count=3, start=0):
    """`count` different images for each class."""
    for label, name in enumerate(classes):
        for number in range(count):
            save(root / name / f"{number}.png", picture(start + 100 * label + number))
    return root


def bomb(path, side=50_000):
    """A PNG of a few bytes that says it is 2.5 gigapixels."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"".join([chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0" * 1000)), chunk(b"IEND", b"")])
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    return path


def write_arrow(folder, table, features=None):
    """As `save_to_disk` does."""
    import pyarrow as pa

    folder.mkdir(parents=True)
    with (
        pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as out,
    ):
        out.write_table(table)
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features or {}}))
    return folder


def messy_folder(root):
    """Twenty images that can be used, of every mode, in classes of awkward names; and seven entries that cannot."""
    awkward = ("кот", "q\"u,o't <b>e", "n" * 200)
    class_folders(root, awkward, count=4)
    for number, mode in enumerate(("1", "L", "LA", "P", "RGBA", "CMYK")):
        save(root / awkward[0] / f"mode-{mode}.{'jpg' if mode == 'CMYK' else 'png'}", picture(500 + number, mode=mode))
    deep = np.random.default_rng(0).integers(0, 1 << 16, (9, 9)).astype(np.uint16)
    save(root / awkward[0] / "sixteen.png", Image.fromarray(deep))
    save(root / awkward[0] / "moving.gif", picture(600), save_all=True, append_images=[picture(601), picture(602)])
    here = root / awkward[1]
    (here / "empty.png").write_bytes(b"")
    (here / "text.jpg").write_text("no image")
    whole = save(root.parent / "whole.jpg", picture(700, (64, 64))).read_bytes()
    (here / "half.jpg").write_bytes(whole[: len(whole) // 2])
    bomb(here / "bomb.png")
    (here / "out.png").symlink_to(root.parent / "whole.jpg")
    (here / "nowhere.png").symlink_to(root / "nowhere.png")
    (here / "round").symlink_to(here)
    return root
