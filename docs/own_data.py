"""Write the measured parts of docs/own_data.md from benchmarks/records; run by `make docs`, and tested."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from textwrap import fill
from typing import Any

from tnlpad.report.paired import t_quantile
from tnlpad.runs.recipes import LEARNING_RATES

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benchmarks" / "records" / "own_defaults-cpu.json"
HEADS_RECORD = ROOT / "benchmarks" / "records" / "head_settings-cpu.json"
LOOP_RECORD = ROOT / "benchmarks" / "records" / "review_loop-cpu.json"
RECORDS = (RECORD, HEADS_RECORD, LOOP_RECORD)
PAGE = ROOT / "docs" / "own_data.md"
CONSTANT, UPPER_BOUND = "constant", "best of the four, cell by cell"
SETTINGS_OF_HEADS = {
    "weight_decay": "weight decay",
    "mixed": "largest share of another sample that is mixed in",
    "dropout": "dropout",
    "hidden": "width of the hidden layer",
    "epochs": "epochs, for 1,000 samples",
    "learning_rate": "learning rate",
    "batch_size": "batch size",
}


def page(text: str, record: Mapping[str, Any], heads_record: Mapping[str, Any], loop_record: Mapping[str, Any]) -> str:
    """Return the page with the parts between marks replaced."""
    parts = {"defaults": defaults(record), "heads": heads(heads_record), "loop": loop(loop_record)}
    for name, content in parts.items():
        text = _replaced(text, name, content)
    return text


def _replaced(text: str, name: str, content: str) -> str:
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{content}\n{end}{after}"


def loop(record: Mapping[str, Any]) -> str:
    """Describe a loop of training, review, cleaning and training again."""
    cells, means = record["cells"], record["means"]
    noise = float(record["noise"].removeprefix("symmetric:"))
    found = mean(cell["wrong_of_decided"] for cell in cells)
    text = (
        f"Measured on {means['as given']['samples']:,.0f} photographs of {record['classes']} classes with {noise:.0%} "
        f"of their labels moved at random, with {len(cells)} seeds "
        "([record](../benchmarks/records/review_loop-cpu.json), made by `python -m benchmarks.review_loop`). A script "
        "that knows the right labels decides on the first "
        f"{record['decisions']}, of which {found:.1%} are wrong. `clean` also applies the suggestions that it is sure "
        "of."
    )
    lines = [
        fill(text, 120, break_on_hyphens=False),
        "",
        "| data | wrong labels, % | accuracy on clean test photographs, % |",
        "| --- | ---: | ---: |",
    ]
    for name, values in means.items():
        spread = stdev(100 * cell["rounds"][name]["accuracy"] for cell in cells)
        lines.append(f"| {name} | {100 * values['wrong']:.1f} | {100 * values['accuracy']:.1f} ± {spread:.1f} |")
    return "\n".join([*lines, "", gain(cells)])


def gain(cells: Sequence[Mapping[str, Any]]) -> str:
    """Say by how much the second training is better than the first."""
    first, second, *_ = cells[0]["rounds"]
    gains = [100 * (cell["rounds"][second]["accuracy"] - cell["rounds"][first]["accuracy"]) for cell in cells]
    error = stdev(gains) / math.sqrt(len(gains))
    text = f"Training again changes the accuracy by {mean(gains):+.1f} ± {error:.1f} points (standard error over seeds)"
    decided = abs(mean(gains)) > t_quantile(len(gains) - 1) * error
    if decided and mean(gains) > 0:
        return f"{text}."
    verdict = "worse" if decided else "no better"
    reason = "Perhaps the errors that are easiest to find are those that robust training ignores anyway."
    return fill(f"{text}: the labels are cleaner, and the model is {verdict}. {reason}", 120)


def heads(record: Mapping[str, Any]) -> str:
    """Describe how the settings of the heads on features were chosen."""
    first, last = record["steps"][0], record["steps"][-1]
    small, large = record["cells"][: first["cells"]], record["cells"][first["cells"] :]
    data, data_of_large = (", ".join(dict.fromkeys(cell["data"] for cell in cells)) for cells in (small, large))
    lines = [
        "The heads on features (photographs with a backbone, texts, tables) were chosen in the same way: by the",
        f"out-of-fold accuracy on noisy labels, over {len(small)} combinations of data ({data}) and noise",
        "([record](../benchmarks/records/head_settings-cpu.json), made by `python -m benchmarks.head_settings`). Right",
        "labels were not used, and the photographs of [suspects.md](suspects.md) are not among the data. One setting",
        "was chosen after the other, in this order; in brackets is the mean accuracy in percent. More epochs and",
        "smaller batches take more time, so they had to be better by more than two standard errors. Most differences",
        f"are small: {compared_at_the_end(record)}.",
        "",
        f"The last line has {last['cells']} combinations, as {large[0]['samples']:,} samples each of {data_of_large}",
        "take part. It was added after a first measurement on the photographs of [suspects.md](suspects.md), with one",
        "draw of wrong labels: with the weight decay of the first line, test accuracy was below that of the best",
        "regression. So these photographs did not choose the value, but they were the reason to search again.",
        "",
        "| setting | values | chosen |",
        "| --- | --- | ---: |",
    ]
    for step in record["steps"]:
        tried = sorted(zip(step["values"], step["mean_accuracy"], strict=True))
        values = ", ".join(f"{value:g} ({100 * accuracy:.2f})" for value, accuracy in tried)
        lines.append(f"| {SETTINGS_OF_HEADS[step['setting']]} | {values} | {step['chosen']:g} |")
    found = [(int(side), 100 * accuracy) for side, accuracy in record["sides"].items()]
    return "\n".join(
        [
            *lines,
            "",
            "Photographs are enlarged to at least 160 pixels for the backbone. On the published labels of photographs",
            "of 64 pixels (a sample of Food-101), a linear classifier reaches, by cross-validation, "
            + ", ".join(f"{accuracy:.1f} % at {side}" for side, accuracy in found)
            + " pixels.",
        ]
    )


def compared_at_the_end(record: Mapping[str, Any]) -> str:
    """Return by how much the last choice is better than the other values, with standard errors."""
    last = record["steps"][-1]
    accuracies = {
        value: next(
            each["accuracy"][: last["cells"]]
            for each in record["candidates"]
            if each["weight_decay"] == value and all(each[name] == other for name, other in last["others"].items())
        )
        for value in last["values"]
    }
    best = accuracies.pop(last["chosen"])
    parts = []
    for value, others in sorted(accuracies.items()):
        gains = [100 * (ours - theirs) for ours, theirs in zip(best, others, strict=True)]
        parts.append(f"{mean(gains):.2f} ± {stdev(gains) / math.sqrt(len(gains)):.2f} points over {value:g}")
    return f"in the last line, {last['chosen']:g} gains {' and '.join(parts)} (standard errors)"


def defaults(record: Mapping[str, Any]) -> str:
    """Describe the chosen defaults and the evidence for them."""
    chosen, rules = record["chosen_by_validation"], record["rules"]
    cells = {json.dumps(pilot["cell"], sort_keys=True) for pilot in record["pilots"]}
    data = sorted({pilot["cell"]["data"] for pilot in record["pilots"]})
    rates = ", ".join(f"{rate:g} for `{network}`" for network, rate in sorted(LEARNING_RATES.items()))
    classifier = chosen["classifier"]
    by_c2 = chosen["mean_by_c2"]
    lines = [
        "Learning rates and c2 were chosen by the accuracy on noisy validation labels,",
        f"over {len(cells)} combinations of data ({', '.join(data)}), noise and seed",
        "([record](../benchmarks/records/own_defaults-cpu.json), made by `python -m benchmarks.own_defaults`). The",
        "test accuracies in the record and below were not used to choose.",
        "Images other than digits were made smaller, and trained on for fewer epochs than by default.",
        "",
        f"- learning rate: {rates}",
        f"- c2 = {chosen['c2']:g} for all of them",
        f"- `TnlpadClassifier`: learning rate {classifier['learning_rate']:g}, c2 = {classifier['c2']:g}",
        "",
        "Noisy validation hardly tells values of c2 apart. If you have clean labels, try others: `--set c2=1`.",
        "",
        f"| mean accuracy over the datasets, % | {' | '.join(f'c2 = {c2}' for c2 in by_c2)} |",
        f"| --- |{' ---: |' * len(by_c2)}",
        *(
            f"| {name} | {' | '.join(f'{100 * found[part]:.1f}' for found in by_c2.values())} |"
            for part, name in (("validation", "noisy validation labels"), ("test", "clean test labels"))
        ),
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
    PAGE.write_text(page(PAGE.read_text(), *(json.loads(path.read_text()) for path in RECORDS)))
