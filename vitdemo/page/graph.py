"""Data of a view as a function of tensors, which can be recorded as a graph.

A static site runs the graphs in the browser, so that users see the data of their own photos. The
data have the form of the view's payload. The function returns only the parts that depend on the
image or on the graph's inputs, by their path:

    {"prediction.class": Choice(index, run.classes), "distances": Numbers(distances, digits=4)}

The other parts are those of any other image. Functions must not read the values of tensors, because
the operations of one image are recorded for all images. `bridge.fill` and `own_images.js` write the
outputs into data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vitdemo.analyses.class_attribution import choose_first_map
from vitdemo.context import AppContext, trace_model
from vitdemo.explain.checks import require_attention
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.page.state_key import ChoiceKey, FlagKey, StateKey
from vitdemo.page.state_keys import IMAGE
from vitdemo.runs import Run

VALUE = "value."  # first part of the paths of the values of a loop


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers of a payload, as nested lists with at most `digits` decimals.

    In a vector, NaN is left out.
    """

    values: Tensor
    digits: int = 0


@dataclass(frozen=True, eq=False)
class Choice:
    """One of `choices` per index of `values`, a scalar or a vector; -1 is left out."""

    values: Tensor
    choices: Sequence[object]


@dataclass(frozen=True, eq=False)
class Positions:
    """Positions [row, column], from 1, of the true elements of a bool matrix."""

    values: Tensor


@dataclass(frozen=True, eq=False)
class Matrices:
    """Matrices (L, M, R, C) of a payload: one file, or a list of files for equal parts of L.

    The values are float16, or float32 if `exact`.
    """

    values: Tensor
    exact: bool = False


@dataclass(frozen=True, eq=False)
class Pixels:
    """RGB image of a payload, (3, height, width) uint8, as a file."""

    values: Tensor


@dataclass(frozen=True)
class Constant:
    """A value that differs from the recorded value, and depends neither on image nor on inputs."""

    value: object


@dataclass(frozen=True)
class Inserted:
    """A value that becomes a new element of a list, before the element of this index."""

    value: object


@dataclass(frozen=True, eq=False)
class Patches:
    """Patches as a text such as "8.8.3f", the true elements of a bool matrix."""

    values: Tensor


@dataclass(frozen=True, eq=False)
class Hidden:
    """A tensor that is not part of the payload: see `Graph.changes` and `Loop`."""

    values: Tensor


# The fields other than `values` do not depend on the image.
Output = Numbers | Choice | Positions | Matrices | Pixels | Patches | Constant | Inserted | Hidden
Outputs = dict[str, Output]
# Arguments: the model's run, the view state, the model's crop of the image (3, S, S) uint8, and one
# tensor for each input. A function that also changes controls returns outputs of data and controls.
Compute = Callable[..., "Outputs | tuple[Outputs, Outputs]"]


@dataclass(frozen=True)
class Input:
    """State key whose value is an input of a graph, so one graph holds for all its values.

    `start` is the value in the recorded data that the outputs complete. `kind` says how
    `own_images.js` encodes a value, and `make_sample` returns a tensor of the input's shape and
    type:

    - "class": index () of the class in the run's classes, or -1
    - "choice": index () of the key's choices
    - "flag": bool ()
    - "number": float32 ()
    - "heads": bool (L, H), True for the heads of a text such as "3.1 4.2"
    - "patches": bool (8, 8), True for the patches of a text such as "8.8.3f"
    - "photo": index () of the example photo, or -1
    """

    key: StateKey
    kind: str
    start: object
    make_sample: Callable[[AppContext, Run], Tensor]


def make_class_input(key: StateKey) -> Input:
    return Input(key, "class", key.start, lambda context, run: torch.tensor(0))


def make_number_input(key: StateKey, start: float) -> Input:
    return Input(key, "number", start, lambda context, run: torch.tensor(1.0))


def make_choice_input(key: ChoiceKey) -> Input:
    return Input(key, "choice", key.start, lambda context, run: torch.tensor(0))


def make_flag_input(key: FlagKey) -> Input:
    return Input(key, "flag", key.start, lambda context, run: torch.tensor(True))


def make_layer_input(key: StateKey) -> Input:
    """Return the input of a layer (1..L); 0 is the initial layer, see `select_layer`."""
    return make_number_input(key, 0)


def select_layer(context: AppContext, run: Run, chosen: Tensor) -> Tensor:
    """Return the index () of the `chosen` layer (1..L), as `bridge.choose_layer` does."""
    layers = torch.tensor(context.count_layers(run))
    first = torch.tensor(choose_first_map(context, run)[1])
    return torch.where(chosen > 0, torch.minimum(chosen.round().long(), layers), first)


def make_heads_input(key: StateKey) -> Input:
    def make_sample(context: AppContext, run: Run) -> Tensor:
        model = context.load_model(run)
        require_attention(run, model)
        return torch.zeros(len(model.blocks), model.blocks[0].attn.num_heads, dtype=torch.bool)

    return Input(key, "heads", key.start, make_sample)


def make_patches_input(key: StateKey, grid: tuple[int, int]) -> Input:
    return Input(key, "patches", key.start, lambda context, run: torch.zeros(grid).bool())


PHOTO = Input(IMAGE, "photo", None, lambda context, run: torch.tensor(0))


def trace_crop(context: AppContext, run: Run, crop: Tensor) -> ImageTrace:
    """Return the trace of a crop (3, S, S) uint8. Raises `RunError` for an unsupported model."""
    return trace_model(context.load_model(run), run, None, run.preprocessing(crop[None]))


def get_run_crop(context: AppContext, run: Run) -> tuple[int, float, str]:
    return run.preprocessing.size, run.preprocessing.crop, run.preprocessing.interpolation


@dataclass(frozen=True)
class Graph:
    """Function of tensors for the data of a view.

    If the data are a list with one element per model, `models` is the path of this list, and the
    function computes one element. Otherwise, the data are those of the state's model. The data also
    contain the values of the state keys `echoes`. `get_crop` returns side, share and interpolation
    of the crop of the image, if it is not the run's crop.

    `changes` is a graph that changes the image before, for the state's model. It has the hidden
    outputs "is_changed" (), and "changed", the changed image (3, S, S) uint8. The run's crop
    of the changed image is then the second argument of `compute`.
    """

    compute: Compute
    models: str = ""
    inputs: Sequence[Input] = ()
    echoes: Sequence[StateKey] = ()
    get_crop: Callable[[AppContext, Run], tuple[int, float, str]] = get_run_crop
    changes: "Graph | None" = None

    @property
    def all_inputs(self) -> list[Input]:
        """The inputs, and those of the graph that changes the image."""
        return [*self.inputs, *(self.changes.inputs if self.changes else ())]


@dataclass(frozen=True)
class Loop:
    """A part of a task as graphs: a browser runs `start`, and repeats `step`.

    The outputs of `hide` are the values of the loop. `start.compute` returns the first ones.
    `step.compute` has one more argument, the values by name, and returns the next ones. The values
    "done", "total" () int64 and "is_finished" () bool are the progress, and `text` describes it.

    The other outputs of the last step are the result. With a `view`, they change the view's data.
    Without, they are the result of the task. `given` are values of state keys that replace those of
    the user.
    """

    text: str
    start: Graph
    step: Graph
    view: str = ""
    given: Mapping[StateKey, object] = field(default_factory=dict)


def hide(values: Mapping[str, Tensor]) -> Outputs:
    """Return the values of a loop as outputs."""
    return {f"{VALUE}{name}": Hidden(each) for name, each in values.items()}


def get_values(outputs: Outputs) -> dict[str, Tensor]:
    """Return the values of a loop among the outputs of its graph."""
    found = {name: each for name, each in outputs.items() if name.startswith(VALUE)}
    return {name.removeprefix(VALUE): each.values for name, each in found.items()}
