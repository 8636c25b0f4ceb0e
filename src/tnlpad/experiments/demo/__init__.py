"""The demo: handwritten digits of which 40 % carry a wrong label, ordinary training and the decomposition side by side.

scikit-learn's bundled digits (1,797 images of 8x8 pixels) need no download. Training and validation labels are made
wrong by symmetric noise; the test labels stay clean and choose nothing. Both methods start from the same network, see
the same batches in the same order and follow the same learning-rate schedule; the only difference is the optimizer.

Settings are the paper's for CIFAR-10 (learning rate 0.01, momentum 0.9, weight decay 1e-3, batches of 64, c1 = 1e-4)
except for c2, which is chosen here, live, by the noisy validation accuracy of σ in the last epoch. The network, the
number of epochs and one drop of the learning rate for their last quarter set the scene: plain training must have the
time to memorise. `tune` shows how much the choice of learning rate and weight decay matters.

What is measured after every epoch, for ordinary training, for w = σ + γ and for σ:
- test accuracy, against clean labels;
- validation accuracy, against labels as wrong as those of training;
- memorisation: of the training images whose label is wrong, the share that the network gives exactly that wrong label.
"""

from tnlpad.experiments.demo.config import DemoConfig
from tnlpad.experiments.demo.document import record, versions
from tnlpad.experiments.demo.runs import Progress, run_demo, tune

__all__ = ["DemoConfig", "Progress", "record", "run_demo", "tune", "versions"]
