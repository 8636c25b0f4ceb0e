import re
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError

from tnlpad.report.page import demo_page, demo_rows, demo_verdict, percent

VOID = {"meta", "br", "path", "use", "rect"}


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.text, self.ids, self.addresses = [], [], [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.addresses += [value for key, value in attributes.items() if key in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_the_page_shows_the_numbers_of_the_record(demo_record):
    text = re.sub(r"\s+", " ", " ".join(read(demo_page(demo_record)).text))
    for wanted in ("80.0 ± 2.0", "90.0 ± 1.0", "65.0 ± 2.0", "30.0 ± 5.0", "15.0 points more", "c2 = 2.0"):
        assert wanted in text
    for wanted in ("tnlpad demo --out <here>", "torch 2.6.0", "1, 2", "497", "40 % wrong labels"):
        assert wanted in text


def test_the_page_is_self_contained(demo_record):
    page = demo_page(demo_record)
    reader = read(page)
    assert all(address.startswith("#") for address in reader.addresses)
    assert "<script" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_words_of_the_record_cannot_become_markup(demo_record):
    demo_record["command"] = "<img src=x>"
    assert "<img" not in demo_page(demo_record)


def test_both_figures_say_what_they_show(demo_record):
    page = demo_page(demo_record)
    assert page.count('role="img"') == 2
    assert "plain SGD: 30 % after epoch 1, highest 90 % after epoch 2, 65 % at the end." in page
    named = [i for i in read(page).ids if i.endswith(("-title", "-description"))]
    assert len(named) == len(set(named)) == 4


def test_one_seed_needs_no_standard_deviation(demo_record):
    for method in demo_record["methods"].values():
        method["curves"] = method["curves"][:1]
        for key in ("test_last_epoch", "test_chosen_epoch", "memorised_last_epoch"):
            method[key]["sd"] = None
    demo_record["gain"]["combined_sd"] = None
    assert "one seed" in demo_page(demo_record)


def test_a_missing_number_is_an_error_and_not_a_gap(demo_record):
    del demo_record["test_size"]
    with pytest.raises(UndefinedError, match="test_size"):
        demo_page(demo_record)


# Its table and verdict


def test_percent():
    assert percent(0.82656) == "82.7"
    assert percent(0.4, 0) == "40"


def test_the_epochs_of_several_seeds_are_a_range(demo_record):
    demo_record["methods"]["plain"]["chosen_epochs"] = [3, 5, 2]
    assert demo_rows(demo_record)[0].chosen_epochs == "2–5"


def test_rows(demo_record):
    rows = demo_rows(demo_record)
    assert [row.method for row in rows] == ["Plain SGD", "TNLPAD, w = σ + γ", "TNLPAD, σ"]
    sigma = rows[2]
    assert (sigma.last, sigma.chosen, sigma.memorised, sigma.n) == ("80.0 ± 2.0", "90.0 ± 1.0", "30.0 ± 5.0", 2)
    assert sigma.chosen_epochs == "2–3"
    assert rows[0].chosen_epochs == "2"


@pytest.mark.parametrize(
    ("gain", "spread", "sentence"),
    [
        (0.15, 0.05, "15.0 points more of the test images right than plain SGD, 3.0 times the combined"),
        (-0.02, 0.04, "2.0 points less of the test images right than plain SGD, 0.5 times"),
        (0.1, None, "one seed"),
        (0.1, 0.0, "than plain SGD."),
    ],
)
def test_the_verdict_says_what_happened(demo_record, gain, spread, sentence):
    demo_record["gain"] = {"test_last_epoch": gain, "combined_sd": spread}
    assert sentence in demo_verdict(demo_record)
