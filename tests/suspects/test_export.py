import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.suspects.made import made
from tests.suspects.test_listing import listed
from tnlpad.suspects.export import COLUMNS, write_csv, write_for_cleanlab, write_label_studio, write_parquet


def test_csv_has_a_row_for_each(tmp_path):
    rows, _, _ = listed(top=20)
    with open(write_csv(tmp_path / "s.csv", rows), newline="", encoding="utf-8") as file:
        read = list(csv.DictReader(file))
    assert [row["id"] for row in read] == [row.id for row in rows]
    assert tuple(read[0]) == COLUMNS
    assert read[0]["why"] == rows[0].why


def test_parquet_keeps_types(tmp_path):
    rows, _, _ = listed(top=20)
    table = pq.read_table(write_parquet(tmp_path / "s.parquet", rows))
    assert table.to_pylist() == [row.to_json() for row in rows]
    assert str(table.schema.field("confidence").type) == "double"
    assert pq.read_table(write_parquet(tmp_path / "none.parquet", [])).num_rows == 0


def test_label_studio_gets_tasks_with_a_prediction(tmp_path):
    rows, _, _ = listed(top=3)
    tasks = json.loads(write_label_studio(tmp_path / "s.json", rows).read_text())
    assert [task["data"]["image"] for task in tasks] == [row.path for row in rows]
    prediction = tasks[0]["predictions"][0]
    assert prediction["score"] == rows[0].confidence
    result = prediction["result"][0]
    assert (result["from_name"], result["to_name"], result["type"]) == ("choice", "image", "choices")
    assert result["value"] == {"choices": [rows[0].suggested_name]}
    assert json.loads(write_label_studio(tmp_path / "none.json", []).read_text()) == []


def test_cleanlab_finds_the_wrong_labels_in_its_files(tmp_path):
    filter_module = pytest.importorskip("cleanlab.filter", reason="needs cleanlab: pip install 'tnlpad[compare]'")
    scores, wrong, _ = made()
    labels, probabilities = (np.load(path) for path in write_for_cleanlab(tmp_path, scores))
    found = filter_module.find_label_issues(labels, probabilities, n_jobs=1)
    assert wrong[found].mean() > 0.8
