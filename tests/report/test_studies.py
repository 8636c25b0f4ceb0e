import csv
import io

from tests.edited_runs import without_checksums
from tests.synthetic_runs import write_run
from tnlpad.paper.cells import Experiment, cells
from tnlpad.records.archive import finished_records
from tnlpad.report.studies import studies, studies_files

SMOKE = next(cell for cell in cells("smoke") if cell.row == "tnlpad")


def experiment(method, noise="pairflip:0.3", **settings):
    return Experiment(dataset="digits", noise=noise, method=method, network=None, settings={"epochs": 10, **settings})


def write(folder, experiment, seed, accuracy=0.9, **options):
    """A run whose chosen epoch is that of the highest accuracy, however low that is."""
    return write_run(folder, experiment, seed, accuracy=accuracy, last=accuracy / 2, **options)


def found(folder):
    return studies(finished_records([folder]))


def test_rows_are_methods_and_columns_are_noise(tmp_path):
    for seed, accuracy in ((1, 0.5), (2, 0.7)):
        write(tmp_path, experiment("tnlpad"), seed, accuracy=accuracy)
        write(tmp_path, experiment("standard"), seed, accuracy=accuracy / 2)
    write(tmp_path, experiment("tnlpad", noise="symmetric:0.3"), 1, accuracy=0.8)
    (study,) = found(tmp_path)
    assert study.title == "Digits, small CNN, epochs 10"
    assert study.columns == ("pairflip:0.3", "symmetric:0.3")
    assert [row.key.title for row in study.rows] == ["Standard", "TNLPAD"]
    text = studies_files([study]).markdown
    assert "| method | pairflip 30\u00a0% | symmetric 30\u00a0% |\n| --- | ---: | ---: |\n" in text
    assert "| Standard | 30.00 ± 7.07 (2) | · |\n" in text
    assert "| TNLPAD | 60.00 ± 14.14 (2) | 80.00 (1) |\n" in text


def test_each_column_has_the_last_epoch_as_the_papers_tables_do(tmp_path):
    for seed, accuracy in ((1, 0.5), (2, 0.7)):
        write(tmp_path, experiment("tnlpad"), seed, accuracy=accuracy, memorised=0.2)
    write(tmp_path, experiment("coteaching"), 1, accuracy=0.8)
    (study,) = found(tmp_path)
    lines = studies_files([study], level=2).markdown.replace("\u00a0", " ").splitlines()
    assert lines[lines.index("### Digits, small CNN, epochs 10") :][4:] == [
        "#### pairflip 30 %",
        "",
        "| method | chosen epoch | last epoch | wrong labels memorised | n |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| Co-teaching | 80.00 (epoch 4) | 40.00 | 30.00 | 1 |",
        "| TNLPAD | 60.00 ± 14.14 (epoch 4) | 30.00 ± 7.07 | 20.00 ± 0.00 | 2 |",
    ]


def test_a_column_has_the_rows_that_have_runs(tmp_path):
    write(tmp_path, experiment("tnlpad"), 1)
    write(tmp_path, experiment("standard", noise="symmetric:0.3"), 1)
    (study,) = found(tmp_path)
    assert [(noise, [key.title for key, _ in rows]) for noise, rows in study.blocks] == [
        ("pairflip:0.3", ["TNLPAD"]),
        ("symmetric:0.3", ["Standard"]),
    ]


def test_settings_of_a_method_part_rows_and_those_of_the_run_part_tables(tmp_path):
    for settings in ({}, {"c2": 0.25}, {"c2": 0.25, "learning_rate": 0.5}):
        write(tmp_path, experiment("tnlpad", **settings), 1)
    write(tmp_path, experiment("coteaching", noise_rate=0.1), 1)  # only what this method assumes
    one, two = found(tmp_path)
    assert one.title == "Digits, small CNN, epochs 10"
    assert [row.key.title for row in one.rows] == ["Co-teaching, noise_rate 0.1", "TNLPAD", "TNLPAD, c2 0.25"]
    assert two.title == "Digits, small CNN, epochs 10, learning_rate 0.5"
    assert [row.key.title for row in two.rows] == ["TNLPAD, c2 0.25"]


def test_runs_of_a_table_join_comparable_other_runs(tmp_path):
    write(tmp_path, SMOKE, 1, accuracy=0.9)
    assert found(tmp_path) == []
    write(tmp_path, SMOKE, 1, accuracy=0.6, settings={"c2": 0.125})
    (study,) = found(tmp_path)
    assert [row.key.title for row in study.rows] == ["TNLPAD", "TNLPAD, c2 0.125"]
    assert [row["mean"] for row in studies_files([study]).rows] == [90, 60]


def test_tables_and_columns_are_in_the_order_of_their_numbers(tmp_path):
    for epochs in (10, 5):
        for noise in ("pairflip:0.3", "pairflip:0.05"):
            write(tmp_path, experiment("tnlpad", noise=noise, epochs=epochs), 1)
    assert [(study.title[-2:], study.columns) for study in found(tmp_path)] == [
        (" 5", ("pairflip:0.05", "pairflip:0.3")),
        ("10", ("pairflip:0.05", "pairflip:0.3")),
    ]


def test_variants_have_rows_of_their_own(tmp_path):
    write(tmp_path, experiment("tnlpad"), 1)
    write(tmp_path, experiment("tnlpad"), 1, settings={"patience": 5})
    (study,) = found(tmp_path)
    assert [row.key.title for row in study.rows] == ["TNLPAD", "TNLPAD, patience 5"]


def test_a_method_that_the_paper_does_not_have_comes_last(tmp_path):
    write(tmp_path, experiment("dividemix"), 1)
    folder = write(tmp_path / "own", experiment("standard"), 1)
    for name in ("config.json", "summary.json"):  # as a run of a method that this version does not know
        path = folder.path / name
        path.write_text(path.read_text().replace('"standard"', '"a_method"').replace("_standard_", "_a_method_"))
        without_checksums(folder.path)
    folder.path.rename(tmp_path / folder.path.name.replace("_standard_", "_a_method_"))
    titles = [row.key.title for study in found(tmp_path) for row in study.rows]
    assert titles == ["DivideMix", "a_method"]


def test_csv_has_a_line_for_each_group(tmp_path):
    for seed in (1, 2):
        write(tmp_path, experiment("tnlpad", c2=0.25), seed, accuracy=0.5)
    (row,) = csv.DictReader(io.StringIO(studies_files(found(tmp_path)).by_suffix()["csv"]))
    assert (row["method"], row["noise"], row["mean"], row["n"], row["seeds"]) == (
        "tnlpad",
        "pairflip:0.3",
        "50.0",
        "2",
        "1 2",
    )
    assert row["settings"] == "epochs 10, c2 0.25"


def test_latex_escapes(tmp_path):
    write(tmp_path, experiment("tnlpad", gamma_family="linear"), 1, accuracy=0.5)
    text = studies_files(found(tmp_path)).latex
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 1
    assert r" & pairflip 30~\% \\" in text
    assert r"TNLPAD, gamma\_family linear & 50.00 (1) \\" in text
    assert "±" not in text
