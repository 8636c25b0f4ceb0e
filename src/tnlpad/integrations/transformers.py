"""A callback for the Hugging Face Trainer that starts the epochs of `Decomposition`, and evaluates and saves σ.

    model.to(arguments.device)  # before the optimizer is built, because moving the weights afterwards breaks it
    optimizer = Decomposition(parameter_groups(model), torch.optim.AdamW, lr=5e-5, c2=0.6)
    callbacks = [DecompositionCallback()]
    trainer = Trainer(model, arguments, train_dataset=data, optimizers=(optimizer, None), callbacks=callbacks)

The Trainer calls the optimizer's `train()` before every training step and `eval()` before an evaluation, but not before
it saves. With the callback, the model holds σ from the end of an optimizer step to the next forward pass. So
checkpoints, `save_model()` and the model after training are σ, with or without evaluation. When training resumes
(`train(resume_from_checkpoint=...)`), w is restored from the optimizer's state in the checkpoint.

An epoch is the Trainer's: one pass over the training data. If `max_steps` makes that far too long, or the data is
endless, set `steps_per_epoch` of the optimizer instead.

With `DecompositionCallback(judge=True)`, `suspects` lists training labels that are probably wrong (`judging.py`).
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from tnlpad.core.decomposition import Decomposition
from tnlpad.integrations.judging import TrainedLabels, in_order
from tnlpad.suspects.listing import Suspect

try:
    from transformers import TrainerCallback
except ImportError as missing:
    raise ImportError("transformers is not installed: pip install 'tnlpad[integrations]'.") from missing


class DecompositionCallback(TrainerCallback):
    """Starts the optimizer's epochs, and makes the model hold σ between training steps.

    Args:
        judge: Predict all training samples after each epoch, for `suspects`. The model must return one logit per class.
            This takes about a third of the time of an epoch and changes no other number.
    """

    def __init__(self, *, judge: bool = False) -> None:
        self._mid_epoch = False  # training resumed in the middle of an epoch
        self._judge = judge
        self._judged, self._class_names = TrainedLabels(), tuple[str, ...]()

    @property
    def suspects(self) -> list[Suspect]:
        """Training labels that the model contradicts on average over the epochs, the most suspicious first.

        An index is the place in the training dataset. The model was trained on these labels, so only the order has a
        meaning: confidences stay below one half, and a model that memorises soon contradicts few wrong labels. A
        resumed training starts a new average. Needs `judge`.
        """
        if not self._judge:
            raise RuntimeError("No sample was judged. Train with DecompositionCallback(judge=True).")
        return self._judged.suspects(self._class_names)

    def on_train_begin(self, args: Any, state: Any, control: Any, *, optimizer: Any, **found: Any) -> None:
        if self._judge:
            in_order(found["train_dataloader"])  # raises before the first epoch rather than after it
            self._judged = TrainedLabels()
        decomposition = _decomposition(optimizer)
        if state.global_step and not decomposition.steps:
            raise RuntimeError(
                f"Resumed at step {state.global_step} without the optimizer's state, which σ alone cannot replace. "
                "Save with save_only_model=False, or start a new training from the saved model."
            )
        self._mid_epoch = bool(state.epoch and state.epoch % 1)
        decomposition.eval()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, *, optimizer: Any, **_: Any) -> None:
        decomposition = _decomposition(optimizer)
        if decomposition.steps_per_epoch is None and not self._mid_epoch:
            decomposition.start_epoch()
        self._mid_epoch = False

    def on_step_end(self, args: Any, state: Any, control: Any, *, optimizer: Any, **_: Any) -> None:
        _decomposition(optimizer).eval()

    def on_epoch_end(
        self, args: Any, state: Any, control: Any, *, optimizer: Any, model: Any, train_dataloader: Any, **_: Any
    ) -> None:
        _decomposition(optimizer).eval()  # an epoch may be stopped between two batches of one step
        if not self._judge:
            return

        def predict(batch: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
            inputs = {name: value.to(args.device) for name, value in batch.items() if isinstance(value, Tensor)}
            if "labels" not in inputs:
                raise RuntimeError(
                    f"judge=True needs labels in a batch, which has {', '.join(batch)}. Leave judge out."
                )
            return model(**inputs)["logits"], inputs["labels"]

        self._judged.add_epoch(model, in_order(train_dataloader, args.eval_batch_size), predict)
        names = getattr(getattr(model, "config", None), "id2label", None) or {}
        self._class_names = tuple(str(names[label]) for label in sorted(names))

    def on_train_end(self, args: Any, state: Any, control: Any, *, optimizer: Any, **_: Any) -> None:
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            # The Trainer has loaded the σ of an earlier epoch, which the optimizer must use from now on.
            _decomposition(optimizer).adopt_weights()


def _decomposition(optimizer: Any) -> Decomposition:
    """Return the optimizer inside Accelerate's wrappers, which do not expose its own methods."""
    inner = optimizer
    while not isinstance(inner, Decomposition):
        inner = getattr(inner, "optimizer", None)
        if inner is None:
            raise RuntimeError(
                f"The Trainer's optimizer is {type(optimizer).__name__}, not a Decomposition. Pass "
                "optimizers=(Decomposition(...), None), or remove DecompositionCallback."
            )
    return inner
