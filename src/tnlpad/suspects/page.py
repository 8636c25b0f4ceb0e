"""The list as a page that stands on its own: pictures, given → suggested, a filter by pair of classes, keys to move."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tnlpad.suspects.listing import Suspect
from tnlpad.suspects.ranking import Ranking

MOST_CARDS = 500  # a picture each, some 4 kB: the page stays within a few megabytes
MOST_CLASSES_SHOWN = 30  # in the table of estimated rates


def suspects_page(
    title: str,
    listed: Sequence[Suspect],
    ranking: Ranking,
    class_names: Sequence[str],
    picture: Callable[[Suspect], str | None],
    facts: Mapping[str, Any],
) -> str:
    """The page of a list.

    Args:
        title: What the list is of.
        listed: The list; no more than `MOST_CARDS` of it are shown.
        ranking: Where the counts and estimates come from.
        class_names: By label.
        picture: Gives the address of a sample's picture, or None where there is none.
        facts: What else to say at the end, by name.
    """
    shown = listed[:MOST_CARDS]
    cards = [{**each.to_json(), "pair": _pair(each), "picture": picture(each)} for each in shown]
    pairs = Counter((_pair(each), each.given_name, each.suggested_name) for each in shown)
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
        listed=len(listed),
        samples=len(ranking.order),
        suspects=ranking.suspects,
        pairs=[
            {"key": key, "given": given, "suggested": suggested, "count": count}
            for (key, given, suggested), count in pairs.most_common()
        ],
        estimate=estimate,
        classes=[
            (name, rate, *interval)
            for name, rate, interval in zip(
                class_names, estimate.class_rates, estimate.class_rate_intervals, strict=True
            )
        ][:MOST_CLASSES_SHOWN],
        more_classes=max(0, len(class_names) - MOST_CLASSES_SHOWN),
        facts=facts,
        percent=_percent,
    )


def _pair(each: Suspect) -> str:
    return f"{each.given}-{each.suggested}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
