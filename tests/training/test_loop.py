import math
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.training.toy import SIZE, Loader, Plain, Scripted, scripted_sets, scripted_statistics, sets
from tnlpad.records.store import RunFolder
from tnlpad.training import loop
from tnlpad.training.loop import Diverged, Schedule, chosen, out_of_patience, set_learning_rate, train

CPU = torch.device("cpu")
STEADY = Schedule(epochs=4, learning_rate=0.1, milestones=(3,), decay=0.1)


def record(epoch, accuracy):
    return {"epoch": epoch, "validation_accuracy": accuracy}


def history(*accuracies):
    return [record(epoch, accuracy) for epoch, accuracy in enumerate(accuracies, start=1)]


def test_the_first_maximum_is_chosen():
    assert chosen(history(0.3, 0.5, 0.4, 0.5))["epoch"] == 2
    assert chosen(history(0.5))["epoch"] == 1


def test_patience():
    falling = history(0.3, 0.5, 0.4, 0.5)
    assert [out_of_patience(falling[:n], 2) for n in range(5)] == [False, False, False, False, True]
    assert out_of_patience(falling, 3) is False
    assert out_of_patience(history(*[0.5] * 100), None) is False


def trained(folder, method=None, schedule=STEADY, measured=None, **options):
    """A run of the toy task in a folder."""
    folder.begin({})
    loader = Loader()
    method = method or Plain()
    measured = measured or sets()
    streams = {"order": loader.order}
    torch.manual_seed(5)
    return train(method, loader, measured, schedule, folder=folder, streams=streams, device=CPU, **options)


def without_times(records):
    return [{key: value for key, value in each.items() if key != "seconds"} for each in records]


def same(a, b):
    assert without_times(a.history) == without_times(b.history)
    assert a.best.keys() == b.best.keys()
    return all(torch.equal(a.best[name], b.best[name]) for name in a.best)


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


def test_a_record_of_every_epoch(folder):
    records = []
    steps = []
    result = trained(folder, on_epoch=records.append, on_step=lambda *where: steps.append(where))
    assert records == result.history == folder.epochs()
    assert [each["epoch"] for each in records] == [1, 2, 3, 4]
    assert [each["learning_rate"] for each in records] == pytest.approx([0.1, 0.1, 0.01, 0.01])
    assert steps == [(epoch, step, 3) for epoch in range(1, 5) for step in range(1, 4)]
    for each in records:
        assert each["judged"]["w"].keys() >= {"validation_loss", "test_accuracy", "memorised"}
        assert each["selection"]["even"] == {"picked": SIZE // 2, "precision": pytest.approx(2 / 3)}
        assert each["norms"]["gradient"] > 0
        assert each["seconds"].keys() == {"training", "measuring"}
    assert records[-1]["train_loss"] < records[0]["train_loss"]


def test_the_best_weights_are_those_of_the_chosen_epoch(folder):
    method, states = Plain(), []
    result = trained(
        folder,
        method,
        on_epoch=lambda _: states.append({k: v.clone() for k, v in method.network.state_dict().items()}),
    )
    expected = states[chosen(result.history)["epoch"] - 1]
    assert all(torch.equal(result.best[name], expected[name]) for name in expected)


@pytest.mark.parametrize(("chosen_by", "epoch", "shipped"), [(("sigma",), 2, 7), (("w",), 3, 5)])
def test_the_best_epoch_is_in_the_middle(folder, chosen_by, epoch, shipped):
    """σ of the chosen epoch is shipped, not that of the last one, whichever network chose."""
    method = Scripted(sigma=(3, 7, 5, 7), w=(2, 2, 9, 4), chosen_by=chosen_by)
    statistics = scripted_statistics()
    result = trained(folder, method, measured=scripted_sets(), statistics=statistics)
    assert chosen(result.history)["epoch"] == epoch
    assert result.best["known"].item() == shipped
    assert torch.load(folder.checkpoint_file, weights_only=True)["best"]["known"].item() == shipped
    found = statistics.result()
    assert (found.chosen_epoch, found.epochs) == (epoch, (epoch, 4))


@pytest.mark.parametrize("epoch", [1, 2, 3, 4])
def test_an_earlier_best_epoch_outlasts_a_stop(folder, epoch):
    script = {"sigma": (3, 7, 5, 6), "w": (1, 2, 3, 4)}
    with pytest.raises(Stop):
        trained(folder, Scripted(**script), measured=scripted_sets(), on_epoch=stop_after(epoch))
    result = trained(folder, Scripted(**script), measured=scripted_sets())
    assert result.best["known"].item() == 7


def test_the_training_loss_is_the_mean_of_the_steps(folder):
    method = Plain()
    losses, step = [], method.step

    def kept(batch, clock):
        losses.append(step(batch, clock))
        return losses[-1]

    method.step = kept
    result = trained(folder, method)
    means = torch.stack(losses).view(STEADY.epochs, -1).double().mean(1).tolist()
    assert [each["train_loss"] for each in result.history] == pytest.approx(means)


@pytest.mark.parametrize("bf16", [False, True])
def test_training_and_measuring_have_the_same_precision(folder, bf16):
    method, seen = Plain(), set()

    def look(network, *_):
        seen.add((network.training, torch.is_autocast_enabled("cpu")))

    method.network.register_forward_hook(look)
    trained(folder, method, bf16=bf16)
    assert seen == {(True, bf16), (False, bf16)}


def test_two_networks_are_reported_by_their_mean(folder):
    method = Plain()
    other = Plain()
    method.judged = {"w": method.judged["w"], "other": other.judged["w"]}
    method.reported = ("w", "other")
    for each in trained(folder, method).history:
        for name in ("validation_accuracy", "test_accuracy"):
            assert each[name] == pytest.approx(sum(judged[name] for judged in each["judged"].values()) / 2)


class Listening(Plain):
    """Has `end_epoch`, and from its second epoch on the learning rate of the schedule's third."""

    def __init__(self, enough=None):
        super().__init__()
        self.accuracies, self.enough, self.rates = [], enough, []

    def begin_epoch(self, clock):
        super().begin_epoch(clock)
        self.schedule_epoch = 3 if clock.epoch > 1 else 1

    def step(self, batch, clock):
        self.rates.append(self.optimizers[0].param_groups[0]["lr"])
        return super().step(batch, clock)

    def end_epoch(self, validation_accuracy):
        self.accuracies.append(validation_accuracy)

    @property
    def finished(self):
        return len(self.accuracies) == self.enough


def test_end_epoch_gets_the_noisy_accuracy(folder):
    method = Listening()
    result = trained(folder, method, measured=sets(test_labels=torch.ones(SIZE, dtype=torch.int64)))
    assert method.accuracies == [each["validation_accuracy"] for each in result.history]
    assert method.accuracies != [each["test_accuracy"] for each in result.history]


def test_a_method_may_say_which_epoch_of_the_schedule_holds(folder):
    method = Listening()
    result = trained(folder, method)
    assert [each["learning_rate"] for each in result.history] == pytest.approx([0.1, 0.01, 0.01, 0.01])
    assert method.rates == pytest.approx([0.1] * 3 + [0.01] * 9)


def test_a_method_may_say_that_it_is_finished(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert len(trained(folder, Listening(enough=2), checkpoint_every_seconds=1e9).history) == 2
    assert torch.load(folder.checkpoint_file, weights_only=True)["epoch"] == 2
    method = Listening(enough=2)
    method.accuracies = [0.5, 0.5]  # as its state would say
    assert len(trained(folder, method, checkpoint_every_seconds=1e9).history) == 2


def test_one_network_may_choose_for_another(folder):
    method, other = Plain(), Plain()
    method.judged = {"w": method.judged["w"], "other": other.judged["w"]}
    method.reported, method.chosen_by = ("w",), ("other",)
    for each in trained(folder, method).history:
        assert each["validation_accuracy"] == each["judged"]["other"]["validation_accuracy"]
        assert each["test_accuracy"] == each["judged"]["w"]["test_accuracy"]


class Stop(Exception):
    """What a kill looks like from within."""


def stop_after(epoch):
    def on_epoch(each):
        if each["epoch"] == epoch:
            raise Stop

    return on_epoch


@pytest.mark.parametrize("epoch", [1, 2, 3, 4])
def test_stopped_after_any_epoch_it_ends_the_same(tmp_path, epoch):
    whole = trained(RunFolder(tmp_path / "whole"))
    folder = RunFolder(tmp_path / "parts")
    with pytest.raises(Stop):
        trained(folder, on_epoch=stop_after(epoch))
    assert same(trained(folder), whole)
    assert without_times(folder.epochs()) == without_times(whole.history)


@pytest.mark.parametrize("where", [(1, 1), (2, 2), (4, 3)])
def test_stopped_within_an_epoch_it_ends_the_same(tmp_path, where):
    def on_step(epoch, step, _):
        if (epoch, step) == where:
            raise Stop

    whole = trained(RunFolder(tmp_path / "whole"))
    folder = RunFolder(tmp_path / "parts")
    with pytest.raises(Stop):
        trained(folder, on_step=on_step)
    assert len(folder.epochs()) == where[0] - 1
    assert same(trained(folder), whole)


def test_from_an_older_checkpoint_the_later_epochs_are_redone(tmp_path):
    whole = trained(RunFolder(tmp_path / "whole"))
    folder = RunFolder(tmp_path / "parts")
    with pytest.raises(Stop):
        trained(folder, on_epoch=stop_after(1))
    checkpoint = folder.checkpoint_file.read_bytes()
    with pytest.raises(Stop):
        trained(folder, checkpoint_every_seconds=1e9, on_epoch=stop_after(3))
    assert folder.checkpoint_file.read_bytes() == checkpoint
    assert len(folder.epochs()) == 3
    redone = []
    assert same(
        trained(folder, checkpoint_every_seconds=1e9, on_epoch=lambda each: redone.append(each["epoch"])), whole
    )
    assert redone == [2, 3, 4]
    assert without_times(folder.epochs()) == without_times(whole.history)


@pytest.mark.parametrize(("seconds", "checkpoints"), [(0, 4), (1e9, 1)])
def test_how_often_a_checkpoint_is_saved(folder, monkeypatch, seconds, checkpoints):
    saved = []
    save = loop.save_checkpoint
    monkeypatch.setattr(loop, "save_checkpoint", lambda *each: (saved.append(each[1].epoch), save(*each)))
    trained(folder, checkpoint_every_seconds=seconds)
    assert len(saved) == checkpoints
    assert saved[-1] == 4


def test_seconds_are_counted_from_the_last_checkpoint(folder, monkeypatch):
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(loop, "time", clock)
    method, saved = Plain(), []
    begin = method.begin_epoch

    def ten_seconds_later(each):
        clock.now += 10
        begin(each)

    method.begin_epoch = ten_seconds_later
    monkeypatch.setattr(loop, "save_checkpoint", lambda *each: saved.append(each[1].epoch))
    schedule = Schedule(epochs=7, learning_rate=0.1, milestones=(), decay=0.1)
    trained(folder, method, schedule=schedule, checkpoint_every_seconds=20)
    assert saved == [2, 4, 6, 7]


def test_patience_stops_and_a_stopped_run_stays_stopped(folder):
    schedule = Schedule(epochs=50, learning_rate=1e-9, milestones=(), decay=1.0, patience=2)
    result = trained(folder, schedule=schedule, checkpoint_every_seconds=1e9)
    best = chosen(result.history)["epoch"]
    assert len(result.history) == best + 2 < 50
    assert torch.load(folder.checkpoint_file, weights_only=True)["epoch"] == best + 2
    assert same(trained(folder, schedule=schedule), result)


@pytest.mark.parametrize(("factor", "said"), [(math.nan, "nan"), (math.inf, "inf"), (1e9, r"e\+0")])
def test_divergence_names_its_step_and_keeps_what_was_good(folder, factor, said):
    method = Plain()
    method.spoil = (3, 2, factor)
    with pytest.raises(Diverged, match=rf"loss is .*{said}.* in step 2 of epoch 3, at learning rate 0.01.*too high"):
        trained(folder, method)
    assert [each["epoch"] for each in folder.epochs()] == [1, 2]
    assert torch.load(folder.checkpoint_file, weights_only=True)["epoch"] == 2
    assert len(trained(folder).history) == 4  # and from there it goes on


def test_weights_lost_in_the_last_step_are_noticed(folder):
    method = Plain()
    step = method.step

    def lost(batch, clock):
        loss = step(batch, clock)
        if clock.epoch == 2 and method.steps == 3:
            method.network[0].weight.data.fill_(math.nan)
        return loss

    method.step = lost
    with pytest.raises(Diverged, match=r"judged\.w\.validation_loss is nan after step 3 of epoch 2"):
        trained(folder, method)
    assert len(folder.epochs()) == 1


def test_the_test_set_chooses_nothing(tmp_path):
    labels = torch.randint(2, (SIZE,), generator=torch.Generator().manual_seed(2))
    a = trained(RunFolder(tmp_path / "a"))
    b = trained(RunFolder(tmp_path / "b"), measured=sets(test_labels=labels))
    assert all(torch.equal(a.best[name], b.best[name]) for name in a.best)
    for one, other in zip(a.history, b.history, strict=True):
        assert one["validation_accuracy"] == other["validation_accuracy"]
    assert [each["test_accuracy"] for each in a.history] != [each["test_accuracy"] for each in b.history]


def test_no_epoch_at_all(folder):
    with pytest.raises(ValueError, match="epochs=0"):
        trained(folder, schedule=Schedule(epochs=0, learning_rate=0.1, milestones=(), decay=0.1))


def epochs_at(milestones, **options):
    """Each learning rate of a hundred epochs, with the number of epochs that have it."""
    schedule = Schedule(epochs=100, learning_rate=0.01, milestones=milestones, decay=0.1, **options)
    rates = [schedule.rate(epoch) for epoch in range(1, 101)]
    assert rates == sorted(rates, reverse=True)
    return [(pytest.approx(rate), count) for rate, count in Counter(rates).items()]


def test_the_authors_runs():
    assert epochs_at((40, 80)) == [(0.01, 39), (0.001, 40), (0.0001, 21)]
    assert epochs_at((10, 20)) == [(0.01, 9), (0.001, 10), (0.0001, 81)]


def test_the_conventional_reading():
    assert epochs_at((40, 80), decay_takes_effect="after") == [(0.01, 40), (0.001, 40), (0.0001, 20)]
    assert epochs_at((10, 20), decay_takes_effect="after") == [(0.01, 10), (0.001, 10), (0.0001, 80)]


def test_the_conventional_reading_is_that_of_torch():
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.01)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [40, 80], 0.1)
    schedule = Schedule(epochs=100, learning_rate=0.01, milestones=(40, 80), decay=0.1, decay_takes_effect="after")
    for epoch in range(1, 101):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(schedule.rate(epoch))
        optimizer.step()
        scheduler.step()


def test_without_milestones_nothing_changes():
    schedule = Schedule(epochs=9, learning_rate=0.3, milestones=(), decay=0.1)
    assert {schedule.rate(epoch) for epoch in range(1, 10)} == {0.3}


def test_every_group_of_every_optimizer_by_its_scale():
    a, b, c = (nn.Parameter(torch.zeros(1)) for _ in range(3))
    first = torch.optim.SGD([{"params": [a]}, {"params": [b], "lr_scale": 2.0}], lr=1.0)
    second = torch.optim.SGD([c], lr=1.0)
    set_learning_rate([first, second], 0.25)
    assert [group["lr"] for group in first.param_groups] == [0.25, 0.5]
    assert second.param_groups[0]["lr"] == 0.25


def test_a_tensor_is_filled_and_not_replaced():
    rate = torch.tensor(1.0)
    optimizer = torch.optim.SGD([{"params": [nn.Parameter(torch.zeros(1))], "lr_scale": 2.0}], lr=rate)
    held = optimizer.param_groups[0]["lr"]
    set_learning_rate([optimizer], 0.25)
    assert optimizer.param_groups[0]["lr"] is held
    assert held.item() == 0.5
