"""Instance-dependent noise: the image determines whether and how its label goes wrong.

Xia et al., "Part-dependent Label Noise: Towards Instance-dependent Label Noise", as in the paper's experiments. For a
sample with image x and clean label y:

    q ~ N(n, 0.1²) truncated to [0, 1]          probability of a wrong label
    a = x W[y],  a_y = −∞                       W[y] of shape d × C with entries from N(0, 1), one for each clean class
    p = q · softmax(a),  p_y = 1 − q            the given label is drawn from p

The mean of q is not n: it is 0.2055 for n = 0.2 and 0.4000 for n = 0.4, and would be 0.08 for n = 0.

`inputs` sets the scale of x: "raw" pixel values of 0 to 255, as in the authors' code; "unit", divided by 255; or
"standardized", mean 0 and standard deviation 1 per channel over the given images. The scale matters because the entries
of a vary as much as |x|. For raw pixels that is in the thousands, so softmax puts all weight on one class. It is often
the same class for all images of a class, because these share a large mean.

How we differ: W is drawn class by class and never stored as a whole, to save memory. Products are in double precision,
so that the labels do not depend on the machine. q is drawn by rejection. The legacy function draws in the authors'
order from NumPy's legacy stream, and q from SciPy's truncated normal, whose stream varies between versions of SciPy.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tnlpad.noise.corrupt import legacy_stream
from tnlpad.noise.transition import check_num_classes, check_rate, checked_labels
from tnlpad.types import Labels, NoisyLabels

Inputs = Literal["raw", "unit", "standardized"]
INPUTS: tuple[Inputs, ...] = get_args(Inputs)
FLIP_RATE_SD = 0.1
CHUNK_VALUES = 2**20  # values converted to double precision at a time

Floats = NDArray[np.float64]
Rows = Callable[[NDArray[np.int64]], Floats]  # indices of samples -> their inputs, samples × d


def instance_dependent(
    labels: ArrayLike,
    images: NDArray[Any],
    noise_rate: float,
    num_classes: int,
    generator: np.random.Generator,
    inputs: Inputs = "raw",
) -> NoisyLabels:
    """Draw noisy labels for images of any shape, samples first; transition[i, j] is the mean of p_j over class i."""
    clean, rows, shape = _checked(labels, images, noise_rate, num_classes, inputs)
    flip_rates = _flip_rates(noise_rate, len(clean), generator)
    uniform = generator.random(len(clean))
    projections = (generator.standard_normal(shape) for _ in range(num_classes))
    return _corrupt(clean, rows, shape, flip_rates, uniform, projections)


def legacy_instance_dependent(
    labels: ArrayLike,
    images: NDArray[Any],
    noise_rate: float,
    num_classes: int,
    seed: int,
    inputs: Inputs = "raw",
) -> NoisyLabels:
    """Draw from the same distribution in the order of the authors' code: all of q, all of W, then the labels."""
    from scipy.stats import truncnorm  # type: ignore[import-untyped, unused-ignore]  # slow to import

    clean, rows, shape = _checked(labels, images, noise_rate, num_classes, inputs)
    random_state = legacy_stream(seed)
    low, high = -noise_rate / FLIP_RATE_SD, (1 - noise_rate) / FLIP_RATE_SD
    flip_rates = truncnorm.rvs(
        low, high, loc=noise_rate, scale=FLIP_RATE_SD, size=len(clean), random_state=random_state
    )
    # The uniform numbers follow W in the stream, and W is too large to store. So W is drawn once to get past it, and
    # once more to be used.
    before = random_state.get_state()
    for _ in range(num_classes):
        random_state.standard_normal(shape)
    uniform = random_state.random_sample(len(clean))
    random_state.set_state(before)
    projections = (random_state.standard_normal(shape) for _ in range(num_classes))
    return _corrupt(clean, rows, shape, flip_rates, uniform, projections)


def _corrupt(
    clean: Labels,
    rows: Rows,
    shape: tuple[int, int],
    flip_rates: Floats,
    uniform: Floats,
    projections: Iterator[Floats],
) -> NoisyLabels:
    """Draw the labels from q and a uniform number per sample, and W[0], W[1], … of this shape."""
    num_classes = shape[1]
    given = np.empty_like(clean)
    transition = np.eye(num_classes)
    chunk = _chunk_size(max(shape))
    for label, projection in enumerate(projections):
        members = np.flatnonzero(clean == label)
        total = np.zeros(num_classes)
        for start in range(0, len(members), chunk):
            chosen = members[start : start + chunk]
            p = label_probabilities(rows(chosen), label, projection, flip_rates[chosen])
            total += p.sum(axis=0)
            given[chosen] = _drawn(p, uniform[chosen])
        if members.size:
            transition[label] = total / total.sum()
    return NoisyLabels(given=given, clean=clean, transition=transition)


def label_probabilities(inputs: Floats, label: int, projection: Floats, flip_rates: Floats) -> Floats:
    """Return p for samples of one clean label: inputs samples × d, projection d × C, one flip rate per sample."""
    scores = inputs @ projection
    if not np.isfinite(scores).all():
        raise ValueError("The images contain NaN or infinite values: instance-dependent noise needs finite ones.")
    scores[:, label] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores *= (flip_rates / scores.sum(axis=1))[:, None]
    scores[:, label] = 1 - flip_rates
    return scores


def _drawn(p: Floats, uniform: Floats) -> Labels:
    """Draw one class per row of p: the number of boundaries at or below u, so that probability 0 is never drawn."""
    cumulative = p.cumsum(axis=1)
    cumulative /= cumulative[:, -1:]
    drawn: Labels = (cumulative <= uniform[:, None]).sum(axis=1, dtype=np.int64)
    return drawn


def _flip_rates(noise_rate: float, size: int, generator: np.random.Generator) -> Floats:
    """Draw N(n, 0.1²) truncated to [0, 1] by rejection. At least half of the draws are accepted."""
    rates = generator.normal(noise_rate, FLIP_RATE_SD, size)
    while (outside := np.flatnonzero((rates < 0) | (rates > 1))).size:
        rates[outside] = generator.normal(noise_rate, FLIP_RATE_SD, outside.size)
    return rates


def _checked(
    labels: ArrayLike, images: NDArray[Any], noise_rate: float, num_classes: int, inputs: Inputs
) -> tuple[Labels, Rows, tuple[int, int]]:
    """Check the arguments; return the clean labels, the inputs by index, and the shape d × C of W[y]."""
    check_rate(noise_rate)
    check_num_classes(num_classes)
    clean = checked_labels(labels, num_classes)
    if images.ndim < 2 or len(images) != len(clean):
        raise ValueError(f"images of shape {images.shape} for {len(clean)} labels: must be one image per label.")
    shift, scale = _shift_and_scale(images, inputs)

    def rows(chosen: NDArray[np.int64]) -> Floats:  # on demand: in double precision all images need 8 times the memory
        values = (images[chosen].astype(np.float64) - shift) / scale
        return values.reshape(len(chosen), -1)

    return clean, rows, (int(np.prod(images.shape[1:])), num_classes)


def _shift_and_scale(images: NDArray[Any], inputs: Inputs) -> tuple[Floats, Floats]:
    """Return what to subtract from the images, and then to divide them by."""
    if inputs == "raw":
        return np.zeros(1), np.ones(1)
    if inputs == "unit":
        if images.dtype != np.uint8:
            raise ValueError(
                f"inputs='unit' with {images.dtype} images: only uint8 images can be divided by 255. Use inputs='raw' "
                "for images that are already scaled."
            )
        return np.zeros(1), np.full(1, 255.0)
    if inputs == "standardized":
        mean = _mean_power(images, np.zeros(1), power=1)
        sd = np.sqrt(_mean_power(images, mean, power=2))
        return mean, np.where(sd > 0, sd, 1.0)
    raise ValueError(f"inputs={inputs!r}: must be one of {', '.join(INPUTS)}.")


def _mean_power(images: NDArray[Any], around: Floats, power: int) -> Floats:
    """Return the mean of (x − around)^power, per channel if the images have four dimensions."""
    axes = (0, 2, 3) if images.ndim == 4 else tuple(range(images.ndim))
    chunk = _chunk_size(images[:1].size)
    total = np.zeros(1)
    for start in range(0, len(images), chunk):
        values = images[start : start + chunk].astype(np.float64) - around
        total = total + (values**power).sum(axis=axes, keepdims=True)[0]
    size = images.size // (images.shape[1] if images.ndim == 4 else 1)
    return total / max(size, 1)


def _chunk_size(values_per_sample: int) -> int:
    return max(1, CHUNK_VALUES // max(1, values_per_sample))
