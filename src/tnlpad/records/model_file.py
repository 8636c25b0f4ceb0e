"""Model files in the safetensors format, the same bytes for the same content.

The safetensors library writes the entries of the metadata in random order. The header is JSON behind its length in
eight bytes, padded with spaces, so it can be written again with sorted entries. Offsets of tensors count from its end.
"""

import json
from collections.abc import Mapping

LENGTH_BYTES = 8


def ordered(content: bytes) -> bytes:
    """Return a file of safetensors with the entries of its metadata sorted."""
    end = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    header: dict[str, Mapping[str, object]] = json.loads(content[LENGTH_BYTES:end])
    if "__metadata__" not in header:
        return content
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text + content[end:]
