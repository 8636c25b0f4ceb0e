import csv
import io

from tnlpad.report.table import StackedCell, Table, escape_latex, latex_file, to_csv

TABLE = Table(
    title="Results",
    note="In percent.",
    headings=["method", "a_b", "c | d"],
    align="lrr",
    rows=[
        ["Standard", StackedCell(text="99.0 ± 0.1", mark="≈", below="98.8", bold=True), StackedCell(text="·")],
        ["CDR", "95.0", ""],
    ],
)


def test_markdown():
    assert TABLE.to_markdown(2) == (
        "## Results\n\nIn percent.\n\n"
        "| method | a_b | c \\| d |\n"
        "| --- | ---: | ---: |\n"
        "| Standard | **99.0 ± 0.1** ≈<br>98.8 | · |\n"
        "| CDR | 95.0 |  |\n"
    )
    assert TABLE.to_markdown().startswith("| method |")


def test_latex_puts_the_second_line_of_cells_into_a_row_of_small_type():
    assert TABLE.to_latex("50 %").splitlines() == [
        r"\begin{table}",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        r"\caption{50 \%}",
        r"\begin{tabular}{lrr}",
        r"\hline",
        r" & a\_b & c | d \\",
        r"\hline",
        r"Standard & \textbf{99.0 $\pm$ 0.1} $\approx$ & $\cdot$ \\",
        r" & {\scriptsize 98.8} &  \\",
        r"CDR & 95.0 &  \\",
        r"\hline",
        r"\end{tabular}",
        r"\end{table}",
    ]
    assert latex_file("Results", [TABLE.to_latex("A")], "% more").splitlines()[1:3] == ["% more", r"\begin{table}"]


def test_latex_commands_are_escaped():
    assert escape_latex(r"a_b & 50 % {x} \input{y} $z$ #1 ~ ^") == (
        r"a\_b \& 50 \% \{x\} \textbackslash{}input\{y\} \$z\$ \#1 \textasciitilde{} \textasciicircum{}"
    )


def test_csv_joins_lists_and_leaves_none_empty():
    text = to_csv([{"a": [1, 2], "b": None}, {"a": [], "b": "x, y"}])
    assert list(csv.DictReader(io.StringIO(text))) == [{"a": "1 2", "b": ""}, {"a": "", "b": "x, y"}]
