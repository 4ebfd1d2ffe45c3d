"""Recipes: all settings of a training run, under one name.

To add a recipe, add an entry to `vitdemo/training/recipes/table.py`. `train.py --list` prints all
recipes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vitdemo.errors import RecipeError
from vitdemo.models import ModelSpec
from vitdemo.training.augment import POLICIES
from vitdemo.training.recipes import table

OPTIMIZERS = ("adamw", "adam", "sgd", "muon")
SCHEDULES = ("cosine", "linear", "constant", "one-cycle")


_NON_NEGATIVE_FIELDS = (
    *("weight_decay", "warmup_epochs", "clip_norm", "head_epochs", "crop_padding", "mixup"),
    *("cutmix", "unmixed_epochs", "whole_epochs", "patience", "train_pictures", "seed", "cutout"),
)
# Setting that is off in the last epochs -> field with the number of these epochs
_SWITCHED_OFF_EPOCHS = {
    "mixup": "unmixed_epochs",
    "cutmix": "unmixed_epochs",
    "patch_dropout": "whole_epochs",
}


@dataclass(frozen=True)
class Recipe:
    """Settings of a training run. Times are in epochs; probabilities and fractions are 0 to 1."""

    name: str
    summary: str
    model: ModelSpec
    note: str = ""
    pretrained: bool = False

    epochs: int = 50  # epochs that train the whole model, after `head_epochs`
    batch_size: int = 128
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.05  # not for biases, norms, class token and position embeddings;
    # decoupled in adamw and muon, part of the gradient in adam and sgd
    momentum: float = 0.9  # used by sgd (Nesterov) and muon
    betas: tuple[float, float] = (0.9, 0.999)  # used by adam and adamw
    warmup_epochs: float = 0.0  # epochs in which the learning rate rises linearly from 0
    schedule: str = "cosine"
    layer_decay: float = 1.0  # factor on the learning rate per layer below the classifier head
    clip_norm: float = 0.0  # maximum gradient norm; 0: off

    head_epochs: int = 0  # epochs of a first stage that trains only the classifier head
    head_learning_rate: float = 1e-3

    flip: bool = True
    alternating_flip: bool = False  # flip each image in every other epoch (Jordan 2024)
    crop_padding: int = 4  # pixels at the resolution of the dataset
    policy: str = "none"  # "trivial" (TrivialAugmentWide), "auto" (AutoAugment for CIFAR-10) or
    # "rand" (RandAugment with 2 operations of magnitude 9 of 30)
    erasing: float = 0.0  # probability of random erasing
    cutout: int = 0  # side of the masked square in pixels; 0: off
    mixup: float = 0.0  # alpha of the Beta distribution; 0: off
    cutmix: float = 0.0  # alpha of the Beta distribution; 0: off
    unmixed_epochs: int = 0  # number of last epochs without MixUp and CutMix
    label_smoothing: float = 0.0
    patch_dropout: float = 0.0  # fraction of patches that are dropped at random in training, not
    # in validation and inference
    whole_epochs: int = 0  # number of last epochs without patch dropout

    teacher: str = ""  # run folder of the teacher model for distillation; "": off
    teacher_share: float = 0.5  # distillation weight; the rest of the target is the label
    mask_ratio: float = 0.0  # above 0: self-supervised pretraining as a masked autoencoder, with
    # this fraction of hidden patches; another recipe then starts from the weights (--weights)

    ema_decay: float = 0.0  # EMA over 1 / (1 - decay) steps, fewer at first; 0: off
    patience: int = 0  # stop after this many epochs without a lower validation loss; 0: never
    keep: str = ""  # epochs whose weights are saved in the run folder, for example "1,2,4,8"

    validation_share: float = 0.1  # fraction of the training set that is held out for validation
    train_pictures: int = 0  # number of training images, a stratified subset; 0: all
    shuffled_labels: bool = False  # shuffle the training labels, so that the model can only
    # memorise the images (Zhang et al. 2017)
    seed: int = 0

    def __post_init__(self):
        _check_choice("optimizer", self.optimizer, OPTIMIZERS)
        _check_choice("schedule", self.schedule, SCHEDULES)
        _check_choice("policy", self.policy, tuple(POLICIES))
        for field in ("epochs", "batch_size"):
            if getattr(self, field) < 1:
                raise RecipeError(f"{field} is {getattr(self, field)}: it must be at least 1.")
        for field in ("learning_rate", "head_learning_rate"):
            if not getattr(self, field) > 0:
                raise RecipeError(f"{field} is {getattr(self, field)}: it must be above 0.")
        for field in ("erasing", "label_smoothing", "patch_dropout", "ema_decay", "mask_ratio"):
            if not 0 <= getattr(self, field) < 1:
                raise RecipeError(f"{field} is {getattr(self, field)}: it must be in [0, 1).")
        if not 0 <= self.teacher_share <= 1:
            raise RecipeError(f"teacher_share is {self.teacher_share}: it must be in [0, 1].")
        if self.mask_ratio:
            self._check_pretraining()
        if self.alternating_flip and not self.flip:
            raise RecipeError("alternating_flip is on but flip is off: switch both on or both off.")
        if not 0 < self.validation_share < 1:
            raise RecipeError(
                f"validation_share is {self.validation_share}: it must be between 0 and 1."
            )
        for field in _NON_NEGATIVE_FIELDS:
            if not getattr(self, field) >= 0:
                raise RecipeError(f"{field} is {getattr(self, field)}: it must be at least 0.")
        for field, limit in _SWITCHED_OFF_EPOCHS.items():
            if getattr(self, field) and getattr(self, limit) >= self.total_epochs:
                raise RecipeError(
                    f"{field} is {getattr(self, field)} and {limit} {getattr(self, limit)}, so "
                    f"none of {self.total_epochs} epochs uses {field}: choose a smaller {limit}, "
                    f"or set {field} to 0."
                )
        _ = self.saved_epochs  # raises `RecipeError` if `keep` is invalid

    def _check_pretraining(self) -> None:
        incompatible = ("teacher", "mixup", "cutmix", "patch_dropout", "head_epochs", "pretrained")
        conflicts = [name for name in incompatible if getattr(self, name)]
        conflicts += ["layer_decay"] if self.layer_decay < 1 else []
        if conflicts:
            raise RecipeError(
                f"mask_ratio {self.mask_ratio} trains from scratch and without labels, so it "
                "cannot be combined with: "
                f"{', '.join(f'{name} {getattr(self, name)}' for name in conflicts)}. "
                "Switch these settings off."
            )

    @property
    def saved_epochs(self) -> frozenset[int]:
        epochs = self.keep.replace(",", " ").split()
        if not all(epoch.isdecimal() and 0 < int(epoch) < 10_000 for epoch in epochs):
            raise RecipeError(
                f"keep is '{self.keep}': it must list epochs from 1 on, for example 1,2,4,8."
            )
        return frozenset(map(int, epochs))

    @property
    def total_epochs(self) -> int:
        return self.head_epochs + self.epochs


def _check_choice(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise RecipeError(f"Unknown {field} '{value}': choose one of {', '.join(choices)}.")


_ENTRY_KEYS = ("base", "change", "options")  # keys of an entry that are no fields of a recipe


def _build_recipes(entries: Mapping[str, Mapping]) -> dict[str, Recipe]:
    """Build the recipes that `entries` describe; see `vitdemo.training.recipes.table`."""
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
