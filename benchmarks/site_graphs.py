"""Compare each graph of a static site with the Python function that it was recorded from.

    pip install onnx onnxscript onnxruntime        # onnxruntime is needed for this script only
    python benchmarks/site_graphs.py

The script exports the graphs of all views in `FEATURE.graphs`, for each included model and each
recorded state of the options, and runs them with ONNX Runtime. The images are the example photos
and their rotations. Float32 outputs may differ by `MAX_DIFFERENCE`, and float16 outputs by one
rounding step. Whole numbers (indices of classes, pixels) must be equal.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vitdemo import console  # noqa: E402
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.data.image_files import crop_visible_square, load_image  # noqa: E402
from vitdemo.data.photos import example_files  # noqa: E402
from vitdemo.page import FEATURE  # noqa: E402
from vitdemo.page.graph import Graph  # noqa: E402
from vitdemo.page.state_keys import IMAGE, MODEL  # noqa: E402
from vitdemo.page.view_state import ViewState, get_needs  # noqa: E402
from vitdemo.runs import Run  # noqa: E402
from vitdemo.site.export import add_need  # noqa: E402
from vitdemo.site.graphs import FOLDER, INPUT_NAME, GraphWriter, list_values  # noqa: E402
from vitdemo.site.record import Recorder  # noqa: E402
from vitdemo.site.states import StateLister, list_images  # noqa: E402

MAX_DIFFERENCE = 1e-4  # of float32 outputs
MAX_STEPS = 1  # rounding steps of float16 outputs, plus `MAX_DIFFERENCE`
FLOAT32, FLOAT16, WHOLE = "float32", "float16", "whole numbers"


def main() -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20, help="number of images per graph")
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "assets" / "runs", help="folder that contains the runs"
    )
    args = parser.parse_args()
    context = AppContext([args.runs], None, torch.device("cpu"))
    images = list_squares(args.count)
    print(f"| view | model | graphs | {FLOAT32} | {FLOAT16} | {WHOLE} |\n|---|---|---|---|---|---|")
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name, run, state, file in write_graphs(context, Path(temporary)):
            differences = compare_graph(
                context, FEATURE.graphs[name], run, state, images, make_runner(file)
            )
            found.setdefault((name, run.name), []).append(differences)
    for (name, model), rows in found.items():
        cells = [f"{max(row[kind] for row in rows):.1e}" for kind in (FLOAT32, FLOAT16, WHOLE)]
        print(f"| {name} | {model} | {len(rows)} | {' | '.join(cells)} |")
    largest = max(row[FLOAT32] for rows in found.values() for row in rows)
    print(f"\n{len(images)} images per graph. Largest difference of {FLOAT32}: {largest:.1e}")


def list_squares(count: int) -> list[Image.Image]:
    """Return squares of the example photos, then of the photos rotated by 90, 180, ... degrees."""
    photos = [crop_visible_square(load_image(file)) for file in example_files()]
    return [photos[i % len(photos)].rotate(90 * (i // len(photos))) for i in range(count)]


def write_graphs(context: AppContext, folder: Path) -> Iterator[tuple[str, Run, ViewState, Path]]:
    """Write each graph to `folder`, and yield its view, run, state and file."""
    writer = GraphWriter(context, Recorder(context, folder).write)
    lister, first = StateLister(context, {}), list_images()[0]
    for name, graph in FEATURE.graphs.items():
        needed, seen = get_needs(add_need(FEATURE.payloads[name], MODEL)).watched, set()
        for state in lister.list_states(needed):
            if state.get(IMAGE.name, first) != first:
                continue
            options = {key: value for key, value in state.items() if key != IMAGE.name}
            for entry in writer.list_graphs(name, graph, state):
                if entry["file"] not in seen:
                    seen.add(entry["file"])
                    run = context.find_run(entry["run"])
                    given = ViewState(None, run.name, options)
                    yield name, run, given, folder / FOLDER / entry["file"]


def make_runner(file: Path) -> Callable[[dict[str, np.ndarray]], list[np.ndarray]]:
    """Return a function that runs the graph in `file` with ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file))
    return lambda inputs: session.run(None, inputs)


def compare_graph(
    context: AppContext,
    graph: Graph,
    run: Run,
    state: ViewState,
    images: list[Image.Image],
    run_graph: Callable[[dict[str, np.ndarray]], list[np.ndarray]],
) -> dict[str, float]:
    """Return the largest difference from Python by kind of output.

    `run_graph` returns the outputs for the inputs of the graph. Raises `ValueError` if a difference
    is too large.
    """
    model = context.load_model(run)
    largest = dict.fromkeys((FLOAT32, FLOAT16, WHOLE), 0.0)
    for image in images:
        crop = context.prepare_input(run.preprocessing, image)[0].transpose(2, 0, 1).copy()
        with torch.no_grad():
            expected = graph.compute(model, run, state, torch.from_numpy(crop))
        actual = run_graph({INPUT_NAME: crop})
        for name, wanted, got in zip(expected, list_values(expected), actual, strict=True):
            kind, difference, limit = measure_difference(got, wanted.numpy())
            if not difference <= limit:
                raise ValueError(f"'{name}' of {run.name} differs by {difference:.1e}")
            largest[kind] = max(largest[kind], difference)
    return largest


def measure_difference(actual: np.ndarray, expected: np.ndarray) -> tuple[str, float, float]:
    """Return the kind of an output, its largest difference, and the limit of the difference."""
    if actual.shape != expected.shape:
        raise ValueError(f"the shape is {actual.shape} instead of {expected.shape}")
    difference = float(np.abs(actual.astype(float) - expected.astype(float)).max(initial=0))
    if expected.dtype == np.float32:
        return FLOAT32, difference, MAX_DIFFERENCE
    if expected.dtype == np.float16:
        step = float(np.spacing(np.abs(expected).max(initial=0)))
        return FLOAT16, difference, MAX_STEPS * step + MAX_DIFFERENCE
    return WHOLE, difference, 0.0


if __name__ == "__main__":
    main()
