"""What a run is made of: data with its noise and split, batches, the sets to measure on, a method with its networks.

Every random decision has a stream of its own, so that methods with the same seed see the same wrong labels, the same
split and the same batches: "noise", "split" and "memorisation" here, "order", "augment" and "method" while training,
"network-0" and "network-1" for weights, and "global" for whatever draws from torch's own generator.

Images that fit lie on the device as one tensor; those of Food-101 and Clothing1M stay in files and are decoded when
they are asked for. Nobody knows which of these two datasets' labels are wrong, so nothing is measured that needs it.
"""

from tnlpad.experiments.prepare.data import Data, prepare_data
from tnlpad.experiments.prepare.loader import prepare_loader
from tnlpad.experiments.prepare.method import prepare_method
from tnlpad.experiments.prepare.sets import prepare_census, prepare_sets

__all__ = ["Data", "prepare_census", "prepare_data", "prepare_loader", "prepare_method", "prepare_sets"]
