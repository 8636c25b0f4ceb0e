import numpy as np
import pytest

from tests.report.drawings.conftest import plain
from tnlpad.report.drawings.panels import (
    MAX_PANELS,
    by_place,
    departures_text,
    noise_rate,
    own_settings,
    place_of,
    seeds_text,
    series,
    wanted_panels,
)


def test_the_title_of_a_place_names_departures_from_the_paper(make_record):
    assert plain(place_of(make_record()).title) == "CIFAR-10, symmetric 40 %"
    other = make_record(protocol="authors", network="vgg19", settings={"epochs": 5, "compiled": True, "patience": 3})
    assert plain(place_of(other).title) == "CIFAR-10, symmetric 40 %, VGG-19, authors’ protocol, epochs 5, patience 3"


def test_compared_settings_share_a_place(make_record):
    records = [make_record(settings={"c2": c2}) for c2 in (0.2, 0.4)] + [make_record(), make_record("standard")]
    ((_, groups),) = by_place(records, ("c2",)).items()
    assert set(groups) == {("tnlpad", 0.2), ("tnlpad", 0.4), ("tnlpad", 0.6), ("standard", None)}
    assert len(by_place(records)) == 3


def test_only_runs_that_differ_in_their_seed_are_drawn_together(make_record):
    rounded = [make_record(settings={"precision": "bfloat16"}, seed=seed) for seed in (1, 2, 3)]
    ((_, groups),) = by_place([make_record(), make_record(seed=2), *rounded]).items()
    assert groups["tnlpad",] == rounded


def test_own_settings_are_the_methods(make_record):
    assert own_settings(make_record(settings={"epochs": 5})) == set()
    assert own_settings(make_record(settings={"epochs": 5, "c2": 1.0})) == {"c2"}


def test_the_papers_panels_are_drawn_where_there_are_any(make_record):
    noises = ("instance:0.4", "symmetric:0.4", "symmetric:0.2")
    places = [place_of(make_record(noise=noise)) for noise in noises]
    places += [place_of(make_record(dataset="digits", network="small_cnn"))]
    wanted = wanted_panels(places, "memorisation")
    assert [place.noise for place in wanted] == ["symmetric:0.4", "instance:0.4"]


def test_other_panels_are_drawn_up_to_six(make_record):
    places = [place_of(make_record(noise=f"symmetric:0.{k}", settings={"epochs": 3})) for k in range(1, 9)]
    wanted = wanted_panels(places[::-1], "memorisation")
    assert wanted == places[:MAX_PANELS]
    assert wanted_panels(places, "memorisation", most=None) == places


@pytest.mark.parametrize(("noise", "rate"), [("symmetric:0.4", 0.4), ("none", None), ("human:worse", None)])
def test_noise_rate(noise, rate):
    assert noise_rate(noise) == rate


def test_series_are_cut_to_the_shortest_and_may_have_gaps(make_record):
    records = [make_record(memorised={"w": (0.1, None, 0.3)}), make_record(memorised={"w": (0.2, 0.4)}), make_record()]
    values = series(records, lambda record: record.curves.memorised.get("w"))
    np.testing.assert_array_equal(values, [[0.1, np.nan], [0.2, 0.4]])
    assert series(records, lambda record: record.curves.norms.get("gamma")) is None


@pytest.mark.parametrize(("sizes", "words"), [([1, 1], "1 seed."), ([3, 3], "3 seeds."), ([5, 2], "2 to 5 seeds.")])
def test_seeds_text(sizes, words):
    assert seeds_text([None] * size for size in sizes) == words


def test_departures_of_a_computed_figure():
    assert departures_text({}) == ""  # of an earlier version
    assert departures_text({"protocol": "paper", "settings": {"precision": "bfloat16", "compiled": True}}) == ""
    found = {"protocol": "authors", "settings": {"epochs": 40, "milestones": [30, 35], "flip": False}}
    assert departures_text(found) == ", authors’ protocol, epochs 40, milestones 30,35, flip false"
