"""Self-contained HTML pages: the templates' environment, and the page of the demo."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tnlpad.report.figures import Series, curves
from tnlpad.report.words import range_text

METHOD_NAMES = {"plain": "Plain SGD", "w": "TNLPAD, w = σ + γ", "sigma": "TNLPAD, σ"}
LINES = {"plain": ("plain SGD", "7 2 1.5 2"), "w": ("w", "6 2.5"), "sigma": ("σ", "")}  # label and dashes


def environment() -> Environment:
    """Return the environment of the templates; undefined values raise, and text is escaped."""
    return Environment(
        loader=PackageLoader("tnlpad.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def demo_page(record: Mapping[str, Any]) -> str:
    """Return the demo's page from its record."""
    template = environment().get_template("demo.html.j2")
    return template.render(
        record=record,
        config=record["configuration"],
        rows=demo_rows(record),
        verdict=demo_verdict(record),
        percent=percent,
        accuracy_figure=_demo_figure(
            record, "accuracy", "test", "Test accuracy over the epochs", "test accuracy, % (clean labels)"
        ),
        memorised_figure=_demo_figure(
            record,
            "memorised",
            "memorised",
            "Wrong training labels memorised over the epochs",
            "wrong labels memorised, %",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class DemoRow:
    """One method of the demo, as text."""

    key: str
    method: str
    chosen: str
    chosen_epochs: str
    last: str
    memorised: str
    n: int


def demo_rows(record: Mapping[str, Any]) -> list[DemoRow]:
    """Return the demo's table: test accuracy and memorisation by method."""
    return [
        DemoRow(
            key=key,
            method=METHOD_NAMES[key],
            chosen=_mean_sd(method["test_chosen_epoch"]),
            chosen_epochs=range_text((min(method["chosen_epochs"]), max(method["chosen_epochs"]))),
            last=_mean_sd(method["test_last_epoch"]),
            memorised=_mean_sd(method["memorised_last_epoch"]),
            n=method["test_last_epoch"]["n"],
        )
        for key, method in record["methods"].items()
    ]


def demo_verdict(record: Mapping[str, Any]) -> str:
    """Return the demo's outcome in one sentence."""
    points = 100 * record["gain"]["test_last_epoch"]
    direction = "more" if points >= 0 else "less"
    sentence = f"In the last epoch σ gets {abs(points):.1f} points {direction} of the test images right than plain SGD"
    spread = record["gain"]["combined_sd"]
    if not spread:
        return f"{sentence} (one seed: the spread is unknown)." if spread is None else f"{sentence}."
    return f"{sentence}, {abs(points) / (100 * spread):.1f} times the combined standard deviation of the two."


def percent(share: float, digits: int = 1) -> str:
    """Format a share in percent: 0.8266 as "82.7"."""
    return f"{100 * share:.{digits}f}"


def _mean_sd(summary: Mapping[str, Any]) -> str:
    """Format a summary in percent: "82.7 ± 3.1", or "82.7" without a standard deviation."""
    mean = percent(summary["mean"])
    return mean if summary["sd"] is None else f"{mean} ± {percent(summary['sd'])}"


def _demo_figure(record: Mapping[str, Any], name: str, quantity: str, title: str, y_label: str) -> Markup:
    series = [
        Series(
            label=label,
            colour=f"--{key}",
            dashes=dashes,
            values=[[100 * share for share in run[quantity]] for run in record["methods"][key]["curves"]],
        )
        for key, (label, dashes) in LINES.items()
    ]
    return Markup(curves(name, title, y_label, series))  # contains only numbers and the constants above
