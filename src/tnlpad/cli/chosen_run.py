"""Which run the words of a command line mean."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tnlpad.cli.data import progress_reporter
from tnlpad.cli.exit_codes import exit_codes
from tnlpad.cli.options import Protocol, read_settings, table_words
from tnlpad.cli.output import fail, say

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.experiments.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class Words:
    """What of a run can be said in words; None where nothing was said."""

    data: str | None
    noise: str | None
    method: str | None
    network: str | None
    protocol: Protocol | None


def opened(
    data: str | None, images: Path | None, label: str | None, ignore: list[str], quiet: bool
) -> "OwnDataset | None":
    """The person's own data that a word means; None if it is the name of a dataset."""
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.data.errors import DataError
    from tnlpad.data.own import is_path, open_dataset

    if data is None or data in CATALOGUE or not is_path(data):
        if images is not None:
            fail(f"--images {images} is for tables of your own images: leave it out.", code=2)
        if label is not None:
            fail(f"--label {label} is for tables of your own: leave it out.", code=2)
        if ignore:
            fail(f"--ignore {ignore[0]} is for tables of your own: leave it out.", code=2)
        if data is not None and data not in CATALOGUE:
            say(f"There is no file or folder {data} here, so it is taken for the name of a published dataset.", quiet)
        return None
    try:
        with progress_reporter(quiet) as reporter:
            own = open_dataset(data, images=images, label=label, ignored=ignore, reporter=reporter)
    except DataError as error:
        fail(str(error), code=3)
    if own.problems:
        again = shlex.join(["tnlpad", "check", data, *table_words(label, ignore)])
        say(f"{len(own.problems):,} samples are left out; `{again}` says why.", quiet)
    for note in own.notes:
        say(f"Note: {note}", quiet)
    return own


def chosen_run(
    words: Words,
    own: "OwnDataset | None",
    *,
    file: Path | None,
    seed: int | None,
    settings: list[str],
    weights: Path | None,
    device: str,
) -> "RunConfig":
    """The run's configuration.

    Args:
        words: What is said of it in words.
        own: The person's own data, if it is about them.
        file: The configuration of another run, which then says what the words would.
        seed: None is that of the file, or 1.
        settings: Texts of `--set`.
        weights: A file of weights to begin with.
        device: Where it will run.
    """
    with exit_codes():
        given = read_settings(settings) | _named(weights)
        if file is None:
            return _from_words(words, own, seed, device, given)
        return _from_file(words, own, file, seed, given)


def _named(weights: Path | None) -> dict[str, str]:
    """The setting that a file of weights means: its name with the first digits of its SHA-256, wherever it lies."""
    if weights is None:
        return {}
    from tnlpad.networks.pretrained import name_with_hash

    try:
        return {"pretrained": name_with_hash(weights)}
    except OSError as error:
        fail(f"--weights {weights}: cannot be read ({error.strerror or error}).", code=3)


def _from_words(
    words: Words, own: "OwnDataset | None", seed: int | None, device: str, settings: Mapping[str, str]
) -> "RunConfig":
    from tnlpad.experiments.config import configure

    if words.data is None:
        raise ValueError("Say what to train on, such as `tnlpad train mnist`; `tnlpad data list` shows what there is.")
    return configure(
        words.data if own is None else own.shape,
        noise=words.noise or "none",
        protocol=words.protocol or "paper",
        method=words.method or "tnlpad",
        network=words.network,
        seed=1 if seed is None else seed,
        device=device,
        settings=settings,
    )


def _from_file(
    words: Words, own: "OwnDataset | None", file: Path, seed: int | None, settings: Mapping[str, str]
) -> "RunConfig":
    from tnlpad.experiments.config import from_json, with_settings

    fixed = ("noise", "method", "network", "protocol", *(() if own is not None else ("data",)))
    if said := [name for name in fixed if getattr(words, name)]:
        raise ValueError(
            f"--config {file} says what to run, and so do you ({', '.join(said)}): leave one out. --seed and --set may "
            "be given beside --config."
        )
    try:
        plain = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"--config {file}: cannot be read ({error}). Give a run's config.json.") from error
    if not isinstance(plain, dict):
        raise ValueError(f"--config {file}: not a JSON object. Give a run's config.json.")
    changed = {} if seed is None else {"seed": seed}
    return with_settings(from_json(plain | changed), settings)
