"""What `tnlpad train DATA` and `tnlpad predict RUN DATA` do, for samples that a program holds.

The same recipe, engine and records: arrays give the run that an .npz file of them would give, under the same name.

Train on samples that a program holds, and see which of their labels are wrong: `tnlpad.fit` and `tnlpad.load`.

>>> import tnlpad
>>> result = tnlpad.fit(images, labels)  # doctest: +SKIP
>>> result.noise_rate, result.suspects[0]  # doctest: +SKIP

A thin layer: `fit` does what `tnlpad train DATA` does, and the result says what `tnlpad suspects RUN` says. `load`
gives the result of a run that is finished already.
"""

import re
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tnlpad.data.own.dataset import IN_MEMORY
from tnlpad.data.own.objects import open_samples
from tnlpad.errors import DataError
from tnlpad.networks.pretrained import name_with_hash
from tnlpad.records.scores import read_data_file
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.runs.config import configure
from tnlpad.runs.devices import device_named
from tnlpad.runs.own_data import keep_samples, trainable_parts
from tnlpad.runs.predict import class_probabilities, inputs_of_own, wanted_columns
from tnlpad.runs.recipes import looks_every
from tnlpad.runs.run import run
from tnlpad.runs.shipped import Shipped, load_shipped
from tnlpad.suspects.listing import JudgedSamples, Suspect, judged
from tnlpad.training.loop import Record

if TYPE_CHECKING:
    import pandas as pd


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


def fit(
    data: Any,
    labels: Any = None,
    *,
    label: str | None = None,
    ignore: str | Sequence[str] = (),
    ids: Sequence[Any] | None = None,
    class_names: Sequence[str] | None = None,
    method: str = "tnlpad",
    network: str | None = None,
    seed: int = 1,
    settings: Mapping[str, Any] | None = None,
    weights: str | PathLike[str] | None = None,
    device: str = "auto",
    out: str | PathLike[str] | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> "Result":
    """Train a classifier on samples whose labels are partly wrong, and judge every label.

    Nothing has to be known about the noise. A tenth of the samples is held out with the labels as they are, and chooses
    the epoch; a dataset with a validation part of its own uses that. Samples that cannot be used (features that are not
    finite, unreadable images, no label) are left out with a warning.

    Args:
        data: What to train on, one of

            - images: a NumPy array or tensor of 8-bit numbers, or of fractions from 0 to 1, of shape N×H×W, N×H×W×C or
              N×C×H×W; or a list of Pillow's pictures, of any sizes
            - features: N×D numbers, on any scale; a table of pandas may hold the labels, in the column `label=`
            - a torch `Dataset` of (image, label) without augmentation and normalisation, which training does by itself
            - a Hugging Face `Dataset` or `DatasetDict` with a column of images, or columns of numbers, and `label` or
              the column `label=`
            - a path, as `tnlpad train` takes it: an image folder, a CSV or Parquet table, an .npz file, a Hugging Face
              dataset on disk
        labels: One for each sample, whole numbers or texts; not where the data hold them.
        label: The column that has them, where a table, a Hugging Face dataset or a path calls it otherwise than
            `label`: what `--label` takes.
        ignore: Columns of a table of numbers, in a file or of pandas, not to look at: what `--ignore` takes.
        ids: Names of the samples, by which the suspects are listed; their places when not given.
        class_names: What the labels 0, 1, 2 … are called.
        method, network: As for `tnlpad train`; the network by default goes with the size of the images.
        seed: Of every random decision.
        settings: Any other setting by its name, such as {"epochs": 20}: what `--set` takes.
        weights: A file of weights to begin with, of `network`: .pth, .pt or .safetensors.
        device: "cpu", "cuda" or "auto".
        out: The folder for the run's record. The same call with the same folder goes on with a run that was
            interrupted, and repeats none that is finished; `tnlpad suspects`, `clean`, `predict` and `export` take the
            run in it. By default a temporary folder that goes away with the result.
        on_epoch: Told the record of every epoch when it ends.

    Raises:
        tnlpad.DataError: The data cannot be trained on; the message says what is wrong and what would be right.
        ValueError: An argument or a setting is unknown or out of range.
    """
    place = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="tnlpad-"))
    try:
        folder = train_on(
            data,
            labels,
            place,
            label=label,
            ignore=[ignore] if isinstance(ignore, str) else ignore,
            ids=ids,
            class_names=class_names,
            method=method,
            network=network,
            seed=seed,
            settings=settings or {},
            weights=Path(weights) if weights is not None else None,
            device=device,
            keep_data=out is not None,
            on_epoch=on_epoch,
        )
        result = _result(judged(folder), label)
    except BaseException:
        if out is None:
            shutil.rmtree(place, ignore_errors=True)
        raise
    if out is None:
        weakref.finalize(result, shutil.rmtree, place, ignore_errors=True)
    return result


def load(run: str | PathLike[str]) -> "Result":
    """The result of a finished run on own data, such as one that `tnlpad train` left; its data are not needed.

    Args:
        run: Its folder.

    Raises:
        tnlpad.DataError: There is no such run, it is not finished, kept no scores, or is damaged.
    """
    with damage_as_data_error():
        folder, label = finished_run(Path(run))
        return _result(judged(folder), label)


def _result(found: JudgedSamples, label: str | None) -> "Result":
    run = found.folder
    return Result(folder=run.path, summary=run.summary(), shipped=load_shipped(run), judged=found, label=label)


class Classifier(nn.Module):
    """σ of a finished run, in evaluation mode; gives logits.

    Takes a tensor N×C×H×W of images of the size trained on, 8-bit or fractions from 0 to 1; of features N×D as they are
    in the data. Normalisation is inside.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.eval()

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits, one row per sample, in the order of the result's classes."""
        fractions = inputs / 255 if inputs.dtype == torch.uint8 else inputs.float()
        logits: Tensor = self.network(fractions)
        return logits


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """A trained classifier and what it found out about the labels.

    Args:
        folder: The run's record; temporary, unless `fit` was told where to leave it.
        summary: Of that record: the chosen epoch, its accuracies, the settings.
        shipped: The network with all that is needed to use it.
        judged: Every sample's scores.
        label: The column that had the labels, if `fit` was told: data to predict on may have it too.
    """

    folder: Path
    summary: Mapping[str, Any] = field(repr=False)
    shipped: Shipped = field(repr=False)
    judged: JudgedSamples = field(repr=False)
    label: str | None = field(default=None, repr=False)

    @cached_property
    def model(self) -> Classifier:
        """σ alone, an ordinary module in evaluation mode; see `Classifier` for what it takes."""
        return Classifier(self.shipped.network)

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The labels in the order of the model's outputs: whole numbers if all of them are, else texts."""
        names = self.shipped.class_names
        whole = all(re.fullmatch("0|-?[1-9][0-9]*", name) for name in names)  # 007 is another label than 7
        return np.array([int(name) for name in names] if whole else names)

    @cached_property
    def suspects(self) -> list[Suspect]:
        """Labels that are more likely wrong than right and have a better one to suggest, the most suspicious first."""
        return self.judged.suspects()

    def ranked(self, top: int | None = None) -> list[Suspect]:
        """The `top` most suspicious samples, or all samples in order of suspicion."""
        return self.judged.suspects(len(self.judged.scores) if top is None else top)

    @property
    def noise_rate(self) -> float:
        """The estimated share of wrong labels."""
        return self.judged.ranking.estimate.noise_rate

    @property
    def noise_rate_interval(self) -> tuple[float, float]:
        """Where that share probably lies, at 95 %; see docs/own_data.md for what it assumes."""
        return self.judged.ranking.estimate.noise_rate_interval

    @property
    def transition(self) -> NDArray[np.float64]:
        """The estimate of transition[i, j] = P(given j | true i), in the order of `classes`."""
        return self.judged.ranking.estimate.transition

    @property
    def validation_accuracy(self) -> float:
        """The share of held-out samples, with their labels as given, that the chosen epoch's σ gets right."""
        return float(self.summary["chosen"]["validation_accuracy"])

    @property
    def caution(self) -> str | None:
        """Why the estimates should not be believed, where the network hardly agrees with labels that it never saw."""
        return self.judged.caution

    def predict_proba(self, data: Any) -> NDArray[np.float32]:
        """The probability of each class for samples of any kind that `fit` takes; labels are not needed or used."""
        return probabilities(self.shipped, data, self.label)

    def predict(self, data: Any) -> NDArray[Any]:
        """The most probable class of each sample, as `classes` has them."""
        labels: NDArray[Any] = self.classes[self.predict_proba(data).argmax(1)]
        return labels

    def to_pandas(self, top: int | None = None) -> "pd.DataFrame":
        """The suspects, or the `top` of all samples, as a table; needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("pandas is missing: pip install pandas, or use the list `suspects`.") from error
        listed = self.suspects if top is None else self.ranked(top)
        columns = [each.name for each in fields(Suspect)]
        return pd.DataFrame([each.to_json() for each in listed], columns=columns)
