"""Measure training speed, hardware utilisation and the time to 90% and 94% validation accuracy.

    python benchmarks/train.py                                   # a few epochs of four recipes
    python benchmarks/train.py vit-scratch --batch-size 2048 --compile reduce-overhead
    python benchmarks/train.py --usual vit-small-cpu             # compare with a standard loop
    python benchmarks/train.py --runs runs                       # only the times of finished runs

Speed is measured on random pixels, so no dataset is needed. An epoch has `--steps` steps. The first
epoch is not counted, because it includes compilation. A multiply-add counts as 2 operations. The
forward and backward pass count as 3 forward passes. Utilisation is relative to the speed of a large
matrix product in the training data type. `--usual` alternates between vitdemo's loop and a standard
loop with torchvision's transforms and a DataLoader, on the CPU (see `standard_loop.py`). Times to
an accuracy come from the histories of runs. They include validation, compilation and earlier runs
whose weights a run started from.
"""

import argparse
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import standard_loop  # noqa: E402
from vitdemo import console, data, runs  # noqa: E402
from vitdemo.metrics.training_progress import first_epochs_reaching, with_lineage_history  # noqa: E402
from vitdemo.models import build_model, count_macs  # noqa: E402
from vitdemo.runs.provenance import device_name, package_versions  # noqa: E402
from vitdemo.training import Preprocessing, choose_device  # noqa: E402
from vitdemo.training.devices import (  # noqa: E402
    retain_freed_memory,
    supports_fast_bfloat16,
)
from vitdemo.training.pretraining import make_trainer  # noqa: E402
from vitdemo.training.recipes import Recipe, get_recipe  # noqa: E402

STANDARD_LOOP_RECIPES = ("vit-plain", "vit-scratch-cpu", "conv-baseline-cpu")  # for --usual
DEFAULT_RECIPES = ("vit-plain", "vit-scratch", "vit-conv-stem", "resnet18")
TARGET_ACCURACIES = (0.90, 0.94)


def main(argv: list[str] | None = None) -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="*", help=f"default: {', '.join(DEFAULT_RECIPES)}")
    parser.add_argument(
        "--steps", type=int, default=0, help="steps per epoch (default: as for CIFAR-10; CPU: 4)"
    )
    parser.add_argument(
        "--epochs", type=int, default=4, help="number of epochs; the first is not counted"
    )
    parser.add_argument(
        "--batch-size", type=int, default=0, help="images per step (default: the recipe's)"
    )
    parser.add_argument(
        "--image-size", type=int, default=0, help="side of the model input (default: the recipe's)"
    )
    parser.add_argument("--compile", default="auto", help="mode of torch.compile")
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")
    parser.add_argument(
        "--runs", type=Path, nargs="*", help="only print the times of the runs in these folders"
    )
    parser.add_argument(
        "--usual", action="store_true", help="compare with a standard training loop on the CPU"
    )
    args = parser.parse_args(argv)
    if args.runs is not None:
        print_times(args.runs)
        return
    if args.usual:
        print_standard_comparison(args)
        return
    device = choose_device(args.device)
    ceiling = measure_matmul_rate(device)
    packages = ", ".join(f"{name} {version}" for name, version in package_versions().items())
    print(f"{device_name(device)}; {packages}")
    print(
        f"a matrix product reaches {ceiling / 1e12:.3g} TFLOP/s in {get_training_dtype(device)}\n"
    )
    print("| recipe | batch | compile | images/s | FLOP utilisation | first epoch | GPU memory |")
    print("|---|---|---|---|---|---|---|")
    for name in args.recipes or DEFAULT_RECIPES:
        print(measure_recipe(get_benchmark_recipe(name, args), device, ceiling, args), flush=True)


def print_standard_comparison(args: argparse.Namespace) -> None:
    """Print one row per recipe: speed of the standard loop, of vitdemo, and their ratio."""
    retain_freed_memory()
    threads = torch.get_num_threads()
    cpu = device_name(torch.device("cpu"))
    print(f"{cpu}, {threads} torch threads, {standard_loop.NUM_WORKERS} DataLoader workers\n")
    print("| recipe | batch | augmentation | standard, images/s | vitdemo, images/s | ratio |")
    print("|---|---|---|---|---|---|")
    for name in args.recipes or STANDARD_LOOP_RECIPES:
        recipe = get_recipe(name)
        recipe = replace(recipe, batch_size=args.batch_size or recipe.batch_size)
        found = standard_loop.measure_speeds(recipe, args.steps or 10, args.epochs - 1)
        theirs, ours = (statistics.median(found[side]) for side in ("usual", "ours"))
        done = f"crop, flip, {recipe.policy}"
        print(f"| `{name}` | {recipe.batch_size} | {done} | {theirs:,.0f} | {ours:,.0f} "
              f"| {ours / theirs:.2f} |", flush=True)  # fmt: skip


def get_benchmark_recipe(name: str, args: argparse.Namespace) -> Recipe:
    """Return the recipe without stages and teacher, with the benchmark's number of epochs."""
    stages = {"head_epochs": 0, "unmixed_epochs": 0, "whole_epochs": 0}
    recipe = get_recipe(name, epochs=args.epochs, teacher="", **stages)
    size = args.image_size or recipe.model.image_size
    recipe = replace(recipe, model=replace(recipe.model, image_size=size))
    return replace(recipe, batch_size=args.batch_size or recipe.batch_size)


def measure_recipe(
    recipe: Recipe, device: torch.device, ceiling: float, args: argparse.Namespace
) -> str:
    """Train one recipe and return its row of the table."""
    steps = args.steps or (45_000 // recipe.batch_size if device.type == "cuda" else 4)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(0)
    model = build_model(recipe.model, 10).to(device)
    macs = count_macs(model, recipe.model.image_size)
    trainer = make_trainer(
        model,
        recipe,
        standard_loop.random_dataset(steps * recipe.batch_size),
        standard_loop.random_dataset(10),
        num_classes=10,
        preprocessing=Preprocessing(recipe.model.image_size, data.CIFAR10_MEAN, data.CIFAR10_STD),
        compile=args.compile,
    )
    first, *rest = trainer.fit()
    rate = statistics.median(record["images_per_second"] for record in rest)
    memory = (
        f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if device.type == "cuda" else "-"
    )
    # With dropped or masked patches, the model computes less than `macs`.
    partial = recipe.mask_ratio or recipe.patch_dropout
    used = "-" if partial else f"{100 * rate * 6 * macs / ceiling:.1f}%"
    return (
        f"| `{recipe.name}` | {recipe.batch_size} | {trainer.compile} | {rate:,.0f} "
        f"| {used} | {first['epoch_seconds']:.1f} s | {memory} |"
    )


def get_training_dtype(device: torch.device) -> torch.dtype:
    return torch.bfloat16 if supports_fast_bfloat16(device) else torch.float32


def measure_matmul_rate(device: torch.device, repeats: int = 10) -> float:
    """Return the operations per second of a large matrix product (multiply-add: 2), best of 10."""
    side = 8192 if device.type == "cuda" else 1024
    a, b = torch.randn(2, side, side, device=device, dtype=get_training_dtype(device))
    seconds = []
    for _ in range(repeats):
        synchronise(device)
        started = time.perf_counter()
        a @ b
        synchronise(device)
        seconds.append(time.perf_counter() - started)
    return 2 * side**3 / min(seconds)


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def seconds_to_accuracy(run: runs.Run, target: float) -> float | None:
    """Return the seconds up to the first epoch with a validation accuracy of `target`."""
    found = first_epochs_reaching(with_lineage_history(run), [target])
    return 60 * found[0].minutes if found else None


def print_times(folders: list[Path]) -> None:
    found, problems = runs.find_runs(*folders)
    print(
        "| run | device | epochs | minutes | "
        + " | ".join(f"to {t:.0%}" for t in TARGET_ACCURACIES)
        + " |"
    )
    print("|---|---|---|---|---|---|")
    for run in found:
        times = (seconds_to_accuracy(run, target) for target in TARGET_ACCURACIES)
        cells = " | ".join("-" if t is None else f"{t:,.0f} s" for t in times)
        device, minutes = run.device or "?", run.train_seconds / 60
        print(f"| `{run.name}` | {device} | {len(run.history)} | {minutes:.1f} | {cells} |")
    for problem in problems:
        print(problem, file=sys.stderr)


if __name__ == "__main__":
    main()
