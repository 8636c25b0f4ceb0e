"""`tnlpad train`: one run from its words to its record, resumed if it was begun before."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tnlpad.cli.begun_run import require_begun, tell_of_changed_data
from tnlpad.cli.chosen_run import Words, chosen_run, opened
from tnlpad.cli.exit_codes import ending_early, exit_codes
from tnlpad.cli.options import Device, IgnoredColumns, LabelColumn, Out, Protocol, Quiet, Root
from tnlpad.cli.output import fail, print_json, say, used_folder
from tnlpad.cli.run_progress import run_progress
from tnlpad.cli.run_words import print_summary
from tnlpad.cli.suspect_files import verdict, write_beside_run
from tnlpad.cli.tensorboard import tensorboard_log
from tnlpad.cli.where import checked_device


def train(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Your own data (a folder with a folder of images per class, a CSV or Parquet table, an .npz file, a "
            "Hugging Face dataset on disk), or a name that `tnlpad data list` shows.",
        ),
    ] = None,
    data_option: Annotated[str | None, typer.Option("--data", metavar="DATA", help="The same, by name.")] = None,
    noise: Annotated[
        str | None, typer.Option("--noise", metavar="NOISE", help="Such as symmetric:0.4; none by default.")
    ] = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="How to train; tnlpad by default.")] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What to train; by default the paper's for a published dataset, for your own one of their size.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Of every random decision; 1 by default.")
    ] = None,
    protocol: Annotated[
        Protocol | None,
        typer.Option(help="Whom to follow where they differ; the paper by default."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting, such as epochs=20. May be repeated."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A run's config.json; --seed and --set still count.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="What the paths in a table of images are relative to.")
    ] = None,
    label: LabelColumn = None,
    ignore: IgnoredColumns = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Weights to begin with, of --network: a .pth, .pt or .safetensors file."),
    ] = None,
    out: Out = Path("runs"),
    root: Root = None,
    device: Device = "auto",
    engine: Annotated[
        Literal["auto", "eager", "graph"],
        typer.Option(help="How steps run; auto replays CUDA graphs on a GPU. The numbers are the same."),
    ] = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Fail if this run was never begun. Going on needs no option.")
    ] = False,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="At most one checkpoint in so long; 0 is every epoch.")
    ] = 0.0,
    scores: Annotated[
        bool | None,
        typer.Option(
            "--scores/--no-scores",
            help="Score every sample, and list the labels that look wrong; on for your own data.",
        ),
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard's files as well.")] = False,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON document.")] = False,
) -> None:
    """Train a classifier and record how it went.

    A run that was interrupted goes on from its last checkpoint when the same
    command is given again; a finished one is shown and not repeated. Of your
    own data it lists the labels that are probably wrong, with a page to look at:
    suspects/index.html in the run's folder.

    Example: tnlpad train digits --noise symmetric:0.4 --set epochs=20
    """
    say("Loading torch.", quiet)
    from tnlpad.experiments.own_recipe import looks_every
    from tnlpad.experiments.run import run

    words = Words(data=_one_dataset(data, data_option), noise=noise, method=method, network=network, protocol=protocol)
    where = checked_device(device)
    own = opened(words.data, images, label, ignore or [], quiet)
    chosen = chosen_run(words, own, file=config, seed=seed, settings=setting or [], weights=weights, device=where)
    tell_of_changed_data(chosen, own, out, resume, quiet)
    if resume:
        require_begun(chosen, out)
    keep_scores = own is not None if scores is None else scores  # it costs extra passes over the data

    say(f"{chosen.run_id} on {where}", quiet)
    with (
        used_folder(out, "--out") as folder,
        exit_codes(),
        ending_early(kept="The last checkpoint, if there is one yet, is"),
        tensorboard_log(tensorboard, folder / chosen.run_id) as log,
        run_progress(chosen.epochs, quiet) as (on_step, show),
    ):

        def on_epoch(record: Mapping[str, Any]) -> None:
            log(record)
            show(record)

        # Decoding has no bar of its own here: two at once would write over each other.
        finished = run(
            chosen,
            folder,
            own=own,
            root=root,
            weights=weights,
            device=where,
            engine=engine,
            checkpoint_every_seconds=checkpoint_every,
            census_every=looks_every(chosen.epochs) if keep_scores else None,
            on_step=on_step,
            on_epoch=on_epoch,
        )

    if as_json:
        print_json(finished.summary())
    else:
        print_summary(finished.summary(), finished.path)
    if not keep_scores:
        return
    with ending_early(kept="The finished run is"):
        listed = write_beside_run(finished, own, root, quiet)
    if listed is not None and not as_json:
        found, page = listed
        typer.echo(verdict(found))
        typer.echo(f"Suspect labels: {page}")


def _one_dataset(argument: str | None, option: str | None) -> str | None:
    if argument is not None and option is not None and argument != option:
        fail(f"DATA is {argument} and --data is {option}: name one dataset.", code=2)
    return argument if argument is not None else option
