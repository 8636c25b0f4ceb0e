"""Download one file over HTTP: resume a partial download, and verify it before it gets its name.

The bytes go to `NAME.part`. If that exists, only the rest is requested; if the server sends everything instead, the
file starts over. Size and checksums are known in advance, so a changed file, a login page in its place or a connection
that ends early is detected before the file is renamed.
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
TIMEOUT_SECONDS = 10.0  # of connecting and of each read: an unreachable host should not delay the next source
ATTEMPTS = 4  # in a row that bring less than:
PROGRESS_BYTES = 1 << 20
RETRY_PAUSE_SECONDS = 1.0


def download(
    remote: RemoteFile,
    folder: Path,
    *,
    reporter: Reporter = SILENT,
    timeout_seconds: float = TIMEOUT_SECONDS,
    pause_seconds: float = RETRY_PAUSE_SECONDS,
) -> Path:
    """Download the file into an existing folder, unless it is there already, and return its path."""
    target = folder / remote.file_name
    if target.is_file() and _problem(target, remote) is None:
        return target
    part = target.with_name(target.name + ".part")
    if _length(part) > remote.size:
        part.unlink()
    resumed = part.exists()  # with bytes from an earlier run; the file may have changed since
    attempts_left = ATTEMPTS
    while attempts_left:
        had = _length(part)
        complete = had == remote.size or _receive(remote, part, timeout_seconds, reporter)
        gained = _length(part) - had
        if not complete and had + gained < remote.size:
            attempts_left = ATTEMPTS if gained >= PROGRESS_BYTES else attempts_left - 1
            time.sleep(pause_seconds if attempts_left else 0)
            continue
        problem = _problem(part, remote)
        if problem is None:
            os.replace(part, target)
            return target
        part.unlink()
        if not resumed:
            raise DataError(f"{remote.url} does not serve the published file: {problem}.")
        reporter.say("The partial download does not match the file on the server; starting over.")
        resumed = False
    raise DataError(
        f"{remote.url}: the connection ended {ATTEMPTS} times, after {_length(part):,} of {remote.size:,} bytes. Run "
        "the same command later: it continues from there."
    )


def _receive(remote: RemoteFile, part: Path, timeout_seconds: float, reporter: Reporter) -> bool:
    """Request the missing bytes and append them; return True if the server's file ends where the part does.

    A connection that ends early raises nothing: the caller sees what is still missing.
    """
    start = _length(part)
    # Without "identity" a server may compress the compressed file again.
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
        raise FetchError(f"{remote.url}: the server responds {error.code} {error.reason}") from error
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
    """Raise DataError for a file of another size before it is downloaded."""
    total: int | None = None
    if start:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip())
        if not found or int(found[1]) != start:
            raise FetchError(f"{remote.url}: the server does not send the requested bytes from {start:,} on")
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
                block = response.read1(BLOCK_BYTES)  # what has arrived, without waiting for a full block
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


def _problem(path: Path, remote: RemoteFile) -> str | None:
    return mismatch(path, size=remote.size, checksums=remote.checksums, uncompress=False)
