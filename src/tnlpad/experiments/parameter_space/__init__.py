"""The paper's two drawings of parameter space, computed: where w, σ and γ go, and how far each penalty lets them go.

A problem with two weights (`problem`, `descent`) shows them as they are; the weights of a small network on digits
(`network`) show them in a plane. Nothing is chosen by looking at distances: epochs are chosen by accuracy on noisy
validation labels, as everywhere.
"""

from tnlpad.experiments.parameter_space.figure import compute
from tnlpad.experiments.parameter_space.network import configurations

__all__ = ["compute", "configurations"]
