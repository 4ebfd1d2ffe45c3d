"""Going on with a run: what may be otherwise than it was begun with, and what is written of it."""

from dataclasses import asdict, fields, replace
from inspect import signature
from pathlib import Path

from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.models import ModelSpec
from vitdemo.models.vit import VisionTransformer
from vitdemo.recipes import Recipe, current_name, get_recipe
from vitdemo.runs.steps import cut_steps
from vitdemo.runs.writer import made_with
from vitdemo.training import Trainer


def recipe_to_resume(folder: Path, name: str, **given) -> Recipe:
    """The recipe of the run in `folder`, with another number of `epochs` where one is given.

    `given` are fields of the recipe, options of the model, and `image_size`. Raises `RunError`
    where the run is of another recipe than `name`, or was begun with another value of a field but
    `epochs`: the schedule ends where they do.
    """
    saved = read_recipe(folder)
    if current_name(saved.name) != get_recipe(name).name:
        raise RunError(
            f"'{folder}' was trained with the recipe '{saved.name}', not '{name}': resume that "
            "one, or choose another --out."
        )
    begun = asdict(saved) | {"image_size": saved.model.image_size}
    built = {k: p.default for k, p in signature(VisionTransformer).parameters.items()}
    begun = built | saved.model.options | begun
    for field, value in given.items():
        if begun[field] != value and field != "epochs":
            raise RunError(
                f"'{folder}' was begun with {field} {begun[field]}, not {value}: leave the option "
                "out to resume, or choose another --out."
            )
    return replace(saved, epochs=given.get("epochs", saved.epochs))


def read_recipe(folder: Path) -> Recipe:
    """Raises `RunError` where a field is strange to this version, or missing."""
    saved = runs.read_config(folder)["recipe"]
    strange = sorted(set(saved) - {field.name for field in fields(Recipe)})
    if strange:
        raise RunError(f"The run's recipe has a field '{strange[0]}' that this version lacks.")
    try:
        own = {"model": ModelSpec(**saved["model"]), "betas": tuple(saved["betas"])}
        return Recipe(**saved | own)
    except (KeyError, TypeError) as error:
        raise RunError(f"The run's recipe lacks a field or has a strange one: {error}.") from error


def resumable(folder: Path, fingerprint: str, recipe: Recipe) -> dict:
    """The checkpoint of `folder`, to go on with as `recipe` has it.

    Raises `RunError` where it was begun on other data, where it is to end before the epoch that it
    has reached, or where a finished one is to go on.
    """
    config = runs.read_config(folder)
    begun, begun_with = config.get("data", {}).get("fingerprint"), config["recipe"]
    if begun != fingerprint:
        raise RunError(
            f"'{folder}' was begun on other training pictures (fingerprint {begun}, now "
            f"{fingerprint}): pass its --data, or choose another --out."
        )
    state = runs.read_checkpoint(folder)
    total = begun_with["head_epochs"] + begun_with["epochs"]
    if recipe.total_epochs != total and not state["epoch"] < min(total, recipe.total_epochs):
        raise RunError(
            f"'{folder}' has {state['epoch']} of {total} epochs and cannot end after "
            f"{recipe.total_epochs}: choose more where it is not finished, or another --out."
        )
    return state


def continue_folder(folder: Path, trainer: Trainer, argv: list[str]) -> None:
    """Drop what was not saved of a run that goes on, and write down with what it does."""
    history = [r for r in runs.read_history(folder) if r["epoch"] <= trainer.epoch]
    runs.rewrite_history(folder, history)
    cut_steps(folder, trainer.epoch)
    if not trainer.finished:
        for name in (runs.EVALUATION, runs.WEIGHTS):  # of the epoch at which it was ended before
            (folder / name).unlink(missing_ok=True)
        config = runs.read_config(folder)
        before, epochs = config["recipe"]["epochs"], trainer.recipe.epochs
        changed = {"epochs_before": before} if before != epochs else {}
        resumed = [
            *config.get("resumed", ()),
            {"after_epoch": trainer.epoch} | changed | made_with(trainer, argv),
        ]
        recipe = config["recipe"] | {"epochs": epochs}
        config.pop("stopped", None)  # where it was ended before
        runs.write_config(folder, config | {"recipe": recipe, "resumed": resumed})
