"""Drawing, intervals and recalibration of an audit."""

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest, hypergeom

from tests.chromium import chromium
from tests.edited_runs import edit
from tests.suspects.made import made, made_run
from tnlpad.errors import DataError
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.suspects import audit_files
from tnlpad.suspects.audit import DESIGNS, draw, rate, recalibrated
from tnlpad.suspects.audit_files import read_audit, write_audit
from tnlpad.suspects.audited_run import UNSURE, Decision, audit_run, draw_from_run, extended
from tnlpad.suspects.intervals import hypergeometric_limits, share_wrong
from tnlpad.suspects.listing import rank_run
from tnlpad.suspects.page import audit_page


def known(samples=1000, rate=0.2, classes=5, seed=0):
    """Return given labels, which are wrong, and a confidence that is calibrated."""
    generator = np.random.default_rng(seed)
    given = generator.integers(classes, size=samples)
    confidence = np.clip(generator.beta(0.3, 0.3 * (1 / rate - 1), size=samples), 0.001, 0.999)
    return given, generator.random(samples) < confidence, confidence


# Intervals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("checked", "wrong"), [(20, 0), (20, 3), (20, 20), (60, 30)])
def test_limits_are_those_of_every_possible_number(checked, wrong):
    size = 80
    possible = range(wrong, size - (checked - wrong) + 1)
    upper = [m for m in possible if hypergeom.cdf(wrong, size, m, checked) > 0.025]
    lower = [m for m in possible if hypergeom.sf(wrong - 1, size, m, checked) > 0.025]
    assert hypergeometric_limits(size, checked, wrong) == (min(lower) / size, max(upper) / size)


def test_limits_of_a_large_set_are_those_of_clopper_and_pearson():
    expected = binomtest(9, 60).proportion_ci(0.95, method="exact")
    assert hypergeometric_limits(10_000_000, 60, 9) == pytest.approx((expected.low, expected.high), abs=1e-4)


def test_the_interval_covers_every_share_of_a_small_set():
    size, checked = 60, 15
    limits = [hypergeometric_limits(size, checked, wrong) for wrong in range(checked + 1)]
    for truth in range(size + 1):
        held = [low <= truth / size <= high for low, high in limits]
        assert hypergeom.pmf(np.arange(checked + 1), size, truth, checked) @ held >= 0.95


def test_the_interval_of_a_stratified_sample_covers():
    """Over all possible results of two strata, one of which counts for far more than its checks."""
    sizes, checked = np.array([300, 40]), np.array([9, 5])
    counts = [np.arange(n + 1) for n in checked]
    found = {(a, b): share_wrong(sizes, checked, np.array([a, b])) for a in counts[0] for b in counts[1]}
    for truth in ((3, 2), (30, 20), (15, 35), (90, 4), (150, 20)):
        chances = [
            hypergeom.pmf(each, size, bad, n) for each, size, bad, n in zip(counts, sizes, truth, checked, strict=True)
        ]
        share = sum(truth) / sizes.sum()
        held = sum(chances[0][a] * chances[1][b] for (a, b), each in found.items() if each.low <= share <= each.high)
        assert held >= 0.95, truth


def test_strata_of_equal_weight_give_nearly_the_interval_of_one():
    found = share_wrong(np.array([2500, 2500]), np.array([50, 50]), np.array([15, 15]))
    assert (found.low, found.high) == pytest.approx(hypergeometric_limits(5000, 100, 30), abs=0.002)


def test_a_stratum_that_is_checked_completely_adds_no_doubt():
    alone = share_wrong(np.array([1000]), np.array([50]), np.array([10]))
    both = share_wrong(np.array([1000, 1000]), np.array([50, 1000]), np.array([10, 500]))
    assert both.estimate == pytest.approx(0.35)
    assert both.width == pytest.approx(alone.width / 2, rel=0.05)


def test_memory_grows_with_the_strata_and_not_with_their_pairs():
    strata = 3000
    sizes, checked, wrong = np.full(strata, 40), np.full(strata, 2), (np.arange(strata) % 5 == 0).astype(int)
    tracemalloc.start()
    try:
        found = share_wrong(sizes, checked, wrong)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.estimate, found.low < 0.1 < found.high) == (pytest.approx(0.1), True)
    assert most < 1000 * strata * 8


def test_a_stratum_without_checks_may_be_right_or_wrong():
    found = share_wrong(np.array([900, 100]), np.array([50, 0]), np.array([5, 0]))
    low, high = hypergeometric_limits(900, 50, 5)
    assert found.estimate == pytest.approx(0.1)
    assert (found.low, found.high) == pytest.approx((0.9 * low, 0.9 * high + 0.1))


# Drawing --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", DESIGNS)
def test_a_larger_sample_contains_the_smaller(by):
    given, _, confidence = known()
    small, again, large = (draw(size, given, confidence, by=by) for size in (50, 50, 120))
    assert (small.rows == again.rows).all()
    assert len(set(large.rows.tolist())) == 120
    assert set(small.rows.tolist()) < set(large.rows.tolist())
    assert set(draw(50, given, confidence, by=by, seed=2).rows.tolist()) != set(small.rows.tolist())
    assert large.total == 1000


def test_all_labels_may_be_drawn():
    given, _, confidence = known(200)
    for by in DESIGNS:
        assert sorted(draw(200, given, confidence, by=by).rows.tolist()) == list(range(200))


def test_no_label_counts_for_more_than_about_twice_its_share():
    given, _, confidence = known(5000, rate=0.05)
    for by in ("class", "confidence"):
        sample = draw(200, given, confidence, by=by)
        strata = sample.cell_strata[sample.cells]
        sizes = np.bincount(sample.cell_strata, weights=sample.cell_sizes)
        assert (sizes / np.bincount(strata)).max() < 2.1 * 5000 / 200


def test_the_order_says_nothing_about_the_confidence():
    given, _, confidence = known(5000)
    rows = draw(1000, given, confidence, by="confidence").rows
    assert abs(np.corrcoef(np.arange(1000), confidence[rows])[0, 1]) < 0.1


def test_a_class_of_two_is_checked_completely():
    given = np.array([0] * 500 + [1] * 2 + [2] * 100)
    sample = draw(60, given, by="class")
    assert np.bincount(given[sample.rows])[1] == 2
    decisions = ["wrong" if given[row] == 1 else "right" for row in sample.rows]
    found = rate(decisions, sample)
    (rare,) = (each for each in found.classes if each.label == 1)
    assert (rare.share.estimate, rare.share.low, rare.share.high) == (1, 1, 1)
    assert found.share.estimate == pytest.approx(2 / 602)


@pytest.mark.parametrize(
    ("size", "by", "said"),
    [
        (1001, "random", "1,001 .* 1,000 labels"),
        (0, "random", "0"),
        (4, "class", "5 given classes"),
        (50, "size", "size"),
    ],
)
def test_samples_that_cannot_be_drawn(size, by, said):
    given, _, confidence = known()
    with pytest.raises(ValueError, match=said):
        draw(size, given, confidence, by=by)


# Rates ----------------------------------------------------------------------------------------------------------------


def decided(sample, wrong):
    return ["wrong" if wrong[row] else "right" for row in sample.rows]


@pytest.mark.parametrize("by", DESIGNS)
def test_the_rate_is_weighted_by_the_strata(by):
    """Averaged over samples, the estimate is the truth, also where more is drawn from the labels in doubt."""
    given, wrong, confidence = known(rate=0.1)
    strata_means = []
    for seed in range(40):
        sample = draw(200, given, confidence, by=by, seed=seed)
        sizes, checked, bad = (
            np.bincount(sample.cell_strata, weights=sample.cell_sizes),
            *(np.bincount(sample.cell_strata[sample.cells], weights=each) for each in (None, wrong[sample.rows])),
        )
        strata_means.append(sizes @ (bad / checked) / sizes.sum())
    assert np.mean(strata_means) == pytest.approx(wrong.mean(), abs=0.012)
    found = rate(decided(sample, wrong), sample)
    assert found.share.estimate == pytest.approx(strata_means[-1])
    assert found.share.low < wrong.mean() < found.share.high
    assert sum(each.checked for each in found.classes) == 200
    assert sum(each.labels for each in found.classes) == 1000


def test_labels_that_the_person_is_not_sure_about_are_left_out_and_widen_the_bounds():
    given, wrong, _ = known()
    sample = draw(100, given)
    decisions = decided(sample, wrong)
    decisions[:10] = ["unsure"] * 10
    decisions[10:15] = [None] * 5
    found = rate(decisions, sample)
    assert (found.checked, found.unsure, found.undecided) == (85, 10, 5)
    assert found.share.estimate == found.wrong / 85
    low, high = found.with_unsure
    assert low == hypergeometric_limits(1000, 95, found.wrong)[0] < found.share.low
    assert high == hypergeometric_limits(1000, 95, found.wrong + 10)[1] > found.share.high


def test_so_many_more_checks_halve_the_interval():
    sample = draw(50, np.zeros(20_000, dtype=np.int64))
    found = rate(["wrong"] * 10 + ["right"] * 40, sample)
    size = 50 + found.checks_to_halve
    low, high = hypergeometric_limits(20_000, size, round(size / 5))
    assert high - low == pytest.approx(found.share.width / 2, rel=0.03)


@pytest.mark.parametrize("by", ["class", "confidence"])
def test_more_checks_are_spread_over_the_strata(by):
    given, wrong, confidence = known(20_000)
    sample = draw(50, given, confidence, by=by)
    assert 80 < rate(decided(sample, wrong), sample).checks_to_halve < 300


def test_a_complete_check_leaves_nothing_to_halve():
    given, wrong, _ = known(100)
    sample = draw(100, given)
    found = rate(decided(sample, wrong), sample)
    assert found.share.low == found.share.high == wrong.mean()
    assert found.checks_to_halve == 0


@pytest.mark.parametrize(
    ("decisions", "said"), [(["right"] * 3, "3 decisions"), (["maybe"] * 10, "maybe"), ([None] * 10, "no label")]
)
def test_decisions_that_do_not_fit(decisions, said):
    with pytest.raises(ValueError, match=said):
        rate(decisions, draw(10, np.zeros(50, dtype=np.int64)))


# Confidence -----------------------------------------------------------------------------------------------------------


def calibration_error(confidence, wrong):
    bins = np.minimum((10 * confidence).astype(int), 9)
    return np.abs(np.bincount(bins, weights=confidence - wrong)).sum() / len(wrong)


def test_a_confidence_that_is_too_high_is_lowered_for_all():
    given, wrong, right_confidence = known(5000)
    odds = right_confidence / (1 - right_confidence)
    confidence = np.clip(6 * odds / (1 + 6 * odds), 0.001, 0.999)
    rows = draw(200, given).rows
    found = recalibrated(confidence, rows, wrong[rows])
    rest = np.setdiff1d(np.arange(5000), rows)
    assert calibration_error(found[rest], wrong[rest]) < 0.5 * calibration_error(confidence[rest], wrong[rest])
    order = rest[np.argsort(confidence[rest])]
    assert (np.diff(found[order]) >= 0).all()
    assert found[rows] == pytest.approx(np.where(wrong[rows], 0.999, 0.001))


def test_decisions_that_agree_change_little():
    given, wrong, confidence = known(5000)
    changes = []
    for seed in range(10):
        rows = draw(100, given, seed=seed).rows
        found = recalibrated(confidence, rows, wrong[rows])
        rest = np.setdiff1d(np.arange(5000), rows)
        changes.append(abs(found[rest] - confidence[rest]).mean())
    assert np.median(changes) < 0.02


def test_decisions_never_reverse_the_order():
    confidence = np.linspace(0.05, 0.95, 1000)
    rows = np.arange(0, 1000, 2)
    found = recalibrated(confidence, rows, rows < 500)[1::2]
    assert (np.diff(found) > 0).all()


def test_without_decisions_the_confidence_stays():
    confidence = np.array([0.1, 0.9])
    assert recalibrated(confidence, np.array([], dtype=int), np.array([], dtype=bool)).tolist() == [0.1, 0.9]


def test_decisions_that_agree_with_the_confidence_change_hardly_anything():
    generator = np.random.default_rng(0)
    confidence = generator.beta(0.3, 0.9, 4000)
    wrong = generator.random(4000) < confidence
    changes = []
    for seed in range(10):
        rows = draw(200, np.zeros(4000, dtype=int), seed=seed).rows
        found = recalibrated(confidence, rows, wrong[rows])
        changes.append(np.abs(np.delete(found - confidence, rows)).mean())
    assert np.median(changes) < 0.002
    assert max(changes) < 0.05


# Audits of runs -------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    made_run(tmp_path / "run")
    return rank_run(RunFolder(tmp_path / "run"))


@pytest.fixture(scope="module")
def clean():
    scores, _, clean = made()
    return [scores.class_names[label] for label in clean]


def test_right_labels_are_decisions(run, clean):
    sample = draw_from_run(run, 100, by="confidence")
    ids = [run.names.ids[row] for row in sample.rows]
    decisions = {name: clean[int(name)] for name in ids} | {ids[0]: UNSURE, ids[1]: None}
    found = audit_run(run, decisions, sample)
    _, wrong, _ = made()
    assert found.rate.share.low < wrong.mean() < found.rate.share.high
    assert (found.rate.unsure, found.rate.checked) == (1, 99)
    assert found.review[ids[1]] is None
    assert ids[0] not in found.review
    before, after = found.mean_confidence
    assert before == pytest.approx(run.ranking.confidence.mean())
    assert after == pytest.approx(found.confidence(run.names.ids, run.ranking.confidence).mean())


def test_decisions_without_a_sample_count_as_a_random_one(run, clean):
    found = audit_run(run, {str(row): clean[row] for row in range(0, 600, 6)})
    assert (found.drawn, found.total, found.by) == (100, 600, None)
    assert (found.rate.share.low, found.rate.share.high) == hypergeometric_limits(600, 100, found.rate.wrong)


@pytest.mark.parametrize(("decisions", "said"), [({"x": "ant"}, "'x' is not a sample"), ({}, "no label")])
def test_decisions_about_nothing(run, decisions, said):
    with pytest.raises(DataError, match=said):
        audit_run(run, decisions)


def test_a_result_is_read_as_it_was_written(run, clean):
    sample = draw_from_run(run, 60, by="class")
    ids = [run.names.ids[row] for row in sample.rows]
    found = audit_run(run, {name: clean[int(name)] for name in ids[1:]} | {ids[0]: UNSURE}, sample)
    assert read_audit(run.folder.path) is None
    write_audit(run.folder.path / "audit", found)
    again = read_audit(run.folder.path)
    assert again.to_json() == found.to_json()
    edit(run.folder.path / "audit" / "result.json", with_unknown_fields)
    assert read_audit(run.folder.path).to_json() == found.to_json()


def with_unknown_fields(plain):
    """Add fields as a later version might."""
    for each in (plain, plain["rate"], plain["rate"]["share"], *plain["rate"]["classes"]):
        each["further"] = None


def first_of(key, value):
    """Return a function that changes the first entry of an object in a result; None removes it."""

    def change(plain):
        name = next(iter(plain[key]))
        plain[key].pop(name) if value is None else plain[key].update({name: value})

    return change


DAMAGED = {
    r"rate\.checked is missing": lambda plain: plain.update(rate={}),
    "weights is None": lambda plain: plain.update(weights=None),
    "review is a list": lambda plain: plain.update(review=[]),
    "review is an object, not an object of such values": first_of("review", 5),
    "given lacks samples of review": first_of("given", None),
    "weights lacks samples of review": first_of("weights", None),
    "weights are not above 0 and up to 600": first_of("weights", -1),
    "weights is an object": first_of("weights", 1e308),
    r"rate\.share\.estimate is 7, not a number from 0 to 1": lambda plain: plain["rate"]["share"].update(estimate=7),
    r"rate\.share\.estimate is 'x', not a number": lambda plain: plain["rate"]["share"].update(estimate="x"),
    r"rate\.share\.low is above its high": lambda plain: plain["rate"]["share"].update(low=1, high=0.5),
    r"rate\.classes\[0\]\.share\.low is -1": lambda plain: plain["rate"]["classes"][0]["share"].update(low=-1, high=-1),
    r"rate\.classes\[0\]\.wrong is missing": lambda plain: plain["rate"]["classes"][0].pop("wrong"),
    "rate.classes is 5, not a list": lambda plain: plain["rate"].update(classes=5),
    r"rate\.classes\[0\] is not a JSON object": lambda plain: plain["rate"].update(classes=[5]),
    r"rate\.classes has labels": lambda plain: plain["rate"]["classes"][0].update(label=3),
    r"rate\.with_unsure is not a list of two": lambda plain: plain["rate"].update(with_unsure=[]),
    "mean_confidence is not a list of two": lambda plain: plain.update(mean_confidence=[0.5]),
    "numbers of wrong, checked, drawn": lambda plain: plain["rate"].update(wrong=61),
    "format is 99, and this version reads up to 2": lambda plain: plain.update(format=99),
    "by is 'age'": lambda plain: plain.update(by="age"),
}
FOREIGN = {
    "run is 'other', and this is 'run'": lambda plain: plain.update(run="other"),
    "class_names are not those": lambda plain: plain["class_names"].reverse(),
    "and the run has the label": first_of("given", "bat"),
    "given has 'ant' for 's9', and the run has no such sample": lambda plain: [
        plain[name].update(s9=value) for name, value in {"review": None, "given": "ant", "weights": 1}.items()
    ],
}


@pytest.mark.parametrize(("said", "change"), {**DAMAGED, **FOREIGN}.items(), ids=[*DAMAGED, *FOREIGN])
def test_the_content_of_a_result_is_checked(run, clean, said, change):
    write_audit(run.folder.path / "audit", audit_run(run, {str(row): clean[row] for row in range(60)}))
    path = run.folder.path / "audit" / "result.json"
    edit(path, change)
    where = "the audit of another run" if said in FOREIGN else "damaged"
    with pytest.raises(RecordError, match=rf"audit/result\.json is {where} \(.*{said}.*Remove it, and run `tnlpad"):
        rank_run(run.folder)


def written_result(run, clean):
    """Write the audit of a run, whose decisions name a new class, and return its file."""
    decisions = {str(row): clean[row] for row in range(60)} | {"60": "yes"}
    return write_audit(run.folder.path / "audit", audit_run(run, decisions))


def test_no_bit_of_a_result_changes_unnoticed(run, clean):
    path = written_result(run, clean)
    before, content = read_audit(run.folder.path).to_json(), path.read_bytes()
    places = np.random.default_rng(0).choice(8 * len(content), 300, replace=False).tolist()
    places += [8 * content.index(key) + 8 + bit for key in (b'"format"', b'"checksum"', b'"yes"') for bit in range(8)]
    places += [8 * content.index(b'"format": ') + 80 + bit for bit in range(8)]
    refused = 0
    for place in places:
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            found = read_audit(run.folder.path)
        except RecordError:
            refused += 1
        else:
            assert found.to_json() == before  # white space
    assert refused > 250


def test_a_result_of_an_earlier_version_is_read_with_a_note(run, clean):
    path = written_result(run, clean)
    before, plain = read_audit(run.folder.path).to_json(), json.loads(path.read_text())
    del plain["checksum"]
    path.write_text(json.dumps(plain))
    with pytest.raises(RecordError, match=r"result\.json is damaged \(its content does not fit its checksum\)"):
        read_audit(run.folder.path)
    path.write_text(json.dumps(plain | {"format": 1}))
    with pytest.warns(UserWarning, match=r"result\.json was written by an earlier version, without a checksum"):
        assert read_audit(run.folder.path).to_json() == before
    read_audit(run.folder.path)  # the note comes once


@pytest.mark.parametrize(
    ("said", "change"),
    [
        *((f"{name} is missing", name) for name in ("drawn", "cells", "by", "seed", "token", "labels")),
        ("by is 'age', not random or class or confidence", {"by": "age"}),
        ("cells are not triples", {"cells": [[0, 0]]}),
        ("cells are not triples", {"cells": [[2**40, 0, 600]]}),
        ("cells do not have 600 labels", {"cells": [[0, 0, 599]]}),
        ("drawn are not lists", {"drawn": [5]}),
        ("drawn are not lists", {"drawn": [["1", "ant", 1.5, 0]]}),
        ("drawn has a row or a cell", {"drawn": [["1", "ant", 600, 0]]}),
        ("drawn has a row or a cell", {"drawn": [["1", "ant", 0, 9]]}),
        ("drawn has a row twice", {"drawn": [["1", "ant", 0, 0]] * 2}),
    ],
)
def test_the_content_of_a_sample_is_checked(run, said, change):
    audit_files.write_sample(run.folder.path / "audit", run, draw_from_run(run, 20))
    path = run.folder.path / "audit" / "audit.json"
    edit(path, lambda plain: plain.pop(change) if isinstance(change, str) else plain.update(change))
    with pytest.raises(RecordError, match=rf"audit\.json is damaged \({said}.*draw a new sample"):
        audit_files.read_sample(run.folder.path / "audit", run)


def test_a_sample_is_not_extended_with_another_confidence(run):
    sample = draw_from_run(run, 60, by="confidence")
    assert len(extended(sample, 90, run)) == 90
    assert extended(sample, 30, run) is sample
    other = replace(run, unaudited=replace(run.unaudited, confidence=run.unaudited.confidence[::-1].copy()))
    with pytest.raises(RecordError, match="confidence of the run has changed"):
        extended(sample, 90, other)


# The page -------------------------------------------------------------------------------------------------------------


def page_text(run, size=40):
    sample = draw_from_run(run, size)
    text = audit_page(run, sample, "0123", command="tnlpad audit", file="decisions.csv", warn=pytest.fail)
    return sample, text


def test_the_page_has_no_limit(run, monkeypatch):
    monkeypatch.setattr("tnlpad.suspects.page.MAX_CARDS", 10)
    sample, text = page_text(run, 600)
    assert text.count("<li ") == len(sample) == 600


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(params=[(1280, "light"), (400, "dark")], ids=["desktop", "phone"])
def page(browser, request, run):
    sample = draw_from_run(run, 30)
    path = run.folder.path / "index.html"
    token = audit_files.token(run, sample)
    path.write_text(audit_page(run, sample, token, command="tnlpad audit", file="decisions.csv", warn=pytest.fail))
    with browser.open(path, *request.param) as opened:
        opened.run("localStorage.clear()")
        opened.call("Page.reload")
        opened.run("new Promise(done => setTimeout(done, 300))")
        yield opened


def press(page, key):
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=key)


@pytest.mark.browser
def test_the_models_opinion_is_hidden_until_the_decision(page):
    shown = "[...document.querySelectorAll('.opinion')].filter(each => each.offsetHeight).length"
    assert page.run(shown) == 0
    for key in "jrwn":
        press(page, key)
    assert page.run(shown) == 3
    assert page.run("decided.value") == "3 of 30 decided"
    assert page.run("document.documentElement.scrollWidth") <= page.run("innerWidth")
    assert page.complaints == []


@pytest.mark.browser
def test_decisions_are_saved_for_the_command(page, run, tmp_path):
    page.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    for key in "jrwn":
        press(page, key)
    page.run(
        "(() => { const select = cards[1].querySelector('select'); select.selectedIndex = 1;"
        " select.dispatchEvent(new Event('change', { bubbles: true })); })()"
    )
    page.run("save.click()")
    saved = tmp_path / "decisions.csv"
    for _ in range(100):
        if saved.exists():
            break
        page.run("new Promise(done => setTimeout(done, 50))")
    sample = draw_from_run(run, 30)
    first, second, third = (run.names.ids[row] for row in sample.rows[:3])
    names, given = run.scores.class_names, run.ranking.evidence.given
    other = next(name for name in names if name != names[given[int(second)]])
    assert audit_files.read_decisions([saved], run, sample) == {
        first: Decision(choice="right", label=names[given[int(first)]]),
        second: Decision(choice="wrong", label=other),
        third: Decision(choice="unsure", label=None),
    }


def test_names_cannot_become_markup(tmp_path):
    made_run(tmp_path / "run", names=("</script><b>", "<i>", "é"))
    _, text = page_text(rank_run(RunFolder(tmp_path / "run")))
    assert "</script><b>" not in text
    assert json.loads(text.split('type="application/json">')[1].split("</script>")[0]) == ["</script><b>", "<i>", "é"]
