"""The Look tab: a picture, what each model says of it, and where the chosen one attends."""

import random
from collections.abc import Callable

import gradio as gr
from PIL import Image

from vitdemo.errors import DataError, VitdemoError
from vitdemo.explorer import Answer, Look, TestPicture
from vitdemo.inputs import load_image, visible_square
from vitdemo.runs import Run
from vitdemo.ui import html
from vitdemo.ui.components import DECODE_QUEUE, MODEL_QUEUE, for_people, fresh_radio
from vitdemo.ui.look import drawing, layout

SHOWN = 12  # test pictures on offer at a time


def build(
    page: gr.Blocks,
    *,
    explained_runs: Callable[[], list[Run]],
    run_named: Callable[[str], Run],
    answers: Callable[[Image.Image], tuple[list[Answer], list[str]]],
    look: Callable[[Run, Image.Image], Look],
    test_picture: Callable[[int], TestPicture],
    test_size: Callable[[], int],
) -> None:
    """Lay out and wire the tab; the callables are those of `Explorer`."""
    parts = layout.lay_out(explained_runs())

    def drawn(found, layer, fusion, discard_ratio, view, opacity, one_scale):
        layer, opacity = nearest(layer, found.layers), 1.0 if view == layout.RAW else opacity
        rolled = found.rollout_map(layer, fusion=fusion, discard_ratio=discard_ratio)
        heads = drawing.heads_html(found, layer, opacity, one_scale)
        return heads, drawing.summary_html(found, layer, opacity, rolled)

    @for_people
    def draw(image, name, *settings):
        if image is None or name is None:
            return nothing_to_draw(image)
        return drawn(look(run_named(name), image), *settings)

    @for_people
    def draw_model(image, name, layer, *settings):
        if image is None or name is None:
            return nothing_to_draw(image)
        found = look(run_named(name), image)
        layer = nearest(layer, found.layers)
        slider = gr.update(maximum=found.layers, value=layer)
        return slider, *drawn(found, layer, *settings)

    @for_people
    def read_picture(path):
        # Cleared: the last result stays on the page.
        return gr.skip() if path is None else visible_square(load_image(path))

    @for_people
    def answer(image):
        return gr.skip() if image is None else drawing.answers_html(*answers(image))

    def refused(image):
        # The refused file leaves the page; what stands there is told to be older.
        older = "Still shown: the picture before." if image is not None else "No picture yet."
        return None, f"<strong>That file could not be shown.</strong> {older}"

    def open_page(name):
        return fresh_radio(explained_runs(), name), *offer()

    def offer():
        try:
            size = test_size()
            numbers = random.sample(range(size), min(SHOWN, size))
            items = [drawing.offered_item(test_picture(number)) for number in numbers]
        except VitdemoError as error:
            return [], gr.update(visible=False), html.notice(str(error)), gr.update(visible=False)
        return numbers, gr.update(value=items, visible=True), "", gr.update(visible=True)

    @for_people
    def pick_test(numbers, event: gr.SelectData):
        if event.index >= len(numbers):
            raise DataError("These pictures are no longer on offer: ask for others.")
        found = test_picture(numbers[event.index])
        words = f"Test picture {numbers[event.index]}. Its true class: "
        return found.image, f"{words}<strong>{html.escape(found.label)}</strong>."

    def pick_photo(event: gr.SelectData):
        return layout.example_files()[event.index], ""

    private = {"api_visibility": "private"}
    latest = {"trigger_mode": "always_last", **private}  # a second click must not be lost
    each = {"trigger_mode": "multiple", **private}  # nor a picture, while another one is answered
    offered = [parts.offered, parts.tests, parts.tests_notice, parts.others]
    kept = [parts.picture, *parts.settings]
    maps = [parts.heads, parts.summary]
    model_event = {
        "fn": draw_model,
        "inputs": kept,
        "outputs": [parts.layer, *maps],
        **MODEL_QUEUE,
    }

    def show(read):
        answered = read.success(
            answer, inputs=parts.picture, outputs=parts.answers, **each, **MODEL_QUEUE
        )
        answered.success(**model_event, **each)
        read.failure(refused, inputs=parts.picture, outputs=[parts.upload, parts.note], **each)

    reading = {"fn": read_picture, "inputs": parts.upload, "outputs": parts.picture, **DECODE_QUEUE}
    show(parts.upload.change(**reading, **latest))
    parts.upload.input(lambda: "", outputs=parts.note, **private)
    parts.photos.select(pick_photo, outputs=[parts.upload, parts.note], **latest)
    parts.tests.select(
        pick_test, inputs=parts.offered, outputs=[parts.upload, parts.note], **latest
    )
    parts.view.change(
        lambda view: gr.update(interactive=view != layout.RAW), parts.view, parts.opacity, **private
    )
    parts.others.click(offer, outputs=offered, **private)
    parts.model.input(**model_event, **latest)
    for control in parts.settings[1:]:  # change, not input: a slider's reset must count, too
        control.change(
            draw, inputs=kept, outputs=maps, show_progress="hidden", **latest, **MODEL_QUEUE
        )
    opened = page.load(open_page, inputs=parts.model, outputs=[parts.model, *offered], **private)
    show(opened.success(**reading, **each))


def nothing_to_draw(image: Image.Image | None) -> dict:
    """Leave the maps as they are; after `KEPT_SECONDS` a picture must be chosen again."""
    if image is None:
        gr.Info("Choose a picture first: none is kept.")
    return gr.skip()


def nearest(layer: float, layers: int) -> int:
    """The layer 1..`layers` next to what the slider says."""
    return min(max(round(layer or 1), 1), layers)
