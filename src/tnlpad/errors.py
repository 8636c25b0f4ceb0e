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
    """Noisy labels belong to other samples, or to the same samples in another order."""


def as_utf8(name: str, what: str, error: type[Exception] = DataError) -> bytes:
    """Return a name in UTF-8, as records hold it; raise an error for one with bytes that are no text."""
    try:
        return name.encode()
    except UnicodeEncodeError as problem:
        raise error(f"{what} {ascii(name)[:300]} is not UTF-8, in which names are recorded. Rename it.") from problem
