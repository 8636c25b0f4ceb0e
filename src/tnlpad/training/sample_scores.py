"""What training does with every single given label, kept per sample: what the search for wrong labels starts from.

After an epoch every training and validation sample is looked at once more, unaugmented and without gradients: by σ and
by w where weights are decomposed, else by the network to ship. Sums over the epochs stay on the device. The same sums
as they stood at the chosen epoch are kept beside them: labels that are wrong are learnt late, so what is added up until
the noisy validation accuracy is at its best tells right from wrong better than what is added up to the end.

Probabilities are means over both networks: w learns wrong labels by heart, and σ may learn late where images are few.

It draws no random number and changes no weight: a run gives the same numbers with a census and without.

Margins follow Pleiss et al., "Identifying Mislabeled Data using the Area Under the Margin Ranking", but of unaugmented
images after the epoch in place of augmented ones on the way; forgetting follows Toneva et al., "An Empirical Study of
Example Forgetting", counted from epoch to epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from tnlpad.methods.protocol import Method
from tnlpad.training.engine import compiled_if
from tnlpad.training.evaluate import evaluation_mode
from tnlpad.training.measure import Samples

Tally = dict[str, Tensor]
TALLIED = ("margin", "loss", "agreed", "forgotten")
STATE = ("chosen_epoch", "epochs", "tallies", "epochs_until_chosen", "until_chosen")


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """A census as plain arrays: a number per sample under each name, in the order of the census' samples.

    Names are `margin_sigma`, `loss_w` and so on: means over the epochs until the chosen one, counts for `forgotten`;
    with `_to_end` behind them they go to the last epoch. `predicted` and `loss_chosen` are those of the
    first network in the chosen epoch.

    Args:
        numbers: By name.
        probabilities: Samples × classes, mean over the networks asked and the epochs until the chosen one.
        views: Names of the networks asked.
        epochs: Over how many epochs the first network's means go: until the chosen one, and to the end.
        chosen_epoch: Which one it is.
    """

    numbers: dict[str, NDArray[Any]]
    probabilities: NDArray[np.float32]
    views: tuple[str, ...]
    epochs: tuple[int, int]
    chosen_epoch: int


class Census:
    """Counts after every epoch, or after every few: always after one that is the best so far, as the first is.

    A look at every sample by one network costs a third of an epoch's training.

    Args:
        samples: All that are to be asked about, with their given labels.
        num_classes: How many there are.
        every: Look after every so many epochs.
        bf16: Forward passes in bfloat16, as in training.
    """

    def __init__(self, samples: Samples, num_classes: int, *, every: int = 1, bf16: bool = False) -> None:
        if every < 1:
            raise ValueError(f"every={every}: a census is taken after every so many epochs, at least 1.")
        self.samples, self.num_classes, self.every, self.bf16 = samples, num_classes, every, bf16
        self.chosen_epoch = 0
        self.epochs: dict[str, int] = {}  # how often each network was asked
        self.tallies: dict[str, Tally] = {}
        self.epochs_until_chosen: dict[str, int] = {}
        self.until_chosen: dict[str, Tally] = {}

    @property
    def begun(self) -> bool:
        return bool(self.tallies)

    def take(self, method: Method, epoch: int, *, best: bool) -> None:
        """Look at every sample, if this epoch's turn has come; `best` is whether it is the chosen one so far."""
        if best or epoch % self.every == 0:
            for name in views(method):
                self._ask(method, name)
        if best:
            self.until_chosen = {
                name: {key: tensor.clone() for key, tensor in tally.items()} for name, tally in self.tallies.items()
            }
            self.epochs_until_chosen, self.chosen_epoch = dict(self.epochs), epoch

    def counted(self) -> Counted:
        """What has been found so far."""
        if not self.begun:
            raise ValueError("Nothing was counted: a census is taken after an epoch.")
        # A run that was begun without a census may have had its best epoch before: then there is only the rest of it.
        chosen, until = (self.until_chosen or self.tallies), (self.epochs_until_chosen or self.epochs)
        numbers: dict[str, NDArray[Any]] = {}
        for tallies, epochs, ending in ((chosen, until, ""), (self.tallies, self.epochs, "_to_end")):
            for name, tally in tallies.items():
                for key in TALLIED:
                    value = tally[key] if key == "forgotten" else tally[key] / epochs[name]
                    numbers[f"{key}_{name}{ending}"] = value.cpu().numpy()
        first = next(iter(chosen))
        last = {"predicted": chosen[first]["predicted"], "loss_chosen": chosen[first]["last_loss"]}
        return Counted(
            numbers=numbers | {name: tensor.cpu().numpy() for name, tensor in last.items()},
            probabilities=(chosen[first]["probabilities"] / sum(until.values())).cpu().numpy(),
            views=tuple(chosen),
            epochs=(until[first], self.epochs[first]),
            chosen_epoch=self.chosen_epoch,
        )

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain containers, to be saved with the epoch that they were counted up to."""
        return {name: getattr(self, name) for name in STATE}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on counting from a saved state."""
        found = {len(tally["margin"]) for tally in state["tallies"].values()}
        if found - {len(self.samples.index)}:
            raise ValueError(f"a census of {len(self.samples.index)} samples cannot go on from one of {sorted(found)}")
        for name in STATE:
            setattr(self, name, state[name])

    def _ask(self, method: Method, name: str) -> None:
        with method.judged[name]() as network:
            self._tally(name, network)
        self.epochs[name] = self.epochs.get(name, 0) + 1

    @torch.no_grad()
    def _tally(self, name: str, network: nn.Module) -> None:
        """Add what this network makes of every sample, batch by batch, without waiting for the device."""
        if name not in self.tallies:
            self.tallies[name] = self._empty(probabilities=not self.tallies)
        tally, probabilities = self.tallies[name], next(iter(self.tallies.values()))["probabilities"]
        labels, size = self.samples.labels, min(self.samples.batch_size, len(self.samples.index))
        with evaluation_mode(network), torch.autocast(labels.device.type, torch.bfloat16, enabled=self.bf16):
            for start in range(0, len(labels), size):
                # The last batch is as large as the others, since compiled networks are compiled for one size.
                rows = slice(min(start, len(labels) - size), min(start, len(labels) - size) + size)
                with compiled_if(size == self.samples.batch_size):
                    logits = network(self.samples.images_at(self.samples.index[rows])).float()
                fresh = slice(start - rows.start, None)  # rows before it were counted with the batch before
                _add(tally, slice(start, rows.stop), logits[fresh], labels[rows][fresh])
                probabilities[start : rows.stop] += logits[fresh].softmax(1)

    def _empty(self, *, probabilities: bool) -> Tally:
        size, device = len(self.samples.labels), self.samples.labels.device
        tally = {key: torch.zeros(size, device=device) for key in ("margin", "loss", "agreed")}
        tally["forgotten"] = torch.zeros(size, dtype=torch.int32, device=device)
        tally["last_loss"] = torch.zeros(size, device=device)
        tally["predicted"] = torch.full((size,), -1, dtype=torch.int64, device=device)
        if probabilities:
            tally["probabilities"] = torch.zeros(size, self.num_classes, device=device)
        return tally


def views(method: Method) -> tuple[str, ...]:
    """Which networks to ask: σ and w of a decomposition, and of any other method the one to ship."""
    decomposed = tuple(name for name in ("sigma", "w") if name in method.judged)
    return decomposed if len(decomposed) == 2 else (next(iter(method.judged)),)


def _add(tally: Tally, rows: slice, logits: Tensor, labels: Tensor) -> None:
    of_label = labels.unsqueeze(1)
    given = logits.gather(1, of_label).squeeze(1)
    others = logits.scatter(1, of_label, -torch.inf).amax(1)
    loss, predicted = F.cross_entropy(logits, labels, reduction="none"), logits.argmax(1)
    agreed, before = predicted == labels, tally["predicted"][rows] == labels
    tally["margin"][rows] += given - others
    tally["loss"][rows] += loss
    tally["agreed"][rows] += agreed
    tally["forgotten"][rows] += before & ~agreed
    tally["last_loss"][rows] = loss
    tally["predicted"][rows] = predicted
