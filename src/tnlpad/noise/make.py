"""Make noisy labels from a description of the noise.

The labels depend only on the arguments. Random numbers come from the seed's stream "noise" or, with `legacy`, from
NumPy's legacy generator as in the authors' code. Global generators are neither read nor changed.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tnlpad.noise.corrupt import corrupt, flip_in_sequence, legacy_corrupt, legacy_stream
from tnlpad.noise.files import labels_from_file, read_matrix, require_same_clean_labels
from tnlpad.noise.instance import Inputs, instance_dependent, legacy_instance_dependent
from tnlpad.noise.spec import NoiseSpec
from tnlpad.noise.transition import (
    CIFAR10_FLIPS,
    asymmetric,
    check_protocol,
    checked_labels,
    empirical,
    pairflip,
    symmetric,
)
from tnlpad.rng import numpy_stream
from tnlpad.types import Labels, NoisyLabels, ProtocolName, Transition

NAME = "noise"  # of the random stream
T = TypeVar("T")


def make_noisy_labels(
    spec: NoiseSpec,
    *,
    dataset: str,
    labels: ArrayLike,
    num_classes: int,
    seed: int,
    images: NDArray[Any] | None = None,
    coarse: Sequence[int] | None = None,
    human: NoisyLabels | None = None,
    protocol: ProtocolName = "paper",
    inputs: Inputs = "raw",
    legacy: bool = False,
) -> NoisyLabels:
    """Make noisy labels for a dataset's clean labels.

    Args:
        spec: The kind of noise, from `parse_noise`.
        dataset: Name of the dataset, which determines the similar classes of asymmetric noise.
        labels: Clean labels, class indices from 0.
        num_classes: Number of classes, including those without samples.
        seed: Random seed.
        images: Images for instance-dependent noise, samples first.
        coarse: Super-class of each class, for asymmetric noise on CIFAR-100 with protocol "paper".
        human: Human labels and the clean labels published with them, for human noise.
        protocol: Asymmetric noise as in the paper, or as in its authors' code.
        inputs: Scale of the images in instance-dependent noise: raw pixels, pixels in [0, 1], or standardized.
        legacy: Draw from NumPy's legacy generator in the order of the authors' code.
    """
    check_protocol(protocol)
    if spec.kind == "none":
        clean = checked_labels(labels, num_classes)
        return NoisyLabels(given=clean.copy(), clean=clean, transition=np.eye(num_classes))
    if spec.kind == "file":
        return labels_from_file(_required(spec.file), labels, num_classes)
    if spec.kind == "human":
        if human is None:
            raise ValueError(f"human=None: {spec} noise needs the human labels with their clean labels.")
        return human_noise(labels, human.given, human.clean, num_classes)
    if spec.kind == "instance":
        if images is None:
            raise ValueError("images=None: instance noise depends on the images. Pass them, samples first.")
        rate = _required(spec.noise_rate)
        if legacy:
            return legacy_instance_dependent(labels, images, rate, num_classes, seed, inputs)
        return instance_dependent(labels, images, rate, num_classes, numpy_stream(seed, NAME), inputs)
    if spec.kind == "asymmetric" and dataset == "cifar10" and protocol == "authors":
        generator = legacy_stream(seed) if legacy else numpy_stream(seed, NAME)
        return flip_in_sequence(labels, _required(spec.noise_rate), num_classes, CIFAR10_FLIPS, generator)
    transition = _transition(spec, dataset, num_classes, protocol, coarse)
    return legacy_corrupt(labels, transition, seed) if legacy else corrupt(labels, transition, numpy_stream(seed, NAME))


def human_noise(labels: ArrayLike, given: Labels, published_clean: Labels, num_classes: int) -> NoisyLabels:
    """Return human annotations as noise of a dataset, such as CIFAR-10N and CIFAR-100N.

    Wei et al., "Learning with Noisy Labels Revisited". The clean labels published with the annotations must be the
    dataset's. The transition matrix is the observed one. It summarises the noise, which also depends on the images.
    """
    clean = checked_labels(labels, num_classes)
    require_same_clean_labels(checked_labels(published_clean, num_classes), clean, "The set of human labels")
    annotations = checked_labels(given, num_classes)
    return NoisyLabels(given=annotations, clean=clean, transition=empirical(clean, annotations, num_classes))


def _transition(
    spec: NoiseSpec, dataset: str, num_classes: int, protocol: ProtocolName, coarse: Sequence[int] | None
) -> Transition:
    if spec.kind == "matrix":
        return read_matrix(_required(spec.file), num_classes)
    rate = _required(spec.noise_rate)
    if spec.kind == "asymmetric":
        return asymmetric(rate, num_classes, dataset, protocol, coarse)
    return symmetric(rate, num_classes) if spec.kind == "symmetric" else pairflip(rate, num_classes)


def _required(value: T | None) -> T:
    assert value is not None, "a NoiseSpec has the argument of its kind"
    return value
