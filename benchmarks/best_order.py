"""Measure how close the maps come to the best order of patches that a search finds.

    python benchmarks/best_order.py --images 30 --only vit-scratch --fill drop --passes 2000 8000

The images are a stratified, seeded sample of each run's validation split, and each order explains
the predicted class. The percentage of a score is 0% for the mean score of random orders, and 100%
for the highest score of all orders, which is that of the search or of a map. The tables contain
means over images with 95% t intervals. With several values of `--passes`, the percentages belong to
the first one, and the last table compares the scores of the searches. `--slow` also measures the
slow maps. Ctrl-C prints the results so far.
"""

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
from vitdemo.explain.best_order import search_best_order  # noqa: E402
from vitdemo.explain.removal_search import MAX_PASSES  # noqa: E402
from vitdemo.metrics.intervals import mean_interval  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402
from vitdemo.training.devices import use_fast_precision  # noqa: E402

STEPS = faithfulness.CURVE_STEPS
RANDOM_ORDERS = 2  # an order and its reverse order have the scores s and -s, so their mean is exact
Row = dict[str, float]  # score of each order on an image, and the processor seconds of each search


def main() -> None:
    parser = make_run_parser(__doc__, images=30, fill="drop")
    parser.add_argument(
        "--passes",
        type=int,
        nargs="+",
        default=[MAX_PASSES],
        help="maximum number of tested images",
    )
    parser.add_argument("--slow", action="store_true", help="also measure the slow maps")
    parser.add_argument("--device", default="cpu", help="auto, cuda, mps or cpu")
    args = parser.parse_args()
    for run, model, images in open_subjects(args, choose_device(args.device)):
        rows = measure_until_stopped(images, partial(measure_image, model, args=args))
        if len(rows) > 1:
            print(f"\n**{run.name}, replacement: {args.fill}, {len(rows)} validation images**\n")
            print(f"{share_table(rows, args.passes[0])}\n\n{search_table(rows, args.passes)}")


@torch.inference_mode(False)
def measure_image(model: nn.Module, image: Tensor, args) -> Row:
    """Measure the scores of maps, baselines and searches on `image` (1, 3, S, S)."""
    with torch.no_grad():
        target = int(model(image).argmax())
    grid = attributions.cell_grid(model, image)
    methods = [each for each in attributions.list_methods(model) if args.slow or not each.is_slow]
    names = [method.name for method in methods]
    maps = {
        faithfulness.EDGE_BASELINE: faithfulness.edge_map(image, grid),
        faithfulness.CENTRE_BASELINE: faithfulness.centre_map(*grid),
    }
    found = attributions.attribute_many(names, model, image, target)
    maps |= rank_patches(model, image, target, found)
    settings = {"fill": args.fill, "steps": STEPS}
    with use_fast_precision(image.device):
        measured = faithfulness.measure_perturbation_curves(
            model, image, target, maps, random_orders=0, **settings
        )
        start = maps[max(maps, key=measured.scores.get)]
        seconds, orders = {}, {}
        for most in args.passes:
            started = time.process_time()
            options = {"start": start, "max_passes": most, **settings}
            found = search_best_order(model, image, target, grid, **options)
            seconds[f"seconds {most}"] = time.process_time() - started
            orders[f"search {most}"] = found.values
        measured = faithfulness.measure_perturbation_curves(
            model, image, target, maps | orders, random_orders=RANDOM_ORDERS, **settings
        )
    return measured.scores | seconds | {"random": float(measured.random_scores.mean())}


def share_table(rows: list[Row], passes: int) -> str:
    """Format the mean score and the mean percentage of each order as Markdown."""
    orders = [name for name in rows[0] if not name.startswith(("seconds", "search"))]
    search = f"search {passes}"
    best = np.array([max(row[name] for name in [*orders, search]) for row in rows])  # (N,)
    chance = np.array([row["random"] for row in rows])
    lines = ["| order | mean score | % of the best order found |", "|---|---|---|"]
    scores = {name: np.array([row[name] for row in rows]) for name in [*orders, search]}
    for name, own in sorted(scores.items(), key=lambda item: -item[1].mean()):
        mean, low, high = mean_interval(100 * (own - chance) / (best - chance))
        share = "–" if name == "random" else f"{mean:.0f} ({low:.0f} to {high:.0f})"
        lines.append(f"| {name} | {own.mean():+.3f} | {share} |")
    higher = sum(row[search] < top for row, top in zip(rows, best, strict=True))
    return "\n".join([*lines, f"\nA map has a higher score than the search on {higher} images."])


def search_table(rows: list[Row], passes: list[int]) -> str:
    """Format the scores and the times of the searches as Markdown."""
    lines = ["| tested images, at most | mean score | processor seconds, median |", "|---|---|---|"]
    for most in passes:
        score = np.mean([row[f"search {most}"] for row in rows])
        seconds = np.median([row[f"seconds {most}"] for row in rows])
        lines.append(f"| {most:,} | {score:+.3f} | {seconds:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    run_program(main)
