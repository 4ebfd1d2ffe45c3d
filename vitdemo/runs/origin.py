"""Other runs that a training run uses: the source of its initial weights, and its teacher."""

from dataclasses import replace
from pathlib import Path

import torch

from vitdemo.errors import RunError
from vitdemo.installation import find_included
from vitdemo.models import ModelSpec
from vitdemo.runs.files import EPOCHS_FOLDER, WEIGHTS_FILE, weights_path
from vitdemo.runs.folders import read_any_run, read_run
from vitdemo.runs.run import Run, resume_entries
from vitdemo.runs.weights import load_model
from vitdemo.training.recipes import Recipe
from vitdemo.training.teacher import Teacher


def read_origin(weights: Path | None) -> Run | None:
    """Return the run that saved the file `weights`, with its history up to the saved epoch.

    Returns None without a file, or if the file is not in a readable run folder.
    """
    if not weights:
        return None
    folder, epoch = weights.parent, None
    if folder.name == EPOCHS_FOLDER and weights.stem.isdecimal():
        folder, epoch = folder.parent, int(weights.stem)
    if weights_path(folder, epoch).name != weights.name:
        return None
    try:
        run = read_any_run(folder)
    except RunError:  # The file is not from a run: models from the Hub also have a config.json.
        return None
    epoch = epoch or (run.weights_record or {}).get("epoch", 0)
    return replace(run, history=tuple(r for r in run.history if r["epoch"] <= epoch))


def origin_entry(source: Run | None) -> dict:
    """Return {"started_from": ...} for `config.json`, about the run `source`; {} without `source`.

    The entry contains the training time up to the saved epoch, and recursively the entry about the
    run that `source` started from.
    """
    if not source:
        return {}
    copied = ("command", "device", "processes", "git_commit", "started")
    last = source.history[-1]["epoch"] if source.history else 0
    resumes = [e for e in resume_entries(source.config) if (e.get("after_epoch") or 0) < last]
    return {
        "started_from": {
            "run": source.path.name,
            "recipe": source.config["recipe"].get("name"),
            "epochs": len(source.history),
            "seconds": source.train_seconds,
        }
        | {field: source.config.get(field) for field in copied}
        | ({"resumed": resumes} if resumes else {})
        | ({"started_from": source.origin} if source.origin else {})
    }


def has_same_classes(source: Run | None, classes: tuple[str, ...]) -> bool:
    """Return whether `source` is a classifier for exactly these classes."""
    return bool(source) and not source.is_pretraining and source.classes == classes


def check_same_heads(source: Run | None, spec: ModelSpec) -> None:
    """Raise `RunError` if `source` and `spec` have different numbers of attention heads.

    The weights would load, because their shapes are equal, but the outputs would differ.
    """
    if source is None or source.spec.family != spec.family:
        return
    source_heads, heads = (model.options.get("num_heads") for model in (source.spec, spec))
    if source_heads != heads:
        raise RunError(
            f"The weights of '{source.path}' are of a model with {source_heads} attention heads, "
            f"not {heads}. Choose a model with {source_heads} heads (num_heads)."
        )


def check_origin_split(
    source: Run | None, recipe: Recipe, classes: tuple[str, ...], fingerprint: str
) -> None:
    """Raise `RunError` if `source` was trained on labels of this run's validation images.

    The validation accuracy would then be too high.
    """
    if not has_same_classes(source, classes):
        return
    has_same_images = source.config.get("data", {}).get("fingerprint") == fingerprint
    # The fingerprint of a folder depends on the image size, so the images may still be the same.
    is_resized = source.spec.image_size != recipe.model.image_size
    if has_same_images or (is_resized and source.dataset_name != "cifar10"):
        _check_same_split(source, f"The weights of '{source.path}' were", recipe)


def load_teacher(
    recipe: Recipe, classes: tuple[str, ...], fingerprint: str, device: torch.device
) -> Teacher | None:
    """Return the recipe's teacher, or None if the recipe has none.

    Raises `RunError` if the teacher's weights are missing, if its classes differ from `classes`, or
    if it was trained on validation images of this run.
    """
    if not recipe.teacher:
        return None
    folder = find_included(recipe.teacher)
    if not (folder / WEIGHTS_FILE).is_file():
        raise RunError(
            f"There is no teacher model in '{recipe.teacher}'. Train the teacher, or choose "
            "another run folder with --teacher."
        )
    run = read_run(folder)
    if run.classes != classes:
        raise RunError(
            f"The teacher '{run.path}' has other classes ({', '.join(run.classes[:4])}, ...) than "
            "the training set. Choose a teacher with the same classes."
        )
    subject = f"The teacher '{run.path}' was"
    _check_same_split(run, subject, recipe)
    # The fingerprint of a folder depends on the image size.
    if run.spec.image_size == recipe.model.image_size:
        _check_same(subject, "fingerprint", run.config.get("data", {}), fingerprint)
    return Teacher(load_model(run, device), run.preprocessing, recipe.teacher_share)


def _check_same_split(run: Run, subject: str, recipe: Recipe) -> None:
    for field in ("seed", "validation_share"):
        _check_same(subject, field, run.config["recipe"], getattr(recipe, field))


def _check_same(subject: str, field: str, settings: dict, expected: object) -> None:
    if settings.get(field) != expected:
        raise RunError(
            f"{subject} trained with {field} {settings.get(field)}, not {expected}, and therefore "
            "on validation images of this run. Use the same --seed, --validation-fraction and "
            "dataset."
        )
