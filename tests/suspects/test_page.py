"""The page of suspects, as text and in a browser."""

import re

import numpy as np
import pytest

from tests.chromium import chromium
from tests.suspects.made import made
from tests.suspects.test_listing import names
from tnlpad.suspects.listing import suspects
from tnlpad.suspects.page import suspects_page
from tnlpad.suspects.pictures import Comparison, data_url, jpeg_of_array
from tnlpad.suspects.ranking import rank
from tnlpad.suspects.review import read_review

LONG = "a class of a very long name " * 6 + "<script>alert(1)</script>"
UNBROKEN = "Donaudampfschifffahrtsgesellschaft" * 8
ARABIC = "خبز بالزعتر"


def gray(suspect):
    return data_url(jpeg_of_array(np.full((1, 8, 8), suspect.given * 100, dtype=np.uint8)))


def text(top=40, picture=gray, run="made", caution=None, **options):
    scores, _, _ = made(**options)
    ranking = rank(scores)
    listed = suspects(ranking, scores, names(len(scores)), top)
    facts = {"run": run}
    return suspects_page("things", listed, ranking, scores.class_names, facts, picture=picture, caution=caution)


def test_names_cannot_become_markup():
    page = text(names=("ant", "bee", LONG))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_a_long_list_is_shown_in_part_and_says_so(monkeypatch):
    monkeypatch.setattr("tnlpad.suspects.page.MAX_CARDS", 100)
    page = text(top=150, picture=lambda each: None)
    assert page.count("<li ") == 100
    assert "The first 100 of 150" in page


def of_numbers():
    scores, _, _ = made()
    ranking = rank(scores)
    listed = suspects(ranking, scores, names(len(scores)), 5)
    shown = [Comparison(column="<b>width", value=12345.6, given=0.00123456, suggested=7)]
    options = {"picture": lambda each: None, "numbers": lambda each: shown}
    return suspects_page("t", listed, ranking, scores.class_names, {}, **options)


def test_rows_of_numbers_show_their_telling_columns():
    page = of_numbers()
    assert page.count('<table class="numbers"') == 5
    assert "<td>12,346</td>" in page
    assert '<td class="given">0.00123</td><td class="suggested">7</td>' in page
    assert "<b>width" not in page
    assert '<table class="numbers"' not in text(picture=lambda each: None)


def empty():
    scores, _, _ = made(rate=0.0)
    return suspects_page("things", [], rank(scores), scores.class_names, {}, picture=lambda each: None)


def test_an_empty_list_is_a_page():
    assert "No label is suspect" in empty()
    assert "<script>" not in empty()


def test_cards_have_no_room_for_pictures_if_there_are_none():
    assert "no picture" not in text(picture=lambda each: None)
    some = text(picture=lambda each: None if each.rank > 1 else gray(each))
    assert some.count("no picture") == 39


def test_the_filter_offers_pairs_and_single_sides_with_short_names():
    page = text(names=("ant", "bee", UNBROKEN))
    options = re.findall(r"<option value=\"(.*?)\">(.*?)</option>", page)
    assert {key for key, _ in options} >= {"", "0-1", "0-", "-1"}
    assert all(len(words) < 120 for _, words in options)


def test_a_caution_hides_the_estimates():
    assert text().count("% likely wrong") == 40
    page = text(caution="It <only> guesses.")
    assert "</strong> It &lt;only&gt; guesses." in page
    assert "likely wrong" not in page
    assert "Estimated" not in page


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(params=[(1280, "light"), (420, "dark")], ids=["desktop", "phone"])
def page(browser, request, tmp_path):
    path = tmp_path / "index.html"
    path.write_text(text(names=(UNBROKEN, ARABIC, LONG), run=str(tmp_path)))
    with browser.open(path, *request.param) as opened:
        opened.file = path
        yield opened


def press(page, key):
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=key)


def filtered(page, value):
    page.run(f"pair.value = '{value}'; pair.dispatchEvent(new Event('change'))")
    return page.run(
        "[...document.querySelectorAll('#suspects > li')].filter(e => e.offsetHeight).map(e => e.dataset.pair)"
    )


def choices(page):
    return page.run(
        "[...document.querySelectorAll('#suspects > li')].map(e => e.querySelector('[aria-pressed=true]'))"
        ".map(e => e ? e.dataset.choice : null)"
    )


def focused(page):
    return page.run("[...document.querySelectorAll('#suspects > li')].indexOf(document.activeElement)")


@pytest.mark.browser
def test_the_browser_reports_no_errors_or_requests(page):
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
    left = filtered(page, pair)
    assert set(left) == {pair}
    assert page.run("count.value") == f"{len(left)} shown"
    press(page, "Escape")
    assert page.run("[...document.querySelectorAll('#suspects > li')].filter(e => e.offsetHeight).length") == 40


@pytest.mark.browser
@pytest.mark.parametrize(("side", "place"), [("0-", 0), ("-0", 1)])
def test_the_filter_leaves_one_side_of_a_pair(page, side, place):
    left = filtered(page, side)
    assert {pair.split("-")[place] for pair in left} == {"0"}
    assert len({pair.split("-")[1 - place] for pair in left}) == 2


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


@pytest.mark.browser
def test_keys_decide_and_move_to_the_next_undecided(page):
    press(page, "j")
    for key in "sgn":
        press(page, key)
    assert choices(page)[:4] == ["suggested", "given", "neither", None]
    assert focused(page) == 3
    assert page.run("decided.value") == "3 decided"
    press(page, "k")
    press(page, "n")  # the same choice again takes it back
    assert choices(page)[2] is None
    assert focused(page) == 2
    press(page, "w")
    assert page.run("document.activeElement.querySelector('details').open")


@pytest.mark.browser
def test_decisions_are_saved_as_a_review(page, tmp_path):
    page.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    assert page.run("save.disabled")
    page.run("document.querySelectorAll('#suspects > li')[0].querySelector('.suggested').click()")
    page.run("document.querySelectorAll('#suspects > li')[1].querySelector('.neither').click()")
    page.run("save.click()")
    saved = tmp_path / "review.csv"
    for _ in range(100):
        if saved.exists():
            break
        page.run("new Promise(done => setTimeout(done, 50))")
    ids = page.run("[...document.querySelectorAll('#suspects > li')].map(e => e.dataset.id)")
    suggested = page.run("document.querySelector('#suspects .suggested bdi').textContent")
    assert read_review(saved, ids) == {ids[0]: suggested.strip(), ids[1]: None}


@pytest.mark.browser
def test_decisions_survive_a_reload(browser, tmp_path):
    path = tmp_path / "index.html"
    path.write_text(text(run=str(tmp_path)))
    with browser.open(path, 1280) as page:
        press(page, "j")
        press(page, "s")
    with browser.open(path, 1280) as page:
        assert choices(page)[:2] == ["suggested", None]
        assert page.run("decided.value") == "1 decided"
        assert page.complaints == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 420])
def test_pages_with_little_to_show(browser, tmp_path, width):
    pages = {"empty": empty(), "numbers": text(picture=lambda each: None, names=(UNBROKEN, ARABIC, LONG))}
    for name, content in pages.items():
        path = tmp_path / f"{name}.html"
        path.write_text(content)
        with browser.open(path, width) as page:
            assert page.complaints == []
            assert page.run("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 1100, 820, 420, 360])
def test_the_headings_of_numbers_are_shown_whole(browser, tmp_path, width):
    (tmp_path / "index.html").write_text(of_numbers())
    with browser.open(tmp_path / "index.html", width) as page:
        headings = "[...document.querySelectorAll('.numbers thead th')]"
        assert page.run(f"{headings}.length") == 20
        cut = (
            "each => { const words = document.createRange(); words.selectNodeContents(each);"
            "const room = each.getBoundingClientRect().width - parseFloat(getComputedStyle(each).paddingLeft);"
            "return words.getBoundingClientRect().width > room; }"  # scrollWidth is rounded
        )
        assert page.run(f"{headings}.filter({cut}).map(each => each.textContent)") == []


@pytest.mark.browser
def test_the_policy_of_the_page_stops_what_a_name_might_smuggle_in(browser, tmp_path):
    smuggled = "<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">"
    smuggled += "<img src='http://127.0.0.1:9/seen'><form action='http://127.0.0.1:9/'><button id=send></form>"
    path = tmp_path / "index.html"
    path.write_text(text().replace("</main>", f"{smuggled}</main>"))
    with browser.open(path, 1280) as page:
        page.run("send.click()")
        assert page.run("document.title").startswith("Suspect labels")
        press(page, "j")
        assert focused(page) == 0  # the page's own script runs
        assert len(page.complaints) == 5
        assert all("Content Security Policy" in each for each in page.complaints), page.complaints
