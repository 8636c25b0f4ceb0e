"""Short runs on digits and on own data of every kind, and the command line as tests call it."""

import json

import numpy as np
from typer.testing import CliRunner

from tests.data.own_files import class_folders, picture, save, write_arrow
from tnlpad.cli import app

runner = CliRunner()


def asked(*words):
    return runner.invoke(app, [str(word) for word in words])


def document(*words):
    """Return the JSON document of a command that succeeds."""
    result = asked(*words, "--json", "-q")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def trained_digits(out):
    """Train on digits and return the run folder."""
    return trained("digits", out, epochs=2)


def trained(data, out, epochs=1, *words):
    """Train for a few epochs and return the run folder."""
    return out / document("train", data, "--set", f"epochs={epochs}", "--out", out, *words)["run_id"]


def own_data(folder, kind):
    """Write data of two classes with twenty samples or more, and a test part of six for some kinds."""
    generator = np.random.default_rng(0)
    if kind == "folder":
        return class_folders(folder / "data", count=10)
    if kind == "parts":
        for start, (part, count) in enumerate({"train": 10, "val": 3, "test": 3}.items()):
            class_folders(folder / "data" / part, count=count, start=1000 * start)
        return folder / "data"
    if kind == "images":
        images = generator.integers(0, 256, (26, 3, 10, 10), dtype=np.uint8)
        np.savez(folder / "data.npz", images=images, labels=["cät", "dog"] * 13, split=["train"] * 20 + ["test"] * 6)
        return folder / "data.npz"
    if kind == "features":
        numbers = generator.normal(size=(26, 2)).astype(np.float32)
        splits = ["train"] * 20 + ["test"] * 6
        rows = [f"{a},{'xy'[k % 2]},{b},{splits[k]}" for k, (a, b) in enumerate(numbers)]
        (folder / "data.csv").write_text("\n".join(["width,label,height,split", *rows]))
        return folder / "data.csv"
    assert kind == "hugging face", kind
    return hugging_face(folder / "data", [0, 1] * 10)


def hugging_face(folder, labels=None, count=20):
    """Write pictures as `save_to_disk` does, with labels or without."""
    import pyarrow as pa

    contents = [save(folder.parent / "pictures" / f"{k}.png", picture(k)).read_bytes() for k in range(count)]
    columns = {"image": [{"bytes": each, "path": None} for each in contents]}
    return write_arrow(folder, pa.table(columns | ({} if labels is None else {"label": labels})))
