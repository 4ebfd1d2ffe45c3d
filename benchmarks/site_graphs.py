"""Compare each graph of a static site with the Python function that it was recorded from.

    pip install onnx onnxscript onnxruntime        # onnxruntime is needed for this script only
    python benchmarks/site_graphs.py

The script exports the graphs of all views in `FEATURE.graphs`, for each included model and each
recorded state of the options, and the loops of tasks, and runs them with ONNX Runtime. The images
are the example photos and their rotations; the other inputs are random. Float32 outputs may differ
by `MAX_DIFFERENCE`, as a share of the largest value if it is above 1. Float16 outputs may differ by
one rounding step, and pixels by one grey level. Other whole numbers, such as indices of classes,
must be equal. The gradient of max pooling jumps where two inputs are nearly equal, so Integrated
Gradients of `conv-baseline` differ by up to 0.003 between float32 and float64 in Python too. The
limit of loops of such models is therefore `MAX_JUMP`.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vitdemo import console  # noqa: E402
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.data.image_files import (  # noqa: E402
    crop_and_resize,
    crop_visible_square,
    load_image,
)
from vitdemo.data.photos import example_files  # noqa: E402
from vitdemo.page import FEATURE  # noqa: E402
from vitdemo.page.graph import VALUE, Graph, Input, Loop, get_values  # noqa: E402
from vitdemo.page.state_key import ChoiceKey  # noqa: E402
from vitdemo.page.state_keys import IMAGE, MODEL  # noqa: E402
from vitdemo.page.view_state import ViewState, get_needs  # noqa: E402
from vitdemo.runs import Run  # noqa: E402
from vitdemo.site.export import add_need  # noqa: E402
from vitdemo.site.graphs import (  # noqa: E402
    CHANGED_CROP,
    CROP,
    FOLDER,
    divide_outputs,
    list_tensors,
)
from vitdemo.site.record import Recorder, describe_starts  # noqa: E402
from vitdemo.site.states import StateLister, list_images  # noqa: E402

MAX_DIFFERENCE = 1e-4  # of float32 outputs
MAX_JUMP = 1e-2  # the same, for loops of models with max pooling
MAX_STEPS = 1  # rounding steps of float16 outputs, plus `MAX_DIFFERENCE`
MAX_NUMBER = 180  # of an input
SHARE = 0.2  # of masks
STEPS = 3  # of a loop
RunGraph = Callable[[dict[str, np.ndarray]], list[np.ndarray]]
Differences = dict[str, float]  # largest difference by kind of output
FLOAT32, FLOAT16, WHOLE = "float32", "float16", "whole numbers"


def main() -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20, help="number of images per graph")
    parser.add_argument("--views", nargs="+", help="names of views and tasks (default: all)")
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "assets" / "runs", help="folder that contains the runs"
    )
    args = parser.parse_args()
    context = AppContext([args.runs], None, torch.device("cpu"))
    images = list_squares(args.count)
    print(f"| view | model | graphs | {FLOAT32} | {FLOAT16} | {WHOLE} |\n|---|---|---|---|---|---|")
    rows: list[Differences] = []
    for name in args.views or [*FEATURE.graphs, *FEATURE.loops]:
        with tempfile.TemporaryDirectory() as temporary:
            compare = compare_graphs if name in FEATURE.graphs else compare_loops
            rows += print_rows(name, compare(context, name, images, Path(temporary)))
    largest = max(row[FLOAT32] for row in rows)
    print(f"\n{len(images)} images per graph. Largest difference of {FLOAT32}: {largest:.1e}")


def print_rows(name: str, found: Iterable[tuple[Run, Differences]]) -> list[Differences]:
    """Print the largest differences of a view for each model, and return those of all graphs."""
    by_run: dict[str, list[Differences]] = {}
    for run, differences in found:
        by_run.setdefault(run.name, []).append(differences)
    for run_name, rows in by_run.items():
        cells = [f"{max(row[kind] for row in rows):.1e}" for kind in (FLOAT32, FLOAT16, WHOLE)]
        print(f"| {name} | {run_name} | {len(rows)} | {' | '.join(cells)} |", flush=True)
    return [row for rows in by_run.values() for row in rows]


def list_squares(count: int) -> list[Image.Image]:
    """Return squares of the example photos, then of the photos rotated by 90, 180, ... degrees."""
    photos = [crop_visible_square(load_image(file)) for file in example_files()]
    return [photos[i % len(photos)].rotate(90 * (i // len(photos))) for i in range(count)]


def compare_graphs(
    context: AppContext, name: str, images: list[Image.Image], folder: Path
) -> Iterator[tuple[Run, Differences]]:
    """Write each graph of the view `name` to `folder`, and yield its run and differences."""
    writer, graph = Recorder(context, folder).graphs, FEATURE.graphs[name]
    lister, first = StateLister(context, {}), list_images()[0]
    needed, seen = get_needs(add_need(FEATURE.payloads[name], MODEL)).watched, set()
    for state in lister.list_states(needed, describe_starts(graph) | {IMAGE.name: first}):
        options = {key: value for key, value in state.items() if key != IMAGE.name}
        for entry in writer.describe_graphs(graph, state)["graphs"]:
            if entry["file"] not in seen:
                seen.add(entry["file"])
                run = context.find_run(entry["run"])
                given = ViewState(None, run.name, options)
                run_graph = make_runner(folder / FOLDER / entry["file"])
                yield run, compare_graph(context, graph, run, given, images, run_graph)


def compare_loops(
    context: AppContext, name: str, images: list[Image.Image], folder: Path
) -> Iterator[tuple[Run, Differences]]:
    """Write each loop of the task `name` to `folder`, and yield its run and differences."""
    writer = Recorder(context, folder).graphs
    for run in context.classifier_runs():
        for loop in FEATURE.loops[name](context, run):
            entry = writer.describe_loop(run, loop)
            files = [folder / FOLDER / entry[part]["file"] for part in ("start", "step")]
            yield run, compare_loop(context, loop, run, images, *map(make_runner, files))


def make_runner(file: Path) -> RunGraph:
    """Return a function that runs the graph in `file` with ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file))
    names = [each.name for each in session.get_inputs()]  # without inputs that the graph ignores
    return lambda inputs: session.run(None, {name: inputs[name] for name in names})


def compare_graph(
    context: AppContext,
    graph: Graph,
    run: Run,
    state: ViewState,
    images: list[Image.Image],
    run_graph: RunGraph,
) -> Differences:
    """Return the largest difference from Python by kind of output.

    `run_graph` returns the outputs for the inputs of the graph. Raises `ValueError` if a difference
    is too large.
    """
    largest = dict.fromkeys((FLOAT32, FLOAT16, WHOLE), 0.0)
    generator = torch.Generator().manual_seed(0)
    for i, image in enumerate(images):
        given = crop_images(context, graph, run, image, images[i - 1])
        for each in graph.inputs:
            given[each.key.name] = draw_input(each, context, run, generator)
        with torch.no_grad():
            found = graph.compute(context, run, state, *given.values())
        actual = run_graph({name: tensor.numpy() for name, tensor in given.items()})
        add_differences(largest, run, list_tensors(divide_outputs(found)), actual)
    return largest


def compare_loop(
    context: AppContext,
    loop: Loop,
    run: Run,
    images: list[Image.Image],
    run_start: RunGraph,
    run_step: RunGraph,
) -> Differences:
    """Compare the start and `STEPS` steps of a loop, as `compare_graph` does for a graph."""
    largest = dict.fromkeys((FLOAT32, FLOAT16, WHOLE), 0.0)
    state, generator = ViewState(None, run.name, {}), torch.Generator().manual_seed(0)
    modules = context.load_model(run).modules()
    limit = MAX_JUMP if any(isinstance(each, nn.MaxPool2d) for each in modules) else MAX_DIFFERENCE
    for i, image in enumerate(images):
        inputs = {e.key.name: draw_input(e, context, run, generator) for e in loop.start.inputs}
        values = None
        for graph, run_graph in [(loop.start, run_start), *STEPS * [(loop.step, run_step)]]:
            given = crop_images(context, graph, run, image, images[i - 1]) | inputs
            tensors = [*given.values(), *([] if values is None else [values])]
            named = {f"{VALUE}{name}": each for name, each in (values or {}).items()}
            with torch.no_grad():
                found = graph.compute(context, run, state, *tensors)
            copies = {name: each.numpy() for name, each in (given | named).items()}
            actual = run_graph(copies)
            add_differences(largest, run, list_tensors(divide_outputs(found)), actual, limit)
            values = get_values(found)
    return largest


def add_differences(
    largest: Differences,
    run: Run,
    expected: Iterable[torch.Tensor],
    actual: list[np.ndarray],
    max_difference: float = MAX_DIFFERENCE,
) -> None:
    """Add the differences of outputs to `largest`. Raises `ValueError` as `compare_graph`."""
    for wanted, got in zip(expected, actual, strict=True):
        kind, difference, limit = measure_difference(got, wanted.numpy(), max_difference)
        if not difference <= limit:
            raise ValueError(f"an output of {run.name} differs by {difference:.1e}")
        largest[kind] = max(largest[kind], difference)


def crop_images(
    context: AppContext, graph: Graph, run: Run, image: Image.Image, changed: Image.Image
) -> dict[str, torch.Tensor]:
    """Return the images that `graph` receives, by the name of the input."""
    shown = {CROP: image} | ({CHANGED_CROP: changed} if graph.changes else {})
    return {name: crop_image(context, graph, run, each) for name, each in shown.items()}


def crop_image(context: AppContext, graph: Graph, run: Run, image: Image.Image) -> torch.Tensor:
    pixels = np.array(crop_and_resize(image, *graph.get_crop(context, run)))
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def draw_input(
    given: Input, context: AppContext, run: Run, generator: torch.Generator
) -> torch.Tensor:
    """Return a random tensor for an input."""
    sample, key = given.make_sample(context, run), given.key
    if sample.dtype == torch.bool:
        return torch.rand(sample.shape, generator=generator) < SHARE
    if given.kind == "choice":
        return torch.randint(len(key.choices), (), generator=generator)
    if sample.dtype == torch.int64:  # an index, or -1
        count = len(run.classes) if given.kind == "class" else len(list_images())
        return torch.randint(-1, count, (), generator=generator)
    if isinstance(key, ChoiceKey):
        choices = [*key.choices]
        return torch.tensor(float(choices[torch.randint(len(choices), (), generator=generator)]))
    share = torch.rand((), generator=generator)
    value = key.low + share * (min(key.high, MAX_NUMBER) - key.low)
    return value.round() if key.step == 1 else value


def measure_difference(
    actual: np.ndarray, expected: np.ndarray, max_difference: float
) -> tuple[str, float, float]:
    """Return the kind of an output, its largest difference, and the limit of the difference.

    `max_difference` is the limit of float32 outputs.
    """
    if actual.shape != expected.shape:
        raise ValueError(f"the shape is {actual.shape} instead of {expected.shape}")
    differences = np.abs(actual.astype(float) - expected.astype(float))
    is_missing = np.isnan(actual.astype(float)) & np.isnan(expected.astype(float))
    difference = float(np.where(is_missing, 0, differences).max(initial=0))
    if expected.dtype == np.float32:
        scale = max(1.0, float(np.nanmax(np.abs(expected), initial=0)))
        return FLOAT32, difference / scale, max_difference
    if expected.dtype == np.float16:
        step = float(np.spacing(np.abs(expected).max(initial=0)))
        return FLOAT16, difference, MAX_STEPS * step + MAX_DIFFERENCE
    return WHOLE, difference, float(expected.dtype == np.uint8)


if __name__ == "__main__":
    main()
