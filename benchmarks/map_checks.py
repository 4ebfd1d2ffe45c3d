"""Measure the sanity checks of the maps on validation images.

    python benchmarks/map_checks.py --images 30 --only vit-scratch

The images are a stratified, seeded sample of each run's validation split, and each map explains the
predicted class. A value is the mean over images of a rank correlation
(`vitdemo.explain.faithfulness.sanity`), with a 95% t interval over images. Slow maps are left out.
Ctrl-C prints the results so far.
"""

import sys
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
)
from vitdemo.explain.attributions import attribute_many, list_methods  # noqa: E402
from vitdemo.explain.faithfulness.sanity import MapCheck, check_maps  # noqa: E402
from vitdemo.metrics.intervals import mean_interval  # noqa: E402
from vitdemo.runs import Run  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402


def main() -> None:
    parser = make_run_parser(__doc__, images=30)
    parser.add_argument("--device", default="cpu", help="auto, cuda, mps or cpu")
    args = parser.parse_args()
    for run, model, images in open_subjects(args, choose_device(args.device)):
        found = measure_until_stopped(images, partial(measure_image, run, model))
        if len(found) > 1:
            print(f"\n**{run.name}, {len(found)} validation images**\n\n{check_table(found)}")


def measure_image(run: Run, model: nn.Module, image: Tensor) -> dict[str, MapCheck]:
    """Check the fast maps of `image` (1, 3, S, S) by name."""
    with torch.no_grad():
        target, runner_up = model(image).topk(2).indices[0].tolist()
    names = [method.name for method in list_methods(model) if not method.is_slow]
    maps = {name: own[0] for name, own in attribute_many(names, model, image, target).items()}
    return check_maps(model, image, maps, target, runner_up, run.preprocessing.std)


def check_table(found: list[dict[str, MapCheck]]) -> str:
    """Format the mean correlations of each map as Markdown."""
    layers = next(iter(found[0].values())).layers
    head = ["map", "noise ceiling", "runner-up class", "random head"]
    head += [f"{number} random layer{'s' * (number > 1)}" for number in layers[1:]]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name in found[0]:
        checks = [row[name] for row in found]
        columns = [[check.noise_ceiling for check in checks]]
        columns += [[np.nan if c.runner_up is None else c.runner_up for c in checks]]
        columns += np.transpose([check.cascade_means for check in checks]).tolist()
        lines.append(f"| {' | '.join([name, *map(format_correlations, columns)])} |")
    return "\n".join(lines)


def format_correlations(values: list[float]) -> str:
    """Format the mean of the defined `values` with its interval."""
    defined = np.array(values)[~np.isnan(values)]
    if len(defined) < 2:
        return "–"
    return "{:.2f} ({:.2f} to {:.2f})".format(*mean_interval(defined))


if __name__ == "__main__":
    run_program(main)
