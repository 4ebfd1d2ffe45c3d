"""Measure accuracy under attention knock-out of the class token, layer by layer.

    python benchmarks/knockout.py [--runs DIR] [--data DIR] [--images 1000] [--only RUN ...]

Needs the test set. For k = 0 to L, the special tokens (class, distillation, registers) cannot
attend to any patch in layers 1 to k (`vitdemo.explain.knockout`); with --last, in the last k
layers. Each row has the accuracy, the mean probability of the class that the whole model predicts,
and the percentage of images whose predicted class stays the same. The images are a stratified,
seeded sample. Models that predict from the mean of the patches are skipped. The output is Markdown;
`docs/attention.md` has the results.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import make_parser, run_program  # noqa: E402
from benchmarks.faithfulness import draw_test_images  # noqa: E402
from vitdemo import data, runs  # noqa: E402
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.explain import forward_pass  # noqa: E402
from vitdemo.explain.knockout import build_patch_knockout, compute_knockout_logits  # noqa: E402
from vitdemo.models import has_attention  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402

KNOCKOUT_BATCH_SIZE = 50  # images per forward pass


def main() -> None:
    parser = make_parser(__doc__, images=1000)
    parser.add_argument(
        "--last", action="store_true", help="block the last k layers instead of the first k layers"
    )
    args = parser.parse_args()
    device, source = choose_device(args.device), data.open_dataset(args.data)
    for run in AppContext([args.runs], args.data, device).trained_runs():
        if args.only and run.name not in args.only:
            continue
        model = runs.load_model(run, device)
        if not has_attention(model) or not forward_pass.reads_class_token(model):
            print(f"{run.name} skipped: it does not predict from a class token", file=sys.stderr)
            continue
        images = draw_test_images(source, args.images, run.spec.image_size)
        print_knockout_table(run, model, images, args.last)


def print_knockout_table(
    run: runs.Run, model: nn.Module, images: data.LabelledImages, last_layers: bool
) -> None:
    L = len(model.blocks)
    print(f"\n**{run.name}, {len(images)} test images**\n")
    print("| blocked layers | accuracy | mean probability | same prediction |")
    print("|---|---|---|---|", flush=True)
    pixels = run.preprocessing(images.images)
    whole = None
    for k in range(L + 1):
        layers = range(L - k, L) if last_layers else range(k)
        found = predict_with_blocked_patches(model, pixels, layers)  # (B, C)
        whole = found if whole is None else whole
        values = compute_knockout_metrics(found, whole, images.labels)
        cells = " | ".join(f"{value:.1%}" for value in values)
        print(f"| {format_layer_range(layers)} | {cells} |", flush=True)


def format_layer_range(layers: range) -> str:
    if not layers:
        return "none"
    first, last = layers[0] + 1, layers[-1] + 1
    return str(first) if first == last else f"{first} to {last}"


@torch.inference_mode()
def predict_with_blocked_patches(model: nn.Module, pixels: Tensor, layers: Sequence[int]) -> Tensor:
    """Return the probabilities (B, C) with the patches blocked in `layers` (counted from 0)."""
    blocked = build_patch_knockout(model, layers)
    device = next(model.parameters()).device
    parts = [
        compute_knockout_logits(model, part.to(device), blocked)
        for part in pixels.split(KNOCKOUT_BATCH_SIZE)
    ]
    return torch.cat(parts).softmax(dim=1).cpu()


def compute_knockout_metrics(
    probabilities: Tensor, reference: Tensor, labels: Tensor
) -> tuple[float, float, float]:
    """Return accuracy, mean probability of `reference`'s class, fraction of same predictions."""
    predicted, before = probabilities.argmax(dim=1), reference.argmax(dim=1)
    own = probabilities.gather(1, before[:, None])
    same = (predicted == before).float().mean()
    return float((predicted == labels).float().mean()), float(own.mean()), float(same)


if __name__ == "__main__":
    run_program(main)
