"""Graphs of views: the browser computes the data of a user's image without Python.

    data/graphs/NAME.json     state of the view NAME without its image -> its graphs (see below)
    data/graphs/HASH.onnx     a graph
    data/graphs/HASH.bin      weights of one or several graphs of a model, as float16
    data/graphs/inputs.json   crops of the example photos, for the check of `check.js`
    data/graphs/tasks.json    name of a task -> name of a run -> its loops (see below)

An entry of NAME.json:

    {"models": path of the list that has one element per graph, or "",
     "echoes": [state keys whose values are in the data],
     "changes": entry of the graph that changes the image, if there is one: see `Graph.changes`,
     "holds": whether the recorded answer holds for all images if there are no graphs,
     "graphs": [{"run": name, "file": name, "weights": {file name: bytes, ...},
                 "size": S, "crop": float, "interpolation": str,
                 "is_model_input": whether this crop is the input of the model,
                 "inputs": [{"key": state key, "kind": str, "shape": [...], "type": str,
                             "choices": [names] of an index}, ...],
                 "outputs": [{"path": path in the payload or in the element, "part": "data" or
                              "controls", "kind": str, and the constant fields of the output},
                             ...]}]}

A loop (see `page.graph.Loop`):

    {"text": str, "view": name of a view or "", "given": {state key: value},
     "start": graph, "step": graph, "changes": graph that changes the image for `step`, or null}

Inputs of the kind "value" are the values of the loop, with the prefix `VALUE` in their names.

All parts of the data that do not depend on the image or on an input are those of the recorded
answer for the first photo and the inputs' start values. The first input of each graph is the crop
(3, S, S) uint8 of the image. If there are changes, the second input is the crop of the changed
image. `make_fx` records the operations of a function of
`vitdemo.page.graph`, and `torch.onnx` writes them as a graph. Graphs of a model share weights,
because the same content is written only once. The packages onnx and onnxscript are optional.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.page import state_keys as keys
from vitdemo.page.components import hash_name
from vitdemo.page.feature import MakeLoops
from vitdemo.page.graph import (
    VALUE,
    Compute,
    Constant,
    Graph,
    Input,
    Inserted,
    Loop,
    Matrices,
    Output,
    Outputs,
    get_run_crop,
    get_values,
)
from vitdemo.page.image_sources import list_photos
from vitdemo.page.view_state import ViewState
from vitdemo.runs import Run
from vitdemo.site.states import State

FOLDER = "data/graphs"
INPUTS = f"{FOLDER}/inputs.json"
TASKS = "tasks.json"
CROP, CHANGED_CROP = "crop", "changed_crop"  # inputs of graphs
MIN_SHARED_VALUES = 1024  # smaller constants remain in the graph
CONSTANTS = ("constant", "inserted")  # kinds of outputs without a tensor
FILTERS = ("bilinear", "bicubic", "lanczos")  # of `pixels.js`
Write = Callable[[str, str, bytes], str]  # folder, name, content -> name


def compute_pool_gradient(gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    """Compute the gradient of an adaptive maximum: it belongs to the elements of the maxima."""
    zeros = torch.zeros_like(x).flatten(2)
    return zeros.scatter_add(2, indices.flatten(2), gradient.flatten(2)).view_as(x)


def compute_input_gradient(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: list[int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    *others: object,
) -> tuple[Tensor, None, None]:
    """Compute the gradient of the input of a two-dimensional convolution, not of its weights."""
    _, _, groups, _ = others
    rest = [
        size - ((new - 1) * s - 2 * p + d * (kernel - 1) + 1)
        for size, new, s, p, d, kernel in zip(
            *(x.shape[2:], gradient.shape[2:], stride, padding, dilation, weight.shape[2:]),
            strict=True,
        )
    ]  # pixels at the end that the convolution does not read
    found = F.conv_transpose2d(gradient, weight, None, stride, padding, rest, groups, dilation)
    return found, None, None


def sort_by_topk(
    values: Tensor, *, stable: bool, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    """Sort with TopK of ONNX, which also returns the first of equal values first."""
    return values.topk(values.shape[dim], dim, largest=descending, sorted=True)


def choose_flags(condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Compute `torch.where` of bool tensors, which ONNX Runtime Web does not have."""
    if first.dtype != torch.bool or second.dtype != torch.bool:
        return NotImplemented
    return (condition & first) | (~condition & second)


DECOMPOSITIONS = {  # operations that torch cannot export, or that browsers cannot run
    torch.ops.aten.adaptive_max_pool2d_backward.default: compute_pool_gradient,
    torch.ops.aten.convolution_backward.default: compute_input_gradient,
    torch.ops.aten.sort.stable: sort_by_topk,
    torch.ops.aten.where.self: choose_flags,
}


class GraphWriter:
    """Writes graphs with `write`, and each weight of a model only once."""

    def __init__(self, context: AppContext, write: Write):
        self.context, self.write = context, write
        self.places: dict[tuple[str, str], tuple[str, int]] = {}  # run, hash -> file, offset
        self.sizes: dict[str, int] = {}  # bytes by file of weights
        self.entries: dict[tuple, dict] = {}

    def describe_graphs(self, graph: Graph, state: State) -> dict:
        """Write the graphs of a view in a state, and return its entry.

        There are no graphs if the model does not support the view, or if the browser cannot resize
        images for the model.
        """
        if graph.models:
            runs = self.context.classifier_runs()
        else:
            runs = [self.context.find_run(str(state[keys.MODEL.name]))]
        found = [self.try_graph(graph, run, state) for run in runs]
        entry = {
            "models": graph.models,
            "echoes": [key.name for key in graph.echoes],
            "holds": False not in found,
            "graphs": [each for each in found if each],
        }
        if graph.changes:
            run = self.context.find_run(str(state[keys.MODEL.name]))
            entry["changes"] = self.try_graph(graph.changes, run, state) or None
        return entry

    def try_graph(self, graph: Graph, run: Run, state: State) -> dict | bool | None:
        """Return the entry of a graph, written once.

        Return None if the model does not support the view, and False if browsers cannot run it.
        """
        own = {keys.IMAGE.name, keys.MODEL.name, *(each.key.name for each in graph.all_inputs)}
        options = {key: value for key, value in state.items() if key not in own}
        key = graph.compute, run.name, repr(options)
        if key not in self.entries:
            try:
                given = ViewState(None, run.name, options)
                self.entries[key] = can_resize(run) and self.write_graph(run, graph, given)
            except VitdemoError:  # for example, a convolutional model has no attention
                self.entries[key] = None
            except torch.onnx.OnnxExporterError:  # torch cannot export an operation of the model
                self.entries[key] = False
        return self.entries[key]

    def describe_loops(self, make_loops: MakeLoops, run: Run) -> list[dict] | None:
        """Write the loops of a task for `run`, and return their entries.

        Return None if the model does not support the task, or if browsers cannot run it.
        """
        try:
            if can_resize(run):
                return [self.describe_loop(run, each) for each in make_loops(self.context, run)]
        except (VitdemoError, torch.onnx.OnnxExporterError):  # see `try_graph`
            pass
        return None

    def describe_loop(self, run: Run, loop: Loop) -> dict:
        state, changes = ViewState(None, run.name, {}), loop.step.changes
        return {
            "text": loop.text,
            "view": loop.view,
            "given": {key.name: value for key, value in loop.given.items()},
            "start": self.write_graph(run, loop.start, state),
            "step": self.write_graph(run, loop.step, state, self.compute_values(run, loop)),
            "changes": self.try_graph(changes, run, {}) if changes else None,
        }

    def compute_values(self, run: Run, loop: Loop) -> dict[str, Tensor]:
        """Return the first values of `loop` for a random image."""
        tensors = *self.make_crops(run, loop.start).values(), *self.make_samples(run, loop.start)
        with torch.no_grad():
            found = loop.start.compute(self.context, run, ViewState(None, run.name, {}), *tensors)
        return get_values(found)

    def make_crops(self, run: Run, graph: Graph) -> dict[str, Tensor]:
        """Return random images by the name of their input."""
        size, *_ = graph.get_crop(self.context, run)
        crop = torch.randint(256, (3, size, size), dtype=torch.uint8)
        return {CROP: crop} | ({CHANGED_CROP: crop.clone()} if graph.changes else {})

    def make_samples(self, run: Run, graph: Graph) -> list[Tensor]:
        return [each.make_sample(self.context, run) for each in graph.inputs]

    def write_graph(
        self, run: Run, graph: Graph, state: ViewState, values: Mapping[str, Tensor] | None = None
    ) -> dict:
        """Record and write a graph, and return its entry. Raises `VitdemoError`.

        `values` are those of a loop, whose step the graph computes.
        """
        size, share, interpolation = graph.get_crop(self.context, run)
        crops, samples = self.make_crops(run, graph), self.make_samples(run, graph)
        # `make_fx` would record two inputs that are one tensor as the same input.
        tensors = *crops.values(), *samples, *(each.clone() for each in (values or {}).values())
        compute = partial(graph.compute, self.context, run, state)
        if values is not None:
            compute = take_values(compute, [*values])
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            parts = divide_outputs(compute(*tensors))
            recorded = make_fx(
                lambda *tensors: list_tensors(divide_outputs(compute(*tensors))), DECOMPOSITIONS
            )(*tensors)
        recorded.graph.eliminate_dead_code()
        recorded.recompile()
        inputs = [describe_input(run, *pair) for pair in zip(graph.inputs, samples, strict=True)]
        inputs += [
            describe_tensor(f"{VALUE}{name}", "value", each)
            for name, each in (values or {}).items()
        ]
        outputs = [
            describe_output(path, part, each)
            for part, outputs in parts.items()
            for path, each in outputs.items()
        ]
        names = [*crops, *(each["key"] for each in inputs)]
        results = [name_output(each) for each in outputs if each["kind"] not in CONSTANTS]
        content, files = self.share_weights(run, export_graph(recorded, tensors, names, results))
        return {
            "run": run.name,
            "file": self.write(FOLDER, hash_name(content, ".onnx"), content),
            "weights": files,
            "size": size,
            "crop": share,
            "interpolation": interpolation,
            "is_model_input": graph.get_crop is get_run_crop,
            "inputs": inputs,
            "outputs": outputs,
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


def take_values(compute: Compute, names: Sequence[str]) -> Compute:
    """Return `compute` with the values of a loop as its last arguments, instead of a mapping."""

    def compute_step(*tensors: Tensor) -> Outputs:
        count = len(tensors) - len(names)
        return compute(*tensors[:count], dict(zip(names, tensors[count:], strict=True)))

    return compute_step


def can_resize(run: Run) -> bool:
    """Return whether the browser can resize images for `run`."""
    return run.preprocessing.interpolation in FILTERS


def divide_outputs(found: Outputs | tuple[Outputs, Outputs]) -> dict[str, Outputs]:
    """Return the outputs of a function of tensors, for the data and for controls."""
    data, controls = found if isinstance(found, tuple) else (found, {})
    return {"data": data, "controls": controls}


def list_tensors(parts: Mapping[str, Outputs]) -> tuple[Tensor, ...]:
    """Return the tensors of all outputs, as the browser needs them.

    The tensors are copies, since an output of a graph cannot be its input.
    """
    found = [each for outputs in parts.values() for each in outputs.values()]
    return tuple(
        each.values.half()  # files of matrices contain float16 (see `matrix_file`)
        if isinstance(each, Matrices) and not each.exact
        else each.values.clone()
        for each in found
        if not isinstance(each, Constant | Inserted)
    )


def describe_input(run: Run, given: Input, sample: Tensor) -> dict:
    """Return the key, the kind, the shape and the type of an input, and the choices of an index."""
    choices = {"class": run.classes, "photo": list_photos()}.get(given.kind, [])
    if given.kind == "choice":
        choices = given.key.choices
    found = describe_tensor(given.key.name, given.kind, sample)
    return found | ({"choices": [*choices]} if choices else {})


def describe_tensor(key: str, kind: str, sample: Tensor) -> dict:
    """Return the key, the kind, the shape and the type of an input."""
    dtype = str(sample.dtype).removeprefix("torch.")
    return {"key": key, "kind": kind, "shape": [*sample.shape], "type": dtype}


def describe_output(path: str, part: str, output: Output) -> dict:
    """Return the path, the part of the answer, the kind and the constant fields of an output."""
    constants = {each.name for each in fields(output)} - {"values"}
    place = {"path": path, "part": part, "kind": type(output).__name__.lower()}
    return place | {name: getattr(output, name) for name in constants}


def name_output(described: Mapping[str, str]) -> str:
    """Return the name of an output in its graph."""
    return f"{described['part']}.{described['path']}"


def export_graph(
    recorded: nn.Module, tensors: tuple[Tensor, ...], inputs: list[str], outputs: list[str]
) -> Any:
    """Return the `onnx_ir.Model` of a module that `make_fx` has recorded with `tensors`.

    `inputs` and `outputs` are the names in the graph.
    """
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # from packages that torch's exporter uses
        model = torch.onnx.export(
            recorded,
            tensors,
            input_names=inputs,
            output_names=outputs,
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
