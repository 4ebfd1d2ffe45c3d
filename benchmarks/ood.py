"""Measure how well images that show none of a model's classes are detected.

    python benchmarks/ood.py [--runs DIR] [--data DIR] [--images 2000] [--only RUN ...]
                             [--known DIR] [--other DIR ...]

Needs the dataset and runs with `reference_features.npz` (`python train.py evaluate RUN`). Compares
three scores on test images and on images of other classes: the mean cosine to the ten nearest
training images (the score of the page), the energy (Liu et al. 2020) and the highest softmax
probability (Hendrycks & Gimpel 2017). An AUROC of 0.5 is chance, 1 is perfect separation.

`--other` sets folders of images that show none of the classes (default: the page's example photos
except the cat). `--known` sets a folder `class/image` of photos of the model's classes, which do
not come from CIFAR-10. These photos show whether the scores also react to differences other than
the class. The output is Markdown; docs/results.md has the results.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.special import logsumexp, softmax
from sklearn.metrics import roc_auc_score

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import make_parser, run_program  # noqa: E402
from vitdemo import data, models, runs  # noqa: E402
from vitdemo.data.image_files import crop_and_resize, crop_visible_square, load_image, to_uint8  # noqa: E402
from vitdemo.data.photos import example_files  # noqa: E402
from vitdemo.errors import ImageError  # noqa: E402
from vitdemo.runs.reference import ReferenceFeatures, read_reference  # noqa: E402
from vitdemo.training import choose_device  # noqa: E402

PERCENTILES = (1, 2, 5, 10)  # an image is flagged below this percentile of the validation scores
OOD_BATCH_SIZE = 50  # images per forward pass


@dataclass(frozen=True)
class OodScores:
    """Scores, percentiles and predictions of N images; high scores are typical images."""

    scores: dict[str, np.ndarray]
    percentiles: np.ndarray
    predicted: np.ndarray


@torch.inference_mode()
def score_images(
    model: torch.nn.Module, run: runs.Run, reference: ReferenceFeatures, images: torch.Tensor
) -> OodScores:
    """Score uint8 `images` (N, 3, S, S) by the features and logits of one forward pass."""
    device = next(model.parameters()).device
    parts = [
        models.features_and_logits(model, run.preprocessing(part.to(device)))
        for part in images.split(OOD_BATCH_SIZE)
    ]
    features, logits = (torch.cat(part).float().cpu().numpy() for part in zip(*parts, strict=True))
    neighbours = reference.score(torch.from_numpy(features)).numpy()
    below = np.searchsorted(reference.validation_scores, neighbours)
    return OodScores(
        {
            "nearest neighbours": neighbours,
            "energy": logsumexp(logits, axis=1),
            "softmax": softmax(logits, axis=1).max(axis=1),
        },
        100 * below / len(reference.validation_scores),
        logits.argmax(axis=1),
    )


def load_images(files: list[Path], size: int) -> tuple[torch.Tensor, list[Path]]:
    """Read square crops (N, 3, size, size) as on the page; return them and the files used."""
    images, used = [], []
    for file in files:
        try:
            images.append(to_uint8(crop_and_resize(crop_visible_square(load_image(file)), size)))
            used.append(file)
        except ImageError as error:
            print(f"skipped: {error}", file=sys.stderr)
    return torch.from_numpy(np.stack(images)), used


def list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def auroc(in_distribution: np.ndarray, out_of_distribution: np.ndarray) -> float:
    """Return the probability that a test image scores higher than an image of no class."""
    truth = np.repeat([1, 0], [len(in_distribution), len(out_of_distribution)])
    return float(roc_auc_score(truth, np.concatenate([in_distribution, out_of_distribution])))


def main() -> None:
    parser = make_parser(__doc__, images=2000)
    parser.add_argument("--known", type=Path, help="folder class/image of photos of the classes")
    parser.add_argument(
        "--other", type=Path, nargs="+", help="folders of images that show none of the classes"
    )
    args = parser.parse_args()
    source, device = data.open_dataset(args.data), choose_device(args.device)
    others = {folder.name: list_files(folder) for folder in args.other or []}
    others = others or {"example photos": [Path(file) for file in example_files()[1:]]}
    for run in runs.find_runs(args.runs)[0]:
        reference = read_reference(run)
        if reference is not None and (not args.only or run.name in args.only):
            print_ood_tables(run, reference, source, device, args.images, args.known, others)


def print_ood_tables(
    run: runs.Run,
    reference: ReferenceFeatures,
    source: data.ImageDataset,
    device: torch.device,
    count: int,
    known: Path | None,
    others: dict[str, list[Path]],
) -> None:
    """Print the AUROC of each score, and the percentage of images flagged at each percentile."""
    model, size = runs.load_model(run, device), run.spec.image_size
    chosen = data.sample_stratified(source.load_labels("test").numpy(), count)
    test = source.load_subset("test", torch.from_numpy(chosen), size).images
    groups = {"test images": score_images(model, run, reference, test)}
    for name, files in others.items():
        images, used = load_images(files, size)
        groups[name] = score_images(model, run, reference, images)
        if len(used) < 10:
            found = zip(used, groups[name].percentiles, strict=True)
            print(", ".join(f"{file.stem} {percentile:.1f}" for file, percentile in found))
    usual = groups["test images"].scores
    print(f"\n| {run.name}: AUROC against test images | " + " | ".join(usual) + " |")
    print("|---" * (1 + len(usual)) + "|")
    for name in others:
        values = [auroc(usual[score], groups[name].scores[score]) for score in usual]
        print(f"| {name} | " + " | ".join(f"{value:.3f}" for value in values) + " |")
    if known:
        groups["photos of the classes"] = print_known_accuracy(model, run, reference, known)
    print(
        f"\n| {run.name}: flagged, % | images | " + " | ".join(f"< {p}" for p in PERCENTILES) + " |"
    )
    print("|---" * (2 + len(PERCENTILES)) + "|")
    for name, found in groups.items():
        flagged = [100 * np.mean(found.percentiles < p) for p in PERCENTILES]
        cells = " | ".join(f"{value:.1f}" for value in flagged)
        print(f"| {name} | {len(found.percentiles)} | {cells} |")


def print_known_accuracy(
    model: torch.nn.Module, run: runs.Run, reference: ReferenceFeatures, folder: Path
) -> OodScores:
    """Print the accuracy on flagged and on other photos of the classes, for each percentile."""
    images, files = load_images(list_files(folder), run.spec.image_size)
    found = score_images(model, run, reference, images)
    correct = found.predicted == [run.classes.index(file.parent.name) for file in files]
    print(f"\n| {run.name}: accuracy on photos of the classes, % | flagged | not flagged |")
    print("|---|---|---|")
    for p in PERCENTILES:
        flagged = found.percentiles < p
        cells = [f"{100 * correct[part].mean():.0f}" if part.any() else "–" for part in
                 (flagged, ~flagged)]  # fmt: skip
        print(f"| < {p} | {cells[0]} | {cells[1]} |")
    return found


if __name__ == "__main__":
    run_program(main)
