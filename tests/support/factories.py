"""Images and run folders for the tests: real files of tiny models with random weights."""

import signal
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from vitdemo import data, runs
from vitdemo.cli import train
from vitdemo.context import AppContext
from vitdemo.data import cifar10
from vitdemo.models import ModelSpec, build_model, count_parameters, get_family
from vitdemo.training.recipes import Recipe

CLASSES = cifar10.CLASSES
MISSING_FOLDER = Path(__file__).with_name("none")
TRUTH_FOLDER = Path(__file__).parents[2] / "assets" / "ground_truth"
VIT = ModelSpec("vit", 16, options={"patch_size": 4, "embed_dim": 24, "depth": 3, "num_heads": 2})
TIMM = ModelSpec(
    "timm", 32, "deit_tiny_patch16_224", {"patch_size": 8, "depth": 2, "embed_dim": 48}
)
RESNET = ModelSpec("resnet18", 16)
CONVNET = ModelSpec("convnet", 16, options={"widths": (24, 24, 24)})
TINY_VIT = ModelSpec(
    "vit", 16, options={"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
)
TINY_RECIPE = Recipe(
    "tiny", "for tests", TINY_VIT, epochs=3, batch_size=16, ema_decay=0.9, mixup=0.2
)


def timm_spec(name: str = "vit_tiny_patch16_224", image_size: int = 32, **options) -> ModelSpec:
    """Describe a tiny timm model: 8 px patches, 2 layers, 3 heads of dimension 16."""
    return ModelSpec("timm", image_size, name, {**TIMM.options, **options})


TIMM_KINDS = {  # models that differ in their special tokens and in their pooling
    "class token": TIMM,
    "distilled": timm_spec("deit_tiny_distilled_patch16_224"),
    "registers": timm_spec(reg_tokens=4, no_embed_class=True),
    "average pooled": timm_spec(class_token=False, global_pool="avg"),
}


def make_context(
    *roots: Path, data_root: Path = MISSING_FOLDER, truth_root: Path | None = None
) -> AppContext:
    """Create a context on the CPU with empty caches; by default it has no dataset."""
    device = torch.device("cpu")
    return AppContext(list(roots), data_root, device, ground_truth_root=truth_root)


def noise(seed: int = 0, size: tuple[int, int] = (50, 40)) -> Image.Image:
    """Create an image of random pixels; `size` is (width, height)."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def noise_batch(count: int = 1, side: int = 40, seed: int = 0) -> torch.Tensor:
    """Create random images (N, 3, S, S) in uint8."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, side, side), generator=generator, dtype=torch.uint8)


def write_noise_images(root: Path, counts: dict[str, int]) -> Path:
    """Write noise images of unequal sizes and return `root`; `counts`: {"train/cat": 3, ...}."""
    random = np.random.default_rng(0)
    for name, count in counts.items():
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            pixels = random.integers(0, 256, (20 + i % 5, 17, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{i}.png")
    return root


def make_run(
    folder: Path,
    spec: ModelSpec = VIT,
    *,
    epochs: int = 3,
    seed: int = 0,
    classes: tuple[str, ...] = CLASSES,
    tested: runs.Evaluation | None = None,
    recipe: dict | None = None,
) -> runs.Run:
    """Write a finished run into `folder`; no model computed its evaluation.

    `recipe` contains the fields that differ from their defaults.
    """
    model = random_model(spec, seed, len(classes))
    defaults = Recipe(folder.name, f"a {spec.family} for tests", spec)
    runs.write_config(
        folder,
        {
            "recipe": asdict(defaults) | (recipe or {}),
            "model": asdict(spec),
            "classes": list(classes),
            "normalisation": {"mean": data.CIFAR10_MEAN, "std": data.CIFAR10_STD},
            "parameters": count_parameters(model),
            "device": "a test machine",
        },
    )
    runs.rewrite_history(folder, [make_history_record(epoch) for epoch in range(1, epochs + 1)])
    runs.write_weights(folder, model.state_dict())
    runs.write_evaluation(folder, tested or make_evaluation(seed))
    return runs.read_run(folder)


def run_train_py(*arguments: object) -> int:
    """Run train.py, restore the handler of SIGTERM and return the exit code."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        return train.main([str(argument) for argument in arguments])
    finally:
        signal.signal(signal.SIGTERM, handler)


def make_unfinished_run(folder: Path, **options) -> runs.Run:
    """Write a run whose training has not ended: it has no evaluation."""
    run = make_run(folder, **options)
    (run.path / runs.EVALUATION_FILE).unlink()
    return runs.read_run(folder)


def declare_ablation(run: runs.Run, change: str, baseline: str = "base") -> runs.Run:
    """Record that `run` belongs to the ablation of `baseline`; the change is "" for a baseline."""
    study = {"baseline": baseline, "change": change}
    runs.write_config(run.path, run.config | {"ablations": [study]})
    return runs.read_run(run.path)


def record_start_weights(run: runs.Run, origin: runs.Run, epochs: int) -> runs.Run:
    """Record that `run` started from the weights of `origin` after `epochs` epochs."""
    inherited = {
        key: origin.config[key] for key in ("started", "started_from") if key in origin.config
    }
    start = {"run": origin.name, "epochs": epochs, "seconds": 30.0 * epochs} | inherited
    runs.write_config(run.path, run.config | {"started_from": start})
    return runs.read_run(run.path)


def random_model(spec: ModelSpec, seed: int = 0, classes: int = len(CLASSES)) -> torch.nn.Module:
    """Build a model with random weights in evaluation mode."""
    torch.manual_seed(seed)
    model = build_model(spec, classes)
    if get_family(spec).has_attention:
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)  # large weights make heads and images differ
    return model.eval()


def make_history_record(epoch: int) -> dict:
    values = {"train_loss": 2 / epoch, "val_loss": 2.2 / epoch, "learning_rate": 0.1 / epoch}
    rates = {"train_accuracy": 1 - 0.5 / epoch, "val_accuracy": 1 - 0.6 / epoch}
    times = {"epoch_seconds": 30.0, "images_per_second": 100.0}
    return {"epoch": epoch, "stage": "all"} | values | rates | times


def make_evaluation(seed: int, each: int = 20) -> runs.Evaluation:
    """Create an evaluation with `each` images per class: 5 cats are predicted as dogs."""
    labels = np.repeat(np.arange(len(CLASSES)), each)  # (N,)
    predicted = labels.copy()
    predicted[np.flatnonzero(labels == 3)[:5]] = 5
    logits = np.random.default_rng(seed).normal(size=(len(labels), len(CLASSES)))
    logits[np.arange(len(labels)), predicted] = 6
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return runs.Evaluation(probabilities.astype(np.float32), labels, "0" * 16, 0.001)


TEST_COUNTS = {"<b>ant": 70, "bee": 30, "fly": 10}  # number of test images per class
INSECT_CLASSES = tuple(TEST_COUNTS)
# Number of predictions per (true, predicted) pair of classes; no model predicts "fly".
PREDICTION_COUNTS = {
    "first": {(0, 0): 60, (0, 1): 10, (1, 0): 5, (1, 1): 25, (2, 0): 4, (2, 1): 6},
    "second": {(0, 0): 66, (0, 1): 4, (1, 0): 9, (1, 1): 21, (2, 0): 10},
}


def make_tested_runs(root: Path, source: data.ImageDataset) -> None:
    """Write runs "first" and "second" into `root`, with the predictions of `PREDICTION_COUNTS`."""
    test_set = source.load("test", VIT.image_size)
    fingerprint = data.compute_fingerprint(test_set, source.classes)
    for seed, (name, cells) in enumerate(PREDICTION_COUNTS.items()):
        predicted = np.concatenate([np.full(count, label) for (_, label), count in cells.items()])
        confidence = np.random.default_rng(seed).uniform(0.5, 1, len(predicted))
        probabilities = np.tile((1 - confidence[:, None]) / 2, (1, 3)).astype(np.float32)  # (N, C)
        probabilities[np.arange(len(predicted)), predicted] = confidence
        tested = runs.Evaluation(probabilities, test_set.labels.numpy(), fingerprint, 0.001)
        make_run(root / name, seed=seed, classes=source.classes, tested=tested)


ATTENTION_MODELS = {
    "ours": VIT,
    **TIMM_KINDS,
    "q/k norm and LayerScale": timm_spec(qk_norm=True, init_values=0.5),
}


def random_images(model, batch: int = 2, seed: int = 1) -> torch.Tensor:
    """Return random images (B, 3, S, S) in the input size and precision of `model`."""
    size = (batch, 3, *model.patch_embed.img_size)
    images = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    return images.to(next(model.parameters()).dtype)
