"""Instance-dependent noise: whether and how a label goes wrong depends on the image.

Xia et al., "Part-dependent Label Noise: Towards Instance-dependent Label Noise", as in the paper's experiments. For a
sample with image x and clean label y:

    q ~ N(n, 0.1²) truncated to [0, 1]          how likely the label is to be wrong
    a = x W[y],  a_y = −∞                       W[y] of shape d × C with entries from N(0, 1), one for each clean class
    p = q · softmax(a),  p_y = 1 − q            the given label is drawn from p

The mean of q is not n: 0.2055 for n = 0.2 and 0.4000 for n = 0.4; at n = 0 it would be 0.08.

`inputs` says what x is: "raw" pixel values of 0 to 255, as in the authors' code; "unit", divided by 255; or
"standardized", mean 0 and standard deviation 1 in each channel, computed from the images given. It matters: the entries
of a spread as |x|, some thousands for raw pixels, and softmax then puts all weight on one class, often the same for all
images of a class since they share a large mean.

How we differ: W is drawn class by class and never held as a whole, so the memory needed is that of one class; products
are in double precision, so that the labels do not depend on the machine; q is drawn by rejection. The legacy functions
draw in the authors' order from NumPy's old stream, and q from SciPy's truncated normal, whose stream is not the same in
every version of SciPy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tnlpad.noise.corrupt import legacy_stream
from tnlpad.noise.labels import checked_labels
from tnlpad.noise.transition import check_num_classes, check_rate
from tnlpad.types import Labels, NoisyLabels

Inputs = Literal["raw", "unit", "standardized"]
INPUTS: tuple[Inputs, ...] = get_args(Inputs)
FLIP_RATE_SD = 0.1
CHUNK_VALUES = 2**20  # in double precision at a time

Floats = NDArray[np.float64]


def instance_dependent(
    labels: ArrayLike,
    images: NDArray[Any],
    noise_rate: float,
    num_classes: int,
    generator: np.random.Generator,
    inputs: Inputs = "raw",
) -> NoisyLabels:
    """Noisy labels for images of any shape, samples first; transition[i, j] is the mean of p_j over class i."""
    check_rate(noise_rate)
    clean, features = _checked(labels, images, num_classes, inputs)
    shape = (features.size, num_classes)
    draws = _Draws(
        flip_rates=_flip_rates(noise_rate, len(clean), generator),
        uniform=generator.random(len(clean)),
        projections=(generator.standard_normal(shape) for _ in range(num_classes)),
    )
    return _corrupt(clean, features, num_classes, draws)


def legacy_instance_dependent(
    labels: ArrayLike,
    images: NDArray[Any],
    noise_rate: float,
    num_classes: int,
    seed: int,
    inputs: Inputs = "raw",
) -> NoisyLabels:
    """The same distribution, drawn in the order of the authors' code: all of q, all of W, then the labels."""
    from scipy.stats import truncnorm  # type: ignore[import-untyped, unused-ignore]  # slow to import

    check_rate(noise_rate)
    clean, features = _checked(labels, images, num_classes, inputs)
    random_state = legacy_stream(seed)
    low, high = -noise_rate / FLIP_RATE_SD, (1 - noise_rate) / FLIP_RATE_SD
    flip_rates = truncnorm.rvs(
        low, high, loc=noise_rate, scale=FLIP_RATE_SD, size=len(clean), random_state=random_state
    )
    # The numbers that decide lie behind W in the stream, and W is too large to keep: it is drawn once to get past it,
    # and once again to be used.
    before = random_state.get_state()
    shape = (features.size, num_classes)
    for _ in range(num_classes):
        random_state.standard_normal(shape)
    uniform = random_state.random_sample(len(clean))
    random_state.set_state(before)
    draws = _Draws(
        flip_rates=flip_rates,
        uniform=uniform,
        projections=(random_state.standard_normal(shape) for _ in range(num_classes)),
    )
    return _corrupt(clean, features, num_classes, draws)


def label_probabilities(inputs: Floats, label: int, projection: Floats, flip_rates: Floats) -> Floats:
    """p for samples that all have this clean label: inputs samples × d, projection d × C, one flip rate per sample."""
    scores = inputs @ projection
    if not np.isfinite(scores).all():
        raise ValueError(
            "images hold NaN or infinite values: instance-dependent noise needs finite ones. Clean them up."
        )
    scores[:, label] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores *= (flip_rates / scores.sum(axis=1))[:, None]
    scores[:, label] = 1 - flip_rates
    return scores


@dataclass(frozen=True, kw_only=True, eq=False)
class _Draws:
    """Everything random: q and the number that decides, for each sample, and W[0], W[1], ... one after the other."""

    flip_rates: Floats
    uniform: Floats
    projections: Iterator[Floats]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Features:
    """Rows of inputs, converted when they are asked for: as double precision all of them need eight times the room."""

    images: NDArray[Any]
    shift: Floats | None = None
    scale: Floats | None = None

    @property
    def size(self) -> int:
        return int(np.prod(self.images.shape[1:]))

    def __getitem__(self, chosen: NDArray[np.int64]) -> Floats:
        values = self.images[chosen].astype(np.float64)
        if self.shift is not None:
            values -= self.shift
        if self.scale is not None:
            values /= self.scale
        return values.reshape(len(chosen), -1)


def _corrupt(clean: Labels, features: _Features, num_classes: int, draws: _Draws) -> NoisyLabels:
    given = np.empty_like(clean)
    transition = np.eye(num_classes)
    chunk = _samples_at_a_time(max(features.size, num_classes))
    for label, projection in enumerate(draws.projections):
        members = np.flatnonzero(clean == label)
        total = np.zeros(num_classes)
        for start in range(0, len(members), chunk):
            chosen = members[start : start + chunk]
            p = label_probabilities(features[chosen], label, projection, draws.flip_rates[chosen])
            total += p.sum(axis=0)
            given[chosen] = _drawn(p, draws.uniform[chosen])
        if members.size:
            transition[label] = total / total.sum()
    return NoisyLabels(given=given, clean=clean, transition=transition)


def _drawn(p: Floats, uniform: Floats) -> Labels:
    """One class for each row of p: how many boundaries lie at or below u, so that probability 0 is never drawn."""
    cumulative = p.cumsum(axis=1)
    cumulative /= cumulative[:, -1:]
    drawn: Labels = (cumulative <= uniform[:, None]).sum(axis=1, dtype=np.int64)
    return drawn


def _flip_rates(noise_rate: float, size: int, generator: np.random.Generator) -> Floats:
    """N(n, 0.1²) truncated to [0, 1]: what falls outside is drawn again. At least half of it falls inside."""
    rates = generator.normal(noise_rate, FLIP_RATE_SD, size)
    while (outside := np.flatnonzero((rates < 0) | (rates > 1))).size:
        rates[outside] = generator.normal(noise_rate, FLIP_RATE_SD, outside.size)
    return rates


def _checked(labels: ArrayLike, images: NDArray[Any], num_classes: int, inputs: Inputs) -> tuple[Labels, _Features]:
    check_num_classes(num_classes)
    clean = checked_labels(labels, num_classes)
    if images.ndim < 2 or len(images) != len(clean):
        raise ValueError(
            f"images of shape {images.shape} for {len(clean)} labels: there must be one image, of one dimension or "
            "more, for each label, samples first."
        )
    return clean, _features(images, inputs)


def _features(images: NDArray[Any], inputs: Inputs) -> _Features:
    if inputs == "raw":
        return _Features(images=images)
    if inputs == "unit":
        if images.dtype != np.uint8:
            raise ValueError(
                f"inputs='unit' with {images.dtype} images: divides pixels of 0 to 255, stored as uint8, by 255. Use "
                "inputs='raw' for images that are scaled already."
            )
        return _Features(images=images, scale=np.full(1, 255.0))
    if inputs == "standardized":
        mean, sd = _moments(images)
        return _Features(images=images, shift=mean, scale=sd)
    raise ValueError(f"inputs={inputs!r}: must be one of {', '.join(INPUTS)}.")


def _moments(images: NDArray[Any]) -> tuple[Floats, Floats]:
    """Mean and standard deviation per channel of samples × channels × height × width; of all values in other shapes."""
    mean = _mean_power(images, np.zeros(1), power=1)
    sd = np.sqrt(_mean_power(images, mean, power=2))
    return mean, np.where(sd > 0, sd, 1.0)


def _mean_power(images: NDArray[Any], around: Floats, power: int) -> Floats:
    """The mean of (x − around)^power over samples and places, a part of the samples at a time."""
    axes = (0, 2, 3) if images.ndim == 4 else tuple(range(images.ndim))
    chunk = _samples_at_a_time(images[:1].size)
    total = np.zeros(1)
    for start in range(0, len(images), chunk):
        values = images[start : start + chunk].astype(np.float64) - around
        total = total + (values**power).sum(axis=axes, keepdims=True)[0]
    size = images.size // (images.shape[1] if images.ndim == 4 else 1)
    return total / max(size, 1)


def _samples_at_a_time(values_per_sample: int) -> int:
    return max(1, CHUNK_VALUES // max(1, values_per_sample))
