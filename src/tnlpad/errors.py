"""Errors about a user's data. Messages name the file, the rule and what to do. Wrong arguments are ValueErrors."""


class DataError(Exception):
    """Data are damaged, incomplete, contradictory or missing."""


class FetchError(DataError):
    """Data could not be downloaded or written; files on this machine are not the cause."""


class NoiseDataError(ValueError):
    """A file with noise has wrong content."""


class LabelFileError(NoiseDataError):
    """A label file is missing, damaged, changed after it was written, or not a label file."""


class MatrixFileError(NoiseDataError):
    """A file does not contain a transition matrix."""


class LabelMismatchError(NoiseDataError):
    """Noisy labels were made for other samples, or for the same ones in another order."""
