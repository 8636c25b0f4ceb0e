import numpy as np
import pytest

from tests.suspects.made import made, made_run
from tnlpad.records.samples import SampleNames
from tnlpad.records.scores import SampleScores
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.suspects.audit_files import write_audit
from tnlpad.suspects.audited_run import audit_run
from tnlpad.suspects.listing import LISTED_WITHOUT_SUSPECTS, absorbed, rank_run, suspects, verdict
from tnlpad.suspects.ranking import SUSPECT_FROM, rank
from tnlpad.suspects.weakness import MIN_HELD_OUT, caution


def names(size):
    return SampleNames(ids=[f"id{k}" for k in range(size)], paths=[f"{k}.png" for k in range(size)])


def listed(top=None, **options):
    scores, _, _ = made(**options)
    ranking = rank(scores)
    return suspects(ranking, scores, names(len(scores)), top), ranking, scores


def test_a_row_names_the_sample_and_both_labels():
    rows, ranking, scores = listed(top=5)
    assert [row.rank for row in rows] == [1, 2, 3, 4, 5]
    for row, place in zip(rows, ranking.order, strict=False):
        assert (row.id, row.path, row.index) == (f"id{place}", f"{place}.png", place)
        assert row.given_name == scores.class_names[scores.columns["given"][place]]
        assert row.suggested_name == scores.class_names[ranking.evidence.suggested[place]] != row.given_name
        assert row.part == scores.columns["part"][place]


def test_by_default_all_suspects_are_listed():
    rows, ranking, _ = listed()
    assert len(rows) == ranking.suspects > 0
    assert len(listed(top=10_000)[0]) == 600  # no more than there are


def test_the_reason_has_the_numbers():
    rows, _, _ = listed(top=600)
    first = rows[0]
    assert f"“{first.suggested_name}” (" in first.why
    assert f"than “{first.given_name}” (" in first.why
    assert "in 0 of 10 epochs" in first.why
    assert any("never trained on" in row.why for row in rows if row.part == "validation")
    assert not any("never trained on" in row.why for row in rows if row.part == "train")
    assert any("memorised by γ" in row.why for row in rows if row.part == "train")
    assert "agrees with" in rows[-1].why


def test_absorption_needs_a_decomposition():
    columns = {"margin_w_to_end": np.array([3.0, 1.0]), "margin_sigma_to_end": np.array([1.0, 1.0])}
    assert absorbed(columns, ("sigma", "w")).tolist() == [2.0, 0.0]
    assert absorbed({}, ("w",)) is None


def test_the_reason_of_a_suspect_whose_given_label_leads():
    rows, _, _ = listed(top=600, sharpness=2.5, rate=0.3)
    leading = [row for row in rows if "but also" in row.why]
    assert leading
    for row in leading:
        assert f"predicts “{row.given_name}”" in row.why
        assert f"also “{row.suggested_name}”" in row.why
        assert row.confidence >= 0.5


def held_out_scores(frequent=0.5, samples=100):
    """Held-out samples with this share of the most frequent label, and others."""
    scores, _, _ = made(samples=2 * samples)
    scores.columns["part"][:] = np.repeat(["validation", "train"], samples)
    scores.columns["given"][:samples] = np.arange(samples) >= round(frequent * samples)
    return scores


def chosen(accuracy):
    return {"chosen": {"validation_accuracy": accuracy}}


@pytest.mark.parametrize(("accuracy", "frequent"), [(None, 0.5), (0.66, 0.5), (0.93, 0.5), (0.95, 0.9)])
def test_a_strong_network_needs_no_caution(accuracy, frequent):
    assert caution(chosen(accuracy), held_out_scores(frequent)) is None
    assert caution({}, held_out_scores(frequent)) is None


@pytest.mark.parametrize(("accuracy", "frequent"), [(0.155, 0.5), (0.6, 0.5), (0.64, 0.5), (0.9, 0.9), (0.3, 0.6)])
def test_a_network_hardly_better_than_the_most_frequent_label_is_cautioned_of(accuracy, frequent):
    text = caution(chosen(accuracy), held_out_scores(frequent))
    assert f"only {100 * accuracy:.0f} %" in text
    assert f"right for {100 * frequent:.0f} %" in text


@pytest.mark.parametrize("held_out", [1, MIN_HELD_OUT - 1, MIN_HELD_OUT])
def test_a_few_held_out_samples_are_cautioned_of(held_out):
    scores, _, _ = made(held_out=0.0)
    scores.columns["part"][:held_out] = "validation"
    text = caution(chosen(1.0), scores)
    assert (text is None) == (held_out == MIN_HELD_OUT)
    assert text is None or f"Only {held_out} samples were held out" in text


def test_a_run_without_held_out_samples_is_judged_by_the_accuracy_that_chose_its_epoch():
    scores, _, _ = made(held_out=0.0)
    assert caution(chosen(0.9), scores) is None
    assert "right for 0 %" in caution(chosen(0.1), scores)


def test_a_folder_is_read_and_ranked(tmp_path):
    scores, _ = made_run(tmp_path / "run")
    found = rank_run(RunFolder(tmp_path / "run"))
    assert found.ranking.order.tolist() == rank(scores).order.tolist()
    assert [each.id for each in found.suspects(3)] == [str(place) for place in found.ranking.order[:3]]
    assert len(found.suspects()) == found.ranking.suspects
    assert len(found.suspects(len(found.scores))) == len(scores)


def test_a_folder_without_scores_is_reported(tmp_path):
    with pytest.raises(RecordError, match="no per-sample scores"):
        rank_run(RunFolder(tmp_path))


def test_wrong_labels_come_first():
    from sklearn.metrics import roc_auc_score

    scores, wrong, _ = made()
    ranking = rank(scores)
    assert roc_auc_score(wrong, ranking.score) > 0.95
    assert wrong[ranking.order[:50]].mean() > 0.95
    assert sorted(ranking.order) == list(range(len(scores)))


def test_suspects_are_more_likely_wrong_and_have_another_label():
    scores, wrong, _ = made()
    ranking = rank(scores)
    first, rest = ranking.order[: ranking.suspects], ranking.order[ranking.suspects :]
    assert np.all(ranking.confidence[first] >= SUSPECT_FROM)
    assert np.all(ranking.confidence[rest] < SUSPECT_FROM)
    assert np.all(ranking.evidence.suggested != ranking.evidence.given)
    assert ranking.suspect_share == pytest.approx(wrong.mean(), abs=0.05)


def test_labels_that_were_half_learnt_are_found_where_each_class_is_taken_for_one_other():
    """Half of the wrong labels lead, and no other label comes near to a right one."""
    from sklearn.metrics import roc_auc_score

    generator = np.random.default_rng(0)
    clean = generator.integers(6, size=3000)
    wrong = generator.random(3000) < 0.4
    given = np.where(wrong, (clean + 1) % 6, clean)
    # Each class competes with the one it is taken for. Training moves samples towards their given labels.
    logits = generator.normal(size=(3000, 6))
    rows, held_out = np.arange(3000), generator.random(3000) < 0.2
    for step in (0, 1):
        logits[rows, (clean + step) % 6] += 4.0 - step
    logits[rows, given] += np.where(held_out, 0.0, 1.5)
    odds = np.exp(logits)
    probabilities = (odds / odds.sum(1, keepdims=True)).astype(np.float32)
    scores = SampleScores(
        columns={"given": given, "part": np.where(held_out, "validation", "train")},
        probabilities=probabilities,
        class_names=tuple("abcdef"),
        views=("sigma", "w"),
        facts={},
    )
    ranking = rank(scores)
    others = probabilities.copy()
    others[rows, given] = 0
    margin = others.max(1) - probabilities[rows, given]
    assert roc_auc_score(wrong, ranking.score) > 0.95 > roc_auc_score(wrong, margin)
    assert (ranking.evidence.suggested == clean)[wrong].mean() > (probabilities.argmax(1) == clean)[wrong].mean() + 0.2


def test_held_out_samples_compare_with_those_trained_on():
    scores, wrong, _ = made(samples=4000)
    ranking = rank(scores)
    held_out = ranking.evidence.held_out
    for part in (held_out, ~held_out):
        suspected = ranking.confidence[part] >= SUSPECT_FROM
        assert suspected.mean() == pytest.approx(wrong[part].mean(), abs=0.05)


def test_scores_fall_along_the_order():
    ranking = rank(made(samples=50)[0])
    assert np.all(np.diff(ranking.score[ranking.order]) < 0)
    assert ranking.score[ranking.order[0]] == 1


def test_clean_labels_have_hardly_a_suspect():
    assert rank(made(samples=2000, rate=0.0)[0]).suspect_share < 0.03


def test_a_network_that_leaves_most_classes_open_gives_an_order_and_nothing_else():
    ranking = rank(made(samples=3000, classes=10, sharpness=1.5)[0])
    assert "of 10 classes open" in ranking.weakness
    assert ranking.suspects == 0
    scores, _, _ = made(samples=3000, classes=10, sharpness=1.5)
    rows = suspects(ranking, scores, names(3000), 3000)
    assert max(row.confidence for row in rows) < SUSPECT_FROM
    assert rank(made(samples=3000, classes=10, sharpness=6.0)[0]).weakness is None


def test_an_interval_that_holds_almost_everything_is_no_estimate(monkeypatch):
    scores, _, _ = made(samples=60, rate=0.4, held_out=0.25)
    low, high = rank(scores).estimate.noise_rate_interval
    monkeypatch.setattr("tnlpad.suspects.weakness.MAX_WIDTH", high - low + 0.01)
    assert rank(scores).weakness is None
    monkeypatch.setattr("tnlpad.suspects.weakness.MAX_WIDTH", high - low - 0.01)
    ranking = rank(scores)
    assert f"from {100 * low:.0f} to {100 * high:.0f} %" in ranking.weakness


def test_a_weak_run_lists_the_first_of_the_order(tmp_path):
    made_run(tmp_path / "run", classes=10, sharpness=1.0)
    found = rank_run(RunFolder(tmp_path / "run"))
    assert found.caution == found.ranking.weakness is not None
    assert len(found.suspects()) == LISTED_WITHOUT_SUSPECTS
    assert "Caution" in verdict(found)
    assert "more likely wrong" not in verdict(found)


def test_the_verdict_says_what_the_data_show_and_how_to_measure_the_rest(tmp_path):
    made_run(tmp_path / "run")
    found = rank_run(RunFolder(tmp_path / "run"))
    first, shown, hidden = verdict(found).splitlines()
    assert first.startswith(f"{found.ranking.suspects} of 600")
    assert f"{100 * found.ranking.estimate.noise_rate:.1f} %" in shown
    assert f"tnlpad audit {tmp_path / 'run'}" in hidden


def test_a_class_of_few_samples_is_named_and_never_suspect(tmp_path):
    scores, _, _ = made(classes=4)
    given = scores.columns["given"]
    keep = np.flatnonzero(given == 3)[2:]
    given[keep] = 0
    ranking = rank(scores)
    assert ranking.rare == (3,)
    assert ranking.confidence[given == 3].max() < SUSPECT_FROM


def audited(folder, checks, **options):
    """Audit a run with the truth as the person; return the run before and after."""
    scores, _, clean = made(**options)
    made_run(folder, **options)
    before = rank_run(RunFolder(folder))
    rows = np.random.default_rng(1).choice(len(scores), checks, replace=False).tolist()
    decisions = {before.names.ids[row]: scores.class_names[clean[row]] for row in rows}
    write_audit(folder / "audit", audit_run(before, decisions))
    return before, rank_run(RunFolder(folder)), rows


def test_an_audit_gives_the_rate_and_the_confidences_of_a_run(tmp_path):
    _, wrong, _ = made()
    before, after, rows = audited(tmp_path / "run", 100)
    low, high = after.ranking.estimate.noise_rate_interval
    assert low <= wrong.mean() <= high
    assert after.ranking.estimate.noise_rate == pytest.approx(wrong[rows].mean())
    assert "by the 100 that you checked" in verdict(after)
    np.testing.assert_array_equal((after.ranking.confidence > 0.5)[rows], wrong[rows])
    first = after.suspects()[0]
    assert first.why == f"You checked this label: it is “{first.suggested_name}”."
    assert after.ranking.suspects == (after.ranking.confidence >= SUSPECT_FROM).sum() == len(after.suspects())
    assert wrong[after.ranking.order[: after.ranking.suspects]].mean() > 0.9
    # A second audit starts from the network's confidences, and not from those of the first.
    np.testing.assert_array_equal(after.unaudited.confidence, before.ranking.confidence)


def test_an_audit_of_enough_labels_replaces_the_caution(tmp_path):
    weak = {"classes": 10, "sharpness": 1.0}
    _, few, _ = audited(tmp_path / "few", 10, **weak)
    assert few.caution is not None
    assert len(few.ranking.decisions) == 10
    assert few.ranking.confidence.max() < SUSPECT_FROM
    _, enough, _ = audited(tmp_path / "enough", 100, **weak)
    assert enough.caution is None
    assert "by the 100 that you checked" in verdict(enough)


@pytest.mark.parametrize("weakness", [None, "too weak"])
def test_labels_that_were_checked_are_not_suspect_and_come_last(weakness):
    scores, _, _ = made()
    ranking = rank(scores) if weakness is None else rank(scores).without_estimates(weakness)
    first, second, third = ranking.order[:3].tolist()
    classes, given = scores.class_names, ranking.evidence.given
    other = classes[(given[third] + 1) % 3]
    checked = ranking.checked({first: classes[given[first]], second: None, third: other}, classes)
    assert checked.order[-1] == first
    assert checked.confidence[first] == 0
    assert set(checked.order[:2].tolist()) == {second, third}
    assert classes[checked.evidence.suggested[third]] == other
    assert checked.order[2:-1].tolist() == ranking.order[3:].tolist()
    assert checked.suspects == (ranking.suspects - 1 if weakness is None else 0)
    assert checked.checked({first: other}, classes) is checked
    names = SampleNames(ids=list(map(str, range(600))), paths=[None] * 600)
    last = suspects(checked, scores, names, 600)[-1]
    assert (last.index, last.why) == (first, "You checked this label: it is right.")
