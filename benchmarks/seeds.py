"""Measure how similar the attribution maps of training runs with different seeds are.

    python benchmarks/seeds.py --runs RUNS --data DATA --only first-steps-0 first-steps-1 ...

The runs have one recipe and different seeds. For each method, the table contains Spearman's rank
correlation of two runs' maps of the same test image. The maps explain the correct class. A cell is
the mean over images and pairs of runs, with a 95% interval over the images. The last column is the
mean correlation with the map of another image by the same run, which is the level without a
common image. `benchmarks/faithfulness.py --runs RUNS` measures the scores of the same runs.
"""

import itertools
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import make_parser, run_program  # noqa: E402
from benchmarks.faithfulness import draw_test_images  # noqa: E402
from vitdemo import data, runs  # noqa: E402
from vitdemo.explain import attributions  # noqa: E402
from vitdemo.explain.faithfulness.sanity import rank_correlation  # noqa: E402
from vitdemo.metrics.intervals import mean_interval  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402


def main() -> None:
    args = make_parser(__doc__, images=100).parse_args()
    device = choose_device(args.device)
    source = data.open_dataset(args.data, download=False)
    chosen = [
        run
        for run in runs.find_runs(args.runs)[0]
        if run.has_weights and (not args.only or run.name in args.only)
    ]
    found = [compute_maps(run, source, args.images, device) for run in chosen]
    print(f"{', '.join(run.name for run in chosen)}: {args.images} test images\n")
    print("| method | two seeds, same image | one seed, two images |\n|---|---|---|")
    for name in found[0]:
        maps = [each[name] for each in found]
        pairs = itertools.combinations(maps, 2)
        between = np.mean([correlate_maps(one, other) for one, other in pairs], axis=0)
        others = np.mean([correlate_maps(own, own.roll(1, 0)) for own in maps])
        mean, low, high = mean_interval(between)
        title = attributions.METHODS[name].title
        print(f"| {title} | {mean:.2f} ({low:.2f} to {high:.2f}) | {others:.2f} |")


def compute_maps(
    run: runs.Run, source: data.ImageDataset, count: int, device: torch.device
) -> dict[str, Tensor]:
    """Return the maps (count, rows, columns) of each method for the correct classes."""
    model = runs.load_model(run, device).requires_grad_(False)
    images = draw_test_images(source, count, run.spec.image_size)
    names = [method.name for method in attributions.list_methods(model)]
    pixels, rows = run.preprocessing(images.images.to(device)), []
    for image, label in zip(pixels, images.labels.tolist(), strict=True):
        rows.append(attributions.attribute_many(names, model, image[None], label))
        print(f"{run.name}: {len(rows)}", file=sys.stderr, flush=True)
    return {name: torch.cat([row[name] for row in rows]) for name in names}


def correlate_maps(first: Tensor, second: Tensor) -> np.ndarray:
    """Return the rank correlations (N,) of maps (N, rows, columns) of the same images."""
    return np.array([rank_correlation(*pair) for pair in zip(first, second, strict=True)])


if __name__ == "__main__":
    run_program(main)
