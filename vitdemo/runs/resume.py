"""Resumption of a run: check of the settings, and records in the run folder."""

import json
from dataclasses import asdict, fields, replace
from pathlib import Path

from vitdemo.errors import RunError
from vitdemo.models import ModelSpec, get_family
from vitdemo.runs import files
from vitdemo.runs.steps import truncate_steps
from vitdemo.runs.writer import get_provenance
from vitdemo.training import Trainer
from vitdemo.training.recipes import Recipe, get_recipe, resolve_recipe_name


def get_resume_recipe(folder: Path, name: str | None, **overrides) -> Recipe:
    """Return the recipe of the run in `folder`, with `epochs` from `overrides` if present.

    `overrides` contains fields of the recipe, options of the model and `image_size`. Raises
    `RunError` if the run has another recipe than `name` (None: any), or if a field other than
    `epochs` differs. The learning-rate schedule follows the new number of epochs.
    """
    saved = parse_recipe(files.read_config(folder)["recipe"], folder / files.CONFIG_FILE)
    if name and resolve_recipe_name(saved.name) != get_recipe(name).name:
        raise RunError(
            f"'{folder}' was trained with the recipe '{saved.name}', not '{name}': resume with "
            "that recipe, or choose another --out."
        )
    settings = asdict(saved) | {"image_size": saved.model.image_size}
    settings = get_family(saved.model).option_defaults | saved.model.options | settings
    for field, value in overrides.items():
        if settings.get(field) != value and field != "epochs":
            raise RunError(
                f"'{folder}' was started with {field} {settings.get(field)}, not {value}: omit the "
                "option to resume, or choose another --out."
            )
    return replace(saved, epochs=overrides.get("epochs", saved.epochs))


def read_recipe_file(path: Path) -> Recipe:
    """Read a recipe from a JSON file with its fields, or from the `config.json` of a run.

    Raises `RunError` if the file is missing or invalid, and `RecipeError` for contradictory values.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise RunError(f"Cannot read the recipe in '{path}': {error}") from error
    saved = content.get("recipe", content) if isinstance(content, dict) else None
    if not isinstance(saved, dict):
        raise RunError(f"'{path}' has no recipe. Choose the config.json of a run.")
    return parse_recipe(saved, path)


def parse_recipe(saved: dict, path: Path) -> Recipe:
    """Return the recipe with fields `saved`. Raises `RunError` for unknown or missing fields."""
    unknown = sorted(set(saved) - {field.name for field in fields(Recipe)})
    if unknown:
        raise RunError(
            f"The recipe in '{path}' has a field '{unknown[0]}' that this version does not "
            "support: use the version that wrote the file."
        )
    try:
        converted = {"model": ModelSpec(**saved["model"]), "betas": tuple(saved["betas"])}
        return Recipe(**saved | converted)
    except (KeyError, TypeError) as error:
        raise RunError(
            f"The recipe in '{path}' has a missing or invalid field: {error}. Choose another file, "
            "or start a new run."
        ) from error


def read_resume_checkpoint(
    folder: Path, fingerprint: str, validation_count: int, recipe: Recipe
) -> dict:
    """Return the checkpoint of `folder`, to continue with `recipe`.

    Raises `RunError` if the training set or the number of validation images differs, or if the run
    has already reached the new last epoch. A finished run cannot be made longer.
    """
    config = files.read_config(folder)
    saved_fingerprint, saved_recipe = config.get("data", {}).get("fingerprint"), config["recipe"]
    if saved_fingerprint != fingerprint:
        raise RunError(
            f"'{folder}' was started with another training set (fingerprint {saved_fingerprint}, "
            f"now {fingerprint}): choose its dataset with --data, or choose another --out."
        )
    saved_count = config.get("split", {}).get("validation_pictures", validation_count)
    if saved_count != validation_count:
        raise RunError(
            f"'{folder}' was started by a vitdemo version that held out {saved_count} images for "
            f"validation, not {validation_count}: choose another --out."
        )
    state = files.read_checkpoint(folder)
    total = saved_recipe["head_epochs"] + saved_recipe["epochs"]
    if recipe.total_epochs != total and not state["epoch"] < min(total, recipe.total_epochs):
        raise RunError(
            f"'{folder}' has completed {state['epoch']} of {total} epochs, so its number of epochs "
            f"cannot become {recipe.total_epochs}. If the run is not finished, choose more than "
            f"{state['epoch']} epochs. Otherwise, choose another --out."
        )
    return state


def prepare_resumed_folder(folder: Path, trainer: Trainer, argv: list[str]) -> None:
    """Prepare the folder of a resumed run: remove unsaved epochs and record the new command."""
    history = [r for r in files.read_history(folder) if r["epoch"] <= trainer.epoch]
    files.rewrite_history(folder, history)
    truncate_steps(folder, trainer)
    if not trainer.is_finished:
        # These three files belong to the epoch at which the run ended before it was resumed.
        for name in (files.EVALUATION_FILE, files.REFERENCE, files.WEIGHTS_FILE):
            (folder / name).unlink(missing_ok=True)
        config = files.read_config(folder)
        previous_epochs, epochs = config["recipe"]["epochs"], trainer.recipe.epochs
        changes = {"epochs_before": previous_epochs} if previous_epochs != epochs else {}
        if trainer.epoch_progress:
            changes["after_step"] = trainer.epoch_progress.step
        resumed = [
            *config.get("resumed", ()),
            {"after_epoch": trainer.epoch} | changes | get_provenance(trainer, argv),
        ]
        recipe = config["recipe"] | {"epochs": epochs}
        config.pop("stopped", None)  # the run is no longer stopped
        files.write_config(folder, config | {"recipe": recipe, "resumed": resumed})
