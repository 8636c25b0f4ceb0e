import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import kstest, truncnorm

import tnlpad.noise.instance as module
from tests.noise.counts import tolerance, wrong_share
from tnlpad.noise import instance_dependent, legacy_instance_dependent, noise_rate_of
from tnlpad.noise.instance import _drawn, _flip_rates, label_probabilities
from tnlpad.noise.transition import transition_counts

EXPECTED = {0.2: 0.20552, 0.4: 0.40001}  # the mean of the truncated normal distribution


def generator(seed=1):
    return np.random.default_rng(seed)


def draw(stream, labels, images, noise_rate, num_classes, seed=1, inputs="raw"):
    if stream == "legacy":
        return legacy_instance_dependent(labels, images, noise_rate, num_classes, seed, inputs)
    return instance_dependent(labels, images, noise_rate, num_classes, generator(seed), inputs)


both_streams = pytest.mark.parametrize("stream", ["ours", "legacy"])


def photographs(samples, channels=3, side=32, seed=0):
    """Return random images with the mean and the spread of CIFAR."""
    pixels = generator(seed).normal(120.7, 64.2, (samples, channels, side, side))
    return pixels.clip(0, 255).round().astype(np.uint8)


def test_probabilities_by_hand():
    inputs = np.array([[1.0, 2.0], [0.0, 1.0]])
    projection = np.array([[1.0, 0.0, 3.0], [0.0, 1.0, -1.0]])
    # Class 1 is the clean one. Scores of the other two: (1, 1) for the first sample, (0, -1) for the second.
    p = label_probabilities(inputs, 1, projection, np.array([0.4, 0.8]))
    e = np.exp(-1)
    np.testing.assert_allclose(p, [[0.2, 0.6, 0.2], [0.8 / (1 + e), 0.2, 0.8 * e / (1 + e)]], rtol=1e-14)


def test_probabilities_agree_with_scipys_softmax_also_where_exp_would_overflow():
    inputs, projection, rates = (
        generator().normal(0, 300, (50, 20)),
        generator(2).normal(size=(20, 7)),
        np.linspace(0, 1, 50),
    )
    p = label_probabilities(inputs, 3, projection, rates)
    others = np.delete(inputs @ projection, 3, axis=1)
    assert others.max() > 1000
    np.testing.assert_allclose(np.delete(p, 3, axis=1), rates[:, None] * softmax(others, axis=1), atol=1e-12)
    np.testing.assert_array_equal(p[:, 3], 1 - rates)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("value", "drawn"), [(0.0, 1), (np.nextafter(1.0, 0.0), 7)])
def test_extreme_draws_stay_within_the_classes_of_positive_probability(value, drawn):
    sevenths = np.array([[0.0, *[1 / 7] * 7, 0.0]])
    assert _drawn(sevenths, np.array([value])).tolist() == [drawn]


@pytest.mark.parametrize(
    ("noise_rate", "mean", "sd", "above_half"), [(0.2, 0.20552, 0.0942, 0.0014), (0.4, 0.40001, 0.1, 0.159)]
)
def test_flip_rates_are_a_truncated_normal(noise_rate, mean, sd, above_half):
    rates = _flip_rates(noise_rate, 50_000, generator())
    assert rates.min() >= 0
    assert rates.max() <= 1
    assert abs(rates.mean() - mean) <= 4 * sd / np.sqrt(50_000)
    assert abs(rates.std() - sd) <= 4 * sd / np.sqrt(2 * 50_000)
    assert abs((rates > 0.5).mean() - above_half) <= tolerance(above_half, 50_000) + 0.0005  # rounding of `above_half`
    scipys = truncnorm(-noise_rate / 0.1, (1 - noise_rate) / 0.1, loc=noise_rate, scale=0.1)
    assert kstest(rates, scipys.cdf).pvalue > 1e-3


@both_streams
@pytest.mark.parametrize("noise_rate", [0.2, 0.4])
def test_rate_overall_and_in_each_class(stream, noise_rate):
    clean = np.arange(50_000) % 10
    images = generator(3).integers(0, 256, (50_000, 1, 6, 6), dtype=np.uint8)
    noisy = draw(stream, clean, images, noise_rate, 10)
    expected = EXPECTED[noise_rate]
    assert abs(noise_rate_of(noisy) - expected) <= tolerance(expected, 50_000)
    for label in range(10):
        assert abs(wrong_share(noisy, label) - expected) <= tolerance(expected, 5_000)
    # The observed labels match the mean probabilities within four standard deviations.
    seen = transition_counts(noisy.clean, noisy.given, 10) / 5_000
    assert (abs(seen - noisy.transition) <= tolerance(noisy.transition, 5_000) + 1e-12).all()
    np.testing.assert_allclose(noisy.transition.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(1 - np.diag(noisy.transition), expected, atol=4 * 0.1 / np.sqrt(5_000))


@both_streams
def test_a_wrong_label_is_never_the_clean_one(stream, monkeypatch):
    # With q = 1 for all samples, the softmax alone decides, and must never choose the own class.
    monkeypatch.setattr(module, "FLIP_RATE_SD", 1e-12)
    images = generator(3).integers(0, 256, (3_000, 1, 2, 2), dtype=np.uint8)
    clean = np.arange(3_000) % 3
    for inputs in ("raw", "unit", "standardized"):
        assert (draw(stream, clean, images, 1.0, 3, inputs=inputs).given != clean).all()


def literal(labels, images, noise_rate, num_classes, seed):
    """Draw as the module describes: sample by sample, all of W at once, and with NumPy's choice."""
    random = np.random.RandomState(seed)
    low, high = -noise_rate / 0.1, (1 - noise_rate) / 0.1
    rates = truncnorm.rvs(low, high, loc=noise_rate, scale=0.1, size=len(labels), random_state=random)
    projections = random.randn(num_classes, images[0].size, num_classes)
    rows = []
    for image, label, rate in zip(images, labels, rates, strict=True):
        scores = image.reshape(-1).astype(float) @ projections[label]
        scores[label] = -np.inf
        p = rate * softmax(scores)
        p[label] += 1 - rate
        rows.append(p)
    return [random.choice(num_classes, p=p) for p in rows], np.array(rows)


def test_the_legacy_stream_is_that_of_the_literal_generator():
    # An odd number of normal deviates, so that NumPy keeps one back for the next call.
    images = generator(4).integers(0, 256, (400, 1, 3, 3), dtype=np.uint8)
    labels = generator(5).integers(0, 3, 400)
    given, p = literal(labels, images, 0.4, 3, seed=7)
    noisy = legacy_instance_dependent(labels, images, 0.4, 3, seed=7)
    assert noisy.given.tolist() == given
    for label in range(3):
        np.testing.assert_allclose(noisy.transition[label], p[labels == label].mean(axis=0), atol=1e-12)


@both_streams
@pytest.mark.parametrize("inputs", ["raw", "standardized"])
def test_the_chunk_size_does_not_matter(stream, inputs, monkeypatch):
    images, clean = photographs(500, side=8), np.arange(500) % 5
    whole = draw(stream, clean, images, 0.4, 5, inputs=inputs)
    monkeypatch.setattr(module, "CHUNK_VALUES", 7 * 192)  # seven images at a time
    parts = draw(stream, clean, images, 0.4, 5, inputs=inputs)
    np.testing.assert_array_equal(parts.given, whole.given)
    np.testing.assert_allclose(parts.transition, whole.transition, atol=1e-9)


def test_inputs_scale_the_images():
    images, clean = photographs(600, side=8), np.arange(600) % 3
    # Images scaled by hand give the same labels as the options.
    unit = images / 255
    standardized = (images - images.mean(axis=(0, 2, 3), keepdims=True)) / images.std(axis=(0, 2, 3), keepdims=True)
    for inputs, scaled in (("raw", images.astype(float)), ("unit", unit), ("standardized", standardized)):
        by_option = draw("ours", clean, images, 0.4, 3, inputs=inputs)
        by_hand = draw("ours", clean, scaled, 0.4, 3, inputs="raw")
        np.testing.assert_array_equal(by_option.given, by_hand.given)
        np.testing.assert_allclose(by_option.transition, by_hand.transition, atol=1e-9)


def test_a_constant_channel_is_no_division_by_zero():
    images = np.zeros((20, 2, 2, 2), dtype=np.uint8)
    images[:, 1] = 7
    noisy = draw("ours", np.arange(20) % 4, images, 0.4, 4, inputs="standardized")
    assert np.isfinite(noisy.transition).all()


def test_raw_pixels_saturate_and_share_their_target():
    """As documented for raw pixels: softmax is an argmax, and mostly the same one within a class."""
    images, clean = photographs(4_000).reshape(4_000, -1), np.arange(4_000) % 10
    saturated, shares = {}, {}
    raw = images.astype(float)
    scaled = {"raw": raw, "unit": raw / 255, "standardized": (raw - raw.mean()) / raw.std()}
    random = generator(8)
    projections = random.standard_normal((10, images.shape[1], 10))
    for name, inputs in scaled.items():
        p = np.concatenate(
            [
                np.delete(label_probabilities(inputs[clean == c], c, projections[c], np.ones(400)), c, axis=1)
                for c in range(10)
            ]
        )
        saturated[name] = (p.max(axis=1) > 0.99).mean()
        noisy = draw("ours", clean, images.reshape(-1, 3, 32, 32), 0.4, 10, inputs=name)
        counts = transition_counts(noisy.clean, noisy.given, 10) * ~np.eye(10, dtype=bool)
        shares[name] = (counts.max(axis=1) / counts.sum(axis=1)).mean()
    assert saturated["raw"] > 0.99
    assert saturated["unit"] == pytest.approx(0.77, abs=0.06)
    assert saturated["standardized"] == pytest.approx(0.88, abs=0.04)
    assert shares["raw"] == pytest.approx(0.68, abs=0.15)
    assert shares["standardized"] == pytest.approx(0.18, abs=0.06)


@both_streams
def test_classes_without_samples_and_no_samples_at_all(stream):
    images = photographs(50, side=4)
    noisy = draw(stream, np.full(50, 2), images, 0.4, 4)
    np.testing.assert_array_equal(noisy.transition[[0, 1, 3]], np.eye(4)[[0, 1, 3]])
    assert len(draw(stream, [], images[:0], 0.4, 4, inputs="standardized").given) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [0, 1, 2]}, r"images of shape \(4, 1, 2, 2\) for 3 labels"),
        ({"images": np.zeros(4)}, r"images of shape \(4,\)"),
        ({"labels": [0, 1, 2, 3]}, r"labels\[3\] = 3"),
        ({"noise_rate": 1.4}, "noise_rate=1.4"),
        ({"num_classes": 1}, "num_classes=1"),
        ({"inputs": "scaled"}, "inputs='scaled': must be one of raw, unit, standardized"),
        ({"inputs": "unit", "images": np.zeros((4, 1, 2, 2))}, "uint8"),
        ({"images": np.full((4, 1, 2, 2), np.nan)}, "NaN"),
    ],
)
@both_streams
def test_wrong_arguments(stream, change, message):
    arguments = {"labels": [0, 1, 2, 0], "images": photographs(4, 1, 2), "noise_rate": 0.4, "num_classes": 3}
    with pytest.raises(ValueError, match=message):
        draw(stream, **{**arguments, **change})
