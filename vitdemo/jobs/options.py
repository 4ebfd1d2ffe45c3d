"""What may be chosen of a training from the page, and how it reaches train.py's command line.

`OPTIONS` is the only way: a value is checked against its option's kind and range, becomes a field
of a `Recipe`, and is written from there as `--name VALUE` of a name that stands in this file.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from vitdemo.augment import POLICIES
from vitdemo.errors import JobError
from vitdemo.recipes import OPTIMIZERS, Recipe, get_recipe

MOST_KEPT = 40  # epochs whose weights a film needs

Value = str | int | float | bool


@dataclass(frozen=True)
class Option:
    """One switch: `kind` of its value, and `choices` (in `words`), or the range `low`..`high`."""

    label: str
    kind: type
    low: float = 0
    high: float = 0
    choices: tuple[Value, ...] = ()
    words: tuple[str, ...] = ()
    info: str = ""
    of_model: bool = False  # an option of the ViT, not a field of the recipe

    def checked(self, value: object) -> Value:
        """`value` as this option's kind. Raises `JobError` naming what it may be."""
        if self.choices:
            found = next((c for c in self.choices if c == value and _same_kind(c, value)), None)
            if found is None:
                raise JobError(f"{self.label} is one of {', '.join(map(str, self.choices))}.")
            return found
        if self.kind is bool:
            if not isinstance(value, bool):
                raise JobError(f"{self.label} is on or off.")
            return value
        known = isinstance(value, int | float) and not isinstance(value, bool)
        whole = known and (self.kind is float or float(value).is_integer())
        if not (whole and math.isfinite(value) and self.low <= value <= self.high):
            what = "a whole number" if self.kind is int else "a number"
            raise JobError(f"{self.label} is {what} from {self.low:g} to {self.high:g}.")
        return self.kind(value)


def _same_kind(one: object, other: object) -> bool:
    return isinstance(one, str) == isinstance(other, str) and not isinstance(other, bool)


OPTIONS: dict[str, Option] = {
    "epochs": Option("Epochs", int, 1, 200),
    "train_pictures": Option(
        "Training pictures", int, 0, 1_000_000, info="0: all that are not held out"
    ),
    "optimizer": Option("Optimizer", str, choices=OPTIMIZERS),
    "learning_rate": Option("Learning rate", float, 1e-6, 10),
    "batch_size": Option("Batch size", int, 8, 1024),
    "policy": Option("Augmentation", str, choices=tuple(POLICIES)),
    "flip": Option("Flip", bool, info="left and right"),
    "crop_padding": Option("Shift", int, 0, 8, info="by up to so many pixels"),
    "mixup": Option("MixUp", float, 0, 2, info="alpha; 0: off"),
    "cutmix": Option("CutMix", float, 0, 2, info="alpha; 0: off"),
    "shuffled_labels": Option("Shuffled labels", bool, info="no rule left to learn"),
    "embed_dim": Option("Width", int, 16, 384, info="a multiple of the heads", of_model=True),
    "depth": Option("Depth", int, 1, 12, info="layers", of_model=True),
    "num_heads": Option("Heads", int, 1, 12, of_model=True),
    "patch_size": Option("Patch size", int, choices=(2, 4, 8, 16), info="pixels", of_model=True),
    "pos_embed": Option(
        "Position embedding",
        str,
        choices=("learn", "none"),
        words=("learned", "none"),
        of_model=True,
    ),
    "global_pool": Option(
        "Answer from",
        str,
        choices=("token", "avg"),
        words=("class token", "mean of the patches"),
        of_model=True,
    ),
    "seed": Option("Seed", int, 0, 1_000_000),
}


PLAIN = {"pos_embed": "learn", "global_pool": "token"}  # of a ViT whose recipe does not name them


@dataclass(frozen=True)
class Preset:
    """A recipe to begin with, and the values in which it differs from the named one."""

    title: str
    words: str
    recipe: str
    values: Mapping[str, Value] = field(default_factory=dict)


PRESETS: dict[str, Preset] = {
    "first-steps": Preset(
        "First steps",
        "A small ViT on 10,000 images, from scratch: 61.7 % validation accuracy, in 140 seconds on "
        "two busy cores (one seed).",
        "first-steps",
    ),
    "good": Preset(
        "Good",
        "The recipe of vit-small-cpu, which ships: 82.6 % of the test pictures after ten epochs "
        "of all training pictures.",
        "vit-small-cpu",
    ),
    "too-fast": Preset(
        "Fails: rate far too high",
        "First steps with a learning rate of 0.5: 9.4 % validation accuracy after 2 epochs, where "
        "a guess has 10 %.",
        "first-steps",
        {"optimizer": "adamw", "learning_rate": 0.5, "epochs": 2},
    ),
    "no-positions": Preset(
        "Fails: no position embedding",
        "First steps without positions, so that the order of the patches has no effect: 52.4 % "
        "validation accuracy, compared with 61.7 %.",
        "first-steps",
        {"pos_embed": "none"},
    ),
    "shuffled-labels": Preset(
        "Fails: shuffled labels",
        "Labels dealt out at random: the model can memorise them, but they do not help on other "
        "images (Zhang et al. 2017).",
        "first-steps",
        {
            "shuffled_labels": True,
            "train_pictures": 1_000,
            "epochs": 30,
            "flip": False,
            "crop_padding": 0,
        },
    ),
}


def preset_named(name: object) -> Preset:
    """Raises `JobError`."""
    if not isinstance(name, str) or name not in PRESETS:
        raise JobError(f"There is no such recipe here: choose one of {', '.join(PRESETS)}.")
    return PRESETS[name]


def values_of(name: object) -> dict[str, Value]:
    """What every switch says of a preset. Raises `JobError`."""
    preset = preset_named(name)
    recipe = get_recipe(preset.recipe)
    sizes = PLAIN | recipe.model.options
    own = {n: sizes[n] if o.of_model else getattr(recipe, n) for n, o in OPTIONS.items()}
    return own | dict(preset.values)


def recipe_of(name: object, values: Mapping[str, object]) -> Recipe:
    """The preset `name` with checked `values`, and the epochs kept that a film needs.

    Raises `JobError` for a value that an option does not take, `RecipeError` for those that
    contradict each other.
    """
    strangers = set(values) - set(OPTIONS)
    if strangers:
        raise JobError("There is no such choice on this page.")
    found = values_of(name) | {n: OPTIONS[n].checked(value) for n, value in values.items()}
    if found["embed_dim"] % found["num_heads"]:
        raise JobError(
            f"Width {found['embed_dim']} cannot be shared by {found['num_heads']} heads: choose a "
            "multiple of them."
        )
    recipe = get_recipe(preset_named(name).recipe)
    if recipe.model.options.get("init") == "mimetic" and found["embed_dim"] % 4:
        raise JobError(f"Width {found['embed_dim']} is not a multiple of 4.")
    plain = {n: value for n, value in found.items() if not OPTIONS[n].of_model}
    sizes = {n: value for n, value in found.items() if OPTIONS[n].of_model}
    model = replace(recipe.model, options={**recipe.model.options, **sizes})
    return replace(recipe, model=model, keep=kept(found["epochs"]), **plain)


def kept(epochs: int) -> str:
    """All epochs, or `MOST_KEPT` of them with the first and the last."""
    places = np.linspace(1, epochs, min(epochs, MOST_KEPT)).round().astype(int)
    return ",".join(map(str, places.tolist()))


def arguments(recipe: Recipe) -> list[str]:
    """What train.py is told to train `recipe`: the name, and what differs from the named one."""
    named = get_recipe(recipe.name)
    words = [recipe.name]
    for name in (f.name for f in fields(Recipe) if f.name in (*OPTIONS, "keep")):
        value = getattr(recipe, name)
        if value != getattr(named, name):
            words += _words(name, value)
    for name, value in recipe.model.options.items():
        if name in OPTIONS and value != (PLAIN | named.model.options).get(name):
            words += _words(name, value)
    return words


def _words(name: str, value: Value) -> list[str]:
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    return [f"--{option}", str(value)]
