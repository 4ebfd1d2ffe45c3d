"""Measure weight, norm and effect of the most attended patches in the last layer.

    python benchmarks/sinks.py [--runs DIR] [--data DIR] [--images 100] [--only RUN ...]

Needs the test set. In each test image, the "first three" are the patches with the largest mean
attention of the class token in the last layer. The "next three" follow in the same order. The
columns of the Markdown table are means over the images, with 95% intervals:

- weight: fraction of the attention weight on all patches
- norms: fraction of the summed norms of the vectors that the class token receives from the patches
  (`vitdemo.explain.norms`, all heads together)
- weight of the new first three: fraction of the weight on the three most attended patches after the
  first three have been dropped from the model
- in the first three of a head: number of these patches among the first three of a single head
- token norm: norm of the first three tokens, divided by the median norm of all patch tokens
- probability lost: decrease of the predicted class's probability, when the class token cannot
  attend to the three in the last layer, and when the first, the next or any three are dropped

Dropping needs tokens that each contain one patch only, so models with a convolutional stem are
skipped. benchmarks/log/2026-11-27-knockout-and-sinks.md has results.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import make_parser, run_program  # noqa: E402
from benchmarks.faithfulness import draw_test_images  # noqa: E402
from vitdemo import data, runs  # noqa: E402
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.explain import forward_pass, norms  # noqa: E402
from vitdemo.explain.faithfulness import supported_fills  # noqa: E402
from vitdemo.explain.faithfulness.fills import predict_patch_sets  # noqa: E402
from vitdemo.explain.knockout import compute_knockout_logits, trace_with_knockout  # noqa: E402
from vitdemo.metrics.intervals import mean_interval  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402

GROUP_SIZE = 3  # number of patches in a group
COLUMN_FORMATS = {
    "share": ("weight", "{:.1%} ({:.1%} to {:.1%})"),
    "norm": ("norms", "{:.1%} ({:.1%} to {:.1%})"),
    "next_share": ("weight of the new first three", "{:.1%} ({:.1%} to {:.1%})"),
    "agreed": ("in the first three of a head", "{:.2f} ({:.2f} to {:.2f})"),
    "length": ("token norm / median norm", "{:.2f} ({:.2f} to {:.2f})"),
    "blocked": ("probability lost: blocked in last layer", "{:+.2%} ({:+.2%} to {:+.2%})"),
    "without": ("probability lost: first three dropped", "{:+.2%} ({:+.2%} to {:+.2%})"),
    "without_next": ("next three dropped", "{:+.2%} ({:+.2%} to {:+.2%})"),
    "without_any": ("any three dropped", "{:+.2%} ({:+.2%} to {:+.2%})"),
}


def main() -> None:
    parser = make_parser(__doc__, images=100)
    args = parser.parse_args()
    device, source = choose_device(args.device), data.find_dataset(args.data)
    print("| run, images | " + " | ".join(title for title, _ in COLUMN_FORMATS.values()) + " |")
    print("|---" * (1 + len(COLUMN_FORMATS)) + "|")
    for run in AppContext([args.runs], args.data, device).trained_runs():
        if args.only and run.name not in args.only:
            continue
        model = runs.load_model(run, device)
        if "drop" not in supported_fills(model) or not forward_pass.reads_class_token(model):
            print(f"{run.name} skipped: no class token or overlapping patches", file=sys.stderr)
            continue
        images = draw_test_images(source, args.images, run.spec.image_size).images.to(device)
        rows = [
            measure_sinks(model, run.preprocessing(one[None]), i) for i, one in enumerate(images)
        ]
        cells = (
            form.format(*mean_interval(np.array([row[name] for row in rows])))
            for name, (_, form) in COLUMN_FORMATS.items()
        )
        print(f"| `{run.name}`, {len(rows)} | " + " | ".join(cells) + " |", flush=True)


@torch.no_grad()
def measure_sinks(model: nn.Module, image: Tensor, seed: int) -> dict[str, float]:
    """Return the columns for one image (1, 3, S, S); `seed` draws the random patches."""
    trace = forward_pass.trace(model, image)
    skipped = model.num_prefix_tokens
    heads = trace.attention[-1][0, :, 0, skipped:].float()  # (H, P) of the class token
    mean = heads.mean(0)
    order = mean.argsort(descending=True)
    first, following = order.split(GROUP_SIZE)[:2]
    lengths = trace.tokens[-2][0, skipped:].float().norm(dim=-1)  # input of the last layer
    common = torch.isin(heads.topk(GROUP_SIZE).indices, first).sum(1).float()  # (H,)
    generator = torch.Generator().manual_seed(seed)
    any_three = torch.randperm(len(mean), generator=generator)[:GROUP_SIZE]
    received = compute_received_norms(model, trace)
    return {
        "share": float(mean[first].sum() / mean.sum()),
        "norm": float(received[first].sum() / received.sum()),
        "next_share": weight_after_removal(model, image, first),
        "agreed": float(common.mean()),
        "length": float(lengths[first].mean() / lengths.median()),
        "blocked": measure_drop_when_blocked(model, image, first),
    } | measure_drop_without(
        model, image, {"without": first, "without_next": following, "without_any": any_three}
    )


def compute_received_norms(model: nn.Module, trace: forward_pass.Trace) -> Tensor:
    """Return the norms (P,) of the vectors that the class token receives in the last layer."""
    products = norms.value_products(model, trace.tokens)[-1, 0]  # (N, H, H)
    return norms.summed_head_norms(trace.attention[-1, 0], products)[0, model.num_prefix_tokens :]


def weight_after_removal(model: nn.Module, image: Tensor, dropped: Tensor) -> float:
    """Return the weight fraction of the most attended patches after the `dropped` ones are removed.

    Instead of being removed, they are blocked from attention in all layers, which has the same
    effect on all other tokens.
    """
    blocked = make_empty_mask(model)
    blocked[:, :, model.num_prefix_tokens + dropped.cpu()] = True
    heads = trace_with_knockout(model, image, blocked).attention[-1][
        0, :, 0, model.num_prefix_tokens :
    ]
    mean = heads.float().mean(0)
    return float(mean.topk(GROUP_SIZE).values.sum() / mean.sum())


def measure_drop_when_blocked(model: nn.Module, image: Tensor, patches: Tensor) -> float:
    """Return the lost probability if the class token cannot attend to `patches` in layer L."""
    blocked = make_empty_mask(model)
    blocked[-1, 0, model.num_prefix_tokens + patches.cpu()] = True
    before, after = (
        compute_knockout_logits(model, image, mask).softmax(1)[0]
        for mask in (make_empty_mask(model), blocked)
    )
    return float(before.max() - after[before.argmax()])


def make_empty_mask(model: nn.Module) -> Tensor:
    N = model.num_prefix_tokens + model.patch_embed.num_patches
    return torch.zeros(len(model.blocks), N, N, dtype=torch.bool)


def measure_drop_without(
    model: nn.Module, image: Tensor, sets: dict[str, Tensor]
) -> dict[str, float]:
    """Return the lost probability if the patches of each set are dropped from the model."""
    stays = torch.ones(1 + len(sets), model.patch_embed.num_patches, dtype=torch.bool)
    for row, gone in enumerate(sets.values(), 1):
        stays[row, gone.cpu()] = False
    grid = model.patch_embed.grid_size
    logits = predict_patch_sets(model, image, stays, grid, "drop")
    probabilities = logits.softmax(1)  # (1 + sets, C)
    own = probabilities[:, probabilities[0].argmax()]
    return dict(zip(sets, (own[0] - own[1:]).tolist(), strict=True))


if __name__ == "__main__":
    run_program(main)
