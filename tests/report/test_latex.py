import re
import shutil
import subprocess

import pytest

from tnlpad.report.latex import escape_latex, latex
from tnlpad.report.results import TITLES, table_results


def test_latex_shows_ours_above_the_papers(table):
    text = latex(table)
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1  # of MNIST: the others have no runs
    assert r"TNLPAD & 99.00 $\pm$ 0.14 $\approx$ & $\cdot$" in text
    assert r" & {\scriptsize 99.02 $\pm$ 0.07} & {\scriptsize 98.84 $\pm$ 0.06}" in text
    assert r"TNLPAD (float32) & 95.00 ? &  &  &" in text
    assert "symmetric 20~\\%" in text


def test_every_line_of_latex_has_as_many_cells(table):
    body = re.search(r"\\begin\{tabular\}.*?\\end\{tabular\}", latex(table), re.DOTALL)[0]
    counts = {len(re.findall(r"(?<!\\)&", line)) for line in body.splitlines() if line.endswith(r"\\")}
    assert counts == {8}


def test_words_cannot_become_commands():
    assert escape_latex(r"a_b & 50 % {x} \input{y} $z$ #1 ~ ^") == (
        r"a\_b \& 50 \% \{x\} \textbackslash{}input\{y\} \$z\$ \#1 \textasciitilde{} \textasciicircum{}"
    )


@pytest.mark.parametrize("name", TITLES)
def test_latex_is_plain_ascii(name):
    """Whatever engine reads it: no letter needs a package."""
    assert latex(table_results(name, [])).isascii()


def test_latex_compiles(table, smoke, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("needs pdflatex: apt-get install texlive-latex-base")
    document = "\n".join([r"\documentclass{article}\begin{document}", latex(table), latex(smoke), r"\end{document}"])
    (tmp_path / "all.tex").write_text(document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
