"""The files of an audit: its sample, the decisions about it and the result, in the folder `audit` of the run.

audit.json      the sample, with design and seed, so that it can be drawn again and extended
audit.csv       the drawn labels as a table
index.html      the page on which a person decides
decisions.csv   the decisions, if they are saved here
result.json     the share of wrong labels, and the decisions

`audit.json` has a checksum, since a sample that was changed by hand is no random sample. `result.json` has one since
format 2, because `tnlpad clean` writes the labels in it. Decisions carry the token of their drawing, so that those
about another run are noticed.
"""

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tnlpad.atomic_files import write_by_rename
from tnlpad.errors import DataError
from tnlpad.records.scores import SampleScores
from tnlpad.records.store import RecordError, read_json, to_json
from tnlpad.schema import Schema, fits, problem, shown
from tnlpad.suspects.audit import DESIGNS, ClassRate, Rate, Sample
from tnlpad.suspects.intervals import Share
from tnlpad.suspects.review import class_named, read_decision_table

if TYPE_CHECKING:
    from tnlpad.spreadsheets import Formulas
    from tnlpad.suspects.listing import RankedRun

from tnlpad.suspects.audited_run import RESULT_FORMAT, UNSURE, Audit, Decision, require_drawn, require_known, run_id

FOLDER = "audit"
SAMPLE_FILE, TABLE_FILE, PAGE_FILE = "audit.json", "audit.csv", "index.html"
DECISIONS_FILE, RESULT_FILE = "decisions.csv", "result.json"
SAMPLE_FORMAT = 1
UNSEALED_FORMAT = 1  # of a result, without a checksum
REPEAT = "Remove it, and run `tnlpad audit` again with your decisions."
DRAW_AGAIN = "Restore it, or draw a new sample with --out FOLDER."
SAMPLE: Schema = {
    **dict.fromkeys(("format", "seed", "labels"), int),
    "token": str,
    "by": Literal["random", "class", "confidence"],
    "cells": list[list[int]],  # each: stratum, class, number of labels
    "drawn": list,  # each: id, label, row, cell
}
SHARE: Schema = dict.fromkeys(("estimate", "low", "high"), float)
COUNTS, CLASS_COUNTS = ("checked", "wrong", "unsure", "undecided"), ("label", "labels", "checked", "wrong")
CLASS_RATE: Schema = {**dict.fromkeys(CLASS_COUNTS, int), "share": SHARE}
RESULT: Schema = {
    **dict.fromkeys(("format", "drawn", "total"), int),
    "run": str,
    "by": str | None,
    "seed": int | None,
    "rate": {
        **dict.fromkeys((*COUNTS, "checks_to_halve"), int),
        "share": SHARE,
        "with_unsure": list[float] | None,
        "classes": list,
    },
    "class_names": list[str],
    "review": dict[str, str | None],
    "given": dict[str, str],
    "weights": dict[str, float],
    "mean_confidence": list[float],
}
_unsealed: set[Path] = set()  # results without a checksum that this process has warned about


def token(run: "RankedRun", sample: Sample) -> str:
    """Return a name for the drawing, whatever its size: decisions carry it, so that those of others are noticed."""
    content = [run_id(run), sample.by, sample.seed, list(run.names.ids), run.ranking.evidence.given.tolist()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def write_sample(folder: Path, run: "RankedRun", sample: Sample, formulas: "Formulas | None" = None) -> list[Path]:
    """Write `audit.json`, from which the drawing can be repeated, and `audit.csv`, a table of the drawn labels."""
    from tnlpad.suspects.export import write_rows

    names = run.scores.class_names
    given = run.ranking.evidence.given
    rows = [[run.names.ids[row], names[given[row]], row, cell] for row, cell in _pairs(sample)]
    content = {
        "format": SAMPLE_FORMAT,
        "run": run_id(run),
        "token": token(run, sample),
        "by": sample.by,
        "seed": sample.seed,
        "labels": sample.total,
        "cells": [
            list(cell)
            for cell in zip(
                *(each.tolist() for each in (sample.cell_strata, sample.cell_classes, sample.cell_sizes)), strict=True
            )
        ],
        "drawn": rows,
    }
    folder.mkdir(parents=True, exist_ok=True)
    table = write_rows(
        folder / TABLE_FILE,
        ("id", "path", "given"),
        ([name, run.names.paths[row], label] for name, label, row, _ in rows),
        formulas=formulas,
    )
    write_by_rename(folder / SAMPLE_FILE, _sealed(content))
    return [folder / SAMPLE_FILE, table]


def _pairs(sample: Sample) -> Iterable[tuple[int, int]]:
    return zip(sample.rows.tolist(), sample.cells.tolist(), strict=True)


def _sealed(content: Mapping[str, Any]) -> bytes:
    return to_json({**content, "checksum": _checksum(content)})


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def read_sample(folder: Path, run: "RankedRun") -> Sample | None:
    """Read the sample that was drawn from a run; return None if there is none.

    Raises:
        RecordError: The file was changed, lacks something, or is of another run.
    """
    path = folder / SAMPLE_FILE
    if not path.exists():
        return None
    content = read_json(path)
    checksum = content.pop("checksum", None)
    if content.get("format") != SAMPLE_FORMAT or checksum != _checksum(content):
        raise RecordError(f"{path} was changed since the sample was drawn. {DRAW_AGAIN}")
    if found := problem(content, SAMPLE) or _sample_problem(content):
        raise RecordError(f"{path} is damaged ({found}). {DRAW_AGAIN}")
    drawn, cells = content["drawn"], np.array(content["cells"], dtype=np.int64).reshape(-1, 3)
    sample = Sample(
        by=content["by"],
        seed=content["seed"],
        rows=np.array([row for _, _, row, _ in drawn], dtype=np.int64),
        cells=np.array([cell for _, _, _, cell in drawn], dtype=np.int64),
        cell_strata=cells[:, 0],
        cell_classes=cells[:, 1],
        cell_sizes=cells[:, 2],
    )
    if content["token"] != token(run, sample) or sample.total != len(run.names.ids):
        raise RecordError(
            f"{path} was drawn from another run, or the labels of the run have changed since. Draw a new sample with "
            "--out FOLDER."
        )
    return sample


def _sample_problem(content: Mapping[str, Any]) -> str | None:
    """Return why the fields of a sample, whose types are right, do not fit together; None if they do."""
    cells, drawn, labels = content["cells"], content["drawn"], content["labels"]
    if any(len(cell) != 3 or min(cell) < 0 or cell[0] >= len(cells) for cell in cells):
        return "cells are not triples of a stratum, a class and a number of labels"
    if sum(size for _, _, size in cells) != labels:
        return f"cells do not have {labels} labels in all"
    if any(not isinstance(each, list) or len(each) != 4 or not fits(each[2:], list[int]) for each in drawn):
        return "drawn are not lists of an id, a label, a row and a cell"
    if not all(0 <= row < labels and 0 <= cell < len(cells) for _, _, row, cell in drawn):
        return "drawn has a row or a cell that there is not"
    return "drawn has a row twice" if len({row for _, _, row, _ in drawn}) < len(drawn) else None


def read_decisions(paths: Iterable[Path], run: "RankedRun", sample: Sample) -> dict[str, Decision]:
    """Read the decisions that the page saves, or other tables with the columns id and label.

    An empty label means that none fits. A column `choice` may say right, wrong or unsure.

    Raises:
        DataError: A file is empty, or its decisions are about other samples or contradict each other.
        RecordError: A file is no table of decisions.
    """
    names, given = run.scores.class_names, run.ranking.evidence.given
    given_by_id = {name: names[label] for name, label in zip(run.names.ids, given.tolist(), strict=True)}
    drawn = {run.names.ids[row] for row in sample.rows.tolist()}
    found: dict[str, Decision] = {}
    for path in paths:
        rows = read_decision_table(path)
        if not rows:
            raise DataError(f"{path} has no decisions. Decide on some labels on the page and save them again.")
        own = token(run, sample)
        if any(row.get("audit") not in (None, "", own) for row in rows):
            raise DataError(f"{path} has decisions about another sample or run. Give the file of this one.")
        require_known([row["id"] for row in rows], given_by_id, str(path))
        require_drawn([row["id"] for row in rows], drawn, str(path))
        for row in rows:
            name = row["id"]
            decision = _decision_of_row(row, given_by_id[name], path, names)
            if found.setdefault(name, decision) != decision:
                raise DataError(
                    f"{path} has two decisions about {name[:80]!r}: {_words(found[name])} and {_words(decision)}. "
                    "Keep one of them."
                )
    return found


def _words(decision: Decision) -> str:
    return decision.choice if decision.label is None else f"{decision.choice} ({decision.label[:80]!r})"


def _decision_of_row(row: Mapping[str, str], given: str, path: Path, classes: Sequence[str]) -> Decision:
    if row.get("given") not in (None, "", given):
        raise DataError(
            f"{path} says that {row['id'][:80]!r} has the label {row['given'][:80]!r}, but in this run it has "
            f"{given[:80]!r}. The labels have changed, or the file is of another run."
        )
    label = class_named(row.get("label") or "", classes)
    choice = (row.get("choice") or "").strip()
    if choice == "unsure" or (not choice and label == UNSURE != given):
        return Decision(choice="unsure", label=None)
    if choice not in ("", "right", "wrong", "given", "suggested", "neither"):
        raise DataError(f"{path} has the choice {choice[:80]!r}. Allowed are right, wrong and unsure.")
    if label == given and choice == "wrong":
        raise DataError(f"{path} calls the label of {row['id'][:80]!r} wrong, and gives the same one as right.")
    if choice in ("right", "given") or (not choice and label == given):
        return Decision(choice="right", label=given)
    return Decision(choice="right" if label == given else "wrong", label=label)


def write_audit(folder: Path, audit: Audit) -> Path:
    """Write `result.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_by_rename(folder / RESULT_FILE, _sealed(audit.to_json()))
    return folder / RESULT_FILE


def read_audit(run_folder: Path) -> Audit | None:
    """Read the result of the audit in a run folder; return None if there is none.

    Raises:
        RecordError: The file is damaged.
    """
    path = run_folder / FOLDER / RESULT_FILE
    if not path.exists():
        return None
    plain = read_json(path)
    checksum = plain.pop("checksum", None)
    if found := problem(plain, RESULT) or _result_problem(plain):
        raise RecordError(f"{path} is damaged ({found}). {REPEAT}")
    if plain["format"] == UNSEALED_FORMAT and checksum is None:
        _warn_of_unsealed(path)
    elif checksum != _checksum(plain):
        raise RecordError(f"{path} is damaged (its content does not fit its checksum). {REPEAT}")
    rated = plain["rate"]
    return Audit(
        **{name: plain[name] for name in ("run", "by", "seed", "drawn", "total", "review", "given", "weights")},
        rate=Rate(
            **{name: rated[name] for name in (*COUNTS, "checks_to_halve")},
            share=_share(rated["share"]),
            with_unsure=None if rated["with_unsure"] is None else tuple(rated["with_unsure"]),
            classes=tuple(
                ClassRate(**{name: each[name] for name in CLASS_COUNTS}, share=_share(each["share"]))
                for each in rated["classes"]
            ),
        ),
        class_names=tuple(plain["class_names"]),
        mean_confidence=tuple(plain["mean_confidence"]),
    )


def _warn_of_unsealed(path: Path) -> None:
    """Warn, once for each file, that an earlier version wrote it."""
    if path not in _unsealed:
        _unsealed.add(path)
        warnings.warn(
            f"{path} was written by an earlier version, without a checksum: damage to it may go unnoticed. Running "
            "`tnlpad audit` again with your decisions adds one.",
            stacklevel=3,
        )


def _share(plain: Mapping[str, float]) -> Share:
    return Share(**{name: plain[name] for name in SHARE})


def _result_problem(plain: Mapping[str, Any]) -> str | None:
    """Return why the fields of a result, whose types are right, do not fit together; None if they do."""
    rated, total, review = plain["rate"], plain["total"], plain["review"]
    shares = {"rate.share": rated["share"]}
    for number, each in enumerate(rated["classes"]):
        where = f"rate.classes[{number}]"
        if found := problem(each, CLASS_RATE, f"{where}."):
            return found
        shares[f"{where}.share"] = each["share"]
    pairs = {"mean_confidence": plain["mean_confidence"]}
    pairs |= {} if rated["with_unsure"] is None else {"rate.with_unsure": rated["with_unsure"]}
    fractions = {f"{where}.{name}": share[name] for where, share in shares.items() for name in SHARE}
    fractions |= {f"{where}[{place}]": each for where, pair in pairs.items() for place, each in enumerate(pair)}
    checks = {
        f"format is {plain['format']}, and this version reads up to {RESULT_FORMAT}": (
            plain["format"] in (UNSEALED_FORMAT, RESULT_FORMAT)
        ),
        f"by is {shown(plain['by'])}, not {' or '.join(DESIGNS)}": plain["by"] in (*DESIGNS, None),
        "rate.classes has labels that class_names lacks": all(
            0 <= each["label"] < len(plain["class_names"]) for each in rated["classes"]
        ),
        "given lacks samples of review": review.keys() <= plain["given"].keys(),
        "weights lacks samples of review": review.keys() <= plain["weights"].keys(),
        f"weights are not above 0 and up to {total}": all(0 < each <= total for each in plain["weights"].values()),
        "the numbers of wrong, checked, drawn and all labels do not fit": (
            0 <= rated["wrong"] <= rated["checked"] <= plain["drawn"] <= total
        ),
        **{f"{where}.low is above its high": share["low"] <= share["high"] for where, share in shares.items()},
        **{f"{name} is not a list of two numbers": len(pair) == 2 for name, pair in pairs.items()},
        **{f"{name} is {value}, not a number from 0 to 1": 0 <= value <= 1 for name, value in fractions.items()},
    }
    return next((reason for reason, holds in checks.items() if not holds), None)


def audit_of(run_folder: Path, scores: SampleScores, ids: Sequence[str]) -> Audit | None:
    """Read the result of the audit in a run folder, and check that it is about this run; return None if there is none.

    Args:
        run_folder: The run folder.
        scores: The scores of the run.
        ids: Ids of its samples.

    Raises:
        RecordError: The file is damaged, or of another run.
    """
    audit = read_audit(run_folder)
    if audit is None:
        return None
    names, path = scores.class_names, run_folder / FOLDER / RESULT_FILE
    given = {
        name: names[label]
        for name, label in zip(ids, scores.columns["given"].tolist(), strict=True)
        if name in audit.review
    }
    other = next((name for name in audit.review if given.get(name) != audit.given[name]), None)
    if audit.run != (own := scores.facts.get("run_id", audit.run)):
        reason = f"run is {shown(audit.run)}, and this is {shown(own)}"
    elif audit.class_names != names:
        reason = "class_names are not those of the run"
    elif other is not None:
        what = f"the label {shown(given[other])}" if other in given else "no such sample"
        reason = f"given has {shown(audit.given[other])} for {shown(other)}, and the run has {what}"
    else:
        return audit
    raise RecordError(f"{path} is the audit of another run ({reason}). {REPEAT}")
