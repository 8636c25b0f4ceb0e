"""Write cleaned data in the form of the original ones, so that `tnlpad train` reads them, with a log of every change.

X                  the data: a folder of images, a table, an .npz file, or a Hugging Face dataset
X.changes.csv      every label that was replaced and every sample that was dropped, and why
X.decisions.csv    the labels that a person decided on, by their ids in X, for a second round
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tnlpad.atomic_files import replacing_by_path, replacing_folder, write_by_rename, writing_alone
from tnlpad.data.own import OwnDataset
from tnlpad.data.own.decided import decisions_file
from tnlpad.data.own.hugging_face import is_hugging_face
from tnlpad.data.own.manifest import JSON_SUFFIXES, TEXT_SUFFIXES, WORKBOOK_SUFFIX
from tnlpad.data.own.shards import is_shard_folder
from tnlpad.data.own.tables import TextForm
from tnlpad.data.progress import SILENT, Reporter
from tnlpad.errors import DataError
from tnlpad.regular_files import open_regular
from tnlpad.spreadsheets import Formulas
from tnlpad.suspects.clean import CHANGES_HEADER, HEADER, ORIGINAL, Cleaned, Cleaning
from tnlpad.suspects.cleaned_arrays import write_npz
from tnlpad.suspects.cleaned_arrow import as_text_table, cleaned_dataset, write_dataset_folder, write_parquet
from tnlpad.suspects.cleaned_folder import Files, write_image_folder
from tnlpad.suspects.cleaned_rows import NewIds, Source, require_unchanged, source_of
from tnlpad.suspects.cleaned_tables import cleaned_table, write_json_lines, write_text, write_workbook
from tnlpad.suspects.export import write_rows
from tnlpad.suspects.listing import MOVED, RankedRun

Origin = Literal["image folder", "text", "json", "workbook", "parquet", "dataset folder", "arrays", "shards", "record"]
FOLDER = ""  # among suffixes
ORIGINS: dict[Origin, tuple[str, ...]] = {
    "image folder": (FOLDER, *TEXT_SUFFIXES),
    "text": TEXT_SUFFIXES,
    "json": (*JSON_SUFFIXES, *TEXT_SUFFIXES),
    "workbook": (WORKBOOK_SUFFIX, *TEXT_SUFFIXES),
    "parquet": (".parquet", *TEXT_SUFFIXES),
    "dataset folder": (FOLDER, ".parquet", *TEXT_SUFFIXES),
    "arrays": (".npz", *TEXT_SUFFIXES),
    "shards": TEXT_SUFFIXES,
    "record": TEXT_SUFFIXES,
}
KNOWN_SUFFIXES = frozenset(suffix for suffixes in ORIGINS.values() for suffix in suffixes if suffix)
FEATURE_COLUMNS = ("id", "label", "split", ORIGINAL)


def origin_of(run: RankedRun, kept: Sequence[Cleaned]) -> Origin:
    """Return what the data of a run came as; "record" if only their labels and paths are known.

    Raises:
        DataError: The data are gone, and their samples are not files of their own.
    """
    if not run.about:
        return "record"
    source = Path(run.about["path"])
    if os.path.isdir(source):  # False for a path that the system refuses
        if is_shard_folder(source):
            return "shards"
        return "dataset folder" if is_hugging_face(source) else "image folder"
    if not os.path.exists(source) and is_by_path(run, kept):
        return "record"
    run.require_data()
    origins: dict[str, Origin] = {".parquet": "parquet", ".npz": "arrays", WORKBOOK_SUFFIX: "workbook"}
    origins |= dict.fromkeys(JSON_SUFFIXES, "json")
    return origins.get(source.suffix.lower(), "text")


def is_by_path(run: RankedRun, kept: Sequence[Cleaned]) -> bool:
    """Whether the samples are image files of their own."""
    return run.about.get("kind") == "files" and all(row.path is not None for row in kept)


def allowed_suffixes(origin: Origin, run: RankedRun, kept: Sequence[Cleaned]) -> tuple[str, ...]:
    """Return the suffixes that cleaned data may have; `FOLDER` for a folder."""
    kind = run.about.get("kind")
    as_text = kind in ("text", "features") or (kind == "table" and origin != "arrays") or is_by_path(run, kept)
    suffixes = ORIGINS[origin]
    return (
        suffixes
        if as_text or origin in ("shards", "record")
        else tuple(each for each in suffixes if each not in TEXT_SUFFIXES)
    )


def suffix_of(out: Path) -> str:
    """Return the suffix of a file that can be written; `FOLDER` for other names."""
    suffix = out.suffix.lower()
    return suffix if suffix in KNOWN_SUFFIXES else FOLDER


def write_cleaned(
    out: Path,
    run: RankedRun,
    cleaning: Cleaning,
    *,
    files: Files = "link",
    reporter: Reporter = SILENT,
    formulas: Formulas | None = None,
) -> None:
    """Write the samples that are kept, the log of changes, and the decisions of people.

    Args:
        out: A file with a suffix that is allowed, or a folder that does not exist; folders above it are created.
        run: The run.
        cleaning: The samples.
        files: Whether images of a folder become hard links or copies.
        reporter: Receives progress.
        formulas: Finds formulas in the log of changes. The data themselves are never changed for spreadsheets.

    Raises:
        DataError: The data are gone, or have changed since the run.
        OSError: A file cannot be written.
    """
    write = _writer(out, run, cleaning.kept, files, reporter)
    out.parent.mkdir(parents=True, exist_ok=True)
    replacing = replacing_folder if suffix_of(out) == FOLDER else replacing_by_path
    # The data come last: after a kill between them and the logs, the same command writes everything again.
    with writing_alone(out), _put_back_after_errors(out), replacing(out) as target:
        _write_logs(out, cleaning, write(target), formulas)


def _writer(
    out: Path, run: RankedRun, kept: Sequence[Cleaned], files: Files, reporter: Reporter
) -> Callable[[Path], NewIds]:
    """Read the data again, and return what writes the cleaned ones to a path."""
    origin = origin_of(run, kept)
    if origin == "record":
        _require_images(run)
        return lambda target: _write_labels(target, kept)
    writers: dict[Origin, Callable[[_Task], NewIds]] = {
        "image folder": _write_images,
        "shards": _write_images,
        "parquet": _write_dataset,
        "dataset folder": _write_dataset,
        "arrays": _write_arrays,
    }
    task, write = _task(out, run, kept, files, reporter), writers.get(origin, _write_table)
    return lambda target: write(replace(task, target=target))


@contextmanager
def _put_back_after_errors(out: Path) -> Iterator[None]:
    """After an error within the block, let the logs be as they were, unless the data have been replaced already."""
    identity, before = _identity(out), {log: _content(log) for log in (changes_file(out), decisions_file(out))}
    try:
        yield
    except BaseException:
        if _identity(out) == identity:  # else Ctrl-C came between the last rename and the end of the block
            for log, content in before.items():
                with suppress(OSError):
                    _put_back(log, content)
        raise


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _content(log: Path) -> bytes | None:
    try:
        with open_regular(log) as file:
            return file.read()
    except FileNotFoundError:
        return None


def _put_back(log: Path, content: bytes | None) -> None:
    if content is None:
        log.unlink(missing_ok=True)
    elif content != _content(log):
        write_by_rename(log, content)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Task:
    """Where to write which samples of which data.

    They are written to `target`, which takes the name `out` when it is complete.
    """

    out: Path
    target: Path
    source: Source
    data: OwnDataset
    kept: Sequence[Cleaned]
    used: Sequence[str]
    files: Files

    @property
    def suffix(self) -> str:
        return suffix_of(self.out)


def _task(out: Path, run: RankedRun, kept: Sequence[Cleaned], files: Files, reporter: Reporter) -> _Task:
    """Read the data again, and check that they are those of the run."""
    if is_by_path(run, kept):
        require_unchanged(run, run.list_data())  # names the first difference, before every image is read
    data, used = run.open_data(reporter), run.samples["id"]
    return _Task(out=out, target=out, source=source_of(run, data), data=data, kept=kept, used=used, files=files)


def _require_images(run: RankedRun) -> None:
    """Raise DataError if the images of a table that is gone are gone as well."""
    paths = run.samples.get("path", ())
    if run.about and not any(os.path.exists(path or "") for path in paths):
        raise DataError(f"{run.about['path']} is gone, and its images are, such as {paths[0]}. {MOVED}")


def _write_labels(target: Path, kept: Sequence[Cleaned]) -> NewIds:
    write_rows(target, HEADER, (row.fields() for row in kept))
    return {}


def _write_images(task: _Task) -> NewIds:
    if task.suffix == FOLDER:
        return write_image_folder(task.target, task.source, task.kept, task.files)
    return _write_labels(task.target, task.kept)


def _write_dataset(task: _Task) -> NewIds:
    dataset = cleaned_dataset(task.source, task.kept, task.used)
    if task.suffix == FOLDER:
        write_dataset_folder(task.target, task.source, dataset)
    elif task.suffix == ".parquet":
        write_parquet(task.target, task.source, dataset)
    else:
        write_text(task.target, as_text_table(task.source, dataset), TextForm())
    return {}


def _write_arrays(task: _Task) -> NewIds:
    if task.suffix == ".npz":
        return write_npz(task.target, task.source, task.kept, task.used)
    data = task.data
    assert data.features is not None, "only features are written as text"
    place = {name: row for row, name in enumerate(data.ids)}
    rows = ([*(getattr(row, name) for name in FEATURE_COLUMNS), *data.features[place[row.id]]] for row in task.kept)
    write_rows(task.target, (*FEATURE_COLUMNS, *data.columns), rows)
    return {}


def _write_table(task: _Task) -> NewIds:
    table, form = cleaned_table(task.source, task.kept, task.used)
    if task.suffix in JSON_SUFFIXES:
        write_json_lines(task.target, task.source, table)
    elif task.suffix == WORKBOOK_SUFFIX:
        write_workbook(task.target, task.source, table)
    else:
        write_text(task.target, table, form)
    return {}


def _write_logs(out: Path, cleaning: Cleaning, new_ids: NewIds, formulas: Formulas | None) -> None:
    """Write both logs, and let neither have its name before both are complete."""
    changes, decisions = changes_file(out), decisions_file(out)
    decided = sorted((new_ids.get(name, name), label) for name, label in cleaning.decided.items())
    with replacing_by_path(changes) as target:
        write_rows(target, CHANGES_HEADER, (change.fields() for change in cleaning.changes), formulas=formulas)
        if decided:
            write_rows(decisions, ("id", "label"), decided)
    if not decided:
        decisions.unlink(missing_ok=True)  # of data that were written here before


def changes_file(out: Path) -> Path:
    """Return the log of the changes beside cleaned data."""
    return out.with_name(f"{out.name}.changes.csv")


def images_option(out: Path, run: RankedRun, kept: Sequence[Cleaned]) -> Path | None:
    """Return the folder for `--images` when training on a written table; None if paths are relative to the table."""
    origin = origin_of(run, kept)
    if not is_by_path(run, kept) or suffix_of(out) == FOLDER:
        return None
    source = Path(run.about.get("images") or run.about["path"])
    images = source if os.path.isdir(source) else source.parent
    folder = os.path.realpath(out.parent)
    if origin not in ("image folder", "record"):  # with the original paths
        return None if os.path.realpath(images) == folder else images
    paths = [os.path.realpath(row.path) for row in kept if row.path is not None]
    return None if os.path.commonpath([folder, *paths]) == folder else images
