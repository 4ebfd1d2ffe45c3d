"""Count the test images of CIFAR-10 that have a near-duplicate in its training set.

    python benchmarks/near_duplicates.py [--data DIR] [--threshold 0.95]

A test image is a near-duplicate here if its 3,072 pixel values have a Pearson correlation above the
threshold with the pixel values of one of the 50,000 training images. With "or mirrored", the test
image or its left-right mirror image may be the one that correlates. This criterion is stricter than
the criterion of ciFAIR (3.25%; Barz & Denzler 2020, https://arxiv.org/abs/1902.00423), who
inspected the nearest neighbours by eye and also count images that differ in colour, crop or
contrast. Prints the counts, and each included run's accuracy on these images and the others.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import make_parser, run_program  # noqa: E402
from vitdemo import data, runs  # noqa: E402
from vitdemo.metrics.paired import is_correct  # noqa: E402

DEFAULT_CORRELATION = 0.95
CORRELATION_BATCH_SIZE = 500  # number of test images per matrix product


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument(
        "--threshold",
        type=float,
        default=DEFAULT_CORRELATION,
        help="minimum correlation (default: 0.95)",
    )
    args = parser.parse_args()
    source = data.open_dataset(args.data, download=False)
    train, test = source.load("train").images, source.load("test").images
    plain = highest_correlation(test, train) > args.threshold
    mirrored = highest_correlation(test.flip(-1), train) > args.threshold
    print(f"correlation above {args.threshold:g}: {int(plain.sum())} of {len(test)} test images")
    print(f"or mirrored: {int((plain | mirrored).sum())}")
    for run in runs.find_runs(args.runs)[0]:
        if run.has_evaluation and len(run.evaluation.labels) == len(plain):
            right = torch.from_numpy(
                is_correct(run.evaluation.probabilities, run.evaluation.labels)
            )
            on, off = (100 * right[each].float().mean() for each in (plain, ~plain))
            print(f"{run.name}: accuracy {on:.2f}% on these images, {off:.2f}% on the others")


def highest_correlation(images: Tensor, others: Tensor) -> Tensor:
    """Return each image's highest Pearson correlation with any of `others`, (N,).

    Both are (N, ...) of any numeric type; all pixel values have the same weight.
    """
    reference = _standardise(others).T
    parts = [
        (_standardise(part) @ reference).amax(1) for part in images.split(CORRELATION_BATCH_SIZE)
    ]
    return torch.cat(parts)


def _standardise(images: Tensor) -> Tensor:
    """Return images (N, ...) as vectors (N, K) with mean 0 and norm 1."""
    vectors = images.flatten(1).float()
    return F.normalize(vectors - vectors.mean(1, keepdim=True), dim=1)


if __name__ == "__main__":
    run_program(main)
