"""Report which files of a dataset are present, and verify that they are as published."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from tnlpad.data.catalogue import DataFile, DatasetInfo, Layout, find
from tnlpad.data.cifar_n import CLEAN, CLEAN_COARSE, WRONG_LABELS, read_cifar_n
from tnlpad.data.datasets import (
    command,
    complete_layout,
    get_again,
    partial_layout,
    read_digits,
    read_human_labels,
    require_layout,
)
from tnlpad.data.files import default_root, mismatch, present
from tnlpad.data.photographs import CLOTHING1M_SPLITS, FOOD101_SPLITS, read_classes, read_clothing1m, read_food101
from tnlpad.data.pixels import undecodable
from tnlpad.data.prepared import open_prepared, prepared_name
from tnlpad.data.progress import SILENT, Reporter
from tnlpad.data.shards import SHARDS_FOLDER, shard_files
from tnlpad.data.storage import FileImages
from tnlpad.errors import DataError
from tnlpad.types import ImageFiles

MAX_PROBLEMS_SHOWN = 5  # of one kind


@dataclass(frozen=True, kw_only=True)
class Status:
    """Presence of a dataset, judged by file names and sizes alone."""

    name: str
    state: Literal["bundled", "present", "incomplete", "missing"]
    folder: Path | None
    detail: str


def status(name: str, root: Path | str | None = None) -> Status:
    """Report whether a dataset is present. Reads only file names, sizes and short lists."""
    return status_of(find(name), Path(root) if root is not None else default_root())


def status_of(info: DatasetInfo, root: Path) -> Status:
    """Like `status`, for a catalogue entry."""
    if info.bundled:
        return Status(name=info.name, state="bundled", folder=None, detail="comes with scikit-learn")
    layout = complete_layout(info, root)
    if layout is not None:
        return _status_of_complete(info, layout, root)
    partial = partial_layout(info, root)
    if partial is None:
        return Status(name=info.name, state="missing", folder=None, detail="")
    layout, missing = partial
    folder = root / layout.folder
    return Status(name=info.name, state="incomplete", folder=folder, detail=f"lacks {', '.join(missing)}")


def _status_of_complete(info: DatasetInfo, layout: Layout, root: Path) -> Status:
    folder = root / layout.folder
    wrong = [file.path for file in layout.files if not _has_right_size(root, layout, file)]
    if wrong:
        return Status(name=info.name, state="incomplete", folder=folder, detail=f"wrong size: {', '.join(wrong)}")
    detail = ""
    if layout.format == "food101":
        try:
            detail = f"{len(read_classes(folder))} of the {info.num_classes} classes"
        except DataError as error:
            return Status(name=info.name, state="incomplete", folder=folder, detail=str(error))
    elif info.images_of and complete_layout(find(info.images_of), root) is None:
        detail = f"the images are missing: {command('get', find(info.images_of), root)}"
    return Status(name=info.name, state="present", folder=folder, detail=detail)


def _has_right_size(root: Path, layout: Layout, file: DataFile) -> bool:
    path = present(root, layout, file)
    assert path is not None, "the layout is complete"
    # The catalogue has the uncompressed size, which is slow to find out for a compressed file.
    return file.size is None or path.suffix == ".gz" or path.stat().st_size == file.size


@dataclass(kw_only=True)
class CheckReport:
    """Result of `check`: what was verified, what is worth knowing, and what is wrong."""

    name: str
    folder: Path | None = None
    verified: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the data are as published, or a subset of that."""
        return not self.problems

    def add_problems(self, problems: list[str], kind: str) -> None:
        """Add the first few problems and the number of the others."""
        self.problems += problems[:MAX_PROBLEMS_SHOWN]
        if len(problems) > MAX_PROBLEMS_SHOWN:
            self.problems.append(f"… and {len(problems) - MAX_PROBLEMS_SHOWN:,} more {kind}.")


def check(name: str, root: Path | str | None = None, *, reporter: Reporter = SILENT) -> CheckReport:
    """Verify a dataset: checksums of published files, or the lists and every image of an image tree.

    Args:
        name: Name in the catalogue.
        root: Folder of all datasets (default: `default_root()`).
        reporter: Receives progress.
    """
    return check_of(find(name), Path(root) if root is not None else default_root(), reporter=reporter)


def check_of(info: DatasetInfo, root: Path, *, reporter: Reporter = SILENT) -> CheckReport:
    """Like `check`, for a catalogue entry."""
    report = CheckReport(name=info.name)
    try:
        if info.bundled:
            _check_digits(info, report)
        else:
            layout = require_layout(info, root)
            report.folder = root / layout.folder
            _CHECKS.get(layout.format, _check_files)(info, layout, root, report, reporter)
    except DataError as error:
        report.problems.append(str(error))
    return report


def _check_digits(info: DatasetInfo, report: CheckReport) -> None:
    sizes = {"train": info.train_size, "test": info.test_size}
    for split, size in sizes.items():
        found = len(read_digits(split).images)
        if found != size:
            report.problems.append(f"scikit-learn bundles {found} {split} digits, not {size}: install it again.")
    report.verified.append(f"{sum(sizes.values()):,} images, bundled with scikit-learn")


def _check_files(info: DatasetInfo, layout: Layout, root: Path, report: CheckReport, reporter: Reporter) -> None:
    for file in layout.files:
        path = present(root, layout, file)
        assert path is not None, "the layout is complete"
        total = file.size or path.stat().st_size

        def advance(done: int, file: DataFile = file, total: int = total) -> None:
            reporter.progress(f"Verifying {file.path}", done, total)

        try:
            problem = mismatch(path, size=file.size, checksums=file.checksums, progress=advance)
        except DataError as error:
            problem = str(error).removesuffix(".")
        if problem:
            report.problems.append(f"{problem}. {get_again(info, root)}")
        elif file.checksums:
            kinds = " and ".join(text.split(":")[0] for text in file.checksums)
            report.verified.append(f"{path}: {kinds}")
        else:
            report.notes.append(f"{path}: no checksum is published for this form; its labels are checked instead.")


def _check_cifar_n(info: DatasetInfo, layout: Layout, root: Path, report: CheckReport, reporter: Reporter) -> None:
    _check_files(info, layout, root, report, reporter)
    if report.problems:
        return
    path = root / layout.folder / layout.files[0].path
    labels = read_cifar_n(path, dataset=info.name, num_classes=info.num_classes)
    for label_set, published in WRONG_LABELS[info.name].items():
        clean = labels[CLEAN_COARSE if label_set.endswith("_coarse") else CLEAN]
        wrong = int(np.count_nonzero(labels[label_set] != clean))
        if wrong != published:
            report.problems.append(
                f"{path}: {wrong:,} labels of {label_set!r} are wrong, {published:,} as published. "
                f"{get_again(info, root)}"
            )
        else:
            report.verified.append(f"{label_set}: {wrong:,} of {len(clean):,} labels are wrong, as published")
    assert info.images_of is not None
    images_info = find(info.images_of)
    if complete_layout(images_info, root) is None:
        report.notes.append(
            f"The images of {info.images_of} are missing, so the order of the labels was not compared with them. "
            f"{get_again(images_info, root)}"
        )
        return
    for label_set in WRONG_LABELS[info.name]:
        read_human_labels(info, images_info, root, label_set)
    report.verified.append(f"the clean labels equal those of {info.images_of} on disk, image by image")


def _check_food101(info: DatasetInfo, layout: Layout, root: Path, report: CheckReport, reporter: Reporter) -> None:
    folder = root / layout.folder
    resize = _check_prepared(folder, report)
    splits = {split: read_food101(folder, split, resize) for split in FOOD101_SPLITS}
    classes = splits["train"].class_names
    unknown = sorted(set(classes) - set(info.class_names))
    if unknown:
        report.problems.append(f"{folder}: Food-101 has no class {', '.join(unknown)}. Restore the published lists.")
    elif len(classes) < info.num_classes:
        report.notes.append(f"A subset: {len(classes)} of the {info.num_classes} classes.")
    for split, published in (("train", info.train_size), ("test", info.test_size)):
        _note_size(split, len(splits[split].paths), published, report)
    _check_images(list(splits.values()), report, reporter)


def _check_clothing1m(info: DatasetInfo, layout: Layout, root: Path, report: CheckReport, reporter: Reporter) -> None:
    folder = root / layout.folder
    resize = _check_prepared(folder, report)
    complete: list[ImageFiles] = []
    for split, (keys_file, _, published) in CLOTHING1M_SPLITS.items():
        if not os.path.isfile(folder / keys_file):
            report.problems.append(
                f"{folder / keys_file} is missing, the list of the {split} images. It comes with the annotations "
                "that the authors give out with the images."
            )
            continue
        files = read_clothing1m(folder, split, resize)
        _note_size(split, len(files.paths), published, report)
        absent = [] if files.store is not None else [path for path in files.paths if not os.path.isfile(path)]
        report.add_problems([f"{path} is missing, and {keys_file} lists it." for path in absent], "missing images")
        if not absent:
            complete.append(files)
    _check_images(complete, report, reporter)


def _check_prepared(folder: Path, report: CheckReport) -> int | None:
    """Compare prepared pixels with their checksums; return their size if there are no other images."""
    prepared = [each for path in sorted(folder.glob(prepared_name("*"))) if (each := open_prepared(path)) is not None]
    for images in prepared:
        problems = list(images.problems())
        report.add_problems(problems, "damaged files")
        if not problems:
            report.verified.append(f"{images.folder.name}: sha256 of {len(images.manifest.parts):,} parts")
    encoded = os.path.isdir(folder / "images") or shard_files(folder / SHARDS_FOLDER)
    return None if encoded or not prepared else prepared[0].manifest.resize


def _note_size(split: str, found: int, published: int, report: CheckReport) -> None:
    if found == published:
        report.verified.append(f"{split}: all {found:,} published images are listed")
    else:
        report.notes.append(f"{split}: {found:,} of the {published:,} images published.")


def _check_images(splits: list[ImageFiles], report: CheckReport, reporter: Reporter) -> None:
    """Decode every image once, unless its pixels are prepared."""
    stores = {
        path: (files.store or FileImages(files.paths), row) for files in splits for row, path in enumerate(files.paths)
    }
    found = list(undecodable(list(stores.values()), reporter=reporter))
    bad = [
        f"{where} is not a readable image ({reason}). Get it again, or remove it from the lists."
        for where, reason in found
    ]
    report.add_problems(bad, "unreadable images")
    if not bad:
        report.verified.append(f"{len(stores):,} images can be decoded")


_CHECKS: dict[str, Callable[[DatasetInfo, Layout, Path, CheckReport, Reporter], None]] = {
    "cifar-n": _check_cifar_n,
    "food101": _check_food101,
    "clothing1m": _check_clothing1m,
}
