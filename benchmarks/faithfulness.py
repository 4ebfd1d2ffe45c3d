"""Which map is true to its model: deletion and insertion areas of every method on test pictures.

    python benchmarks/faithfulness.py --pictures 500        # Ctrl-C prints what there is so far

The pictures are a stratified, seeded draw from the test set; nothing is trained or tuned on them.
Of each, the class that the model predicts is explained. Deletion takes patches away, what the
method calls most important first, insertion brings them back (`vitdemo.faithfulness`). The spread
is the standard deviation between the areas of 20 random orders of the same picture, mean over the
pictures. `vitdemo.attributions.BEST_MEASURED` comes from the tables in LOG.md.
"""

import argparse
import datetime
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vitdemo import attributions, data, faithfulness, runs  # noqa: E402
from vitdemo.training import pick_device  # noqa: E402

BATCH = 10  # pictures whose maps are made together
RANDOM = "random"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=500)
    parser.add_argument("--steps", type=int, default=16, help="points of a curve (default: 16)")
    parser.add_argument("--fills", nargs="+", default=["mean", "drop"], choices=faithfulness.FILLS)
    parser.add_argument("--runs", type=Path, default=ROOT / "assets" / "runs")
    parser.add_argument("--only", nargs="+", metavar="RUN", help="names of runs (default: all)")
    parser.add_argument("--data", type=Path, help="CIFAR-10's folder (default: data)")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    device = pick_device(args.device)
    source = data.open_source(args.data, download=False)
    print(f"{machine(device)}, {datetime.date.today()}, {args.steps} steps a curve")
    chosen = [
        Subject(run, source, args, device)
        for run in runs.find_runs(args.runs)[0]
        if run.has_weights and (not args.only or run.name in args.only)
    ]
    try:
        for at in range(0, args.pictures, BATCH):  # in turn, so that all have as many when stopped
            for subject in chosen:
                subject.measure(at)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    for subject in chosen:
        subject.report()


class Subject:
    """One run, its pictures, and the areas measured so far, fill by fill."""

    def __init__(self, run: runs.Run, source: data.Source, args, device: torch.device):
        self.run, self.device, self.steps = run, device, args.steps
        self.model = runs.load_model(run, device).requires_grad_(False)
        self.pictures = drawn(source, args.pictures, run.spec.image_size)
        possible = faithfulness.fills(self.model)
        self.areas = {fill: [] for fill in args.fills if fill in possible}

    def measure(self, at: int) -> None:
        images = self.run.preprocessing(self.pictures.images[at : at + BATCH].to(self.device))
        started = time.perf_counter()
        for fill, rows in measured(self.model, images, list(self.areas), self.steps).items():
            self.areas[fill] += rows
        seconds = (time.perf_counter() - started) / len(images)
        print(f"{self.run.name}: {at + len(images)}, {seconds:.1f} s each", file=sys.stderr)

    def report(self) -> None:
        for fill, rows in self.areas.items():
            if rows:
                print(f"\n### {self.run.name}, fill: {fill}, {len(rows)} pictures\n")
                print(table(rows), flush=True)


def drawn(source: data.Source, count: int, size: int) -> data.Pictures:
    """`count` test pictures, class by class in turn, so that any first part is stratified, too."""
    pictures = source.load("test", size)
    order = torch.randperm(len(pictures), generator=torch.Generator().manual_seed(0))
    turn = torch.zeros(len(pictures), dtype=torch.long)
    for label in pictures.labels.unique():
        own = order[pictures.labels[order] == label]
        turn[own] = torch.arange(len(own))
    return pictures.subset(turn.argsort(stable=True)[:count])


def measured(model: nn.Module, images: Tensor, fills: list[str], steps: int) -> dict:
    """fill -> for each picture {order's name: (deletion, insertion) areas}; R of them for RANDOM"""
    with torch.no_grad():
        target = model(images).argmax(dim=1)
    names = [method.name for method in attributions.methods_for(model)]
    maps = attributions.attribute_many(names, model, images, target)
    grid = attributions.cell_grid(model, images)
    maps = {name: faithfulness.resampled(values, grid) for name, values in maps.items()}
    areas = {fill: [] for fill in fills}
    for i, fill in ((i, fill) for i in range(len(images)) for fill in fills):
        own = {name: values[i] for name, values in maps.items()}
        found = faithfulness.measure(
            model, images[i : i + 1], int(target[i]), own, fill=fill, steps=steps
        )
        curves = {name: (found.deletion[name], found.insertion[name]) for name in found.deletion}
        curves[RANDOM] = (found.random_deletion, found.random_insertion)
        pairs = {
            name: torch.stack([faithfulness.area(found.shares, curve) for curve in pair])
            for name, pair in curves.items()
        }
        areas[fill].append({name: pair.numpy() for name, pair in pairs.items()})
    return areas


def table(rows: list[dict]) -> str:
    """Markdown: mean areas of each order, best difference first, and how often it beats random."""
    random = np.stack([row[RANDOM] for row in rows])  # (pictures, 2, R)
    mean, spread = random.mean(axis=(0, 2)), random.std(axis=2, ddof=1).mean(axis=0)  # (2,) each
    low, high = np.quantile(random, [0.05, 0.95], axis=2)  # (pictures, 2) each
    lines = []
    for name in rows[0].keys() - {RANDOM}:
        own = np.stack([row[name] for row in rows])  # (pictures, 2)
        deletion, insertion = own.mean(axis=0)
        gains = (mean[0] - deletion) / spread[0], (insertion - mean[1]) / spread[1]
        beats = (own[:, 0] < low[:, 0]).mean(), (own[:, 1] > high[:, 1]).mean()
        cells = f"{deletion:.3f} | {insertion:.3f} | {insertion - deletion:+.3f}"
        words = f"{gains[0]:+.1f}, {gains[1]:+.1f} | {beats[0]:.0%}, {beats[1]:.0%}"
        lines.append((insertion - deletion, f"| {name} | {cells} | {words} |"))
    head = (
        "| order | deletion ↓ | insertion ↑ | insertion - deletion | beyond random, in spreads "
        "| pictures beyond the random band |\n|---|---|---|---|---|---|"
    )
    body = "\n".join(line for _, line in sorted(lines, reverse=True))
    band = f"{low[:, 0].mean():.3f} to {high[:, 0].mean():.3f}"
    chance = f"| {RANDOM} (spread) | {mean[0]:.3f} ({spread[0]:.3f}) | {mean[1]:.3f} "
    return f"{head}\n{body}\n{chance}({spread[1]:.3f}) | | | band of areas {band} |"


def machine(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    cores = f"{os.cpu_count()} cores, {torch.get_num_threads()} threads"
    return f"{platform.machine()} CPU, {cores}, torch {torch.__version__}"


if __name__ == "__main__":
    main()
