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
"""

from typing import Any

from tnlpad.core.decomposition import Decomposition

try:
    from transformers import TrainerCallback
except ImportError as missing:
    raise ImportError("transformers is not installed: pip install 'tnlpad[integrations]'.") from missing


class DecompositionCallback(TrainerCallback):
    """Starts the optimizer's epochs, and makes the model hold σ between training steps."""

    def __init__(self) -> None:
        self._mid_epoch = False  # training resumed in the middle of an epoch

    def on_train_begin(self, args: Any, state: Any, control: Any, *, optimizer: Any, **_: Any) -> None:
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

    on_epoch_end = on_step_end  # an epoch may be stopped between two batches of one step

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
