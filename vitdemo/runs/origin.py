"""What a training takes from other runs: the weights that it starts from, and its teacher."""

from dataclasses import replace
from pathlib import Path

import torch

from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.models import ModelSpec
from vitdemo.recipes import Recipe
from vitdemo.training import Teacher


def source_of(weights: Path | None) -> runs.Run | None:
    """The training that left the file `weights`, up to the epoch that they are of.

    None where there is no file, where it lies in no run folder, or where that cannot be read.
    """
    if not weights:
        return None
    folder, epoch = weights.parent, None
    if folder.name == runs.EPOCHS and weights.stem.isdecimal():
        folder, epoch = folder.parent, int(weights.stem)
    if runs.weights_path(folder, epoch).name != weights.name:
        return None
    try:
        run = runs.read_training(folder)
    except RunError:  # a model of the hub's lies beside a config.json, too
        return None
    epoch = epoch or (run.record_of_weights or {}).get("epoch", 0)
    return replace(run, history=tuple(r for r in run.history if r["epoch"] <= epoch))


def started_from(source: runs.Run | None) -> dict:
    """{"started_from": what `source_of` found, and the seconds up to there}, with what that one
    started from in turn; {} where it found nothing."""
    if not source:
        return {}
    words = ("command", "device", "processes", "git_commit", "started")
    last = source.history[-1]["epoch"] if source.history else 0
    legs = [leg for leg in runs.resumed(source.config) if (leg.get("after_epoch") or 0) < last]
    return {
        "started_from": {
            "run": source.path.name,
            "recipe": source.config["recipe"].get("name"),
            "epochs": len(source.history),
            "seconds": source.train_seconds,
        }
        | {word: source.config.get(word) for word in words}
        | ({"resumed": legs} if legs else {})
        | ({"started_from": source.origin} if source.origin else {})
    }


def knows(source: runs.Run | None, classes: tuple[str, ...]) -> bool:
    """Whether `source` was trained to tell these very classes apart."""
    return bool(source) and not source.is_masked and source.classes == classes


def check_same_heads(source: runs.Run | None, spec: ModelSpec) -> None:
    """Raise `RunError` where `source` splits its width into another number of heads than `spec`.

    The tensors have the same shapes then, so the weights would load, and mean something else.
    """
    if source is None or source.spec.family != spec.family:
        return
    begun, ours = (each.options.get("num_heads") for each in (source.spec, spec))
    if begun != ours:
        raise RunError(
            f"The weights of '{source.path}' are of a model with {begun} attention heads, not "
            f"{ours} (num_heads): choose the same."
        )


def check_unseen(
    source: runs.Run | None, recipe: Recipe, classes: tuple[str, ...], fingerprint: str
) -> None:
    """Raises `RunError` where `source` was told the classes of pictures that this run validates
    on, so that what is measured of them would say too much."""
    if not knows(source, classes):
        return
    same = source.config.get("data", {}).get("fingerprint") == fingerprint
    # A folder's pictures have another one at another size: they may be the same.
    resized = source.spec.image_size != recipe.model.image_size
    if same or (resized and source.data_name != "cifar10"):
        _check_same_split(source, f"The weights of '{source.path}' were", recipe)


def teacher_of(
    recipe: Recipe, classes: tuple[str, ...], fingerprint: str, device: torch.device
) -> Teacher | None:
    """The recipe's teacher. Raises `RunError` where there is none, where it knows other classes, or
    where it was trained on pictures that this run validates on."""
    if not recipe.teacher:
        return None
    if not (Path(recipe.teacher) / runs.WEIGHTS).is_file():
        raise RunError(
            f"There is no teacher in '{recipe.teacher}': train it first, or begin with --teacher "
            "and the run folder of another."
        )
    run = runs.read_run(recipe.teacher)
    if run.classes != classes:
        raise RunError(
            f"The teacher '{run.path}' knows other classes ({', '.join(run.classes[:4])}, ...) "
            "than the training pictures have."
        )
    subject = f"The teacher '{run.path}' was"
    _check_same_split(run, subject, recipe)
    if run.spec.image_size == recipe.model.image_size:  # else a folder's pictures differ in size
        _check_same(subject, "fingerprint", run.config.get("data", {}), fingerprint)
    return Teacher(runs.load_model(run, device), run.preprocessing, recipe.teacher_share)


def _check_same_split(run: runs.Run, subject: str, recipe: Recipe) -> None:
    for field in ("seed", "validation_share"):
        _check_same(subject, field, run.config["recipe"], getattr(recipe, field))


def _check_same(subject: str, field: str, begun: dict, ours: object) -> None:
    if begun.get(field) != ours:
        raise RunError(
            f"{subject} trained with {field} {begun.get(field)}, not {ours}, and so on "
            "pictures that this run validates on: choose the same."
        )
