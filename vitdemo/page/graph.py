"""Data of a view as a function of tensors, which can be recorded as a graph.

A static site runs the graphs in the browser, so that users see the data of their own photos. The
data have the form of the view's payload. The function returns only the parts that depend on the
image, by their path:

    {"prediction.class": Choice(index, run.classes), "distances": Numbers(distances, digits=4)}

The other parts are those of any other image. Functions must not read the values of tensors, because
the operations of one image are recorded for all images.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from vitdemo.page.view_state import ViewState
from vitdemo.runs import Run


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers of a payload, as nested lists with at most `digits` decimals."""

    values: Tensor
    digits: int


@dataclass(frozen=True, eq=False)
class Choice:
    """One of `choices` per index of `values`, a scalar or a vector."""

    values: Tensor
    choices: Sequence[str]


@dataclass(frozen=True, eq=False)
class Matrices:
    """Matrices (L, M, R, C) of a payload: one file, or a list of files for equal parts of L."""

    values: Tensor


@dataclass(frozen=True, eq=False)
class Pixels:
    """RGB image of a payload, (3, height, width) uint8, as a file."""

    values: Tensor


# The fields other than `values` do not depend on the image.
Output = Numbers | Choice | Matrices | Pixels
# Arguments: the model, its run, the view state, and the model's crop of the image (3, S, S) uint8.
Compute = Callable[[nn.Module, Run, ViewState, Tensor], dict[str, Output]]


@dataclass(frozen=True)
class Graph:
    """Function of tensors for the data of a view.

    If the data are a list with one element per model, `models` is the path of this list, and the
    function computes one element. Otherwise, the data are those of the state's model.
    """

    compute: Compute
    models: str = ""
