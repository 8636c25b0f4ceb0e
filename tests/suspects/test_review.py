import pytest

from tnlpad.records.store import RecordError
from tnlpad.suspects.review import merge_reviews, read_review, read_reviews


def written(path, *rows):
    path.write_text("\n".join(["id,label,choice", *rows]), encoding="utf-8")
    return path


def test_every_choice_is_read(tmp_path):
    path = written(
        tmp_path / "r.csv", "a,cat,given", "b,dog,suggested", "c,owl,other", "d,,exclude", "e,,neither", "f,,unsure"
    )
    decided = {"a": "cat", "b": "dog", "c": "owl", "d": None, "e": None}
    assert read_review(path, "abcdef") == decided
    assert read_review(written(path, "a,,unsure", "a,cat,other"), "a") == {"a": "cat"}


def test_classes_keep_their_outer_spaces(tmp_path):
    path = written(tmp_path / "r.csv", "a, cat,other", "b,cat,other", "c,dog ,other", "d, owl ,other", "e, ,exclude")
    assert read_review(path, "abcde", (" cat", "dog")) == {"a": " cat", "b": " cat", "c": "dog", "d": "owl", "e": None}
    path = written(path, "a, cat,other", "b,cat,other", "c, ,other")
    assert read_review(path, "abc", ("cat", " cat", " ")) == {"a": " cat", "b": "cat", "c": " "}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,cat,perhaps", "the choice 'perhaps'"),
        ("a,,suggested", "suggested without a label for 'a'"),
        ("a,cat,exclude", "exclude and the label 'cat'"),
        ("z,,unsure", "'z', which is not a sample"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(tmp_path, row, message):
    with pytest.raises(RecordError, match=message):
        read_review(written(tmp_path / "r.csv", row), "ab")


def test_the_majority_decides_and_without_one_nobody_does():
    reviews = [
        {"a": "cat", "b": "cat", "c": "cat", "d": None, "e": "cat", "g": "cat"},
        {"a": "cat", "b": "dog", "c": "dog", "d": None, "e": "dog"},
        {"a": "cat", "b": "dog", "d": "owl", "e": "owl", "f": "dog"},
    ]
    merged = merge_reviews(reviews)
    assert merged.decisions == {"a": "cat", "b": "dog", "d": None, "f": "dog", "g": "cat"}
    assert {each.id: each.decided for each in merged.disagreements} == {"b": True, "c": False, "d": True, "e": False}
    assert merged.disagreements[0].votes == (("dog", 2), ("cat", 1))
    assert merged.undecided == {"c", "e"}
    assert merge_reviews([reviews[0]]).decisions == reviews[0]
    assert merge_reviews([]).decisions == {}


def test_somebody_who_is_not_sure_has_no_vote(tmp_path):
    files = [
        written(tmp_path / f"{number}.csv", row)
        for number, row in enumerate(["a,cat,given", "a,,unsure", "a,cat,given"])
    ]
    merged = read_reviews(files, "a")
    assert (merged.decisions, merged.disagreements, merged.undecided) == ({"a": "cat"}, (), frozenset())
    assert read_reviews(files[1:2], "a").undecided == {"a"}
