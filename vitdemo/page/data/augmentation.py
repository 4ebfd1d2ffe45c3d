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

from vitdemo.context import AppContext
from vitdemo.data import CIFAR10_MEAN
from vitdemo.data.image_files import crop_and_resize, crop_visible_square, load_image, to_uint8
from vitdemo.data.photos import example_files, name_of
from vitdemo.errors import DataError, ImageError
from vitdemo.metrics import format_with_noun
from vitdemo.page.components.article import Document, DocumentBlock, Heading, Text
from vitdemo.page.components.pictures import ImageItem, ImageRow, concatenate_images
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.kit import NO_PROGRESS
from vitdemo.page.sections import LazySections
from vitdemo.runs import Run
from vitdemo.training import augment_batch
from vitdemo.training.augment import Augmentation
from vitdemo.training.recipes import RECIPES, Recipe, get_recipe, resolve_recipe_name

AUGMENTATION_INTRO = (
    "During training, each image is changed at random every time it is used. The recipe defines "
    "the changes. The rows below show each step separately, then all steps together. The same seed "
    "always gives the same result."
)
SEED_LIMIT = 2**31
DEFAULT_RECIPE = "vit-tiny-regularised"  # default recipe if there is no model: it has every step
IMAGES_SHOWN = 6  # number of images per row
CUTOUT_FILL = 255 * torch.tensor(CIFAR10_MEAN).view(3, 1, 1)  # colour of the box that Cutout fills


def build(sections: LazySections, context: AppContext, look: ExploreTab) -> None:
    """Lay out the section, which shows the image chosen in the tab Explore."""
    gr.Markdown(AUGMENTATION_INTRO)
    with gr.Row():
        names = order_recipes(context.trained_runs())
        recipe = gr.Dropdown(names, value=names[0], label="Recipe", elem_id="recipe")
        seed = gr.Number(0, label="Seed", precision=0, minimum=0, elem_id="seed")
        again = gr.Button("New random seed", elem_id="draw-again")
    view = Document(elem_id="augmentation")

    def draw(image, name, seed):
        if seed is None or not 0 <= seed < SEED_LIMIT:
            raise DataError(f"The seed is {seed}. Enter a whole number from 0 to {SEED_LIMIT - 1}.")
        return augmentation_blocks(context, get_recipe(name), image, int(seed))

    def next_seed(seed):
        return ((seed or 0) + 1) % SEED_LIMIT

    sections.add("data-augmentation", draw, [look.image, recipe, seed], [view])
    moved = again.click(next_seed, seed, seed, **NO_PROGRESS)
    sections.draw_on(moved.success, sections.sections_of_tab("data-augmentation"))


def order_recipes(runs: list[Run]) -> list[str]:
    """Return all recipe names; recipes of `runs` come first, starting with strong augmentation."""
    named = [resolve_recipe_name(str(run.config["recipe"].get("name"))) for run in runs]
    own = [name for name in named if name in RECIPES]
    own.sort(key=lambda name: RECIPES[name].policy == "none")
    return list(dict.fromkeys([*own, DEFAULT_RECIPE, *RECIPES]))


def augmentation_blocks(
    context: AppContext, recipe: Recipe, image: Image.Image | None, seed: int
) -> list[DocumentBlock]:
    """Return a row of augmented images for each step of `recipe`, and for all steps together."""
    names, images, side = load_augmentation_images(context, recipe, image, seed)
    steps = apply_augmentations(recipe, images, names, side=side, seed=seed)
    pieces: list[DocumentBlock] = [Text(f"{recipe.name}: {recipe.summary}.")]
    if len(steps) == 1:
        words = "This recipe has no augmentation: the model is trained on the original images."
        pieces.append(Text(words))
    for step in steps:
        targets = step.targets or [{}] * len(step.pictures)
        items = [
            ImageItem(f"{step.title}: image {i}", format_target(target))
            for i, target in enumerate(targets, start=1)
        ]
        words = [Text(step.words)] if step.words else []
        pieces += [Heading(step.title), *words, ImageRow(items, concatenate_images(step.pictures))]
    return pieces


def format_target(shares: dict[str, float]) -> str:
    """Describe a mixed target, such as "63% cat, 37% dog"."""
    return ", ".join(
        f"{100 * share:.0f}% {name}" for name, share in shares.items() if share >= 0.005
    )


def load_augmentation_images(
    context: AppContext, recipe: Recipe, image: Image.Image | None, seed: int
) -> tuple[Sequence[str], Sequence[Image.Image], int]:
    """Return names and images to augment, and the side of the recipe's training images.

    The images are `image` and random test images, or example photos if there is no dataset.
    """
    found = [("your image", image)] if image is not None else []
    try:
        side = 32 if context.open_dataset().is_cifar10 else recipe.model.image_size
        size = context.count_test_images()
        chosen = random.Random(seed).sample(range(size), min(IMAGES_SHOWN - len(found), size))
        tests = [context.load_test_image(number) for number in chosen]
        found += [(picture.label, picture.image) for picture in tests]
    except DataError:
        side = 32
        found += context.cache.call(load_example_photos)[: IMAGES_SHOWN - len(found)]
    if not found:
        raise ImageError("There is no image to augment. Choose one in the tab Explore.")
    names, images = zip(*found, strict=True)
    return names, images, side


def load_example_photos() -> list[tuple[str, Image.Image]]:
    """Return the example photos as (name, image), with reduced size."""
    return [(name_of(file), crop_visible_square(load_image(file), 256)) for file in example_files()]


@dataclass(frozen=True, eq=False)
class AugmentedImages:
    """Batch of images after one or all augmentation steps: `pictures` (B, S, S, 3) uint8.

    `targets` has one mapping per image, class name -> target probability. It is empty if the step
    does not change the targets.
    """

    title: str
    words: str
    pictures: np.ndarray
    targets: tuple[dict[str, float], ...] = ()


def apply_augmentations(
    recipe: Recipe, images: Sequence[Image.Image], names: Sequence[str], *, side: int, seed: int
) -> list[AugmentedImages]:
    """Apply each augmentation step of `recipe` to the same RGB images, then all steps in order.

    `names` are the classes of the images, and `side` is the side of the training images. The same
    `seed` gives the same result on every machine. The first result is the original images.
    """
    pixels = torch.stack(
        [torch.from_numpy(to_uint8(crop_and_resize(image, side))) for image in images]
    )  # (B, 3, S, S) uint8
    found = [AugmentedImages("Original images", "", _uint8(pixels))]
    for title, words, fields in _steps(recipe):
        alone = Augmentation(**{name: getattr(recipe, name) for name in fields})
        found.append(_apply_step(title, words, alone, pixels, names, seed))
    if len(found) > 2:
        words = f"The model is trained on these images.{describe_patch_dropout(recipe)}"
        whole = Augmentation(**{f.name: getattr(recipe, f.name) for f in fields_of(Augmentation)})
        found.append(_apply_step("All steps together", words, whole, pixels, names, seed))
    return found


def describe_patch_dropout(recipe: Recipe) -> str:
    """Describe the PatchDropout of `recipe`; "" if it has none."""
    if not recipe.patch_dropout:
        return ""
    until = f", except in the last {format_with_noun(recipe.whole_epochs, 'epoch')}"
    return (
        f" A random {100 * recipe.patch_dropout:.0f}% of each image's patch tokens are dropped "
        f"(PatchDropout, Liu et al. 2022){until if recipe.whole_epochs else ''}."
    )


def _apply_step(
    title: str,
    words: str,
    augmentation: Augmentation,
    pixels: Tensor,
    names: Sequence[str],
    seed: int,
) -> AugmentedImages:
    B, side = len(pixels), pixels.shape[-1]
    generator = torch.Generator().manual_seed(seed)
    draws = augmentation.draw(B, side, generator)
    partners = torch.rand((B,), generator=generator).argsort() if augmentation.mixes else None
    shares = torch.eye(B)  # (B, B), row i: weights of the images mixed into image i
    drawn, mixed = augment_batch(augmentation, pixels, shares, draws, partners, CUTOUT_FILL)
    return AugmentedImages(
        title, words, _uint8(drawn), _class_proportions(mixed, names) if augmentation.mixes else ()
    )


def _uint8(pixels: Tensor) -> np.ndarray:
    """Convert images (B, 3, S, S) in 0..255 to (B, S, S, 3) uint8."""
    return pixels.float().clamp(0, 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


def _class_proportions(shares: Tensor, names: Sequence[str]) -> tuple[dict[str, float], ...]:
    """Convert image weights (B, B) to class weights per image, the largest weight first."""
    found = []
    for row in shares.tolist():
        total: dict[str, float] = {}
        for name, share in zip(names, row, strict=True):
            total[name] = total.get(name, 0.0) + share
        largest = sorted(total.items(), key=lambda item: -item[1])
        found.append({name: share for name, share in largest if share > 0})
    return tuple(found)


POLICY_TEXTS = {
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
        steps.append(("Random operations", POLICY_TEXTS[recipe.policy], ("policy",)))
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
        steps.append((_mix_title(recipe), _mix_description(recipe), ("mixup", "cutmix")))
    return steps


def _mix_title(recipe: Recipe) -> str:
    return " or ".join(
        name for name, alpha in (("MixUp", recipe.mixup), ("CutMix", recipe.cutmix)) if alpha
    )


def _mix_description(recipe: Recipe) -> str:
    parts = []
    if recipe.mixup:
        parts.append(f"MixUp (alpha {recipe.mixup:g}) blends the image with another one")
    if recipe.cutmix:
        parts.append(f"CutMix (alpha {recipe.cutmix:g}) pastes a box from another image")
    rest = (
        f" Mixing is off in the last {format_with_noun(recipe.unmixed_epochs, 'epoch')}."
        if recipe.unmixed_epochs
        else ""
    )
    return f"{', or '.join(parts)}. The targets are mixed in the same proportions.{rest}"
