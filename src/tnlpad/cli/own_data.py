"""Open the user's own data and find the pretrained network for them, for verbs that train."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tnlpad.cli.options import table_options
from tnlpad.cli.output import fail, say
from tnlpad.cli.progress import progress_reporter

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.runs.choose_backbone import ChosenBackbone
    from tnlpad.runs.config import RunConfig


def open_own_data(
    data: str | None,
    *,
    images: Path | None,
    label: str | None,
    text: str | None,
    group: str | None,
    id: str | None,
    ignore: list[str] | None,
    quiet: bool,
) -> "OwnDataset | None":
    """Open the user's own data; None if `data` is the name of a published dataset. Exit with code 3 if they are bad."""
    from tnlpad.data.catalogue import CATALOGUE
    from tnlpad.data.own import is_path, open_dataset
    from tnlpad.data.own.inspect import contradictions
    from tnlpad.errors import DataError

    ignored = ignore or []
    if data is None or data in CATALOGUE or not is_path(data):
        given = {"--images": images, "--label": label, "--ignore": ignored[0] if ignored else None}
        given |= {"--text": text, "--group": group, "--id": id}
        for option, value in given.items():
            if value is not None:
                fail(f"{option} {value} is for your own tables, and {data} is not one. Leave it out.", code=2)
        if data is not None and data not in CATALOGUE:
            say(f"There is no file or folder {data}: looking for a published dataset of that name.", quiet)
        return None
    try:
        with progress_reporter(quiet) as reporter:
            own = open_dataset(
                data, images=images, label=label, text=text, group=group, id=id, ignored=ignored, reporter=reporter
            )
    except DataError as error:
        fail(str(error), code=3)
    check = shlex.join(["tnlpad", "check", data, *table_options(label, ignored, text=text, group=group, id=id)])
    if left_out := len(own.problems):
        say(f"Left out: {left_out:,} of {left_out + len(own.ids):,} samples; `{check}` says why.", quiet)
    for note in own.notes:
        say(f"Note: {note}", quiet)
    if (sentence := contradictions(own)) is not None:
        say(f"Note: {sentence} `{check}` names them.", quiet)
    return own


def say_if_streamed(config: "RunConfig", memory: int, quiet: bool) -> None:
    """Say that the images of a run are read from their files since memory does not hold them."""
    from tnlpad.runs.memory import streaming_sentence

    if (sentence := streaming_sentence(config, memory)) is not None:
        say(sentence, quiet)


def chosen_backbone(
    word: str,
    own: "OwnDataset | None",
    given: Mapping[str, str],
    memory: int,
    *,
    network: str | None,
    weights: Path | None,
    finetune: bool,
    quiet: bool,
) -> "ChosenBackbone":
    """Find the pretrained network for the user's own data, and say which it is; with the settings of a run.

    Args:
        word: The value of `--backbone`.
        own: The data; None for a published dataset, which has none.
        given: Settings of the user.
        memory: Bytes that decoded images may take.
        network: The value of `--network`.
        weights: The value of `--weights`.
        finetune: Whether it is to be trained.
        quiet: Say nothing.
    """
    from tnlpad.runs.choose_backbone import fitting_backbone

    if own is None:
        found = no_backbone(word, weights, finetune)
        return found._replace(settings={**found.settings, **given})
    found = fitting_backbone(word, own, given, memory, network=network, weights=weights, finetune=finetune)
    if found.sentence:
        say(found.sentence, quiet)
    return found


def no_backbone(word: str, weights: Path | None, finetune: bool) -> "ChosenBackbone":
    """Return the initial weights of a run on a published dataset; raise ValueError if a backbone was named."""
    from tnlpad.runs.choose_backbone import ChosenBackbone, initial_weights

    for option, wrong in {f"--backbone {word}": word not in ("none", "auto"), "--finetune": finetune}.items():
        if wrong:
            raise ValueError(f"{option} is for your own data. Leave it out.")
    return ChosenBackbone(None, {}, "") if weights is None else initial_weights(weights)
