"""The Look tab: a picture, what each model says of it, and where the chosen one attends."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
import numpy as np
from PIL import Image

from vitdemo import figures
from vitdemo.attention import FUSIONS
from vitdemo.errors import DataError, VitdemoError
from vitdemo.evaluation import top_k
from vitdemo.explorer import Answer, Look, TestPicture, final_accuracy
from vitdemo.inputs import load_image, visible_square
from vitdemo.runs import Run
from vitdemo.ui import html
from vitdemo.ui.components import (
    DECODE_QUEUE,
    MODEL_QUEUE,
    LayerSlider,
    PathImage,
    for_people,
    fresh_radio,
    run_radio,
)

# gradio's own pictures: examples that need no network.
EXAMPLES_FOLDER = Path(gr.__file__).parent / "media_assets" / "images"
EXAMPLES = ("lion.jpg", "cheetah1.jpg", "bus.png", "tower.jpg", "groot.jpeg")
SHOWN = 12  # test pictures on offer at a time
LISTED = 30  # classes that are named under the answers
KEPT_SECONDS = 6 * 3600  # after it was chosen; a lesson is shorter
OVERLAY, RAW = "Overlay", "Raw"

INTRO = (
    "What each model says of one picture, and where its attention goes. "
    "Drop a picture, take one with the camera, or choose one below."
)
CAVEAT = (
    "Bright patches are those that the class token takes most from; each map is scaled to its own "
    "maximum. Attention does not depend on the class and can mislead: it shows where a model mixes "
    "information, not why it chose a class."
)


@dataclass(frozen=True)
class Parts:
    """The components that events connect."""

    picture: gr.State  # what models can see of this user's picture: an RGB square
    offered: gr.State  # numbers of the test pictures on offer
    upload: PathImage
    note: gr.HTML
    photos: gr.Gallery
    tests: gr.Gallery
    tests_notice: gr.HTML
    others: gr.Button
    answers: gr.HTML
    model: gr.Radio
    layer: gr.Slider
    fusion: gr.Radio
    discard_ratio: gr.Slider
    view: gr.Radio
    opacity: gr.Slider
    heads: gr.HTML
    summary: gr.HTML

    @property
    def settings(self) -> list:
        """Inputs of every drawing, after the picture."""
        return [self.model, self.layer, self.fusion, self.discard_ratio, self.view, self.opacity]


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
    parts = lay_out(explained_runs())

    def drawn(found, layer, fusion, discard_ratio, view, opacity):
        layer, opacity = nearest(layer, found.layers), 1.0 if view == RAW else opacity
        rolled = found.rollout_map(layer, fusion=fusion, discard_ratio=discard_ratio)
        return heads_html(found, layer, opacity), summary_html(found, layer, opacity, rolled)

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
        return gr.skip() if image is None else answers_html(*answers(image))

    def open_page(name):
        return fresh_radio(explained_runs(), name), *offer()

    def offer():
        try:
            size = test_size()
            numbers = random.sample(range(size), min(SHOWN, size))
            items = [offered_item(test_picture(number)) for number in numbers]
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
        return example_files()[event.index], ""

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

    reading = {"fn": read_picture, "inputs": parts.upload, "outputs": parts.picture, **DECODE_QUEUE}
    show(parts.upload.change(**reading, **latest))
    parts.upload.input(lambda: "", outputs=parts.note, **private)
    parts.photos.select(pick_photo, outputs=[parts.upload, parts.note], **latest)
    parts.tests.select(
        pick_test, inputs=parts.offered, outputs=[parts.upload, parts.note], **latest
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


def lay_out(runs: list[Run]) -> Parts:
    """Components in reading order: the picture and the answers, then the maps of one model."""
    files = example_files()
    picture = gr.State(None, time_to_live=KEPT_SECONDS)
    offered = gr.State([], time_to_live=KEPT_SECONDS)
    gr.Markdown(INTRO)
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            upload = PathImage(
                value=files[0] if files else None,
                type="filepath",
                image_mode=None,
                format="png",  # lossless: a test picture must reach the model as it is
                sources=["upload", "clipboard", "webcam"],
                label="Your picture",
                height=300,
                elem_id="upload",
            )
            note = gr.HTML("", elem_id="note", apply_default_css=False)
            photos = _gallery(
                [(file, Path(file).stem.rstrip("1")) for file in files], 5, "Photos", bool(files)
            )
        with gr.Column(scale=3, min_width=300):
            answers = gr.HTML(elem_id="answers", apply_default_css=False)
            tests = _gallery([], 6, "Pictures of the test set", False)
            tests_notice = gr.HTML(elem_id="tests-notice", apply_default_css=False)
            others = gr.Button("Other pictures", size="sm", visible=False)
    gr.Markdown(f"### Where it looks\n{CAVEAT}")
    with gr.Row():
        model = run_radio(runs, elem_id="model")
        layer = LayerSlider(1, 12, 12, step=1, label="Layer", elem_id="layer", min_width=300)
    with gr.Row():
        view = gr.Radio([OVERLAY, RAW], value=OVERLAY, label="View", min_width=300)
        opacity = gr.Slider(0, 1, 0.6, step=0.05, label="Opacity of the overlay", min_width=300)
    heads = gr.HTML(elem_id="heads", apply_default_css=False)
    with gr.Row():
        fusion = gr.Radio(
            list(FUSIONS), value="mean", label="Rollout: heads joined by their", min_width=300
        )
        discard_ratio = gr.Slider(
            0,
            0.95,
            0,
            step=0.05,
            label="Rollout: share of weakest patches discarded",
            min_width=300,
        )
    summary = gr.HTML(elem_id="rollout", apply_default_css=False)
    return Parts(
        picture, offered, upload, note, photos, tests, tests_notice, others, answers, model, layer,
        fusion, discard_ratio, view, opacity, heads, summary,
    )  # fmt: skip


def _gallery(items: list, columns: int, label: str, visible: bool) -> gr.Gallery:
    return gr.Gallery(
        items,
        label=label,
        columns=columns,
        height=None,
        allow_preview=False,
        interactive=False,
        object_fit="cover",
        elem_classes="vd-gallery",
        buttons=[],
        visible=visible,
    )


def example_files() -> list[str]:
    """Paths of the example photos that this version of gradio has."""
    files = (EXAMPLES_FOLDER / name for name in EXAMPLES)
    return [str(file) for file in files if file.is_file()]


def offered_item(picture: TestPicture) -> tuple[np.ndarray, str]:
    return figures.enlarge(np.asarray(picture.image), 128), picture.label


def answers_html(answers: list[Answer], problems: list[str]) -> str:
    """A card for each model, and a line for each that could not answer."""
    cards = f'<div class="vd-cards">{"".join(map(card, answers))}</div>'
    vocabularies = dict.fromkeys(answer.run.classes for answer in answers)
    words = (
        f"{len(classes)} classes are all there is to say: {', '.join(classes)}. Anything else "
        "becomes the nearest of them."
        for classes in vocabularies
        if len(classes) <= LISTED
    )
    known = "".join(f'<p class="vd-quiet">{html.escape(sentence)}</p>' for sentence in words)
    return cards + known + html.notices(problems)


def card(answer: Answer) -> str:
    run, side = answer.run, answer.seen.shape[0]
    shown = display_side(side, 192)
    what = f"{side} × {side} pixels"
    if answer.grid:
        rows, columns = answer.grid
        picture = figures.with_patch_grid(answer.seen, answer.grid, shown)
        what += f" in {rows} × {columns} patches"
    else:
        picture = figures.enlarge(answer.seen, shown)
    indices, values = top_k(answer.probabilities, 5)
    seen = html.figure(picture, f"The picture as {run.name} sees it, {what}", "What it sees", what)
    bars = html.probability_bars([run.classes[i] for i in indices], values)
    return (
        f'<section class="vd-card"><h3>{html.escape(run.name)}</h3>'
        f'<p class="vd-quiet">{html.escape(describe(run))}</p>'
        f'<div>{seen}<div class="vd-bars">{bars}</div></div></section>'
    )


def describe(run: Run) -> str:
    """One line: what the model is, its size, and how good it is on the test set."""
    words = [run.config["recipe"].get("summary", run.spec.family)]
    if "parameters" in run.config:
        words.append(f"{run.config['parameters'] / 1e6:.1f} million parameters")
    right = final_accuracy(run)
    share = "not evaluated" if right is None else f"{100 * right:.1f} % of test pictures right"
    words.append(share)
    return " · ".join(words)


def heads_html(look: Look, layer: int, opacity: float) -> str:
    """All heads of one layer (1..L), and their mean, as a row of pictures."""
    maps = look.head_maps(layer)  # (H, rows, columns)
    named = [(f"Head {i}", values) for i, values in enumerate(maps, start=1)]
    items = (
        map_figure(look, values, opacity, f"{name}, layer {layer}", 160) for name, values in named
    )
    return html.row(items, 160)


def summary_html(look: Look, layer: int, opacity: float, rolled: np.ndarray) -> str:
    """What was seen, the mean of the heads, and the rollout up to the layer."""
    mean = look.head_maps(layer).mean(0)  # (rows, columns)
    seen = html.figure(
        figures.with_patch_grid(look.seen, look.grid, display_side(len(look.seen), 288)),
        f"What {look.run.name} saw, with its patches",
        f"What {look.run.name} saw",
    )
    span = f"layers 1 to {layer}" if layer > 1 else "layer 1"
    pictures = [
        seen,
        map_figure(look, mean, opacity, f"Mean of the heads, layer {layer}", 288),
        map_figure(look, rolled, opacity, f"Attention rollout, {span}", 288),
    ]
    bar = html.image_uri(figures.scale_bar(160, 10))
    legend = (
        f'<div class="vd-legend">0 <img src="{bar}" alt="Colours from black to yellow"> '
        "the map's maximum</div>"
    )
    return html.row(pictures, 250) + legend


def map_figure(
    look: Look,
    values: np.ndarray,
    opacity: float,
    title: str,
    target: int,
) -> str:
    """One map (rows, columns) over what the model saw, with where its maximum lies."""
    side = display_side(len(look.seen), target)
    row, column = np.unravel_index(values.argmax(), values.shape)
    peak = f"maximum {100 * values.max():.1f} % at row {row + 1}, column {column + 1}"
    picture = figures.overlay(look.seen, values, side, opacity=opacity)
    numbers = html.number_grid(values, "Numbers, in percent")
    return html.figure(picture, f"{look.run.name}: {title}: {peak}", title, peak, numbers)


def display_side(side: int, target: int) -> int:
    """The smallest whole multiple of `side` from `target` on: pixels stay equal squares."""
    return side * -(-target // side)
