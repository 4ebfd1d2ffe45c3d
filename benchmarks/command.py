"""Common parts of the benchmarks' command lines."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from vitdemo import console
from vitdemo.errors import VitdemoError

INCLUDED_RUNS = Path(__file__).parents[1] / "assets" / "runs"


def make_parser(doc: str, images: int | None = None) -> argparse.ArgumentParser:
    """Return a parser with --runs and --data; with `images`, also --images, --only and --device.

    The description is the first line of `doc`. `images` is the default number of images.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=INCLUDED_RUNS, help="folder of the runs")
    parser.add_argument("--data", type=Path, help="folder of CIFAR-10 (default: data)")
    if images is not None:
        parser.add_argument(
            "--images", type=int, default=images, help="number of images for each run"
        )
        parser.add_argument("--only", nargs="+", metavar="RUN", help="names of runs (default: all)")
        parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")
    return parser


def run_program(main: Callable[[], None]) -> None:
    """Run the `main` function of a benchmark; an error for users ends it with one sentence."""
    console.escape_unprintable()
    try:
        main()
    except VitdemoError as error:
        sys.exit(str(error))
