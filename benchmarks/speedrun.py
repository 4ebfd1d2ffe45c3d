"""Train a recipe with several seeds and print one row for the speedrun table in docs/training.md.

    python benchmarks/speedrun.py
    python benchmarks/speedrun.py --seeds 5 --options "--epochs 124 --full-patch-epochs 12"

The first, short run only fills the compiler's cache; its time is not counted. Each of the other
runs trains one seed in its own process, and nothing else should use the device. The time of a run
is the sum of its epoch times: training, validation, and loading the compiled kernels. Reading the
data and the evaluation on the test images are not counted. The accuracy is measured
on one view of each test image.
"""

import argparse
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vitdemo import console, runs  # noqa: E402
from vitdemo.metrics import compute_accuracy  # noqa: E402

COMPILATION = ("--compile", "reduce-overhead")
# One epoch with PatchDropout, two with all patches and six without mixing: all compiled variants.
WARM_UP = ("--epochs", "9", "--full-patch-epochs", "8", "--warmup-epochs", "1")
HEAD = (
    "| recipe | seeds | test accuracy, mean | lowest to highest | time, mean | longest | device |"
)


def main(argv: list[str] | None = None) -> int:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipe", default="vit-speedrun", help="default: vit-speedrun")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--options", default="", help="further options of train.py, in quotes")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for the runs")
    args = parser.parse_args(argv)
    options = shlex.split(args.options)
    train(args.recipe, [*options, *WARM_UP], args.runs / f"{args.recipe}-warm-up")
    folders = [args.runs / f"{args.recipe}-seed-{seed}" for seed in range(args.seeds)]
    for seed, folder in enumerate(folders):
        train(args.recipe, [*options, "--seed", str(seed)], folder)
    print(HEAD + "\n" + "|---" * HEAD.count(" | ") + "|---|")
    print(format_row(" ".join([args.recipe, *options]), [runs.read_run(path) for path in folders]))
    return 0


def train(recipe: str, options: list[str], folder: Path) -> None:
    """Train one run in a new process; exit with its exit code if it fails."""
    command = [sys.executable, str(ROOT / "train.py"), recipe, *COMPILATION, *options]
    if code := subprocess.run([*command, "--out", str(folder)]).returncode:
        sys.exit(code)


def format_row(label: str, finished: list[runs.Run]) -> str:
    """Return a Markdown row: accuracies and sums of epoch times of runs with other seeds."""
    evaluations = [run.evaluation for run in finished]
    accuracies = [100 * compute_accuracy(e.probabilities, e.labels) for e in evaluations]
    seconds = [run.train_seconds for run in finished]
    return (
        f"| `{label}` | {len(finished)} | {statistics.mean(accuracies):.2f}% "
        f"| {min(accuracies):.2f} to {max(accuracies):.2f}% "
        f"| {statistics.mean(seconds):.1f} s | {max(seconds):.1f} s | {finished[0].device} |"
    )


if __name__ == "__main__":
    sys.exit(main())
