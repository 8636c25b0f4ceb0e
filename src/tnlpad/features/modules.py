"""Modules around a pretrained network: normalisation of pixels before it, pooling after it."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn


class Normalised(nn.Module):
    """Normalise pixels in [0, 1] per channel, then apply a network."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.network((images - self.mean) / self.std))


class ImageModel(nn.Module):
    """A Hugging Face model of images that returns one row per image.

    Models of images and texts, such as CLIP, have a method of their own for images. Others return a pooled output, or
    only tokens, of which the first is used, or maps, which are averaged.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        model: Any = self.model
        images_only = getattr(model, "get_image_features", model)
        output = images_only(pixel_values=images)
        if isinstance(output, Tensor):
            return output
        rows = getattr(output, "pooler_output", None)
        if rows is not None:
            return cast(Tensor, rows.flatten(1))
        last = cast(Tensor, output.last_hidden_state)
        return last[:, 0] if last.ndim == 3 else last.mean((2, 3))


class TextModel(nn.Module):
    """A Hugging Face model of texts that returns one row per text: the mean of its tokens, or the first one.

    Args:
        model: Returns `last_hidden_state`.
        first_token: Whether the first token stands for the text.
        unit_length: Whether rows are scaled to length 1.
    """

    def __init__(self, model: nn.Module, *, first_token: bool, unit_length: bool) -> None:
        super().__init__()
        self.model, self.first_token, self.unit_length = model, first_token, unit_length

    def forward(self, token_ids: Tensor, mask: Tensor) -> Tensor:
        tokens = cast(Tensor, self.model(input_ids=token_ids, attention_mask=mask).last_hidden_state)
        if self.first_token:
            rows = tokens[:, 0]
        else:
            weights = mask.unsqueeze(2).to(tokens.dtype)
            rows = (tokens * weights).sum(1) / weights.sum(1).clamp(min=1)
        return nn.functional.normalize(rows, dim=1) if self.unit_length else rows
