"""Measure how often the faithfulness test rates a map without model information as faithful.

    python benchmarks/false_alarms.py --images 100 --only vit-scratch --fill drop

Four such maps are tested on validation images, for the class that the model predicts. A blob at a
random place and a blob at the centre do not use the image. The edge map uses the image. The mean
relevance of all other images in the sample uses the model. The table has the percentage of images
on which each map is significantly better than random orders, than its transformed copies, and than
both. The first line has the mean score of relevance when the logits are divided by a temperature.
(For more random maps, see `tests/explain/faithfulness/test_baselines.py`.)
"""

import copy
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import run_program  # noqa: E402
from benchmarks.faithfulness import make_run_parser, open_subjects  # noqa: E402
from vitdemo.explain import attributions, faithfulness  # noqa: E402
from vitdemo.explain.faithfulness import SIGNIFICANCE_LEVEL  # noqa: E402
from vitdemo.explain.faithfulness.baselines import centre_map  # noqa: E402
from vitdemo.metrics.intervals import wilson_interval  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402
from vitdemo.training.devices import use_fast_precision  # noqa: E402

TESTED_TEMPERATURES = (0.5, 1.0, 2.0, 4.0)


def main() -> None:
    parser = make_run_parser(__doc__, images=100, fill="drop")
    parser.add_argument(
        "--fixed", action="store_true", help="only the maps that do not use the image"
    )
    args = parser.parse_args()
    for run, model, images in open_subjects(args, choose_device("cpu")):
        print(f"\n**{run.name}, replacement: {args.fill}, {len(images)} validation images**\n")
        if not args.fixed:
            print(describe_temperature_effect(model, images, args.fill), flush=True)
        print(f"\n{alarm_table(model, images, args.fill, args.fixed)}", flush=True)


def alarm_table(model: nn.Module, images: Tensor, fill: str, only_fixed: bool) -> str:
    """Format a row per kind of map, with 95% intervals of the percentages, as Markdown."""
    found, relevance = {}, None if only_fixed else compute_relevance_maps(model, images)
    for at, image in enumerate(images):
        maps = fixed_maps(attributions.cell_grid(model, image[None]), at)
        if not only_fixed:
            others = (relevance.sum(0) - relevance[at]) / (len(relevance) - 1)
            maps |= uninformed_maps(image[None], others)
        for name, values in maps.items():
            found.setdefault(name, []).append(
                compute_p_values(model, image[None], values, fill, at)
            )
    lines = ["| map | random orders | transformed copies | both |", "|---|---|---|---|"]
    for name, pairs in found.items():
        below = np.array(pairs) <= SIGNIFICANCE_LEVEL  # (N, 2)
        shares = [
            format_fraction_interval(part) for part in (below[:, 0], below[:, 1], below.all(axis=1))
        ]
        lines.append(f"| {name} | {' | '.join(shares)} |")
    return "\n".join(lines)


def fixed_maps(grid: tuple[int, int], seed: int) -> dict[str, Tensor]:
    """Return maps (rows, columns) that use neither the image nor the model."""
    return {
        "blob at a random place": random_blob(grid, seed),
        "blob at the centre": centre_map(*grid),
    }


def uninformed_maps(image: Tensor, others: Tensor) -> dict[str, Tensor]:
    """Return maps (rows, columns) that do not use the model's output for this image."""
    edges = faithfulness.edge_map(image, tuple(others.shape))
    return {"edge map": edges, "mean relevance of other images": others}


def random_blob(grid: tuple[int, int], seed: int) -> Tensor:
    """Return the negative distance (rows, columns) of each patch from a random patch."""
    place = int(torch.randint(math.prod(grid), (1,), generator=torch.Generator().manual_seed(seed)))
    row, column = divmod(place, grid[1])
    down, right = torch.arange(grid[0]) - row, torch.arange(grid[1]) - column
    return -torch.hypot(down[:, None].float(), right.float())


def compute_relevance_maps(model: nn.Module, images: Tensor) -> Tensor:
    """Return the relevance maps of the predicted classes, (N, rows, columns)."""
    with torch.no_grad():
        targets = torch.cat([model(part).argmax(1) for part in images.split(50)])
    pairs = zip(images.split(10), targets.split(10), strict=True)
    return torch.cat([attributions.attribute("relevance", model, *pair) for pair in pairs])


def compute_p_values(
    model: nn.Module, image: Tensor, values: Tensor, fill: str, seed: int
) -> tuple[float, float]:
    """Return p against random orders, and p against transformed copies of the map."""
    with torch.no_grad():
        target = int(model(image).argmax())
    settings = {"fill": fill, "steps": faithfulness.CURVE_STEPS, "seed": seed}
    with use_fast_precision(image.device):
        found = faithfulness.measure_perturbation_curves(
            model, image, target, {"own": values}, **settings
        )
        copies = faithfulness.score_transformed_copies(model, image, target, values, **settings)
    score = found.scores["own"]
    return faithfulness.rank_p_value(score, found.random_scores), faithfulness.rank_p_value(
        score, copies
    )


def describe_temperature_effect(model: nn.Module, images: Tensor, fill: str) -> str:
    """Return the mean score of relevance at several temperatures, with the same maps in all."""
    means, relevance = [], compute_relevance_maps(model, images)
    for temperature in TESTED_TEMPERATURES:
        tempered, scores = with_temperature(model, temperature), []
        for image, values in zip(images, relevance, strict=True):
            with torch.no_grad():
                target = int(model(image[None]).argmax())
            settings = {"fill": fill, "steps": faithfulness.CURVE_STEPS, "random_orders": 0}
            asked = tempered, image[None], target, {"own": values}
            found = faithfulness.measure_perturbation_curves(*asked, **settings)
            scores.append(found.scores["own"])
        means.append(f"{temperature:g}: {np.mean(scores):+.3f}")
    return f"Mean score of relevance by temperature of the softmax: {', '.join(means)}"


def with_temperature(model: nn.Module, temperature: float) -> nn.Module:
    """Return a copy whose logits are divided by `temperature`; the model is unchanged."""
    other = copy.copy(model)
    other._modules = dict(model._modules)
    head = copy.deepcopy(model.head)
    head.weight.data /= temperature
    head.bias.data /= temperature
    other._modules["head"] = head
    return other


def format_fraction_interval(below: np.ndarray) -> str:
    low, high = wilson_interval(below.sum(), len(below))
    return f"{below.mean():.0%} ({low:.0%} to {high:.0%})"


if __name__ == "__main__":
    run_program(main)
