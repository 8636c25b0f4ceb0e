"""Small trees in the published layouts of the two datasets whose images stay in files, and runs on them."""

import numpy as np
import torch
from PIL import Image

from tnlpad.runs.config import configure

CPU = torch.device("cpu")
CLASSES = ("apple_pie", "sushi", "waffles")
TRAIN, TEST = 12, 4  # of each class
IMAGES = TRAIN * len(CLASSES)


def write_image(path, generator, size):
    """Without loss, whatever the name says: readers go by the content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(generator.integers(0, 256, (*size, 3), dtype=np.uint8)).save(path, format="PNG")


def write_food101(root, size=(11, 14)):
    folder, generator = root / "food-101", np.random.default_rng(0)
    lists = {"train": [], "test": []}
    for name in CLASSES:
        for number in range(TRAIN + TEST):
            write_image(folder / "images" / name / f"{number}.jpg", generator, size)
            lists["train" if number < TRAIN else "test"].append(f"{name}/{number}")
    (folder / "meta").mkdir()
    (folder / "meta" / "classes.txt").write_text("\n".join(CLASSES))
    for split, entries in lists.items():
        (folder / "meta" / f"{split}.txt").write_text("\n".join(entries))
    return root


CLOTHING_LISTS = {
    "noisy_train": range(40),
    "clean_train": range(40, 42),
    "clean_val": range(42, 47),
    "clean_test": (50,),
}


def write_clothing1m(root):
    folder, generator = root / "clothing1m", np.random.default_rng(1)
    labels = {"noisy": "", "clean": ""}
    for name, numbers in CLOTHING_LISTS.items():
        keys = [f"images/{number % 10}/{number}.jpg" for number in numbers]
        for number, key in zip(numbers, keys, strict=True):
            write_image(folder / key, generator, (12, 10))
            labels["noisy" if name == "noisy_train" else "clean"] += f"{key} {number % 14}\n"
        (folder / f"{name}_key_list.txt").write_text("\n".join(keys))
    for name, lines in labels.items():
        (folder / f"{name}_label_kv.txt").write_text(lines)
    return root


def small(method="tnlpad", dataset="food101", noise="none", **settings):
    """Two epochs of small images: some hundredths of a second."""
    images = {"food101": IMAGES, "clothing1m": len(CLOTHING_LISTS["noisy_train"])}
    common = {"epochs": 2, "batch_size": 8, "resize": 9, "crop": 8, "learning_rate": 0.01, "subset": images[dataset]}
    return configure(dataset, noise=noise, method=method, network="small_cnn", settings=common | settings)
