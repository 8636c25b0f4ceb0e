"""A shipped network as an ONNX file whose outputs have been compared with torch's."""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch

from tnlpad.experiments.shipped import Shipped
from tnlpad.records.store import write_by_rename

MOST_DIFFERENCE = 1e-4  # of logits, in float32
COMPARED = 4  # inputs; another number than the export saw, since the size of a batch is free


class ExportError(Exception):
    """An ONNX file that would not do what the network does."""


def write_onnx(path: Path, shipped: Shipped) -> float:
    """Write the file if it gives the same logits as torch, and return the largest difference found."""
    import onnx

    generator = torch.Generator().manual_seed(0)
    example = torch.rand(2, *shipped.shape, generator=generator)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        torch.onnx.export(
            shipped.network,
            (example,),
            file,
            input_names=["inputs"],
            output_names=["logits"],
            dynamic_shapes={"inputs": {0: torch.export.Dim("batch")}},
            dynamo=True,
            external_data=False,
            verbose=False,
        )
        model = onnx.load(file)
        onnx.helper.set_model_props(model, {"class_names": json.dumps(list(shipped.class_names))})
        content = model.SerializeToString()
    inputs = torch.rand(COMPARED, *shipped.shape, generator=generator)
    difference = _difference(content, shipped, inputs)
    if not difference <= MOST_DIFFERENCE:
        raise ExportError(
            f"the ONNX network's logits differ from torch's by {difference:g}, and {MOST_DIFFERENCE:g} is the most "
            "that rounding explains. Nothing was written."
        )
    write_by_rename(path, content)
    return difference


@torch.no_grad()
def _difference(content: bytes, shipped: Shipped, inputs: torch.Tensor) -> float:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"inputs": inputs.numpy()})
    return float(np.abs(np.asarray(theirs) - shipped.network(inputs).numpy()).max())
