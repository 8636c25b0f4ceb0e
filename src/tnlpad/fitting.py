"""Train on samples in memory and find their wrong labels: `tnlpad.fit`.

>>> import tnlpad
>>> result = tnlpad.fit(images, labels)  # doctest: +SKIP
>>> result.noise_rate, result.suspects[0]  # doctest: +SKIP
>>> kept, cleaned = result.clean()  # doctest: +SKIP

`fit` does what `tnlpad train DATA` does, with the same recipe, engine and records. Arrays give the same run name as an
.npz file with the same content. The result (`result.py`) offers what `tnlpad suspects`, `clean` and `predict` do.
"""

import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tnlpad.data.own.columns import label_column, without
from tnlpad.data.own.dataset import IN_MEMORY, OwnDataset
from tnlpad.data.own.inspect import contradictions
from tnlpad.data.own.objects import holds_labels, labels_of, open_samples
from tnlpad.errors import as_utf8
from tnlpad.features.cache import default_cache
from tnlpad.progress import is_watched, progress_reporter, run_progress
from tnlpad.result import Given, Result, result_of
from tnlpad.runs.begun import as_begun
from tnlpad.runs.choose_backbone import fitting_backbone
from tnlpad.runs.config import RunConfig, configure
from tnlpad.runs.devices import device_named
from tnlpad.runs.memory import image_memory, streaming_sentence
from tnlpad.runs.own_data import trainable_parts
from tnlpad.runs.recipes import scoring_interval
from tnlpad.runs.run import run
from tnlpad.runs.saved_samples import keep_samples
from tnlpad.suspects.listing import rank_run


def fit(
    data: Any,
    labels: Any = None,
    *,
    label: Hashable = None,
    text: Hashable = None,
    group: Any = None,
    id: Hashable = None,
    ignore: Hashable | Sequence[Hashable] = (),
    ids: Sequence[Any] | None = None,
    class_names: Sequence[str] | None = None,
    method: str = "tnlpad",
    network: str | None = None,
    seed: int = 1,
    settings: Mapping[str, Any] | None = None,
    weights: str | PathLike[str] | None = None,
    backbone: str = "auto",
    finetune: bool = False,
    device: str = "auto",
    out: str | PathLike[str] | None = None,
    progress: bool | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> Result:
    """Train a classifier on samples whose labels are partly wrong, and score every label.

    Nothing has to be known about the noise. A tenth of the samples, or the data's own validation part, is held out with
    the given labels and chooses the epoch. Texts, and images with a backbone, are judged out of fold instead. Samples
    that cannot be used (features that are not finite, unreadable images, no label) are left out with a warning.

    Args:
        data: The samples, one of

            - images: a NumPy array or tensor of 8-bit numbers, or of fractions from 0 to 1, of shape N×H×W, N×H×W×C or
              N×C×H×W; or a list of Pillow images of any sizes
            - features: N×D numbers on any scale; a pandas DataFrame may hold the labels in the column `label=`
            - texts: a list of str, or a column `text=` of a DataFrame or of a table at a path
            - a torch `Dataset` of (image, label) without augmentation and normalisation, which training adds
            - a Hugging Face `Dataset` or `DatasetDict` with a column of images, or columns of numbers, and a label
              column
            - a path, as `tnlpad train` takes it: an image folder, a CSV or Parquet table, an .npz file, a Hugging Face
              dataset on disk
        labels: One whole number or text per sample, unless the data hold them.
        label: Name of the label column (default: label). A DataFrame may have columns without text as names, such as 4.
        text: Name of the text column, to train on texts.
        group: Name of a column, or one value per sample: samples of one group are never judged by networks that learnt
            from another sample of it. Only for samples that are judged out of fold.
        id: Name of the column with the ids of the samples, for the list of suspects (default: id).
        ignore: Columns of a table to exclude.
        ids: Ids of samples without such a column (default: the index of a DataFrame unless it counts the rows, else the
            row numbers).
        class_names: Names of the labels 0, 1, 2 …
        method, network: As for `tnlpad train`; by default the network fits the size of the images.
        seed: Random seed.
        settings: Any other setting by its name, such as {"epochs": 20}.
        weights: A file of weights, .pth, .pt or .safetensors: initial ones for `network`, or those of the `backbone`.
        backbone: Pretrained network whose features are trained on: "lite", a Hugging Face model or its folder, a
            network of ours with `weights`, "auto" (lite for photographs, if it is installed), or "none".
        finetune: Train the backbone itself, lite or a network of ours, from its weights.
        device: "cpu", "cuda" or "auto".
        out: Folder for the run (default: a temporary folder, removed with the result). The same call with the same
            folder resumes an interrupted run and does not repeat a finished one. `tnlpad suspects`, `clean`, `predict`
            and `export` take the run.
        progress: Show the progress on stderr (default: in a terminal or a notebook).
        on_epoch: Called with the record of each epoch.

    Raises:
        tnlpad.DataError: The data cannot be trained on; the message says why and what to do.
        ValueError: An argument or a setting is unknown or out of range.
        TypeError: `network` is not a name.
    """
    if network is not None and not isinstance(network, str):
        raise TypeError(
            f'network={type(network).__name__}(...): give the name of a network, such as "small_cnn". For a module of '
            "your own, use tnlpad.Decomposition."
        )
    label, text, id = map(_name, (label, text, id))
    group = str(group) if np.isscalar(group) else group
    excluded = [str(ignore)]
    if isinstance(ignore, Iterable) and not isinstance(ignore, str):
        excluded = [str(each) for each in ignore]
    labels = list(labels) if isinstance(labels, Iterator) else labels  # which are read twice
    quiet = not (is_watched() if progress is None else progress)
    with progress_reporter(quiet, samples=True) as reporter:
        own = open_samples(
            data,
            labels,
            label=label,
            ids=ids,
            class_names=class_names,
            ignored=excluded,
            text=text,
            group=group,
            id=id,
            reporter=reporter,
        )
    for sentence in _about(own):
        warnings.warn(sentence, stacklevel=2)
    trainable_parts(own)
    given = _given(data, labels, label, excluded)
    chosen_device = device_named(device)
    all_settings = dict(settings or {})
    initial = Path(weights) if weights is not None else None
    memory = image_memory()
    encoded_by = fitting_backbone(
        backbone, own, all_settings, memory, network=network, weights=initial, finetune=finetune
    )
    config = configure(
        own.shape,
        method=method,
        network=network,
        seed=seed,
        device=chosen_device,
        backbone=encoded_by.identity,
        finetune=finetune,
        settings=encoded_by.settings,
    )
    _warn_if_streamed(config, memory)
    as_utf8(os.path.abspath(out or ""), "out", ValueError)
    place = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="tnlpad-"))
    (config,) = as_begun([config], place, own, all_settings)
    try:
        if out is not None and own.source == IN_MEMORY:
            own = keep_samples(own, place)  # for commands that open the data again
        with run_progress(config.epochs, quiet) as shown:

            def after_epoch(record: dict[str, Any]) -> None:
                shown.on_epoch(record)
                if on_epoch is not None:
                    on_epoch(record)

            folder = run(
                config,
                place,
                own=own,
                weights=initial,
                backbone=encoded_by.backbone,
                cache=default_cache(),
                device=chosen_device,
                scoring_interval=scoring_interval(config.epochs),
                reporter=shown.reporter,
                on_step=shown.on_step,
                on_epoch=after_epoch,
            )
        result = result_of(rank_run(folder), label, own, given)
    except BaseException:
        if out is None:
            shutil.rmtree(place, ignore_errors=True)
        raise
    if out is None:
        weakref.finalize(result, shutil.rmtree, place, ignore_errors=True)
    return result


def _name(column: Hashable) -> str | None:
    return None if column is None else str(column)


def _about(own: OwnDataset) -> Iterator[str]:
    """Yield what to know about the data before they are trained on."""
    if left_out := len(own.problems):
        first, samples = own.problems[0], left_out + len(own.ids)
        yield f"Left out: {left_out:,} of {samples:,} samples. Sample {first.id[:80]}: {first.reason}."
    yield from (f"Note: {note}" for note in own.notes)
    if (sentence := contradictions(own)) is not None:
        yield f"Note: {sentence}"


def _warn_if_streamed(config: RunConfig, memory: int) -> None:
    if (sentence := streaming_sentence(config, memory)) is not None:
        warnings.warn(f"Note: {sentence}", stacklevel=3)


def _given(data: Any, labels: Any, label: str | None, ignored: Sequence[str]) -> Given | None:
    if holds_labels(data):
        return None
    if labels is None and hasattr(data, "columns"):
        names = {str(key): key for key in data.columns}
        column = names[label_column(label, without(ignored, names, IN_MEMORY), IN_MEMORY) or ""]
        frame = data.copy(deep=False)  # the program may sort its own in place before it cleans
        frame[column] = data[column].copy()
        return Given(frame=frame, column=column)
    values = labels_of(labels)
    return Given(labels=list(values.ravel() if hasattr(values, "ravel") else values))
