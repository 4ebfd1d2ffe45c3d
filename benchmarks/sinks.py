"""Measure attention sinks: weight, norm, content and effect of the most attended patches.

    python benchmarks/sinks.py [--runs DIR] [--data DIR] [--images 100] [--only RUN ...]
    python benchmarks/sinks.py --tables content removal

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

The table "content" describes the most attended patch of each head in each layer, averaged over all
queries (`vitdemo.explain.sinks`). Its columns are means over heads:

- weight: mean attention of all queries to this patch
- norm of its value: divided by the mean norm of all patches
- similarity between images: mean cosine similarity of its value between the images, and that of all
  pairs of patches

In the table "removal", no token can attend to the first three or to any three patches in any layer.
It has the accuracy, the change of the predicted class's logit, and the rank correlation of two maps
with those of the unchanged model, over the other patches.
benchmarks/log/2026-11-30-sinks.md has results of both tables.
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
from vitdemo.explain.attention import accumulate_relevance, classifier_map  # noqa: E402
from vitdemo.explain.faithfulness import supported_fills  # noqa: E402
from vitdemo.explain.faithfulness.fills import predict_patch_sets  # noqa: E402
from vitdemo.explain.faithfulness.sanity import rank_correlation  # noqa: E402
from vitdemo.explain.knockout import compute_knockout_logits, trace_with_knockout  # noqa: E402
from vitdemo.explain.qkv import compute_qkv  # noqa: E402
from vitdemo.explain.sinks import (  # noqa: E402
    compare_images,
    compute_mean_directions,
    find_sinks,
)
from vitdemo.metrics.intervals import mean_interval, wilson_interval  # noqa: E402
from vitdemo.models import has_attention  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402

GROUP_SIZE = 3  # number of patches in a group
MAPS = ("attention", "relevance")  # attention of the last layer, averaged over the heads
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


Images = tuple[Tensor, Tensor]  # normalised (N, 3, S, S), and labels (N,)


def main() -> None:
    parser = make_parser(__doc__, images=100)
    parser.add_argument("--tables", nargs="+", default=[*TABLES], choices=TABLES)
    args = parser.parse_args()
    device, source = choose_device(args.device), data.find_dataset(args.data)
    subjects = []
    for run in AppContext([args.runs], args.data, device).trained_runs():
        model = runs.load_model(run, device).requires_grad_(False)
        is_chosen = not args.only or run.name in args.only
        if is_chosen and has_attention(model) and forward_pass.reads_class_token(model):
            found = draw_test_images(source, args.images, run.spec.image_size)
            images = run.preprocessing(found.images.to(device)), found.labels
            subjects.append((run.name, model, images))
    for name in args.tables:
        TABLES[name](subjects)


def print_effect_table(subjects: list[tuple[str, nn.Module, Images]]) -> None:
    print("| run, images | " + " | ".join(title for title, _ in COLUMN_FORMATS.values()) + " |")
    print("|---" * (1 + len(COLUMN_FORMATS)) + "|")
    for name, model, (images, _) in subjects:
        if "drop" not in supported_fills(model):
            print(f"{name} skipped: overlapping patches", file=sys.stderr)
            continue
        rows = [measure_sinks(model, one[None], i) for i, one in enumerate(images)]
        cells = (
            form.format(*mean_interval(np.array([row[name] for row in rows])))
            for name, (_, form) in COLUMN_FORMATS.items()
        )
        print(f"| `{name}`, {len(rows)} | " + " | ".join(cells) + " |", flush=True)


@torch.no_grad()
def print_content_table(subjects: list[tuple[str, nn.Module, Images]]) -> None:
    columns = "run", "layer", "weight", "norm of its value", "similarity", "of all patches"
    print(f"\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for name, model, (images, _) in subjects:
        found = [measure_content(model, one[None]) for one in images]
        weights, ratios, sinks, patches = (torch.stack(each) for each in zip(*found, strict=True))
        between = compare_images(sinks).mean(-1), compare_images(patches).mean(-1)  # each (L,)
        for layer, (own, every) in enumerate(zip(*between, strict=True)):
            weight, ratio = (
                mean_interval(each[:, layer].mean(-1).numpy()) for each in (weights, ratios)
            )
            print(
                f"| `{name}` | {layer + 1} | {'{:.1%} ({:.1%} to {:.1%})'.format(*weight)} | "
                f"{'{:.2f} ({:.2f} to {:.2f})'.format(*ratio)} | {own:+.2f} | {every:+.2f} |",
                flush=True,
            )


def measure_content(model: nn.Module, image: Tensor) -> tuple[Tensor, ...]:
    """Return weights and norm ratios (L, H) of the sinks of an image (1, 3, S, S), and directions.

    The directions (L, H, D/H) are those of the sinks, and the means of all patches.
    """
    trace, prefix = forward_pass.trace(model, image), model.num_prefix_tokens
    layers = []
    for layer, attention in enumerate(trace.attention):
        values = compute_qkv(model, trace.tokens[layer], layer)[2]  # (1, H, N, D/H)
        found = find_sinks(attention[0], values[0], prefix)
        means = compute_mean_directions(values[0], prefix)
        layers.append((found.weights, found.norm_ratios, found.directions, means))
    return tuple(torch.stack(each).cpu() for each in zip(*layers, strict=True))


def print_removal_table(subjects: list[tuple[str, nn.Module, Images]]) -> None:
    columns = "accuracy", "change of the logit", *(f"rank correlation: {each}" for each in MAPS)
    print(f"\n| run, images | removed | {' | '.join(columns)} |")
    print("|---" * (2 + len(columns)) + "|")
    for name, model, (images, labels) in subjects:
        rows = [measure_removal(model, one[None], i) for i, one in enumerate(images)]
        for removed in rows[0]:
            own = np.array([row[removed] for row in rows])  # (N, 4)
            hits = int((own[:, 0] == labels.numpy()).sum())
            interval = wilson_interval(np.array(hits), np.array(len(own)))
            accuracy = "{:.1%} ({:.1%} to {:.1%})".format(hits / len(own), *interval)
            cells = [
                "{:+.2f} ({:+.2f} to {:+.2f})".format(*mean_interval(each)) for each in own.T[1:]
            ]
            print(f"| `{name}`, {len(own)} | {removed} | {accuracy} | {' | '.join(cells)} |")


def measure_removal(model: nn.Module, image: Tensor, seed: int) -> dict[str, tuple[float, ...]]:
    """Return prediction, logit change and rank correlations by the name of the removed patches."""
    none = make_empty_mask(model)
    before, maps = compute_blocked_maps(model, image, none)
    target, prefix = int(before.argmax()), model.num_prefix_tokens
    order = maps["attention"].argsort(descending=True)
    draw = torch.randperm(len(order), generator=torch.Generator().manual_seed(seed))
    found = {"nothing": (target, 0.0, *[1.0] * len(MAPS))}
    for name, gone in {"first three": order[:GROUP_SIZE], "any three": draw[:GROUP_SIZE]}.items():
        blocked = none.clone()
        blocked[:, :, prefix + gone.cpu()] = True
        logits, after = compute_blocked_maps(model, image, blocked, target)
        stays = torch.ones(len(order), dtype=torch.bool)
        stays[gone.cpu()] = False
        similar = [rank_correlation(maps[each][stays], after[each][stays]) for each in MAPS]
        found[name] = int(logits.argmax()), float(logits[target] - before[target]), *similar
    return found


def compute_blocked_maps(
    model: nn.Module, image: Tensor, blocked: Tensor, target: int | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the logits (C,), and the maps (P,) of `MAPS` for `target`, with blocked attention.

    Without a `target`, the predicted class is explained.
    """
    with torch.enable_grad():
        found = forward_pass.run_forward(model, image.clone().requires_grad_(), [*blocked])
        logits = found.logits[0]
        score = logits[logits.argmax() if target is None else target]
        gradients = torch.autograd.grad(score, found.attention)
    weights = [each.detach() for each in found.attention]
    prefix, rows = model.num_prefix_tokens, forward_pass.classifier_rows(model)
    matrices = weights[-1].mean(1), accumulate_relevance(weights, gradients)
    maps = (classifier_map(each, prefix, rows)[0].cpu() for each in matrices)
    return logits.detach(), dict(zip(MAPS, maps, strict=True))


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


TABLES = {
    "effect": print_effect_table,
    "content": print_content_table,
    "removal": print_removal_table,
}

if __name__ == "__main__":
    run_program(main)
