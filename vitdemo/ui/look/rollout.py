"""The section "Rollout": how the attention of the layers adds up, step by step, as one sets it."""

from collections.abc import Callable

import gradio as gr
import numpy as np
from PIL import Image

from vitdemo.attention import FUSIONS
from vitdemo.errors import VitdemoError
from vitdemo.explorer import Look, heads
from vitdemo.figures.maps import wall_picture
from vitdemo.ui import html
from vitdemo.ui.kit import MODEL_QUEUE, LayerSlider, PickHTML, for_people
from vitdemo.ui.look import stage
from vitdemo.ui.look.shared import Shared, limited, nearest
from vitdemo.ui.look.walls import ROLLOUT_LIMITS

INTRO = (
    "Attention rollout multiplies the attention of the layers up, one after the other: how much of "
    "each patch could have reached the token that is read, if attention alone moved information. "
    "**Click a step** of the strip to see it large."
)
ANSWER, PATCHES = "answer", "patches"
ROWS = [("Class token", ANSWER), ("Mean of the patches", PATCHES)]
SECTION = "rollout"
ROUNDING = 1e-4  # rows of float32 products are closer to one than this


def build(shared: Shared, *, look: Callable[[str, Image.Image], Look]) -> None:
    """Lay out and wire the section; `look(run_name, image)` gives the trace."""
    gr.Markdown(INTRO)
    picture = gr.HTML(elem_classes="vd-style", apply_default_css=False, padding=False)
    with gr.Column(elem_id="look-rollout"):
        strip = PickHTML(elem_id="strip")
        with gr.Row():
            with gr.Column(min_width=400):
                large = gr.HTML(elem_id="rollout", apply_default_css=False)
            with gr.Column(min_width=340):
                fusion = gr.Radio(
                    list(FUSIONS),
                    value="mean",
                    label="Heads are joined by their",
                    info="min keeps what all heads agree on, max what any of them sees",
                    elem_id="fusion",
                )
                discard = gr.Slider(
                    0,
                    0.95,
                    0,
                    step=0.05,
                    label="Share of weakest patches discarded",
                    info="in each layer, before multiplying: takes away noise, and detail",
                    elem_id="discard",
                )
                residual = gr.Checkbox(
                    True,
                    label="Residual",
                    info="half of each token stays where it is, for the skip connection",
                    elem_id="residual",
                )
                first = LayerSlider(
                    1, 12, 1, step=1, label="First layer", elem_id="first-layer", buttons=[]
                )
                read = gr.Radio(ROWS, value=ANSWER, label="Read from", elem_id="read-from")
                view, opacity = stage.view_controls("look-rollout")
    settings = [shared.layer, fusion, discard, residual, first, read]

    def drawn(found, layer, fusion, discard, residual, first, read):
        token = row_token(found, read)
        first = nearest(first, found.layers)
        steps = heads.steps(
            found,
            token,
            fusion=fusion,
            discard_ratio=discard,
            residual=residual,
            first_layer=first,
        )
        layer = max(nearest(layer, found.layers), first)
        return strip_html(found, steps, layer), large_html(found, steps, layer, token, read)

    def draw_views(image, name, *values):
        try:
            return drawn(look(name, image), *values)
        except VitdemoError as error:
            return html.notice(str(error)), ""

    def draw_all(image, name, *values):
        try:
            found = look(name, image)
        except VitdemoError as error:
            return html.notice(str(error)), "", gr.skip(), gr.skip()
        return *drawn(found, *values), stage.seen_style(found), limited(values[4], found.layers)

    @for_people
    def redraw(image, name, *values):
        return [gr.skip()] * 2 if image is None else draw_views(image, name, *values)

    @for_people
    def pick(event: gr.EventData, image, name, _layer, *values):
        if image is None:
            return [gr.skip()] * 3
        layer = int(event.pick)
        return layer, *draw_views(image, name, layer, *values)

    at_once = {
        "show_progress": "hidden",
        "trigger_mode": "always_last",
        "api_visibility": "private",
        **MODEL_QUEUE,
    }
    known, views = [shared.picture, shared.model], [strip, large]
    shared.when_drawn(SECTION, draw_all, settings, [*views, picture, first])
    # The discard slider has a reset button, which is a change and no input.
    shared.when_changed(SECTION, draw_views, settings, views, by=[shared.layer, discard])
    controls = [fusion, residual, first, read]
    gr.on([c.input for c in controls], redraw, [*known, *settings], views, **at_once)
    strip.pick(pick, [*known, *settings], [shared.layer, *views], **at_once)
    shared.linked |= {
        "fusion": fusion,
        "discard": discard,
        "residual": residual,
        "first": first,
        "read": read,
        "rollout-view": view,
        "rollout-opacity": opacity,
    }


def row_token(look: Look, read: str) -> heads.Token:
    """Whose row is read: the class token's where there is one and it is asked for."""
    return heads.answering(look) if read == ANSWER else heads.all_patches(look)


def strip_html(look: Look, steps: heads.Steps, layer: int) -> str:
    """The map after each layer as one picture, under one button each."""
    count = len(steps.layers)
    uri = html.png_uri(wall_picture(steps.maps[None]))
    alt = f"{look.run.name}: the rollout after each layer, {_span(steps.layers)}"
    buttons, labels = [], []
    for number, values, deviation in zip(steps.layers, steps.maps, steps.deviations, strict=True):
        words = f"After layer {number}: brightest {stage.peak(values)}"
        chosen = str(number == layer).lower()
        buttons.append(
            f'<button type="button" data-pick="{number}" aria-pressed="{chosen}" '
            f'aria-label="{words}" title="{words}; rows off by {deviation:.1e}"></button>'
        )
        labels.append(f"<span>{'' if labels else '<i>after layer </i>'}{number}</span>")
    return (
        f'<figure class="vd-wall vd-strip" style="--layers: 1; --heads: {count}">'
        f'<div class="vd-tops" aria-hidden="true">{"".join(labels)}</div>'
        f'<div class="vd-heads" style="{stage.seen(look)}" data-tiles="{count} 1" '
        f'data-columns="{count}" role="group" aria-label="Steps: choose one to see it large">'
        f'<img src="{uri}" alt="{html.escape(alt)}">{"".join(buttons)}</div></figure>'
        '<p class="vd-caption">Each step is scaled to its own brightest patch.</p>'
    )


def large_html(look: Look, steps: heads.Steps, layer: int, token: heads.Token, read: str) -> str:
    """One step large, with its words, its numbers, and how far its rows are from one."""
    at = steps.layers.index(layer)
    values = steps.maps[at]
    span = _span(range(steps.layers.start, layer + 1))
    title = f"Rollout of {span}, read from {_row(token)}"
    alt = f"{look.run.name}: {title}: brightest {stage.peak(values)}"
    none = (
        "This model has no class token that its answer is read from: the mean of the patches is "
        "shown. "
        if read == ANSWER and not look.from_class_token
        else ""
    )
    words = (
        f"{none}How much of each patch has reached {_row(token)} through {span}, at most "
        f"{stage.peak(values)}; the patches together are {stage.percent(values.sum())}, the rest "
        "is of tokens that are no patch."
    )
    if not look.num_prefix_tokens:
        words = words.partition("; the patches")[0] + "."
    return (
        f'<div class="vd-asked"><h4>{html.escape(title)}</h4>'
        f"{stage.stage(look, values, alt)}{stage.legend(float(values.max()))}"
        f'<p class="vd-check" role="status">{check(steps.deviations[at], look)}</p>'
        f'<p class="vd-caption">{html.escape(words)} <small>{ROLLOUT_LIMITS}</small></p>'
        f"{html.number_grid(values, 'Numbers, in percent')}</div>"
    )


def check(deviation: float, look: Look) -> str:
    """Whether the rows of the matrix that is shown sum to one, with the worst of them."""
    N = look.attention.shape[-1]
    if np.isfinite(deviation) and deviation < ROUNDING:
        return f"✓ All {N} rows of this matrix sum to one; the worst is off by {deviation:.1e}."
    return f"✗ Rows of this matrix do not sum to one: the worst of {N} is off by {deviation:.1e}."


def _row(token: heads.Token) -> str:
    if token.code == heads.BOTH:
        return "the mean of the class and the distillation token"
    return "the mean of the patches" if token.several else f"the {token.name}"


def _span(layers: range) -> str:
    first, last = layers[0], layers[-1]
    return f"layer {first}" if first == last else f"layers {first} to {last}"
