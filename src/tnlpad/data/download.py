"""One file over HTTP: resumed where it stopped, verified before it gets its name, never half there.

The bytes go to `NAME.part`. If that exists, only the rest is asked for; a server that ignores the wish sends
everything, and the file begins anew. Size and checksums are known beforehand, so that whatever goes wrong on the way
(a changed file, a login page in its place, a connection that ends early) is found out before the file is renamed.
"""

import http.client
import os
import re
import time
import urllib.error
import urllib.request
from pathlib import Path

from tnlpad.data.catalogue import RemoteFile
from tnlpad.data.files import mismatch
from tnlpad.data.progress import SILENT, Reporter
from tnlpad.errors import DataError, FetchError

BLOCK_BYTES = 1 << 18
TIMEOUT_SECONDS = 10.0  # for connecting and for each silence: an unreachable host should not hold up the next source
ATTEMPTS = 4  # in a row that bring less than this:
WORTHWHILE_BYTES = 1 << 20
PAUSE_SECONDS = 1.0


def download(
    remote: RemoteFile,
    folder: Path,
    *,
    reporter: Reporter = SILENT,
    timeout_seconds: float = TIMEOUT_SECONDS,
    pause_seconds: float = PAUSE_SECONDS,
) -> Path:
    """Bring the file into the folder and return its path; if it lies there already, nothing is asked for.

    Args:
        remote: Address, size and checksums.
        folder: Where it goes; must exist.
        reporter: Hears how far it has come.
        timeout_seconds: How long to wait for a connection and for more bytes.
        pause_seconds: How long to wait before continuing after a connection that ended early.
    """
    target = folder / remote.file_name
    if target.is_file() and _problem(target, remote) is None:
        return target
    part = target.with_name(target.name + ".part")
    _drop_if_too_long(part, remote.size)
    carried_over = part.exists()  # bytes from an earlier run; the file may have changed since
    attempts_left = ATTEMPTS
    while attempts_left:
        had = _length(part)
        at_its_end = had == remote.size or _receive(remote, part, timeout_seconds, reporter)
        gained = _length(part) - had
        if not at_its_end and had + gained < remote.size:
            attempts_left = ATTEMPTS if gained >= WORTHWHILE_BYTES else attempts_left - 1
            time.sleep(pause_seconds if attempts_left else 0)
            continue
        problem = _problem(part, remote)
        if problem is None:
            os.replace(part, target)
            return target
        part.unlink()
        if not carried_over:
            raise DataError(f"{remote.url} does not serve the published file: {problem}.")
        reporter.say("The part that was here does not fit the rest; beginning anew.")
        carried_over = False
    raise DataError(
        f"{remote.url}: the connection ended after {_length(part):,} of {remote.size:,} bytes, again and "
        "again. Run the same command later: it continues from there."
    )


def _receive(remote: RemoteFile, part: Path, timeout_seconds: float, reporter: Reporter) -> bool:
    """Ask for what is missing and append it; True if the server says that its file ends where the part does.

    A connection that ends early is no reason to complain: the caller sees what is still missing.
    """
    start = _length(part)
    # Without "identity" a server may compress once more what is compressed already.
    headers = {"User-Agent": "tnlpad", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(remote.url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=timeout_seconds)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            return True
        raise FetchError(f"{remote.url}: the server answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise FetchError(f"{remote.url} cannot be reached: {getattr(reason, 'strerror', None) or reason}") from error
    with response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            start = 0
        _require_announced(response, remote, start)
        _append(response, part, start, remote, reporter)
    return False


def _require_announced(response: http.client.HTTPResponse, remote: RemoteFile, start: int) -> None:
    """Refuse a file of another size before it is downloaded, not after."""
    total: int | None = None
    if start:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip())
        if not found or int(found[1]) != start:
            raise FetchError(f"{remote.url}: asked for the bytes from {start:,} on, the server sends others")
        total = int(found[2]) if found[2] != "*" else None
    elif (response.headers.get("Content-Length") or "").isdigit():
        total = int(response.headers["Content-Length"])
    if total is not None and total != remote.size:
        raise DataError(
            f"{remote.url} does not serve the published file: it has {total:,} bytes, published are {remote.size:,}."
        )


def _append(response: http.client.HTTPResponse, part: Path, start: int, remote: RemoteFile, reporter: Reporter) -> None:
    received = start
    with part.open("ab" if start else "wb") as file:
        while True:
            try:
                block = response.read1(BLOCK_BYTES)  # what has come, without waiting for a full block
            except (OSError, http.client.HTTPException):
                return
            if not block:
                return
            received += len(block)
            if received > remote.size:
                break
            file.write(block)
            reporter.progress(f"Downloading {remote.file_name}", received, remote.size)
    part.unlink()
    raise DataError(
        f"{remote.url} does not serve the published file: it sends more than the {remote.size:,} bytes published."
    )


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _drop_if_too_long(part: Path, size: int) -> None:
    if _length(part) > size:
        part.unlink()


def _problem(path: Path, remote: RemoteFile) -> str | None:
    # A published .gz is compared as it is, not by its content.
    return mismatch(path, size=remote.size, checksums=remote.checksums, compressed=False)
