"""Recipes: everything that decides a training, by name.

A variant is one more entry in `RECIPES`; `train.py --list` prints them. A recipe's `note` states
its origin and what it measured, on what hardware.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vitdemo.augment import POLICIES
from vitdemo.errors import RecipeError
from vitdemo.models import ModelSpec

OPTIMIZERS = ("adamw", "adam", "sgd", "muon")
SCHEDULES = ("cosine", "linear", "constant", "one-cycle")


_NOT_NEGATIVE = (
    *("weight_decay", "warmup_epochs", "clip_norm", "head_epochs", "crop_padding", "mixup"),
    *("cutmix", "unmixed_epochs", "whole_epochs", "patience", "train_pictures", "seed", "cutout"),
)
# What rests in the last epochs, and for how many.
_RESTS = {"mixup": "unmixed_epochs", "cutmix": "unmixed_epochs", "patch_dropout": "whole_epochs"}


@dataclass(frozen=True)
class Recipe:
    """One training. Times are in epochs, rates are per step, chances and shares in 0..1."""

    name: str
    summary: str
    model: ModelSpec
    note: str = ""
    pretrained: bool = False

    epochs: int = 50  # of the whole model, after head_epochs
    batch_size: int = 128
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.05  # never on biases, norms, class token, positions; decoupled in
    # adamw and muon, part of the gradient in adam and sgd
    momentum: float = 0.9  # of sgd (Nesterov) and muon
    betas: tuple[float, float] = (0.9, 0.999)  # of adam and adamw
    warmup_epochs: float = 0.0  # linear from 0
    schedule: str = "cosine"
    layer_decay: float = 1.0  # learning rate times this for each layer below the head
    clip_norm: float = 0.0  # 0: none

    head_epochs: int = 0  # first stage: the head alone, the rest frozen
    head_learning_rate: float = 1e-3

    flip: bool = True
    alternating_flip: bool = False  # each picture in every other epoch, not by chance (Jordan 2024)
    crop_padding: int = 4  # pixels at the data's own resolution
    policy: str = "none"  # "trivial" (TrivialAugmentWide), "rand" (RandAugment, 2 at 9 of 30) or
    # "auto" (AutoAugment, as found for CIFAR-10)
    erasing: float = 0.0  # chance
    cutout: int = 0  # side in pixels; 0: none
    mixup: float = 0.0  # alpha
    cutmix: float = 0.0  # alpha
    unmixed_epochs: int = 0  # MixUp and CutMix rest for the last ones
    label_smoothing: float = 0.0
    patch_dropout: float = 0.0  # share of its patches that a picture trains without, others in
    # every epoch; all are there for an answer
    whole_epochs: int = 0  # no patch is dropped in the last ones

    teacher: str = ""  # run folder of a model whose answers are a part of the targets
    teacher_share: float = 0.5  # that part; the label has the rest
    mask_ratio: float = 0.0  # above 0: a training without labels, which reconstructs this share of
    # the patches from the rest (a masked autoencoder); another recipe starts from its --weights

    ema_decay: float = 0.0  # 0: none; averages 1 / (1 - decay) steps, less in the first thousands
    patience: int = 0  # epochs without a better validation loss before stopping; 0: never stop
    keep: str = ""  # epochs whose weights stay in the run folder, as "1,2,4,8"

    validation_share: float = 0.1
    train_pictures: int = 0  # a stratified subset of the rest; 0: all
    shuffled_labels: bool = False  # of the training pictures: there is nothing left to learn but
    # each picture by itself (Zhang et al. 2017)
    seed: int = 0

    def __post_init__(self):
        _choose("optimizer", self.optimizer, OPTIMIZERS)
        _choose("schedule", self.schedule, SCHEDULES)
        _choose("policy", self.policy, tuple(POLICIES))
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
            self._refuse_labels()
        if self.alternating_flip and not self.flip:
            raise RecipeError("alternating_flip says how pictures are flipped, and flip is off.")
        if not 0 < self.validation_share < 1:
            raise RecipeError(
                f"validation_share is {self.validation_share}: it must be between 0 and 1."
            )
        for field in _NOT_NEGATIVE:
            if not getattr(self, field) >= 0:
                raise RecipeError(f"{field} is {getattr(self, field)}: it cannot be negative.")
        for field, rest in _RESTS.items():
            if getattr(self, field) and getattr(self, rest) >= self.total_epochs:
                raise RecipeError(
                    f"{field} is {getattr(self, field)} and {rest} {getattr(self, rest)}, which "
                    f"leaves none of {self.total_epochs} epochs for it: choose fewer, or 0."
                )
        _ = self.kept_epochs  # raises

    def _refuse_labels(self) -> None:
        labelled = ("teacher", "mixup", "cutmix", "patch_dropout", "head_epochs", "pretrained")
        useless = [name for name in labelled if getattr(self, name)]
        useless += ["layer_decay"] if self.layer_decay < 1 else []
        if useless:
            raise RecipeError(
                f"mask_ratio {self.mask_ratio} trains without labels and from nothing, so it has "
                f"no use for {', '.join(f'{name} {getattr(self, name)}' for name in useless)}."
            )

    @property
    def kept_epochs(self) -> frozenset[int]:
        words = self.keep.replace(",", " ").split()
        if not all(word.isdecimal() and 0 < int(word) < 10_000 for word in words):
            raise RecipeError(f"keep is '{self.keep}': it must be epochs from 1 on, as 1,2,4,8.")
        return frozenset(map(int, words))

    @property
    def total_epochs(self) -> int:
        return self.head_epochs + self.epochs


def _choose(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise RecipeError(f"Unknown {field} '{value}': choose one of {', '.join(choices)}.")


def _vit(embed_dim: int, depth: int, num_heads: int, **options) -> ModelSpec:
    sizes = {"patch_size": 4, "embed_dim": embed_dim, "depth": depth, "num_heads": num_heads}
    return ModelSpec("vit", options=sizes | options)


def _deit(image_size: int) -> ModelSpec:
    return ModelSpec("timm", image_size=image_size, name="deit_tiny_patch16_224")


_PLAIN = Recipe(
    "vit-plain",
    "what a basic training gives: crop and flip, AdamW, cosine",
    _vit(256, 6, 8),
    note="As student notebooks train it; 76.23 % reported elsewhere. Not measured here yet.",
    epochs=50,
    learning_rate=3e-4,
    weight_decay=1e-4,
)
_BEST = Recipe(
    "vit-best",
    "meant to be the best plain ViT from scratch on CIFAR-10 alone, for a GPU",
    _vit(192, 12, 3, drop_path_rate=0.1, init="mimetic"),
    note="DeiT's sizes with CIFAR-10's AutoAugment; made to end within 10 minutes on one H200 from "
    "80,000 pictures a second on. 93.58 % reported elsewhere for width 192, depth 9, 100 epochs "
    "of 3 views (its repository's default). Not measured here yet.",
    epochs=600,
    batch_size=1024,
    learning_rate=2e-3,
    warmup_epochs=10,
    clip_norm=1.0,
    policy="auto",
    mixup=0.8,
    cutmix=1.0,
    unmixed_epochs=90,
    label_smoothing=0.1,
    ema_decay=0.998,
)


_PLAIN_CPU = replace(
    _PLAIN,
    name="vit-plain-cpu",
    summary="vit-plain with half the width, 8 px patches and 20 epochs, for a plain CPU",
    model=_vit(128, 6, 4, patch_size=8),
    note="So small that a lesson can repeat it and its ablation. 66.24 % of CIFAR-10's test "
    "pictures; 26 minutes on one core of an AMD EPYC (Genoa) that had other work too, 2026-11-22. "
    "Its curves and answers ship.",
    epochs=20,
)
_MEASURED_CPU = {  # percent of CIFAR-10's test pictures, 2026-11-22
    "muon": "79.69",
    "longer": "76.20",
    "rate": "66.38",
    "ema": "66.29",
    "decay": "66.07",
    "one-cycle": "64.03",
    "mixed": "61.50",
    "augmented": "60.81",
}


def _one_more(base: Recipe, measured: Mapping[str, str]) -> tuple[Recipe, ...]:
    """`base` with one ingredient more, or another one, each: the rows of its ablation."""
    mimetic = replace(base.model, options=base.model.options | {"init": "mimetic"})
    ingredients = (
        ("augmented", "with TrivialAugment", {"policy": "trivial"}),
        ("longer", "for three times as long", {"epochs": 3 * base.epochs}),
        ("decay", "with a weight decay of 0.05", {"weight_decay": 0.05}),
        ("rate", "at a learning rate of 1e-3", {"learning_rate": 1e-3}),
        ("one-cycle", "with a one-cycle schedule", {"schedule": "one-cycle"}),
        ("ema", "with averaged weights", {"ema_decay": 0.998}),
        ("mixed", "with MixUp and CutMix", {"mixup": 0.2, "cutmix": 1.0}),
        ("muon", "with Muon", {"optimizer": "muon", "learning_rate": 2e-3, "momentum": 0.95}),
        ("mimetic", "with mimetic initialisation", {"model": mimetic}),
    )
    note = f"One ingredient beside {base.name}, for the ablation. "
    found = {n: f"{p} % of CIFAR-10's test pictures, 2026-11-22." for n, p in measured.items()}
    return tuple(
        replace(
            base,
            name=f"{base.name}-{name}",
            summary=f"{base.name} {how}",
            note=note + found.get(name, "Not measured here yet."),
            **what,
        )
        for name, how, what in ingredients
    )


_FAILING = (
    replace(
        _PLAIN_CPU,
        name="vit-plain-cpu-no-positions",
        summary="vit-plain-cpu without position embeddings: it cannot tell where a patch was",
        model=replace(_PLAIN_CPU.model, options=_PLAIN_CPU.model.options | {"pos_embed": "none"}),
        note="Made to fail, for a lesson. Not measured here yet.",
    ),
    replace(
        _PLAIN_CPU,
        name="vit-plain-cpu-shuffled-labels",
        summary="vit-plain-cpu on 2,000 pictures with shuffled labels: learnt, and worth nothing",
        note="Made to fail, for a lesson, after Zhang et al. 2017: training accuracy rises, the "
        "rest stays at chance. Not measured here yet.",
        epochs=150,
        learning_rate=1e-3,
        flip=False,
        crop_padding=0,
        train_pictures=2_000,
        shuffled_labels=True,
    ),
    replace(
        _PLAIN_CPU,
        name="vit-plain-cpu-too-fast",
        summary="vit-plain-cpu at a learning rate far too high",
        note="Made to fail, for a lesson. Not measured here yet.",
        learning_rate=0.1,
        epochs=5,
    ),
)

_FINETUNED = Recipe(
    "finetune-deit-tiny",
    "DeiT-Tiny from ImageNet-1k, fine-tuned at 128 px",
    _deit(128),
    note="96.22 % of CIFAR-10's test pictures; 74 minutes on two cores of an AMD EPYC (Genoa) that "
    "had other work too, 2026-11-21 (94.32 % at 96 px after 3 epochs, the day before).",
    pretrained=True,
    epochs=6,
    batch_size=64,
    learning_rate=5e-4,
    warmup_epochs=0.5,
    layer_decay=0.75,
    clip_norm=1.0,
    label_smoothing=0.1,
    ema_decay=0.998,
)

_SMALL = Recipe(
    "vit-small-cpu",
    "a small ViT from scratch, for a plain CPU",
    _vit(128, 6, 4, init="mimetic"),
    note="82.56 % of CIFAR-10's test pictures (82.73 % in float32 on a 2.5 GHz Xeon); about an "
    "hour of work on one core and then two of an AMD EPYC (Genoa), 2026-11-21. Its curves and "
    "answers ship.",
    epochs=10,
    optimizer="muon",
    learning_rate=2e-3,
    momentum=0.95,
    warmup_epochs=0.5,
    clip_norm=1.0,
    label_smoothing=0.1,
    ema_decay=0.998,
)

_RESNET = Recipe(
    "resnet18",
    "the convolutional baseline: SGD with Nesterov momentum, cutout",
    ModelSpec("resnet18"),
    note="He et al. 2016 with DeVries & Taylor's cutout. Not measured here yet.",
    epochs=60,
    batch_size=512,
    optimizer="sgd",
    learning_rate=0.4,
    weight_decay=5e-4,
    warmup_epochs=5,
    cutout=8,
    label_smoothing=0.1,
)

_CONVNET = Recipe(
    "conv-baseline",
    "the convolutional baseline: a small network with frozen whitening, Muon, alternating flips",
    ModelSpec("convnet", options={"widths": (64, 256, 256)}),
    note="After Jordan 2024 (airbench), of which 94.0 % is reported elsewhere after 8 epochs of "
    "50,000 pictures, with six views of each test picture. One view here, and 45,000 pictures: "
    "93.07 % of CIFAR-10's test pictures; 70 minutes on two cores of an AMD EPYC (Genoa) that had "
    "more other work than this, 2026-11-22. It ships.",
    epochs=13,
    batch_size=512,
    optimizer="muon",
    learning_rate=3e-2,
    weight_decay=0.1,
    momentum=0.9,
    warmup_epochs=2,
    schedule="linear",
    alternating_flip=True,
    crop_padding=2,
    label_smoothing=0.2,
)

_ALL = (
    _SMALL,
    replace(
        _SMALL,
        name="vit-small-masked",
        summary="vit-small-cpu's model without labels, as a masked autoencoder",
        note="He et al. 2022: three quarters of the patches hidden, flip and crop alone. "
        "15 minutes on two cores of an AMD EPYC (Genoa), 2026-11-21.",
        epochs=16,
        batch_size=256,
        learning_rate=3e-3,
        warmup_epochs=1,
        label_smoothing=0.0,
        ema_decay=0.0,
        mask_ratio=0.75,
    ),
    replace(
        _SMALL,
        name="vit-small-pretrained",
        summary="our own small ViT from scratch: first without labels, then with AutoAugment",
        note="Half of the patches at a time (PatchDropout, Liu et al. 2022), all of them in the "
        "last epochs. 90.40 % of CIFAR-10's test pictures; 67 minutes on two cores of an AMD EPYC "
        "(Genoa), 2026-11-21, after 15 without labels. It ships.",
        pretrained=True,
        epochs=50,
        batch_size=256,
        learning_rate=3e-3,
        warmup_epochs=1,
        policy="auto",
        patch_dropout=0.5,
        whole_epochs=8,
    ),
    replace(
        _SMALL,
        name="vit-scratch",
        summary="our own small ViT from scratch, gone on with from where vit-small-pretrained ends",
        note="The same pictures, policy and optimizer, begun again at a lower rate (warm restart, "
        "Loshchilov & Hutter 2017) from assets/runs/vit-small-pretrained/model.safetensors. Not "
        "measured here yet.",
        pretrained=True,
        epochs=24,
        batch_size=256,
        learning_rate=2e-3,
        warmup_epochs=1,
        policy="auto",
        patch_dropout=0.5,
        whole_epochs=4,
    ),
    _BEST,
    Recipe(
        "vit-best-masked",
        "vit-best's model without labels, as a masked autoencoder; where another begins",
        _vit(192, 12, 3, init="mimetic"),
        note="He et al. 2022: three quarters of the patches hidden, flip and crop alone. Not "
        "measured here yet.",
        epochs=1600,
        batch_size=2048,
        learning_rate=1.5e-3,
        betas=(0.9, 0.95),
        warmup_epochs=40,
        clip_norm=1.0,
        mask_ratio=0.75,
    ),
    replace(
        _BEST,
        name="vit-best-pretrained",
        summary="vit-best from the weights of vit-best-masked, for half as long",
        note="Self-supervision on the training pictures alone, in DINO's manner, is reported "
        "elsewhere to lift 93.58 % to 96.41 %. Not measured here yet.",
        pretrained=True,
        epochs=300,
        unmixed_epochs=45,
        layer_decay=0.85,
    ),
    replace(
        _BEST,
        name="vit-best-distilled",
        summary="vit-best with resnet18 as its teacher",
        note="Half of each target is what runs/resnet18 answers to the same pixels (Hinton et al. "
        "2015; Beyer et al. 2022). Not measured here yet.",
        teacher="runs/resnet18",
    ),
    replace(
        _BEST,
        name="vit-conv-stem",
        summary="vit-best with two convolution-and-pool stages before the tokens",
        model=_vit(192, 12, 3, drop_path_rate=0.1, init="mimetic", stem="conv"),
        note="The stem of CCT-7/3x2, of which 95.04 % is reported elsewhere. Not measured here "
        "yet.",
        epochs=400,
        unmixed_epochs=60,
    ),
    _PLAIN,
    *_one_more(_PLAIN, {}),
    _PLAIN_CPU,
    *_one_more(_PLAIN_CPU, _MEASURED_CPU),
    *_FAILING,
    Recipe(
        "vit-nine-blocks",
        "nine blocks with RandAugment, dropout and Adam",
        _vit(192, 9, 8, drop_rate=0.1),
        note="86.39 % reported elsewhere. Not measured here yet.",
        epochs=100,
        optimizer="adam",
        weight_decay=0.0,
        warmup_epochs=5,
        policy="rand",
    ),
    Recipe(
        "vit-tiny-regularised",
        "TrivialAugment, MixUp, CutMix, erasing and label smoothing together",
        _vit(192, 12, 3),
        note="86.70 % reported elsewhere. Not measured here yet.",
        epochs=100,
        warmup_epochs=10,
        clip_norm=1.0,
        policy="trivial",
        mixup=0.2,
        cutmix=1.0,
        erasing=0.25,
        label_smoothing=0.1,
    ),
    Recipe(
        "vit-deit-tiny",
        "DeiT's recipe on small pictures, for a GPU",
        _vit(192, 12, 3, drop_rate=0.1),
        note="90.9 % reported elsewhere. Not measured here yet.",
        epochs=300,
        batch_size=1024,
        schedule="one-cycle",
        policy="rand",
        mixup=0.8,
        cutmix=1.0,
    ),
    _CONVNET,
    _RESNET,
    replace(
        _RESNET,
        name="resnet18-cpu",
        summary="the convolutional baseline in 12 epochs, for a plain CPU",
        note="One cycle of the learning rate (Smith & Topin 2017) on flip and crop alone. 91.11 % "
        "of CIFAR-10's test pictures; 107 minutes on two cores of an AMD EPYC (Genoa) that had "
        "other work too, 2026-11-22. Its curves and answers ship.",
        epochs=12,
        batch_size=128,
        learning_rate=0.1,
        warmup_epochs=0,
        schedule="one-cycle",
        cutout=0,
    ),
    replace(
        _FINETUNED,
        name="finetune-two-stage",
        summary="DeiT-Tiny from ImageNet-1k at 96 px: the head first, then all, on 20,000 pictures",
        model=_deit(96),
        note="95.24 % of CIFAR-10's test pictures; 71 minutes on two cores of an AMD EPYC (Genoa) "
        "that had other work too, 2026-11-22. 94.98 % reported elsewhere for ViT-S/8 at 32 px. "
        "Its curves and answers ship.",
        head_epochs=2,
        epochs=30,
        mixup=0.2,
        cutmix=1.0,
        ema_decay=0.0,
        patience=8,
        train_pictures=20_000,
    ),
    _FINETUNED,
    replace(
        _FINETUNED,
        name="finetune-deit-tiny-224",
        summary="DeiT-Tiny from ImageNet-1k, fine-tuned at its own 224 px, for a GPU",
        model=_deit(224),
        note="Four epochs at batch 64, the first three with half of the patches: 96.95 % of "
        "CIFAR-10's test pictures; 90 minutes on two cores of an AMD EPYC (Genoa) that had other "
        "work too, 2026-11-22. That ships; ten epochs, as the recipe stands, were not run.",
        epochs=10,
        batch_size=128,
    ),
    replace(
        _FINETUNED,
        name="finetune-vit-small",
        summary="ViT-S/16 from ImageNet-21k, fine-tuned at 224 px, for a GPU",
        model=ModelSpec("timm", image_size=224, name="vit_small_patch16_224"),
        note="98.4 to 98.8 % reported elsewhere after 3 epochs. Not measured here yet.",
        epochs=5,
        batch_size=128,
        learning_rate=2e-4,
    ),
)

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}


def get_recipe(name: str, **changes) -> Recipe:
    """The recipe `name`, with fields replaced. Raises `RecipeError` naming the choices."""
    if name not in RECIPES:
        raise RecipeError(f"Unknown recipe '{name}': choose one of {', '.join(RECIPES)}.")
    return replace(RECIPES[name], **changes)
