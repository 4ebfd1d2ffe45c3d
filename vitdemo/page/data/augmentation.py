"""Section "Augmentation": the random changes that a recipe applies to training images.

Letters: B images per batch, S their side in pixels.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import fields as fields_of

import gradio as gr
import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitdemo.augment import Augmentation
from vitdemo.data import CIFAR10_MEAN
from vitdemo.errors import DataError, ImageError
from vitdemo.inputs import load_image, square_crop, to_uint8, visible_square
from vitdemo.metrics import counted
from vitdemo.page.components.article import Article, Heading, Piece, Text
from vitdemo.page.components.pictures import Item, Pictures, strip
from vitdemo.page.kit import HIDDEN
from vitdemo.page.look.tab import Look
from vitdemo.page.sections import Sections
from vitdemo.photos import example_files, name_of
from vitdemo.recipes import RECIPES, Recipe, current_name, get_recipe
from vitdemo.runs import Run
from vitdemo.training import augment
from vitdemo.workbench import Workbench

WORDS = (
    "During training, each image is changed at random every time it is used. The recipe defines "
    "the changes. The rows below show each step separately, then all steps together. The same seed "
    "always gives the same result."
)
SEEDS = 2**31
WHERE_NONE_IS = "vit-tiny-regularised"  # default recipe without a model: it has every step
BATCH = 6  # images shown
FILL = 255 * torch.tensor(CIFAR10_MEAN).view(3, 1, 1)  # colour of a box removed by Cutout


def build(sections: Sections, workbench: Workbench, look: Look) -> None:
    """Lay out the section, which shows the image chosen in the tab Explore."""
    gr.Markdown(WORDS)
    with gr.Row():
        names = first_of(workbench.trained_runs())
        recipe = gr.Dropdown(names, value=names[0], label="Recipe", elem_id="recipe")
        seed = gr.Number(0, label="Seed", precision=0, minimum=0, elem_id="seed")
        again = gr.Button("New random seed", elem_id="draw-again")
    view = Article(elem_id="augmentation")

    def draw(image, name, seed):
        if seed is None or not 0 <= seed < SEEDS:
            raise DataError(f"The seed must be a whole number from 0 to {SEEDS - 1}.")
        return article(workbench, get_recipe(name), image, int(seed))

    def next_seed(seed):
        return ((seed or 0) + 1) % SEEDS

    sections.add("data-augmentation", draw, [look.picture, recipe, seed], [view])
    moved = again.click(next_seed, seed, seed, **HIDDEN)
    sections.draw_on(moved.success, sections.within("data-augmentation"))


def first_of(runs: list[Run]) -> list[str]:
    """Return all recipe names: those of the `runs` first, starting with strong augmentation."""
    named = [current_name(str(run.config["recipe"].get("name"))) for run in runs]
    own = [name for name in named if name in RECIPES]
    own.sort(key=lambda name: RECIPES[name].policy == "none")
    return list(dict.fromkeys([*own, WHERE_NONE_IS, *RECIPES]))


def article(
    workbench: Workbench, recipe: Recipe, image: Image.Image | None, seed: int
) -> list[Piece]:
    """Show the augmentation of `recipe` on `image` and other images, step by step."""
    names, images, side = shown(workbench, recipe, image, seed)
    steps = augmentations(recipe, images, names, side=side, seed=seed)
    pieces: list[Piece] = [Text(f"{recipe.name}: {recipe.summary}.")]
    if len(steps) == 1:
        words = "This recipe has no augmentation: the model is trained on the original images."
        pieces.append(Text(words))
    for step in steps:
        targets = step.targets or [{}] * len(step.pictures)
        items = [
            Item(f"{step.title}: image {i}", target_words(target))
            for i, target in enumerate(targets, start=1)
        ]
        words = [Text(step.words)] if step.words else []
        pieces += [Heading(step.title), *words, Pictures(items, strip(step.pictures))]
    return pieces


def target_words(shares: dict[str, float]) -> str:
    """Describe a mixed target, as "63% cat, 37% dog"."""
    return ", ".join(
        f"{100 * share:.0f}% {name}" for name, share in shares.items() if share >= 0.005
    )


def shown(
    workbench: Workbench, recipe: Recipe, image: Image.Image | None, seed: int
) -> tuple[Sequence[str], Sequence[Image.Image], int]:
    """Return names and images to augment, and the side of the training images of `recipe`.

    The images are `image` and test images chosen by `seed`, or example photos without a dataset.
    """
    found = [("your image", image)] if image is not None else []
    try:
        side = 32 if workbench.source().is_cifar10 else recipe.model.image_size
        size = workbench.test_size()
        chosen = random.Random(seed).sample(range(size), min(BATCH - len(found), size))
        tests = [workbench.test_picture(number) for number in chosen]
        found += [(picture.label, picture.image) for picture in tests]
    except DataError:
        side = 32
        found += workbench.cache.of(photos)[: BATCH - len(found)]
    if not found:
        raise ImageError("There is no image to augment. Choose one in the tab Explore.")
    names, images = zip(*found, strict=True)
    return names, images, side


def photos() -> list[tuple[str, Image.Image]]:
    """Return the example photos in reduced size, with their names."""
    return [(name_of(file), visible_square(load_image(file), 256)) for file in example_files()]


@dataclass(frozen=True, eq=False)
class Augmented:
    """Result of one step, or of all steps, on a batch: `pictures` (B, S, S, 3) uint8 and targets.

    `targets` maps class names to target probabilities, one mapping per image. It is empty if the
    step does not change the targets.
    """

    title: str
    words: str
    pictures: np.ndarray
    targets: tuple[dict[str, float], ...] = ()


def augmentations(
    recipe: Recipe, images: Sequence[Image.Image], names: Sequence[str], *, side: int, seed: int
) -> list[Augmented]:
    """Apply each step of `recipe` separately to the same RGB `images`, then all steps in order.

    `names` are the classes of the images, and `side` is the side of the training images. The same
    `seed` gives the same result on every machine. The first entry holds the original images.
    """
    pixels = torch.stack(
        [torch.from_numpy(to_uint8(square_crop(image, side))) for image in images]
    )  # (B, 3, S, S) uint8
    found = [Augmented("Original images", "", _uint8(pixels))]
    for title, words, fields in _steps(recipe):
        alone = Augmentation(**{name: getattr(recipe, name) for name in fields})
        found.append(_augmented(title, words, alone, pixels, names, seed))
    if len(found) > 2:
        words = f"The model is trained on these images.{dropped_words(recipe)}"
        whole = Augmentation(**{f.name: getattr(recipe, f.name) for f in fields_of(Augmentation)})
        found.append(_augmented("All steps together", words, whole, pixels, names, seed))
    return found


def dropped_words(recipe: Recipe) -> str:
    """Describe the PatchDropout of `recipe`; "" if it has none."""
    if not recipe.patch_dropout:
        return ""
    until = f", except in the last {counted(recipe.whole_epochs, 'epoch')}"
    return (
        f" A random {100 * recipe.patch_dropout:.0f}% of each image's patch tokens are dropped "
        f"(PatchDropout, Liu et al. 2022){until if recipe.whole_epochs else ''}."
    )


def _augmented(
    title: str,
    words: str,
    augmentation: Augmentation,
    pixels: Tensor,
    names: Sequence[str],
    seed: int,
) -> Augmented:
    B, side = len(pixels), pixels.shape[-1]
    generator = torch.Generator().manual_seed(seed)
    draws = augmentation.draw(B, side, generator)
    partners = torch.rand((B,), generator=generator).argsort() if augmentation.mixes else None
    shares = torch.eye(B)  # (B, B): row i holds the proportions of the images mixed into image i
    drawn, mixed = augment(augmentation, pixels, shares, draws, partners, FILL)
    return Augmented(
        title, words, _uint8(drawn), _named(mixed, names) if augmentation.mixes else ()
    )


def _uint8(pixels: Tensor) -> np.ndarray:
    """Convert images (B, 3, S, S) in 0..255 to (B, S, S, 3) uint8."""
    return pixels.float().clamp(0, 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


def _named(shares: Tensor, names: Sequence[str]) -> tuple[dict[str, float], ...]:
    """Turn proportions of images (B, B) into proportions of class names, the largest first."""
    found = []
    for row in shares.tolist():
        total: dict[str, float] = {}
        for name, share in zip(names, row, strict=True):
            total[name] = total.get(name, 0.0) + share
        largest = sorted(total.items(), key=lambda item: -item[1])
        found.append({name: share for name, share in largest if share > 0})
    return tuple(found)


POLICY_WORDS = {
    "trivial": "TrivialAugmentWide: one operation per image (rotation, shear, shift, colour, "
    "contrast, ...), with random strength.",
    "rand": "RandAugment: two operations per image (rotation, shear, shift, colour, contrast, "
    "...), with strength 9 of 30.",
    "auto": "AutoAugment: one of 25 pairs of operations that were selected for CIFAR-10.",
}


def _steps(recipe: Recipe) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return title, description and recipe fields of each augmentation step of `recipe`."""
    steps = []
    if recipe.crop_padding:
        words = (
            f"The image is shifted by up to {recipe.crop_padding} pixels, with mirrored borders."
        )
        steps.append(("Random crop", words, ("crop_padding",)))
    if recipe.flip:
        words = "The image is mirrored horizontally with a probability of 50%."
        steps.append(("Random flip", words, ("flip",)))
    if recipe.policy != "none":
        steps.append(("Random operations", POLICY_WORDS[recipe.policy], ("policy",)))
    if recipe.erasing:
        words = (
            f"With a probability of {100 * recipe.erasing:g}%, a box with 2% to 33% of the image "
            "area is replaced by noise."
        )
        steps.append(("Random erasing", words, ("erasing",)))
    if recipe.cutout:
        words = f"A box of {recipe.cutout} × {recipe.cutout} pixels is filled with the mean colour."
        steps.append(("Cutout", words, ("cutout",)))
    if recipe.mixup or recipe.cutmix:
        steps.append((_mix_title(recipe), _mix_words(recipe), ("mixup", "cutmix")))
    return steps


def _mix_title(recipe: Recipe) -> str:
    return " or ".join(
        name for name, alpha in (("MixUp", recipe.mixup), ("CutMix", recipe.cutmix)) if alpha
    )


def _mix_words(recipe: Recipe) -> str:
    parts = []
    if recipe.mixup:
        parts.append(f"MixUp (alpha {recipe.mixup:g}) blends the image with another one")
    if recipe.cutmix:
        parts.append(f"CutMix (alpha {recipe.cutmix:g}) pastes a box from another image")
    rest = (
        f" Mixing is off in the last {counted(recipe.unmixed_epochs, 'epoch')}."
        if recipe.unmixed_epochs
        else ""
    )
    return f"{', or '.join(parts)}. The targets are mixed in the same proportions.{rest}"
