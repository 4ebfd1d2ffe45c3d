"""Train the ground truth models, and measure the share of each attribution map on the marks.

    python benchmarks/ground_truth.py --write-images DIR   # the images for the training
    python benchmarks/ground_truth.py [--images 200] [--only TASK] [--write]

The first command writes the images of both tasks as image folders, and prints the commands of the
training. The second command prints a table for each model in `assets/ground_truth/`: the mean share
of each method's positive weight on the patches of the marks, over `--images` images that are
neither training nor test images, with a 95% bootstrap interval over the images. `--write` stores
the table in the folder of the model, and the page shows it. The output is Markdown.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import run_program  # noqa: E402
from vitdemo.analyses.ground_truth import ShareSummary, measure_shares, write_shares  # noqa: E402
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.data.ground_truth import TASKS, write_ground_truth_images  # noqa: E402
from vitdemo.explain.attributions import METHODS  # noqa: E402
from vitdemo.installation import included_folder  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402

NUM_TRAIN = {"one-mark": 16_000, "two-marks": 40_000}
NUM_TEST = 2000
OPTIONS = (
    "--image-size 64 --patch-size 8 --embed-dim 64 --depth 4 --num-heads 4 --crop-padding 0 "
    "--batch-size 128"
)
TASK_OPTIONS = {
    "one-mark": "--train-images 14000 --epochs 10",
    "two-marks": "--train-images 20000 --epochs 15 --pretrained --weights "
    "runs/one-mark/model.safetensors",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=200, help="number of images for each model")
    parser.add_argument("--only", nargs="+", metavar="TASK", help="names of tasks (default: all)")
    parser.add_argument("--write", action="store_true", help="store the tables with the models")
    parser.add_argument("--write-images", type=Path, metavar="DIR", help="folder of the images")
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")
    args = parser.parse_args()
    if args.write_images:
        write_training_images(args.write_images)
        return
    folder = included_folder("ground_truth")
    context = AppContext([], None, choose_device(args.device), ground_truth_root=folder)
    for run in context.ground_truth_runs():
        if args.only and run.name not in args.only:
            continue
        found = measure_shares(context, run, args.images)
        print_table(run.name, found)
        if args.write:
            write_shares(run.path, found)


def write_training_images(folder: Path) -> None:
    for name in TASKS:
        write_ground_truth_images(folder / name, name, NUM_TRAIN[name], NUM_TEST)
        print(
            f"python train.py first-steps --data {folder / name} {OPTIONS} {TASK_OPTIONS[name]} "
            f"--out runs/{name}"
        )


def print_table(name: str, found: ShareSummary) -> None:
    print(
        f"\n**{name}, {found.images} images**: accuracy {found.accuracy:.1%}, without the tokens "
        f"of the marks {found.unmarked_accuracy:.1%}\n"
    )
    print("| method | share on the marks, % | minus chance, points |\n|---|---|---|")
    for method, own in sorted(found.shares.items(), key=lambda item: -item[1].mean):
        print(
            f"| {METHODS[method].title} | {100 * own.mean:.1f} ({100 * own.low:.1f} to "
            f"{100 * own.high:.1f}) | {100 * own.low_gain:+.1f} to {100 * own.high_gain:+.1f} |"
        )
    print(f"| chance | {100 * found.chance:.1f} | |", flush=True)


if __name__ == "__main__":
    run_program(main)
