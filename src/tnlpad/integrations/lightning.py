"""A Lightning callback that starts the epochs of `Decomposition`, and evaluates and saves σ.

    class Classifier(lightning.LightningModule):
        def configure_optimizers(self):
            return Decomposition(parameter_groups(self), torch.optim.SGD, lr=0.01, momentum=0.9, c2=0.6)

    Trainer(callbacks=[DecompositionCallback()]).fit(Classifier(), data)

The module holds w = σ + γ from the start to the end of a training batch, and σ at all other times: in validation, in
the hooks between batches, in every checkpoint (including `save_weights_only=True` and checkpoints saved on an
exception), and after training. So a checkpoint's `state_dict` is an ordinary model. `fit(ckpt_path=...)` restores w
from the optimizer's state and resumes bit for bit; as always, this needs a full checkpoint. List this callback before
those that read weights after a batch, such as `WeightAveraging`: the others see w.

Automatic and manual optimization, gradient accumulation, several optimizers and LR schedulers work as usual. An epoch
is Lightning's; for endless data, set `steps_per_epoch` of the optimizer instead. Lightning's `Tuner` runs without
callbacks: `lr_find` and `scale_batch_size` need `steps_per_epoch`, and an initial γ of 0, since they leave w behind.

With `DecompositionCallback(judge=True)`, `suspects` lists training labels that are probably wrong (`judging.py`).
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from torch import Tensor

from tnlpad.core.decomposition import Decomposition
from tnlpad.integrations.judging import TrainedLabels, in_order
from tnlpad.suspects.listing import Suspect

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.callbacks import StochasticWeightAveraging
except ImportError as missing:
    raise ImportError("Lightning is not installed: pip install 'tnlpad[integrations]'.") from missing


Predict = Callable[[LightningModule, Any], tuple[Tensor, Tensor]]


class DecompositionCallback(Callback):
    """Starts the epochs of every `Decomposition`, and makes the module hold σ outside of training batches.

    Args:
        judge: Predict all training samples after each epoch, for `suspects`. This takes about a third of the time of an
            epoch and changes no other number. True calls the module with the first item of a batch for logits, and
            takes the second as the labels; a function `(module, batch) -> (logits, labels)` does it in another way.
    """

    def __init__(self, *, judge: bool | Predict = False) -> None:
        self._epoch: int | None = None  # Lightning's number of the epoch that was started last
        self._predict: Predict | None = _first_two if judge is True else (judge or None)
        self._judged = TrainedLabels()

    @property
    def suspects(self) -> list[Suspect]:
        """Training labels that the network contradicts on average over the epochs, the most suspicious first.

        An index is the place in the training dataset. The network was trained on these labels, so only the order has a
        meaning: confidences stay below one half, and a network that memorises soon contradicts few wrong labels. A
        resumed training starts a new average. Needs `judge`.
        """
        if self._predict is None:
            raise RuntimeError("No sample was judged. Train with DecompositionCallback(judge=True).")
        return self._judged.suspects()

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not _decompositions(trainer):
            found = ", ".join(type(optimizer).__name__ for optimizer in trainer.optimizers) or "none"
            raise RuntimeError(
                f"No Decomposition among the optimizers of {type(pl_module).__name__} ({found}). Return one from "
                "configure_optimizers(), or remove DecompositionCallback."
            )
        averages = any(isinstance(callback, StochasticWeightAveraging) for callback in trainer.callbacks)
        if averages and StochasticWeightAveraging.pl_module_contains_batch_norm(pl_module):
            raise RuntimeError(
                "StochasticWeightAveraging replaces the weights of a module with BatchNorm before the end of training, "
                "which DecompositionCallback does not support. Use WeightAveraging, after it in the list of callbacks."
            )
        _hold_sigma(trainer)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._predict is not None:
            in_order(trainer.train_dataloader)  # raises before the first epoch rather than after it
            self._judged = TrainedLabels()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        # Not in on_train_epoch_start, which Lightning skips when it resumes from the last batch of an epoch.
        new = trainer.current_epoch != self._epoch
        self._epoch = trainer.current_epoch
        for optimizer in _decompositions(trainer):
            if optimizer.steps_per_epoch is None and (new or optimizer.epoch == 0):
                optimizer.start_epoch()
            optimizer.train()

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        _hold_sigma(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        _hold_sigma(trainer)  # a batch that a hook skipped has a start but no end
        if self._predict is not None:
            self._judge(trainer, pl_module, self._predict)

    def _judge(self, trainer: Trainer, module: LightningModule, predict: Predict) -> None:
        def of_batch(batch: Any) -> tuple[Tensor, Tensor]:
            batch = trainer.strategy.batch_to_device(trainer.precision_plugin.convert_input(batch))
            with trainer.precision_plugin.forward_context():
                return predict(module, batch)

        self._judged.add_epoch(module, in_order(trainer.train_dataloader), of_batch)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        with suppress(RuntimeError):  # such as weights changed from outside: the first error is the one to show
            _hold_sigma(trainer)

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self._epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._epoch = state_dict["epoch"]


def _first_two(module: LightningModule, batch: Any) -> tuple[Tensor, Tensor]:
    try:
        samples, labels = batch[0], batch[1]
    except (KeyError, IndexError, TypeError) as error:
        raise RuntimeError(
            f"judge=True needs batches of samples and labels, not a {type(batch).__name__}. Give a function instead: "
            "judge=lambda module, batch: (logits, labels)."
        ) from error
    return module(samples), labels


def _decompositions(trainer: Trainer) -> list[Decomposition]:
    return [optimizer for optimizer in trainer.optimizers if isinstance(optimizer, Decomposition)]


def _hold_sigma(trainer: Trainer) -> None:
    for optimizer in _decompositions(trainer):
        optimizer.eval()
