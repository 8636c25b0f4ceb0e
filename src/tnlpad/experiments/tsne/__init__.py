"""The paper's figure of test features: what the penultimate layer makes of the test images, early, midway and late.

For each noise, ordinary training and the decomposition are trained as any run is, up to the last epoch of interest; the
schedule is that of the whole run. At each of those epochs the features of the test images are taken: by w of ordinary
training, and by σ, with BatchNorm's statistics as they are (those of w, as the paper judges it) and estimated anew for
σ. The picture is scikit-learn's t-SNE of their first 50 principal components. Beside it stand two numbers, since a
picture proves nothing: the silhouette of the true classes, and how often an image's class is that of most of its 10
nearest others. Both are taken from the components and not from the picture, in which distances mean little.

Everything finished is kept in `OUT/tsne/`, a file each, and not computed again.
"""

from tnlpad.experiments.tsne.figure import compute
from tnlpad.experiments.tsne.shown import Shown, configurations

__all__ = ["Shown", "compute", "configurations"]
