"""What `tnlpad train DATA` and `tnlpad predict RUN DATA` do, for samples that a program holds.

The same recipe, engine and records: arrays give the run that an .npz file of them would give, under the same name.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tnlpad.data.errors import DataError
from tnlpad.data.in_memory import IN_MEMORY, open_samples
from tnlpad.data.listing import Encoded
from tnlpad.data.own import OwnDataset
from tnlpad.experiments.config import configure, device_settings
from tnlpad.experiments.devices import device_named
from tnlpad.experiments.own_data import trainable_parts
from tnlpad.experiments.own_recipe import looks_every
from tnlpad.experiments.predict import AT_ONCE, inputs_of_own
from tnlpad.experiments.run import run
from tnlpad.experiments.shipped import Shipped
from tnlpad.networks.pretrained import name_with_hash
from tnlpad.records.store import RunFolder, replacing
from tnlpad.training.loop import Record


def train_on(
    data: Any,
    labels: Any,
    out: Path,
    *,
    ids: Sequence[Any] | None,
    class_names: Sequence[str] | None,
    method: str,
    network: str | None,
    seed: int,
    settings: Mapping[str, Any],
    weights: Path | None,
    device: str,
    keep_data: bool,
    on_epoch: Callable[[Record], None] | None,
) -> RunFolder:
    """Open the samples, configure the run and carry it to its end, scores included.

    `keep_data` saves the samples beside the run, for commands that open its data again.
    """
    own = open_samples(data, labels, ids=ids, class_names=class_names)
    if own.problems:
        first = own.problems[0]
        warnings.warn(
            f"{len(own.problems):,} samples are left out; sample {first.id[:80]} {first.reason}.", stacklevel=3
        )
    trainable_parts(own)
    place = device_named(device)
    chosen = device_settings(place) | dict(settings) | _named(weights)
    config = configure(own.shape, method=method, network=network, seed=seed, settings=chosen)
    if keep_data and own.source == IN_MEMORY:
        own = _kept(own, out)
    return run(
        config,
        out,
        own=own,
        weights=weights,
        device=place,
        census_every=looks_every(config.epochs),
        on_epoch=on_epoch,
    )


def _named(weights: Path | None) -> dict[str, str]:
    try:
        return {} if weights is None else {"pretrained": name_with_hash(weights)}
    except OSError as error:
        raise DataError(f"weights={str(weights)!r}: cannot be read ({error.strerror or error}).") from error


def _kept(own: OwnDataset, out: Path) -> OwnDataset:
    """The same samples in files that `open_dataset` reads: an .npz, or tables of pictures. Their name says which."""
    path = out / own.shape.name
    out.mkdir(parents=True, exist_ok=True)
    if own.files is not None:
        _write_pictures(own, own.files, path)
        return replace(own, source=path)
    path = path.with_name(f"{path.name}.npz")
    arrays: dict[str, Any] = {"images": own.images} if own.images is not None else {"features": own.features}
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


@torch.no_grad()
def probabilities(shipped: Shipped, data: Any) -> NDArray[np.float32]:
    """Of every class for every sample; samples that cannot be used are an error, since rows must stay in step."""
    own = open_samples(data, labelled=False)
    if own.problems:
        first = own.problems[0]
        raise DataError(
            f"{len(own.problems):,} samples cannot be predicted; sample {first.id[:80]} {first.reason}. Leave them out."
        )
    inputs, network = inputs_of_own(own, shipped), shipped.network
    device, rows = network.mean.device, []
    for start in range(0, len(inputs.ids), AT_ONCE):
        values = np.asarray(inputs.rows(start, min(start + AT_ONCE, len(inputs.ids))), dtype=np.float32)
        rows.append(network(torch.from_numpy(values).to(device)).softmax(1).cpu())
    found: NDArray[np.float32] = torch.cat(rows).numpy()
    return found
