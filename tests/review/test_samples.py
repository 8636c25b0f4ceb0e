import csv
import io
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.data.own_files import class_folders
from tests.edited_runs import edit
from tests.review.own_run import own_run
from tests.review.served import served
from tests.suspects.made import made_run
from tnlpad.records.store import RunFolder
from tnlpad.suspects.listing import rank_run

GOOD = ["a wonderful film", "wonderful and touching", "a touching story", "wonderful music \U0001f600 wonderful cast"]
BAD = ["a boring film", "boring and long", "a long bore, boring", "so boring that I slept"]
HOSTILE = '<b>wonderful</b> & "quoted" \u2028 Ünïcode İstanbul'


def texts(path, wrong=(3, 14)):
    """Write texts of two classes with further columns; some labels are exchanged. Returns the true labels."""
    rows, truth = [], []
    for number in range(40):
        label = number % 2
        text = f"{(GOOD, BAD)[label][number // 2 % 4]} {number}"
        truth.append(label)
        given = ("good", "<bad>")[label if number not in wrong else 1 - label]
        rows.append([f"r{number}", HOSTILE if number == 4 else text, f"Author {number % 7}", str(1990 + number), given])
    rows[4][3] = ""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "text", "author", "year", "label"], *rows])
    return truth


@pytest.fixture
def reviews(tmp_path):
    truth = texts(tmp_path / "reviews.csv")
    names = sorted({"good", "<bad>"})
    own_run(
        tmp_path / "runs" / "texts", tmp_path / "reviews.csv", [names.index(("good", "<bad>")[each]) for each in truth]
    )
    return tmp_path / "runs" / "texts"


def positions(folder):
    """Position of each id."""
    run = rank_run(RunFolder(folder))
    return {run.names.ids[row]: at for at, row in enumerate(run.ranking.order.tolist())}


def test_texts_are_shown_with_their_further_columns(reviews):
    at = positions(reviews)
    with served(reviews) as client:
        about = client.document("about")
        assert (about["kind"], about["pictures"], about["samples"]) == ("text", False, 40)
        assert about["columns"] == ["author", "year"]
        assert about["title"] == "reviews.csv"
        assert about["command"].startswith("tnlpad clean ")
        shown = client.document(f"samples?at={at['r4']},{at['r3']}")
        assert [each["id"] for each in shown] == ["r4", "r3"]
        assert shown[0]["text"] == HOSTILE
        assert shown[0]["values"] == [["author", "Author 4"]]  # without the empty year
        assert shown[1]["values"] == [["author", "Author 3"], ["year", "1993"]]
        assert (shown[1]["row"], shown[1]["path"]) == (3, None)
        assert "“good”" in shown[1]["why"]
        assert client.request("GET", f"picture/{at['r4']}")[0] == 404


def test_words_that_speak_for_a_label_are_marked(reviews):
    at = positions(reviews)
    with served(reviews) as client:
        wrong, hostile, emoji = client.document(f"samples?at={at['r3']},{at['r4']},{at['r6']}")
        assert marked(wrong) == {"boring": 1, "long": 1}  # labelled good
        assert marked(hostile) == {"wonderful": -1}
        assert marked(emoji) == {"wonderful": -1}
        assert len(emoji["evidence"]) == 2  # both occurrences
        for start, end, weight in hostile["evidence"] + emoji["evidence"]:
            assert end - start == len("wonderful")
            assert -1 <= weight <= 1


def marked(sample):
    """The sign of each marked word; offsets are those of UTF-16, as in a browser."""
    units = sample["text"].encode("utf-16-le")
    return {
        units[2 * start : 2 * end].decode("utf-16-le"): int(np.sign(weight))
        for start, end, weight in sample["evidence"]
    }


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {f"r{number}" for number in range(40)}),
        ("AUTHOR%201999", {"r9"}),
        ("BORING%20r3", {"r3", "r31", "r33", "r35", "r37", "r39"}),
        ("%C3%9CN%C3%AFCODE", {"r4"}),
        ("u%CC%88ni%CC%88code", {"r4"}),  # with combining accents
        ("%3Cb%3Ewonderful%3C/b%3E", {"r4"}),
        ("1999", {"r9"}),
        ("wonderful%20boring", set()),
        ("reviews.csv", set()),
    ],
)
def test_search_finds_all_words_in_any_case(reviews, query, found):
    at = positions(reviews)
    with served(reviews) as client:
        places = np.frombuffer(client.get(f"search?q={query}"), "<u4")
    assert {name for name, place in at.items() if place in places} == found
    assert (np.diff(places.astype(int)) > 0).all()


def test_columns_are_in_order_of_suspicion(reviews):
    run = rank_run(RunFolder(reviews))
    order = run.ranking.order
    with served(reviews) as client:
        columns = client.columns()
    assert columns["given"].tolist() == run.ranking.evidence.given[order].tolist()
    assert columns["suggested"].tolist() == run.ranking.evidence.suggested[order].tolist()
    assert columns["row"].tolist() == order.tolist()
    assert (columns["part"] == 1).tolist() == [row % 5 == 0 for row in order.tolist()]
    if run.caution is None:
        assert (np.diff(columns["confidence"]) <= 0).all()


def test_a_caution_withholds_the_confidence(tmp_path):
    made_run(tmp_path / "runs" / "weak", samples=100, held_out=0.05)
    with served(tmp_path / "runs" / "weak") as client:
        about = client.document("about")
        assert about["caution"]
        assert about["sentences"] == []
        assert np.isnan(client.columns()["confidence"]).all()


@pytest.fixture
def pictures(tmp_path):
    class_folders(tmp_path / "photos", count=10)
    own_run(tmp_path / "runs" / "files", tmp_path / "photos")
    return tmp_path / "runs" / "files"


def test_pictures_of_files_are_served_by_position(pictures):
    with served(pictures) as client:
        about = client.document("about")
        assert (about["kind"], about["pictures"], about["columns"]) == ("files", True, [])
        status, headers, _ = client.request("GET", "picture/0")
        assert (status, headers["Content-Type"]) == (200, "image/jpeg")
        assert headers["Cache-Control"] == "private, max-age=3600"
        small, large = (Image.open(io.BytesIO(client.get(f"picture/0{query}"))) for query in ("", "?large"))
        assert small.format == large.format == "JPEG"
        assert (small.size, large.size) == ((60, 50), (144, 120))  # the file has 12 × 10 pixels
        (sample,) = client.document("samples?at=0")
        assert sample["path"].endswith(sample["id"])
        assert (sample["text"], sample["evidence"], sample["numbers"], sample["values"]) == (None, [], [], [])


def test_a_folder_that_is_gone_is_said_and_decisions_are_still_possible(pictures, tmp_path):
    shutil.rmtree(tmp_path / "photos")
    with served(pictures) as client:
        assert str(tmp_path / "photos") in client.document("about")["notes"][0]
        assert client.request("GET", "picture/0")[0] == 404
        assert client.document("samples?at=0")[0]["id"]
        assert client.document("duplicates") == {"groups": []}
        client.decide(0, "exclude")
    assert (pictures / "review" / "review.csv").read_text().count("\n") == 2


def test_a_table_that_has_changed_is_said_and_not_shown(reviews, tmp_path):
    table = tmp_path / "reviews.csv"
    table.write_text(table.read_text(encoding="utf-8").replace(",good", ",better"), encoding="utf-8")
    with served(reviews) as client:
        (sample,) = client.document("samples?at=0")
        assert (sample["text"], sample["evidence"], sample["values"]) == (None, [], [])
        assert any("has changed" in note for note in client.document("about")["notes"])
        assert np.frombuffer(client.get("search?q=r3"), "<u4").size == 11


def test_rows_of_numbers_are_compared_with_both_classes(tmp_path):
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 2
    far = np.where(labels == 1, 10, 0) + generator.normal(size=60)
    given = labels.copy()
    given[7] = 0
    rows = [f"{a:.3f},{b:.3f},{'xy'[k]}" for a, b, k in zip(far, generator.normal(size=60), given, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["far,noise,label", *rows]))
    own_run(tmp_path / "runs" / "rows", tmp_path / "rows.csv", labels)
    folder = tmp_path / "runs" / "rows"
    at = positions(folder)
    with served(folder) as client:
        (sample,) = client.document(f"samples?at={at['7']}")
        column, value, of_given, of_suggested = sample["numbers"][0]
        assert column == "far"
        assert abs(value - of_suggested) < 4 < abs(value - of_given)
        assert [name for name, _ in sample["values"]] == ["far", "noise"]
        assert client.document("about")["columns"] == ["far", "noise"]


def test_a_published_dataset_shows_its_pictures(tmp_path):
    made_run(tmp_path / "runs" / "digits", samples=40, classes=3)
    edit(tmp_path / "runs" / "digits" / "config.json", lambda config: config.update(dataset="digits"))
    with served(tmp_path / "runs" / "digits") as client:
        assert client.document("about")["kind"] == "images"
        assert Image.open(io.BytesIO(client.get("picture/0"))).size == (56, 56)
        assert Image.open(io.BytesIO(client.get("picture/0?large"))).size == (144, 144)


def test_a_published_dataset_that_is_not_there_is_said(tmp_path):
    made_run(tmp_path / "runs" / "mnist", samples=40, classes=3)
    edit(tmp_path / "runs" / "mnist" / "config.json", lambda config: config.update(dataset="mnist"))
    with served(tmp_path / "runs" / "mnist", root=tmp_path / "empty") as client:
        assert client.request("GET", "picture/0")[0] == 404
        assert client.said
        assert client.document("about")["notes"][-1] == client.said[-1]


def test_duplicates_with_different_labels_are_found(tmp_path):
    folder = class_folders(tmp_path / "photos", count=10)
    names = sorted(path.name for path in folder.iterdir())
    first = sorted((folder / names[0]).iterdir())
    shutil.copy(first[0], folder / names[1] / "copy.png")
    shutil.copy(first[1], folder / names[0] / "same label.png")
    own_run(tmp_path / "runs" / "files", folder)
    at = positions(tmp_path / "runs" / "files")
    with served(tmp_path / "runs" / "files") as client:
        (group,) = client.document("duplicates")["groups"]
    assert group == sorted([at[f"{names[0]}/{first[0].name}"], at[f"{names[1]}/copy.png"]])


def test_a_table_with_other_rows_or_long_values_is_shown_in_part(tmp_path):
    """Rows are known by number; lists are no values to show."""
    table = pa.table(
        {
            "x": np.arange(40.0),
            "vector": [[0.5, 1.5]] * 40,
            "note": ["x" * 600, None, *["short"] * 38],
            "label": ["a", "a", "b", "b"] * 10,
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    own_run(tmp_path / "runs" / "rows", tmp_path / "rows.parquet")
    folder, at = tmp_path / "runs" / "rows", positions(tmp_path / "runs" / "rows")
    with served(folder) as client:
        assert client.document("about")["columns"] == ["x", "note"]
        long, empty = client.document(f"samples?at={at['0']},{at['1']}")
        assert dict(long["values"]) == {"x": "0", "note": "x" * 500}
        assert dict(empty["values"]) == {"x": "1"}
    pq.write_table(pa.concat_tables([table.slice(0, 1), table]), tmp_path / "rows.parquet")
    with served(folder) as client:
        assert client.document("about")["columns"] == []


@pytest.mark.parametrize("word", ["(", "a.b", "100%25", "[x", "\\d", "c%2B%2B", "*"])
def test_a_search_is_for_plain_text(reviews, word):
    with served(reviews) as client:
        assert client.get(f"search?q={word}") == b""
        assert client.get("search?q=.") == b""
        assert len(client.get("search?q=,")) > 0  # in some texts


def test_rows_with_gaps_and_rows_of_an_array_are_shown(tmp_path):
    lines = [f"{10 * (k % 2) + k / 100},{'' if k == 3 else 'red'},{'xy'[k % 2]}" for k in range(60)]
    lines[5] = ",blue,y"
    (tmp_path / "table.csv").write_text("\n".join(["size,colour,label", *lines]))
    own_run(tmp_path / "runs" / "table", tmp_path / "table.csv")
    at = positions(tmp_path / "runs" / "table")
    with served(tmp_path / "runs" / "table") as client:
        assert client.document("about")["kind"] == "table"
        gap, plain = client.document(f"samples?at={at['5']},{at['7']}")
        assert (gap["numbers"], gap["values"]) == ([], [["colour", "blue"]])
        ((column, value, of_given, of_suggested),) = plain["numbers"]
        assert (column, value) == ("size", pytest.approx(10.07))
        assert {round(of_given), round(of_suggested)} == {0, 10}
    features = np.random.default_rng(0).normal(size=(40, 20)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", features=features, labels=["x", "y"] * 20)
    own_run(tmp_path / "runs" / "array", tmp_path / "rows.npz")
    with served(tmp_path / "runs" / "array") as client:
        (sample,) = client.document("samples?at=0")
        assert len(sample["numbers"]) == 4
        assert sample["values"][0] == ["column 0", f"{features[sample['row'], 0]:.6g}"]
        assert len(sample["values"]) == 12
        assert client.request("GET", "picture/0")[0] == 404
