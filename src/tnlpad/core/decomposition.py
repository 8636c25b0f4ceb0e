"""The optimizer that keeps every weight as w = σ + γ and judges the network by σ alone.

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

The update over any base is in `update`, and as one CUDA kernel in `fused_sgd`; the tensors and the watch over them are
in `parts`, the base optimizer's groups in `base_groups`, and what is refused in `checks`.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tnlpad.core.base_groups import gamma_rate, options_for_base, own_copy, pass_on_changes, restore_options, stand_in
from tnlpad.core.checks import (
    check_arguments,
    check_capturable,
    check_group,
    check_proximal,
    check_state,
    check_trainable,
)
from tnlpad.core.one_pass import OnePass
from tnlpad.core.parts import Parts
from tnlpad.core.penalties import LinearGrowth, Penalty, PowerDecay, chosen, strength
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
            A group with `decompose=False` is left to the base optimizer. A decomposed group may bring its own initial
            parts as lists `sigma` and `gamma`; the weights then become their sum.
        base: The optimizer class, such as `torch.optim.SGD` or `torch.optim.AdamW`.
        c1, c2: Shorthand for `sigma_penalty=LinearGrowth(c1)` and `gamma_penalty=PowerDecay(c2)`.
        sigma_penalty, gamma_penalty: β1 and β2, callables from the 1-based epoch to a number >= 0; None switches off.
        norm: "global" is one norm over all decomposed weights (the paper); "tensor" is one for each.
        gamma_update: "subgradient" (the paper) or "proximal" (SGD only).
        gamma_lr_scale: γ's learning rate as a multiple of σ's; also an option of each group.
        steps_per_epoch: Start an epoch by itself every so many steps, for loops that count steps. Without it call
            `start_epoch()` before the first step of every epoch.
        **base_options: Handed to the base optimizer (`lr`, `momentum`, `weight_decay`, ...). To capture `step()` in a
            CUDA graph give `lr` as a tensor on the device, and for SGD `fused=True`.
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
        **base_options: Any,
    ) -> None:
        if isinstance(params, Tensor):
            raise TypeError("params is a single tensor: give a list of parameters, or groups from parameter_groups().")
        self.sigma_penalty = chosen("c1", c1, "sigma_penalty", sigma_penalty, SIGMA_PENALTY, LinearGrowth)
        self.gamma_penalty = chosen("c2", c2, "gamma_penalty", gamma_penalty, GAMMA_PENALTY, PowerDecay)
        check_arguments(base, norm, gamma_update, steps_per_epoch, base_options)
        self.norm, self.gamma_update, self.steps_per_epoch = norm, gamma_update, steps_per_epoch
        self._rule = Rule(
            pull_sigma=self.sigma_penalty is not None,
            pull_gamma=self.gamma_penalty is not None and gamma_update == "subgradient",
            shrink_gamma=self.gamma_penalty is not None and gamma_update == "proximal",
            per_tensor_norms=norm == "tensor",
        )
        self.epoch = 0  # the paper's t, 1-based; 0 means that no epoch has started
        self.steps = 0
        self._parts: list[Parts] = []
        self._passed: list[dict[str, Any]] = []  # what of each of our groups was passed on to the base
        self._gamma_share = 1.0  # what the weights hold now: σ + share·γ
        self._one_pass = OnePass(norm=norm, gamma_update=gamma_update)
        self._building = True
        own_groups = [own_copy(group) if isinstance(group, dict) else group for group in params]
        # A throw-away instance checks the options and tells us the base's defaults, which LR schedulers read.
        probe = base([stand_in(own_groups)], **base_options)
        super().__init__(own_groups, {**probe.defaults, "decompose": True, "gamma_lr_scale": gamma_lr_scale})
        inner = [leaves for group in self.param_groups for leaves in self._take_apart(group)]
        if not self._parts:
            raise ValueError("No parameter is decomposed: at least one group needs decompose=True and parameters.")
        self.base = base(inner, **base_options)
        self._building = False
        # β1 and β2 live on the device, so that a captured step sees them change.
        self._beta = self._parts[0].sigma[0].new_zeros(2)
        check_proximal(self.base, self._parts, self.gamma_update)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group as in every optimizer; decomposed unless it says `decompose=False`."""
        super().add_param_group(param_group)
        if self._building:
            return
        self._one_pass.drop()
        before = list(self._parts), list(self._passed), list(self.base.param_groups)
        try:
            for leaves in self._take_apart(self.param_groups[-1]):
                self.base.add_param_group(leaves)
            check_proximal(self.base, self._parts, self.gamma_update)
        except Exception:
            refused = self.param_groups.pop()
            for weight in refused["params"]:
                self.state.pop(weight, None)
            self._parts, self._passed, self.base.param_groups = before
            raise

    def _take_apart(self, group: dict[str, Any]) -> list[dict[str, Any]]:
        """Make σ, γ and the anchor of one group, and the base optimizer's groups that stand for it."""
        given = {key: group.pop(key, None) for key in ("sigma", "gamma", "sigma_share")}
        check_group(group)
        self._passed.append(options_for_base(group))
        if not group["decompose"]:
            return [{"params": group["params"], **options_for_base(group)}]
        parts = Parts.of(group, **given)
        devices = {str(s.device) for every in (*self._parts, parts) for s in every.sigma}
        if len(devices) > 1:
            raise ValueError(f"Decomposed parameters lie on {' and '.join(sorted(devices))}: use one device.")
        for weight, *own in zip(parts.weights, parts.sigma, parts.gamma, parts.anchor, strict=True):
            self.state[weight] = dict(zip(("sigma", "gamma", "anchor"), own, strict=True))
        if parts.weights:
            parts.write(self._gamma_share)
            self._parts.append(parts)
        options = options_for_base(group)
        return [{"params": parts.sigma, **options}, {"params": parts.gamma, **options, **gamma_rate(group)}]

    # Training

    @torch.no_grad()
    def start_epoch(self) -> None:
        """Advance t, take the penalties' new strengths, and hold σ near where it is now."""
        if self.steps_per_epoch is not None:
            raise RuntimeError(
                f"steps_per_epoch={self.steps_per_epoch} starts epochs by itself: leave out start_epoch(), or build "
                "the optimizer without steps_per_epoch."
            )
        self._start_epoch()

    def _start_epoch(self) -> None:
        self._require_untouched()
        self._set_epoch(self.epoch + 1, *self._strengths(self.epoch + 1))
        for parts in self._parts:
            torch._foreach_copy_(parts.anchor, parts.sigma)
        self._one_pass.measure()

    def _strengths(self, epoch: int) -> tuple[float, float]:
        """β1 and β2 at an epoch, refused if they would poison the weights."""
        beta1 = strength(self.sigma_penalty, epoch, "sigma_penalty")
        beta2 = strength(self.gamma_penalty, epoch, "gamma_penalty")
        if math.isinf(beta1) or (math.isinf(beta2) and self.gamma_update != "proximal"):
            raise ValueError(
                f"Infinite penalty at epoch {epoch} (sigma {beta1}, gamma {beta2}): only the proximal update of γ can "
                'bear one; use gamma_update="proximal" or a finite penalty.'
            )
        return beta1, beta2

    def _set_epoch(self, epoch: int, beta1: float, beta2: float) -> None:
        self.epoch = epoch
        # fill_ takes the number as a kernel argument: nothing is copied from the host, nothing waits.
        self._beta[0].fill_(beta1)
        self._beta[1].fill_(beta2)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update σ, γ and w by the gradient of w. Weights without a gradient are left alone, as in torch."""
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
        pass_on_changes(self.param_groups, self._passed, self.base)
        # g + β1·d/‖d‖ for σ, g + β2·γ/‖γ‖ for γ, and w = σ + γ: in one pass over memory where that can be.
        if not self._one_pass.step(self.base, self._parts, self._beta):
            step_parts(self.base, self._parts, self._beta, self._rule)
            self._one_pass.measure()
        self.steps += 1
        return loss

    # Judging

    @contextmanager
    def sigma_weights(self, gamma_scale: float = 0.0) -> Iterator[None]:
        """Within the block the model holds σ + gamma_scale·γ; afterwards what it held before, bit for bit."""
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
                f"{changed_inside} was changed within the sigma_weights() block, and the change is undone: load or "
                "change weights outside of it, then call adopt_weights()."
            )

    def eval(self) -> None:
        """Let the model hold σ, for frameworks that switch optimizers as they switch modules."""
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

    def sigma_state_dict(self, model: nn.Module) -> dict[str, Any]:
        """The model's state dict with σ in place of w: what to save, ship and load into an ordinary model.

        The model's own state dict holds w while training. The values are copies; tied weights stay tied.
        """
        parameters = set(model.parameters())
        for parts in self._parts:
            for k, weight in enumerate(parts.weights):
                if weight not in parameters:
                    raise ValueError(f"{parts.name(k)} is not a parameter of this {type(model).__name__}.")
        with self.sigma_weights():
            return deepcopy(model.state_dict())

    def norms(self) -> dict[str, Tensor]:
        """‖σ‖, ‖γ‖ and ‖σ − anchor‖ ("drift") over all decomposed weights, as device scalars.

        Over SGD with momentum m also "averaged_gradient", (1 − m)·‖momentum of σ‖: the norm of the running mean of g,
        up to β1 and weight decay. γ is pulled to zero while β2 is above it, and released when β2 falls below.
        """
        return part_norms(self._parts, self.base.state)

    # Guards against silently wrong numbers

    def _require_training(self) -> None:
        if self._gamma_share != 1.0:
            raise RuntimeError(
                f"step() while the model holds σ + {self._gamma_share:g}·γ: leave the sigma_weights() block, or call "
                "train(), before the forward pass of the next step."
            )
        if self.epoch == 0 and self.steps_per_epoch is None:
            raise RuntimeError("step() before the first epoch: call start_epoch() first, or give steps_per_epoch.")
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            check_capturable(self.param_groups, self.base, self.steps_per_epoch)

    def _changed(self) -> str | None:
        """The first weight that someone else changed since we wrote it."""
        for parts in self._parts:
            if (index := parts.changed(self._gamma_share)) is not None:
                return parts.name(index)
        return None

    def _require_untouched(self) -> None:
        moved = any(parts.moved() for parts in self._parts)
        if (name := self._changed()) is not None:
            raise RuntimeError(
                f"{name} was changed or moved from outside after the optimizer was built (by load_state_dict, .to() or "
                "an in-place change), and σ + γ would overwrite it. Build the optimizer after loading and moving the "
                "model (to resume, load the model first and then the optimizer), or call adopt_weights() to restart "
                "from the weights as they are."
            )
        if moved:
            self._one_pass.drop()  # the same values in another place: the addresses it holds are stale

    @torch.no_grad()
    def adopt_weights(self) -> None:
        """Restart from the model's weights as they are now: σ = w, γ = 0, without momentum."""
        for parts in self._parts:
            parts.adopt_weights()
            for leaf in (*parts.sigma, *parts.gamma):
                self.base.state.pop(leaf, None)
        self._gamma_share = 1.0
        self._one_pass.drop()

    # Saving

    def state_dict(self) -> dict[str, Any]:
        """Everything to go on bit for bit, also in the middle of an epoch and in either mode."""
        # What an LR scheduler wrote since the last step belongs to the base's state as well.
        pass_on_changes(self.param_groups, self._passed, self.base)
        return {
            **super().state_dict(),
            "base": self.base.state_dict(),
            "decomposition": {"base": type(self.base).__name__, "epoch": self.epoch, "steps": self.steps},
        }

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state: σ, γ and anchor are copied in place, and the model gets its weights from them."""
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = hook(self, state_dict) or state_dict
        check_state(state_dict, self)
        clock = state_dict["decomposition"]
        strengths = self._strengths(clock["epoch"]) if clock["epoch"] else (0.0, 0.0)
        # A copy, so that two optimizers loaded from one state do not share their momentum. What can fail comes first.
        self.base.load_state_dict(deepcopy(state_dict["base"]))
        weights = [weight for group in self.param_groups for weight in group["params"]]
        for index, weight in enumerate(weights):
            for name, tensor in self.state.get(weight, {}).items():
                tensor.copy_(state_dict["state"][index][name])
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            restore_options(group, saved)
        # The base restored its groups itself; only tensors are passed on again, to be the same objects as ours.
        self._passed = [{k: v for k, v in group.items() if not isinstance(v, Tensor)} for group in self.param_groups]
        self.steps = clock["steps"]
        self._set_epoch(clock["epoch"], *strengths)
        self._one_pass.drop()
        for parts in self._parts:
            parts.write(self._gamma_share)
        for after in self._optimizer_load_state_dict_post_hooks.values():
            after(self)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_untouched"] = self._changed() is None
        # Bound to this very object: an LR scheduler's wrapper, and hooks, which torch's optimizers leave behind too.
        return {key: value for key, value in state.items() if key != "step" and not key.endswith("_hooks")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        untouched = state.pop("_untouched")
        super().__setstate__(state)
        if untouched:  # copies start with version counters of their own
            for parts in self._parts:
                parts.remember()
