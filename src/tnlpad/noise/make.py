"""Labels that people gave, such as those of CIFAR-10N and CIFAR-100N (Wei et al., "Learning with Noisy Labels
Revisited"): nothing is drawn, but they are only noise of a dataset if they are labels of its samples in its order.

The transition is that seen in the labels. People's mistakes depend on the image: it sums the noise up, and does not
explain it.

From a description of noise to noisy labels: the one place that knows which function makes which kind.

The labels are a function of the arguments alone: the random numbers come from the seed's stream "noise", or, with
`legacy_stream`, from NumPy's old generator as in the authors' code. No global generator is read or moved.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tnlpad.noise.corrupt import corrupt, flip_in_sequence, legacy_corrupt, legacy_stream, unchanged
from tnlpad.noise.files import labels_from_file, read_matrix
from tnlpad.noise.instance import Inputs, instance_dependent, legacy_instance_dependent
from tnlpad.noise.labels import checked_labels, require_same_clean_labels
from tnlpad.noise.spec import NoiseSpec
from tnlpad.noise.transition import (
    CIFAR10_FLIPS,
    ProtocolName,
    asymmetric,
    check_protocol,
    empirical,
    pairflip,
    symmetric,
)
from tnlpad.types import Labels, NoisyLabels, Transition


def human_noise(labels: ArrayLike, given: Labels, published_clean: Labels, num_classes: int) -> NoisyLabels:
    """People's labels as noise of these clean labels, which must be those that were published beside people's."""
    clean = checked_labels(labels, num_classes)
    require_same_clean_labels(checked_labels(published_clean, num_classes), clean, "The set of human labels")
    answers = checked_labels(given, num_classes)
    return NoisyLabels(given=answers, clean=clean, transition=empirical(clean, answers, num_classes))


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
    """Noisy labels of this kind for a dataset's clean labels.

    Args:
        spec: The kind of noise, from `parse_noise`.
        dataset: Its name, by which asymmetric noise knows the similar classes.
        labels: The clean labels, class indices from 0.
        num_classes: How many classes there are, whether or not all of them occur.
        seed: What the labels are a function of, with everything else here.
        images: For instance noise, samples first.
        coarse: For asymmetric noise on CIFAR-100 in the paper's protocol, the super-class of each class.
        human: For human noise, the labels that people gave and the clean labels published beside them.
        protocol: Whether asymmetric noise is the paper's or that of its authors' code.
        inputs: What instance noise sees of the images: raw pixels, pixels in [0, 1], or standardized ones.
        legacy: Draw from NumPy's old generator in the order of the authors' code.
    """
    check_protocol(protocol)
    if spec.kind == "none":
        return unchanged(labels, num_classes)
    if spec.kind == "file":
        return labels_from_file(_given(spec.file), labels, num_classes)
    if spec.kind == "human":
        return _human(spec, labels, human, num_classes)
    if spec.kind == "instance":
        return _instance(_given(spec.noise_rate), labels, images, num_classes, seed, inputs, legacy)
    if spec.kind == "asymmetric" and dataset == "cifar10" and protocol == "authors":
        generator = legacy_stream(seed) if legacy else _stream(seed)
        return flip_in_sequence(labels, _given(spec.noise_rate), num_classes, CIFAR10_FLIPS, generator)
    transition = _transition(spec, dataset, num_classes, protocol, coarse)
    return legacy_corrupt(labels, transition, seed) if legacy else corrupt(labels, transition, _stream(seed))


def _stream(seed: int) -> np.random.Generator:
    # Here and not above: it loads torch, for which reading and checking noise should not have to wait.
    from tnlpad.rng import numpy_stream

    return numpy_stream(seed, "noise")


def _transition(
    spec: NoiseSpec, dataset: str, num_classes: int, protocol: ProtocolName, coarse: Sequence[int] | None
) -> Transition:
    if spec.kind == "matrix":
        return read_matrix(_given(spec.file), num_classes)
    rate = _given(spec.noise_rate)
    if spec.kind == "asymmetric":
        return asymmetric(rate, num_classes, dataset, protocol, coarse)
    return symmetric(rate, num_classes) if spec.kind == "symmetric" else pairflip(rate, num_classes)


def _human(spec: NoiseSpec, labels: ArrayLike, human: NoisyLabels | None, num_classes: int) -> NoisyLabels:
    if human is None:
        raise ValueError(f"human=None: {spec} noise is labels that people gave; pass them, with their clean labels.")
    return human_noise(labels, human.given, human.clean, num_classes)


def _instance(
    rate: float,
    labels: ArrayLike,
    images: NDArray[Any] | None,
    num_classes: int,
    seed: int,
    inputs: Inputs,
    legacy: bool,
) -> NoisyLabels:
    if images is None:
        raise ValueError("images=None: instance noise depends on the images; pass them, samples first.")
    if legacy:
        return legacy_instance_dependent(labels, images, rate, num_classes, seed, inputs)
    return instance_dependent(labels, images, rate, num_classes, _stream(seed), inputs)


def _given(value: T | None) -> T:
    assert value is not None, "a NoiseSpec has what its kind needs"
    return value
