"""What goes wrong with files of noise. Wrong arguments are plain ValueErrors; these say that the data are to blame."""


class NoiseDataError(ValueError):
    """What a file holds is not what it must be."""


class LabelFileError(NoiseDataError):
    """A label file is missing, damaged, changed after it was written, or none at all."""


class MatrixFileError(NoiseDataError):
    """A file given as a transition matrix holds none."""


class LabelMismatchError(NoiseDataError):
    """Noisy labels were made for other samples, or for the same ones in another order."""
