"""Data loading: does training ever wait for data?

- On a CPU, augmented CIFAR-sized batches of 64 from `DeviceLoader`, against the same work done image by image with
  Pillow.
- On a CPU, the two threads of the streaming loader, against two processes that only decode the same files.
- On a GPU, a batch (gather, crop, flip, normalise) as a CUDA graph, against a compiled bfloat16 step of ResNet-18.

    python -m benchmarks.loader [--device cpu|cuda] [--turns 20] [--save record.json]
"""

import argparse
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image, ImageOps

from benchmarks.machine import captured, leave, machine, ratio, seconds, versions
from tnlpad.data.augment import FLIP, LEFT, TOP, Augmentation
from tnlpad.data.loader import DeviceLoader
from tnlpad.data.stream import StreamLoader, decode
from tnlpad.rng import numpy_stream, torch_stream
from tnlpad.types import ImageFiles

BATCH, PADDING = 64, 4
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
FILES, FILE_SIZE, RESIZE, CROP = 2000, (512, 384), 128, 112


def cifar_like(device: str) -> tuple[torch.Tensor, DeviceLoader]:
    images = torch.randint(0, 256, (50_000, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    loader = DeviceLoader(
        images.to(device),
        torch.zeros(50_000, dtype=torch.long),
        batch_size=BATCH,
        mean=MEAN,
        std=STD,
        augmentation=Augmentation(crop_padding=PADDING, flip=True),
        order=torch_stream(1, "order"),
        augment=torch_stream(1, "augment"),
        memory_format=torch.channels_last if device == "cuda" else torch.contiguous_format,
    )
    return images, loader


def pillow_batch(images: list[Image.Image], rows: list[list[int]]) -> torch.Tensor:
    """The usual pipeline: one image after the other."""
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    batch = []
    for index, *row in rows:
        image = ImageOps.expand(images[index], PADDING)
        image = image.crop((row[LEFT], row[TOP], row[LEFT] + 32, row[TOP] + 32))
        if row[FLIP]:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)
        batch.append(pixels.sub_(mean).div_(std))
    return torch.stack(batch)


def against_pillow(turns: int) -> dict[str, object]:
    images, loader = cifar_like("cpu")
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images[:5000]]
    plan = loader.plan()
    plan[:, 0] %= len(pictures)
    batches = [plan[start : start + BATCH] for start in range(0, 50 * BATCH, BATCH)]
    as_lists = [rows.tolist() for rows in batches]
    torch.testing.assert_close(pillow_batch(pictures, as_lists[0]), loader.batch(batches[0]).images)

    def by_tensor() -> None:
        for rows in batches:
            loader.batch(rows)

    def by_pillow() -> None:
        for rows in as_lists:
            pillow_batch(pictures, rows)

    ours, theirs = [], []
    for _ in range(turns):
        ours.append(seconds(by_tensor, "cpu") / len(batches))
        theirs.append(seconds(by_pillow, "cpu") / len(batches))
    return {
        "batch_ms": {"device_loader": 1000 * median(ours), "pillow": 1000 * median(theirs)},
        "pillow_over_device_loader": ratio(theirs, ours),
    }


def write_photographs(folder: Path) -> ImageFiles:
    """JPEG files with the detail of photographs: smooth noise, enlarged."""
    generator = numpy_stream(1, "photographs")
    paths = []
    for number in range(FILES):
        small = generator.integers(0, 256, (FILE_SIZE[1] // 8, FILE_SIZE[0] // 8, 3), dtype=np.uint8)
        paths.append(str(folder / f"{number}.jpg"))
        Image.fromarray(small).resize(FILE_SIZE, Image.Resampling.BICUBIC).save(paths[-1], quality=90)
    return ImageFiles(paths=tuple(paths), labels=np.zeros(FILES, dtype=np.int64), class_names=("one",))


def decode_only(path: str) -> None:
    decode(path, RESIZE, CROP)


def one_thread() -> None:
    torch.set_num_threads(1)


def against_raw_decoding(turns: int) -> dict[str, object]:
    threads = torch.get_num_threads()
    one_thread()  # both cores are wanted for decoding, and a second thread of this process would get in the way
    with tempfile.TemporaryDirectory() as name, get_context("fork").Pool(2, one_thread) as pool:
        files = write_photographs(Path(name))
        loader = StreamLoader(
            files,
            batch_size=32,
            resize=RESIZE,
            crop=CROP,
            mean=MEAN,
            std=STD,
            order=torch_stream(1, "order"),
            augment=torch_stream(1, "augment"),
            workers=2,
        )

        def raw() -> None:
            pool.map(decode_only, files.paths, chunksize=16)

        def loaded() -> None:
            for _ in loader:
                pass

        raw()
        loaded()
        raw_times, loader_times = [], []
        for _ in range(turns):
            raw_times.append(seconds(raw, "cpu"))
            loader_times.append(seconds(loaded, "cpu"))
    torch.set_num_threads(threads)
    return {
        "images_per_second": {"raw": FILES / median(raw_times), "stream_loader": FILES / median(loader_times)},
        "stream_over_raw_speed": ratio(raw_times, loader_times),
    }


def against_a_step(turns: int) -> dict[str, object]:
    from benchmarks.optimizer_step import build

    _, loader = cifar_like("cuda")
    rows = loader.plan()[:BATCH].clone()
    plan = loader.plan()
    load = captured(lambda: loader.batch(rows))
    step = captured(build("standard", "cuda").step)

    def fed_load() -> None:
        rows.copy_(plan[BATCH : 2 * BATCH])
        load()

    load_times, step_times = [], []
    for _ in range(turns):
        load_times.append(seconds(fed_load, "cuda", 100))
        step_times.append(seconds(step, "cuda", 50))
    return {
        "batch_ms": {"device_loader": 1000 * median(load_times)},
        "step_ms": 1000 * median(step_times),
        "device_loader_over_step": ratio(load_times, step_times),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    arguments = parser.parse_args()
    record: dict[str, object] = {
        "benchmark": "loader",
        "device": arguments.device,
        "machine": machine(arguments.device),
        "versions": versions(),
        "turns": arguments.turns,
        "command": f"python -m benchmarks.loader --device {arguments.device} --turns {arguments.turns}",
    }
    parts = [against_a_step] if arguments.device == "cuda" else [against_raw_decoding, against_pillow]
    for part in parts:
        print(part.__name__.replace("_", " "), file=sys.stderr)
        record |= part(arguments.turns)
    print(f"{record['machine']}; torch {torch.__version__}")
    for key, value in record.items():
        if isinstance(value, dict) and "median" in value:
            name = key.replace("_", " ")
            print(f"{name}: {value['median']:.3f} (quartiles {value['low']:.3f} to {value['high']:.3f})")
        elif key in ("batch_ms", "images_per_second", "step_ms"):
            print(f"{key.replace('_', ' ')}: {value}")
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
