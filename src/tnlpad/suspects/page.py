"""The page of suspects, one HTML file: pictures, given → suggested, a filter by pair of classes, keyboard shortcuts.

A reader decides which label is right. The page stores the decisions in the browser and saves them as a table for
`tnlpad clean --review`. The page of an audit shows labels that were drawn at random, in random order. It hides what the
model thinks of a label until the reader has decided, and saves a table for `tnlpad audit --review`.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tnlpad.suspects.audit import By, Sample
from tnlpad.suspects.listing import RankedRun, Suspect, rate_sentences
from tnlpad.suspects.pictures import Comparison, Illustrator
from tnlpad.suspects.random_errors import is_out_of_fold
from tnlpad.suspects.ranking import Ranking

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset

MAX_CARDS = 5000  # with a picture of some 8 kB each, the page stays below 50 megabytes; an audit has no limit
MAX_CLASSES = 30  # in the table of estimated rates
MAX_NAME_LENGTH = 48  # in the filter, whose entries do not wrap
ANY = "anything"
DRAWN: dict[By, str] = {
    "random": "at random",
    "class": "at random within the given classes",
    "confidence": "at random within ranges of the model's confidence",
}


def page_of_run(
    run: RankedRun,
    listed: Sequence[Suspect],
    data: "OwnDataset | None",
    root: Path | None,
    warn: Callable[[str], None],
) -> str:
    """Return the page of a run's suspects; for the arguments see `write_suspects`."""
    facts, config = run.scores.facts, run.config
    shown = Illustrator(run, data, root, warn)
    if is_out_of_fold(run.scores):
        judged = {"judged": f"out of fold: {facts['folds']} folds, {facts['repeats']} times"}
        judged["order"] = "by the odds that the label is wrong"
    else:
        judged = {
            "epochs": f"probabilities are means over {facts['epochs_until_chosen']} epochs up to epoch "
            f"{facts['chosen_epoch']}, which was chosen on {config.get('validation', 'noisy')} validation",
            "order": "by the odds that the label is wrong, scaled so that training and held-out samples compare",
        }
    return suspects_page(
        run.title,
        listed,
        run.ranking,
        run.scores.class_names,
        {"run": run.folder.path.name, "method": f"{config['method']}, {config['network']}", **judged},
        picture=shown.picture,
        numbers=shown.numbers,
        text=shown.text,
        values=shown.categories,
        caution=run.caution,
        notes=run.notes,
    )


def audit_page(
    run: RankedRun,
    sample: Sample,
    token: str,
    *,
    command: str,
    file: str,
    root: Path | None = None,
    warn: Callable[[str], None],
) -> str:
    """Return the page on which a person decides about the labels of an audit.

    Args:
        run: The run.
        sample: The drawn labels.
        token: Name of the drawing; the decisions carry it, and those of different drawings are kept apart.
        command: The command to run with the decisions.
        file: Name of the file in which the page saves them.
        root, warn: See `write_suspects`.
    """
    shown = Illustrator(run, None, root, warn)
    cards = [
        {**each.to_json(), "picture": shown.picture(each), "text": shown.text(each), "values": shown.values(each)}
        for each in run.suspects_at(run.ranking.positions[sample.rows])
    ]
    return _render(
        "audit.html.j2",
        title=run.title,
        cards=cards,
        pictures=any(card["picture"] for card in cards),
        labels=sample.total,
        design=DRAWN[sample.by],
        token=token,
        command=command,
        file=file,
        class_names=list(run.scores.class_names),
        caution=run.caution,
        facts={"run": run.folder.path.name, "drawing": f"by {sample.by}, seed {sample.seed}", "name": token},
    )


def suspects_page(
    title: str,
    listed: Sequence[Suspect],
    ranking: Ranking,
    class_names: Sequence[str],
    facts: Mapping[str, Any],
    *,
    picture: Callable[[Suspect], str | None],
    numbers: Callable[[Suspect], Sequence[Comparison]] = lambda suspect: (),
    text: Callable[[Suspect], str | None] = lambda suspect: None,
    values: Callable[[Suspect], Sequence[tuple[str, str]]] = lambda suspect: (),
    caution: str | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Return the page of a list.

    Args:
        title: Name of the data.
        listed: The suspects; the page shows the first `MAX_CARDS`.
        ranking: The ranking, for counts and estimates.
        class_names: Names by label.
        facts: Further facts by name, for the end of the page; `run` keeps the reviews of different runs apart.
        picture: Returns the URL of a sample's picture, or None.
        numbers: Returns the telling columns of a row of numbers.
        text: Returns the text of a sample, or None.
        values: Returns further columns and values of a sample.
        caution: Why the estimates are unreliable; then the page leaves them out.
        notes: Further remarks.
    """
    shown = listed[:MAX_CARDS]
    cards = [
        {
            **each.to_json(),
            "pair": f"{each.given}-{each.suggested}",
            "picture": picture(each),
            "numbers": numbers(each),
            "text": text(each),
            "values": values(each),
        }
        for each in shown
    ]
    estimate = ranking.estimate
    return _render(
        "suspects.html.j2",
        title=title,
        cards=cards,
        pictures=any(card["picture"] for card in cards),
        listed=len(listed),
        samples=len(ranking.order),
        suspects=ranking.suspects,
        filters=_filters(shown),
        sentences=rate_sentences(estimate),
        notes=notes,
        estimate=estimate,
        caution=caution,
        classes=[
            (name, rate, *interval)
            for name, rate, interval in zip(
                class_names, estimate.class_rates, estimate.class_rate_intervals, strict=True
            )
        ][:MAX_CLASSES],
        more_classes=max(0, len(class_names) - MAX_CLASSES),
        classes_differ=len(set(estimate.class_rates.round(4).tolist())) > 1,
        facts=facts,
        percent=lambda share: f"{100 * share:.1f}",
        number=lambda value: f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}",
    )


def _render(template: str, **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("tnlpad.suspects"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["digest"] = _digest
    return environment.get_template(template).render(**values)


def _digest(script: str) -> str:
    """Return the hash by which the page's policy allows its script, and no other that a name might smuggle in."""
    return f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}"


def _filters(shown: Sequence[Suspect]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the filters by pair of classes or by one side of it, the most frequent first."""
    pairs = Counter((f"{each.given}-{each.suggested}", each.given_name, each.suggested_name) for each in shown)
    given = Counter((f"{each.given}-", each.given_name, ANY) for each in shown)
    suggested = Counter((f"-{each.suggested}", ANY, each.suggested_name) for each in shown)
    return [
        (
            heading,
            [
                {"key": key, "given": _short(given_name), "suggested": _short(suggested_name), "count": count}
                for (key, given_name, suggested_name), count in counts.most_common()
            ],
        )
        for heading, counts in (("one pair", pairs), ("one given label", given), ("one suggested label", suggested))
    ]


def _short(name: str) -> str:
    half = MAX_NAME_LENGTH // 2
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[:half]}…{name[-half:]}"
