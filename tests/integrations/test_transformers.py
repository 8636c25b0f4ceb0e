"""The callback under the real Hugging Face Trainer, with a tiny text classifier built without a download."""

import json
import sys
from copy import deepcopy
from importlib import import_module

import pytest
import torch
from safetensors.torch import load_file
from torch.utils.data import IterableDataset

from tnlpad import Decomposition, parameter_groups

pytest.importorskip("transformers", reason="transformers is not installed: pip install 'tnlpad[integrations]'")
pytest.importorskip("accelerate", reason="accelerate is not installed: pip install 'tnlpad[integrations]'")
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from tnlpad.integrations.transformers import DecompositionCallback

SAMPLES, BATCH = 24, 4
STEPS = SAMPLES // BATCH  # in an epoch
WEIGHT = "bert.encoder.layer.0.attention.self.query.weight"


def tiny_model():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
        num_labels=3,
    )
    return BertForSequenceClassification(config)


def texts():
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(30, (SAMPLES, 8), generator=generator)
    return [{"input_ids": row, "labels": int(row[0]) % 3} for row in tokens]


class Endless(IterableDataset):
    """Text without a known length."""

    def __iter__(self):
        return iter(texts())


def decomposition(model, **options):
    groups = parameter_groups(model, init="independent", generator=torch.Generator().manual_seed(2))
    return Decomposition(groups, torch.optim.AdamW, lr=1e-2, c1=1e-2, c2=1.0, **options)


class Watch(TrainerCallback):
    """Records the optimizer's epoch after every step, and whether the weights are σ, as seen by later callbacks."""

    def __init__(self):
        self.epochs, self.judged, self.between = [], [], []

    def on_step_begin(self, args, state, control, model, optimizer, **_):
        self.between.append(self.is_sigma(model, optimizer))

    def on_step_end(self, args, state, control, optimizer, **_):
        self.epochs.append(optimizer.optimizer.epoch)

    def on_prediction_step(self, args, state, control, model, optimizer, **_):
        self.judged.append(self.is_sigma(model, optimizer))

    @staticmethod
    def is_sigma(model, optimizer):
        return torch.equal(model.get_parameter(WEIGHT), optimizer.optimizer.sigma_state_dict(model)[WEIGHT])


def trainer(folder, optimizer=decomposition, data=None, watch=None, judge=False, **options):
    arguments = TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        per_device_train_batch_size=BATCH,
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        **{"num_train_epochs": 3, "save_strategy": "no", **options},
    )
    model = tiny_model()
    return Trainer(
        model,
        arguments,
        train_dataset=data or texts(),
        eval_dataset=texts(),
        optimizers=(optimizer(model), None),
        callbacks=[DecompositionCallback(judge=judge), *([watch] if watch else [])],
    )


def inner(run):
    return run.optimizer.optimizer


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=0, atol=0, msg=name)


def assert_is_sigma(weights, run):
    optimizer = inner(run)
    sigma = optimizer.sigma_state_dict(run.model)
    assert_same(weights, {name: sigma[name] for name in weights})
    optimizer.train()
    assert not torch.equal(weights[WEIGHT], run.model.get_parameter(WEIGHT))  # w differs, so the test can fail
    optimizer.eval()


@pytest.mark.parametrize(
    ("options", "epochs"),
    [
        ({"num_train_epochs": 2}, [1] * STEPS + [2] * STEPS),
        ({"num_train_epochs": 1.5}, [1] * STEPS + [2] * (STEPS // 2)),
        ({"max_steps": STEPS + 2}, [1] * STEPS + [2] * 2),
        ({"num_train_epochs": 2, "gradient_accumulation_steps": 4}, [1, 1, 2, 2]),  # 4 + 2 batches in an epoch
        ({"data": Endless(), "max_steps": STEPS + 2}, [1] * STEPS + [2] * 2),
        ({"optimizer": lambda m: decomposition(m, steps_per_epoch=4), "max_steps": 6}, [1] * 4 + [2] * 2),
    ],
    ids=["whole", "fractional", "max_steps", "accumulation", "endless", "steps_per_epoch"],
)
def test_epochs_start_where_the_trainer_starts_them(tmp_path, options, epochs):
    watch = Watch()
    trainer(tmp_path, watch=watch, **options).train()
    assert watch.epochs == epochs


@pytest.mark.parametrize("evaluated", [True, False])
def test_sigma_is_evaluated_and_saved(tmp_path, evaluated):
    watch = Watch()
    run = trainer(tmp_path, watch=watch, eval_strategy="epoch" if evaluated else "no", eval_on_start=evaluated)
    run.train()
    run.save_model(str(tmp_path / "saved"))
    assert_is_sigma(load_file(tmp_path / "saved" / "model.safetensors"), run)
    assert_is_sigma(deepcopy(run.model.state_dict()), run)
    assert bool(watch.judged) == evaluated
    assert watch.between == [True] * (3 * STEPS)  # from the first step on
    run.predict(texts())
    assert watch.judged
    assert all(watch.judged)


def saved_parts(checkpoint):
    return torch.load(checkpoint / "optimizer.pt", weights_only=True)


@pytest.mark.parametrize("evaluated", [True, False])
@pytest.mark.parametrize(
    ("step", "options"),
    [
        (STEPS, {"save_strategy": "epoch"}),
        (STEPS + 2, {"save_strategy": "steps", "save_steps": STEPS + 2}),
        (2, {"save_strategy": "steps", "save_steps": 2, "gradient_accumulation_steps": 2}),
    ],
    ids=["epoch's end", "middle", "accumulation"],
)
def test_a_checkpoint_resumes_to_the_same_numbers(tmp_path, evaluated, step, options):
    evaluation = {"eval_strategy": options["save_strategy"], "eval_steps": options.get("save_steps")}
    options = {**options, **(evaluation if evaluated else {})}
    full = trainer(tmp_path, **options)
    full.train()
    checkpoint = tmp_path / f"checkpoint-{step}"
    weights, state = load_file(checkpoint / "model.safetensors"), saved_parts(checkpoint)
    index = state["param_groups"][0]["param_names"].index(WEIGHT)
    assert torch.equal(weights[WEIGHT], state["state"][index]["sigma"])
    assert state["state"][index]["gamma"].abs().max() > 0

    resumed = trainer(tmp_path / "resumed", **options)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    assert_same(resumed.model.state_dict(), full.model.state_dict())
    assert inner(resumed).state_dict()["decomposition"] == inner(full).state_dict()["decomposition"]
    for index, parts in inner(full).state_dict()["state"].items():
        assert_same(inner(resumed).state_dict()["state"][index], parts)


def test_an_epoch_stopped_in_the_middle_of_a_step_ends_with_sigma(tmp_path):
    class Stops(TrainerCallback):
        def on_substep_end(self, args, state, control, **_):
            control.should_epoch_stop = state.global_step == 1

    options = {"num_train_epochs": 1, "gradient_accumulation_steps": 2, "save_strategy": "epoch"}
    run = trainer(tmp_path, watch=Stops(), **options)
    run.train()
    assert run.state.global_step == 1
    assert_is_sigma(load_file(tmp_path / "checkpoint-1" / "model.safetensors"), run)


@pytest.mark.parametrize(("loaded", "evaluated"), [(False, True), (True, False)])
def test_without_a_best_model_training_can_continue_from_w(tmp_path, loaded, evaluated):
    """Because it was not requested, or because training stopped before the first evaluation."""

    class Stops(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            control.should_training_stop = state.global_step == 4

    steps = 3 if evaluated else 60
    options = {"eval_strategy": "steps", "eval_steps": steps, "save_strategy": "steps", "save_steps": steps}
    options |= {"load_best_model_at_end": loaded, "metric_for_best_model": "loss", "max_steps": 6}
    run = trainer(tmp_path, watch=Stops(), **options)
    run.train()
    assert (run.state.best_model_checkpoint is not None) == evaluated
    assert_is_sigma(deepcopy(run.model.state_dict()), run)


def test_the_best_model_can_be_loaded_and_evaluated(tmp_path):
    best = {"load_best_model_at_end": True, "metric_for_best_model": "loss", "greater_is_better": True}
    run = trainer(tmp_path, eval_strategy="epoch", save_strategy="epoch", **best)  # the worst loss, so an early one
    run.train()
    checkpoint = run.state.best_model_checkpoint
    assert not checkpoint.endswith(f"-{3 * STEPS}")
    assert_same(run.model.state_dict(), load_file(f"{checkpoint}/model.safetensors"))
    assert run.evaluate()["eval_loss"] == pytest.approx(run.state.best_metric)
    assert_same(run.model.state_dict(), load_file(f"{checkpoint}/model.safetensors"))


def test_a_model_saved_alone_is_not_resumed_from(tmp_path):
    options = {"save_strategy": "epoch", "save_only_model": True}
    trainer(tmp_path, **options).train()
    with pytest.raises(RuntimeError, match=f"step {STEPS} without the optimizer's state"):
        trainer(tmp_path, **options).train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{STEPS}"))


def callback_of(run):
    return next(each for each in run.callback_handler.callbacks if isinstance(each, DecompositionCallback))


def test_judging_changes_no_other_number(tmp_path):
    plain = trainer(tmp_path)
    plain.train()
    judged = trainer(tmp_path, judge=True)
    judged.train()
    assert_same(plain.model.state_dict(), judged.model.state_dict())
    means = callback_of(judged)._judged
    assert (means.epochs, means.labels.tolist()) == (3, [sample["labels"] for sample in texts()])


def test_suspects_are_labels_that_are_learnt_late(tmp_path):
    generator = torch.Generator().manual_seed(4)
    tokens = torch.randint(30, (120, 8), generator=generator)
    clean = tokens[:, 0] % 3
    tokens[:, 1:4] = tokens[:, :1]  # a clear sign of the class
    wrong = torch.rand(120, generator=generator) < 0.2
    given = torch.where(wrong, (clean + 1) % 3, clean)
    data = [{"input_ids": row, "labels": int(label)} for row, label in zip(tokens, given, strict=True)]
    run = trainer(tmp_path, data=data, judge=True, num_train_epochs=4)
    run.train()
    found = callback_of(run).suspects
    rows = [each.index for each in found]
    assert wrong[rows].float().mean() > 0.8
    assert wrong[rows].sum() > 0.8 * wrong.sum()
    assert found[0].given_name == f"LABEL_{found[0].given}"
    assert max(each.confidence for each in found) < 0.5


def test_samples_that_cannot_be_judged_are_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="with a length and indices"):
        trainer(tmp_path, data=Endless(), judge=True, max_steps=1).train()
    several = [{**sample, "labels": torch.eye(3)[sample["labels"]]} for sample in texts()]  # labels that do not exclude
    with pytest.raises(RuntimeError, match=r"labels \(8, 3\) and torch.float32"):
        trainer(tmp_path, data=several, judge=True, max_steps=1).train()


def test_suspects_need_judging():
    with pytest.raises(RuntimeError, match="judge=True"):
        _ = DecompositionCallback().suspects


def test_another_optimizer_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="AcceleratedOptimizer, not a Decomposition"):
        trainer(tmp_path, optimizer=lambda model: torch.optim.AdamW(model.parameters())).train()


def test_the_saved_model_is_an_ordinary_one(tmp_path):
    run = trainer(tmp_path)
    run.train()
    run.save_model(str(tmp_path / "saved"))
    loaded = BertForSequenceClassification.from_pretrained(tmp_path / "saved")
    assert_same(loaded.state_dict(), run.model.state_dict())
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["hidden_size"] == 16


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "tnlpad.integrations.transformers")
    with pytest.raises(ImportError, match=r"pip install 'tnlpad\[integrations\]'"):
        import_module("tnlpad.integrations.transformers")
