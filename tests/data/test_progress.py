import pytest

from tnlpad.data.progress import GROUP_SIZE, in_threads


class Heard:
    def __init__(self):
        self.told = []

    def say(self, message):
        self.told.append(message)

    def progress(self, task, done, total):
        self.told.append((task, done, total))


def test_results_keep_their_order_and_every_group_is_told_of():
    heard = Heard()
    count = 2 * GROUP_SIZE + 3
    assert list(in_threads(str, range(count), "Counting", heard)) == [str(number) for number in range(count)]
    assert heard.told == [("Counting", done, count) for done in (GROUP_SIZE, 2 * GROUP_SIZE, count)]


def test_nothing_to_do_is_done():
    assert list(in_threads(str, [], "Counting", Heard())) == []


def test_what_one_raises_comes_out():
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda number: 1 // number, [1, 0], "Dividing", Heard()))
