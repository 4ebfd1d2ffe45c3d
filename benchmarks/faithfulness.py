"""Which map is true to its model: every method on test pictures, beside maps that know nothing.

    python benchmarks/faithfulness.py --pictures 500        # Ctrl-C prints what there is so far
    python benchmarks/faithfulness.py --keep tmp/faithfulness    # and goes on there the next time

The pictures are a stratified, seeded draw from the test set; nothing is trained or tuned on them.
Of each, the class that the model predicts is explained. Deletion takes patches away, what the
method calls most important first, insertion brings them back; the score is the difference of the
areas (`vitdemo.faithfulness`), and its differences are of the same pictures (paired 95% intervals,
of pictures, not of trainings): from the best map's, from that of an order from the centre out, and
from that of the same map rotated, flipped and shifted ("its own shape"). ROAD is the score with
imputation in place of a hole; SaCo asks whether more salient groups of patches matter more. The
table of dependence has Spearman's correlation of each map with that of the runner-up class, and
with that of the same class of the same model with a random head. `faithfulness.json` goes into each
run's folder, for the page. Tables are in LOG.md.
"""

import argparse
import datetime
import json
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vitdemo import attention, attributions, console, data, faithfulness, runs  # noqa: E402
from vitdemo.faithfulness import CENTRE  # noqa: E402
from vitdemo.faithfulness.measured import fingerprint, summed_up, write_measured  # noqa: E402
from vitdemo.faithfulness.saco import saco  # noqa: E402
from vitdemo.faithfulness.sanity import randomised_head, rank_correlation  # noqa: E402
from vitdemo.metrics.intervals import mean_interval  # noqa: E402
from vitdemo.models import is_vision_transformer  # noqa: E402
from vitdemo.training import pick_device  # noqa: E402
from vitdemo.training.devices import autocast_helps  # noqa: E402

ORDERS = 4  # random ones a picture: for their mean alone
LAID = 2  # times that each map of a picture is laid elsewhere: for the mean of all pictures
RANDOM, ROAD = "random", "road"


def main() -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after as many")
    parser.add_argument("--steps", type=int, default=faithfulness.STEPS, help="points of a curve")
    parser.add_argument("--fills", nargs="+", default=["drop", "mean"], choices=faithfulness.FILLS)
    parser.add_argument("--runs", type=Path, default=ROOT / "assets" / "runs")
    parser.add_argument("--only", nargs="+", metavar="RUN", help="names of runs (default: all)")
    parser.add_argument("--keep", type=Path, help="folder for what is measured, to go on later")
    parser.add_argument("--data", type=Path, help="CIFAR-10's folder (default: data)")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    device, end = pick_device(args.device), time.monotonic() + 60 * args.minutes
    source = data.open_source(args.data, download=False)
    print(f"{machine(device)}, {datetime.date.today()}, {args.steps} steps a curve", flush=True)
    chosen = [
        Subject(run, source, args, device)
        for run in runs.find_runs(args.runs)[0]
        if run.has_weights and (not args.only or run.name in args.only)
    ]
    try:
        for at in range(args.pictures):  # in turn, so that all have as many when stopped
            for subject in chosen:
                if time.monotonic() < end:
                    subject.measure(at)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    for subject in chosen:
        subject.report(device)


class Subject:
    """One run, its pictures, and a row of numbers for each that was measured."""

    def __init__(self, run: runs.Run, source: data.Source, args, device: torch.device):
        self.run, self.device, self.steps = run, device, args.steps
        self.model = runs.load_model(run, device).requires_grad_(False)
        self.pictures = drawn(source, args.pictures, run.spec.image_size)
        possible = faithfulness.fills(self.model)
        self.fills = [fill for fill in args.fills if fill in possible]
        self.rows: list[dict] = []
        what = [run.name, fingerprint(run.path)[:8], *self.fills, args.steps]
        self.kept = args.keep and args.keep / f"{'-'.join(map(str, what))}.jsonl"
        if self.kept:
            args.keep.mkdir(parents=True, exist_ok=True)
            self.kept.touch()
            lines = self.kept.read_text(encoding="utf-8-sig").splitlines()[: args.pictures]
            self.rows = [json.loads(line) for line in lines]

    def measure(self, at: int) -> None:
        """Picture `at`, unless it was measured before."""
        if at < len(self.rows):
            return
        image = self.run.preprocessing(self.pictures.images[at : at + 1].to(self.device))
        started = time.perf_counter()
        self.rows.append(measured(self.model, image, self.fills, self.steps, at))
        seconds = time.perf_counter() - started
        if self.kept:
            with self.kept.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(self.rows[-1]) + "\n")
        print(f"{self.run.name}: {at + 1}, {seconds:.1f} s", file=sys.stderr, flush=True)

    def report(self, device: torch.device) -> None:
        if len(self.rows) < 2:
            return
        for fill in self.fills:
            print(f"\n**{self.run.name}, fill: {fill}, {len(self.rows)} pictures**\n")
            print(table(self.rows, fill))
        print(f"\n**{self.run.name}: what a map depends on, {len(self.rows)} pictures**\n")
        print(dependence_table(self.rows), flush=True)
        layers = {f: np.array([row[f"layers {f}"] for row in self.rows]) for f in self.fills}
        by_fill = {f: summed_up(scores(self.rows, f), layers[f]) for f in self.fills}
        for fill, found in by_fill.items():
            means = ", ".join(f"{score:+.3f}" for score in found.layers)
            if means:
                print(f"\nMean of the heads, layer by layer, fill: {fill}: {means}")
        gaps = [row["gap"] for row in self.rows]
        words = {"steps": self.steps, "machine": machine(device)}
        words |= {"date": f"{datetime.date.today()}", "completeness_gap_median": np.median(gaps)}
        write_measured(self.run.path, by_fill, **words, completeness_gap_worst=max(gaps))
        print(f"\nCompleteness gap: median {np.median(gaps):.2%}, worst {max(gaps):.2%}")


def drawn(source: data.Source, count: int, size: int) -> data.Pictures:
    """`count` test pictures, class by class in turn, so that any first part is stratified, too."""
    pictures = source.load("test", size)
    order = torch.randperm(len(pictures), generator=torch.Generator().manual_seed(0))
    turn = torch.zeros(len(pictures), dtype=torch.long)
    for label in pictures.labels.unique():
        own = order[pictures.labels[order] == label]
        turn[own] = torch.arange(len(own))
    return pictures.subset(turn.argsort(stable=True)[:count])


def measured(model: nn.Module, image: Tensor, fills: list[str], steps: int, seed: int) -> dict:
    """Of one picture (1, 3, S, S), with draws of its own by `seed`: by fill and for ROAD
    {order: (deletion, insertion)}, {map: score} laid elsewhere, SaCo, dependence {map: (on the
    class, on the model)} and the completeness gap."""
    with torch.no_grad():
        target, runner_up = model(image).topk(2).indices[0].tolist()
    methods = attributions.methods_for(model)
    maps = attributions.attribute_many([m.name for m in methods], model, image, target)
    weights = F.one_hot(torch.tensor([target]), attributions.class_count(model)).to(image)
    complete = next(m.name for m in methods if m.complete)
    gap = attributions.completeness_gap(model, image, maps[complete], weights)
    grid = attributions.cell_grid(model, image)
    own = {name: faithfulness.resampled(values, grid)[0] for name, values in maps.items()}
    quick = [m.name for m in methods if m.class_specific and not m.long]
    row = {"gap": float(gap), "dependence": dependence(model, image, quick, target, runner_up)}
    with torch.autocast(image.device.type, torch.bfloat16, enabled=autocast_helps(image.device)):
        for fill in (*fills, ROAD):
            settings = {"fill": fill, "steps": steps, "seed": seed}
            row[fill] = areas(model, image, target, own, **settings)
            if fill != ROAD:
                row[f"laid {fill}"] = laid(model, image, target, own, **settings)
                row[f"layers {fill}"] = by_layer(model, image, target, **settings)
        row["saco"] = saco(model, image, target, own, fill=fills[0], seed=seed)
    return row


def areas(
    model: nn.Module, image: Tensor, target: int, maps: dict, **settings
) -> dict[str, list[float]]:
    """Deletion and insertion area of each order, of `CENTRE` and, on average, of `RANDOM`."""
    found = faithfulness.measure(model, image, target, maps, random_orders=ORDERS, **settings)
    curves = {name: (found.deletion[name], found.insertion[name]) for name in found.deletion}
    curves[RANDOM] = (found.random_deletion.mean(0), found.random_insertion.mean(0))
    return {
        name: [float(faithfulness.area(found.shares, curve)) for curve in pair]
        for name, pair in curves.items()
    }


def laid(model: nn.Module, image: Tensor, target: int, maps: dict, **settings) -> dict[str, float]:
    """Mean score of each map, laid elsewhere."""

    def score(values: Tensor) -> float:
        found = faithfulness.shape_scores(model, image, target, values, count=LAID, **settings)
        return float(found.mean())

    return {name: score(values) for name, values in maps.items()}


def by_layer(model: nn.Module, image: Tensor, target: int, **settings) -> list[float]:
    """Score of the mean of the heads of each layer, where it gathers the answer from (L,)."""
    if not is_vision_transformer(model):
        return []
    with torch.no_grad():
        means = attention.trace(model, image).attention[:, 0].mean(1)  # (L, N, N)
    maps = attention.answer_map(means, model.num_prefix_tokens, attention.answer_rows(model))
    by_place = maps.float().unflatten(1, model.patch_embed.grid_size)  # (L, rows, columns)
    named = {str(layer): own for layer, own in enumerate(by_place, 1)}
    found = faithfulness.measure(model, image, target, named, random_orders=1, **settings)
    return [found.scores[name] for name in named]


def dependence(
    model: nn.Module, image: Tensor, names: list[str], target: int, runner_up: int
) -> dict[str, tuple[float, float]]:
    own = attributions.attribute_many(names, model, image, target)
    other = attributions.attribute_many(names, model, image, runner_up)
    random = attributions.attribute_many(names, randomised_head(model), image, target)
    return {
        name: tuple(rank_correlation(own[name], found[name]) for found in (other, random))
        for name in names
    }


def scores(rows: list[dict], fill: str) -> dict[str, np.ndarray]:
    """Insertion minus deletion (N,) of each order but `RANDOM`."""
    names = [name for name in rows[0][fill] if name != RANDOM]
    return {name: np.array([np.diff(row[fill][name])[0] for row in rows]) for name in names}


def table(rows: list[dict], fill: str) -> str:
    """Markdown: mean areas of each order, best difference first, and paired intervals."""
    own, road = scores(rows, fill), scores(rows, ROAD)
    best = max(own.keys() - {CENTRE}, key=lambda name: own[name].mean())
    lines = [
        "| order | deletion ↓ | insertion ↑ | insertion - deletion | less than the best by | "
        "more than centre first by | more than its own shape by | ROAD | SaCo |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in sorted(own, key=lambda name: -own[name].mean()):
        deletion, insertion = np.stack([row[fill][name] for row in rows]).mean(axis=0)
        behind = "–" if name == best else interval(own[best] - own[name])
        ahead = "–" if name == CENTRE else interval(own[name] - own[CENTRE])
        elsewhere = np.array([row[f"laid {fill}"].get(name, np.nan) for row in rows])
        beyond = "–" if name == CENTRE else interval(own[name] - elsewhere)
        coefficients = np.array([row["saco"].get(name, np.nan) for row in rows])
        known = coefficients[~np.isnan(coefficients)]
        salience = f"{known.mean():+.3f}" if len(known) else "–"
        lines.append(
            f"| {name} | {deletion:.3f} | {insertion:.3f} | {own[name].mean():+.3f} | {behind} | "
            f"{ahead} | {beyond} | {road[name].mean():+.3f} | {salience} |"
        )
    chance = np.stack([row[fill][RANDOM] for row in rows]).mean(axis=0)
    return "\n".join([*lines, f"| {RANDOM} | {chance[0]:.3f} | {chance[1]:.3f} | | | | | | |"])


def dependence_table(rows: list[dict]) -> str:
    lines = ["| map | runner-up class | random head |", "|---|---|---|"]
    for name in rows[0]["dependence"]:
        both = np.array([row["dependence"][name] for row in rows])  # (N, 2)
        lines.append("| {} | {:+.2f} | {:+.2f} |".format(name, *np.nanmean(both, axis=0)))
    return "\n".join(lines)


def interval(differences: np.ndarray) -> str:
    return "{:+.3f} ({:+.3f} to {:+.3f})".format(*mean_interval(differences))


def machine(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    cores = f"{os.cpu_count()} cores, {torch.get_num_threads()} threads"
    return f"{platform.machine()} CPU, {cores}, torch {torch.__version__}"


if __name__ == "__main__":
    main()
