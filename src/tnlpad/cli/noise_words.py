"""Noisy labels in words and numbers: how they came about, and how many of each class are wrong."""

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tnlpad.noise import LabelFile


def described(content: "LabelFile", class_names: tuple[str, ...]) -> dict[str, Any]:
    """What there is to say about labels, as plain data."""
    from tnlpad.noise import expected_noise_rate, noise_rate_of, transition_counts

    noisy = content.noisy
    counts = transition_counts(noisy.clean, noisy.given, len(class_names))
    return {
        "made": made(content),
        "dataset": content.dataset,
        "noise": content.noise,
        "protocol": content.protocol,
        "seed": content.seed,
        "legacy_stream": content.legacy_stream,
        "inputs": content.inputs,
        "samples": len(noisy.clean),
        "noise_rate_asked": _asked_rate(content.noise),
        "noise_rate_expected": expected_noise_rate(noisy.transition, noisy.clean),
        "noise_rate": noise_rate_of(noisy),
        "classes": [_class(class_names, label, row) for label, row in enumerate(counts)],
    }


def made(content: "LabelFile") -> str:
    """How the labels came about, in a line; people's answers and clean labels have neither protocol nor seed."""
    words = [content.dataset, content.noise]
    if content.noise.partition(":")[0] not in ("human", "none"):
        words += [f"protocol {content.protocol}", f"seed {content.seed}"]
    if content.inputs:
        words.append(f"{content.inputs} inputs")
    if content.legacy_stream:
        words.append("legacy stream")
    return ", ".join(words)


def _asked_rate(noise: str) -> float | None:
    """The rate in a text such as symmetric:0.4; a label file from elsewhere may call its noise anything."""
    from tnlpad.noise import parse_noise

    try:
        return parse_noise(noise).noise_rate
    except ValueError:
        return None


def _class(names: tuple[str, ...], label: int, row: Any) -> dict[str, Any]:
    """One clean class: how many labels are wrong, and what they mostly became."""
    samples, wrong = int(row.sum()), int(row.sum() - row[label])
    others = row.copy()
    others[label] = 0
    most = int(others.argmax())
    return {
        "label": label,
        "name": names[label],
        "samples": samples,
        "wrong": wrong,
        "noise_rate": wrong / samples if samples else None,
        "most_often": names[most] if wrong else None,
        "most_often_share_of_wrong": int(others[most]) / wrong if wrong else None,
    }


def print_result(document: dict[str, Any]) -> None:
    """For a person."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table("class", title="Wrong labels by clean class", title_justify="left", title_style="bold")
    for heading in ("samples", "wrong", "wrong, %"):
        table.add_column(heading, justify="right")
    table.add_column("mostly given")
    for each in document["classes"]:
        rate = "–" if each["noise_rate"] is None else f"{100 * each['noise_rate']:.1f}"
        most = "" if not each["wrong"] else f"{each['most_often']} ({100 * each['most_often_share_of_wrong']:.0f} %)"
        table.add_row(each["name"], f"{each['samples']:,}", f"{each['wrong']:,}", rate, most)
    console.print(table)
    asked = document["noise_rate_asked"]
    lines = [
        document["made"],
        *([] if asked is None else [f"asked for: {100 * asked:g} % in each class that is affected"]),
        f"expected:  {100 * document['noise_rate_expected']:.2f} % of all labels",
        f"actual:    {100 * document['noise_rate']:.2f} % of {document['samples']:,} labels",
        f"labels:    {shlex.quote(document['file'])} ({document['checksum']})",
    ]
    if document["picture"]:
        lines.append(f"picture:   {shlex.quote(document['picture'])}")
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
