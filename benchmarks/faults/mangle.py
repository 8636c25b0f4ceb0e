"""Damage the content of a file: at random, or in a way that its format allows.

Most random damage is found by the first check of a format, such as the checksum of an archive. So archives are also
damaged inside and packed again, and JSON is also changed value by value.
"""

import gzip
import io
import json
import os
import random
import re
import string
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

Draw = random.Random
Damage = Callable[[bytes, Draw], bytes]

MAX_PIECE = 64  # bytes
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
NUMBERS = (
    *(b"-1", b"0", b"NaN", b"inf", b"1e999", b"4294967296", b"9223372036854775808", b"0.5", b"1_0", b""),
    *(b"9" * 25, b"9" * 400, b"9" * 5000),  # beyond 64 bits, beyond 1e308, and beyond what Python parses
)
TEXTS = (
    "",
    "=1+1",
    "\x00",
    "\ufeff",
    "\ud800",
    "é" * 300,
    '"',
    "a\nb",
    "../../x",
    "/etc/passwd",
    "<b>|",
    "nan",
    "١٢",
    "[" * 5000,
)
VALUES: tuple[Any, ...] = (None, True, 0, -1, 1e308, 10**30, 10**400, "", "x", [], {}, [[]], [None], {"": None})


def mangled(name: str, content: bytes, draw: Draw) -> bytes:
    """Return damaged content of a file of this name."""
    damages: tuple[Damage, ...] = (flipped, cut, removed, repeated, inserted, blanked, renumbered, retexted, joined)
    inside = INSIDE.get(PurePath(name).suffix)
    if inside is not None and draw.random() < 0.5:
        return inside(content, draw)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        content = draw.choice(damages)(content, draw)
    return content


def replace(file: Path, other: Path, draw: Draw) -> None:
    """Remove a file, or put the content of another one, a folder, a pipe or a device in its place."""
    content = other.read_bytes()
    file.unlink()
    change = draw.randrange(5)
    if change == 1:
        file.write_bytes(content)
    elif change == 2:
        file.mkdir()
    elif change == 3:
        os.mkfifo(file)
    elif change == 4:
        file.symlink_to("/dev/zero")


# Damage to any content ------------------------------------------------------------------------------------------------


def flipped(content: bytes, draw: Draw) -> bytes:
    """Flip a few bits."""
    damaged = bytearray(content)
    for _ in range(draw.choice((1, 1, 8)) if content else 0):
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def cut(content: bytes, draw: Draw) -> bytes:
    """Cut off the end."""
    return content[: draw.randrange(len(content) + 1)]


def removed(content: bytes, draw: Draw) -> bytes:
    """Remove a piece."""
    start, end = _piece(content, draw)
    return content[:start] + content[end:]


def repeated(content: bytes, draw: Draw) -> bytes:
    """Repeat a piece, sometimes very often."""
    start, end = _piece(content, draw)
    return content[:end] + content[start:end] * draw.choice((1, 2, 500)) + content[end:]


def inserted(content: bytes, draw: Draw) -> bytes:
    """Insert random bytes."""
    start, _ = _piece(content, draw)
    return content[:start] + draw.randbytes(draw.randrange(1, MAX_PIECE)) + content[start:]


def blanked(content: bytes, draw: Draw) -> bytes:
    """Overwrite a piece with one byte."""
    start, end = _piece(content, draw)
    return content[:start] + draw.choice((b"\x00", b"\xff", b"\x7f", b"\n", b'"', b",")) * (end - start) + content[end:]


def renumbered(content: bytes, draw: Draw) -> bytes:
    """Replace a number that is written in digits."""
    found = list(NUMBER.finditer(content[:100_000]))
    if not found:
        return flipped(content, draw)
    number = draw.choice(found)
    return content[: number.start()] + draw.choice(NUMBERS) + content[number.end() :]


def retexted(content: bytes, draw: Draw) -> bytes:
    """Insert or replace by an awkward text."""
    start, end = _piece(content, draw)
    text = draw.choice(TEXTS).encode("utf-8", "surrogatepass")
    return content[:start] + text + content[draw.choice((start, end)) :]


def joined(content: bytes, draw: Draw) -> bytes:
    """Join the beginning of the content and its end elsewhere."""
    return content[: draw.randrange(len(content) + 1)] + content[draw.randrange(len(content) + 1) :]


def _piece(content: bytes, draw: Draw) -> tuple[int, int]:
    start = draw.randrange(len(content) + 1)
    return start, min(len(content), start + draw.randrange(1, MAX_PIECE))


# Damage that a format allows ------------------------------------------------------------------------------------------


def in_json(content: bytes, draw: Draw) -> bytes:
    """Replace or remove a value or a key of a JSON document."""
    try:
        document = json.loads(content)
    except ValueError:
        return flipped(content, draw)
    places = list(_places(document))
    if not places:
        return json.dumps(draw.choice(VALUES)).encode()
    holder, key = draw.choice(places)
    change = draw.randrange(4)
    if change == 0:
        del holder[key]
    elif change == 1 and isinstance(holder, dict):
        holder[draw.choice(string.ascii_letters)] = holder.pop(key)
    elif change == 2:
        holder[key] = draw.choice(TEXTS)
    else:
        holder[key] = draw.choice(VALUES)
    return json.dumps(document).encode()


def _places(value: Any) -> Any:
    """Yield every place within a document, as its list or object and its key."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])


def in_json_lines(content: bytes, draw: Draw) -> bytes:
    """Change a line of JSON."""
    lines = content.split(b"\n")
    place = draw.randrange(len(lines))
    lines[place] = in_json(lines[place], draw)
    return b"\n".join(lines)


def in_safetensors(content: bytes, draw: Draw) -> bytes:
    """Change the JSON header of safetensors, with its right length."""
    length = int.from_bytes(content[:8], "little")
    header = in_json(content[8 : 8 + length], draw)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def in_array(content: bytes, draw: Draw) -> bytes:
    """Change the header of an .npy file: its type, order or shape."""
    changes = (
        (rb"'descr': '[^']*'", b"'descr': '%s'"),
        (rb"'shape': \([^)]*\)", b"'shape': (%s)"),
        (rb"'fortran_order': \w+", b"'fortran_order': %s"),
    )
    values = (
        (b"|O", b"<f8", b">i4", b"<U4", b"|V8", b"<M8[s]", b"|b1", b"x", b"<c16", b"<f2", b"|S0"),
        (b"", b"0,", b"-1,", b"1,", b"999999999999,", b"2, 2", b"0, 0, 0", b"1" * 30 + b",", b"'a',"),
        (b"True", b"None", b"7"),
    )
    which = draw.randrange(len(changes))
    pattern, form = changes[which]
    value = draw.choice(values[which])
    return re.sub(pattern, lambda _: form % value, content[:256], count=1) + content[256:]


def in_zip(content: bytes, draw: Draw) -> bytes:
    """Change, rename or remove a member of a zip archive, and pack it again."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except Exception:
        return flipped(content, draw)
    name = draw.choice(list(members))
    change = draw.randrange(6)
    if change == 0:
        del members[name]
    elif change == 1:
        members[draw.choice(("../x.npy", "a/b.npy", "é.npy", name + "x", "labels.npy"))] = members.pop(name)
    else:
        members[name] = mangled(name, members[name], draw)
    packed = io.BytesIO()
    compression = draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(packed, "w") as archive:
        for each, member in members.items():
            archive.writestr(zipfile.ZipInfo(each), member, compression)  # dated 1980, not now
    return packed.getvalue()


def in_gzip(content: bytes, draw: Draw) -> bytes:
    """Change the content of a gzip file."""
    return gzip.compress(mangled("", gzip.decompress(content), draw), compresslevel=1, mtime=0)


def in_tar(content: bytes, draw: Draw) -> bytes:
    """Change a member of a tar file: its content, its name, or what it is."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        files = [each for each in archive.getmembers() if each.isfile()]
        members = [(each, archive.extractfile(each).read()) for each in files]  # type: ignore[union-attr]
    place = draw.randrange(len(members))
    info, member = members[place]
    change = draw.randrange(4)
    if change == 0:
        names = ("../../x.jpg", "/x.jpg", "a/é.jpg", "x", info.name.upper(), "\udcff.jpg", members[0][0].name)
        info.name = draw.choice(names)
    elif change == 1:
        info.type = draw.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE))
        info.linkname = draw.choice(("/etc/passwd", "../x", info.name))
    else:
        member = mangled(info.name, member, draw)
    info.size = len(member) if info.isfile() else 0
    members[place] = (info, member)
    packed = io.BytesIO()
    form = draw.choice((tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT))
    with tarfile.open(fileobj=packed, mode="w", format=form) as archive:
        for each, inner in members:
            archive.addfile(each, io.BytesIO(inner))
    return packed.getvalue()


INSIDE: dict[str, Damage] = {
    ".json": in_json,
    ".jsonl": in_json_lines,
    ".safetensors": in_safetensors,
    ".npy": in_array,
    ".npz": in_zip,
    ".xlsx": in_zip,
    ".pt": in_zip,
    ".gz": in_gzip,
    ".tar": in_tar,
}
