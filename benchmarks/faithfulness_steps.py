"""How many steps a faithfulness curve needs: scores at few steps against one step per patch.

    python benchmarks/faithfulness_steps.py --images 50 --only vit-scratch --fill drop

The images are a stratified, seeded draw from each run's validation split. For each image the curves
of the fast maps and of both image baselines are measured once with one step per patch. A score at
fewer steps uses some points of the same curve, so the difference is the error of the step count
only. Columns: mean (bias) and standard deviation of this error over images and maps, standard
deviation of the error of a difference between two maps, the images on which another map leads, and
the share of pairs of maps whose order changes. `cosine` spaces the steps more closely at both ends.
Below are the processor seconds of one image's test: the random orders and all fast maps, without
transformed copies.
"""

import argparse
import itertools
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.faithfulness import draw_validation_images, machine  # noqa: E402
from vitdemo import attributions, data, faithfulness, runs  # noqa: E402
from vitdemo.training import pick_device  # noqa: E402
from vitdemo.training.devices import autocast_helps  # noqa: E402

STEPS = (4, 8, 12, 16, 24, 32)
TIMED = (4, 8, 16, 32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--timed", type=int, default=2, help="images to time the page's test on")
    parser.add_argument("--fill", default="mean", choices=faithfulness.FILLS)
    parser.add_argument("--runs", type=Path, default=ROOT / "assets" / "runs")
    parser.add_argument("--only", nargs="+", required=True, metavar="RUN")
    parser.add_argument("--data", type=Path, help="CIFAR-10's folder (default: data)")
    args = parser.parse_args()
    device, source = pick_device("cpu"), data.open_source(args.data, download=False)
    print(machine(device), flush=True)
    for run in runs.find_runs(args.runs)[0]:
        if run.name not in args.only:
            continue
        model = runs.load_model(run, device).requires_grad_(False)
        images = run.preprocessing(draw_validation_images(run, source, args.images).images)
        curves = measure_until_stopped(model, images, args.fill)
        print(f"\n**{run.name}, replacement: {args.fill}, {len(curves)} validation images**\n")
        print(step_table(curves), flush=True)
        for steps in TIMED:
            timed = images[: args.timed]
            seconds = [time_test(model, image[None], args.fill, steps) for image in timed]
            print(f"{steps} steps: {np.median(seconds):.2f} processor seconds", flush=True)


def measure_until_stopped(model: nn.Module, images: Tensor, fill: str) -> list[faithfulness.Truth]:
    """Curves with one step per patch of each image, or of those before Ctrl-C."""
    curves = []
    try:
        for image in images:
            started = time.process_time()
            curves.append(measure_curves(model, image[None], fill, None))
            seconds = time.process_time() - started
            print(f"{len(curves)}: {seconds:.1f} processor seconds", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return curves


@torch.inference_mode(False)
def measure_curves(
    model: nn.Module, image: Tensor, fill: str, steps: int | None, random_orders: int = 0
) -> faithfulness.Truth:
    """Curves of the fast maps of the predicted class and of the image baselines, (1, 3, S, S)."""
    with torch.no_grad():
        target = int(model(image).argmax())
    fast = [method.name for method in attributions.methods_for(model) if not method.long]
    grid = attributions.cell_grid(model, image)
    maps = attributions.attribute_many(fast, model, image, target)
    maps = {name: faithfulness.resampled(values, grid)[0] for name, values in maps.items()}
    maps[faithfulness.EDGES] = faithfulness.edge_map(image, grid)
    with torch.autocast(image.device.type, torch.bfloat16, enabled=autocast_helps(image.device)):
        return faithfulness.measure(
            model, image, target, maps, fill=fill, steps=steps, random_orders=random_orders
        )


def step_table(curves: list[faithfulness.Truth]) -> str:
    """Markdown: the error of each number of steps."""
    patches = len(curves[0].shares) - 1
    exact = score_at(curves, np.arange(patches + 1))
    lines = [
        "| steps | spacing | bias | sd | sd of a difference | another leader | pairs reordered |",
        "|---|---|---|---|---|---|---|",
    ]
    for steps, spacing in itertools.product(STEPS, ("even", "cosine")):
        found = score_at(curves, places_of(patches, steps, spacing))
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


def places_of(patches: int, steps: int, spacing: str) -> np.ndarray:
    """The numbers of patches (K+1,) that are removed at each step."""
    share = np.linspace(0, 1, steps + 1)
    if spacing == "cosine":
        share = (1 - np.cos(math.pi * share)) / 2
    return np.unique((patches * share).round().astype(int))


def score_at(curves: list[faithfulness.Truth], places: np.ndarray) -> np.ndarray:
    """Insertion minus deletion area (N, M) of every map but for the centre, at these points."""
    names = [name for name in curves[0].deletion if name != faithfulness.CENTRE]
    return np.array(
        [
            [
                float(
                    faithfulness.area(
                        found.shares[places], (found.insertion[name] - found.deletion[name])[places]
                    )
                )
                for name in names
            ]
            for found in curves
        ]
    )


def time_test(model: nn.Module, image: Tensor, fill: str, steps: int) -> float:
    started = time.process_time()
    measure_curves(model, image, fill, steps, faithfulness.RANDOM_ORDERS)
    return time.process_time() - started


if __name__ == "__main__":
    main()
