"""Write the defaults in docs/own_data.md from benchmarks/records; run by `make docs`, and tested."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benchmarks" / "records" / "own_defaults-cpu.json"
PAGE = ROOT / "docs" / "own_data.md"
CONSTANT, UPPER_BOUND = "constant", "best of the four, cell by cell"
BEGIN, END = "<!-- defaults:begin -->", "<!-- defaults:end -->"


def page(text: str, record: Mapping[str, Any]) -> str:
    """Return the page with the part between the marks replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{defaults(record)}\n{END}{after}"


def defaults(record: Mapping[str, Any]) -> str:
    """Describe the chosen defaults and the evidence for them."""
    chosen, rules = record["chosen_by_validation"], record["rules"]
    cells = {json.dumps(pilot["cell"], sort_keys=True) for pilot in record["pilots"]}
    data = sorted({pilot["cell"]["data"] for pilot in record["pilots"]})
    rates = ", ".join(f"{rate:g} for `{network}`" for network, rate in sorted(chosen["learning_rates"].items()))
    classifier = chosen["classifier"]
    by_c2 = chosen["mean_by_c2"].items()
    means = ", ".join(f"{100 * found['validation']:.1f} % on average with {c2}" for c2, found in by_c2)
    lines = [
        "Learning rates and c2 were chosen by the accuracy on noisy validation labels,",
        f"over {len(cells)} combinations of data ({', '.join(data)}), noise and seed",
        "([record](../benchmarks/records/own_defaults-cpu.json), made by `python -m benchmarks.own_defaults`). The",
        "test accuracies in the record were not used to choose.",
        "Images other than digits were made smaller, and trained on for fewer epochs than by default.",
        "",
        f"- learning rate: {rates}",
        f"- c2 = {chosen['c2']:g} for all of them",
        f"- `TnlpadClassifier`: learning rate {classifier['learning_rate']:g}, c2 = {classifier['c2']:g}",
        "",
        f"Noisy validation hardly tells values of c2 apart: {means}. If you have clean",
        "labels, try others on your own data: `--set c2=1`.",
        "",
        "Rules for c2 that need no knowledge of the noise were compared with a constant, each fitted on the other",
        "datasets. The last line is not a rule but the best of all candidates, chance included.",
        "",
        "| c2 by | noisy validation accuracy, % | above the constant, standard error |",
        "| --- | ---: | ---: |",
        *(row(name, means) for name, means in rules.items()),
        "",
        verdict(rules),
    ]
    return "\n".join(lines)


def row(name: str, means: Mapping[str, float]) -> str:
    """Return the row of a rule."""
    gain = "" if name == CONSTANT else f"{100 * means['gain']:+.2f} ± {100 * means['gain_error']:.2f}"
    return f"| {name} | {100 * means['validation']:.2f} | {gain} |"


def verdict(rules: Mapping[str, Mapping[str, float]]) -> str:
    """Say whether a rule beats the constant."""
    others = {name: means for name, means in rules.items() if name not in (CONSTANT, UPPER_BOUND)}
    best = max(others, key=lambda name: others[name]["gain"])
    gain, error = 100 * others[best]["gain"], 100 * others[best]["gain_error"]
    if gain <= 0:
        return "No rule beats the constant, so c2 is a constant."
    if gain > 2 * error:
        return f"The best rule, by {best}, is {gain:.2f} ± {error:.2f} points above the constant."
    return (
        f"The best rule, by {best}, is {gain:.2f} points above the constant with a standard error of {error:.2f}:\n"
        "no more than chance, and it costs another training without the decomposition. So c2 is a constant."
    )


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), json.loads(RECORD.read_text())))
