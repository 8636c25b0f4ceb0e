"""The user's own data as workers get them: the words that open them, since the data themselves may be large."""

from pathlib import Path
from typing import NamedTuple

from tnlpad.data.own import OwnDataset, open_dataset
from tnlpad.runs.choose_backbone import AnyBackbone, choose_backbone
from tnlpad.runs.config import RunConfig


class OwnData(NamedTuple):
    """Options of `open_dataset` and `choose_backbone`, as plain data.

    `title` is the word for the data in the names of runs, and `cache` the folder of computed features.
    """

    path: str
    title: str
    images: str | None
    label: str | None
    text: str | None
    group: str | None
    id: str | None
    ignored: tuple[str, ...]
    backbone: str
    network: str | None
    pixels: int | None
    weights: str | None
    finetune: bool
    cache: str


class Opened(NamedTuple):
    """The data, and the pretrained network for them."""

    own: OwnDataset
    backbone: AnyBackbone | None


def reopening(
    own: OwnDataset, backbone: AnyBackbone | None, config: RunConfig, weights: Path | None, cache: Path
) -> OwnData:
    """Return what opens the data and the pretrained network of a run again, in the same current folder."""
    return OwnData(
        path=str(own.source),
        title=own.title,
        images=None if own.images_folder is None else str(own.images_folder),
        label=own.label_column,
        text=own.text_column,
        group=own.group_column,
        id=own.id_column,
        ignored=own.ignored,
        backbone="none" if backbone is None else backbone.name,
        network=config.network,
        pixels=config.crop or config.resize,
        weights=None if weights is None else str(weights),
        finetune=bool(config.finetune),
        cache=str(cache),
    )


_opened: dict[OwnData, Opened] = {}  # in this process: a worker opens its data once for all its runs


def keep_open(source: OwnData, opened: Opened) -> None:
    """Let `open_own` in this process return data that are open already."""
    _opened.clear()
    _opened[source] = opened


def open_own(source: OwnData) -> Opened:
    """Return the data, opened once in each process."""
    if source not in _opened:
        own = open_dataset(
            source.path,
            images=source.images,
            label=source.label,
            text=source.text,
            group=source.group,
            id=source.id,
            ignored=source.ignored,
        )
        chosen = choose_backbone(
            source.backbone,
            own,
            network=source.network,
            pixels=source.pixels,
            weights=Path(source.weights) if source.weights is not None else None,
            finetune=source.finetune,
        )
        keep_open(source, Opened(own, chosen.backbone))
    return _opened[source]
