"""What explaining costs: maps as a ratio to the plain forward pass, on the same pictures.

    python benchmarks/explain.py

Each repetition times the plain pass and every map in turn, so that what else the machine does
falls on all of them; a ratio is the median of the ratios within a repetition. On the CPU the time
is the processor's, not the clock's (threads that wait for each other count, so give it one:
OMP_NUM_THREADS=1). LOG.md has what was measured. Integrated Gradients and occlusion are passes by
the dozen and are not in the table.
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

from benchmarks.faithfulness import machine  # noqa: E402
from vitdemo import attributions, console, runs  # noqa: E402
from vitdemo.attention import rollout, trace  # noqa: E402
from vitdemo.training import pick_device  # noqa: E402

PLAIN, ROLLOUT, GRADIENTS = "plain pass", "trace + rollout", "all maps of a class by gradients"


def main() -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=ROOT / "assets" / "runs")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32, 64])
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    device = pick_device(args.device)
    print(f"{machine(device)}, {datetime.date.today()}, {args.repetitions} repetitions\n")
    print(f"| model | pictures | {PLAIN}, ms | {ROLLOUT} | {GRADIENTS} |\n|---|---|---|---|---|")
    for run in runs.find_runs(args.runs)[0]:
        if run.has_weights:
            model = runs.load_model(run, device)
            for batch in args.batches:
                images = torch.randn(batch, 3, *[run.spec.image_size] * 2, device=device)
                print(row(run.name, batch, timed(works(model, images), args.repetitions, device)))


def works(model: nn.Module, images: Tensor) -> dict[str, Callable[[], object]]:
    """What is timed, by name; a ResNet has no attention."""
    quick = [m.name for m in attributions.methods_for(model) if m.class_specific and not m.long]

    @torch.inference_mode()
    def plain():
        return model(images)

    @torch.inference_mode()
    def rolled():
        return rollout(trace(model, images).attention, num_prefix_tokens=model.num_prefix_tokens)

    found = {PLAIN: plain}
    if attributions.kind_of(model) == "vit":
        found[ROLLOUT] = rolled
    found[GRADIENTS] = lambda: attributions.attribute_many(quick, model, images, 0)
    return found


def timed(works: dict[str, Callable], repetitions: int, device: torch.device) -> dict:
    """Seconds of each work in each repetition, after two that do not count."""
    seconds = {name: [] for name in works}
    for repetition in range(repetitions + 2):
        for name, work in works.items():
            started = now(device)
            work()
            if repetition >= 2:
                seconds[name].append(now(device) - started)
    return seconds


def now(device: torch.device) -> float:
    if device.type == "cpu":
        return time.process_time()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def row(name: str, batch: int, seconds: dict[str, list[float]]) -> str:
    plain = seconds[PLAIN]
    cells = [f"{1000 * statistics.median(plain):.1f}"]
    for work in (ROLLOUT, GRADIENTS):
        pairs = zip(seconds.get(work, []), plain, strict=False)
        ratios = [own / base for own, base in pairs]
        cells.append(f"{statistics.median(ratios):.2f}" if ratios else "–")
    return f"| `{name}` | {batch} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
