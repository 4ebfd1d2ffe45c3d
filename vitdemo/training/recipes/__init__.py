"""Recipes: all settings of a training run, under one name.

To add a recipe, add an entry to `table.py` in this folder. `train.py --list` prints all recipes.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace

from vitdemo.errors import RecipeError
from vitdemo.models import ModelSpec
from vitdemo.training.augment import POLICIES
from vitdemo.training.recipes import table

OPTIMIZERS = ("adamw", "adam", "sgd", "muon")
SCHEDULES = ("cosine", "linear", "constant", "one-cycle")

_RANGES = (  # fields, their condition and its description
    (("epochs", "batch_size"), lambda value: value >= 1, "at least 1"),
    (("learning_rate", "head_learning_rate"), lambda value: value > 0, "above 0"),
    (
        ("erasing", "label_smoothing", "patch_dropout", "ema_decay", "mask_ratio"),
        lambda value: 0 <= value < 1,
        "in [0, 1)",
    ),
    (("teacher_share",), lambda value: 0 <= value <= 1, "in [0, 1]"),
    (("validation_share",), lambda value: 0 < value < 1, "between 0 and 1"),
    (
        (
            *("weight_decay", "warmup_epochs", "clip_norm", "head_epochs", "crop_padding", "mixup"),
            *("cutmix", "unmixed_epochs", "whole_epochs", "patience", "train_pictures", "seed"),
            "cutout",
        ),
        lambda value: value >= 0,
        "at least 0",
    ),
)
# Setting that is off in the last epochs -> field with the number of these epochs
_SWITCHED_OFF_EPOCHS = {
    "mixup": "unmixed_epochs",
    "cutmix": "unmixed_epochs",
    "patch_dropout": "whole_epochs",
}


# Options of `train.py` whose name differs from the name of the field. The names of fields are keys
# of saved runs and do not change. `train.py` still accepts the former options.
_RENAMED_OPTIONS = {
    "keep": "save-epochs",
    "teacher_share": "distillation-weight",
    "train_pictures": "train-images",
    "unmixed_epochs": "no-mixup-epochs",
    "validation_share": "validation-fraction",
    "whole_epochs": "full-patch-epochs",
}


def get_option_names(field: str) -> tuple[str, ...]:
    """Return the option of `train.py` for a recipe field, then its former name, if any."""
    names = [_RENAMED_OPTIONS[field]] if field in _RENAMED_OPTIONS else []
    return tuple(f"--{name}" for name in (*names, field.replace("_", "-")))


def get_option(field: str) -> str:
    """Return the option of `train.py` for a recipe field, for example "--train-images"."""
    return get_option_names(field)[0]


def _option(default: int | float | str | bool, text: str):
    """Declare a field with its help text for `train.py --help`."""
    return dataclasses.field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Recipe:
    """Settings of a training run. Times are in epochs; probabilities and fractions are 0 to 1."""

    name: str
    summary: str
    model: ModelSpec
    note: str = ""
    pretrained: bool = _option(
        False, "start from pretrained weights: timm's, or the file in --weights"
    )

    epochs: int = _option(50, "epochs that train the whole model, after --head-epochs")
    batch_size: int = _option(128, "images per optimizer step, over all processes")
    optimizer: str = _option("adamw", "adamw, adam, sgd or muon")
    learning_rate: float = _option(1e-3, "peak learning rate")
    # Biases, norms, class token and position embeddings have no weight decay. The weight decay is
    # decoupled in adamw and muon, and part of the gradient in adam and sgd.
    weight_decay: float = _option(0.05, "weight decay of weight matrices; 0: off")
    momentum: float = _option(0.9, "momentum of sgd and muon")
    betas: tuple[float, float] = (0.9, 0.999)  # only for adam and adamw
    warmup_epochs: float = _option(0.0, "epochs in which the learning rate rises linearly from 0")
    schedule: str = _option("cosine", "cosine, linear, constant or one-cycle")
    layer_decay: float = _option(
        1.0, "factor on the learning rate per layer below the classifier head; 1: off"
    )
    clip_norm: float = _option(0.0, "maximum gradient norm; 0: off")

    head_epochs: int = _option(0, "epochs of a first stage that trains only the classifier head")
    head_learning_rate: float = _option(1e-3, "peak learning rate of the first stage")

    flip: bool = _option(True, "flip images horizontally at random")
    # The method is from Jordan 2024, https://arxiv.org/abs/2404.00498.
    alternating_flip: bool = _option(
        False, "flip each image in every second epoch instead of at random"
    )
    crop_padding: int = _option(
        4, "maximum shift of a random crop, in pixels of the dataset; 0: off"
    )
    # The policies are TrivialAugmentWide, RandAugment (two operations, magnitude 9 on a scale of
    # 30), and AutoAugment for CIFAR-10.
    policy: str = _option(
        "none",
        "augmentation policy: none, trivial (TrivialAugment), rand (RandAugment) or auto "
        "(AutoAugment)",
    )
    erasing: float = _option(0.0, "probability of random erasing")
    cutout: int = _option(0, "side of the square that Cutout masks, in pixels; 0: off")
    mixup: float = _option(0.0, "alpha of MixUp; 0: off")
    cutmix: float = _option(0.0, "alpha of CutMix; 0: off")
    unmixed_epochs: int = _option(0, "number of last epochs without MixUp and CutMix")
    label_smoothing: float = _option(0.0, "label smoothing, from 0 to below 1")
    # In validation and inference, no patch is dropped.
    patch_dropout: float = _option(
        0.0, "fraction of the patches of each image that are dropped in training"
    )
    whole_epochs: int = _option(0, "number of last epochs without patch dropout")

    teacher: str = _option("", "run folder of the teacher model for distillation; empty: off")
    teacher_share: float = _option(
        0.5, "weight of the teacher's prediction in the training target (distillation)"
    )
    mask_ratio: float = _option(
        0.0,
        "fraction of hidden patches in self-supervised pretraining (masked autoencoder); 0: "
        "supervised training",
    )

    # The average covers 1 / (1 - decay) steps, and fewer steps at first.
    ema_decay: float = _option(
        0.0, "decay of the exponential moving average of the weights; 0: off"
    )
    patience: int = _option(
        0, "stop after this many epochs without a lower validation loss; 0: never"
    )
    keep: str = _option("", "epochs whose weights are saved in the run folder, for example 1,2,4,8")

    validation_share: float = _option(
        0.1, "fraction of the training set that is held out for validation"
    )
    train_pictures: int = _option(0, "number of training images, a stratified subset; 0: all")
    # The experiment is from Zhang et al. 2017, https://arxiv.org/abs/1611.03530.
    shuffled_labels: bool = _option(
        False, "shuffle the training labels, so that the model can only memorise them"
    )
    seed: int = _option(0, "random seed of the weights, the validation split and the augmentation")

    def __post_init__(self):
        choices = {"optimizer": OPTIMIZERS, "schedule": SCHEDULES, "policy": POLICIES}
        for field, names in choices.items():
            if getattr(self, field) not in names:
                raise RecipeError(
                    f"Unknown {field} '{getattr(self, field)}': choose one of {', '.join(names)}."
                )
        for fields, is_valid, rule in _RANGES:
            for field in fields:
                if not is_valid(getattr(self, field)):
                    raise RecipeError(
                        f"{get_option(field)} is {getattr(self, field)}: it must be {rule}."
                    )
        self._check_pretraining()
        if self.alternating_flip and not self.flip:
            raise RecipeError("alternating_flip is on but flip is off: switch both on or both off.")
        for field, limit in _SWITCHED_OFF_EPOCHS.items():
            if getattr(self, field) and getattr(self, limit) >= self.total_epochs:
                raise RecipeError(
                    f"{get_option(field)} is {getattr(self, field)} and {get_option(limit)} is "
                    f"{getattr(self, limit)}, so none of {self.total_epochs} epochs uses "
                    f"{get_option(field)}. Choose a smaller {get_option(limit)}, or set "
                    f"{get_option(field)} to 0."
                )
        _ = self.saved_epochs  # a `RecipeError` means that `keep` is invalid

    def _check_pretraining(self) -> None:
        incompatible = ("teacher", "mixup", "cutmix", "patch_dropout", "head_epochs", "pretrained")
        conflicts = [name for name in incompatible if getattr(self, name)]
        conflicts += ["layer_decay"] if self.layer_decay < 1 else []
        if self.mask_ratio and conflicts:
            raise RecipeError(
                f"mask_ratio {self.mask_ratio} selects self-supervised pretraining, so it "
                "cannot be combined with: "
                f"{', '.join(f'{name} {getattr(self, name)}' for name in conflicts)}. "
                "Switch these settings off."
            )

    @property
    def saved_epochs(self) -> frozenset[int]:
        epochs = self.keep.replace(",", " ").split()
        if not all(epoch.isdecimal() and 0 < int(epoch) < 10_000 for epoch in epochs):
            raise RecipeError(
                f"{get_option('keep')} is '{self.keep}': it must list epochs from 1 on, for "
                "example 1,2,4,8."
            )
        return frozenset(map(int, epochs))

    @property
    def total_epochs(self) -> int:
        return self.head_epochs + self.epochs


_ENTRY_KEYS = ("base", "change", "options")  # keys of an entry that are not fields of a recipe


def _build_recipes(entries: Mapping[str, Mapping]) -> dict[str, Recipe]:
    """Build recipes from `entries`, see `vitdemo.training.recipes.table`."""
    recipes: dict[str, Recipe] = {}
    for name, entry in entries.items():
        fields = {key: value for key, value in entry.items() if key not in _ENTRY_KEYS}
        if "base" not in entry:
            recipes[name] = Recipe(name, **fields)
            continue
        base = recipes[entry["base"]]
        options = base.model.options | entry.get("options", {})
        fields = {"model": replace(base.model, options=options)} | fields
        recipes[name] = replace(base, name=name, **fields)
    return recipes


RECIPES: dict[str, Recipe] = _build_recipes(table.RECIPE_ENTRIES)

# Former names of recipes, in old run folders and commands.
RECIPE_ALIASES = {
    "conv-augmented": "conv-baseline",
    "finetune-deit-tiny-224": "finetune-deit-tiny",
    "vit-best": "vit-scratch",
    "vit-best-masked": "vit-scratch-masked",
}


def resolve_recipe_name(name: str) -> str:
    """Return the current name of a recipe, or `name` itself if the recipe was not renamed."""
    return RECIPE_ALIASES.get(name, name)


def get_recipe(name: str, **changes) -> Recipe:
    """Return the recipe `name` with some fields replaced; `name` may be a former name.

    Raises `RecipeError`, which lists all recipes, if the name is unknown.
    """
    name = resolve_recipe_name(name)
    if name not in RECIPES:
        raise RecipeError(f"Unknown recipe '{name}': choose one of {', '.join(RECIPES)}.")
    return replace(RECIPES[name], **changes)


def make_smoke_recipe(recipe: Recipe, **changes) -> Recipe:
    """Return `recipe` with few epochs, so that all its stages run within seconds."""
    limit = changes.get("epochs", 2) - 1
    fields = {"epochs": 2, "head_epochs": min(recipe.head_epochs, 1)}
    fields |= {f: min(getattr(recipe, f), limit, 1) for f in _SWITCHED_OFF_EPOCHS.values()}
    fields |= {"batch_size": 16, "warmup_epochs": 0.0, "train_pictures": 0, "teacher": ""}
    return replace(recipe, **fields | changes)
