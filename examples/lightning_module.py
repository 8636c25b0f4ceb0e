"""Train with Lightning: build the optimizer in configure_optimizers() and add one callback.

python examples/lightning_module.py    (pip install 'tnlpad[integrations]')
"""

import tempfile

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

from tnlpad import Decomposition, parameter_groups
from tnlpad.integrations.lightning import DecompositionCallback


class Classifier(lightning.LightningModule):
    """A small network, trained with the decomposition."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def configure_optimizers(self) -> Decomposition:
        return Decomposition(parameter_groups(self), torch.optim.SGD, lr=0.05, momentum=0.9, c1=1e-4, c2=1.0)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return F.cross_entropy(self.network(batch[0]), batch[1])

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.log("validation_accuracy", self.accuracy(batch))

    def test_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.log("test_accuracy", self.accuracy(batch))

    def accuracy(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return (self.network(batch[0]).argmax(1) == batch[1]).float().mean()


lightning.seed_everything(1, verbose=False)
digits = load_digits()
samples, clean = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
wrong = torch.rand(len(clean)) < 0.4
labels = torch.where(wrong, (clean + torch.randint(1, 10, clean.shape)) % 10, clean)
train, validation = random_split(TensorDataset(samples[:1400], labels[:1400]), [1100, 300])
test = TensorDataset(samples[1400:], clean[1400:])

best = ModelCheckpoint(tempfile.mkdtemp(), monitor="validation_accuracy", mode="max")  # evaluates and saves σ
trainer = lightning.Trainer(
    max_epochs=20, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
    callbacks=[DecompositionCallback(), best],
)  # fmt: skip
trainer.fit(Classifier(), DataLoader(train, 64, shuffle=True), DataLoader(validation, 300))
[result] = trainer.test(Classifier(), DataLoader(test, 400), ckpt_path=best.best_model_path, verbose=False)
print(f"{result['test_accuracy']:.1%} of the test digits are right")
