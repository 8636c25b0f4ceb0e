"""Pages that stand on their own: one HTML file, nothing loaded from elsewhere."""

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tnlpad.report.figures import Series, curves
from tnlpad.report.tables import demo_rows, demo_verdict, mean_sd, percent

LINES = {"plain": ("plain SGD", "7 2 1.5 2"), "w": ("w", "6 2.5"), "sigma": ("σ", "")}


def environment() -> Environment:
    """Where the pages' templates are found; a value that is missing is an error, and words cannot become markup."""
    return Environment(
        loader=PackageLoader("tnlpad.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def demo_page(record: Mapping[str, Any]) -> str:
    """The demo's report, from its record alone."""
    return (
        environment()
        .get_template("demo.html.j2")
        .render(
            record=record,
            config=record["configuration"],
            rows=demo_rows(record),
            verdict=demo_verdict(record),
            candidates=[
                (candidate["c2"], mean_sd(candidate["validation_last_epoch"]))
                for candidate in record["selection"]["candidates"]
            ],
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
    )


def _demo_figure(record: Mapping[str, Any], name: str, quantity: str, title: str, y_label: str) -> Markup:
    methods = record["methods"]
    series = [
        Series(
            label=label,
            colour=f"--{key}",
            dashes=dashes,
            values=[[100 * share for share in run[quantity]] for run in methods[key]["curves"]],
        )
        for key, (label, dashes) in LINES.items()
    ]
    return Markup(curves(name, title, y_label, series))  # built from numbers and our own words
