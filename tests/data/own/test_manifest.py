import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.own_files import class_folders
from tnlpad.data.own import manifest
from tnlpad.data.own.dataset import ReadOptions
from tnlpad.errors import DataError


def read_manifest(path, images=None, **options):
    return manifest.read_manifest(path, images, ReadOptions(**options))


def csv(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_images_by_path(tmp_path):
    class_folders(tmp_path)
    listing = read_manifest(csv(tmp_path / "x.csv", "path,label,split", "cat/0.png,Katze,train", "dog/1.png,Hund,val"))
    assert list(listing.ids) == ["cat/0.png", "dog/1.png"]
    assert listing.labels == ["Katze", "Hund"]
    assert listing.parts == ["train", "validation"]
    assert list(listing.files) == [str(tmp_path / "cat/0.png"), str(tmp_path / "dog/1.png")]


def test_a_table_may_lie_elsewhere_if_the_folder_is_named(tmp_path):
    class_folders(tmp_path / "data")
    (tmp_path / "tables").mkdir()
    table = csv(tmp_path / "tables" / "x.csv", "path;label", "cat/0.png;a", f"{tmp_path}/data/dog/0.png;b")
    assert len(read_manifest(table, tmp_path / "data").ids) == 2
    with pytest.raises(DataError, match="is not a folder"):
        read_manifest(table, tmp_path / "nowhere")


def test_paths_do_not_lead_elsewhere(tmp_path):
    class_folders(tmp_path / "data")
    table = csv(tmp_path / "data" / "x.csv", "path,label", "cat/0.png,a", "/etc/passwd,b", "../data2/x.png,b", ",c")
    listing = read_manifest(table)
    assert list(listing.ids) == ["cat/0.png"]
    reasons = [each.reason for each in listing.problems]
    assert all("lies out of the folder" in reason for reason in reasons[:2])
    assert reasons[2] == "has no path"
    with pytest.raises(DataError, match=r"none of its 1 paths can be used; /etc/passwd .*--images"):
        read_manifest(csv(tmp_path / "data" / "y.csv", "path,label", "/etc/passwd,b"))


def test_ids_are_given_or_the_path_and_unique(tmp_path):
    class_folders(tmp_path)
    twice = read_manifest(csv(tmp_path / "x.csv", "path,label", "cat/0.png,a", "cat/0.png,b"))
    assert list(twice.ids) == ["cat/0.png", "cat/0.png#2"]
    named = read_manifest(csv(tmp_path / "y.csv", "id,path,label", "7,cat/0.png,a", "8,cat/0.png,b"))
    assert list(named.ids) == ["7", "8"]
    with pytest.raises(DataError, match=r"the id '7' occurs twice.*--group id.*--ignore id"):
        read_manifest(csv(tmp_path / "z.csv", "id,path,label", "7,cat/0.png,a", "7,cat/1.png,b"))


def test_numbers_are_features(tmp_path):
    listing = read_manifest(csv(tmp_path / "x.csv", "a,b,label", "1,2.5,yes", "3,4,no"))
    assert (listing.columns, listing.ids) == (("a", "b"), ["0", "1"])
    assert listing.features.tolist() == [[1, 2.5], [3, 4]]


def test_numbers_that_are_missing_or_too_large_are_gaps(tmp_path):
    listing = read_manifest(csv(tmp_path / "x.csv", "a,b,label", "1,2.5,yes", "3,,no", "1e60,nan,no"))
    assert np.isnan(listing.table.numbers).tolist() == [[False, False], [False, True], [True, True]]


def test_parquet_is_read_as_csv_is(tmp_path):
    pq.write_table(pa.table({"a": [1.5, None], "label": [3, 4]}), tmp_path / "x.parquet")
    listing = read_manifest(tmp_path / "x.parquet")
    assert listing.labels == [3, 4]
    assert np.isnan(listing.table.numbers[1, 0])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["path", "cat/0.png"], "has no column `label`; it has path"),
        (["id,label", "1,a"], "has no column to train on: .*; it has id, label"),
        (["path,label"], "has no rows"),
        (["a,label", "x,1"], "has no column to train on: .*; it has a, label"),
        (["a,label", "2,1", "x,1", "3,1"], "line 3: 'x' in column 'a' is not a number"),
        (["a,label,split", "1,2,somewhere"], "'somewhere' is not a split"),
        (["id,a,label", "1,2,x", ",3,y"], r"row 1 \(counted from 0\) has no id. Give every sample one"),
        (["image,label", "cat/0.png,x"], "'image' holds names of image files: call it `path`"),
    ],
)
def test_mistakes_are_named(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        read_manifest(csv(tmp_path / "x.csv", *lines))


def test_labels_are_classes(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "label": [0.5, 1.0]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"0\.5 is a number with a fraction"):
        read_manifest(tmp_path / "x.parquet")


def test_what_numbers_the_rows_is_no_feature_and_what_weighs_is(tmp_path):
    listing = read_manifest(csv(tmp_path / "x.csv", ",weight,original_label,label", "0,2.5,no,yes", "1,3,no,no"))
    assert listing.columns == ("weight",)
    assert listing.notes == (
        "columns with row numbers or other labels are not trained on: one without a name, 'original_label'.",
    )
    pq.write_table(
        pa.table({"__index_level_0__": [7, 9], "Unnamed: 0": [1, 2], "a": [1, 2], "label": [0, 1]}),
        tmp_path / "x.parquet",
    )
    assert read_manifest(tmp_path / "x.parquet").columns == ("a",)


def test_a_column_of_classes_may_have_any_name(tmp_path):
    table = csv(tmp_path / "x.csv", "a,Cover_Type,b", "1,spruce,2", "3,pine,4")
    for said in ("Cover_Type", "cover_type "):
        listing = read_manifest(table, label=said)
        assert (listing.labels, listing.columns, listing.notes) == (["spruce", "pine"], ("a", "b"), ())
    with pytest.raises(DataError, match=r"has no column 'Kind'; it has a, Cover_Type, b\. .*--label Cover_Type"):
        read_manifest(table, label="Kind")


def test_beside_the_labels_other_labels_are_no_features(tmp_path):
    table = csv(tmp_path / "x.csv", "a,label,fine,target", "1,0,x,7", "3,1,y,8")
    listing = read_manifest(table, label="fine")
    assert (listing.labels, listing.columns) == (["x", "y"], ("a",))
    assert "other labels are not trained on: 'label', 'target'" in listing.notes[0]
    for table in (
        csv(tmp_path / "y.csv", "a,label,target", "1,0,7", "3,1,8"),
        csv(tmp_path / "z.csv", "a,label,Label", "1,0,7", "3,1,8"),
    ):
        for said in (None, "label"):
            listing = read_manifest(table, label=said)
            assert (listing.labels, listing.columns) == (["0", "1"], ("a",))
            assert "other labels" in listing.notes[0]


def test_a_column_of_classes_is_no_id_path_or_part(tmp_path):
    listing = read_manifest(csv(tmp_path / "x.csv", "part,a", "train,1", "left,2"), label="part")
    assert (listing.labels, listing.parts, listing.columns) == (["train", "left"], None, ("a",))


def test_a_named_column_is_not_needed_to_predict_and_is_no_feature_either(tmp_path):
    with_labels = csv(tmp_path / "x.csv", "a,kind,b", "1,spruce,2")
    without = csv(tmp_path / "y.csv", "a,b", "1,2")
    for table in (with_labels, without):
        listing = read_manifest(table, label="kind", labelled=False)
        assert (listing.labels, listing.columns) == ([None], ("a", "b"))


def test_a_folder_where_none_of_the_paths_leads_is_not_the_right_one(tmp_path):
    class_folders(tmp_path / "data")
    table = csv(tmp_path / "x.csv", "path,label", "cat/0.png,a", "dog/0.png,b")
    with pytest.raises(DataError, match=r"none of its 2 paths .*cat/0\.png does not exist\. .* given with --images"):
        read_manifest(table)
    assert len(read_manifest(table, tmp_path / "data").ids) == 2
    windows = csv(tmp_path / "data" / "y.csv", "path,label", "cat\\0.png,a")
    with pytest.raises(DataError, match="Write / between folders"):
        read_manifest(windows)


def test_spaces_around_a_path_are_no_part_of_it(tmp_path):
    class_folders(tmp_path)
    (tmp_path / "cat" / "0.png").rename(tmp_path / "cat" / "0.png ")
    listing = read_manifest(csv(tmp_path / "x.csv", "label, path", "a, cat/1.png", "b,cat/0.png "))
    assert list(listing.files) == [str(tmp_path / "cat/1.png"), str(tmp_path / "cat/0.png ")]


def test_a_folder_for_paths_is_refused_where_there_are_none(tmp_path):
    with pytest.raises(DataError, match=r"--images .*x\.csv has no column of paths"):
        read_manifest(csv(tmp_path / "x.csv", "a,label", "x,1"), tmp_path)


def test_to_predict_the_columns_that_were_trained_on_are_enough(tmp_path):
    table = csv(tmp_path / "x.csv", "b,path,split,name,id,a,label", "2,p.png,fold 3,x,7,1,?", "4,q.png,fold 4,y,7,3,?")
    listing = read_manifest(table, labelled=False, columns=("a", "b"))
    assert (listing.columns, listing.features.tolist()) == (("a", "b"), [[1, 2], [3, 4]])
    assert (listing.ids, listing.parts, listing.files) == (["7", "7#2"], None, None)
    assert listing.notes == ("columns that this run was not trained on are ignored: 'path', 'split', 'name', 'label'.",)


TEXTS = [f"this is comment number {row}, friends" for row in range(6)]


def test_text_is_found_or_named(tmp_path):
    lines = ["id,Comment,label,author", *(f'{row},"{text}",{row % 2},a' for row, text in enumerate(TEXTS))]
    found = read_manifest(csv(tmp_path / "x.csv", *lines))
    assert (found.texts, found.text_column, found.columns) == (TEXTS, "Comment", ())
    assert found.labels == ["0", "1"] * 3
    assert found.notes[0].startswith("the text is the column 'Comment'; other columns are not trained on: 'author'.")
    named = read_manifest(tmp_path / "x.csv", text="author")
    assert (named.texts, named.text_column) == (["a"] * 6, "author")
    with pytest.raises(DataError, match=r"no column 'body', named by --text; it has Comment, author"):
        read_manifest(tmp_path / "x.csv", text="body")


def test_empty_texts_stay_and_are_counted(tmp_path):
    found = read_manifest(csv(tmp_path / "x.csv", "text,label", "hello,1", ",0", " ,1"))
    assert found.texts == ["hello", "", " "]
    assert found.notes == ("2 of 3 texts are empty.",)


def test_json_lines_and_workbooks_are_tables_too(tmp_path):
    lines = [f'{{"sentence": "{text}", "label": {row % 2}}}' for row, text in enumerate(TEXTS)]
    found = read_manifest(csv(tmp_path / "x.jsonl", *lines))
    assert (found.texts, found.labels) == (TEXTS, [0, 1] * 3)
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed: pip install 'tnlpad[tables]'")
    book = openpyxl.Workbook()
    for row in (["n", "label"], [1, "x"], [2.5, "y"]):
        book.active.append(row)
    book.create_sheet("other")
    book.save(tmp_path / "x.xlsx")
    found = read_manifest(tmp_path / "x.xlsx")
    assert (found.columns, found.features.tolist(), found.labels) == (("n",), [[1], [2.5]], ["x", "y"])
    assert "not other" in found.notes[0]


def test_decimal_commas_beside_semicolons(tmp_path):
    found = read_manifest(csv(tmp_path / "x.csv", "a;label", "1,5;x", "2;y"))
    assert found.features.tolist() == [[1.5], [2]]
    with pytest.raises(DataError, match="line 2: '1,5' in column 'a' is not a number"):
        read_manifest(csv(tmp_path / "y.csv", "a,label", '"1,5",x', "2,y"))


def test_gaps_and_categories_make_a_table(tmp_path):
    lines = ["a,colour,label", "1,red,x", ",blue,y", "3,red,x", "4,blue,y"]
    found = read_manifest(csv(tmp_path / "x.csv", *lines))
    assert (found.features, found.columns, len(found.table)) == (None, ("a", "colour"), 4)


def test_numbers_beside_paths_are_trained_on_and_pictures_kept(tmp_path):
    class_folders(tmp_path)
    lines = ["path,x,label,width", "cat/0.png,1,a,10", "cat/9.png,2,b,10", "../out.png,3,a,10", ",4,b,10"]
    found = read_manifest(csv(tmp_path / "x.csv", *lines))
    assert (found.columns, found.features[:, 0].tolist(), found.files) == (("x", "width"), [1, 2, 3, 4], None)
    assert found.pictures == [str(tmp_path / "cat/0.png"), None, None, None]
    assert list(found.ids) == ["cat/0.png", "cat/9.png", "../out.png", ""]
    assert "--ignore" in found.notes[0]
    images = read_manifest(tmp_path / "x.csv", ignored=["x"])
    assert (images.files[0], images.features, images.pictures) == (str(tmp_path / "cat/0.png"), None, None)


def test_groups_are_kept_and_not_trained_on(tmp_path):
    class_folders(tmp_path)
    lines = ["path,a,patient,label", "cat/0.png,1,7,x", "cat/1.png,2,,y", "nowhere\0,3,7,x", "cat/2.png,4,8,x"]
    (tmp_path / "x.csv").write_text("\n".join(lines).replace("\0", ""))
    found = read_manifest(tmp_path / "x.csv", group="Patient")
    assert found.columns == ("a",)
    assert found.groups[0] == found.groups[2]
    assert len(set(found.groups)) == 3
    images = read_manifest(tmp_path / "x.csv", group="patient", ignored=["a"])
    assert (len(images.files), images.groups) == (4, found.groups)
    with pytest.raises(DataError, match="no column 'who', named by --group; it has path, a, patient, label"):
        read_manifest(tmp_path / "x.csv", group="who")
    assert read_manifest(tmp_path / "x.csv", group="who", labelled=False).groups is None


def test_to_predict_on_a_table_its_columns_and_their_kinds_are_given(tmp_path):
    table = csv(tmp_path / "x.csv", "colour,b,path,a", "green,2,p.png,", "red,,q.png,3")
    found = read_manifest(table, labelled=False, columns=("a", "colour"), categories=("colour",))
    assert found.table.columns == ("a", "colour")
    assert found.table.categories == (["green", "red"],)
    assert math.isnan(found.table.numbers[0, 0])
    with pytest.raises(DataError, match="no column 'c', which this run was trained on"):
        read_manifest(table, labelled=False, columns=("a", "c"), categories=("c",))


def test_a_table_without_anything_to_train_on(tmp_path):
    with pytest.raises(DataError, match=r"no column to train on: .* it has id, when, label\. .*--text"):
        read_manifest(csv(tmp_path / "x.csv", "id,when,label", "1,2024-01-01,x"))


def test_a_path_that_is_none_may_mean_another_thing(tmp_path):
    texts = [f"doc{row}.txt,{text.replace(',', '')},{row % 2}" for row, text in enumerate(TEXTS)]
    with pytest.raises(DataError, match=r"none of its 6 paths can be used; .* To train on the texts .*--text text"):
        read_manifest(csv(tmp_path / "x.csv", "filename,text,label", *texts))
    numbers = read_manifest(
        csv(tmp_path / "y.csv", "file,a,label", *(f"doc{row}.txt,{row},{row % 2}" for row in range(6)))
    )
    assert (numbers.pictures, numbers.ids[0], numbers.notes) == (None, "doc0.txt", ())
    with pytest.raises(
        DataError, match=r"'nose' is not a split\. .* the column 'Part' holds something else, rename it"
    ):
        read_manifest(csv(tmp_path / "z.csv", "a,label,Part", "1,2,nose"))
