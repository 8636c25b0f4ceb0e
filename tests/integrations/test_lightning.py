"""The callback under the real Lightning, compared with a loop written by hand."""

import logging
import sys
import warnings
from copy import deepcopy
from functools import partial
from importlib import import_module

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from tnlpad import Decomposition, parameter_groups

lightning = pytest.importorskip("lightning", reason="Lightning is not installed: pip install 'tnlpad[integrations]'")
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402

from tnlpad.integrations.lightning import DecompositionCallback  # noqa: E402

BATCHES = 4
EPOCHS = 3


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


def batches():
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(8, 5, generator=generator), torch.randint(3, (8,), generator=generator)) for _ in range(BATCHES)
    ]


def loader():
    return DataLoader(batches(), batch_size=None)


def decomposition(model, **options):
    groups = parameter_groups(model, init="independent", generator=torch.Generator().manual_seed(2))
    return Decomposition(groups, torch.optim.SGD, lr=0.1, momentum=0.9, c1=1e-2, c2=1.0, **options)


class Resumable:
    """Batches in order that resume in the middle of an epoch."""

    def __init__(self):
        self.batches, self.position = batches(), 0

    def __len__(self):
        return BATCHES

    def __iter__(self):
        start, self.position = self.position % BATCHES, self.position % BATCHES
        for batch in self.batches[start:]:
            self.position += 1
            yield batch

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class Classifier(lightning.LightningModule):
    def __init__(self, optimizer=decomposition, manual=False):
        super().__init__()
        self.network, self.build = network(), optimizer
        self.automatic_optimization = not manual
        self.seen = []

    def configure_optimizers(self):
        optimizer = self.build(self.network)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        return {"optimizer": optimizer, "lr_scheduler": schedule}

    def training_step(self, batch, index):
        loss = F.cross_entropy(self.network(batch[0]), batch[1])
        if not self.automatic_optimization:
            self.optimizers().zero_grad()
            self.manual_backward(loss)
            self.optimizers().step()
            if self.trainer.is_last_batch:
                self.lr_schedulers().step()
        return loss

    def look(self):
        self.seen.append(self.network[0].weight.detach().clone())

    def validation_step(self, batch, index):
        self.look()

    def test_step(self, batch, index):
        self.look()

    def predict_step(self, batch, index):
        return self.network(batch[0])


def trainer(folder, *callbacks, epochs=EPOCHS, judge=False, **options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    options = {"num_sanity_val_steps": 0, "enable_checkpointing": bool(callbacks), **quiet, **options}
    return lightning.Trainer(
        default_root_dir=folder,
        max_epochs=epochs,
        callbacks=[*callbacks, DecompositionCallback(judge=judge)],
        **options,
    )


def by_hand(accumulate=1):
    """Train without Lightning; return σ as a state dict, and the optimizer."""
    model = network()
    optimizer = decomposition(model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for _ in range(EPOCHS):
        optimizer.start_epoch()
        for index, (samples, labels) in enumerate(batches(), 1):
            (F.cross_entropy(model(samples), labels) / accumulate).backward()
            if index % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        schedule.step()
    return optimizer.sigma_state_dict(model), optimizer


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=0, atol=0, msg=name)


@pytest.mark.parametrize(("manual", "accumulate"), [(False, 1), (False, 2), (True, 1)])
def test_it_trains_as_a_loop_by_hand_does_and_leaves_sigma(tmp_path, manual, accumulate):
    module = Classifier(manual=manual)
    trainer(tmp_path, accumulate_grad_batches=accumulate).fit(module, loader(), loader())
    expected, optimizer = by_hand(accumulate)
    assert_same(module.network.state_dict(), expected)
    assert optimizer.epoch == EPOCHS
    assert optimizer.norms()["gamma"] > 0.01  # otherwise σ and w would hardly differ


def test_validation_test_and_prediction_see_sigma(tmp_path):
    class Watch(lightning.Callback):
        def on_validation_start(self, trainer, module):
            self.sigma = trainer.optimizers[0].sigma_state_dict(module)["network.0.weight"]

        def on_validation_end(self, trainer, module):
            assert len(module.seen) > 0
            assert all(torch.equal(weight, self.sigma) for weight in module.seen)
            module.seen.clear()

    module, watch = Classifier(), Watch()
    # Before the first step (the sanity check), in the middle of an epoch and at its end.
    run = trainer(tmp_path, watch, num_sanity_val_steps=1, val_check_interval=2, enable_checkpointing=False)
    run.fit(module, loader(), loader())
    sigma = by_hand()[0]
    run.test(module, loader(), verbose=False)
    assert all(torch.equal(weight, sigma["0.weight"]) for weight in module.seen)
    judge = network()
    judge.load_state_dict(sigma)
    predicted = run.predict(module, loader())
    torch.testing.assert_close(predicted[0], judge.eval()(batches()[0][0]))


def epochs_end(path):
    return ModelCheckpoint(path, filename="end-{epoch}", save_top_k=-1)


def every_steps(path, steps):
    return ModelCheckpoint(path, filename="step-{step}", save_top_k=-1, every_n_train_steps=steps)


@pytest.mark.parametrize(
    ("saving", "saved", "validated"),
    [
        (epochs_end, "end-epoch=0.ckpt", True),
        (epochs_end, "end-epoch=1.ckpt", False),
        (partial(every_steps, steps=3), "step-step=6.ckpt", True),  # in the middle of the second epoch
        (partial(every_steps, steps=3), "step-step=3.ckpt", False),
        (partial(every_steps, steps=4), "step-step=4.ckpt", True),  # after the last batch of the first epoch
        (partial(every_steps, steps=4), "step-step=8.ckpt", False),
    ],
)
@pytest.mark.parametrize("manual", [False, True])
def test_a_checkpoint_holds_sigma_and_resumes_bit_for_bit(tmp_path, saving, saved, validated, manual):
    validation = loader() if validated else None
    full = Classifier(manual=manual)
    run = trainer(tmp_path, saving(tmp_path))
    run.fit(full, Resumable(), validation)
    wanted = run.optimizers[0].state_dict()

    checkpoint = torch.load(tmp_path / saved, weights_only=False)
    state = checkpoint["optimizer_states"][0]["state"]
    assert torch.equal(checkpoint["state_dict"]["network.0.weight"], state[0]["sigma"])
    assert not torch.equal(state[0]["gamma"], torch.zeros(6, 5))

    resumed = Classifier(manual=manual)
    again = trainer(tmp_path / "again")
    again.fit(resumed, Resumable(), validation, ckpt_path=tmp_path / saved)
    assert_same(resumed.network.state_dict(), full.network.state_dict())
    assert again.optimizers[0].state_dict()["decomposition"] == wanted["decomposition"]
    for index, parts in wanted["state"].items():
        assert_same(again.optimizers[0].state_dict()["state"][index], parts)


def test_weights_alone_are_sigma_too(tmp_path):
    saving = ModelCheckpoint(tmp_path, filename="{step}", save_weights_only=True, every_n_train_steps=3, save_top_k=-1)
    full = trainer(tmp_path, saving, epochs_end(tmp_path))
    module = Classifier()
    full.fit(module, loader())
    assert_same(torch.load(tmp_path / "step=12.ckpt")["state_dict"], module.state_dict())
    assert_same(module.network.state_dict(), by_hand()[0])


def test_a_checkpoint_saved_on_an_exception_is_sigma(tmp_path):
    class Fails(Classifier):
        def training_step(self, batch, index):
            if self.trainer.global_step == 6:
                self.at_failure = deepcopy(self.network.state_dict())
                raise KeyError("a sample is missing")
            return super().training_step(batch, index)

    module = Fails()
    saving = ModelCheckpoint(tmp_path, save_on_exception=True, every_n_epochs=100)
    with pytest.raises(KeyError, match="a sample is missing"):
        trainer(tmp_path, saving).fit(module, loader())
    [path] = tmp_path.glob("*.ckpt")
    checkpoint = torch.load(path, weights_only=False)
    sigma = checkpoint["optimizer_states"][0]["state"][0]["sigma"]
    assert torch.equal(checkpoint["state_dict"]["network.0.weight"], sigma)
    assert not torch.equal(module.at_failure["0.weight"], sigma)


def test_the_first_error_is_shown(tmp_path):
    class Meddles(Classifier):
        def training_step(self, batch, index):
            with torch.no_grad():
                self.network[0].weight.add_(1)
            return super().training_step(batch, index)

    with pytest.raises(RuntimeError, match=r"0\.weight .*changed") as caught:
        trainer(tmp_path).fit(Meddles(), loader())
    assert caught.value.__context__ is None


def test_a_skipped_batch_ends_the_epoch_with_sigma(tmp_path):
    """If the module's hook returns -1, Lightning skips the rest of the epoch, without the end hook of that batch."""

    class Refuses(Classifier):
        def on_train_batch_start(self, batch, index):
            return -1 if index == 2 else None

    module = Refuses()
    run = trainer(tmp_path, epochs_end(tmp_path), epochs=1)
    run.fit(module, loader())
    assert run.global_step == 2
    sigma = run.optimizers[0].sigma_state_dict(module)
    assert_same(torch.load(tmp_path / "end-epoch=0.ckpt", weights_only=False)["state_dict"], sigma)
    assert_same(module.state_dict(), sigma)


def test_several_optimizers_each_start_their_epochs_and_hold_sigma(tmp_path):
    """Two decompositions, one of which counts its own steps, and an ordinary optimizer between them."""

    class Several(Classifier):
        def __init__(self):
            super().__init__(manual=True)
            self.other, self.plain = network(), network()

        def configure_optimizers(self):
            plain = torch.optim.SGD(self.plain.parameters(), lr=0.1)
            return [decomposition(self.network), plain, decomposition(self.other, steps_per_epoch=2)]

        def training_step(self, batch, index):
            for part, optimizer in zip((self.network, self.plain, self.other), self.optimizers(), strict=True):
                self.manual_backward(F.cross_entropy(part(batch[0]), batch[1]))
                optimizer.step()
                optimizer.zero_grad()

        def validation_step(self, batch, index):
            for part, optimizer in ((self.network, 0), (self.other, 2)):
                sigma = self.trainer.optimizers[optimizer].sigma_state_dict(part)["0.weight"]
                self.seen.append(torch.equal(part[0].weight, sigma))

    module = Several()
    run = trainer(tmp_path)
    run.fit(module, loader(), loader())
    assert module.seen == [True] * (2 * BATCHES * EPOCHS)
    assert [run.optimizers[number].epoch for number in (0, 2)] == [EPOCHS, EPOCHS * BATCHES // 2]
    assert all(run.optimizers[number].norms()["gamma"] > 0.01 for number in (0, 2))


def test_averages_of_weights_are_of_sigma(tmp_path):
    callbacks = import_module("lightning.pytorch.callbacks")
    if not hasattr(callbacks, "WeightAveraging"):
        pytest.skip("this Lightning has no WeightAveraging")

    class Watch(lightning.Callback):
        def on_train_batch_end(self, trainer, module, *_):
            sigmas.append(module.optimizers().state[module.network[0].weight]["sigma"].clone())

    sigmas, module = [], Classifier()
    running = trainer(tmp_path)
    running.callbacks += [Watch(), callbacks.WeightAveraging()]
    running.fit(module, loader())
    torch.testing.assert_close(module.network[0].weight, torch.stack(sigmas).mean(0))


def test_an_average_that_replaces_weights_is_refused_before_training(tmp_path):
    from lightning.pytorch.callbacks import StochasticWeightAveraging

    def average(module):
        callback = StochasticWeightAveraging(swa_lrs=0.1, swa_epoch_start=1)
        trainer(tmp_path, callback, enable_checkpointing=False).fit(module, loader())
        return module

    module = Classifier()
    with pytest.raises(RuntimeError, match=r"StochasticWeightAveraging .* Use WeightAveraging, after"):
        average(module)
    assert_same(module.network.state_dict(), network().state_dict())
    module.network[1] = nn.Identity()
    assert not torch.equal(average(module).network[0].weight, network()[0].weight)


def test_mixed_precision_on_the_cpu(tmp_path):
    module = Classifier()
    trainer(tmp_path, precision="bf16-mixed").fit(module, loader())
    expected, _ = by_hand()
    assert module.network[0].weight.dtype == torch.float32
    assert not torch.equal(module.network[0].weight, expected["0.weight"])
    torch.testing.assert_close(module.network[0].weight.detach(), expected["0.weight"], rtol=0.1, atol=0.05)


def test_an_optimizer_that_counts_steps_starts_its_own_epochs(tmp_path):
    module = Classifier(optimizer=partial(decomposition, steps_per_epoch=3))
    run = trainer(tmp_path)
    run.fit(module, loader())
    assert run.optimizers[0].epoch == EPOCHS * BATCHES // 3


def test_one_callback_serves_a_second_run(tmp_path):
    first, second = Classifier(), Classifier()
    run = trainer(tmp_path, epochs=1)
    callback = next(c for c in run.callbacks if isinstance(c, DecompositionCallback))
    run.fit(first, loader())
    again = trainer(tmp_path, epochs=1)
    again.callbacks = [callback]
    again.fit(second, loader())
    assert_same(first.network.state_dict(), second.network.state_dict())
    assert again.optimizers[0].epoch == 1


class WithoutOptimizers(Classifier):
    def configure_optimizers(self):
        return []


def callback_of(run):
    return next(each for each in run.callbacks if isinstance(each, DecompositionCallback))


def with_network(module, batch):
    return module.network(batch[0]), batch[1]


def test_judging_changes_no_other_number(tmp_path):
    plain, judged = Classifier(), Classifier()
    for module, judge in ((plain, False), (judged, with_network)):
        torch.manual_seed(3)
        shuffled = DataLoader(batches(), batch_size=None, shuffle=True)
        run = trainer(tmp_path, judge=judge)
        run.fit(module, shuffled)
    assert_same(plain.state_dict(), judged.state_dict())
    means = callback_of(run)._judged
    assert means.epochs == EPOCHS
    assert torch.equal(means.labels, torch.cat([labels for _, labels in batches()]))


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))

    def configure_optimizers(self):
        return Decomposition(parameter_groups(self), torch.optim.SGD, lr=0.05, momentum=0.9, c1=1e-4, c2=0.3)

    def training_step(self, batch, index):
        return F.cross_entropy(self(batch[0]), batch[1])

    def forward(self, samples):
        return self.network(samples)


def test_suspects_are_labels_that_are_learnt_late(tmp_path):
    """The order is as good as that of out-of-fold predictions here; on harder data it is worse (docs/suspects.md)."""
    pixels, clean = load_digits(return_X_y=True)
    random = np.random.default_rng(0)
    wrong = random.random(len(clean)) < 0.2
    given = np.where(wrong, (clean + random.integers(1, 10, len(clean))) % 10, clean)
    data = TensorDataset(torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(given))
    run = trainer(tmp_path, epochs=4, judge=True)
    run.fit(Digits(), DataLoader(data, 64, shuffle=True))
    found = callback_of(run).suspects
    rows = [each.index for each in found]
    assert np.mean(wrong[rows]) > 0.85
    assert wrong[rows].sum() > 0.9 * wrong.sum()
    assert [each.rank for each in found] == list(range(1, len(found) + 1))
    assert all(each.given == given[each.index] for each in found)
    assert np.mean([each.suggested == clean[each.index] for each in found if wrong[each.index]]) > 0.9
    assert max(each.confidence for each in found) < 0.5
    assert "of 4 epochs" in found[0].why


def test_suspects_need_judged_epochs(tmp_path):
    with pytest.raises(RuntimeError, match="judge=True"):
        _ = DecompositionCallback().suspects
    with pytest.raises(RuntimeError, match="end of each epoch"):
        _ = DecompositionCallback(judge=True).suspects


class Stream(IterableDataset):
    def __iter__(self):
        return iter(batches())


@pytest.mark.parametrize(
    ("data", "judge", "said"),
    [
        (lambda: DataLoader(Stream(), batch_size=None), with_network, "with a length and indices"),
        (lambda: {"a": loader()}, with_network, "not those of a dict"),
        (loader, lambda module, batch: (batch[1].float(), batch[1]), r"shape \(8,\)"),
        (loader, lambda module, batch: (module.network(batch[0]), batch[1].float()), "torch.float32"),
        (loader, lambda module, batch: (module.network(batch[0]), batch[1] + 2), "Labels range from 2 to 4.* 3 logits"),
        (lambda: DataLoader([{"x": 1}], batch_size=None), True, "not a dict"),
    ],
)
def test_samples_that_cannot_be_judged_are_an_error(tmp_path, data, judge, said):
    class Any(Classifier):
        def training_step(self, batch, index):
            return super().training_step(batch, index) if isinstance(batch, list) else None

    with pytest.raises(RuntimeError, match=said):
        trainer(tmp_path, epochs=1, judge=judge).fit(Any(), data())


def test_a_missing_decomposition_is_an_error(tmp_path):
    plain = Classifier(optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(RuntimeError, match=r"Classifier \(SGD\)"):
        trainer(tmp_path).fit(plain, loader())
    with pytest.raises(RuntimeError, match=r"WithoutOptimizers \(none\)"):
        trainer(tmp_path).fit(WithoutOptimizers(), loader())


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.delitem(sys.modules, "tnlpad.integrations.lightning")
    with pytest.raises(ImportError, match=r"pip install 'tnlpad\[integrations\]'"):
        import_module("tnlpad.integrations.lightning")
