from tests.suspects.made import made
from tests.suspects.test_listing import names
from tnlpad.suspects.cleaning import HEADER, Change, cleaned
from tnlpad.suspects.ranking import rank

CHANGED = HEADER.index("changed")


def rows(action, least_confidence=0.9, **options):
    scores, wrong, clean = made(**options)
    change = Change(action=action, least_confidence=least_confidence)
    return list(cleaned(rank(scores), scores, names(len(scores)), change)), scores, wrong, clean


def test_corrected_labels_are_nearer_to_the_truth_and_the_original_stays():
    table, scores, wrong, clean = rows("correct")
    assert len(table) == len(scores)
    right = [row[2] == scores.class_names[true] for row, true in zip(table, clean, strict=True)]
    assert sum(right) / len(right) > 0.93 > 1 - wrong.mean()
    given = scores.columns["given"]
    assert [row[4] for row in table] == [scores.class_names[label] for label in given]
    assert all((row[2] != row[4]) == (row[CHANGED] == "yes") for row in table)


def test_dropped_samples_are_gone_and_the_rest_unchanged():
    table, scores, wrong, _ = rows("drop")
    kept = {int(row[0].removeprefix("id")) for row in table}
    assert wrong[list(kept)].mean() < wrong.mean() / 3
    assert all(row[2] == row[4] for row in table)
    assert len(table) < len(scores)


def test_more_confidence_changes_fewer_labels():
    assert (
        0
        < sum(row[CHANGED] == "yes" for row in rows("correct", 0.99, sharpness=2.0)[0])
        < sum(row[CHANGED] == "yes" for row in rows("correct", 0.5, sharpness=2.0)[0])
    )
