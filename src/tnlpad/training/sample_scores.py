"""Per-sample training statistics, from which the search for wrong labels starts.

After an epoch every training and validation sample is evaluated, unaugmented and without gradients. Where weights are
decomposed, the network is evaluated with σ and with w; otherwise with the final network. Sums over the epochs stay on
the device. A copy of the sums at the chosen epoch is kept too: wrong labels are learnt late, so statistics up to the
best noisy validation accuracy separate right from wrong labels better than statistics up to the end. Probabilities are
averaged over σ and w: w memorises wrong labels, and σ may learn late where there are few images.

Margins follow Pleiss et al., "Identifying Mislabeled Data using the Area Under the Margin Ranking", but on unaugmented
images after the epoch instead of augmented ones during it. Forgetting follows Toneva et al., "An Empirical Study of
Example Forgetting", counted from epoch to epoch. Neither random numbers nor weights are touched, so a run gives the
same numbers with and without statistics.

On several ranks, each one evaluates its share of the samples and keeps their sums. They are put together to be saved
and at the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.memory import zeros
from tnlpad.methods.protocol import Method
from tnlpad.ranks import group
from tnlpad.training.engine import compiled_if
from tnlpad.training.measure import Samples, evaluation_mode

MAX_BYTES_IN_MEMORY = 1 << 27  # of the probabilities of all samples
Sums = dict[str, Tensor]
SUMMED = ("margin", "loss", "agreed", "forgotten")
STATE = {  # key in a checkpoint: attribute
    "chosen_epoch": "chosen_epoch",
    "epochs": "epochs",
    "tallies": "sums",
    "epochs_until_chosen": "epochs_until_chosen",
    "until_chosen": "sums_until_chosen",
}
SUMS = ("tallies", "until_chosen")  # keys of tensors with a row per sample


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleNumbers:
    """Per-sample statistics as arrays, in the order of the samples.

    Args:
        numbers: By name: `margin_sigma`, `loss_w` and so on are means over the epochs until the chosen one, and counts
            for `forgotten`. With the suffix `_to_end` they go to the last epoch. `predicted` and `loss_chosen` come
            from the first view in the chosen epoch.
        probabilities: Samples × classes, averaged over the views and over the epochs until the chosen one.
        views: Names of the evaluated weights: sigma and w, or one name for a method without a decomposition.
        epochs: Number of epochs in the means of the first view: until the chosen one, and to the end.
        chosen_epoch: The chosen epoch.
    """

    numbers: dict[str, NDArray[Any]]
    probabilities: NDArray[np.float32]
    views: tuple[str, ...]
    epochs: tuple[int, int]
    chosen_epoch: int


class SampleStatistics:
    """Evaluates all samples after every `every` epochs, and after each epoch that is the best so far.

    Evaluating all samples once takes about a third of the time of a training epoch.

    Args:
        samples: The samples to evaluate, with their given labels.
        num_classes: Number of classes.
        every: Epochs between evaluations.
        bf16: Run forward passes in bfloat16.
        folder: Folder for tables that are too large for memory (default: that for temporary files).
    """

    def __init__(
        self,
        samples: Samples,
        num_classes: int,
        *,
        every: int = 1,
        bf16: bool = False,
        folder: Path | None = None,
    ) -> None:
        if every < 1:
            raise ValueError(f"every={every}: the number of epochs between evaluations must be at least 1.")
        self.samples, self.num_classes, self.every, self.bf16 = samples, num_classes, every, bf16
        self.folder = folder
        mine = group.share(len(samples.index))
        self.mine = replace(samples, index=samples.index[mine], labels=samples.labels[mine])
        self.chosen_epoch = 0
        self.epochs: dict[str, int] = {}  # number of evaluations by each network
        self.sums: dict[str, Sums] = {}
        self.epochs_until_chosen: dict[str, int] = {}
        self.sums_until_chosen: dict[str, Sums] = {}

    @property
    def started(self) -> bool:
        return bool(self.sums)

    def update(self, method: Method, epoch: int, *, best: bool) -> None:
        """Evaluate all samples, if this epoch is due; `best` says whether it is the best so far."""
        if best or epoch % self.every == 0:
            for name in views(method):
                with method.judged[name]() as network:
                    self._evaluate(name, network)
                self.epochs[name] = self.epochs.get(name, 0) + 1
        if best:
            self.sums_until_chosen = {
                name: {key: self._copy(tensor) for key, tensor in sums.items()} for name, sums in self.sums.items()
            }
            self.epochs_until_chosen, self.chosen_epoch = dict(self.epochs), epoch

    def result(self) -> SampleNumbers:
        """Return the statistics so far, of all samples. Every rank must call it."""
        if not self.started:
            raise ValueError("There are no statistics yet: samples are evaluated after an epoch.")
        # A resumed run that started without statistics may have had its best epoch before: then use all there is.
        chosen, until = self._whole(self.sums_until_chosen or self.sums), (self.epochs_until_chosen or self.epochs)
        numbers: dict[str, NDArray[Any]] = {}
        for by_network, epochs, suffix in ((chosen, until, ""), (self._whole(self.sums), self.epochs, "_to_end")):
            for name, sums in by_network.items():
                for key in SUMMED:
                    value = sums[key] if key == "forgotten" else sums[key] / epochs[name]
                    numbers[f"{key}_{name}{suffix}"] = value.cpu().numpy()
        first = next(iter(chosen))
        numbers["predicted"] = chosen[first]["predicted"].cpu().numpy()
        numbers["loss_chosen"] = chosen[first]["last_loss"].cpu().numpy()
        return SampleNumbers(
            numbers=numbers,
            probabilities=self._divided(chosen[first]["probabilities"], sum(until.values())),
            views=tuple(chosen),
            epochs=(until[first], self.epochs[first]),
            chosen_epoch=self.chosen_epoch,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain containers, to save with the checkpoint of the same epoch; called by every rank."""
        state = {key: getattr(self, attribute) for key, attribute in STATE.items()}
        return {key: self._whole(value) if key in SUMS else value for key, value in state.items()}

    def _whole(self, by_network: dict[str, Sums]) -> dict[str, Sums]:
        total = len(self.samples.index)
        return {
            name: {key: group.whole(tensor, total) for key, tensor in sums.items()} for name, sums in by_network.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        size, saved = len(self.samples.index), {len(sums["margin"]) for sums in state["tallies"].values()}
        if saved - {size}:
            raise ValueError(f"statistics of {size} samples cannot continue those of {sorted(saved)} samples")
        mine = group.share(size)
        for key, attribute in STATE.items():
            value = state[key]
            if key in SUMS:
                value = {name: {each: self._copy(sums[each][mine]) for each in sums} for name, sums in value.items()}
            setattr(self, attribute, value)

    @torch.no_grad()
    def _evaluate(self, name: str, network: nn.Module) -> None:
        """Add a network's results for all samples, batch by batch, without waiting for the device."""
        if name not in self.sums:
            self.sums[name] = self._zeros(probabilities=not self.sums)
        sums, probabilities = self.sums[name], next(iter(self.sums.values()))["probabilities"]
        labels, size = self.mine.labels, min(self.mine.batch_size, len(self.mine.index))
        with evaluation_mode(network), torch.autocast(labels.device.type, torch.bfloat16, enabled=self.bf16):
            for start in range(0, len(labels), size):
                # All batches have one size, because compiled networks are compiled for one: the last overlaps.
                rows = slice(min(start, len(labels) - size), min(start, len(labels) - size) + size)
                with compiled_if(size == self.mine.batch_size):
                    logits = network(self.mine.images_at(self.mine.index[rows])).float()
                new = slice(start - rows.start, None)  # the rows that the batch before did not have
                _add(sums, slice(start, rows.stop), logits[new], labels[rows][new])
                probabilities[start : rows.stop] += logits[new].softmax(1)

    def _zeros(self, *, probabilities: bool) -> Sums:
        size, device = len(self.mine.labels), self.mine.labels.device
        sums = {key: torch.zeros(size, device=device) for key in ("margin", "loss", "agreed", "last_loss")}
        sums["forgotten"] = torch.zeros(size, dtype=torch.int32, device=device)
        sums["predicted"] = torch.full((size,), -1, dtype=torch.int64, device=device)
        if probabilities:
            sums["probabilities"] = self._table((size, self.num_classes), device)
        return sums

    def _table(self, shape: tuple[int, int], device: torch.device) -> Tensor:
        """Return zeros: on a CPU, a large table lies in a file, since memory would follow samples × classes."""
        if device.type != "cpu":
            return torch.zeros(shape, device=device)
        return torch.from_numpy(zeros(*shape, MAX_BYTES_IN_MEMORY, self.folder))

    def _copy(self, tensor: Tensor) -> Tensor:
        return tensor.clone() if tensor.ndim == 1 else self._like(tensor).copy_(tensor)

    def _like(self, table: Tensor) -> Tensor:
        return self._table((table.shape[0], table.shape[1]), table.device)

    def _divided(self, table: Tensor, number: int) -> NDArray[np.float32]:
        if table.device.type != "cpu":
            return (table / number).cpu().numpy()
        result: NDArray[np.float32] = torch.div(table, number, out=self._like(table)).numpy()
        return result


def views(method: Method) -> tuple[str, ...]:
    """Return the names of the networks to evaluate: σ and w of a decomposition, otherwise the final one."""
    decomposed = tuple(name for name in ("sigma", "w") if name in method.judged)
    return decomposed if len(decomposed) == 2 else (next(iter(method.judged)),)


def _add(sums: Sums, rows: slice, logits: Tensor, labels: Tensor) -> None:
    column = labels.unsqueeze(1)
    given = logits.gather(1, column).squeeze(1)
    others = logits.scatter(1, column, -torch.inf).amax(1)
    loss, predicted = F.cross_entropy(logits, labels, reduction="none"), logits.argmax(1)
    agreed, before = predicted == labels, sums["predicted"][rows] == labels
    sums["margin"][rows] += given - others
    sums["loss"][rows] += loss
    sums["agreed"][rows] += agreed
    sums["forgotten"][rows] += before & ~agreed
    sums["last_loss"][rows] = loss
    sums["predicted"][rows] = predicted
