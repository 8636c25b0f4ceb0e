"""The list as a page that stands on its own: pictures, given → suggested, a filter by pair of classes, keys to move.

Whoever looks at it can say which label is right; the page keeps that and saves it as a table that `review.py` reads.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tnlpad.suspects.listing import Suspect
from tnlpad.suspects.pictures import Comparison
from tnlpad.suspects.ranking import Ranking

MOST_CARDS = 500  # a picture each, some 8 kB: the page stays within a few megabytes
MOST_CLASSES_SHOWN = 30  # in the table of estimated rates
LONGEST_NAME = 48  # in the filter, whose entries do not wrap
ANY = "anything"


def suspects_page(
    title: str,
    listed: Sequence[Suspect],
    ranking: Ranking,
    class_names: Sequence[str],
    picture: Callable[[Suspect], str | None],
    facts: Mapping[str, Any],
    caution: str | None = None,
    numbers: Callable[[Suspect], Sequence[Comparison]] | None = None,
) -> str:
    """The page of a list.

    Args:
        title: What the list is of.
        listed: The list; no more than `MOST_CARDS` of it are shown.
        ranking: Where the counts and estimates come from.
        class_names: By label.
        picture: Gives the address of a sample's picture, or None where there is none.
        facts: What else to say at the end, by name; `run` tells reviews of different runs apart.
        caution: Why its numbers should not be believed, if so.
        numbers: Gives what is to be seen of a row of numbers.
    """
    shown = listed[:MOST_CARDS]
    cards = [
        {
            **each.to_json(),
            "pair": f"{each.given}-{each.suggested}",
            "picture": picture(each),
            "numbers": numbers(each) if numbers is not None else (),
        }
        for each in shown
    ]
    estimate = ranking.estimate
    environment = Environment(
        loader=PackageLoader("tnlpad.suspects"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("suspects.html.j2").render(
        title=title,
        cards=cards,
        pictures=any(card["picture"] for card in cards),
        listed=len(listed),
        samples=len(ranking.order),
        suspects=ranking.suspects,
        filters=_filters(shown),
        estimate=estimate,
        caution=caution,
        classes=[
            (name, rate, *interval)
            for name, rate, interval in zip(
                class_names, estimate.class_rates, estimate.class_rate_intervals, strict=True
            )
        ][:MOST_CLASSES_SHOWN],
        more_classes=max(0, len(class_names) - MOST_CLASSES_SHOWN),
        classes_differ=len(set(estimate.class_rates.round(4).tolist())) > 1,
        facts=facts,
        percent=_percent,
        number=_number,
    )


def _filters(shown: Sequence[Suspect]) -> list[tuple[str, list[dict[str, Any]]]]:
    """What the list can be narrowed down to, the most frequent first: a pair of classes, or one side of it."""
    pairs = Counter((f"{each.given}-{each.suggested}", each.given_name, each.suggested_name) for each in shown)
    given = Counter((f"{each.given}-", each.given_name, ANY) for each in shown)
    suggested = Counter((f"-{each.suggested}", ANY, each.suggested_name) for each in shown)
    return [
        (heading, [_option(*names, count) for names, count in counts.most_common()])
        for heading, counts in (("one pair", pairs), ("one given label", given), ("one suggested label", suggested))
    ]


def _option(key: str, given: str, suggested: str, count: int) -> dict[str, Any]:
    return {"key": key, "given": _short(given), "suggested": _short(suggested), "count": count}


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME // 2]}…{name[-LONGEST_NAME // 2 :]}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
