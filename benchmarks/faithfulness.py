"""Measure the faithfulness of every map on validation images and compare it with baselines.

    python benchmarks/faithfulness.py --images 200        # Ctrl-C prints the results so far
    python benchmarks/faithfulness.py --keep tmp/faithfulness    # continues there the next time

The images are a stratified, seeded sample of each run's own validation split. Choices based on
these scores (the first map on the page, the badges) therefore do not use test images. Each map
explains the predicted class. Deletion removes patches, the most important ones first; insertion
restores them in the same order. The score is the difference of the two areas
(`vitdemo.explain.faithfulness`). It is compared with the best map, the centre-first order and the
edge map by paired differences (95% intervals over images, not over training runs).

A second table compares each map with `--reference` by paired differences, with Holm's correction
over all its rows. `--candidates` also measures maps that are not on the page
(`faithfulness_checks/candidates.py`). `--quick` skips the layers, draws one random order, and keeps
the scores of the layers in `faithfulness.json`. With `--maps`, the file keeps the scores of the
other maps too, if they have the same number of images. Only the given maps can then be among the
best.

`--extra` adds three more scores: transformed copies of the map, ROAD (the score with imputed
pixels) and SaCo (whether more salient groups of patches matter more). `faithfulness.json` is
written into each run folder, for the page. LOG.md lists tables.
"""

import argparse
import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import make_parser, run_program  # noqa: E402
from benchmarks.faithfulness_checks.candidates import CANDIDATES  # noqa: E402
from benchmarks.faithfulness_checks.imputation import impute_patches  # noqa: E402
from benchmarks.faithfulness_checks.saco import compute_saco  # noqa: E402
from vitdemo import data, runs  # noqa: E402
from vitdemo.errors import DataError  # noqa: E402
from vitdemo.explain import (  # noqa: E402
    attention,
    attributions,
    faithfulness,
    forward_pass,
)
from vitdemo.explain.attributions import METHODS  # noqa: E402
from vitdemo.explain.faithfulness import EDGE_BASELINE  # noqa: E402
from vitdemo.explain.faithfulness.summary import (  # noqa: E402
    BASELINE_NAMES,
    FaithfulnessSummary,
    paired_p_value,
    read_summaries,
    summarise_scores,
    write_summaries,
)
from vitdemo.metrics.intervals import mean_interval  # noqa: E402
from vitdemo.metrics.paired import holm  # noqa: E402
from vitdemo.models import has_attention  # noqa: E402
from vitdemo.runs import FAITHFULNESS_FILE, hash_weights, read_measurements  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402
from vitdemo.training.devices import use_fast_precision  # noqa: E402

Result = TypeVar("Result")
NUM_RANDOM_ORDERS = 4  # random orders per image; few are sufficient for the mean over all images
NUM_TRANSFORMED_COPIES = 2  # transformed copies of each map per image
RANDOM_ORDERS_KEY, ROAD_FILL = "random", "road"


def main() -> None:
    parser = make_parser(__doc__, images=200)
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="stop after this time (default: never)"
    )
    parser.add_argument(
        "--steps", type=int, default=faithfulness.CURVE_STEPS, help="number of steps per curve"
    )
    parser.add_argument(
        "--fills", nargs="+", default=["drop", "mean"], choices=faithfulness.FILLS,
        help="replacements for removed patches (default: drop mean)",
    )  # fmt: skip
    parser.add_argument(
        "--extra", action="store_true", help="also measure transformed copies, ROAD and SaCo"
    )
    parser.add_argument(
        "--candidates", nargs="+", default=[], choices=CANDIDATES, metavar="NAME",
        help=f"also measure maps that are not on the page: {', '.join(CANDIDATES)}",
    )  # fmt: skip
    parser.add_argument(
        "--maps", nargs="+", default=[*METHODS], choices=METHODS, metavar="NAME",
        help="measure only these maps",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="skip the layers")
    parser.add_argument(
        "--reference", default="relevance", help="map of the comparisons (default: relevance)"
    )
    parser.add_argument(
        "--keep", type=Path, help="folder for intermediate results, so that a later call continues"
    )
    args = parser.parse_args()
    device, end = choose_device(args.device), time.monotonic() + 60 * args.minutes
    source = data.open_dataset(args.data, download=False)
    print(
        f"{describe_machine(device)}, {datetime.date.today()}, {args.steps} steps per curve",
        flush=True,
    )
    chosen = [
        RunMeasurement(run, source, args, device)
        for run in runs.find_runs(args.runs)[0]
        if run.has_weights and (not args.only or run.name in args.only)
    ]
    try:
        for at in range(args.images):  # taking turns gives all runs the same images when stopped
            for subject in chosen:
                if time.monotonic() < end:
                    subject.measure(at)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    for subject in chosen:
        subject.print_results(device)
    print(comparison_table(chosen, args.reference), flush=True)


class RunMeasurement:
    """Measurement of one run: its images, and a row of results for each measured image."""

    def __init__(self, run: runs.Run, source: data.ImageDataset, args, device: torch.device):
        self.run, self.device, self.steps = run, device, args.steps
        names = {"maps": args.maps, "candidates": args.candidates}
        self.options = {"extra": args.extra, "quick": args.quick, **names}
        self.model = runs.load_model(run, device).requires_grad_(False)
        self.images = draw_validation_images(run, source, args.images)
        possible = faithfulness.supported_fills(self.model)
        self.fills = [fill for fill in args.fills if fill in possible]
        self.rows: list[dict] = []
        what = [run.name, hash_weights(run.path)[:8], *self.fills, args.steps]
        what += [name for name in ("extra", "quick") if self.options[name]]
        what += [] if args.maps == [*METHODS] else args.maps
        what += args.candidates
        self.results_file = args.keep and args.keep / f"{'-'.join(map(str, what))}.jsonl"
        if self.results_file:
            args.keep.mkdir(parents=True, exist_ok=True)
            self.results_file.touch()
            lines = self.results_file.read_text(encoding="utf-8-sig").splitlines()[: args.images]
            self.rows = [json.loads(line) for line in lines]

    def measure(self, index: int) -> None:
        """Measure the image at `index`, unless it was measured before."""
        if index < len(self.rows):
            return
        image = self.run.preprocessing(self.images.images[index : index + 1].to(self.device))
        started = time.perf_counter()
        settings = {"steps": self.steps, "seed": index, **self.options}
        self.rows.append(measure_image(self.model, image, self.fills, **settings))
        seconds = time.perf_counter() - started
        if self.results_file:
            with self.results_file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(self.rows[-1]) + "\n")
        print(f"{self.run.name}: {index + 1}, {seconds:.1f} s", file=sys.stderr, flush=True)

    def print_results(self, device: torch.device) -> None:
        if len(self.rows) < 2:
            return
        for fill in self.fills:
            print(f"\n**{self.run.name}, fill: {fill}, {len(self.rows)} images**\n")
            print(score_table(self.rows, fill))
        by_fill = {fill: self.summarise(fill) for fill in self.fills}
        for fill, found in by_fill.items():
            means = ", ".join(f"{score:+.3f}" for score in found.layers)
            if means:
                print(f"\nScore of the mean attention of each layer, fill: {fill}: {means}")
        words = read_measurements(self.run.path, FAITHFULNESS_FILE) or {}
        words |= {"machine": describe_machine(device), "date": f"{datetime.date.today()}"}
        if gaps := [gap for row in self.rows for gap in row["gaps"]]:
            words |= {"completeness_gap_median": np.median(gaps)}
            words |= {"completeness_gap_worst": max(gaps)}
            print(f"\nCompleteness gap: median {np.median(gaps):.2%}, worst {max(gaps):.2%}")
        write_summaries(self.run.path, by_fill, **words)

    def summarise(self, fill: str) -> FaithfulnessSummary:
        """Return the mean scores of the page's maps, with those of the layers."""
        shown = {*BASELINE_NAMES, *METHODS}
        own = {k: v for k, v in compute_scores(self.rows, fill).items() if k in shown}
        layers = np.array([row[f"layers {fill}"] for row in self.rows])
        found = summarise_scores(own, layers, steps=self.steps, part="validation")
        if not self.options["quick"] or (stored := read_summaries(self.run.path).get(fill)) is None:
            return found
        if stored.pictures == found.pictures:
            found = replace(found, scores=stored.scores | found.scores)
        return replace(found, layers=stored.layers)


def draw_test_images(source: data.ImageDataset, count: int, size: int) -> data.LabelledImages:
    """Return `count` test images in which the classes take turns; any first part is stratified."""
    images = source.load("test", size)
    return images.subset(order_by_turn(images.labels)[:count])


def make_run_parser(doc: str, images: int, fill: str | None = None) -> argparse.ArgumentParser:
    """Return a parser with the options of benchmarks of single runs, with these defaults.

    Without a default `fill`, the benchmark removes no patches.
    """
    parser = make_parser(doc)
    parser.add_argument("--images", type=int, default=images, help="number of images per run")
    if fill:
        parser.add_argument(
            "--fill",
            default=fill,
            choices=faithfulness.FILLS,
            help="replacement of removed patches",
        )
    parser.add_argument("--only", nargs="+", required=True, metavar="RUN", help="names of runs")
    return parser


def open_subjects(
    args: argparse.Namespace, device: torch.device
) -> Iterator[tuple[runs.Run, nn.Module, Tensor]]:
    """Yield each run of `make_run_parser`'s options, its model, and validation images (N, ...)."""
    source = data.open_dataset(args.data, download=False)
    print(describe_machine(device), flush=True)
    for run in runs.find_runs(args.runs)[0]:
        if run.name in args.only:
            model = runs.load_model(run, device).requires_grad_(False)
            images = run.preprocessing(draw_validation_images(run, source, args.images).images)
            yield run, model, images.to(device)


def measure_until_stopped(images: Tensor, measure: Callable[[Tensor], Result]) -> list[Result]:
    """Call `measure` for each of the `images` (N, 3, S, S) until all are done or Ctrl-C."""
    found = []
    try:
        for image in images:
            started = time.process_time()
            found.append(measure(image[None]))
            seconds = time.process_time() - started
            print(f"{len(found)}: {seconds:.1f} processor seconds", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return found


def draw_validation_images(
    run: runs.Run, source: data.ImageDataset, count: int
) -> data.LabelledImages:
    """Draw `count` images from the run's validation split; the classes take turns.

    Any first part of the sample is stratified. The split uses the run's seed, so the run was not
    trained on these images. Raises `DataError` if the size of the split differs from the run's.
    """
    split, share = run.config["split"], run.config["recipe"]["validation_share"]
    labels = source.load_labels("train")
    _, held_out = data.stratified_split(labels, share, split["seed"])
    if len(held_out) != split["validation_pictures"]:
        raise DataError(
            f"'{run.name}' has {split['validation_pictures']:,} validation images, but this "
            f"dataset has {len(held_out):,}. Use --data to set the dataset that it was trained on."
        )
    chosen = held_out[order_by_turn(labels[held_out])[:count]]
    return source.load_subset("train", chosen, run.spec.image_size)


def order_by_turn(labels: Tensor) -> Tensor:
    """Return a seeded order of the images (N,) in which the classes take turns."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    turn = torch.zeros(len(labels), dtype=torch.long)
    for label in labels.unique():
        own = order[labels[order] == label]
        turn[own] = torch.arange(len(own))
    return turn.argsort(stable=True)


def measure_image(
    model: nn.Module,
    image: Tensor,
    fills: list[str],
    *,
    steps: int,
    seed: int,
    extra: bool,
    quick: bool,
    maps: list[str],
    candidates: list[str],
) -> dict:
    """Measure one image (1, 3, S, S); `seed` makes its random draws reproducible.

    The result has an entry per fill: {order: (deletion, insertion)} and the scores of the layers.
    The completeness gap is of Integrated Gradients. With `extra`, ROAD, the scores of transformed
    copies and SaCo are added.
    """
    with torch.no_grad():
        target = int(model(image).argmax())
    methods = [method for method in attributions.list_methods(model) if method.name in maps]
    found = attributions.attribute_many([m.name for m in methods], model, image, target)
    weights = F.one_hot(torch.tensor([target]), model.num_classes).to(image)
    complete = [found[m.name] for m in methods if m.is_complete]
    gaps = [float(attributions.completeness_gap(model, image, m, weights)) for m in complete]
    grid = attributions.cell_grid(model, image)
    own = rank_patches(model, image, target, found)
    others = {name: CANDIDATES[name](model, image, weights, own) for name in candidates}
    with_edges = own | others | {EDGE_BASELINE: faithfulness.edge_map(image, grid)}
    row = {"gaps": gaps}
    with use_fast_precision(image.device):
        for fill in [*fills, ROAD_FILL] if extra else fills:
            replacement = impute_patches if fill == ROAD_FILL else fill
            settings = {"fill": replacement, "steps": steps, "seed": seed}
            orders = 1 if quick else NUM_RANDOM_ORDERS
            row[fill] = measure_areas(model, image, target, with_edges, orders, **settings)
            if fill != ROAD_FILL:
                layers = [] if quick else score_layers(model, image, target, **settings)
                row[f"layers {fill}"] = layers
            if extra and fill != ROAD_FILL:
                row[f"laid {fill}"] = score_transformed_copies(
                    model, image, target, own, **settings
                )
        if extra:
            row["saco"] = compute_saco(model, image, target, own, fill=fills[0], seed=seed)
    return row


def rank_patches(
    model: nn.Module, image: Tensor, target: int, maps: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return values (rows, columns) that rank the patches as each of the `maps` by name does."""
    grid, found = attributions.cell_grid(model, image), {}
    for name, values in maps.items():
        ranking = attributions.compute_ranking_values(name, model, image, values, target)
        found[name] = faithfulness.resample_maps(ranking, grid)[0]
    return found


def measure_areas(
    model: nn.Module, image: Tensor, target: int, maps: dict, random_orders: int, **settings
) -> dict[str, list[float]]:
    """Return deletion and insertion areas of all orders, with the means of the random orders."""
    found = faithfulness.measure_perturbation_curves(
        model, image, target, maps, random_orders=random_orders, **settings
    )
    curves = {name: (found.deletion[name], found.insertion[name]) for name in found.deletion}
    curves[RANDOM_ORDERS_KEY] = (found.random_deletion.mean(0), found.random_insertion.mean(0))
    return {
        name: [float(faithfulness.area_under_curve(found.fractions, curve)) for curve in pair]
        for name, pair in curves.items()
    }


def score_transformed_copies(
    model: nn.Module, image: Tensor, target: int, maps: dict, **settings
) -> dict[str, float]:
    """Return the mean score of transformed copies of each map."""

    def score(values: Tensor) -> float:
        found = faithfulness.score_transformed_copies(
            model, image, target, values, count=NUM_TRANSFORMED_COPIES, **settings
        )
        return float(found.mean())

    return {name: score(values) for name, values in maps.items()}


def score_layers(model: nn.Module, image: Tensor, target: int, **settings) -> list[float]:
    """Return the score of each layer's attention, averaged over the heads (L,)."""
    if not has_attention(model):
        return []
    with torch.no_grad():
        means = forward_pass.trace(model, image).attention[:, 0].mean(1)  # (L, N, N)
    maps = attention.classifier_map(
        means, model.num_prefix_tokens, forward_pass.classifier_rows(model)
    )
    by_place = maps.float().unflatten(1, model.patch_embed.grid_size)  # (L, rows, columns)
    named = {str(layer): own for layer, own in enumerate(by_place, 1)}
    found = faithfulness.measure_perturbation_curves(
        model, image, target, named, random_orders=1, **settings
    )
    return [found.scores[name] for name in named]


def compute_scores(rows: list[dict], fill: str) -> dict[str, np.ndarray]:
    """Return insertion minus deletion (N,) of each order except `RANDOM_ORDERS_KEY`."""
    names = [name for name in rows[0][fill] if name != RANDOM_ORDERS_KEY]
    return {name: np.array([np.diff(row[fill][name])[0] for row in rows]) for name in names}


def score_table(rows: list[dict], fill: str) -> str:
    """Format the mean areas of each order, best score first, and paired intervals as Markdown."""
    own, extra = compute_scores(rows, fill), ROAD_FILL in rows[0]
    best = max(own.keys() - set(BASELINE_NAMES), key=lambda name: own[name].mean())
    lines = [
        "| order | deletion ↓ | insertion ↑ | score | best map minus this | "
        "this minus centre first | this minus edge map |"
        + extra
        * " this minus its copies | ROAD | SaCo |",
        "|---|---|---|---|---|---|---|" + extra * "---|---|---|",
    ]
    for name in sorted(own, key=lambda name: -own[name].mean()):
        deletion, insertion = np.stack([row[fill][name] for row in rows]).mean(axis=0)
        behind = "–" if name == best else format_mean_interval(own[best] - own[name])
        above = [
            "–" if name in BASELINE_NAMES else format_mean_interval(own[name] - own[baseline])
            for baseline in BASELINE_NAMES
        ]
        cells = [name, f"{deletion:.3f}", f"{insertion:.3f}", f"{own[name].mean():+.3f}", behind]
        cells += above + (extra_cells(rows, fill, name, own[name]) if extra else [])
        lines.append(f"| {' | '.join(cells)} |")
    chance = np.stack([row[fill][RANDOM_ORDERS_KEY] for row in rows]).mean(axis=0)
    empty = " |" * (7 if extra else 4)
    return "\n".join(
        [*lines, f"| {RANDOM_ORDERS_KEY} | {chance[0]:.3f} | {chance[1]:.3f} |{empty}"]
    )


def comparison_table(measured: list[RunMeasurement], reference: str) -> str:
    """Format each map's score minus the score of the map `reference`, of all runs, as Markdown.

    The last column is p of a two-sided paired t-test, with Holm's correction over all rows.
    """
    rows = []
    for subject in measured:
        for fill in subject.fills if len(subject.rows) > 1 else []:
            scores = compute_scores(subject.rows, fill)
            if reference not in scores:
                continue
            names = scores.keys() - {reference, *BASELINE_NAMES}
            differences = {name: scores[name] - scores[reference] for name in names}
            for name in sorted(names, key=lambda name: -differences[name].mean()):
                rows.append((subject.run.name, fill, name, differences[name]))
    p = holm([paired_p_value(own) for *_, own in rows])
    lines = [f"\n| run | fill | map | minus {reference} | p (Holm) |", "|---|---|---|---|---|"]
    for (run, fill, name, own), value in zip(rows, p, strict=True):
        lines.append(f"| {run} | {fill} | {name} | {format_mean_interval(own)} | {value:.2g} |")
    return "\n".join(lines)


def extra_cells(rows: list[dict], fill: str, name: str, own: np.ndarray) -> list[str]:
    """Return the cells of `--extra` for one order: difference to its copies, ROAD and SaCo."""
    copies = np.array([row[f"laid {fill}"].get(name, np.nan) for row in rows])
    above = "–" if np.isnan(copies).any() else format_mean_interval(own - copies)
    coefficients = np.array([row["saco"].get(name, np.nan) for row in rows])
    known = coefficients[~np.isnan(coefficients)]
    salience = f"{known.mean():+.3f}" if len(known) else "–"
    return [above, f"{compute_scores(rows, ROAD_FILL)[name].mean():+.3f}", salience]


def format_mean_interval(differences: np.ndarray) -> str:
    return "{:+.3f} ({:+.3f} to {:+.3f})".format(*mean_interval(differences))


def describe_machine(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    cores = f"{os.cpu_count()} cores, {torch.get_num_threads()} threads"
    return f"{platform.machine()} CPU, {cores}, torch {torch.__version__}"


if __name__ == "__main__":
    run_program(main)
