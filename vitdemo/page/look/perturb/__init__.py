"""The section "Change the image" of Explore: the predictions of all models for a changed image."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import gradio as gr
from gradio.components import Component
from PIL import Image

from vitdemo.errors import VitdemoError
from vitdemo.page.components.article import Article
from vitdemo.page.components.canvas import Canvas, Changed
from vitdemo.page.components.maps import Maps
from vitdemo.page.kit import ASKED, HIDDEN, LayerSlider, for_people, nearest
from vitdemo.page.look.perturb import answers, knockout
from vitdemo.page.look.tab import Look
from vitdemo.perturb import PERTURBATIONS
from vitdemo.perturb.changes import (
    LAST_SEED,
    PIECES,
    PRESETS,
    SLIDERS,
    Changes,
    Removed,
    change,
)
from vitdemo.traced import Traced
from vitdemo.workbench import Workbench

# The browser stores the removed patches, so the last of several quick clicks contains all of them.
LAST = {"trigger_mode": "always_last", **HIDDEN}
STEPS = {"rotate": 5, "brightness": 0.05, "blur": 0.5, "noise": 1, "jpeg": 1}
MOST = 32  # patches removed per click
OWN = "own"
GRIDS = [("4 × 4", "4"), ("8 × 8", "8"), ("the model's own", OWN)]
ATTENDED = [("rollout up to the layer", "rollout"), ("mean of the heads", "mean")]

INTRO = (
    "Remove or shuffle patches, or degrade the image. **All models receive the same changed "
    "image**; their predictions are shown next to the original ones. If a prediction changes, "
    "either the removed patches or the gaps themselves caused it: compare with as many random "
    "gaps. If it stays, the patches may still matter, since others can contain the same "
    "information. Attention only shows what a token attends to."
)


@dataclass(frozen=True)
class Parts:
    """Components of the section that take part in events."""

    code: gr.Textbox  # removed patches for the page's URL; hidden
    presets: list[gr.Button]
    note: Article
    picture: Canvas
    grid: gr.Radio
    count: gr.Slider
    by: gr.Radio
    most: gr.Button
    some: gr.Button
    back: gr.Button
    shifts: Article
    maps: Maps
    pieces: gr.Radio
    sliders: list[gr.Slider]
    seed: gr.Slider
    draw_again: gr.Button
    reset: gr.Button
    barred: knockout.Parts

    @property
    def settings(self) -> list[Component]:
        """Inputs that define the changed image, in the order of `Changes.wished`."""
        return [self.pieces, *self.sliders, self.seed, self.picture, self.code]


@dataclass(frozen=True)
class Handlers:
    """Event handlers of the section."""

    workbench: Workbench

    def grid(self, choice: str, name: str) -> tuple[int, int]:
        if choice != OWN:
            return int(choice), int(choice)
        return answers.grid_of(self.workbench, self.workbench.run(name))

    def traced(self, name: str, image: Image.Image) -> Traced:
        return self.workbench.look(self.workbench.run(name), image)

    def wished(self, image, name, choice, settings) -> tuple[Image.Image, Changes]:
        """Return the original canvas and the changes; another grid restores removed patches."""
        *others, removed, code = settings  # before the first drawing, the URL's code counts
        removed = Removed.decoded(code) if removed is None else removed
        return answers.canvas(self.workbench, image), Changes.wished(
            *others, removed.on(self.grid(choice, name))
        )

    def draw(self, image, name, layer, first, last, choice, *settings) -> tuple:
        """Return the changed image, all predictions, the chosen model's attention, `code`, and
        the attention knock-out."""
        return self.drawn(name, layer, first, last, *self.wished(image, name, choice, settings))

    def drawn(self, name, layer, first, last, before: Image.Image, changes: Changes) -> tuple:
        after = change(before, changes)
        try:  # first, so that the chosen model's predictions come from the same passes
            looks = self.traced(name, before), self.traced(name, after)
        except VitdemoError as error:
            maps = str(error)
        else:
            maps = answers.maps_row(*looks, nearest(layer, looks[0].layers), changes)
        found, problems = answers.shifts_of(self.workbench, before, after)
        moved = answers.shift_pieces(found, problems, changes, before.width)
        barred = knockout.draw(self.workbench, name, after, first, last)
        return Changed(after, changes), moved, maps, changes.removed.code, *barred

    def without(self, choose: Callable[..., Removed]) -> Callable:
        """Return a handler that removes `choose(look, layer, removed, count, by)`."""

        def handler(image, name, count, by, layer, first, last, choice, *settings):
            if image is None or name is None:
                return (gr.skip(),) * 7
            before, changes = self.wished(image, name, choice, settings)

            def look() -> Traced:
                return self.traced(name, change(before, changes))

            chosen = choose(look, layer, changes.removed, many(count), by)
            now = replace(changes, removed=chosen)
            return self.drawn(name, layer, first, last, before, now)

        return for_people(handler)


def most_attended(look, layer, removed: Removed, count: int, by: str) -> Removed:
    found = look()
    return removed.plus(
        answers.most_attended(found, nearest(layer, found.layers), removed, count, by)
    )


def at_random(_look, _layer, removed: Removed, count: int, _by) -> Removed:
    return answers.at_random(removed, count, random.randrange(2**31))


def build(look: Look) -> None:
    """Lay out and wire the section."""
    parts, ask = lay_out(), Handlers(look.workbench)
    look.linked |= dict(zip(SLIDERS, parts.sliders, strict=True))
    look.linked |= {"pieces": parts.pieces, "seed": parts.seed, "patches": parts.grid}
    look.linked["removed"] = parts.code
    barred = parts.barred
    look.linked |= {"barred_first": barred.first, "barred_last": barred.last}
    look.drawn_from.append(parts.picture)
    drawn = [parts.picture, parts.shifts, parts.maps, parts.code, *barred.drawn]
    inputs = [look.layer, *barred.layers, parts.grid, *parts.settings]
    look.add("hands", ask.draw, inputs, drawn)
    section = look.within("hands")
    look.draw_on(parts.picture.toggle, section)
    for button, choose in ((parts.most, most_attended), (parts.some, at_random)):
        settings = [parts.count, parts.by, *inputs]
        button.click(ask.without(choose), [*look.always, *settings], drawn, **ASKED)
        # These handlers run after pending ones, which would otherwise set older changes again.
    back = parts.back.click(lambda: (None, ""), None, [parts.picture, parts.code], **ASKED)
    look.draw_on(back.success, section)
    wire_presets(parts, lambda event: look.draw_on(event.success, section))


def wire_presets(parts: Parts, draw: Callable) -> None:
    """Connect the buttons that set several changes; `draw(event)` shows the result."""
    outputs = [parts.pieces, *parts.sliders, parts.picture, parts.code, parts.grid, parts.note]
    for button in parts.presets:
        values = partial(values_of, PRESETS[button.value].changes, PRESETS[button.value].sentence)
        draw(button.click(values, None, outputs, **ASKED))
    draw(
        parts.reset.click(
            lambda: [*values_of(Changes(), ""), 0, *knockout.NO_LAYERS],
            None,
            [*outputs, parts.seed, *parts.barred.layers],
            **ASKED,
        )
    )
    draw(parts.draw_again.click(another_seed, None, parts.seed, **LAST))


def another_seed() -> int:
    return random.randrange(LAST_SEED + 1)


def values_of(changes: Changes, sentence: str) -> list:
    """Return a preset's values; the seed and, without removed patches, the grid stay unchanged."""
    grid = str(changes.removed.grid[0]) if changes.removed.cells else gr.skip()
    sliders = [getattr(changes, name) for name in SLIDERS]
    # The canvas is None, so that the patches come from the code, as with a URL.
    return [changes.pieces, *sliders, None, changes.removed.code, grid, sentence]


def lay_out() -> Parts:
    """Lay out the components in reading order: presets, image, predictions, changes."""
    code = gr.Textbox("", visible="hidden", label="Removed patches")
    gr.Markdown(INTRO)
    with gr.Row(elem_classes="vd-presets", elem_id="hands-presets"):
        presets = [gr.Button(title, size="sm", min_width=140) for title in PRESETS]
    note = Article(elem_id="hands-note")
    with gr.Row():
        with gr.Column(scale=4, min_width=300):
            picture = Canvas(elem_id="hands-picture")
            grid = gr.Radio(
                GRIDS,
                value="8",
                label="Grid",
                info="Another grid restores all patches.",
            )
            count = LayerSlider(
                1, MOST, 16, step=1, label="Patches to remove per click", elem_id="hands-count"
            )
            by = gr.Radio(ATTENDED, value="rollout", label="Rank patches by")
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
            shifts = Article(elem_id="hands-answers")
            maps = Maps(elem_id="hands-maps")
        with gr.Column(scale=4, min_width=300):
            pieces = gr.Radio(
                [("off", 1), *((f"{n} × {n}", n) for n in PIECES[1:])],
                value=1,
                label="Shuffle",
                info=PERTURBATIONS["shuffle"].sentence,
                elem_id="hands-pieces",
            )
            sliders = [slider(name) for name in SLIDERS]
            seed = LayerSlider(0, LAST_SEED, 0, step=1, label="Shuffle and noise seed")
            with gr.Row():
                draw_again = gr.Button("New random seed", size="sm", min_width=100)
                reset = gr.Button(
                    "Reset all changes", size="sm", min_width=100, elem_id="hands-reset"
                )
    return Parts(
        code, presets, note, picture, grid, count, by, most, some, back, shifts, maps,
        pieces, sliders, seed, draw_again, reset, knockout.lay_out(),
    )  # fmt: skip


def slider(name: str) -> gr.Slider:
    """Return the slider of one change; its handler clamps values out of range."""
    change = PERTURBATIONS[name]
    return LayerSlider(
        change.low,
        change.high,
        change.neutral,
        step=STEPS[name],
        label=f"{change.title} ({change.unit})",
        info=change.sentence,
        elem_id=f"hands-{name}",
    )


def many(count: float | None) -> int:
    """Clamp a slider's value to 1..`MOST`."""
    return min(max(round(count or 1), 1), MOST)
