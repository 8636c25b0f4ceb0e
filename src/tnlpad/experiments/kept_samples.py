"""Samples that a program holds, saved beside its runs, so that commands can open the data of a run again."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tnlpad.data.own import OwnDataset
from tnlpad.data.own.listing import Encoded
from tnlpad.records.store import replacing


def keep_samples(own: OwnDataset, out: Path) -> OwnDataset:
    """The same samples in files that `open_dataset` reads: an .npz, or tables of pictures. Their name says which."""
    path = out / own.shape.name
    out.mkdir(parents=True, exist_ok=True)
    if own.files is not None:
        _write_pictures(own, own.files, path)
        return replace(own, source=path)
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


def _write_pictures(own: OwnDataset, files: Sequence[Encoded], folder: Path) -> None:
    """A Parquet file of each part, as the Hugging Face Hub has them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    meaning = {"info": {"features": {"label": {"names": list(own.class_names)}}}}
    for part in dict.fromkeys(own.parts or ("train",)):
        if (folder / f"{part}.parquet").exists():
            continue
        rows = own.indices(part)
        content = [each if isinstance(each := files[row], bytes) else Path(each).read_bytes() for row in rows]
        columns = {"id": [own.ids[row] for row in rows], "image": content, "label": own.labels[rows]}
        table = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(meaning)})
        with replacing(folder / f"{part}.parquet") as file:
            pq.write_table(table, file)
