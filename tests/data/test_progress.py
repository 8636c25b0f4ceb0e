import pytest

from tests.data.small_data import Recorder
from tnlpad.data.progress import GROUP_SIZE, in_threads


def test_results_keep_their_order_and_every_group_is_told_of():
    recorder = Recorder()
    count = 2 * GROUP_SIZE + 3
    assert list(in_threads(str, range(count), "Counting", recorder)) == [str(number) for number in range(count)]
    assert recorder.steps == [("Counting", done, count) for done in (GROUP_SIZE, 2 * GROUP_SIZE, count)]


def test_nothing_to_do_is_done():
    assert list(in_threads(str, [], "Counting", Recorder())) == []


def test_what_one_raises_comes_out():
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda number: 1 // number, [1, 0], "Dividing", Recorder()))
