"""A callback for the Hugging Face Trainer with `Decomposition`: epochs start, and σ is judged and saved.

    model.to(arguments.device)  # the optimizer comes last, over weights that stay where they are
    optimizer = Decomposition(parameter_groups(model), torch.optim.AdamW, lr=5e-5, c2=0.6)
    callbacks = [DecompositionCallback()]
    trainer = Trainer(model, arguments, train_dataset=data, optimizers=(optimizer, None), callbacks=callbacks)

The Trainer itself asks optimizers that know both for w before every training step and for σ before an evaluation, but
for neither before it saves. With the callback the model holds σ from the end of an optimizer step to the next forward
pass, so that checkpoints, `save_model()` and the model after training are σ, evaluated or not. To resume
(`train(resume_from_checkpoint=...)`), w is restored from the optimizer's state in the checkpoint.

An epoch is what the Trainer calls one: a pass over the training data. Where `max_steps` makes that far too long, or the
data has no end, give the optimizer `steps_per_epoch` instead.
"""

from typing import Any

from tnlpad.core.decomposition import Decomposition

try:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ImportError as missing:
    raise ImportError("transformers is not installed: pip install 'tnlpad[integrations]'.") from missing


class DecompositionCallback(TrainerCallback):
    """Starts the optimizer's epochs, and lets the model hold σ between training steps."""

    def __init__(self) -> None:
        self._in_epoch = False  # whether training begins in the middle of an epoch, after a resume

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, *, optimizer: Any, **_: Any
    ) -> None:
        decomposition = _decomposition(optimizer)
        if state.global_step and not decomposition.steps:
            raise RuntimeError(
                f"Resumed at step {state.global_step} without the optimizer's state, and σ alone cannot go on as it "
                "was: save with save_only_model=False, or start anew from the saved model."
            )
        self._in_epoch = bool(state.epoch and state.epoch % 1)
        decomposition.eval()

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, *, optimizer: Any, **_: Any
    ) -> None:
        decomposition = _decomposition(optimizer)
        if decomposition.steps_per_epoch is None and not self._in_epoch:
            decomposition.start_epoch()
        self._in_epoch = False

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, *, optimizer: Any, **_: Any
    ) -> None:
        _decomposition(optimizer).eval()

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, *, optimizer: Any, **_: Any
    ) -> None:
        _decomposition(optimizer).eval()  # an epoch may be stopped between two batches of one step

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, *, optimizer: Any, **_: Any
    ) -> None:
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            # The model is now an earlier σ, and the optimizer is to know: evaluate() asks it for σ again.
            _decomposition(optimizer).adopt_weights()


def _decomposition(optimizer: Any) -> Decomposition:
    """The optimizer behind Accelerate's wrappers, which pass on nothing but what every optimizer has."""
    inner = optimizer
    while not isinstance(inner, Decomposition):
        inner = getattr(inner, "optimizer", None)
        if inner is None:
            raise RuntimeError(
                f"The Trainer's optimizer is {type(optimizer).__name__}, not a Decomposition: give it one by "
                "optimizers=(Decomposition(...), None), or leave out DecompositionCallback."
            )
    return inner
