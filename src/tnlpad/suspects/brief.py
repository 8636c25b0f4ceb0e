"""Describe a ranked run in a few lines, as text or HTML: its size, its accuracy, wrong labels and first suspects."""

from collections.abc import Sequence
from html import escape

from tnlpad.suspects.listing import RankedRun, Suspect

FIRST_SUSPECTS = 5
MAX_NAME_LENGTH = 40
HEADINGS = ("sample", "given", "suggested", "wrong, %")


def as_text(run: RankedRun) -> str:
    """Return facts, and a table of the first suspects, for a terminal."""
    facts, suspects = _facts(run), _first(run)
    width = max(map(len, facts))
    lines = [f"{name:<{width}}  {value}" for name, value in facts.items()]
    if suspects:
        rows = [HEADINGS, *suspects]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
        for *names, number in rows:
            cells = [name.ljust(size) for name, size in zip(names, widths, strict=False)]
            lines.append("  ".join([*cells, number.rjust(widths[-1])]))
    return "\n".join(lines)


def as_html(run: RankedRun) -> str:
    """Return the same as two tables for a notebook; names that come from the data are escaped."""
    facts = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in _facts(run).items())
    suspects = "".join(_html_row(row, "td") for row in _first(run))
    listed = f"<table>{_html_row(HEADINGS, 'th')}{suspects}</table>" if suspects else ""
    return f"<table>{facts}</table>{listed}"


def _html_row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _facts(run: RankedRun) -> dict[str, str]:
    config, chosen = run.config, run.summary["chosen"]
    judged = "out of fold" if config.get("folds") is not None else "held-out samples"
    facts = {
        "samples": f"{len(run.scores):,}",
        "classes": f"{len(run.scores.class_names):,}",
        "accuracy": f"{100 * chosen['validation_accuracy']:.1f} % ({judged}, by the given labels)",
    }
    if chosen.get("test_accuracy") is not None:
        facts["test accuracy"] = f"{100 * chosen['test_accuracy']:.1f} % (by the given labels)"
    if run.caution is not None:
        return facts | {"caution": run.caution}
    estimate = run.ranking.estimate
    low, high = estimate.noise_rate_interval
    at_random = "wrong at random" if estimate.random_only and estimate.checked is None else "wrong labels"
    facts[at_random] = f"{100 * estimate.noise_rate:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)"
    return facts | {"suspects": f"{run.ranking.suspects:,}"}


def _first(run: RankedRun) -> list[tuple[str, ...]]:
    """Return the cells of the first suspects; with a caution, none can be called so."""
    if run.caution is not None:
        return []
    return [_row(each) for each in run.suspects(min(FIRST_SUSPECTS, run.ranking.suspects))]


def _row(each: Suspect) -> tuple[str, ...]:
    names = (_short(name) for name in (each.id, each.given_name, each.suggested_name))
    return (*names, f"{100 * each.confidence:.0f}")


def _short(name: str) -> str:
    """Return a name on one line, without the middle of a long one."""
    plain, half = "".join(each if each.isprintable() else "�" for each in name), MAX_NAME_LENGTH // 2
    return plain if len(plain) <= MAX_NAME_LENGTH else f"{plain[:half]}…{plain[-half:]}"
