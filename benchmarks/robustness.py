"""Measure the accuracy of each run on degraded test images.

    python benchmarks/robustness.py [--runs DIR] [--data DIR] [--images 1000] [--only RUN ...]

Needs the dataset. Every model receives the same images with the same changes; the neutral strength
leaves the image unchanged. The output is Markdown; benchmarks/LOG.md lists results.
"""

import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import make_parser, run_program  # noqa: E402
from vitdemo.analyses.robustness import RobustnessPoint, measure_robustness  # noqa: E402
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.data.perturb import PERTURBATIONS  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402


def main() -> None:
    parser = make_parser(__doc__, images=1000)
    args = parser.parse_args()
    context = AppContext([args.runs], args.data, choose_device(args.device))
    found: dict[str, list[RobustnessPoint]] = {}
    for run in context.trained_runs():
        if args.only and run.name not in args.only:
            continue
        started = time.perf_counter()
        found[run.name] = list(measure_robustness(context, run, count=args.images))
        seconds = time.perf_counter() - started
        images = len(context.sample_test_images(run, args.images))
        print(f"{run.name}: {images} images, {seconds:.0f} s", file=sys.stderr)
    for change in PERTURBATIONS:
        print(robustness_table(change, found))


def robustness_table(change: str, points_by_run: dict[str, list[RobustnessPoint]]) -> str:
    """Format the accuracy in percent of each run (rows) at each strength (columns) as Markdown."""
    about = PERTURBATIONS[change]
    header = " | ".join(f"{strength:g}" for strength in about.strengths)
    lines = [f"| {about.title}, {about.unit} | {header} |", "|---" * (len(about.strengths) + 1)]
    lines[1] += "|"
    for run, points in points_by_run.items():
        values = " | ".join(f"{100 * p.accuracy:.1f}" for p in points if p.change == change)
        lines.append(f"| `{run}` | {values} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_program(main)
