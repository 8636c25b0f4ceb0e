"""The datasets at a glance, as in the paper's first table. The facts are handed in: the report reads records alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from tnlpad.report.tables import markdown_row

HEADINGS = ("dataset", "training", "test", "classes", "image", "network", "batch", "epochs", "c2")


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """One dataset and its recipe; `image` is channels, height and width, or None where images differ in size."""

    title: str
    train_size: int
    test_size: int
    num_classes: int
    image: tuple[int, ...] | None
    network: str
    batch_size: int
    epochs: int
    c2: float

    @property
    def cells(self) -> list[str]:
        """Under `HEADINGS`."""
        return [
            self.title,
            f"{self.train_size:,}",
            f"{self.test_size:,}",
            str(self.num_classes),
            "{1}×{2}×{0}".format(*self.image) if self.image else "of any size",
            self.network,
            str(self.batch_size),
            str(self.epochs),
            f"{self.c2:g}",
        ]


def datasets_markdown(datasets: Sequence[DatasetFacts]) -> str:
    """As a Markdown table."""
    rows = [list(HEADINGS), ["---", *["---:"] * 4, "---", *["---:"] * 3], *(each.cells for each in datasets)]
    return "\n".join(map(markdown_row, rows)) + "\n"
