"""ONNX files of runs, with the attention of each layer as additional outputs.

    export_onnx(run, Path("model.onnx"))  # outputs: logits, attention_1, attention_2, ...

The packages onnx and onnxscript are optional.
"""

import importlib.util
import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from vitdemo.errors import ModelError
from vitdemo.explain.forward_pass import run_forward
from vitdemo.models import has_attention
from vitdemo.runs import Run, load_model

NEEDED_PACKAGES = ("onnx", "onnxscript")
INPUT_NAME, LOGITS_NAME, ATTENTION_NAME = "images", "logits", "attention_{}"


def check_packages() -> None:
    """Raise `ModelError` if packages that the export needs are not installed."""
    if missing := list_missing_packages():
        raise ModelError(
            f"The export to ONNX needs the package{'s' if len(missing) > 1 else ''} "
            f"{' and '.join(missing)}: pip install {' '.join(missing)}."
        )


def list_missing_packages() -> list[str]:
    """Return the packages that the export needs and that are not installed."""
    return [name for name in NEEDED_PACKAGES if importlib.util.find_spec(name) is None]


class _LogitsAndAttention(nn.Module):
    """Model whose outputs are the logits (B, C), then the attention (B, H, N, N) of each layer."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        if not has_attention(self.model):
            return (self.model(images),)
        found = run_forward(self.model, images)
        return found.logits, *found.attention


def export_onnx(run: Run, file: Path) -> Sequence[str]:
    """Write the model of `run` as an ONNX file, and return the names of its outputs.

    The input "images" (B, 3, S, S) is normalised by the mean and std in the file's metadata, which
    also contains the labels. Layers are numbered from 1. For a convolutional model, the only output
    is the logits. Raises `ModelError` if an optional package is missing, and `RunError` without
    weights.
    """
    check_packages()
    if not file.parent.is_dir():
        raise ModelError(
            f"The folder '{file.parent}' does not exist. Create this folder, or choose another "
            "file."
        )
    model = _LogitsAndAttention(load_model(run)).eval()
    size = run.preprocessing.size
    images = torch.zeros(2, 3, size, size)
    with torch.no_grad():
        count = len(model(images))
    names = [LOGITS_NAME, *(ATTENTION_NAME.format(i) for i in range(1, count))]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # warnings from packages that torch's exporter uses
        program = torch.onnx.export(
            model,
            (images,),
            input_names=[INPUT_NAME],
            output_names=names,
            dynamic_shapes={INPUT_NAME: {0: torch.export.Dim("batch")}},
            dynamo=True,
            verbose=False,
        )
    program.model.metadata_props.update(
        {
            "classes": json.dumps(list(run.classes), ensure_ascii=False),
            "mean": json.dumps(list(run.preprocessing.mean)),
            "std": json.dumps(list(run.preprocessing.std)),
            "image_size": str(size),
        }
    )
    temporary = file.with_name(f".{file.name}.part")
    program.save(temporary)
    os.replace(temporary, file)
    return names
