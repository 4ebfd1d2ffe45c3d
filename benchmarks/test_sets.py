"""Measure the comparison of a user's test set with the original one on known cases.

    python benchmarks/test_sets.py [--data DIR] [--runs DIR] [--draws 1000]

Prints three Markdown tables. **Class mix**: cats and dogs are drawn from CIFAR-10's own test set,
so the true difference is 0. **Bursts**: all images of a group are correct or incorrect together, or
mostly together. The table has the coverage of three 95% intervals. **Copies**: training images
and test images, compressed as JPEG, are compared with the training set.
"""

import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import make_parser, run_program  # noqa: E402
from vitdemo import data, runs  # noqa: E402
from vitdemo.data.near_duplicates import SMALL_SIDE, effective_sample_size, find_copies  # noqa: E402
from vitdemo.metrics.intervals import independent_difference_interval, wilson_interval  # noqa: E402
from vitdemo.metrics.paired import is_correct  # noqa: E402
from vitdemo.runs import Run  # noqa: E402
from vitdemo.test_sets.evaluation import SEARCH_BATCH_SIZE, compare_run  # noqa: E402

CLASS_MIXES = {"300 cats, 300 dogs": (300, 300), "500 cats, 100 dogs": (500, 100)}
NUM_GROUPS, GROUP_SIZE = 8, 5
JPEG_QUALITIES = (95, 75, 50)
NUM_COPIES = 300
NUM_RESAMPLES = 400


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--draws", type=int, default=1000, help="number of random test sets")
    args = parser.parse_args()
    print("\n| model | images | difference to all classes | covers 0 | same classes | covers 0 |")
    print("|---|---|---|---|---|---|")
    for run in runs.find_runs(args.runs)[0]:
        if run.has_weights and run.has_evaluation:
            for mix, counts in CLASS_MIXES.items():
                cells = compare_class_mix(run, counts, min(args.draws, 200))
                print(f"| {run.name} | {mix} | {' | '.join(cells)} |", flush=True)
    print("\n| accuracy | same outcome in a group | by image | bootstrap of groups | Kish |")
    print("|---|---|---|---|---|")
    for accuracy in (0.7, 0.9):
        for share in (1.0, 0.5, 0.0):
            found = " | ".join(f"{x:.0%}" for x in measure_coverage(accuracy, share, args.draws))
            print(f"| {accuracy:.0%} | {share:.0%} | {found} |", flush=True)
    print("\n| images | found in the training set |\n|---|---|")
    for name, found in search_copies(data.open_dataset(args.data)):
        print(f"| {name} | {found.sum()} of {len(found)} ({found.mean():.1%}) |", flush=True)


def compare_class_mix(run: Run, counts: tuple[int, int], draws: int) -> list[str]:
    """Compare the drawn images with all test images, and with test images of the same classes.

    Each comparison has two cells: the mean difference in percentage points, and the fraction of
    draws whose interval contains the true difference, 0.
    """
    own, random = run.evaluation, np.random.default_rng(0)
    correct = is_correct(own.probabilities, own.labels)
    names = [run.classes.index(name) for name in ("cat", "dog")]
    found = []
    for _ in range(draws):
        chosen = [
            random.choice(np.flatnonzero(own.labels == c), n, replace=False)
            for c, n in zip(names, counts, strict=True)
        ]
        chosen = np.concatenate(chosen)
        mine = replace(own, probabilities=own.probabilities[chosen], labels=own.labels[chosen])
        same, hits = compare_run(run, mine), (correct[chosen].sum(), len(chosen))
        low, high = independent_difference_interval(*hits, correct.sum(), len(correct))
        covered = [
            low <= 0 <= high,
            same.difference_interval[0] <= 0 <= same.difference_interval[1],
        ]
        found.append(
            [
                same.accuracy - correct.mean(),
                covered[0],
                same.accuracy - same.own_accuracy,
                covered[1],
            ]
        )
    before, covers_before, after, covers_after = np.mean(found, 0)
    return [
        f"{100 * before:+.1f} points",
        f"{covers_before:.0%}",
        f"{100 * after:+.1f} points",
        f"{covers_after:.0%}",
    ]


def measure_coverage(accuracy: float, share: float, draws: int) -> tuple[float, float, float]:
    """Return how often three 95% intervals contain `accuracy`.

    An image has the outcome of its group with probability `share`, and otherwise its own outcome.
    """
    random, groups = np.random.default_rng(0), np.repeat(np.arange(NUM_GROUPS), GROUP_SIZE)
    size, found = effective_sample_size(groups), []
    for _ in range(draws):
        common = random.random((NUM_GROUPS, 1)) < accuracy
        own = random.random((NUM_GROUPS, GROUP_SIZE)) < accuracy
        correct = np.where(random.random(own.shape) < share, common, own)
        mean, means = correct.mean(), correct.mean(1)
        drawn = random.choice(means, (NUM_RESAMPLES, NUM_GROUPS)).mean(1)
        intervals = (
            wilson_interval(correct.sum(), correct.size),
            np.percentile(drawn, [2.5, 97.5]),
            wilson_interval(mean * size, size),
        )
        found.append([low <= accuracy <= high for low, high in intervals])
    return tuple(np.mean(found, 0))


def search_copies(source: data.ImageDataset) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of a set of images, and whether each image was found in the training set."""
    train, test = source.load("train").images, source.load("test").images
    random = np.random.default_rng(0)
    sets = {"test images": [to_image(test[i]) for i in random.permutation(len(test))[:2000]]}
    chosen = random.permutation(len(train))[:NUM_COPIES]
    for quality in JPEG_QUALITIES:
        copies = [compress(to_image(train[i]), quality) for i in chosen]
        sets[f"training images, JPEG quality {quality}"] = copies
    for name, images in sets.items():
        parts = source.load_batches("train", SMALL_SIDE, 10 * SEARCH_BATCH_SIZE)
        yield name, np.any([find_copies(images, part.images) for part in parts], axis=0)


def to_image(pixels) -> Image.Image:
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())


def compress(image: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer).convert("RGB")


if __name__ == "__main__":
    run_program(main)
