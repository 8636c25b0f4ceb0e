"""The page of suspects, as text and as a reader's browser shows it."""

import numpy as np
import pytest

from tests.chromium import chromium
from tests.suspects.made import made
from tests.suspects.test_listing import names
from tnlpad.suspects.listing import suspects
from tnlpad.suspects.page import MOST_CARDS, suspects_page
from tnlpad.suspects.ranking import rank
from tnlpad.suspects.thumbnails import of_array

LONG = "a class of a very long name " * 6 + "<script>alert(1)</script>"


def text(top=40, picture=lambda each: of_array(np.full((1, 8, 8), each.given * 100, dtype=np.uint8)), **options):
    scores, _, _ = made(**options)
    ranking = rank(scores)
    listed = suspects(ranking, scores, names(len(scores)), top)
    return suspects_page("things", listed, ranking, scores.class_names, picture, {"run": "made"})


def test_names_cannot_become_markup():
    page = text(names=("ant", "bee", LONG))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_a_long_list_is_shown_in_part_and_says_so():
    page = text(top=MOST_CARDS + 50, samples=2000, picture=lambda each: None)
    assert page.count("<li ") == MOST_CARDS
    assert f"The first {MOST_CARDS} of {MOST_CARDS + 50}" in page


def test_an_empty_list_is_a_page():
    scores, _, _ = made(rate=0.0)
    page = suspects_page("things", [], rank(scores), scores.class_names, lambda each: None, {})
    assert "No label is in doubt" in page


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(params=[(1280, "light"), (420, "dark")], ids=["desktop", "phone"])
def page(browser, request, tmp_path):
    path = tmp_path / "index.html"
    path.write_text(text(names=("ant", "bee", LONG)))
    with browser.open(path, *request.param) as opened:
        opened.file = path
        yield opened


def press(page, key):
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=key)


def focused(page):
    return page.run("[...document.querySelectorAll('#suspects > li')].indexOf(document.activeElement)")


@pytest.mark.browser
def test_the_browser_has_nothing_to_complain_of(page):
    assert page.complaints == []
    assert page.requests == [page.file.resolve().as_uri()]
    loaded = page.run("[...document.images].every(each => each.loading === 'lazy' || each.naturalWidth > 0)")
    assert loaded
    assert page.run("document.images[0].naturalWidth") > 0


@pytest.mark.browser
def test_the_page_never_scrolls_sideways(page):
    assert page.run("document.documentElement.scrollWidth") <= page.run("innerWidth")
    outside = page.run(
        "[...document.querySelectorAll('main *')].filter(each => !each.closest('.scroll, .hidden')"
        " && each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML.slice(0, 80))"
    )
    assert outside == []


@pytest.mark.browser
def test_the_filter_leaves_one_pair_of_classes(page):
    pair = page.run("document.querySelectorAll('#pair option')[1].value")
    page.run(f"pair.value = '{pair}'; pair.dispatchEvent(new Event('change'))")
    left = page.run(
        "[...document.querySelectorAll('#suspects > li')].filter(e => e.offsetHeight).map(e => e.dataset.pair)"
    )
    assert set(left) == {pair}
    assert page.run("count.value") == f"{len(left)} shown"
    press(page, "Escape")
    assert page.run("[...document.querySelectorAll('#suspects > li')].filter(e => e.offsetHeight).length") == 40


@pytest.mark.browser
def test_keys_move_along_the_list(page):
    press(page, "j")
    assert focused(page) == 0
    press(page, "j")
    press(page, "ArrowDown")
    assert focused(page) == 2
    press(page, "k")
    assert focused(page) == 1
    press(page, "p")
    assert page.run("document.activeElement.id") == "pair"


@pytest.mark.browser
def test_keys_stay_within_what_the_filter_leaves(page):
    pair = page.run("document.querySelectorAll('#pair option')[1].value")
    page.run(f"pair.value = '{pair}'; pair.dispatchEvent(new Event('change')); pair.blur()")
    for _ in range(50):
        press(page, "j")
    assert page.run("document.activeElement.dataset.pair") == pair
