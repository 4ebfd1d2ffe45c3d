"""Training settings available on the page, and their conversion to a recipe.

Only the settings in `OPTIONS` can be changed. A value is checked against the type and range of its
option and becomes a field of a `Recipe`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from vitdemo.errors import JobError
from vitdemo.training.augment import POLICIES
from vitdemo.training.recipes import OPTIMIZERS, Recipe, get_recipe

MAX_SNAPSHOTS = 40  # maximum number of epochs whose weights are saved for the animation

Value = str | int | float | bool


@dataclass(frozen=True)
class TrainingOption:
    """Training setting on the page: `kind` is its type; `choices` or `low` and `high` limit it.

    `choice_labels` are the texts of the choices on the page.
    """

    label: str
    kind: type
    low: float = 0
    high: float = 0
    choices: tuple[Value, ...] = ()
    choice_labels: tuple[str, ...] = ()
    info: str = ""
    of_model: bool = False  # True for an option of the model instead of a recipe field

    def validate(self, value: object) -> Value:
        """Return `value` as the option's type. Raises `JobError` if `value` is not allowed."""
        if self.choices:
            for choice in self.choices:
                if choice == value and not isinstance(value, bool):
                    return choice
            raise JobError(f"{self.label} must be one of {', '.join(map(str, self.choices))}.")
        if self.kind is bool:
            if not isinstance(value, bool):
                raise JobError(f"{self.label} must be on or off.")
            return value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits_type = is_number and (self.kind is float or float(value).is_integer())
        if not (fits_type and math.isfinite(value) and self.low <= value <= self.high):
            noun = "a whole number" if self.kind is int else "a number"
            raise JobError(f"{self.label} must be {noun} from {self.low:g} to {self.high:g}.")
        return self.kind(value)


OPTIONS: dict[str, TrainingOption] = {
    "epochs": TrainingOption("Epochs", int, 1, 200),
    "train_pictures": TrainingOption("Images (0: all)", int, 0, 1_000_000),
    "optimizer": TrainingOption("Optimizer", str, choices=OPTIMIZERS),
    "learning_rate": TrainingOption("Learning rate", float, 1e-6, 10),
    "batch_size": TrainingOption("Batch size", int, 8, 1024),
    "policy": TrainingOption("Augmentation", str, choices=tuple(POLICIES)),
    "flip": TrainingOption("Horizontal flip", bool),
    "crop_padding": TrainingOption("Random-crop padding", int, 0, 8, info="pixels"),
    "mixup": TrainingOption("MixUp", float, 0, 2, info="alpha; 0: off"),
    "cutmix": TrainingOption("CutMix", float, 0, 2, info="alpha; 0: off"),
    "shuffled_labels": TrainingOption("Shuffled labels", bool, info="random labels for training"),
    "embed_dim": TrainingOption(
        "Embedding dimension", int, 16, 384, info="a multiple of the number of heads", of_model=True
    ),
    "depth": TrainingOption("Layers", int, 1, 12, of_model=True),
    "num_heads": TrainingOption("Attention heads", int, 1, 12, info="per layer", of_model=True),
    "patch_size": TrainingOption(
        "Patch size", int, choices=(2, 4, 8, 16), info="pixels", of_model=True
    ),
    "pos_embed": TrainingOption(
        "Position embedding",
        str,
        choices=("learn", "none"),
        choice_labels=("learned", "none"),
        of_model=True,
    ),
    "global_pool": TrainingOption(
        "Pooling",
        str,
        choices=("token", "avg"),
        choice_labels=("class token", "mean of patches"),
        of_model=True,
    ),
    "seed": TrainingOption("Seed", int, 0, 1_000_000),
}

# values of model options that are not set in a recipe
DEFAULT_MODEL_OPTIONS = {"pos_embed": "learn", "global_pool": "token"}


@dataclass(frozen=True)
class Preset:
    """Starting point for the settings on the page: a recipe, and changes to its values."""

    title: str
    description: str
    recipe: str
    values: Mapping[str, Value] = field(default_factory=dict)


PRESETS: dict[str, Preset] = {
    "first-steps": Preset(
        "First steps",
        "A small ViT from scratch, on 10,000 images. One run reached 61.7% validation accuracy.",
        "first-steps",
    ),
    "good": Preset(
        "Good accuracy",
        "The recipe of the run vit-small-cpu, which reached 82.6% test accuracy after ten epochs "
        "on all training images.",
        "vit-small-cpu",
    ),
    "too-fast": Preset(
        "Fails: learning rate too high",
        '"First steps" for 2 epochs at a learning rate of 0.5. The validation accuracy was 9.4%, '
        "which is at chance level (10%).",
        "first-steps",
        {"optimizer": "adamw", "learning_rate": 0.5, "epochs": 2},
    ),
    "no-positions": Preset(
        "Fails: no position embedding",
        '"First steps" without a position embedding, so the order of the patches has no effect. '
        "The validation accuracy was 52.4% (First steps: 61.7%).",
        "first-steps",
        {"pos_embed": "none"},
    ),
    "shuffled-labels": Preset(
        "Fails: shuffled labels",
        "Trains on random labels. The model can memorise these labels, but does not generalise "
        "(Zhang et al. 2017).",
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


def get_preset(name: object) -> Preset:
    """Return the preset called `name`. Raises `JobError` if there is none."""
    if not isinstance(name, str) or name not in PRESETS:
        raise JobError(f"Unknown recipe. Choose one of {', '.join(PRESETS)}.")
    return PRESETS[name]


def preset_values(name: object) -> dict[str, Value]:
    """Return the value of every option for a preset. Raises `JobError` for an unknown preset."""
    preset = get_preset(name)
    recipe = get_recipe(preset.recipe)
    options = DEFAULT_MODEL_OPTIONS | recipe.model.options
    settings = {n: options[n] if o.of_model else getattr(recipe, n) for n, o in OPTIONS.items()}
    return settings | dict(preset.values)


def build_recipe(name: object, values: Mapping[str, object]) -> Recipe:
    """Return the recipe of the preset `name` with validated `values`, and with the epochs to save.

    Raises `JobError` for a value that is not allowed, and `RecipeError` for contradictory values.
    """
    unknown = set(values) - set(OPTIONS)
    if unknown:
        raise JobError(f"Unknown setting '{min(unknown)}'. Reload the page.")
    settings = preset_values(name) | {n: OPTIONS[n].validate(value) for n, value in values.items()}
    if settings["embed_dim"] % settings["num_heads"]:
        raise JobError(
            f"The embedding dimension ({settings['embed_dim']}) is not a multiple of the number of "
            f"heads ({settings['num_heads']}). Change one of them."
        )
    recipe = get_recipe(get_preset(name).recipe)
    if recipe.model.options.get("init") == "mimetic" and settings["embed_dim"] % 4:
        raise JobError(
            f"The embedding dimension must be a multiple of 4; it is {settings['embed_dim']}."
        )
    model_options = {n: settings.pop(n) for n, option in OPTIONS.items() if option.of_model}
    model = replace(recipe.model, options={**recipe.model.options, **model_options})
    # Save the weights of all epochs, or of `MAX_SNAPSHOTS` epochs including the first and the last.
    epochs = settings["epochs"]
    saved = np.linspace(1, epochs, min(epochs, MAX_SNAPSHOTS)).round().astype(int).tolist()
    return replace(recipe, model=model, keep=",".join(map(str, saved)), **settings)
