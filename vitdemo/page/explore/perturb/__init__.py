"""The section "Change the image" of Explore: the predictions of all models for a changed image."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import gradio as gr
from gradio.components import Component
from PIL import Image

from vitdemo.context import AppContext
from vitdemo.data.perturb import PERTURBATIONS
from vitdemo.data.perturb.changes import (
    MAX_SEED,
    PIECE_CHOICES,
    PRESETS,
    SLIDER_NAMES,
    ImageChanges,
    RemovedPatches,
    apply_changes,
)
from vitdemo.errors import VitdemoError
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.page.components.article import Document
from vitdemo.page.components.canvas import ChangedImage, ImageCanvas
from vitdemo.page.explore.perturb import answers, knockout
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.kit import (
    MODEL_EVENT,
    NO_PROGRESS,
    UncheckedSlider,
    clamp_layer,
    show_user_errors,
)

# The browser stores the removed patches, so the last of several quick clicks sends all of them.
LATEST_CLICK_EVENT = {"trigger_mode": "always_last", **NO_PROGRESS}
SLIDER_STEPS = {"rotate": 5, "brightness": 0.05, "blur": 0.5, "noise": 1, "jpeg": 1}
MAX_PATCHES_PER_CLICK = 32  # maximum number of patches removed per click
MODEL_GRID = "own"
GRID_CHOICES = [("4 × 4", "4"), ("8 × 8", "8"), ("the model's own", MODEL_GRID)]
RANKING_CHOICES = [("rollout up to the layer", "rollout"), ("mean of the heads", "mean")]

CHANGE_IMAGE_INTRO = (
    "Remove or shuffle patches, or degrade the image. **All models receive the same changed "
    "image**; their predictions are shown next to the original ones. If a prediction changes, the "
    "cause can be the removed patches or the gaps themselves: compare with the same number of "
    "random gaps. If a prediction stays, the removed patches may still matter, since other patches "
    "can contain the same information. Attention shows only which tokens a token attends to."
)


@dataclass(frozen=True)
class ChangeImageComponents:
    """Components of the section "Change the image" that are used in events."""

    removed_code: gr.Textbox  # hidden; removed patches for the page's URL
    presets: list[gr.Button]
    note: Document
    canvas: ImageCanvas
    grid: gr.Radio
    count: gr.Slider
    ranking: gr.Radio
    remove_most_attended: gr.Button
    remove_random: gr.Button
    restore_all: gr.Button
    predictions: Document
    maps: Document
    pieces: gr.Radio
    sliders: list[gr.Slider]
    seed: gr.Slider
    new_seed: gr.Button
    reset: gr.Button
    knockout: knockout.KnockoutComponents

    @property
    def settings(self) -> list[Component]:
        """Inputs that define the changed image; the last two define the removed patches."""
        return [self.pieces, *self.sliders, self.seed, self.canvas, self.removed_code]


@dataclass(frozen=True)
class ChangeImageHandlers:
    """Event handlers of the section "Change the image"."""

    context: AppContext

    def parse_grid(self, choice: str, name: str) -> tuple[int, int]:
        if choice != MODEL_GRID:
            return int(choice), int(choice)
        return answers.patch_grid(self.context, self.context.find_run(name))

    def load_trace(self, name: str, image: Image.Image) -> ImageTrace:
        return self.context.trace_image(self.context.find_run(name), image)

    def parse_changes(self, image, name, choice, settings) -> tuple[Image.Image, ImageChanges]:
        """Return the unchanged canvas and the changes; another grid restores all patches."""
        *others, removed, code = settings  # `removed` is None before the first drawing
        removed = RemovedPatches.decode(code) if removed is None else removed
        return answers.make_canvas(self.context, image), ImageChanges.from_inputs(
            *others, removed.on_grid(self.parse_grid(choice, name))
        )

    def draw(self, image, name, layer, first, last, choice, *settings) -> tuple:
        """Return the changed image, all predictions, attention maps, `removed_code`, knock-out."""
        return self.render_changes(
            name, layer, first, last, *self.parse_changes(image, name, choice, settings)
        )

    def render_changes(
        self, name, layer, first, last, before: Image.Image, changes: ImageChanges
    ) -> tuple:
        after = apply_changes(before, changes)
        try:  # the predictions below then reuse these forward passes
            looks = self.load_trace(name, before), self.load_trace(name, after)
        except VitdemoError as error:
            maps = str(error)
        else:
            maps = [
                answers.attention_map_row(*looks, clamp_layer(layer, looks[0].num_layers), changes)
            ]
        found, problems = answers.predict_changes(self.context, before, after)
        moved = answers.change_blocks(found, problems, changes, before.width)
        barred = knockout.render_knockout(self.context, name, after, first, last)
        return ChangedImage(after, changes), moved, maps, changes.removed.encode, *barred

    def make_removal_handler(self, choose: Callable[..., RemovedPatches]) -> Callable:
        """Return a handler that removes the patches `choose(trace, layer, removed, count, by)`."""

        def handler(image, name, count, by, layer, first, last, choice, *settings):
            if image is None or name is None:
                return (gr.skip(),) * 7
            before, changes = self.parse_changes(image, name, choice, settings)

            def look() -> ImageTrace:
                return self.load_trace(name, apply_changes(before, changes))

            chosen = choose(look, layer, changes.removed, clamp_patch_count(count), by)
            now = replace(changes, removed=chosen)
            return self.render_changes(name, layer, first, last, before, now)

        return show_user_errors(handler)


def remove_most_attended_patches(
    look, layer, removed: RemovedPatches, count: int, ranking: str
) -> RemovedPatches:
    found = look()
    return removed.add(
        answers.rank_patches(found, clamp_layer(layer, found.num_layers), removed, count, ranking)
    )


def remove_random_patches(
    _look, _layer, removed: RemovedPatches, count: int, _by
) -> RemovedPatches:
    return answers.sample_patches(removed, count, random.randrange(2**31))


def build(look: ExploreTab) -> None:
    """Lay out the section and connect its events."""
    parts, ask = lay_out_change_image(), ChangeImageHandlers(look.context)
    look.url_params |= dict(zip(SLIDER_NAMES, parts.sliders, strict=True))
    look.url_params |= {"pieces": parts.pieces, "seed": parts.seed, "patches": parts.grid}
    look.url_params["removed"] = parts.removed_code
    barred = parts.knockout
    look.url_params |= {"barred_first": barred.first, "barred_last": barred.last}
    look.reset_on_load.append(parts.canvas)
    drawn = [parts.canvas, parts.predictions, parts.maps, parts.removed_code, *barred.outputs]
    inputs = [look.layer, *barred.layers, parts.grid, *parts.settings]
    look.add("hands", ask.draw, inputs, drawn)
    section = look.sections_of_tab("hands")
    look.draw_on(parts.canvas.toggle, section)
    for button, choose in (
        (parts.remove_most_attended, remove_most_attended_patches),
        (parts.remove_random, remove_random_patches),
    ):
        settings = [parts.count, parts.ranking, *inputs]
        button.click(
            ask.make_removal_handler(choose), [*look.common_inputs, *settings], drawn, **MODEL_EVENT
        )
        # These handlers run after all pending handlers, which would otherwise undo the preset.
    back = parts.restore_all.click(
        lambda: (None, ""), None, [parts.canvas, parts.removed_code], **MODEL_EVENT
    )
    look.draw_on(back.success, section)
    wire_presets(parts, lambda event: look.draw_on(event.success, section))


def wire_presets(parts: ChangeImageComponents, draw: Callable) -> None:
    """Connect the buttons that set several changes; `draw(event)` shows the result."""
    outputs = [
        parts.pieces,
        *parts.sliders,
        parts.canvas,
        parts.removed_code,
        parts.grid,
        parts.note,
    ]
    for button in parts.presets:
        values = partial(
            preset_outputs, PRESETS[button.value].changes, PRESETS[button.value].description
        )
        draw(button.click(values, None, outputs, **MODEL_EVENT))
    draw(
        parts.reset.click(
            lambda: [*preset_outputs(ImageChanges(), ""), 0, *knockout.EMPTY_LAYER_RANGE],
            None,
            [*outputs, parts.seed, *parts.knockout.layers],
            **MODEL_EVENT,
        )
    )
    draw(parts.new_seed.click(draw_seed, None, parts.seed, **LATEST_CLICK_EVENT))


def draw_seed() -> int:
    return random.randrange(MAX_SEED + 1)


def preset_outputs(changes: ImageChanges, sentence: str) -> list:
    """Return a preset's input values. The seed stays, as does the grid if no patch is removed."""
    grid = str(changes.removed.grid[0]) if changes.removed.cells else gr.skip()
    sliders = [getattr(changes, name) for name in SLIDER_NAMES]
    # The canvas is None, so that `removed_code` defines the patches, as for a URL.
    return [changes.pieces, *sliders, None, changes.removed.encode, grid, sentence]


def lay_out_change_image() -> ChangeImageComponents:
    """Lay out the components in reading order: presets, image, predictions, changes."""
    code = gr.Textbox("", visible="hidden", label="Removed patches")
    gr.Markdown(CHANGE_IMAGE_INTRO)
    with gr.Row(elem_classes="vd-presets", elem_id="hands-presets"):
        presets = [gr.Button(title, size="sm", min_width=140) for title in PRESETS]
    note = Document(elem_id="hands-note")
    with gr.Row():
        with gr.Column(scale=4, min_width=300):
            picture = ImageCanvas(elem_id="hands-picture")
            grid = gr.Radio(
                GRID_CHOICES,
                value="8",
                label="Grid",
                info="Another grid restores all patches.",
            )
            count = UncheckedSlider(
                1,
                MAX_PATCHES_PER_CLICK,
                16,
                step=1,
                label="Patches to remove per click",
                elem_id="hands-count",
            )
            by = gr.Radio(RANKING_CHOICES, value="rollout", label="Rank patches by")
            with gr.Row():
                most = gr.Button(
                    "Remove most-attended patches", size="sm", min_width=140, elem_id="hands-most"
                )
                some = gr.Button(
                    "Remove random patches", size="sm", min_width=140, elem_id="hands-random"
                )
                back = gr.Button(
                    "Restore all patches", size="sm", min_width=140, elem_id="hands-back"
                )
        with gr.Column(scale=4, min_width=300):
            shifts = Document(elem_id="hands-answers")
            maps = Document(elem_id="hands-maps")
        with gr.Column(scale=4, min_width=300):
            pieces = gr.Radio(
                [("off", 1), *((f"{n} × {n}", n) for n in PIECE_CHOICES[1:])],
                value=1,
                label="Shuffle",
                info=PERTURBATIONS["shuffle"].description,
                elem_id="hands-pieces",
            )
            sliders = [make_slider(name) for name in SLIDER_NAMES]
            seed = UncheckedSlider(0, MAX_SEED, 0, step=1, label="Shuffle and noise seed")
            with gr.Row():
                draw_again = gr.Button("New random seed", size="sm", min_width=100)
                reset = gr.Button(
                    "Reset all changes", size="sm", min_width=100, elem_id="hands-reset"
                )
    return ChangeImageComponents(
        code, presets, note, picture, grid, count, by, most, some, back, shifts, maps,
        pieces, sliders, seed, draw_again, reset, knockout.lay_out_knockout(),
    )  # fmt: skip


def make_slider(name: str) -> gr.Slider:
    """Return the slider of the change `name`; its handler clamps values that are out of range."""
    change = PERTURBATIONS[name]
    return UncheckedSlider(
        change.low,
        change.high,
        change.neutral,
        step=SLIDER_STEPS[name],
        label=f"{change.title} ({change.unit})",
        info=change.description,
        elem_id=f"hands-{name}",
    )


def clamp_patch_count(count: float | None) -> int:
    """Clamp the slider's number of patches to 1..`MAX_PATCHES_PER_CLICK`."""
    return min(max(round(count or 1), 1), MAX_PATCHES_PER_CLICK)
