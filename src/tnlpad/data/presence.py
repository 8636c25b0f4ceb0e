"""How much of a published dataset is there: a quick look at names and sizes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tnlpad.data.catalogue import DataFile, DatasetInfo, Layout, find
from tnlpad.data.datasets import begun_layout, command, complete_layout
from tnlpad.data.errors import DataError
from tnlpad.data.files import present
from tnlpad.data.food101 import read_classes
from tnlpad.data.root import default_root

State = Literal["bundled", "present", "incomplete", "missing"]


@dataclass(frozen=True, kw_only=True)
class Status:
    """How much of a dataset is there, judged by names and sizes alone."""

    name: str
    state: State
    folder: Path | None
    detail: str


def status(name: str, root: Path | str | None = None) -> Status:
    """A quick look: nothing is read but names, sizes and short lists."""
    return status_of(find(name), Path(root) if root is not None else default_root())


def status_of(info: DatasetInfo, root: Path) -> Status:
    """As `status`, for a record of the catalogue."""
    if info.bundled:
        return Status(name=info.name, state="bundled", folder=None, detail="comes with scikit-learn")
    layout = complete_layout(info, root)
    if layout is not None:
        return _status_of_complete(info, layout, root)
    begun = begun_layout(info, root)
    if begun is None:
        return Status(name=info.name, state="missing", folder=None, detail="")
    layout, missing = begun
    folder = root / layout.folder
    return Status(name=info.name, state="incomplete", folder=folder, detail=f"lacks {', '.join(missing)}")


def _status_of_complete(info: DatasetInfo, layout: Layout, root: Path) -> Status:
    folder = root / layout.folder
    wrong = [file.path for file in layout.files if not _size_is_right(root, layout, file)]
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


def _size_is_right(root: Path, layout: Layout, file: DataFile) -> bool:
    path = present(root, layout, file)
    assert path is not None, "only asked of complete layouts"
    # Of a compressed file the catalogue knows the uncompressed size; finding that out is not quick.
    return file.size is None or path.suffix == ".gz" or path.stat().st_size == file.size
