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
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from tnlpad.core.parts import Parts
from tnlpad.core.penalties import LinearGrowth, Penalty, PowerDecay, strength
from tnlpad.core.pulls import keep, norms, pull, scale_

Norm = Literal["global", "tensor"]
GammaUpdate = Literal["subgradient", "proximal"]

SIGMA_PENALTY = LinearGrowth(1e-4)
GAMMA_PENALTY = PowerDecay(0.6)
OWN_OPTIONS = ("params", "param_names", "decompose", "gamma_lr_scale")


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
        self.sigma_penalty = _chosen("c1", c1, "sigma_penalty", sigma_penalty, SIGMA_PENALTY, LinearGrowth)
        self.gamma_penalty = _chosen("c2", c2, "gamma_penalty", gamma_penalty, GAMMA_PENALTY, PowerDecay)
        _check_arguments(base, norm, gamma_update, steps_per_epoch, base_options)
        self.norm, self.gamma_update, self.steps_per_epoch = norm, gamma_update, steps_per_epoch
        self.epoch = 0  # the paper's t, 1-based; 0 means that no epoch has started
        self.steps = 0
        self._parts: list[Parts] = []
        self._shared: list[dict[str, Any]] = []  # what the base last got from each of our groups
        self._gamma_share = 1.0  # what the weights hold now: σ + share·γ
        self._fused: Any = None  # the one-pass CUDA update, built by the first step that can use it
        self._building = True
        own_groups = [_own(group) if isinstance(group, dict) else group for group in params]
        # A throw-away instance checks the options and tells us the base's defaults, which LR schedulers read.
        probe = base([_stand_in(own_groups)], **base_options)
        super().__init__(own_groups, {**probe.defaults, "decompose": True, "gamma_lr_scale": gamma_lr_scale})
        inner = [leaves for group in self.param_groups for leaves in self._take_apart(group)]
        if not self._parts:
            raise ValueError("No parameter is decomposed: at least one group needs decompose=True and parameters.")
        self.base = base(inner, **base_options)
        self._building = False
        # β1 and β2 live on the device, so that a captured step sees them change.
        self._beta = self._parts[0].sigma[0].new_zeros(2)
        self._check_proximal()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group as in every optimizer; decomposed unless it says `decompose=False`."""
        super().add_param_group(param_group)
        if self._building:
            return
        before = list(self._parts), list(self._shared), list(self.base.param_groups)
        try:
            for leaves in self._take_apart(self.param_groups[-1]):
                self.base.add_param_group(leaves)
            self._check_proximal()
        except Exception:
            refused = self.param_groups.pop()
            for weight in refused["params"]:
                self.state.pop(weight, None)
            self._parts, self._shared, self.base.param_groups = before
            raise
        self._fused = None

    def _take_apart(self, group: dict[str, Any]) -> list[dict[str, Any]]:
        """Make σ, γ and the anchor of one group, and the base optimizer's groups that stand for it."""
        given = {key: group.pop(key, None) for key in ("sigma", "gamma", "sigma_share")}
        _check_group(group)
        self._shared.append(_base_options(group))
        if not group["decompose"]:
            return [{"params": group["params"], **_base_options(group)}]
        parts = Parts.of(group, **given)
        devices = {str(s.device) for every in (*self._parts, parts) for s in every.sigma}
        if len(devices) > 1:
            raise ValueError(f"Decomposed parameters lie on {' and '.join(sorted(devices))}: use one device.")
        for weight, *own in zip(parts.weights, parts.sigma, parts.gamma, parts.anchor, strict=True):
            self.state[weight] = dict(zip(("sigma", "gamma", "anchor"), own, strict=True))
        parts.write(self._gamma_share)
        if parts.weights:
            self._parts.append(parts)
        options = _base_options(group)
        return [{"params": parts.sigma, **options}, {"params": parts.gamma, **options, **_gamma_rate(group)}]

    def _check_proximal(self) -> None:
        if self.gamma_update != "proximal":
            return
        if type(self.base) is not SGD:
            raise ValueError(f'gamma_update="proximal" is defined for SGD only, not for {type(self.base).__name__}.')
        groups = [parts.group for parts in self._parts]
        for option in ("lr", "gamma_lr_scale", "momentum", "dampening"):
            # Learning rates that are tensors are compared as objects: reading them would wait for the device.
            if len({id(v) if isinstance(v := group[option], Tensor) else v for group in groups}) > 1:
                values = [group[option] for group in groups]
                raise ValueError(
                    f'gamma_update="proximal" needs one {option} over all decomposed groups, not {values}.'
                )
        if any(group["nesterov"] or group["maximize"] or not group["momentum"] < 1 for group in groups):
            raise ValueError('gamma_update="proximal" needs momentum < 1, nesterov=False and maximize=False.')

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
        if self._fused is not None:
            self._fused.measure()

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
        self._require_trainable()
        self._check_proximal()
        if self.steps_per_epoch is not None and self.steps % self.steps_per_epoch == 0:
            self._start_epoch()
        self._share_options()
        if self._can_fuse():
            self._fused.step(self._beta)
            self.base.step()  # only the ordinary parameters have a gradient there
            for parts in self._parts:
                parts.remember()
        else:
            self._step_parts()
        self.steps += 1
        return loss

    def _step_parts(self) -> None:
        """The update over any base optimizer: give σ and γ their gradients, let the base step, write w."""
        try:
            for parts, sigma_force, gamma_force in zip(self._parts, *self._forces(), strict=True):
                for k in parts.with_gradient():
                    g = parts.gradient(k)
                    # γ gets a copy even without a force: a base may change gradients in place (Nesterov SGD does).
                    parts.sigma[k].grad = sigma_force[k].add_(g) if sigma_force else g
                    parts.gamma[k].grad = gamma_force[k].add_(g) if gamma_force else g.clone()
            self.base.step()
        finally:
            for parts in self._parts:
                for leaf in (*parts.sigma, *parts.gamma):
                    leaf.grad = None
        if self.gamma_update == "proximal" and self.gamma_penalty is not None:
            self._soft_threshold()
        for parts in self._parts:
            parts.write(1.0)
        if self._fused is not None:
            self._fused.measure()

    def _forces(self) -> tuple[list[list[Tensor]], list[list[Tensor]]]:
        """The penalties' gradients β1·d/‖d‖ and β2·γ/‖γ‖ for every group; empty lists where there is none."""
        sigma_forces: list[list[Tensor]] = [[] for _ in self._parts]
        gamma_forces: list[list[Tensor]] = [[] for _ in self._parts]
        if self.sigma_penalty is not None:
            sigma_forces = [list(torch._foreach_sub(parts.sigma, parts.anchor)) for parts in self._parts]
            self._pull_(sigma_forces, self._beta[0])
        if self.gamma_penalty is not None and self.gamma_update == "subgradient":
            gamma_forces = [[gamma.clone() for gamma in parts.gamma] for parts in self._parts]
            self._pull_(gamma_forces, self._beta[1])
        return sigma_forces, gamma_forces

    def _pull_(self, vectors: list[list[Tensor]], beta: Tensor) -> None:
        """v ← β·v/‖v‖ in place: weight-sized temporaries are what this update costs on a CPU."""
        pulls = self._per_group(pull(beta, _flat(vectors), self.norm == "tensor"))
        for group, factor, parts in zip(vectors, pulls, self._parts, strict=True):
            # Where the base maximises it will negate what it gets; the penalties stay minimised.
            scale_(group, -factor if parts.group.get("maximize") else factor)

    def _per_group(self, values: Tensor) -> list[Tensor]:
        if values.ndim == 0:
            return [values] * len(self._parts)
        return list(torch.split(values, [len(parts.weights) for parts in self._parts]))

    def _soft_threshold(self) -> None:
        """γ ← max(0, 1 − τβ2/‖γ‖)·γ after the base's step on γ.

        From γ = 0 a step with momentum m reaches length η·‖v‖ = τ·‖ḡ‖, with ḡ = (1 − m)·v the averaged gradient and
        τ = η/(1 − m). With this τ, and not with η itself, γ leaves 0 just when ‖ḡ‖ > β2.
        """
        group = self._parts[0].group
        tau = group["lr"] * group["gamma_lr_scale"] * (1 - group["dampening"]) / (1 - group["momentum"])
        # 0·∞, a learning rate of 0 against an infinite penalty, is no threshold: nothing moved.
        threshold = torch.nan_to_num(self._beta[1] * tau, nan=0.0, posinf=math.inf)
        gammas = _flat([parts.gamma for parts in self._parts])
        kept = self._per_group(keep(threshold, gammas, self.norm == "tensor"))
        for parts, factor in zip(self._parts, kept, strict=True):
            if used := parts.with_gradient():
                scale_([parts.gamma[k] for k in used], factor if factor.ndim == 0 else factor[used])

    def _share_options(self) -> None:
        """Pass on to the base what LR schedulers and users wrote into our groups since the last step.

        Only what changed: a base may keep numbers of its own in its groups, and they are not ours to overwrite.
        """
        inner = iter(self.base.param_groups)
        for group, shared in zip(self.param_groups, self._shared, strict=True):
            changed = {k: v for k, v in _base_options(group).items() if k not in shared or not _same(v, shared[k])}
            shared.update(changed)
            next(inner).update(changed)
            if group["decompose"]:
                next(inner).update(changed | _gamma_rate(group))

    def _can_fuse(self) -> bool:
        """Whether this step can be the one-pass CUDA update, which is built when first needed."""
        if self._fused is None and self._fusable():
            from tnlpad.core.fused_sgd import FusedSGD

            self._fused = FusedSGD(self._parts, self.base.state, global_norm=self.norm == "global")
        return self._fused is not None and self._fused.accepts() and self._fusable_options()

    def _fusable(self) -> bool:
        weights = _flat([parts.weights for parts in self._parts])
        return (
            weights[0].is_cuda
            and type(self.base) is SGD
            and self.gamma_update == "subgradient"
            and len({w.dtype for w in weights}) == 1
            and all(s.dtype == torch.float32 for parts in self._parts for s in parts.sigma)
            and all(s.stride() == w.stride() for p in self._parts for s, w in zip(p.sigma, p.weights, strict=True))
            and self._fusable_options()
            and _has_triton()
        )

    def _fusable_options(self) -> bool:
        groups = [parts.group for parts in self._parts]
        return not any(group["dampening"] or isinstance(group["weight_decay"], Tensor) for group in groups)

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
        """‖σ‖, ‖γ‖ and ‖σ − anchor‖ ("drift") over all decomposed weights, as device scalars."""
        sigma, gamma, anchor = (
            _flat([getattr(parts, part) for parts in self._parts]) for part in ("sigma", "gamma", "anchor")
        )
        drift = torch._foreach_sub(sigma, anchor)
        return {name: norms(v, per_tensor=False) for name, v in (("sigma", sigma), ("gamma", gamma), ("drift", drift))}

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
            self._require_capturable()

    def _require_capturable(self) -> None:
        if self.steps_per_epoch is not None:
            raise RuntimeError("A replayed CUDA graph cannot count steps: call start_epoch() between replays.")
        if not all(isinstance(group["lr"], Tensor) and group["lr"].is_cuda for group in self.param_groups):
            raise RuntimeError(
                "The learning rate is a number, which a CUDA graph would freeze: build the optimizer with "
                "lr=torch.tensor(lr, device=...) and change it with lr.fill_()."
            )
        if type(self.base) is SGD and not all(group["fused"] for group in self.param_groups):
            raise RuntimeError("Only torch's fused SGD reads the learning rate on the device: give fused=True.")

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
            self._fused = None  # the same values in another place: the addresses it holds are stale

    def _require_trainable(self) -> None:
        for group in self.param_groups:
            parts = next((p for p in self._parts if p.group is group), None)
            if group["decompose"] != (parts is not None) or (
                parts is not None and group["params"] is not parts.weights
            ):
                raise RuntimeError(
                    "A group's `decompose` or `params` changed after the optimizer was built, which it cannot follow: "
                    "build a new optimizer."
                )
        for parts in self._parts:
            parts.require_trainable()

    @torch.no_grad()
    def adopt_weights(self) -> None:
        """Restart from the model's weights as they are now: σ = w, γ = 0, without momentum."""
        for parts in self._parts:
            parts.adopt_weights()
            for leaf in (*parts.sigma, *parts.gamma):
                self.base.state.pop(leaf, None)
        self._gamma_share = 1.0
        self._fused = None

    # Saving

    def state_dict(self) -> dict[str, Any]:
        """Everything to go on bit for bit, also in the middle of an epoch and in either mode."""
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
        self._check_state(state_dict)
        clock = state_dict["decomposition"]
        strengths = self._strengths(clock["epoch"]) if clock["epoch"] else (0.0, 0.0)
        # A copy, so that two optimizers loaded from one state do not share their momentum. What can fail comes first.
        self.base.load_state_dict(deepcopy(state_dict["base"]))
        weights = [weight for group in self.param_groups for weight in group["params"]]
        for index, weight in enumerate(weights):
            for name, tensor in self.state.get(weight, {}).items():
                tensor.copy_(state_dict["state"][index][name])
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            for key in saved.keys() - {"params", "param_names"}:
                _set_option(group, key, saved[key])
        # The base restored its groups itself; only tensors are passed on again, to be the same objects as ours.
        self._shared = [{k: v for k, v in group.items() if not isinstance(v, Tensor)} for group in self.param_groups]
        self.steps = clock["steps"]
        self._set_epoch(clock["epoch"], *strengths)
        self._fused = None
        for parts in self._parts:
            parts.write(self._gamma_share)
        for after in self._optimizer_load_state_dict_post_hooks.values():
            after(self)

    def _check_state(self, state_dict: dict[str, Any]) -> None:
        if missing := {"state", "param_groups", "base", "decomposition"} - state_dict.keys():
            raise ValueError(f"Not a state dict of Decomposition: {', '.join(sorted(missing))} is missing.")
        if (base := state_dict["decomposition"].get("base")) != type(self.base).__name__:
            raise ValueError(f"The state was saved with {base} as its base, this one is {type(self.base).__name__}.")
        another = "It was saved for another model or another choice of what is decomposed."
        ours = [len(group["params"]) for group in self.param_groups]
        theirs = [len(group["params"]) for group in state_dict["param_groups"]]
        if ours != theirs:
            raise ValueError(f"The saved groups hold {theirs} parameters, this optimizer's hold {ours}. {another}")
        weights = [weight for group in self.param_groups for weight in group["params"]]
        for index, weight in enumerate(weights):
            expected = {name: tuple(tensor.shape) for name, tensor in self.state.get(weight, {}).items()}
            saved = {name: tuple(tensor.shape) for name, tensor in state_dict["state"].get(index, {}).items()}
            if saved != expected:
                raise ValueError(f"Parameter {index} was saved with {saved}, but this one has {expected}. {another}")

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_fused"] = None  # holds device addresses
        state["_untouched"] = self._changed() is None
        # Bound to this very object: an LR scheduler's wrapper, and hooks, which torch's optimizers leave behind too.
        return {key: value for key, value in state.items() if key != "step" and not key.endswith("_hooks")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        untouched = state.pop("_untouched")
        super().__setstate__(state)
        if untouched:  # copies start with version counters of their own
            for parts in self._parts:
                parts.remember()


def _chosen(
    short: str,
    value: float | None,
    long: str,
    penalty: Penalty | None,
    default: Penalty,
    schedule: Callable[[float], Penalty],
) -> Penalty | None:
    """The penalty meant by the shorthand (c1, c2) or by the object, but not by both."""
    if value is None:
        return penalty
    if penalty is not default:
        raise ValueError(f"{short}={value} and {long}={penalty!r} say the same thing twice: give one of them.")
    return schedule(value)


def _check_arguments(
    base: type[Optimizer], norm: str, gamma_update: str, steps_per_epoch: int | None, base_options: dict[str, Any]
) -> None:
    if not isinstance(base, type):
        raise TypeError(f"base is {type(base).__name__}(...): give the class itself, and its options by keyword.")
    if base is torch.optim.LBFGS:
        raise ValueError("LBFGS evaluates the loss several times a step: use a first-order base such as SGD.")
    if base_options.get("differentiable"):
        raise ValueError("differentiable=True is not supported: σ and γ are updated in place.")
    if norm not in ("global", "tensor"):
        raise ValueError(f'norm={norm!r}: choose "global" or "tensor".')
    if gamma_update not in ("subgradient", "proximal"):
        raise ValueError(f'gamma_update={gamma_update!r}: choose "subgradient" or "proximal".')
    if steps_per_epoch is not None and steps_per_epoch < 1:
        raise ValueError(f"steps_per_epoch={steps_per_epoch}: must be at least 1, or None to call start_epoch().")


def _check_group(group: dict[str, Any]) -> None:
    if not 0 <= group["gamma_lr_scale"] < math.inf:
        raise ValueError(f"gamma_lr_scale={group['gamma_lr_scale']}: must be a finite number >= 0.")
    if len(set(group["params"])) < len(group["params"]):
        raise ValueError("A parameter appears twice in one group, and would be decomposed twice: give each once.")


def _own(group: dict[str, Any]) -> dict[str, Any]:
    """A copy of a user's group that we may change, with its parameters as a list."""
    params = group["params"]
    return {**group, "params": [params] if isinstance(params, Tensor) else list(params)}


def _stand_in(groups: list[Any]) -> Tensor:
    """What the base sees of our first parameter, without its memory: some bases refuse certain shapes."""
    first = groups[0] if groups else torch.zeros(1)
    if isinstance(first, dict):
        first = next(iter(first["params"]), torch.zeros(1))
    if isinstance(first, tuple):  # (name, parameter)
        first = first[1]
    return torch.zeros((), dtype=first.dtype, device=first.device).expand(first.shape)


def _base_options(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key not in OWN_OPTIONS}


def _gamma_rate(group: dict[str, Any]) -> dict[str, Any]:
    """γ's learning rate, if it is another than σ's; a tensor may have changed in place, so it is taken every step."""
    scale = group["gamma_lr_scale"]
    return {} if scale == 1 or "lr" not in group else {"lr": group["lr"] * scale}


def _same(a: Any, b: Any) -> bool:
    return a is b or (not isinstance(a, Tensor) and not isinstance(b, Tensor) and bool(a == b))


def _flat(groups: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    return [tensor for group in groups for tensor in group]


def _set_option(group: dict[str, Any], key: str, value: Any) -> None:
    # A learning rate kept as a tensor may be part of a captured graph: change its value, not the object.
    if isinstance(group.get(key), Tensor):
        group[key].fill_(value)
    else:
        group[key] = deepcopy(value)


def _has_triton() -> bool:
    from importlib.util import find_spec

    return find_spec("triton") is not None
