"""`tnlpad export`: the network that a run ships, σ alone, as a file for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tnlpad.cli.find_run import find_run
from tnlpad.cli.output import fail, print_json, say

if TYPE_CHECKING:
    from tnlpad.runs.shipped import Shipped


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A finished run: its folder, or its name.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="An ONNX file, normalisation included.")] = False,
    safetensors: Annotated[bool, typer.Option("--safetensors", help="A plain state dict.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="model.onnx or model.safetensors in this folder by default.")
    ] = None,
    runs: Annotated[Path, typer.Option(metavar="FOLDER", help="Where run folders lie.")] = Path("runs"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors on stderr.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as one JSON document.")] = False,
) -> None:
    """Write the network of the chosen epoch for other programs.

    The ONNX file takes pixels from 0 to 1 (or features as they are in the
    data), gives logits, and knows the names of the classes. It is written only
    if its outputs equal torch's.

    Example: tnlpad export RUN --onnx --out model.onnx
    """
    from tnlpad.records.store import RecordError

    if onnx == safetensors:
        fail("say what to write: either --onnx or --safetensors.", code=2)
    path = out or Path("model.onnx" if onnx else "model.safetensors")
    if path.is_dir():
        fail(f"--out {path} is a folder: name a file in it.", code=2)
    folder = find_run(run, runs)
    say("Loading torch.", quiet)
    from tnlpad.runs.shipped import load_shipped

    try:
        shipped = load_shipped(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        document = _onnx(path, shipped) if onnx else _safetensors(path, shipped)
    except (RecordError, ValueError) as error:
        fail(str(error), code=3)
    except OSError as error:
        fail(f"cannot write {path} ({error.strerror or error}). Free some space there, or name another file.")
    if as_json:
        print_json(document)
    else:
        typer.echo(f"Written: {path}")


def _onnx(path: Path, shipped: "Shipped") -> dict[str, Any]:
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
            warnings.simplefilter("ignore")  # of the exporter, about itself
            logging.getLogger("torch.onnx").setLevel(logging.ERROR)
            difference = write_onnx(path, shipped)
    except ExportError as error:
        fail(str(error))
    return {**_facts(path, shipped), "largest_difference": difference}


def _safetensors(path: Path, shipped: "Shipped") -> dict[str, Any]:
    import json

    from safetensors.torch import save

    from tnlpad.atomic_files import write_by_rename

    mean, std = list(shipped.normalisation.mean), list(shipped.normalisation.std)
    about = {"class_names": list(shipped.class_names), "mean": mean, "std": std, "network": shipped.config.network}
    state = {name: tensor.contiguous() for name, tensor in shipped.network.network.state_dict().items()}
    write_by_rename(path, save(state, {name: json.dumps(value) for name, value in about.items()}))
    return _facts(path, shipped)


def _facts(path: Path, shipped: "Shipped") -> dict[str, Any]:
    return {
        "file": str(path),
        "network": shipped.config.network,
        "input": list(shipped.shape),
        "class_names": list(shipped.class_names),
    }
