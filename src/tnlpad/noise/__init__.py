"""Simulated label noise: how labels go wrong, and making them so."""

from tnlpad.noise.corrupt import corrupt
from tnlpad.noise.transition import symmetric

__all__ = ["corrupt", "symmetric"]
