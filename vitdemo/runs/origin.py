"""What a training takes from other runs: the weights that it starts from, and its teacher."""

from pathlib import Path

import torch

from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.recipes import Recipe
from vitdemo.training import Teacher


def started_from(weights: Path | None) -> dict:
    """{"started_from": the run that left `weights`, if any, and the seconds up to it}; it holds
    what that run started from in turn."""
    source = runs.source_of(weights) if weights else None
    if not source:
        return {}
    folder, epoch = source
    try:
        config, history = runs.read_config(folder), runs.read_history(folder)
    except RunError:  # a model of the hub's lies beside a config.json, too
        return {}
    before = config.get("started_from", {})
    history = [record for record in history if not epoch or record["epoch"] <= epoch]
    words = ("command", "device", "processes", "git_commit", "started")
    return {
        "started_from": {
            "run": folder.name,
            "recipe": config["recipe"].get("name"),
            "epochs": len(history),
            "seconds": before.get("seconds", 0)
            + sum(record["epoch_seconds"] for record in history),
        }
        | {word: config.get(word) for word in words}
        | ({"started_from": before} if before else {})
    }


def knows(weights: Path | None, classes: tuple[str, ...]) -> bool:
    """Whether a run left `weights` that was trained to tell these very classes apart."""
    source = runs.source_of(weights) if weights else None
    try:
        return bool(source) and runs.read_run(source[0]).classes == classes
    except RunError:  # it was trained without labels, or is no run
        return False


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
    begun = run.config["recipe"] | run.config.get("data", {})
    same = {"seed": recipe.seed, "validation_share": recipe.validation_share}
    if run.spec.image_size == recipe.model.image_size:  # else a folder's pictures differ in size
        same["fingerprint"] = fingerprint
    for field, ours in same.items():
        if begun.get(field) != ours:
            raise RunError(
                f"The teacher '{run.path}' was trained with {field} {begun.get(field)}, not {ours},"
                " so it has seen pictures that this run validates on: choose the same."
            )
    return Teacher(runs.load_model(run, device), run.preprocessing, recipe.teacher_share)
