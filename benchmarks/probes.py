"""Fit the linear probes of runs, which the page then shows at once: writes `linear_probes.json`.

    python benchmarks/probes.py --data data

The probes are fitted on 2,000 training images, and tested on 1,000 test images. On two cores with
other work, the three included runs together took 15 minutes.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import make_parser, run_program  # noqa: E402
from vitdemo.analyses.linear_probes import compute_probes, write_probes  # noqa: E402
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402


def main() -> None:
    arguments = make_parser(__doc__).parse_args()
    context = AppContext([arguments.runs], arguments.data, choose_device("cpu"))
    for run in context.trained_runs():
        if not context.count_layers(run):
            continue
        probes = compute_probes(context, run)
        write_probes(run, probes)
        for name, accuracies in probes.accuracies.items():
            print(f"{run.name}, {name}: {', '.join(f'{each:.1%}' for each in accuracies)}")


if __name__ == "__main__":
    run_program(main)
