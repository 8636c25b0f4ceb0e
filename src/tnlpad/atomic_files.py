"""atomic_files"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes this name at the end of the block, if all went well; else nothing has changed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_by_rename(path: Path, content: bytes) -> None:
    """All of the content under this name, or the file as it was: never a part."""
    with replacing(path) as file:
        file.write(content)


def is_disk_full(error: BaseException | None) -> bool:
    """Whether this, or what it was raised from, says that there is no space left: so the next write will fail too."""
    seen: set[int] = set()  # an exception may be raised from one that was raised from it
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
