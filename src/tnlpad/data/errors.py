"""What goes wrong with a user's files and with getting them. The message is for that user: file, rule, way out."""


class DataError(Exception):
    """The data are not what they must be: damaged, incomplete, contradictory, or not obtained at all."""


class FetchError(DataError):
    """The data could not be brought here: no source answered, or the disk refused. The files here are not to blame."""
