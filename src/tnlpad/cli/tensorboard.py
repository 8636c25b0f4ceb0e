"""A run's numbers as TensorBoard's files."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tnlpad.cli.output import fail


@contextmanager
def tensorboard_log(wanted: bool, folder: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Every number of every epoch as a scalar; what a killed run wrote beyond its checkpoint is written over."""
    if not wanted:
        yield lambda record: None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        fail(f"--tensorboard needs the package tensorboard ({error}). Install it with pip install 'tnlpad[tracking]'.")
    writers: list[Any] = []

    def on_epoch(record: Mapping[str, Any]) -> None:
        if not writers:  # only now: a finished run is left as it is
            writers.append(SummaryWriter(str(folder / "tensorboard"), purge_step=record["epoch"]))
        for name, value in scalars(record):
            writers[0].add_scalar(name, value, record["epoch"])

    try:
        yield on_epoch
    finally:
        for writer in writers:
            writer.close()


def scalars(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a record but its epoch, by the keys on the way to it."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from scalars(value, f"{prefix}{key}/")
        elif key != "epoch" and value is not None:
            yield f"{prefix}{key}", value
