import pytest
import torch

from tnlpad.methods.rows import Rows, cycled


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_small_set_is_repeated():
    index = torch.tensor([3, 5, 8])
    drawn = cycled(index, 8, generator())
    assert sorted(drawn[:3].tolist()) == sorted(drawn[3:6].tolist()) == [3, 5, 8]
    assert len(set(drawn[6:].tolist())) == 2
    assert {tuple(cycled(index, 3, generator(seed)).tolist()) for seed in range(20)} != {(3, 5, 8)}


def test_a_large_set_is_sampled_without_repetition():
    assert len(set(cycled(torch.arange(100), 30, generator()).tolist())) == 30


def test_nothing_to_draw_from_is_refused():
    with pytest.raises(ValueError, match="the set is empty"):
        cycled(torch.arange(0), 3, generator())


def test_rows_are_read_one_after_the_other_and_again_from_the_start():
    rows = Rows(5, 1, dtype=torch.int64, device=torch.device("cpu"))
    rows.fill(torch.arange(5).unsqueeze(1))
    address = rows.table.data_ptr()
    assert [rows.next(2).flatten().tolist() for _ in range(4)] == [[0, 1], [2, 3], [4, 0], [1, 2]]
    assert rows.share_of(5).item() == 1  # at most: an odd batch size must not carry a ramp beyond its epoch
    rows.fill(torch.arange(5, 10).unsqueeze(1))
    assert rows.share_of(5).item() == 0
    assert rows.next(2).flatten().tolist() == [5, 6]
    assert rows.share_of(5).item() == pytest.approx(2 / 5)
    assert rows.table.data_ptr() == address
    assert set(rows.tensors("own")) == {"own_table", "own_place"}
