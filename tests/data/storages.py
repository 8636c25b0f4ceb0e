"""Tar shards for tests."""

import io
import tarfile
from pathlib import Path


def write_shard(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def shards_of(folder: Path, target: Path, per_shard: int = 7) -> Path:
    """Write the images below a folder of a dataset as shards, under their names in it."""
    names = sorted(path.relative_to(folder).as_posix() for path in (folder / "images").rglob("*") if path.is_file())
    for number, start in enumerate(range(0, len(names), per_shard)):
        part = names[start : start + per_shard]
        write_shard(target / f"{number:06}.tar", {name: (folder / name).read_bytes() for name in part})
    return target
