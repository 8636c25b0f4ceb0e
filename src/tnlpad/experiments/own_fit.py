"""What `tnlpad train DATA` and `tnlpad predict RUN DATA` do, for samples that a program holds.

The same recipe, engine and records: arrays give the run that an .npz file of them would give, under the same name.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tnlpad.data.errors import DataError
from tnlpad.data.own.in_memory import open_samples
from tnlpad.data.own.listing import IN_MEMORY
from tnlpad.experiments.config import configure
from tnlpad.experiments.devices import device_named
from tnlpad.experiments.kept_samples import keep_samples
from tnlpad.experiments.own_data import trainable_parts
from tnlpad.experiments.own_recipe import looks_every
from tnlpad.experiments.predict import class_probabilities, inputs_of_own, wanted_columns
from tnlpad.experiments.run import run
from tnlpad.experiments.shipped import Shipped
from tnlpad.networks.pretrained import name_with_hash
from tnlpad.records.samples import read_data_file
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.training.loop import Record


def train_on(
    data: Any,
    labels: Any,
    out: Path,
    *,
    label: str | None,
    ignore: Sequence[str],
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
    own = open_samples(data, labels, label=label, ids=ids, class_names=class_names, ignored=ignore)
    if own.problems:
        first = own.problems[0]
        warnings.warn(
            f"{len(own.problems):,} samples are left out; sample {first.id[:80]} {first.reason}.", stacklevel=3
        )
    for note in own.notes:
        warnings.warn(f"Note: {note}", stacklevel=3)
    trainable_parts(own)
    place = device_named(device)
    chosen = dict(settings) | _named(weights)
    config = configure(own.shape, method=method, network=network, seed=seed, device=place, settings=chosen)
    if keep_data and own.source == IN_MEMORY:
        own = keep_samples(own, out)
    return run(
        config,
        out,
        own=own,
        weights=weights,
        device=place,
        census_every=looks_every(config.epochs),
        on_epoch=on_epoch,
    )


@contextmanager
def damage_as_data_error() -> Iterator[None]:
    """What is wrong with a record, as the error that programs know."""
    try:
        yield
    except RecordError as error:
        raise DataError(str(error)) from error


def finished_run(run: Path) -> tuple[RunFolder, str | None]:
    """Its folder, and the column that had the labels, if that was said."""
    folder = RunFolder(run)
    if not folder.finished:
        state = "is not finished: go on with the command that began it" if folder.begun else "is no folder of a run"
        raise DataError(f"{run} {state}. Give the folder that `tnlpad train` names, or a result of `fit` with out=.")
    return folder, (read_data_file(run) or {}).get("label_column")


def _named(weights: Path | None) -> dict[str, str]:
    try:
        return {} if weights is None else {"pretrained": name_with_hash(weights)}
    except OSError as error:
        raise DataError(f"weights={str(weights)!r}: cannot be read ({error.strerror or error}).") from error


def probabilities(shipped: Shipped, data: Any, label: str | None = None) -> NDArray[np.float32]:
    """Of every class for every sample; samples that cannot be used are an error, since rows must stay in step.

    Of a table the columns are taken that were trained on. The one called `label` is never one of them.
    """
    own = open_samples(data, label=label, labelled=False, columns=wanted_columns(shipped))
    if own.problems:
        first = own.problems[0]
        raise DataError(
            f"{len(own.problems):,} samples cannot be predicted; sample {first.id[:80]} {first.reason}. Leave them out."
        )
    found: NDArray[np.float32] = torch.cat(list(class_probabilities(shipped, inputs_of_own(own, shipped)))).numpy()
    return found
