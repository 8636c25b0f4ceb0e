from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnlpad.noise import NoiseSpec, parse_noise

RATED = ("symmetric", "pairflip", "asymmetric", "instance")


@pytest.mark.parametrize(
    ("text", "spec", "name"),
    [
        ("symmetric:0.4", NoiseSpec(kind="symmetric", noise_rate=0.4), "symmetric-0.4"),
        ("pairflip:.2", NoiseSpec(kind="pairflip", noise_rate=0.2), "pairflip-0.2"),
        ("asymmetric:0.40", NoiseSpec(kind="asymmetric", noise_rate=0.4), "asymmetric-0.4"),
        ("instance:1", NoiseSpec(kind="instance", noise_rate=1.0), "instance-1"),
        ("symmetric:0", NoiseSpec(kind="symmetric", noise_rate=0.0), "symmetric-0"),
        ("symmetric:1e-5", NoiseSpec(kind="symmetric", noise_rate=1e-5), "symmetric-0.00001"),
        ("human:worse", NoiseSpec(kind="human", human="worse"), "human-worse"),
        ("matrix:in/my.csv", NoiseSpec(kind="matrix", file=Path("in/my.csv")), "matrix-my"),
        ("matrix:my.NPY", NoiseSpec(kind="matrix", file=Path("my.NPY")), "matrix-my"),
        ("in/labels.npz", NoiseSpec(kind="file", file=Path("in/labels.npz")), "file-labels"),
        ("C:/in/labels.npz", NoiseSpec(kind="file", file=Path("C:/in/labels.npz")), "file-labels"),
        ("symmetric.npz", NoiseSpec(kind="file", file=Path("symmetric.npz")), "file-symmetric"),
        ("none", NoiseSpec(kind="none"), "none"),
    ],
)
def test_texts_and_their_meaning(text, spec, name):
    assert parse_noise(text) == spec
    assert spec.name == name
    assert parse_noise(str(spec)) == spec


@given(st.sampled_from(RATED), st.floats(0, 1))
def test_a_rate_round_trips_through_text(kind, noise_rate):
    spec = NoiseSpec(kind=kind, noise_rate=noise_rate)
    assert parse_noise(str(spec)) == spec
    assert str(spec).replace(":", "-") == spec.name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("symetric:0.4", r"'symetric'.* Did you mean symmetric:0.4\? .*symmetric:RATE"),
        ("Asymmetric:0.4", r"Did you mean asymmetric:0.4\?"),
        ("symmetric-0.4", r"Did you mean symmetric:0.4\?"),
        ("pair:0.2", r"Did you mean pairflip:0.2\?"),
        ("non", r"Did you mean none\?"),
        ("xyz", r"unknown kind 'xyz'\. Choose"),
        ("", "unknown kind ''"),
        ("file:x", "unknown kind 'file'"),
        ("symmetric", "symmetric:RATE"),
        ("symmetric:", "symmetric:RATE"),
        ("human", "human:NAME"),
        ("matrix", "matrix:FILE"),
        ("none:0.4", "write it as none"),
        ("none:", "write it as none"),
        ("symmetric:forty", "'symmetric:forty'.*number"),
        ("symmetric:40", r"'symmetric:40'.* in \[0, 1\]; 40 % is 0.4"),
        ("symmetric:-0.1", r"in \[0, 1\]"),
        ("symmetric:nan", r"in \[0, 1\]"),
        ("matrix:my.txt", ".npy or .csv"),
        ("matrix:my.npz", ".npy or .csv"),
    ],
)
def test_invalid_texts_are_refused_with_a_remedy(text, message):
    with pytest.raises(ValueError, match=message):
        parse_noise(text)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "symmetric"}, "noise_rate=None: symmetric"),
        ({"kind": "none", "noise_rate": 0.4}, "noise_rate=0.4: none"),
        ({"kind": "human", "human": "worse", "file": Path("x")}, "file=.*human"),
        ({"kind": "symmetric", "noise_rate": 40.0}, "40 % is 0.4"),
        ({"kind": "symetric", "noise_rate": 0.4}, "kind='symetric'"),
    ],
)
def test_a_spec_has_what_its_kind_needs(fields, message):
    with pytest.raises(ValueError, match=message):
        NoiseSpec(**fields)
