from tnlpad.cli.report import dataset_facts
from tnlpad.report.datasets import HEADINGS, DatasetFacts, datasets_markdown
from tnlpad.runs.config import DATASET_DEFAULTS, configure

FACTS = DatasetFacts(
    title="Mine",
    train_size=60_000,
    test_size=10_000,
    num_classes=10,
    image=(3, 28, 30),
    network="LeNet-5",
    batch_size=32,
    epochs=100,
    c2=2.0,
)


def test_a_row():
    assert FACTS.cells == ["Mine", "60,000", "10,000", "10", "28×30×3", "LeNet-5", "32", "100", "2"]
    assert len(FACTS.cells) == len(HEADINGS)


def test_markdown():
    lines = datasets_markdown([FACTS]).splitlines()
    assert lines[2] == "| Mine | 60,000 | 10,000 | 10 | 28×30×3 | LeNet-5 | 32 | 100 | 2 |"
    assert len({line.count("|") for line in lines}) == 1


def test_the_facts_are_those_that_runs_use():
    found = dict(zip(DATASET_DEFAULTS, dataset_facts(), strict=True))
    assert len(found) >= 9
    for name, facts in found.items():
        config = configure(name)
        assert (facts.batch_size, facts.epochs) == (config.batch_size, config.epochs)
        assert facts.c2 == config.options["c2"]
    assert found["clothing1m"].image is None
    assert found["cifar100"].num_classes == 100
