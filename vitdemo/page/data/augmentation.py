"""Augmentation: what a recipe does to pictures before a model trains on them."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import gradio as gr
from PIL import Image

from vitdemo import figures
from vitdemo.errors import DataError
from vitdemo.explorer.augmented import Augmented
from vitdemo.inputs import load_image, visible_square
from vitdemo.page import html
from vitdemo.page.look.picture import example_files
from vitdemo.page.sections import Sections
from vitdemo.recipes import RECIPES, Recipe, get_recipe
from vitdemo.runs import Run

WORDS = (
    "Training hardly ever shows a model the same pixels twice: a picture is changed at random each "
    "time, as the recipe says. First each step by itself, then all together. One seed gives the "
    "same draws again."
)
SEEDS = 2**31
WHERE_NONE_IS = "vit-tiny-regularised"  # the recipe shown without a model: it has every step


def build(
    sections: Sections,
    picture: gr.State,
    *,
    trained_runs: Callable[[], list[Run]],
    augment: Callable[..., list[Augmented]],
) -> None:
    """Lay out the section; `augment` takes a recipe, the picture in Look, if any, a seed, and
    named pictures to take where there is no data set."""
    gr.Markdown(WORDS)
    with gr.Row():
        names = first_of(trained_runs())
        recipe = gr.Dropdown(names, value=names[0], label="Recipe", elem_id="recipe")
        seed = gr.Number(0, label="Seed", precision=0, minimum=0, elem_id="seed")
        again = gr.Button("Other draws", elem_id="draw-again")
    view = gr.HTML(elem_id="augmentation", apply_default_css=False)

    def draw(image, name, seed):
        if seed is None or not 0 <= seed < SEEDS:
            raise DataError(f"The seed must be a whole number from 0 to {SEEDS - 1}.")
        chosen = get_recipe(name)
        return augmentation_html(chosen, augment(chosen, image, int(seed), photos()))

    def next_seed(seed):
        return ((seed or 0) + 1) % SEEDS

    sections.add("data-augmentation", draw, [picture, recipe, seed], [view])
    moved = again.click(next_seed, seed, seed, show_progress="hidden", api_visibility="private")
    sections.draw_on(moved.success, sections.within("data-augmentation"))


def first_of(runs: list[Run]) -> list[str]:
    """All recipes by name: those of the `runs` first, and of these one that changes pictures."""
    own = [name for run in runs if (name := run.config["recipe"].get("name")) in RECIPES]
    own.sort(key=lambda name: RECIPES[name].policy == "none")
    return list(dict.fromkeys([*own, WHERE_NONE_IS, *RECIPES]))


@lru_cache(maxsize=1)
def photos() -> list[tuple[str, Image.Image]]:
    """gradio's own photos with their names, small."""
    files = map(Path, example_files())
    return [(file.stem.rstrip("1"), visible_square(load_image(file), 256)) for file in files]


def augmentation_html(recipe: Recipe, steps: list[Augmented]) -> str:
    words = f"<p>{html.escape(recipe.name)}: {html.escape(recipe.summary)}.</p>"
    if len(steps) == 1:
        words += "<p>This recipe changes nothing: the model sees the pictures as they are.</p>"
    return words + "".join(map(step_html, steps))


def step_html(step: Augmented) -> str:
    side = step.pictures.shape[1]
    shown = side * -(-112 // side)
    items = (
        html.figure(
            figures.enlarge(pixels, shown),
            f"{step.title}: picture {i + 1}",
            target_words(step.targets[i]) if step.targets else "",
        )
        for i, pixels in enumerate(step.pictures)
    )
    return (
        f"<section><h2>{html.escape(step.title)}</h2><p>{html.escape(step.words)}</p>"
        f"{html.row(items, 112)}</section>"
    )


def target_words(shares: dict[str, float]) -> str:
    """ "63 % cat, 37 % dog"."""
    return ", ".join(
        f"{100 * share:.0f} % {name}" for name, share in shares.items() if share >= 0.005
    )
