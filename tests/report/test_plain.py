import csv
import io

import pytest

from tnlpad.paper.cells import cells
from tnlpad.report.latex import latex
from tnlpad.report.markdown import markdown
from tnlpad.report.plain import csv_text, rows
from tnlpad.report.results import TITLES, table_results


def test_csv_has_a_row_for_each_group_and_each_empty_cell(table):
    found = list(csv.DictReader(io.StringIO(csv_text(table))))
    assert len(found) == 288 + 1
    first = next(row for row in found if row["row"] == "tnlpad" and row["variant"] == "bfloat16, compiled")
    assert (first["mean"], first["sd"], first["n"], first["trials"]) == ("99.0", "0.1414", "2", "5")
    assert (first["last_mean"], first["memorised_mean"]) == ("97.0", "25.0")
    assert (first["paper_mean"], first["paper_sd"], first["paper_n"]) == ("99.02", "0.07", "5")
    assert (first["difference"], first["within"], first["unknown"]) == ("-0.02", "True", "")
    assert first["seeds"] == "1 2"
    assert len(first["runs"].split()) == 2
    empty = next(row for row in found if row["row"] == "cdr")
    assert (empty["n"], empty["mean"], empty["within"]) == ("0", "", "")
    assert empty["command"] == "tnlpad reproduce simulated --only mnist/symmetric-0.2 --methods cdr"
    single = next(row for row in found if row["row"] == "standard")
    assert (single["sd"], single["within"], single["unknown"]) == ("", "", "we have one seed")


def test_plain_data_has_the_same_fields_in_every_row(table):
    plain = rows(table)
    assert len({tuple(row) for row in plain}) == 1
    assert next(row for row in plain if row["row"] == "tnlpad" and row["n"] == 2)["within"] is True
    assert all(row["command"] is None or row["n"] < row["trials"] for row in plain)


@pytest.mark.parametrize("name", TITLES)
def test_tables_without_any_run(name):
    table = table_results(name, [])
    assert len(rows(table)) == len(cells(name))
    assert csv_text(table).count("\n") == len(cells(name)) + 1
    assert table.command in markdown(table)
    assert latex(table).count(r"\begin{table}") >= 1
