"""What a run says of its labels, as files and in a sentence: for `tnlpad suspects`, and where `tnlpad train` ends."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tnlpad.cli.output import say
from tnlpad.cli.shown_samples import numbers_of, pictures_of

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset
    from tnlpad.records.store import RunFolder
    from tnlpad.suspects.judged import JudgedSamples
    from tnlpad.suspects.listing import Suspect

FORMATS = ("csv", "parquet", "label-studio", "cleanlab", "html")
FILES = {"csv": "suspects.csv", "html": "index.html"}  # of those that are written by default
DEFAULT_FORMATS = tuple(FILES)


def verdict(found: "JudgedSamples") -> str:
    """How many labels are suspect, and how many are probably wrong in all; or why not to believe it."""
    if found.caution is not None:
        return f"Caution: {found.caution}"
    ranking = found.ranking
    rate, (low, high) = ranking.estimate.noise_rate, ranking.estimate.noise_rate_interval
    return (
        f"{ranking.suspects:,} of {len(ranking.order):,} labels are more likely wrong than right.\n"
        f"Estimated share of wrong labels: {100 * rate:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)."
    )


def write_beside_run(
    folder: "RunFolder", own: "OwnDataset | None", root: Path | None, quiet: bool
) -> "tuple[JudgedSamples, Path] | None":
    """The list of a run that was trained, and its page, in the run's own folder; what is there already stays.

    Raises:
        OSError: It cannot be written.
    """
    from tnlpad.records.scores import SCORES_FILE
    from tnlpad.records.store import RecordError
    from tnlpad.suspects.judged import judged

    try:
        found = judged(folder)
    except RecordError as error:
        none_kept = not (folder.path / SCORES_FILE).exists()  # a run that was finished before, without
        say(f"No list of suspects: {error}", quiet and none_kept)
        return None
    place = folder.path / "suspects"
    missing = [name for name in DEFAULT_FORMATS if not (place / FILES[name]).exists()]
    write_suspects(place, missing, found, found.suspects(), own=own, root=root, quiet=quiet)
    return found, place / FILES["html"]


def write_suspects(
    folder: Path,
    formats: Sequence[str],
    found: "JudgedSamples",
    listed: "Sequence[Suspect]",
    *,
    own: "OwnDataset | None",
    root: Path | None,
    quiet: bool,
) -> list[Path]:
    """The list in each of the formats, and where each was written.

    Args:
        folder: Made if need be.
        formats: Of `FORMATS`.
        found: The run.
        listed: Its suspects.
        own: The person's own data, where they are open already.
        root: Where published datasets lie.
        quiet: Whether nothing is said of pictures that are missing.
    """
    from tnlpad.records.store import write_by_rename
    from tnlpad.suspects.export import write_csv, write_for_cleanlab, write_label_studio, write_parquet
    from tnlpad.suspects.page import suspects_page

    def page() -> list[Path]:
        path = folder / FILES["html"]
        text = suspects_page(
            _title(found),
            listed,
            found.ranking,
            found.scores.class_names,
            pictures_of(found, own, root, quiet),
            _facts(found),
            found.caution,
            numbers_of(found, own, quiet),
        )
        write_by_rename(path, text.encode())
        return [path]

    writers: dict[str, Callable[[], Sequence[Path]]] = {
        "csv": lambda: [write_csv(folder / FILES["csv"], listed)],
        "parquet": lambda: [write_parquet(folder / "suspects.parquet", listed)],
        "label-studio": lambda: [write_label_studio(folder / "label-studio.json", listed)],
        "cleanlab": lambda: write_for_cleanlab(folder, found.scores),
        "html": page,
    }
    folder.mkdir(exist_ok=True)
    return [path for name in formats for path in writers[name]()]


def _title(found: "JudgedSamples") -> str:
    """The name of the data as a person knows it."""
    from tnlpad.records.samples import read_data_file

    config, about = found.folder.config(), read_data_file(found.folder.path)
    name = Path(about["path"]).name if about is not None else str(config["dataset"])
    noise = config.get("noise")
    return name + (f", noise {noise}" if noise not in (None, "none") else "")


def _facts(found: "JudgedSamples") -> dict[str, Any]:
    facts, config = found.scores.facts, found.folder.config()
    return {
        "run": facts["run_id"],
        "method": f"{config['method']}, {config['network']}",
        "epochs": f"probabilities are means over {facts['epochs_until_chosen']} epochs, the last of them epoch "
        f"{facts['chosen_epoch']}, chosen on {config.get('validation', 'noisy')} validation",
        "order": "by how much more probable another label is, made comparable between samples trained on and held out",
    }
