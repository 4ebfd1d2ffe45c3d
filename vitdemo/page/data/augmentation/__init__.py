"""Section "Augmentation": the random changes that a recipe applies to training images.

The payload is a document.
"""

import math
import random
from collections.abc import Sequence

import gradio as gr
from PIL import Image

from vitdemo.analyses.augmentation import apply_augmentations
from vitdemo.context import AppContext
from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.data.photos import example_files, name_of
from vitdemo.documents import DocumentBlock, Heading, Text
from vitdemo.documents.images import ImageItem, ImageRow, concatenate_images
from vitdemo.errors import DataError, ImageError, VitdemoError
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, document_payload, load_square
from vitdemo.page.feature import Feature, PageSetup, ViewData
from vitdemo.page.gradio_patches import UncheckedDropdown
from vitdemo.page.kit import NO_PROGRESS
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run
from vitdemo.training.recipes import RECIPES, Recipe, get_recipe, resolve_recipe_name

VIEW = "augmentation"
AUGMENTATION_INTRO = (
    "During training, each image is changed at random every time it is used. The recipe defines "
    "the changes."
)
ABOUT_AUGMENTATION = (
    "Each row shows only one step. The last row shows all steps together. The same seed always "
    "gives the same result."
)
MAX_SEED = keys.AUGMENTATION_SEED.high
JS_NEXT_SEED = (
    '() => vitdemo.load("data/augmentation/view.js")'
    ".then(({ chooseNextSeed }) => chooseNextSeed(MAX_SEED))"
)
DEFAULT_RECIPE = "vit-tiny-regularised"  # default recipe if there is no model: it has every step
IMAGES_SHOWN = 6  # number of images per row


def build(setup: PageSetup) -> None:
    gr.Markdown(AUGMENTATION_INTRO)
    with gr.Row(elem_id="augmentation-settings", elem_classes="vd-filters"):
        names = order_recipes(setup.context.trained_runs())
        setup.controls.add(keys.RECIPE, UncheckedDropdown, names, value=names[0])
        setup.controls.add(keys.AUGMENTATION_SEED, gr.Number, precision=0)
        again = gr.Button("New random seed", size="sm", elem_id="draw-again")
    again.click(None, js=JS_NEXT_SEED.replace("MAX_SEED", str(MAX_SEED)), **NO_PROGRESS)
    add_view(VIEW, elem_id="augmentation")
    with gr.Accordion("About", open=False, elem_classes="vd-about"):
        gr.Markdown(ABOUT_AUGMENTATION)


@needs(keys.IMAGE, keys.RECIPE, keys.AUGMENTATION_SEED)
def payload(context: AppContext, state: ViewState) -> ViewData:
    names = order_recipes(context.trained_runs())
    name = state[keys.RECIPE] if state[keys.RECIPE] in names else names[0]
    image = load_image_or_none(context, state)
    blocks = augmentation_blocks(context, get_recipe(name), image, read_seed(state))
    recipes = {"choices": [(each, each) for each in names], "value": name}
    return ViewData(document_payload(blocks), {keys.RECIPE.name: recipes})


FEATURE = Feature({VIEW: payload})


def load_image_or_none(context: AppContext, state: ViewState) -> Image.Image | None:
    try:
        return load_square(context, state.image)
    except VitdemoError:
        return None


def read_seed(state: ViewState) -> int:
    """Return the chosen seed. Raises `DataError` if it is not an integer from 0 to `MAX_SEED`."""
    seed = state.get_unchecked(keys.AUGMENTATION_SEED)
    is_number = isinstance(seed, int | float) and not isinstance(seed, bool) and math.isfinite(seed)
    seed = seed if is_number else keys.AUGMENTATION_SEED.start
    if not 0 <= seed <= MAX_SEED or seed != int(seed):
        raise DataError(f"The seed is {seed}. Enter a whole number from 0 to {MAX_SEED}.")
    return int(seed)


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
        words = [Text(step.description)] if step.description else []
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
