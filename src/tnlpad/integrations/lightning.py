"""A Lightning callback for `Decomposition`: epochs start, σ is judged, and σ is what checkpoints hold.

    class Classifier(lightning.LightningModule):
        def configure_optimizers(self):
            return Decomposition(parameter_groups(self), torch.optim.SGD, lr=0.01, momentum=0.9, c2=0.6)

    Trainer(callbacks=[DecompositionCallback()]).fit(Classifier(), data)

The module holds w = σ + γ from the start of a training batch to its end, and σ at every other time: in validation, in
the hooks between batches, in every checkpoint (`save_weights_only=True` and the one saved on an exception included) and
when training is over. A checkpoint's `state_dict` is therefore an ordinary model to load anywhere; w is restored from
the optimizer's state, so that `fit(ckpt_path=...)` goes on bit for bit. Only full checkpoints can do that, as ever.

Automatic and manual optimization, gradient accumulation, several optimizers and LR schedulers work as without it. An
epoch is what Lightning calls one; for data without an end give the optimizer `steps_per_epoch` instead.
"""

from contextlib import suppress
from typing import Any

from tnlpad.core.decomposition import Decomposition

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as missing:
    raise ImportError("Lightning is not installed: pip install 'tnlpad[integrations]'.") from missing


class DecompositionCallback(Callback):
    """Starts the epochs of every `Decomposition` of a run, and lets the module hold σ outside of training batches."""

    def __init__(self) -> None:
        self._epoch: int | None = None  # Lightning's number of the epoch that was started last

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not _decompositions(trainer):
            found = ", ".join(type(optimizer).__name__ for optimizer in trainer.optimizers) or "none"
            raise RuntimeError(
                f"No Decomposition among the optimizers of {type(pl_module).__name__} ({found}): return one from "
                "configure_optimizers(), or leave out DecompositionCallback."
            )
        _hold_sigma(trainer)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        # Not in on_train_epoch_start: resumed from a checkpoint of an epoch's last batch, Lightning leaves that out.
        new = trainer.current_epoch != self._epoch
        self._epoch = trainer.current_epoch
        for optimizer in _decompositions(trainer):
            if optimizer.steps_per_epoch is None and (new or optimizer.epoch == 0):
                optimizer.start_epoch()
            optimizer.train()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        _hold_sigma(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        _hold_sigma(trainer)  # a batch that its hook refused has a start and no end

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        with suppress(RuntimeError):  # weights changed from outside, say: the error to show is the one that came first
            _hold_sigma(trainer)

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self._epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._epoch = state_dict["epoch"]


def _decompositions(trainer: Trainer) -> list[Decomposition]:
    return [optimizer for optimizer in trainer.optimizers if isinstance(optimizer, Decomposition)]


def _hold_sigma(trainer: Trainer) -> None:
    for optimizer in _decompositions(trainer):
        optimizer.eval()
