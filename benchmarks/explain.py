"""Measure the time of maps relative to a plain forward pass on the same images.

    python benchmarks/explain.py

Each repetition times the plain pass and all maps in turn, so that other load on the machine affects
all of them equally. The ratio is the median over the repetitions. On the CPU, processor time is
measured instead of elapsed time. Processor time includes waiting threads, so use one thread
(OMP_NUM_THREADS=1). LOG.md lists results. Integrated Gradients and occlusion need dozens of
passes and are not in the table.
"""

import argparse
import datetime
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import INCLUDED_RUNS, run_program  # noqa: E402
from benchmarks.faithfulness import describe_machine  # noqa: E402
from vitdemo import runs  # noqa: E402
from vitdemo.explain import attributions  # noqa: E402
from vitdemo.explain.attention import rollout  # noqa: E402
from vitdemo.explain.forward_pass import trace  # noqa: E402
from vitdemo.models import has_attention  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402

PLAIN_PASS_LABEL, ROLLOUT_LABEL = "plain pass", "trace + rollout"
GRADIENT_MAPS_LABEL = "all gradient maps of a class"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=INCLUDED_RUNS, help="folder of the runs")
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[1, 32, 64], help="batch sizes to measure"
    )
    parser.add_argument(
        "--repetitions", type=int, default=30, help="number of repetitions per batch size"
    )
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")
    args = parser.parse_args()
    device = choose_device(args.device)
    print(f"{describe_machine(device)}, {datetime.date.today()}, {args.repetitions} repetitions\n")
    print(
        f"| model | images | {PLAIN_PASS_LABEL}, ms | {ROLLOUT_LABEL} | {GRADIENT_MAPS_LABEL} "
        "|\n|---|---|---|---|---|"
    )
    for run in runs.find_runs(args.runs)[0]:
        if run.has_weights:
            model = runs.load_model(run, device)
            for batch in args.batches:
                images = torch.randn(batch, 3, *[run.spec.image_size] * 2, device=device)
                functions = make_timed_functions(model, images)
                seconds = time_functions(functions, args.repetitions, device)
                print(format_times(run.name, batch, seconds))


def make_timed_functions(model: nn.Module, images: Tensor) -> dict[str, Callable[[], object]]:
    """Return the functions to time, by name; a ResNet has no rollout."""
    quick = [
        m.name for m in attributions.list_methods(model) if m.is_class_specific and not m.is_slow
    ]

    @torch.inference_mode()
    def plain():
        return model(images)

    @torch.inference_mode()
    def rolled():
        return rollout(trace(model, images).attention, num_prefix_tokens=model.num_prefix_tokens)

    found = {PLAIN_PASS_LABEL: plain}
    if has_attention(model):
        found[ROLLOUT_LABEL] = rolled
    found[GRADIENT_MAPS_LABEL] = lambda: attributions.attribute_many(quick, model, images, 0)
    return found


def time_functions(functions: dict[str, Callable], repetitions: int, device: torch.device) -> dict:
    """Return the seconds of each function in each repetition, after two warm-up repetitions."""
    seconds = {name: [] for name in functions}
    for repetition in range(repetitions + 2):
        for name, work in functions.items():
            started = read_clock(device)
            work()
            if repetition >= 2:
                seconds[name].append(read_clock(device) - started)
    return seconds


def read_clock(device: torch.device) -> float:
    if device.type == "cpu":
        return time.process_time()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def format_times(name: str, batch: int, seconds: dict[str, list[float]]) -> str:
    plain = seconds[PLAIN_PASS_LABEL]
    cells = [f"{1000 * statistics.median(plain):.1f}"]
    for work in (ROLLOUT_LABEL, GRADIENT_MAPS_LABEL):
        pairs = zip(seconds.get(work, []), plain, strict=False)
        ratios = [own / base for own, base in pairs]
        cells.append(f"{statistics.median(ratios):.2f}" if ratios else "–")
    return f"| `{name}` | {batch} | {' | '.join(cells)} |"


if __name__ == "__main__":
    run_program(main)
