"""Measure how many steps a faithfulness curve needs, compared with one step per patch.

    python benchmarks/faithfulness_steps.py --images 50 --only vit-scratch --fill drop

The images are a stratified, seeded sample of each run's validation split. For each image, the
curves of the fast maps and of both image baselines are measured once with one step per patch. A
score with fewer steps uses some points of the same curve, so the difference is the error of the
step count only. The columns are:

- bias, sd: mean and standard deviation of this error over images and maps
- sd of a difference: standard deviation of the error of a difference between two maps
- other best map: number of images on which the best map changes
- pairs reordered: percentage of pairs of maps whose order changes

The spacing `cosine` has smaller steps at both ends. The last lines are the processor seconds of the
test of one image, with random orders and all fast maps but without transformed copies.
"""

import itertools
import math
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import run_program  # noqa: E402
from benchmarks.faithfulness import (  # noqa: E402
    make_run_parser,
    measure_until_stopped,
    open_subjects,
    rank_patches,
)
from vitdemo.explain import attributions, faithfulness  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402
from vitdemo.training.devices import use_fast_precision  # noqa: E402

STEP_COUNTS = (4, 8, 12, 16, 24, 32)
TIMED_STEP_COUNTS = (4, 8, 16, 32)


def main() -> None:
    parser = make_run_parser(__doc__, images=50, fill="mean")
    parser.add_argument(
        "--timed", type=int, default=2, help="number of images on which the page's test is timed"
    )
    args = parser.parse_args()
    for run, model, images in open_subjects(args, choose_device("cpu")):
        measure = partial(measure_fast_maps, model, fill=args.fill, steps=None)  # a step per patch
        curves = measure_until_stopped(images, measure)
        print(f"\n**{run.name}, replacement: {args.fill}, {len(curves)} validation images**\n")
        print(step_table(curves), flush=True)
        for steps in TIMED_STEP_COUNTS:
            timed = images[: args.timed]
            seconds = [time_test(model, image[None], args.fill, steps) for image in timed]
            print(f"{steps} steps: {np.median(seconds):.2f} processor seconds", flush=True)


@torch.inference_mode(False)
def measure_fast_maps(
    model: nn.Module, image: Tensor, fill: str, steps: int | None, random_orders: int = 0
) -> faithfulness.PerturbationCurves:
    """Measure the fast maps of the predicted class and the baselines on `image` (1, 3, S, S)."""
    with torch.no_grad():
        target = int(model(image).argmax())
    fast = [method.name for method in attributions.list_methods(model) if not method.is_slow]
    grid = attributions.cell_grid(model, image)
    maps = attributions.attribute_many(fast, model, image, target)
    maps = rank_patches(model, image, target, maps)
    maps[faithfulness.EDGE_BASELINE] = faithfulness.edge_map(image, grid)
    with use_fast_precision(image.device):
        return faithfulness.measure_perturbation_curves(
            model, image, target, maps, fill=fill, steps=steps, random_orders=random_orders
        )


def step_table(curves: list[faithfulness.PerturbationCurves]) -> str:
    """Format the error of each number of steps as Markdown."""
    patches = len(curves[0].fractions) - 1
    exact = compute_scores_at(curves, np.arange(patches + 1))
    lines = [
        "| steps | spacing | bias | sd | sd of a difference | other best map | pairs reordered |",
        "|---|---|---|---|---|---|---|",
    ]
    for steps, spacing in itertools.product(STEP_COUNTS, ("even", "cosine")):
        found = compute_scores_at(curves, step_positions(patches, steps, spacing))
        error = found - exact  # (N, M)
        first, second = np.triu_indices(exact.shape[1], 1)
        pairs, true_pairs = (own[:, first] - own[:, second] for own in (found, exact))
        leaders = (found.argmax(1) != exact.argmax(1)).sum()
        turned = (np.sign(pairs) != np.sign(true_pairs)).mean()
        lines.append(
            f"| {steps} | {spacing} | {error.mean():+.4f} | {error.std():.4f} | "
            f"{(pairs - true_pairs).std():.4f} | {leaders} of {len(exact)} | {turned:.1%} |"
        )
    return "\n".join(lines)


def step_positions(patches: int, steps: int, spacing: str) -> np.ndarray:
    """Return the numbers of patches (K+1,) that are removed after each step."""
    share = np.linspace(0, 1, steps + 1)
    if spacing == "cosine":
        share = (1 - np.cos(math.pi * share)) / 2
    return np.unique((patches * share).round().astype(int))


def compute_scores_at(
    curves: list[faithfulness.PerturbationCurves], positions: np.ndarray
) -> np.ndarray:
    """Return the score (N, M) of every map except centre-first, from the points at `positions`."""
    names = [name for name in curves[0].deletion if name != faithfulness.CENTRE_BASELINE]
    return np.array(
        [
            [
                float(
                    faithfulness.area_under_curve(
                        found.fractions[positions],
                        (found.insertion[name] - found.deletion[name])[positions],
                    )
                )
                for name in names
            ]
            for found in curves
        ]
    )


def time_test(model: nn.Module, image: Tensor, fill: str, steps: int) -> float:
    started = time.process_time()
    measure_fast_maps(model, image, fill, steps, faithfulness.NUM_RANDOM_ORDERS)
    return time.process_time() - started


if __name__ == "__main__":
    run_program(main)
