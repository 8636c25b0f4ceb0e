"""A million images: start-up time, memory and speed of streamed training.

A made-up Clothing1M: key lists with distinct keys, behind which a few thousand JPEG files repeat. They are stored as
files (links), in tar shards, and as pixels that `tnlpad data prepare` wrote. Fresh processes then measure:

- The time until the key lists are read, and until the first training step is done.
- The memory of each rank after some steps of a small network on crops of 64 pixels, with few keys and with all of them.
- Images per second at 112 pixels from each kind of storage, against `decode` in a loop in as many threads.

    python -m benchmarks.million_images [--images 1000000] [--ranks 1] [--turns 5] [--save record.json]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.loader import write_photographs
from benchmarks.machine import leave, machine, ratio, seconds, versions
from tnlpad.data import load
from tnlpad.data.catalogue import find
from tnlpad.data.paths import PathList
from tnlpad.data.prepare import IMAGES_PER_PART, prepare_images
from tnlpad.data.prepared import MANIFEST, NAMES, Manifest, prepared_name
from tnlpad.data.shards import SHARDS_FOLDER, ShardIndex, index_shards, keep_index
from tnlpad.data.storage import FileImages
from tnlpad.data.stream import StreamLoader, decode
from tnlpad.ranks import group
from tnlpad.rng import numpy_stream, torch_stream
from tnlpad.runs.config import configure
from tnlpad.runs.devices import available_cores
from tnlpad.runs.run import run
from tnlpad.types import ImageFiles

DATASET, FOLDER, CLASSES = "clothing1m", "clothing1m", 14
FEW = 10_000
STORES = ("files", "shards", "prepared")
TRAINED = {"resize": 73, "crop": 64, "batch_size": 64}
MEASURED = {"resize": 128, "crop": 112}  # as Food-101
STEPS = 50
IMAGES_PER_TURN = 2048
EVALUATED = 100  # images of the clean lists
TIMEOUT_SECONDS = 900


def keys_of(images: int) -> list[bytes]:
    """Return distinct keys of the form and length of Clothing1M's."""
    numbers = numpy_stream(1, "keys").integers(10**9, 4 * 10**9, images).tolist()
    return [b"images/%d/%d/%d,%010d.jpg" % (i % 10, i // 10 % 100, number, i) for i, number in enumerate(numbers)]


def write_lists(root: Path, images: int) -> list[bytes]:
    """Write the key lists and labels, and return all keys."""
    keys, folder = keys_of(images + 3 * EVALUATED), root / FOLDER
    folder.mkdir(parents=True)
    labels = numpy_stream(1, "labels").integers(0, CLASSES, len(keys)).tolist()
    lines = [b"%s %d\n" % pair for pair in zip(keys, labels, strict=True)]
    starts = {"clean_train": images, "clean_val": images + EVALUATED, "clean_test": images + 2 * EVALUATED}
    parts = {"noisy_train": slice(0, images)} | {name: slice(at, at + EVALUATED) for name, at in starts.items()}
    for name, part in parts.items():
        (folder / f"{name}_key_list.txt").write_bytes(b"\n".join(keys[part]))
    order = numpy_stream(1, "order").permutation(images).tolist()  # the label file has an order of its own
    (folder / "noisy_label_kv.txt").write_bytes(b"".join(lines[row] for row in order))
    (folder / "clean_label_kv.txt").write_bytes(b"".join(lines[images:]))
    return keys


def link_files(folder: Path, keys: Sequence[bytes], payloads: Sequence[str]) -> None:
    """Give every key a file: a link to one of the payloads."""
    for place in {os.path.dirname(key) for key in keys}:
        (folder / place.decode()).mkdir(parents=True, exist_ok=True)
    for row, key in enumerate(keys):
        os.link(payloads[row % len(payloads)], folder / key.decode())


def repeat_shard(folder: Path, keys: Sequence[bytes], payloads: Sequence[str]) -> None:
    """Write one shard with every payload, and an index in which they repeat under all keys."""
    folder.mkdir(parents=True)
    names = "\n".join(map(os.path.basename, payloads))
    where = os.path.dirname(payloads[0])
    words = ["tar", "-cf", str(folder / "000000.tar"), "-C", where, "-T", "-"]
    subprocess.run(words, input=names, text=True, check=True, timeout=TIMEOUT_SECONDS)
    found, rows = index_shards(folder, ["000000.tar"]), np.arange(len(keys)) % len(payloads)
    keep_index(
        folder,
        ShardIndex(
            names=PathList(keys),
            labels=PathList([b""] * len(keys)),
            shard=found.shard[rows],
            offset=found.offset[rows],
            size=found.size[rows],
        ),
    )


def repeat_prepared(folder: Path, keys: Sequence[bytes], payloads: Sequence[str], resize: int) -> None:
    """Prepare a whole part and the last one, and link the first part as often as there are keys."""
    full, rest = divmod(len(keys), IMAGES_PER_PART)
    prepared_keys = keys[: min(full, 1) * IMAGES_PER_PART + rest]
    paths = [payloads[row % len(payloads)] for row in range(len(prepared_keys))]
    target = folder / prepared_name(resize)
    found = prepare_images(prepared_keys, FileImages(paths), target, resize=resize, source=DATASET).manifest
    first, last = found.parts[0], found.parts[-1]
    if full > 1:
        os.rename(target / last.file, target / "last.bin")
        parts = [first]
        for number in range(1, full):
            name = f"part-{number:05}.bin"
            os.link(target / first.file, target / name)
            parts.append(type(first)(**vars(first) | {"file": name}))
        parts += [type(last)(**vars(last) | {"file": "last.bin"})] if rest else []
        (target / NAMES).write_bytes(b"".join(key + b"\n" for key in keys))
        changed = vars(found) | {"images": len(keys), "parts": tuple(parts)}
        (target / MANIFEST).write_bytes(Manifest(**changed).to_json())


def write_root(root: Path, store: str, images: int, payloads: Sequence[str]) -> None:
    """Write the made-up dataset with one kind of storage."""
    keys, folder = write_lists(root, images), root / FOLDER
    if store == "files":
        link_files(folder, keys, payloads)
    elif store == "shards":
        repeat_shard(folder / SHARDS_FOLDER, keys, payloads)
    else:
        for size in (TRAINED, MEASURED):
            repeat_prepared(folder, keys, payloads, size["resize"])


# Fresh processes ------------------------------------------------------------------------------------------------------


class Enough(Exception):
    """The steps to measure are done."""


def megabytes(*names: str) -> list[float]:
    """Return numbers of the kernel about this process."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return [int(lines[name].split()[0]) / 1000 for name in names]


def train_some(root: Path, images: int, began: float) -> None:
    """Train as `tnlpad train` does until enough steps are done; every rank prints what it measured."""
    record: dict[str, Any] = {}

    def on_step(_epoch: int, step: int, _steps: int) -> None:
        if step == 1:
            record["first_step_seconds"] = time.time() - began
        if step == STEPS:
            names = ("VmRSS", "RssAnon", "VmHWM")
            record.update(zip(("resident_mb", "anonymous_mb", "peak_mb"), megabytes(*names), strict=True))
            record["rank"] = group.rank()
            raise Enough

    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"
    torch.set_num_threads(1)
    config = configure(DATASET, network="small_resnet", settings={**TRAINED, "subset": images})
    with tempfile.TemporaryDirectory() as out, suppress(Enough):
        run(config, Path(out), root=root, on_step=on_step)
    print("MEASURED " + json.dumps(record), flush=True)


def load_some(roots: Sequence[Path], images: int, turns: int) -> None:
    """Measure images per second from each storage and of decoding alone, in turns."""
    torch.set_num_threads(1)
    workers, info = available_cores(), find(DATASET)
    sets, read = {}, {}
    for root in roots:
        start = time.perf_counter()
        sets[root.name] = load(DATASET, root, "train", MEASURED["resize"])
        read[root.name] = time.perf_counter() - start
    chosen, files = numpy_stream(2, "chosen").choice(images, IMAGES_PER_TURN, replace=False).tolist(), sets["files"]
    loaders = {name: _loader(each, chosen, info.normalisation, workers) for name, each in sets.items()}

    def raw() -> None:
        with ThreadPoolExecutor(workers) as pool:
            for _ in pool.map(lambda row: decode(files.paths[row], *MEASURED.values()), chosen):
                pass

    def loaded(loader: StreamLoader) -> None:
        for _ in loader:
            pass

    tasks = {"raw": raw} | {name: (lambda loader=loader: loaded(loader)) for name, loader in loaders.items()}
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(turns + 1):
        for name, task in tasks.items():
            elapsed = seconds(task, "cpu")
            if turn:  # the first one warms up
                times[name].append(elapsed)
    speeds = {name: IMAGES_PER_TURN / median(values) for name, values in times.items()}
    over_raw = {name: ratio(times["raw"], times[name]) for name in loaders}
    print("MEASURED " + json.dumps({"read_seconds": read, "images_per_second": speeds, "over_raw_speed": over_raw}))


def _loader(files: ImageFiles, chosen: list[int], normalisation: Any, workers: int) -> StreamLoader:
    return StreamLoader(
        files,
        indices=torch.tensor(chosen),
        batch_size=64,
        **MEASURED,
        mean=normalisation.mean,
        std=normalisation.std,
        order=torch_stream(1, "order"),
        augment=torch_stream(1, "augment"),
        workers=workers,
    )


def measured(words: Sequence[object], ranks: int = 1) -> list[dict[str, Any]]:
    """Start this file in fresh processes, and return what they print."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    command = [sys.executable, *launcher, "-m", "benchmarks.million_images", *map(str, words)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    found = [json.loads(line.split("MEASURED ", 1)[1]) for line in result.stdout.splitlines() if "MEASURED " in line]
    if result.returncode or len(found) != ranks:
        raise SystemExit(f"{' '.join(command)} failed:\n{result.stderr}")
    return found


@contextmanager
def made_up(folder: Path, store: str, images: int, payloads: Sequence[str]) -> Iterator[Path]:
    """Write a root, and remove it after the block."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        root = Path(name) / store
        print(f"writing {images:,} images: {store}", file=sys.stderr)
        write_root(root, store, images, payloads)
        yield root


def after_steps(root: Path, images: int, ranks: int) -> dict[str, float]:
    """Return what training takes: the most of any rank."""
    found = measured(["--train", root, "--images", images, "--began", time.time()], ranks)
    return {name: max(each[name] for each in found) for name in found[0] if name != "rank"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=1, help="processes of one training")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to write the made-up data (default: a temporary folder)")
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--load", type=Path, nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train_some(arguments.train, arguments.images, arguments.began)
    elif arguments.load:
        load_some(arguments.load, arguments.images, arguments.turns)
    else:
        measure(arguments)


def measure(arguments: argparse.Namespace) -> None:
    """Measure everything, print it and write the record."""
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        (folder / "payloads").mkdir()
        payloads = write_photographs(folder / "payloads").paths
        used: dict[str, dict[str, dict[str, float]]] = {store: {} for store in STORES}
        for count in (FEW, arguments.images):
            with ExitStack() as block:
                roots = [block.enter_context(made_up(folder, store, count, payloads)) for store in STORES]
                for root in roots:
                    used[root.name][str(count)] = after_steps(root, count, arguments.ranks)
                if count == arguments.images:
                    (speeds,) = measured(["--load", *roots, "--images", count, "--turns", arguments.turns])
    few, all_of_them = str(FEW), str(arguments.images)
    record: dict[str, object] = {
        "benchmark": "million_images",
        "device": "cpu",
        "machine": machine("cpu"),
        "versions": versions(),
        "images": arguments.images,
        "few": FEW,
        "ranks": arguments.ranks,
        "steps": STEPS,
        "turns": arguments.turns,
        "command": f"python -m benchmarks.million_images --images {arguments.images} --ranks {arguments.ranks}",
        "memory": used,
        "growth_mb": {
            store: by_count[all_of_them]["resident_mb"] - by_count[few]["resident_mb"]
            for store, by_count in used.items()
        },
        **speeds,
    }
    for store, by_count in used.items():
        numbers = {count: {key: round(value, 1) for key, value in each.items()} for count, each in by_count.items()}
        print(f"{store}: {numbers}")
    print(f"growth of memory, MB: {record['growth_mb']}")
    for name, value in speeds.items():
        print(f"{name.replace('_', ' ')}: {value}")
    leave(record, arguments.save)


if __name__ == "__main__":
    main()
