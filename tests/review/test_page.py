"""The page of a review in a browser, served by the real server."""

import csv
import json
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from tests.chromium import chromium
from tests.data.own_files import class_folders
from tests.review.own_run import own_run
from tests.review.served import served
from tnlpad.review.session import FOLDER, TABLE_FILE

NAMES = ("<img src=x onerror=alert(1)>", "\"quoted\" & 'single'", "خبز بالزعتر", "Donaudampfschifffahrt" * 6, "étoile")
PER_CLASS = 14
SAMPLES = len(NAMES) * PER_CLASS
CURRENT = "document.querySelector('.card.current')"
FILLED = f"{CURRENT}?.querySelector('.name').textContent"
SAVED = "document.getElementById('saved').textContent"
ALL_SENT = f"{SAVED} === 'saved' && document.getElementById('saved').dataset.unsent === '0'"
COUNT = "document.getElementById('count').textContent"
DECIDED = "document.getElementById('decided').textContent"

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def run(tmp_path):
    """A run in which every third label is doubtful."""
    labels = np.repeat(np.arange(len(NAMES)), PER_CLASS)
    data = class_folders(tmp_path / "data", sorted(NAMES), PER_CLASS)
    own_run(
        tmp_path / "runs" / "made", data, truth=np.where(np.arange(SAMPLES) % 3 == 0, (labels + 1) % len(NAMES), labels)
    )
    return tmp_path / "runs" / "made"


@contextmanager
def opened(browser, address, width=1280, colours="light", filters="show=all"):
    with browser.open(f"{address}#{filters}", width, colours) as page:
        page.until(FILLED)
        yield page


class Server:
    """The command, which can be killed and started again."""

    def __init__(self, run):
        self.run = run
        self.start()

    def start(self):
        command = [sys.executable, "-m", "tnlpad", "review", str(self.run), "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = next(word for line in self.process.stdout for word in line.split() if "http://" in word)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def current(page):
    """Return the id, given and suggested label of the current card."""
    page.until(FILLED)
    return page.run(
        f"[{CURRENT}.querySelector('.name').textContent,"
        f" ...['given', 'suggested'].map(each => {CURRENT}.querySelector(`button.${{each}} bdi`).textContent)]"
    )


def decide(page, key, expected):
    """Decide by a key, and note what the table should hold. The next card follows."""
    name, given, suggested = current(page)
    label, choice = {
        "g": (given, "given"),
        "s": (suggested, "suggested"),
        "u": ("", "unsure"),
        "x": ("", "exclude"),
        "c": (next(each for each in NAMES if each not in (given, suggested)), "other"),
    }[key]
    page.press(key)
    if key == "c":
        page.until("document.getElementById('chooser').open")
        page.write(label)
        page.press("Enter")
    page.until(f"{CURRENT}.querySelector('.name').textContent !== {json.dumps(name)}")
    expected[name] = (label, given, suggested, choice)


def undo(page, times, expected):
    for name in list(expected)[: -times - 1 : -1]:
        page.press("z")
        assert current(page)[0] == name
        del expected[name]


def stored(page, run):
    """Return the rows of review.csv by id, once everything is saved and written."""
    page.until(ALL_SENT)
    decided = int(page.run(DECIDED).split()[0])
    path, rows = run / FOLDER / TABLE_FILE, None
    while rows is None or len(rows) != decided:
        page.run("new Promise(done => setTimeout(done, 50))")
        if not path.exists():
            continue
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    return {row["id"]: tuple(row[key] for key in ("label", "given", "suggested", "choice")) for row in rows}


def complaints(page):
    """What the browser complains about, apart from a server that is not there."""
    return [each for each in page.complaints if "net::ERR" not in each]


def test_fifty_decisions_by_keyboard_survive_a_killed_server_a_closed_page_and_a_reload(browser, run):
    server, expected = Server(run), {}
    try:
        with opened(browser, server.address) as page:
            for number in range(20):
                decide(page, "gsuxc"[number % 5], expected)
            undo(page, 2, expected)
            page.until(ALL_SENT)
            server.kill()
            for key in "sg":
                decide(page, key, expected)
            page.until(f"{SAVED}.includes('2 decisions not saved yet')")
            assert f"tnlpad review {run}" in page.run(SAVED)
            assert complaints(page) == []
        server.start()  # the page is closed; the next one sends what it left behind
        with opened(browser, server.address, filters="show=all&decision=undecided") as page:
            for number in range(20):
                decide(page, "xcgsu"[number % 5], expected)
            page.until(ALL_SENT)
            server.kill()
            decide(page, "c", expected)
            page.until(f"{SAVED}.includes('1 decision not saved yet')")
            server.start()
            page.until(ALL_SENT)
            page.reload()
            page.until(f"{COUNT} === '{SAMPLES - 41} of {SAMPLES} shown'")
            for number in range(9):
                decide(page, "gsuxc"[number % 5], expected)
            page.run("document.getElementById('clear').click()")
            page.until(f"{DECIDED} === '50 of {SAMPLES} decided'")
            assert stored(page, run) == expected
            assert complaints(page) == []
    finally:
        server.kill()


def test_decisions_appear_in_another_tab_and_can_be_withdrawn_there(browser, run):
    with (
        served(run) as client,
        opened(browser, client.review.address) as one,
        opened(browser, client.review.address) as other,
    ):
        name, given, suggested = current(one)
        one.press("g")
        pressed = f"{CURRENT}.querySelector('[aria-pressed=true]')?.dataset.choice"
        other.until(f"{pressed} === 'given'")
        other.press("s")
        other.press("k")
        one.call("Page.bringToFront")  # a tab in the background does not ask for decisions
        one.press("k")
        one.until(f"{pressed} === 'suggested'")
        assert stored(one, run) == {name: (suggested, given, suggested, "suggested")}
        one.press("s")
        other.call("Page.bringToFront")
        other.until(f"{pressed} === undefined")
        assert stored(other, run) == {}
        assert one.complaints == other.complaints == []


def choose(page, control, value):
    page.run(
        f"{{ const each = document.getElementById('{control}'); each.value = {json.dumps(value)};"
        " each.dispatchEvent(new Event('change')); }"
    )


def test_filters_order_and_search(browser, run):
    with served(run) as client, opened(browser, client.review.address) as page:
        columns = client.columns()
        given, suggested = int(columns["given"][0]), int(columns["suggested"][0])
        choose(page, "given", given)
        page.until(f"{COUNT} === '{PER_CLASS} of {SAMPLES} shown'")
        choose(page, "suggested", suggested)
        pair = ((columns["given"] == given) & (columns["suggested"] == suggested)).sum()
        page.until(f"{COUNT} === '{pair} of {SAMPLES} shown'")
        page.reload()
        page.until(f"{FILLED} && {COUNT} === '{pair} of {SAMPLES} shown'")
        page.press("g")
        choose(page, "decision", "undecided")
        page.until(f"{COUNT} === '{pair - 1} of {SAMPLES} shown'")
        page.run("document.getElementById('clear').click()")
        choose(page, "sort", "row")
        page.until(f"{FILLED} !== '' && document.querySelector('.card').dataset.at === '{columns['row'].argmin()}'")
        page.press("f")
        page.run("document.getElementById('search').focus()")
        page.write("étoile 1")
        found = sum(str(number).startswith("1") or "1" in str(number) for number in range(PER_CLASS))
        page.until(f"{COUNT} === '{found} of {SAMPLES} shown'")
        assert page.complaints == []


def test_a_cell_of_the_table_and_a_line_on_the_map_filter(browser, run):
    with served(run) as client, opened(browser, client.review.address) as page:
        page.run("document.getElementById('tab-pairs').click()")
        choose_all = "document.querySelector('#pairs select')"
        page.run(f"{choose_all}.value = 'all', {choose_all}.dispatchEvent(new Event('change'))")
        cells = page.run(
            "[...document.querySelectorAll('.pairs tbody td button')].map(each => Number(each.textContent))"
        )
        assert sum(cells) == SAMPLES
        page.run("document.querySelector('.pairs tbody td button').click()")
        page.until(f"{COUNT} === '{cells[0]} of {SAMPLES} shown'")
        page.run("document.getElementById('tab-map').click()")
        page.until("document.querySelectorAll('.colours li').length")
        page.run("document.querySelector('canvas').focus()")
        page.press(*["+"] * 50, "Enter")
        page.until(f"{COUNT} !== '{cells[0]} of {SAMPLES} shown'")
        assert page.run("document.getElementById('show').value") == "chosen"
        assert page.complaints == []


def test_an_audit_hides_what_the_model_thinks_until_the_person_has_decided(browser, run):
    with served(run) as client, opened(browser, client.review.address) as page:
        page.run("document.getElementById('tab-audit').click()")
        page.run("[...document.querySelectorAll('#audit button')].at(-1).click()")
        page.until(f"document.getElementById('show').value === 'audit' && {FILLED}")
        first = client.document("audit")["positions"][0]
        card = f"document.querySelector('.card[data-at=\"{first}\"]')"
        hidden = f"[{card}.querySelector('.suggested').hidden, {card}.querySelector('.why').textContent]"
        assert page.run(hidden) == [True, ""]
        assert "wrong" not in page.run(f"{card}.textContent + {card}.ariaLabel")
        page.press("s")
        assert client.document("decisions?since=0")["decisions"] == []
        page.press("g")
        page.until(f"!{card}.querySelector('.suggested').hidden && {card}.querySelector('.why').textContent")
        page.run("document.getElementById('tab-audit').click()")
        page.until("document.getElementById('audit').textContent.includes('Share of wrong labels')")
        assert page.complaints == []


@pytest.mark.parametrize(("width", "colours"), [(1280, "light"), (400, "dark")], ids=["desktop", "phone"])
def test_names_are_text_and_fit(browser, run, width, colours):
    with served(run) as client, opened(browser, client.review.address, width, colours) as page:
        names = set(page.run("[...document.querySelectorAll('.labels bdi')].map(each => each.textContent)"))
        assert names > {"other…"}
        assert names - {"other…"} <= set(NAMES)
        cards = page.run("[...document.querySelectorAll('.card')].map(each => [each.ariaPosInSet, each.ariaSetSize])")
        assert 0 < len(cards) < SAMPLES  # only those in view
        assert cards == [[str(place), str(SAMPLES)] for place in range(1, len(cards) + 1)]
        pictures = "[...document.images].filter(each => each.src)"
        assert page.until(f"{pictures}.length && {pictures}.every(each => each.naturalWidth)")
        assert page.run(f"{pictures}.every(each => new URL(each.src).pathname.includes('/picture/'))")
        assert page.run("document.documentElement.scrollWidth") <= width
        outside = page.run(
            "[...document.querySelectorAll('header *, form *, main *')].filter(each => each.checkVisibility()"
            " && each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML.slice(0, 90))"
        )
        assert outside == []
        if width < 600:
            smallest = page.run(
                "Math.min(...[...document.querySelectorAll('.labels button')].map(each => each.offsetHeight))"
            )
            assert smallest >= 44
        assert page.complaints == []


def test_texts_have_their_evidence_marked(browser, tmp_path):
    rows = [
        ("Ruby \U0001f600 <b>winner</b>" if label else "lunch at noon") + f" {k}" for k in range(30) for label in (0, 1)
    ]
    labels = [("ham", "spam")[(k + (k in (4, 9))) % 2] for k in range(60)]
    with open(tmp_path / "texts.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *zip(rows, labels, strict=True)])
    own_run(tmp_path / "run", tmp_path / "texts.csv", truth=[k % 2 for k in range(60)])
    with served(tmp_path / "run") as client, opened(browser, client.review.address) as page:
        marks = page.run(
            f"[...{CURRENT}.querySelectorAll('mark')].map(each => [each.className, each.textContent,"
            " getComputedStyle(each).textDecorationStyle])"
        )
        given, suggested = current(page)[1:]
        words = {"spam": {"Ruby", "b", "winner"}, "ham": {"lunch", "at", "noon"}}
        assert {given, suggested} == {"ham", "spam"}
        assert marks
        assert {tuple(each[::2]) for each in marks} == {("for-suggested", "solid")}
        assert {each[1] for each in marks} <= words[suggested]
        assert page.complaints == []


def test_without_suspects_the_pairs_of_all_samples_are_counted(browser, tmp_path):
    """And the long path of a run does not widen what the page says about it."""
    data = class_folders(tmp_path / "data", ["ant", "bee"], PER_CLASS)
    run = tmp_path / ("a_long_name_without_a_space_" * 7) / "run"
    own_run(run, data)
    with served(run) as client, opened(browser, client.review.address) as page:
        assert client.document("about")["suspects"] == 0
        page.run("document.getElementById('tab-pairs').click()")
        counts = "[...document.querySelectorAll('.pairs tbody td button')].map(each => Number(each.textContent))"
        assert page.run("document.querySelector('#pairs select').value") == "all"
        assert sum(page.run(counts)) == 2 * PER_CLASS
        page.run("document.getElementById('tab-about').click()")
        assert (
            page.run("document.getElementById('about').scrollWidth - document.getElementById('about').clientWidth") == 0
        )
