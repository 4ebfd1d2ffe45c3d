"""Test all views of the page with every Vision Transformer of timm that the page accepts.

    python benchmarks/timm_sweep.py                       # all models
    python benchmarks/timm_sweep.py --only "vit_base_r*"  # only models with matching names
    python benchmarks/timm_sweep.py --keep sweep.jsonl    # a later call continues there

Weights are random and nothing is downloaded. One model is in memory at a time. Each model is built
at its own image size, and everything that the page shows is computed: predictions, attention of
each layer, rollout, class maps, logit lens, residual stream, head ablation, attention distance,
position and patch embeddings, and the architecture diagram. A model that cannot be shown must raise
a `VitdemoError` with an explanation. Any other exception is a defect of vitdemo.

Models with more than `MAX_PARAMETERS_FULL_DEPTH` parameters are built with `REDUCED_DEPTH` layers.
Models with more than `MAX_PARAMETERS_FULL_WIDTH` parameters also have the width of
`REDUCED_WIDTH_OPTIONS`, unless a stem sets the width. The table lists these reductions. Integrated
Gradients, occlusion and head ablation need hundreds of passes, so they run on images of
`REDUCED_GRID_SIDE` x `REDUCED_GRID_SIDE` patches.
"""

import argparse
import fnmatch
import gc
import json
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import timm
import torch
from PIL import Image
from torch import nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vitdemo.analyses.architecture import load_model_parts  # noqa: E402
from vitdemo.analyses.class_attribution import compute_class_attribution  # noqa: E402
from vitdemo.analyses.head_ablation import compute_head_effects  # noqa: E402
from vitdemo.analyses.weights import compute_position_similarity, load_first_filters  # noqa: E402
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.errors import RunError, VitdemoError  # noqa: E402
from vitdemo.explain.attention import FUSIONS  # noqa: E402
from vitdemo.explain.attributions import METHODS, list_methods  # noqa: E402
from vitdemo.explain.logit_attribution import compute_logit_attribution  # noqa: E402
from vitdemo.explain.logit_lens import compute_logit_lens  # noqa: E402
from vitdemo.explain.qkv import compute_layer_qkv  # noqa: E402
from vitdemo.models import count_parameters, patch_side  # noqa: E402
from vitdemo.publishing.maps_file import compute_all_maps  # noqa: E402
from vitdemo.runs.timm_run import TimmRun, create_timm_run  # noqa: E402

# Parameters of the largest models with full depth, and with full width
MAX_PARAMETERS_FULL_DEPTH, MAX_PARAMETERS_FULL_WIDTH = 30e6, 120e6
REDUCED_DEPTH = 2
REDUCED_WIDTH_OPTIONS = {"embed_dim": 192, "num_heads": 3}
REDUCED_GRID_SIDE = 2


def main() -> int:
    """Print a table of all models; return exit code 1 if a model failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="pattern of model names (default: all)")
    parser.add_argument("--keep", type=Path, help="file for results, from which a call continues")
    args = parser.parse_args()
    done = read_saved_rows(args.keep)
    names = [name for name in timm.list_models() if fnmatch.fnmatch(name, args.only)]
    print("| architecture | result | px | patches | classes | reduced | seconds |")
    print("|---|---|---|---|---|---|---|", flush=True)
    refused, failed = 0, 0
    for name in names:
        row = done.get(name) or check_architecture(name)
        if args.keep and name not in done:
            with open(args.keep, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        if row["result"] == "not shown":
            refused += 1
            continue
        failed += not row["result"].startswith("works")
        print_row(row)
    print(f"\n{len(names) - refused} models are accepted; {failed} of them fail. "
          f"{refused} models are refused with an explanation.")  # fmt: skip
    return int(failed > 0)


def read_saved_rows(path: Path | None) -> dict[str, dict]:
    if path is None or not path.is_file():
        return {}
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["name"]: row for row in rows}


def print_row(row: dict) -> None:
    keys = ("result", "px", "patches", "classes", "reduced", "seconds")
    cells = (row.get(key, "") for key in keys)
    print(f"| `{row['name']}` | {' | '.join(map(str, cells))} |", flush=True)


def check_architecture(name: str) -> dict:
    """Test one architecture and return its row: {"name", "result", ...}."""
    started = time.monotonic()
    row = {"name": name}
    try:
        run = create_timm_run(f"timm:{name}", pretrained=False)
    except VitdemoError as error:
        return row | {"result": "not shown", "reason": str(error)}
    except Exception as error:  # the defects that this script looks for
        return row | {"result": f"**{type(error).__name__}: {error}**"}
    row |= {"px": run.spec.image_size, "classes": len(run.classes)}
    run, row["reduced"] = reduce_model(run)
    try:
        row["patches"], refused = check_views(run)
        row["result"] = "; ".join(["works", *refused])
    except VitdemoError as error:
        row["result"] = f"refused: {error}"
    except Exception as error:
        row["result"] = f"**{type(error).__name__}: {str(error)[:300]}**"
    gc.collect()
    return row | {"seconds": round(time.monotonic() - started, 1)}


def reduce_model(run: TimmRun) -> tuple[TimmRun, str]:
    """Reduce depth and width of a large `run`; return it and a description of the reduction."""
    if run.config["parameters"] <= MAX_PARAMETERS_FULL_DEPTH:
        return run, ""
    options, words = {"depth": REDUCED_DEPTH}, f"{REDUCED_DEPTH} layers"
    if run.config["parameters"] > MAX_PARAMETERS_FULL_WIDTH and can_set_width(run.spec.name):
        options |= REDUCED_WIDTH_OPTIONS
        words += f", width {REDUCED_WIDTH_OPTIONS['embed_dim']}"
    return replace(run, spec=replace(run.spec, options=options)), words


def can_set_width(name: str) -> bool:
    """Return whether the width can be set; a stem without a projection determines it."""
    with torch.device("meta"):
        embed = timm.create_model(name, depth=1).patch_embed
    return isinstance(embed.proj, nn.Conv2d)


def check_views(run: TimmRun) -> tuple[str, list[str]]:
    """Compute all views of `run`; return its patch grid and the refused views.

    Raises `AssertionError` for a map that is not finite, not float32 or differs in shape from the
    grid. Exceptions of the code are not caught.
    """
    image, context = make_noise_image(), AppContext([], None, torch.device("cpu"), [run])
    grid = check_attention(context, run, image)
    refused = check_weights(context, run)
    if run.classes:
        refused += check_quick_maps(context, run, image, grid)
    small = reduce_image_size(context, run)
    del context  # frees the memory of the model
    gc.collect()
    few = AppContext([], None, torch.device("cpu"), [small])
    if run.classes:
        check_slow_maps(few, small, image)
    else:
        check_refusals(few, small, image)
    return f"{grid[0]} x {grid[1]}", refused


def make_noise_image() -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (300, 260, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def reduce_image_size(context: AppContext, run: TimmRun) -> TimmRun:
    """Return `run` with an image size of few patches."""
    size = REDUCED_GRID_SIDE * patch_side(context.load_model(run))
    spec = replace(run.spec, image_size=size)
    preprocessing = replace(run.preprocessing, size=size)
    return replace(run, spec=spec, preprocessing=preprocessing, stamp=(*run.stamp, size))


def check_values(values: np.ndarray, shape: tuple[int, ...], what: str) -> None:
    assert values.shape == shape, f"{what} has shape {values.shape}, not {shape}"
    assert values.dtype == np.float32, f"{what} is {values.dtype}"
    assert np.isfinite(values).all(), f"{what} is not finite"


def check_attention(context: AppContext, run: TimmRun, image: Image.Image) -> tuple[int, int]:
    """Check prediction, attention, rollout and the file of all maps; return the patch grid."""
    (answers, problems), C = context.predict_all(image), len(run.classes)
    assert problems == [], problems
    assert len(answers) == (1 if C else 0)
    answer = context.predict(run, image)
    check_values(answer.probabilities, (C,), "prediction")
    look, (rows, columns) = context.trace_image(run, image), answer.grid
    L, H, N, _ = look.attention.shape
    assert look.num_prefix_tokens + rows * columns == N, "tokens do not add up"
    assert torch.allclose(look.attention.sum(-1), torch.ones(L, H, N), atol=1e-4)
    direct = context.load_model(run)(context.prepare_input(run.preprocessing, image)[1])[0]
    assert torch.allclose(look.logits, direct, atol=1e-3), (
        "the traced pass computes different logits"
    )
    for layer in range(1, L + 1):
        check_values(look.head_maps(layer), (H, rows, columns), f"attention of layer {layer}")
    for fusion in FUSIONS:
        rolled = look.rollout_map(L, fusion=fusion, discard_ratio=0.5)
        check_values(rolled, (rows, columns), f"rollout by {fusion}")
    for name, values in (("distance", look.distances), ("entropy", look.entropies)):
        check_values(values, (L, H), name)
    assert look.token_similarity.isfinite().all()
    compute_layer_qkv(context.load_model(run), look.tokens, 1)
    arrays = compute_all_maps(context, run, image)
    assert ("relevance" in arrays) == bool(C)
    return rows, columns


def check_weights(context: AppContext, run: TimmRun) -> list[str]:
    """Check filters, position embeddings and the parameter count of the diagram."""
    refused = []
    assert load_first_filters(context, run).count > 0
    try:
        similarity, grid, _ = compute_position_similarity(context, run)
        check_values(similarity, (grid[0] * grid[1],) * 2, "similarity of positions")
    except VitdemoError as error:
        refused.append(f"position embeddings refused: {error}")
    parts = sum(part.parameters for part in load_model_parts(context, run))
    assert parts == count_parameters(context.load_model(run)), (
        "the diagram does not contain all parameters"
    )
    return refused


def check_maps(maps: dict[str, np.ndarray], names: list[str], grid: tuple[int, int]) -> None:
    assert sorted(maps) == sorted(names), f"maps are {sorted(maps)}"
    for name, values in maps.items():
        check_values(values, grid, name)


def check_quick_maps(
    context: AppContext, run: TimmRun, image: Image.Image, grid: tuple[int, int]
) -> list[str]:
    """Check fast class maps, logit lens and residual stream at the full image size."""
    quick = [m.name for m in list_methods(context.load_model(run)) if not m.is_slow]
    drawn = compute_class_attribution(context, run, image, include_slow=False)
    check_maps({m.method.name: m.values for m in drawn.maps}, quick, grid)
    model, trace = context.load_model(run), context.trace_image(run, image)
    lens = compute_logit_lens(model, trace)
    check_values(lens.predictions, (trace.num_layers + 1, len(run.classes)), "logit lens")
    try:
        stream = compute_logit_attribution(model, trace)
    except VitdemoError as error:
        return [f"residual stream refused: {error}"]
    assert np.allclose(stream.contributions.total.numpy(), stream.logits, atol=1e-2)
    return []


def check_slow_maps(context: AppContext, run: TimmRun, image: Image.Image) -> None:
    """Check all class maps, maps of one class compared with another, and head ablation."""
    grid = (REDUCED_GRID_SIDE, REDUCED_GRID_SIDE)
    for against in (None, run.classes[-1]):
        drawn = compute_class_attribution(
            context, run, image, target=run.classes[0], against=against
        )
        names = list(METHODS) if against is None else [m.method.name for m in drawn.maps]
        check_maps({m.method.name: m.values for m in drawn.maps}, names, grid)
    effects = compute_head_effects(context, run, image)
    assert np.isfinite(effects.ablated_logits).all()


def check_refusals(context: AppContext, run: TimmRun, image: Image.Image) -> None:
    """Check that a model without classes refuses all views that need a class."""
    computations = [
        partial(f, context, run, image) for f in (compute_class_attribution, compute_head_effects)
    ]
    model, trace = context.load_model(run), context.trace_image(run, image)
    computations += [
        partial(f, model, trace) for f in (compute_logit_lens, compute_logit_attribution)
    ]
    for compute in computations:
        try:
            compute()
        except RunError:
            continue
        raise AssertionError(f"{compute.func.__name__} does not refuse a model without classes")


if __name__ == "__main__":
    sys.exit(main())
