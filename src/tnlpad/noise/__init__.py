"""Label noise: kinds of noise, making noisy labels, and storing them in files.

In most cases `make_noisy_labels(parse_noise("symmetric:0.4"), ...)` is all you need.
"""

from tnlpad.errors import LabelFileError, LabelMismatchError, MatrixFileError, NoiseDataError
from tnlpad.noise.corrupt import corrupt, expected_noise_rate, legacy_corrupt, noise_rate_of
from tnlpad.noise.files import LabelFile, read_label_file, write_label_file
from tnlpad.noise.instance import instance_dependent, legacy_instance_dependent
from tnlpad.noise.make import human_noise, make_noisy_labels
from tnlpad.noise.spec import NoiseSpec, parse_noise
from tnlpad.noise.transition import asymmetric, empirical, pairflip, symmetric, transition_counts

__all__ = [
    "LabelFile",
    "LabelFileError",
    "LabelMismatchError",
    "MatrixFileError",
    "NoiseDataError",
    "NoiseSpec",
    "asymmetric",
    "corrupt",
    "empirical",
    "expected_noise_rate",
    "human_noise",
    "instance_dependent",
    "legacy_corrupt",
    "legacy_instance_dependent",
    "make_noisy_labels",
    "noise_rate_of",
    "pairflip",
    "parse_noise",
    "read_label_file",
    "symmetric",
    "transition_counts",
    "write_label_file",
]
