"""Save a run's list of samples, their paths and encoders; write samples that a program holds in memory to files."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tnlpad.atomic_files import replacing
from tnlpad.data.own import OwnDataset
from tnlpad.data.own.objects import arrow_table
from tnlpad.data.own.selection import Encoded, Selection
from tnlpad.errors import DataError
from tnlpad.features.backbone import Backbone
from tnlpad.records.samples import has_columns, read_data_file, read_samples, write_decided, write_samples
from tnlpad.runs.choose_backbone import AnyBackbone
from tnlpad.runs.own_data import trainable_parts
from tnlpad.runs.prepare import Data
from tnlpad.types import Index

ENCODER_FOLDER, PROJECTION_FOLDER = "encoder", "projection"  # in the run's folder
MAX_LEFT_OUT = 100  # samples that are listed: of millions, the file would be larger than readers take


def save_samples(folder: Path, own: OwnDataset, data: Data, backbone: AnyBackbone | None) -> None:
    """Write the samples of a run, their paths and what encodes them into its folder."""
    if data.encoder is not None:
        data.encoder.to_files(folder / ENCODER_FOLDER)
    if data.projection is not None:
        data.projection.to_files(folder / PROJECTION_FOLDER)
    labels = np.concatenate([data.noisy.given, own.labels[own.indices("test")]])
    parts = np.full(len(labels), "test", dtype=object)
    parts[data.parts.train], parts[data.parts.validation] = "train", "validation"
    columns: dict[str, Any] = {
        **_places(own),
        "label": labels,
        "label_name": Selection(own.class_names, labels),
        "part": parts,
    }
    about = {
        **location(own),
        "fingerprint": own.shape.fingerprint,
        "groups": _digest_of_groups(own),
        "kind": own.kind,
        "class_names": list(own.class_names),
        "normalisation": {"mean": list(data.normalisation.mean), "std": list(data.normalisation.std)},
        **_origin(backbone),
    }
    write_samples(folder, columns, about)
    write_decided(folder, own.decided)


def save_location(folder: Path, own: OwnDataset, backbone: AnyBackbone | None = None) -> None:
    """Update paths, rows and earlier decisions in a finished run's folder if data or backbone were moved or changed."""
    about = read_data_file(folder) or {}
    now = about | location(own) | ({} if backbone is None else _origin(backbone))
    if now != about or not has_columns(folder, _places(own)):
        samples, row_of = read_samples(folder), {name: row for row, name in enumerate(own.ids)}
        order = np.array([row_of[name] for name in samples.get("id", ())], dtype=np.int64)
        if samples:
            write_samples(folder, samples | _places(own, order), now)
    write_decided(folder, own.decided)


def check_groups(folder: Path, own: OwnDataset) -> None:
    """Raise `DataError` if a run was begun with other groups: they decide on its folds, and not on its hash."""
    about = read_data_file(folder)
    if about is None:
        return
    column = about.get("group_column")
    # Earlier versions recorded the column alone.
    same = about["groups"] == _digest_of_groups(own) if "groups" in about else column == own.group_column
    if not same:
        begun = f"--group {column}" if column is not None else "other groups" if about.get("groups") else "no --group"
        raise DataError(
            f"{folder} was started with {begun}, which decides what samples stay in one fold. Start it with the same "
            "groups as then, or choose another --out."
        )


def _digest_of_groups(own: OwnDataset) -> str | None:
    if own.groups is None:
        return None
    return sha256(json.dumps(sorted(zip(own.ids, own.groups, strict=True))).encode()).hexdigest()


def _places(own: OwnDataset, order: Index | None = None) -> dict[str, Any]:
    """Return ids, absolute paths and rows of samples (default: training and validation samples, then the test part)."""
    if order is None:
        order = np.concatenate(trainable_parts(own))
    return {
        "id": Selection(own.ids, order),
        "path": AbsolutePaths(Selection(own.paths, order)),
        "row": own.rows[order],
    }


class AbsolutePaths(Sequence[str | None]):
    """Paths, made absolute when they are taken."""

    def __init__(self, paths: Sequence[str | None]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        found = self.paths[index]
        return [_absolute(path) for path in found] if isinstance(index, slice) else _absolute(found)


def location(own: OwnDataset) -> dict[str, Any]:
    """Return the facts about data that their fingerprint does not cover."""
    return {
        "path": _absolute(str(own.source)),
        "images": _absolute(str(own.images_folder)) if own.images_folder is not None else None,
        "label_column": own.label_column,
        "ignored": list(own.ignored),
        "columns": list(own.columns),
        "categories": None if own.categories is None else list(own.categories),
        "text_column": own.text_column,
        "group_column": own.group_column,
        "id_column": own.id_column,
        "left_out": [{"id": each.id, "reason": each.reason} for each in own.problems[:MAX_LEFT_OUT]],
        "left_out_count": len(own.problems),
    }


def _origin(backbone: AnyBackbone | None) -> dict[str, Any]:
    """Return what finds a backbone again: its name or folder, and the file of its weights if the user named one."""
    if backbone is None:
        return {"backbone": None}
    name = os.path.abspath(backbone.name) if os.path.isdir(backbone.name) else backbone.name
    file = backbone.file if isinstance(backbone, Backbone) else None
    return {"backbone": name, "backbone_weights": None if file is None else os.path.abspath(file)}


def _absolute(path: str | None) -> str | None:
    return os.path.abspath(path) if path is not None else None


def keep_samples(own: OwnDataset, out: Path) -> OwnDataset:
    """Save samples that a program holds in memory, so that commands can open a run's data again.

    The file, or folder of Parquet files for encoded images, is named by the content and read by `open_dataset`.
    """
    path = out / own.shape.name
    own = replace(own, problems=())  # samples that cannot be used are not saved
    out.mkdir(parents=True, exist_ok=True)
    if own.files is not None:
        _write_images(own, own.files, path)
        return replace(own, source=path)
    if own.texts is not None or own.table is not None:
        _write_rows(own, path)
        categories = None if own.table is None else own.table.category_columns
        text = None if own.texts is None else own.text_column or "text"
        return replace(own, source=path, text_column=text, categories=categories)
    path = path.with_name(f"{path.name}.npz")
    arrays: dict[str, Any] = {"images": own.images}
    if own.features is not None:
        arrays = {"features": own.features, "columns": np.array(own.columns)}
    arrays |= {"labels": own.labels, "ids": np.array(own.ids), "class_names": np.array(own.class_names)}
    arrays |= {"split": np.array(own.parts)} if own.parts is not None else {}
    if not path.exists():
        with replacing(path) as file:
            np.savez(file, **arrays)
    return replace(own, source=path)


def _write_rows(own: OwnDataset, folder: Path) -> None:
    """Write texts or rows of a table as a Parquet file in a folder."""
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    if not (folder / "data.parquet").exists():
        with replacing(folder / "data.parquet") as file:
            pq.write_table(arrow_table(own), file)


def _write_images(own: OwnDataset, files: Sequence[Encoded], folder: Path) -> None:
    """Write a Parquet file for each part, in the format of the Hugging Face Hub."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    features = {"info": {"features": {"label": {"names": list(own.class_names)}}}}
    for part in dict.fromkeys(own.parts or ("train",)):
        if (folder / f"{part}.parquet").exists():
            continue
        rows = own.indices(part)
        content = [each if isinstance(each := files[row], bytes) else Path(each).read_bytes() for row in rows]
        columns = {"id": [own.ids[row] for row in rows], "image": content, "label": own.labels[rows]}
        table = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(features)})
        with replacing(folder / f"{part}.parquet") as file:
            pq.write_table(table, file)
