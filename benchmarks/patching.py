"""Measure activation patching between pairs of test images, layer by layer.

    python benchmarks/patching.py [--runs DIR] [--data DIR] [--images 100] [--only RUN ...]

Needs the test set. `--images` is the number of pairs. The images of a pair are random, with a fixed
seed, and the model predicts another class for each. After each layer, tokens of the first image are
replaced by tokens of the second image (`vitdemo.analyses.activation_patching`). A share is the
normalised logit difference of the two predicted classes. The tables have the mean share over pairs
for the special tokens, for all patches and for a random half of the patches, each with a 95%
interval over pairs, and the mean over pairs of the largest share of a patch, or of a group of
patches. The line below the table has the layer of the hand-over: from this layer on, the share of
the special tokens is larger than the share of all patches. The output is Markdown;
`docs/attention.md` has the results.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import make_parser, run_program  # noqa: E402
from vitdemo import runs  # noqa: E402
from vitdemo.analyses.activation_patching import (  # noqa: E402
    ImagePair,
    PatchingResult,
    compute_patching,
    load_image_pair,
)
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.errors import DataError  # noqa: E402
from vitdemo.metrics.intervals import mean_interval  # noqa: E402
from vitdemo.models import has_attention  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402

SEED = 0
MAX_DRAWS = 20  # per pair


def main() -> None:
    args = make_parser(__doc__, images=100).parse_args()
    context = AppContext([args.runs], args.data, choose_device(args.device))
    for run in context.trained_runs():
        if args.only and run.name not in args.only:
            continue
        if not has_attention(context.load_model(run)):
            print(f"{run.name} skipped: it has no attention", file=sys.stderr)
            continue
        print_patching_table(context, run, args.images)


def print_patching_table(context: AppContext, run: runs.Run, count: int) -> None:
    found = [compute_patching(context, pair) for pair in iter_pairs(context, run, count)]
    sets = {name: np.stack([each.curves[name] for each in found]) for name in found[0].curves}
    sets["half of the patches"] = np.stack([each.random.mean(axis=1) for each in found])
    side = found[0].side
    sets[f"{side} x {side} patches, largest"] = np.stack([find_largest(each) for each in found])
    print(f"\n**{run.name}, {count} pairs of test images**\n")
    print(f"| layers before the replacement | {' | '.join(sets)} |")
    print("|---" * (len(sets) + 1) + "|", flush=True)
    for layer in range(len(found[0].maps)):
        cells = [format_mean(shares[:, layer]) for shares in sets.values()]
        print(f"| {layer} | {' | '.join(cells)} |", flush=True)
    layers = [each for each in map(find_hand_over, found) if each is not None]
    if layers:
        low, median, high = np.percentile(layers, [5, 50, 95])
        print(f"\nHand-over at layer {median:.0f} (median; 5 to 95%: {low:.0f} to {high:.0f}).")


def iter_pairs(context: AppContext, run: runs.Run, count: int) -> Iterator[ImagePair]:
    """Yield `count` pairs of random test images with different predicted classes.

    Raises `DataError` if such pairs are too rare.
    """
    random, size = np.random.default_rng(SEED), context.count_test_images()
    for _ in range(MAX_DRAWS * count):
        images = [context.load_test_image(int(i)).image for i in random.choice(size, 2, False)]
        pair = load_image_pair(context, run, *images)
        if pair.predicted[0] != pair.predicted[1]:
            count -= 1
            yield pair
        if not count:
            return
    raise DataError(f"'{run.name}' predicts the same class for nearly all test images.")


def find_largest(result: PatchingResult) -> np.ndarray:
    """Return the largest share (L+1,) of a group of patches after each layer."""
    return result.maps.reshape(len(result.maps), -1).max(axis=1)


def find_hand_over(result: PatchingResult) -> int | None:
    """Return the layer from which on special tokens have a larger share than all patches."""
    special = [name for name in result.curves if name != "patches"]
    if not special:
        return None
    behind = np.flatnonzero(result.curves[special[-1]] <= result.curves["patches"])
    return int(behind[-1]) + 1


def format_mean(shares: np.ndarray) -> str:
    """Return mean and 95% interval of `shares` (n,)."""
    mean, low, high = mean_interval(shares)
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    run_program(main)
