import pytest

from tnlpad.records.store import RecordError
from tnlpad.suspects.review import read_review


def review(path, text, ids=("a", "b", "c,d")):
    path.write_text(text, encoding="utf-8")
    return read_review(path, ids)


def test_a_decision_is_a_label_or_none(tmp_path):
    text = 'id,path,label,given,suggested,choice\r\na,,cät,cät,dog,given\r\n"c,d",,,cat,dog,neither\r\n'
    assert review(tmp_path / "r.csv", text) == {"a": "cät", "c,d": None}
    assert review(tmp_path / "r.csv", "\ufefflabel,id\ncat,b\n") == {"b": "cat"}
    assert review(tmp_path / "r.csv", "id;label\nc,d;cat\nc,d;cat\n") == {"c,d": "cat"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column id"),
        ("id,choice\na,given\n", "has no column label"),
        ("id,label\nz,cat\n", "'z', which is no sample of this run"),
        ("id,label\na,cat\na,dog\n", "two labels for 'a': 'cat' and 'dog'"),
        ("id,label\na,cat\nb\n", "line 3: the row ends before its label"),
    ],
)
def test_what_is_no_review_of_this_run_is_refused(tmp_path, text, message):
    with pytest.raises(RecordError, match=message):
        review(tmp_path / "r.csv", text)


def test_what_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "r.csv").write_bytes(b"id,label\n\xff\xfe\n")
    for path in (tmp_path / "r.csv", tmp_path / "none.csv"):
        with pytest.raises(RecordError, match="cannot be read as a table"):
            read_review(path, [])
