"""What the brightest patches of a last layer are worth: attention sinks, as a Markdown table.

    python benchmarks/sinks.py [--runs DIR] [--data DIR] [--pictures 100] [--only RUN ...]

Needs the data set. On each test picture the three patches that the class token takes most from in
the last layer, as a mean of its heads: their share of what all patches get, how many of them are
among the three first of a head, how long their tokens are where that layer reads them (in medians
of all patches), and what the probability of the predicted class loses without them, beside that
without the next three and without any three. A ViT's tokens are dropped, which needs patches that
stand alone; of other models nothing is told. `benchmarks/LOG.md` has what was measured.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.faithfulness import drawn  # noqa: E402
from vitdemo import attention, data, runs  # noqa: E402
from vitdemo.errors import VitdemoError  # noqa: E402
from vitdemo.faithfulness import fills  # noqa: E402
from vitdemo.faithfulness.fills import answers  # noqa: E402
from vitdemo.metrics.intervals import mean_interval  # noqa: E402
from vitdemo.training import pick_device  # noqa: E402
from vitdemo.workbench import Workbench  # noqa: E402

FIRST = 3  # patches
COLUMNS = {
    "share": ("share of the three", "{:.1%} ({:.1%} to {:.1%})"),
    "agreed": ("of a head's first three", "{:.2f} ({:.2f} to {:.2f})"),
    "length": ("length of their tokens, medians", "{:.2f} ({:.2f} to {:.2f})"),
    "without": ("lost without them", "{:+.2%} ({:+.2%} to {:+.2%})"),
    "without_next": ("without the next three", "{:+.2%} ({:+.2%} to {:+.2%})"),
    "without_any": ("without any three", "{:+.2%} ({:+.2%} to {:+.2%})"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=ROOT / "assets" / "runs")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--only", nargs="+", metavar="RUN", help="names of runs (default: all)")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    device, source = pick_device(args.device), data.open_source(args.data)
    print("| run, pictures | " + " | ".join(title for title, _ in COLUMNS.values()) + " |")
    print("|---" * (1 + len(COLUMNS)) + "|")
    for run in Workbench([args.runs], args.data, device).trained_runs():
        if args.only and run.name not in args.only:
            continue
        model = runs.load_model(run, device)
        if "drop" not in fills(model) or not attention.reads_class_token(model):
            print(f"{run.name}: its patches do not stand alone, or it has none", file=sys.stderr)
            continue
        pictures = drawn(source, args.pictures, run.spec.image_size).images.to(device)
        rows = [measured(model, run.preprocessing(one[None]), i) for i, one in enumerate(pictures)]
        cells = (
            form.format(*mean_interval(np.array([row[name] for row in rows])))
            for name, (_, form) in COLUMNS.items()
        )
        print(f"| `{run.name}`, {len(rows)} | " + " | ".join(cells) + " |", flush=True)


@torch.no_grad()
def measured(model: nn.Module, image: Tensor, seed: int) -> dict[str, float]:
    """The columns of one picture (1, 3, S, S); `seed` draws the patches of the last one."""
    trace = attention.trace(model, image)
    skipped = model.num_prefix_tokens
    heads = trace.attention[-1][0, :, 0, skipped:].float()  # (H, P) of the class token
    mean = heads.mean(0)
    order = mean.argsort(descending=True)
    first, following = order.split(FIRST)[:2]
    lengths = trace.tokens[-2][0, skipped:].float().norm(dim=-1)  # what the last layer reads
    any_three = torch.randperm(len(mean), generator=torch.Generator().manual_seed(seed))[:FIRST]
    stays = torch.ones(4, len(mean), dtype=torch.bool)
    for row, gone in enumerate((first.cpu(), following.cpu(), any_three), 1):
        stays[row, gone] = False
    grid = model.patch_embed.grid_size
    probabilities = answers(model, image, stays, grid, "drop").softmax(1)  # (4, C)
    own = probabilities[:, probabilities[0].argmax()]
    common = torch.isin(heads.topk(FIRST).indices, first).sum(1).float()  # (H,)
    lost = zip(list(COLUMNS)[3:], (own[0] - own[1:]).tolist(), strict=True)
    return {
        "share": float(mean[first].sum() / mean.sum()),
        "agreed": float(common.mean()),
        "length": float(lengths[first].mean() / lengths.median()),
    } | dict(lost)


if __name__ == "__main__":
    try:
        main()
    except VitdemoError as error:
        sys.exit(str(error))
