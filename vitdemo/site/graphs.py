"""Graphs of views: the browser computes the data of a user's image without Python.

    data/graphs/NAME.json     state of the view NAME without its image -> its graphs (see below)
    data/graphs/HASH.onnx     a graph
    data/graphs/HASH.bin      weights of one or several graphs of a model, as float16

An entry of NAME.json:

    {"models": path of the list that has one element per graph, or "",
     "graphs": [{"run": name, "file": name, "weights": {file name: bytes, ...},
                 "size": S, "crop": float, "interpolation": str,
                 "outputs": [{"path": path in the payload or in the element, "kind": str,
                              and the constant fields of the output}, ...]}]}

All parts of the data that do not depend on the image are those of the recorded answer for the
first photo. Without graphs, this answer is an error that holds for all images. The input of each
graph is the crop (3, S, S) uint8 of the model. `make_fx` records the operations of a function of
`vitdemo.page.graph`, and `torch.onnx` writes them as a graph. Graphs of a model share weights,
because the same content is written only once. The packages onnx and onnxscript are optional.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.page import state_keys as keys
from vitdemo.page.components import hash_name
from vitdemo.page.graph import Graph, Matrices, Output
from vitdemo.page.view_state import ViewState
from vitdemo.runs import Run
from vitdemo.site.states import State

FOLDER = "data/graphs"
INPUT_NAME = "crop"
MIN_SHARED_VALUES = 1024  # smaller constants remain in the graph
FILTERS = ("bilinear", "bicubic", "lanczos")  # of `pixels.js`
# torch cannot export a stable sort. Of equal values, TopK of ONNX also returns the first one first.
DECOMPOSITIONS = {
    torch.ops.aten.sort.stable: lambda values, *, stable, dim=-1, descending=False: values.topk(
        values.shape[dim], dim, largest=descending, sorted=True
    )
}
Write = Callable[[str, str, bytes], str]  # folder, name, content -> name


class GraphWriter:
    """Writes graphs with `write`, and each weight of a model only once."""

    def __init__(self, context: AppContext, write: Write):
        self.context, self.write = context, write
        self.places: dict[tuple[str, str], tuple[str, int]] = {}  # run, hash -> file, offset
        self.sizes: dict[str, int] = {}  # bytes by file of weights
        self.entries: dict[tuple, dict] = {}

    def list_graphs(self, name: str, graph: Graph, state: State) -> list[dict]:
        """Write the graphs of the view `name` in a state, and return their entries.

        The list is empty if the model does not support the view, or if the browser cannot resize
        images for the model.
        """
        if graph.models:
            runs = self.context.classifier_runs()
        else:
            runs = [self.context.find_run(str(state[keys.MODEL.name]))]
        options = {
            key: state[key] for key in state if key not in (keys.IMAGE.name, keys.MODEL.name)
        }
        found = []
        for run in runs:
            key = name, run.name, repr(options)
            if key not in self.entries:
                self.entries[key] = self.try_graph(run, graph, ViewState(None, run.name, options))
            found.append(self.entries[key])
        return [each for each in found if each]

    def try_graph(self, run: Run, graph: Graph, state: ViewState) -> dict | None:
        if run.preprocessing.interpolation not in FILTERS:
            return None
        try:
            return self.write_graph(run, graph, state)
        except VitdemoError:  # for example, a convolutional model has no attention
            return None

    def write_graph(self, run: Run, graph: Graph, state: ViewState) -> dict:
        """Record and write a graph, and return its entry. Raises `VitdemoError`."""
        model = self.context.load_model(run)
        crop = torch.randint(256, (3, run.preprocessing.size, run.preprocessing.size))
        crop = crop.to(torch.uint8)
        with torch.no_grad():
            outputs = graph.compute(model, run, state, crop)
            recorded = make_fx(
                lambda crop: list_values(graph.compute(model, run, state, crop)), DECOMPOSITIONS
            )(crop)
        exported = export_graph(recorded, crop, [*outputs])
        content, files = self.share_weights(run, exported)
        return {
            "run": run.name,
            "file": self.write(FOLDER, hash_name(content, ".onnx"), content),
            "weights": files,
            "size": run.preprocessing.size,
            "crop": run.preprocessing.crop,
            "interpolation": run.preprocessing.interpolation,
            "outputs": [describe_output(path, each) for path, each in outputs.items()],
        }

    def share_weights(self, run: Run, model: Any) -> tuple[bytes, dict[str, int]]:
        """Move the large constants of an `onnx_ir.Model` to files.

        Returns the graph, and the size of each of its files in bytes by its name.
        """
        import onnx_ir as ir

        halves = {
            name: value.const_value.numpy().astype("<f2")
            for name, value in model.graph.initializers.items()
            if is_shared(value.const_value.numpy())
        }
        hashes = {name: hash_name(values.tobytes()) for name, values in halves.items()}
        new = {hashes[name]: each for name, each in halves.items()}
        new = {key: each for key, each in new.items() if (run.name, key) not in self.places}
        if new:
            content = b"".join(values.tobytes() for values in new.values())
            file, offset = self.write(FOLDER, hash_name(content, ".bin"), content), 0
            self.sizes[file] = len(content)
            for key, values in new.items():
                self.places[run.name, key] = file, offset
                offset += values.nbytes
        used = set()
        for name, values in halves.items():
            file, offset = self.places[run.name, hashes[name]]
            used.add(file)
            read_from_file(model.graph, name, values, file, offset)
        return ir.to_proto(model).SerializeToString(), {
            name: self.sizes[name] for name in sorted(used)
        }


def list_values(outputs: Mapping[str, Output]) -> tuple[Tensor, ...]:
    """Return the tensors of `outputs`; files of matrices contain float16 (see `matrix_file`).

    The tensors are copies, since an output of a graph cannot be its input.
    """
    return tuple(
        each.values.half() if isinstance(each, Matrices) else each.values.clone()
        for each in outputs.values()
    )


def describe_output(path: str, output: Output) -> dict:
    """Return the path, the kind and the constant fields of an output."""
    constants = {each.name for each in fields(output)} - {"values"}
    kind = {"path": path, "kind": type(output).__name__.lower()}
    return kind | {name: getattr(output, name) for name in constants}


def export_graph(recorded: nn.Module, crop: Tensor, names: Sequence[str]) -> Any:
    """Return the `onnx_ir.Model` of a module that `make_fx` has recorded."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # from packages that torch's exporter uses
        model = torch.onnx.export(
            recorded,
            (crop,),
            input_names=[INPUT_NAME],
            output_names=names,
            dynamo=True,
            optimize=False,  # so that constants remain the weights; the browser's runtime optimises
            verbose=False,
        ).model
    for node in model.graph.all_nodes():  # stack traces contain paths of this computer
        node.metadata_props.clear()
    return model


def is_shared(values: np.ndarray) -> bool:
    """Return whether a constant is large, and float16 represents it exactly."""
    if values.dtype != np.float32 or values.size < MIN_SHARED_VALUES:
        return False
    with np.errstate(over="ignore"):
        return np.array_equal(values.astype(np.float16), values)


def read_from_file(graph: Any, name: str, values: np.ndarray, file: str, offset: int) -> None:
    """Read the constant `name` of an `onnx_ir.Graph` from float16 `values` in a file."""
    import onnx_ir as ir

    half = f"{name}_half"
    shape, dtype = ir.Shape(values.shape), ir.DataType.FLOAT16
    tensor = ir.ExternalTensor(file, offset, values.nbytes, dtype, shape=shape, name=half)
    stored = ir.Value(name=half, shape=shape, type=ir.TensorType(dtype), const_value=tensor)
    cast = ir.node("Cast", [stored], {"to": int(ir.DataType.FLOAT)})
    constant = graph.initializers.pop(name)
    graph.register_initializer(stored)
    graph.insert_before(graph[0], cast)
    ir.convenience.replace_all_uses_with(constant, cast.outputs[0])
