"""`tnlpad export`: write the network of a run, with its robust weights σ, for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.find_run import find_run
from tnlpad.cli.options import AsJson, Quiet, RunArgument, Runs
from tnlpad.cli.output import fail, print_json, printable, say, way_out

if TYPE_CHECKING:
    from tnlpad.runs.shipped import Shipped


def export(
    run: RunArgument,
    onnx: Annotated[bool, typer.Option("--onnx", help="Write an ONNX file, with normalisation.")] = False,
    safetensors: Annotated[bool, typer.Option("--safetensors", help="Write a plain state dict.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write (default: model.onnx or model.safetensors).")
    ] = None,
    runs: Runs = Path("runs"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write the network of the chosen epoch for other programs.

    The ONNX file takes pixels from 0 to 1, or the columns of numbers as they
    are in the data. For texts, categories and columns with gaps, it takes
    numbers that only tnlpad computes. It returns logits, and holds the names
    of the classes. It is written only if its outputs equal torch's.

    Example: tnlpad export RUN --onnx --out model.onnx
    """
    from tnlpad.errors import DataError
    from tnlpad.records.store import RecordError

    if onnx == safetensors:
        fail("choose what to write: either --onnx or --safetensors.", code=2)
    path = out or Path("model.onnx" if onnx else "model.safetensors")
    if path.is_dir():
        fail(f"--out {path} is a folder: name a file in it.", code=2)
    folder = find_run(run, runs)
    say("Loading torch.", quiet)
    from tnlpad.runs.shipped import load_shipped

    try:
        shipped = load_shipped(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        extra = _write_onnx(path, shipped) if onnx else _write_safetensors(path, shipped)
    except (RecordError, DataError, ValueError) as error:
        fail(str(error), code=3)
    except OSError as error:
        fail(f"cannot write {path} ({error.strerror or error}). {way_out(error, 'another file')}")
    if as_json:
        shape, names = list(shipped.shape), list(shipped.class_names)
        print_json(
            {"file": str(path), "network": shipped.config.network, "input": shape, "class_names": names, **extra}
        )
    else:
        typer.echo(f"Written: {path}")
        if onnx:
            _print_input(shipped, quiet)


def _print_input(shipped: "Shipped", quiet: bool) -> None:
    from tnlpad.runs.shipped import input_in_words, takes_encoded

    typer.echo(f"input: {printable(input_in_words(shipped))}")
    if takes_encoded(shipped):
        say("Only tnlpad computes these numbers. `tnlpad predict` takes the data themselves.", quiet)


def _write_onnx(path: Path, shipped: "Shipped") -> dict[str, Any]:
    import logging
    import warnings

    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        fail(f"--onnx needs the package {error.name}. Install it with pip install 'tnlpad[export]'.")
    from tnlpad.runs.shipped import ExportError, write_onnx

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter warns about itself
            logging.getLogger("torch.onnx").setLevel(logging.ERROR)
            return {"largest_difference": write_onnx(path, shipped)}
    except ExportError as error:
        fail(str(error))


def _write_safetensors(path: Path, shipped: "Shipped") -> dict[str, Any]:
    import json

    from safetensors.torch import save

    from tnlpad.atomic_files import write_by_rename
    from tnlpad.records.model_file import ordered

    mean, std = list(shipped.normalisation.mean), list(shipped.normalisation.std)
    about = {"class_names": list(shipped.class_names), "mean": mean, "std": std, "network": shipped.config.network}
    state = {name: tensor.contiguous() for name, tensor in shipped.weights.state_dict().items()}
    write_by_rename(path, ordered(save(state, {name: json.dumps(value) for name, value in about.items()})))
    return {}
