"""Train several recipes within a given time; a second call continues them.

    python benchmarks/train_all.py conv-baseline resnet18 --minutes 8.5
    python benchmarks/train_all.py vit-plain vit-plain-ema vit-plain-mixed --minutes 8.5 --at-once 3

Each recipe runs in its own `train.py` process, in the given order. Finished runs are skipped,
stopped runs are resumed. With --at-once, several runs share the device. This is faster if batches
are small, but the measured times of the single runs are then too long. An argument can contain
options: "resnet18 --seed 1 --out runs/resnet18-1".
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vitdemo import console  # noqa: E402

MIN_MINUTES = 2.5  # minutes; with less time left, a run could not compile and finish an epoch


def main(argv: list[str] | None = None) -> int:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trainings", nargs="+", help="recipes, each with optional options")
    parser.add_argument("--minutes", type=float, required=True, help="time for all runs together")
    parser.add_argument(
        "--at-once", type=int, default=1, help="number of runs that train at the same time"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for the runs")
    args = parser.parse_args(argv)
    deadline = time.monotonic() + 60 * args.minutes
    with ThreadPoolExecutor(args.at_once) as pool:
        codes = list(
            pool.map(lambda words: train_recipe(words, args.runs, deadline), args.trainings)
        )
    for words, code in zip(args.trainings, codes, strict=True):
        state = {0: "finished", 130: "stopped", None: "not started"}.get(code, "failed")
        print(f"{words}: {state}")
    return 0 if not any(codes) and None not in codes else 1


def train_recipe(training: str, root: Path, deadline: float) -> int | None:
    """Train one recipe; return the exit code, 0 if it is finished, None if no time is left."""
    words = shlex.split(training)
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--out", type=Path, default=root / words[0])
    named, words = own.parse_known_args(words)
    folder = named.out
    if is_finished(folder):
        return 0
    minutes = (deadline - time.monotonic()) / 60
    if minutes < MIN_MINUTES:
        return None
    resume = ["--resume"] if (folder / "config.json").is_file() else []
    where = ["--out", str(folder), *resume, "--minutes", f"{minutes:.2f}"]
    return subprocess.run([sys.executable, str(ROOT / "train.py"), *words, *where]).returncode


def is_finished(folder: Path) -> bool:
    """Return whether a run has its last file: the evaluation, or the weights in pretraining."""
    if (folder / "evaluation.npz").is_file():
        return True
    if not (folder / "model.safetensors").is_file():
        return False
    config = json.loads((folder / "config.json").read_text(encoding="utf-8-sig"))
    return config["recipe"].get("mask_ratio", 0) > 0


if __name__ == "__main__":
    sys.exit(main())
