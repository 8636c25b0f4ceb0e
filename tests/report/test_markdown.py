import re

from tnlpad.report.markdown import markdown
from tnlpad.report.results import table_results


def test_a_row_says_everything(table):
    text = markdown(table)
    assert text.startswith("# Test accuracy under simulated noise\n")
    assert "2 of 288 cells have runs; `tnlpad reproduce simulated` runs what is missing." in text
    assert "Epoch chosen by: first epoch of the highest noisy validation accuracy." in text
    assert "Runs, where nothing else is said: bfloat16, compiled." in text
    # 2·√(0.1414²/2 + 0.07²/5) = 0.2096
    assert (
        "| TNLPAD | 99.00 ± 0.14 (epoch 4) | 97.00 ± 0.00 | 25.00 ± 0.00 | 2 of 5 | 99.02 ± 0.07 (n 5) | −0.02 | "
        "yes: 0.02 ≤ 0.21 |"
    ) in text
    assert "| TNLPAD (float32) | 95.00 (epoch 4) |" in text
    assert "| −4.02 | cannot be said: we have one seed |" in text


def test_empty_cells_say_what_fills_them(table):
    text = markdown(table)
    command = "tnlpad reproduce simulated --only mnist/symmetric-0.2 --methods cdr"
    assert f"| CDR | `{command}` |" in text
    assert "- CIFAR-100, instance 40\u00a0%: `tnlpad reproduce simulated --only cifar100/instance-0.4`" in text
    assert "No runs yet: `tnlpad reproduce high_noise` makes them." in markdown(table_results("high_noise", []))


def test_the_overview_has_the_papers_layout(table):
    lines = markdown(table).splitlines()
    heading = next(line for line in lines if line.startswith("| method | symmetric"))
    assert heading.count("|") == 10
    line = next(line for line in lines if line.startswith("| TNLPAD | **"))
    assert line.startswith("| TNLPAD | **99.00 ± 0.14** ≈<br>99.02 ± 0.07 | ·<br>98.84 ± 0.06 |")
    variant = next(line for line in lines if line.startswith("| TNLPAD (float32) | **"))
    assert variant == "| TNLPAD (float32) | **95.00** ?<br>99.02 ± 0.07 |  |  |  |  |  |  |  |"


def test_every_row_of_a_table_has_as_many_cells_as_its_heading(table, smoke):
    for each in (table, smoke):
        for part in re.findall(r"(?:^\|.*\n)+", markdown(each), re.MULTILINE):
            assert len({line.count("|") for line in part.splitlines()}) == 1


def test_without_published_numbers_nothing_is_compared(smoke):
    text = markdown(smoke, level=2)
    assert text.startswith("## Everything once, on digits")
    assert "paper" not in text
    assert "| TNLPAD | 90.00 ± 0.00 (epoch 4) | 80.00 ± 0.00 | 30.00 ± 0.00 | 2 |" in text
    assert "| Standard | `tnlpad reproduce smoke --only digits/symmetric-0.4 --methods standard` |" in text
