"""Compute the t-SNE maps of runs, which the page then shows at once: writes `tsne.npz`.

    python benchmarks/tsne.py --data data

The maps show the default sample of the test images. They take about 20 s per run on two cores.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import make_parser, run_program  # noqa: E402
from vitdemo.analyses.features import MAX_SAMPLE_SIZE, load_planes  # noqa: E402
from vitdemo.analyses.tsne_file import TSNE_FILE, write_planes  # noqa: E402
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402


def main() -> None:
    arguments = make_parser(__doc__).parse_args()
    context = AppContext([arguments.runs], arguments.data, choose_device("cpu"))
    for run in context.trained_runs():
        write_planes(run, load_planes(context, run, MAX_SAMPLE_SIZE))
        print(f"{run.path / TSNE_FILE}: {(run.path / TSNE_FILE).stat().st_size:,} bytes")


if __name__ == "__main__":
    run_program(main)
