"""TensorBoard files of a run: every number of every epoch."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tnlpad.cli.output import fail


@contextmanager
def tensorboard_log(wanted: bool, folder: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Write every number of every epoch as a scalar; epochs after the checkpoint of a killed run are overwritten."""
    if not wanted:
        yield lambda record: None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        fail(f"--tensorboard needs the package tensorboard ({error}). Install it with pip install 'tnlpad[tracking]'.")
    writers: list[Any] = []

    def on_epoch(record: Mapping[str, Any]) -> None:
        if not writers:  # created with the first epoch: a finished run is not touched
            writers.append(SummaryWriter(str(folder / "tensorboard"), purge_step=record["epoch"]))
        for name, value in scalars(record):
            writers[0].add_scalar(name, value, record["epoch"])

    try:
        yield on_epoch
    finally:
        for writer in writers:
            writer.close()


def scalars(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of an epoch's record with the path of its keys; the epoch itself is left out."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from scalars(value, f"{prefix}{key}/")
        elif key != "epoch" and value is not None:
            yield f"{prefix}{key}", value
