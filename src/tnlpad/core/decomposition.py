"""The optimizer that keeps every weight as w = σ + γ and evaluates the network with σ alone.

Paper: "Tackling Noisy Labels with Network Parameter Additive Decomposition". Training minimises

    L(σ + γ) + β1(t)·‖σ − σ_previous epoch‖ + β2(t)·‖γ‖

with norms over all decomposed weights together. Because ∂L/∂σ = ∂L/∂γ = ∂L/∂w =: g and both penalties have closed-form
gradients, one ordinary forward and backward on w is enough. With d = σ − anchor (the anchor is σ at the start of the
epoch) each step feeds the base optimizer

    g + β1·d/‖d‖   for σ,        g + β2·γ/‖γ‖   for γ,        and then writes   w = σ + γ,

where the gradient of a norm at 0 is 0. σ and γ have their own state (momentum, Adam moments) in the base optimizer,
and weight decay acts on each of them.

How we differ: the authors' code runs every layer twice and needs a hand-doubled network; here the network is any
`nn.Module`. "proximal" replaces the subgradient step on γ by the group soft-threshold, which holds γ at exactly 0 until
the averaged gradient exceeds β2.

`update` has the update over any base optimizer, `fused_sgd` the same as one CUDA kernel, and `parts` the tensors and
checks of a parameter group.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from tnlpad.core.parts import (
    Parts,
    base_options,
    check_capturable,
    check_group,
    check_proximal,
    check_sharded,
    check_trainable,
    copy_group,
    gamma_lr,
    match_names,
    placeholder,
    sync_options,
)
from tnlpad.core.penalties import LinearGrowth, Penalty, PowerDecay, choose_penalty, strength
from tnlpad.core.saving import (
    allocate_state,
    check_state,
    keep_tensors,
    load_options,
    shard_state,
    state_names,
    unrounded,
)
from tnlpad.core.sharded import gather, is_sharded, piece, reshard, shard
from tnlpad.core.update import Rule, part_norms, step_parts

Norm = Literal["global", "tensor"]
GammaUpdate = Literal["subgradient", "proximal"]

SIGMA_PENALTY = LinearGrowth(1e-4)
GAMMA_PENALTY = PowerDecay(0.6)


class Decomposition(Optimizer):
    """A `torch.optim.Optimizer` that trains w = σ + γ over any base optimizer class.

    >>> from tnlpad import parameter_groups
    >>> model = torch.nn.Linear(4, 3)
    >>> optimizer = Decomposition(parameter_groups(model), torch.optim.SGD, lr=0.1, momentum=0.9, c1=1e-4, c2=0.6)
    >>> for epoch in range(2):
    ...     optimizer.start_epoch()
    ...     for _ in range(5):
    ...         model(torch.ones(2, 4)).square().mean().backward()
    ...         _ = optimizer.step()
    ...         optimizer.zero_grad()
    >>> with optimizer.sigma_weights():
    ...     prediction = model(torch.ones(2, 4))

    Args:
        params: Groups from `parameter_groups`, or parameters as for any optimizer (all of them decomposed, γ = 0).
            A group with `decompose=False` is left to the base optimizer. A decomposed group may contain its initial
            parts as lists `sigma` and `gamma`; the weights then become their sum.
        base: The optimizer class, such as `torch.optim.SGD` or `torch.optim.AdamW`.
        c1, c2: Shorthand for `sigma_penalty=LinearGrowth(c1)` and `gamma_penalty=PowerDecay(c2)`.
        sigma_penalty, gamma_penalty: β1 and β2, callables from the 1-based epoch to a number >= 0, or None for none.
        norm: "global" is one norm over all decomposed weights (the paper); "tensor" is one norm for each.
        gamma_update: "subgradient" (the paper) or "proximal" (SGD only).
        gamma_lr_scale: γ's learning rate as a multiple of σ's; also an option of each group.
        steps_per_epoch: Start an epoch after this many steps, for loops that count steps. Without it, call
            `start_epoch()` before the first step of every epoch.
        working_dtype: Keep the model's decomposed weights, except biases, in this dtype, such as `torch.bfloat16`.
            σ and γ stay in single precision. Under autocast with this dtype the weights have the same values, and a
            step on a GPU is faster: no weight or gradient is cast. `sigma_state_dict` is not rounded: save that.
        **options: Options of the base optimizer (`lr`, `momentum`, `weight_decay`, ...). To capture `step()` in a
            CUDA graph, pass `lr` as a tensor on the device, and for SGD `fused=True`.
    """

    def __init__(
        self,
        params: Iterable[Any],
        base: type[Optimizer],
        *,
        c1: float | None = None,
        c2: float | None = None,
        sigma_penalty: Penalty | None = SIGMA_PENALTY,
        gamma_penalty: Penalty | None = GAMMA_PENALTY,
        norm: Norm = "global",
        gamma_update: GammaUpdate = "subgradient",
        gamma_lr_scale: float = 1.0,
        steps_per_epoch: int | None = None,
        working_dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        if isinstance(params, (Tensor, nn.Module, dict)):
            kind = "single tensor" if isinstance(params, Tensor) else type(params).__name__
            raise TypeError(f"params is a {kind}: pass a list of parameters, or groups from parameter_groups(model).")
        self.sigma_penalty = choose_penalty("c1", c1, "sigma_penalty", sigma_penalty, SIGMA_PENALTY, LinearGrowth)
        self.gamma_penalty = choose_penalty("c2", c2, "gamma_penalty", gamma_penalty, GAMMA_PENALTY, PowerDecay)
        _check_arguments(base, norm, gamma_update, steps_per_epoch, working_dtype, options)
        self.working_dtype = working_dtype
        self.norm, self.gamma_update, self.steps_per_epoch = norm, gamma_update, steps_per_epoch
        self._rule = Rule(
            pull_sigma=self.sigma_penalty is not None,
            pull_gamma=self.gamma_penalty is not None and gamma_update == "subgradient",
            shrink_gamma=self.gamma_penalty is not None and gamma_update == "proximal",
            per_tensor_norms=norm == "tensor",
        )
        self.epoch = 0  # the paper's t, 1-based; 0 means that no epoch has started
        self.steps = 0  # calls of step(); replays of a captured one are not counted
        self._parts: list[Parts] = []
        self._synced: list[dict[str, Any]] = []  # for each of our groups, the options last copied to the base
        self._gamma_share = 1.0  # the weights hold σ + share·γ
        self._awaits_state = False  # between prepare_to_load() and load_state_dict()
        self._building = True
        groups = [copy_group(group) if isinstance(group, dict) else group for group in params]
        # A throw-away instance checks the options and has the base's defaults, which LR schedulers read.
        probe = base([placeholder(groups)], **options)
        super().__init__(groups, {**probe.defaults, "decompose": True, "gamma_lr_scale": gamma_lr_scale})
        inner = [leaves for group in self.param_groups for leaves in self._decompose(group)]
        if not self._parts:
            raise ValueError("No parameter is decomposed: at least one group needs decompose=True and parameters.")
        self.base = base(inner, **options)
        self._building = False
        # β1 and β2 are on the device, so that a captured step sees them change.
        self._beta = piece(self._parts[0].sigma[0]).new_zeros(2)
        self._take_over(self._parts)
        # The one-pass CUDA kernel, built by the first step that can use it.
        self._fused: Any = None
        self._can_fuse = (
            self._beta.is_cuda and base is SGD and gamma_update == "subgradient" and find_spec("triton") is not None
        )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group as in every optimizer; it is decomposed unless it has `decompose=False`."""
        if self.param_groups:
            match_names(param_group, self.param_groups[0])
        super().add_param_group(param_group)
        if self._building:
            return
        self._fused = None
        before = list(self._parts), list(self._synced), list(self.base.param_groups)
        try:
            for leaves in self._decompose(self.param_groups[-1]):
                self.base.add_param_group(leaves)
            self._take_over(self._parts[len(before[0]) :])
        except Exception:
            refused = self.param_groups.pop()
            for weight in refused["params"]:
                self.state.pop(weight, None)
            self._parts, self._synced, self.base.param_groups = before
            raise

    def _decompose(self, group: dict[str, Any]) -> list[dict[str, Any]]:
        """Create σ, γ and the anchor of a group, and return its groups for the base optimizer."""
        given = {key: group.pop(key, None) for key in ("sigma", "gamma", "sigma_share", "fsdp_modules")}
        check_group(group)
        options = base_options(group)
        self._synced.append(dict(options))
        if not group["decompose"]:
            return [{"params": group["params"], **options}]
        parts = Parts.split(group, **given)
        devices = {str(sigma.device) for each in (*self._parts, parts) for sigma in each.sigma}
        if len(devices) > 1:
            raise ValueError(f"Decomposed parameters are on {' and '.join(sorted(devices))}: use one device.")
        for weight, sigma, gamma, anchor in zip(parts.weights, parts.sigma, parts.gamma, parts.anchor, strict=True):
            self.state[weight] = {"sigma": sigma, "gamma": gamma, "anchor": anchor}
        if parts.weights:
            self._parts.append(parts)
        return [{"params": parts.sigma, **options}, {"params": parts.gamma, **options, **gamma_lr(group)}]

    def _take_over(self, new: Sequence[Parts]) -> None:
        """Write w = σ + γ into the weights of new groups, after the last check: what is refused must not change."""
        check_proximal(self.base, self._parts, self.gamma_update)
        check_sharded(self.base, self._parts, self.working_dtype)
        for parts in new:
            if self.working_dtype is not None:
                parts.convert(self.working_dtype)
            parts.write(self._gamma_share)

    # Training

    @torch.no_grad()
    def start_epoch(self) -> None:
        """Advance the epoch t, update β1 and β2, and set the anchor to the current σ."""
        if self.steps_per_epoch is not None:
            raise RuntimeError(
                f"steps_per_epoch={self.steps_per_epoch} starts epochs by itself: remove start_epoch(), or build the "
                "optimizer without steps_per_epoch."
            )
        self._start_epoch()

    def _start_epoch(self) -> None:
        self._require_untouched()
        self._set_epoch(self.epoch + 1, *self._strengths(self.epoch + 1))
        for parts in self._parts:
            parts.set_anchor()
        if self._fused is not None:
            self._fused.measure()

    def _strengths(self, epoch: int) -> tuple[float, float]:
        """Return β1 and β2 at an epoch; raise if they would make weights NaN."""
        beta1 = strength(self.sigma_penalty, epoch, "sigma_penalty")
        beta2 = strength(self.gamma_penalty, epoch, "gamma_penalty")
        if math.isinf(beta1) or (math.isinf(beta2) and self.gamma_update != "proximal"):
            raise ValueError(
                f"Infinite penalty at epoch {epoch} (sigma {beta1}, gamma {beta2}). Only γ's proximal update allows "
                'one: use gamma_update="proximal" or a finite penalty.'
            )
        return beta1, beta2

    def _set_epoch(self, epoch: int, beta1: float, beta2: float) -> None:
        self.epoch = epoch
        # fill_ passes the number as a kernel argument: nothing is copied from the host, nothing waits.
        self._beta[0].fill_(beta1)
        self._beta[1].fill_(beta2)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update σ, γ and w by the gradient of w. As in torch, weights without a gradient are skipped."""
        self._require_training()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
            self._require_training()
        self._require_untouched()
        check_trainable(self.param_groups, self._parts)
        check_proximal(self.base, self._parts, self.gamma_update)
        if self.steps_per_epoch is not None and self.steps % self.steps_per_epoch == 0:
            self._start_epoch()
        sync_options(self.param_groups, self._synced, self.base)
        # g + β1·d/‖d‖ for σ, g + β2·γ/‖γ‖ for γ, and w = σ + γ: in one pass over memory where possible.
        if not (self._can_fuse and self._fused_step()):
            step_parts(self.base, self._parts, self._beta, self._rule)
            if self._fused is not None:
                self._fused.measure()
        self.steps += 1
        return loss

    def _fused_step(self) -> bool:
        """Take the step with the CUDA kernel; return False, with nothing done, if it does not fit."""
        from tnlpad.core.fused_sgd import FusedSGD, fits  # Triton is slow to import

        if self._fused is None and fits(self._parts):
            self._fused = FusedSGD(self._parts, self.base, global_norm=self.norm == "global")
        return self._fused is not None and self._fused.step(self._beta)

    # Evaluation

    @contextmanager
    def sigma_weights(self, gamma_scale: float = 0.0) -> Iterator[None]:
        """Let the model hold σ + gamma_scale·γ within the block; restore what it held before, bit for bit."""
        before = self._gamma_share
        self._require_untouched()
        try:
            self._hold(gamma_scale)
            yield
            changed_inside = self._changed()
        except BaseException:
            self._hold(before, again=True)
            raise
        self._hold(before, again=True)
        if changed_inside is not None:
            raise RuntimeError(
                f"{changed_inside} was changed within the sigma_weights() block; the change is undone. Load or change "
                "weights outside of it, then call adopt_weights()."
            )

    def eval(self) -> None:
        """Let the model hold σ, for frameworks that switch optimizers between modes."""
        self.train(False)

    def train(self, mode: bool = True) -> None:
        """Let the model hold w = σ + γ again."""
        self._require_untouched()
        self._hold(1.0 if mode else 0.0)

    def _hold(self, gamma_share: float, again: bool = False) -> None:
        if not math.isfinite(gamma_share):
            raise ValueError(f"gamma_scale={gamma_share}: must be finite (0 gives σ, 1 gives w).")
        if again or gamma_share != self._gamma_share:
            self._gamma_share = gamma_share
            for parts in self._parts:
                parts.write(gamma_share)
            torch.clear_autocast_cache()  # an autocast block around this would go on with casts of the other weights

    def sigma_state_dict(self, model: nn.Module) -> dict[str, Any]:
        """Return the model's state dict with σ in place of w, to save, ship and load into an ordinary model.

        While training, the model's own state dict holds w. The values are copies; tied weights stay tied. If weights
        are sharded, every rank must call it: rank 0 gets full tensors in CPU memory, the others an empty dict.
        """
        for parts in self._parts:
            reshard(parts.fsdp_modules)
        parameters = set(model.parameters())
        for parts in self._parts:
            for k, weight in enumerate(parts.weights):
                if weight not in parameters:
                    raise ValueError(
                        f"{parts.name(k)} is not a parameter of this {type(model).__name__}. Build the optimizer last, "
                        "after fully_shard() if the model is sharded."
                    )
        with self.sigma_weights():
            if any(is_sharded(parameter) for parameter in parameters):
                return gather(model.state_dict(keep_vars=True))
            rounded = self.working_dtype is not None
            return deepcopy(self.full_precision(model.state_dict(keep_vars=True)) if rounded else model.state_dict())

    def full_precision(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Return a model's state dict with the weights that `working_dtype` rounded as they are before rounding.

        Pass `model.state_dict(keep_vars=True)`. Weights come in the dtype that they had when the optimizer was built;
        inside `sigma_weights()` or after `eval()` they are σ.
        """
        return unrounded(state_dict, self._parts, self._gamma_share)

    def norms(self) -> dict[str, Tensor]:
        """Return ‖σ‖, ‖γ‖ and ‖σ − anchor‖ ("drift") over all decomposed weights, as device scalars.

        SGD with momentum m also has "averaged_gradient", (1 − m)·‖momentum of σ‖: the norm of the running mean of g,
        up to β1 and weight decay. γ is pulled to zero while β2 is above it, and released when β2 falls below.
        """
        return part_norms(self._parts, self.base.state)

    # Guards against silently wrong numbers

    def _require_training(self) -> None:
        if self._gamma_share != 1.0:
            held = f"σ + {self._gamma_share:g}·γ" if self._gamma_share else "σ"
            raise RuntimeError(
                f"step() inside sigma_weights() or after eval(): the model holds {held}, but a step needs w. Leave the "
                "block, or call optimizer.train(), before the next forward pass."
            )
        if self.epoch == 0 and self.steps_per_epoch is None:
            raise RuntimeError("step() before the first epoch: call start_epoch() first, or pass steps_per_epoch.")
        if self._awaits_state:
            raise RuntimeError("step() after prepare_to_load(), but nothing was loaded: call load_state_dict() first.")
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            check_capturable(self.param_groups, self.base, self.steps_per_epoch)

    def _changed(self) -> str | None:
        """Return the name of the first weight that other code changed since we wrote it."""
        for parts in self._parts:
            if (index := parts.changed(self._gamma_share)) is not None:
                return parts.name(index)
        return None

    def _require_untouched(self) -> None:
        if all(parts.untouched() for parts in self._parts):
            return
        moved = any(parts.moved() for parts in self._parts)
        if (name := self._changed()) is not None:
            raise RuntimeError(
                f"{name} was changed or moved outside the optimizer, and the next step would overwrite it. Build the "
                "optimizer after loading and moving the model, or call adopt_weights() to restart from the current "
                "weights. To resume, load the model, then the optimizer."
            )
        if moved:
            self._fused = None  # its addresses are stale

    @torch.no_grad()
    def adopt_weights(self) -> None:
        """Restart from the model's current weights: σ = w, γ = 0, no momentum.

        A captured step of SGD without dampening may be replayed afterwards; capture that of another base again.
        """
        moved = any(parts.moved() for parts in self._parts)
        for parts in self._parts:
            parts.adopt_weights()
        leaves = [leaf for parts in self._parts for leaf in (*parts.sigma, *parts.gamma)]
        if not keep_tensors({leaf: self.base.state.pop(leaf, {}) for leaf in leaves}, self.base) or moved:
            self._fused = None  # its addresses are stale
        self._gamma_share = 1.0
        if self._fused is not None:
            self._fused.measure()

    # Saving

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to resume bit for bit, also in the middle of an epoch and in either mode."""
        sync_options(self.param_groups, self._synced, self.base)  # an LR scheduler may have changed them since the step
        base = self.base.state_dict()
        clock = {"epoch": self.epoch, "steps": self.steps}
        return {
            **super().state_dict(),
            "base": base,
            "decomposition": {"base": type(self.base).__name__, "base_state": state_names(base), **clock},
        }

    @torch.no_grad()
    def prepare_to_load(self) -> None:
        """Create the base optimizer's state, such as momentum, which it otherwise creates in its first step.

        `torch.distributed.checkpoint.load` fills only the tensors that it finds. Until a state is loaded, steps raise.
        """
        allocate_state(self.base)
        self._awaits_state = True

    def full_state_dict(self) -> dict[str, Any]:
        """Return the state dict with full tensors, to resume with any number of ranks or in one process.

        Every rank must call it: rank 0 gets a copy in CPU memory, the others an empty dict. `state_dict()` of sharded
        weights has the shards, for `torch.distributed.checkpoint`.
        """
        return gather(self.state_dict())

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a saved state: copy σ, γ and the anchor in place, and write the model's weights from them.

        If weights are sharded, full tensors are accepted as well: each rank takes its piece.
        """
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = hook(self, state_dict) or state_dict
        check_state(state_dict, self.state_dict())
        clock = state_dict["decomposition"]
        strengths = self._strengths(clock["epoch"]) if clock["epoch"] else (0.0, 0.0)
        # A copy: two optimizers loaded from one state must not share momentum. The calls that can fail come first.
        before = {leaf: dict(entries) for leaf, entries in self.base.state.items()}
        self.base.load_state_dict(deepcopy(shard_state(state_dict["base"], self.base)))
        if not keep_tensors(before, self.base):
            self._fused = None  # its addresses are stale
        weights = [weight for group in self.param_groups for weight in group["params"]]
        for index, weight in enumerate(weights):
            for name, tensor in self.state.get(weight, {}).items():
                tensor.copy_(shard(state_dict["state"][index][name], tensor, name))
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            load_options(group, saved)
        # The base loaded its own groups; only tensors are copied again, so that both hold the same objects.
        self._synced = [{k: v for k, v in group.items() if not isinstance(v, Tensor)} for group in self.param_groups]
        self.steps = clock["steps"]
        self._set_epoch(clock["epoch"], *strengths)
        self._awaits_state = False
        for parts in self._parts:
            parts.write(self._gamma_share)
        if self._fused is not None:
            self._fused.measure()
        for after in self._optimizer_load_state_dict_post_hooks.values():
            after(self)

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_fused": None, "_untouched": self._changed() is None}
        # An LR scheduler's wrapper of `step` and hooks are bound to this object; torch's optimizers drop them too.
        return {key: value for key, value in state.items() if key != "step" and not key.endswith("_hooks")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        untouched = state.pop("_untouched")
        super().__setstate__(state)
        if untouched:  # a copy starts with new version counters
            for parts in self._parts:
                parts.mark_written()


def _check_arguments(
    base: type[Optimizer],
    norm: str,
    gamma_update: str,
    steps_per_epoch: int | None,
    working_dtype: torch.dtype | None,
    options: dict[str, Any],
) -> None:
    if not isinstance(base, type):
        raise TypeError(f"base is {type(base).__name__}(...): pass the class itself, and its options by keyword.")
    if base is torch.optim.LBFGS:
        raise ValueError("LBFGS evaluates the loss several times per step: use a first-order base such as SGD.")
    if options.get("differentiable"):
        raise ValueError("differentiable=True is not supported: σ and γ are updated in place.")
    if norm not in ("global", "tensor"):
        raise ValueError(f'norm={norm!r}: choose "global" or "tensor".')
    if gamma_update not in ("subgradient", "proximal"):
        raise ValueError(f'gamma_update={gamma_update!r}: choose "subgradient" or "proximal".')
    if steps_per_epoch is not None and not (steps_per_epoch >= 1 and steps_per_epoch % 1 == 0):
        raise ValueError(
            f"steps_per_epoch={steps_per_epoch}: must be a whole number of at least 1, or None to call start_epoch()."
        )
    if working_dtype not in (None, torch.bfloat16):
        raise ValueError(f"working_dtype={working_dtype}: choose torch.bfloat16 or None.")
