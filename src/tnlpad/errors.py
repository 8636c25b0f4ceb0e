"""What goes wrong with a user's files and with getting them. The message is for that user: file, rule, way out.

What goes wrong with files of noise. Wrong arguments are plain ValueErrors; these say that the data are to blame.
"""


class DataError(Exception):
    """The data are not what they must be: damaged, incomplete, contradictory, or not obtained at all."""


class FetchError(DataError):
    """The data could not be brought here: no source answered, or the disk refused. The files here are not to blame."""


class NoiseDataError(ValueError):
    """What a file holds is not what it must be."""


class LabelFileError(NoiseDataError):
    """A label file is missing, damaged, changed after it was written, or none at all."""


class MatrixFileError(NoiseDataError):
    """A file given as a transition matrix holds none."""


class LabelMismatchError(NoiseDataError):
    """Noisy labels were made for other samples, or for the same ones in another order."""
