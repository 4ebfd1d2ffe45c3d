"""The section "Attention" of Look: every head of a layer, their mean, and attention rollout."""

from collections.abc import Callable

import gradio as gr
from PIL import Image

from vitdemo.attention import FUSIONS
from vitdemo.errors import VitdemoError
from vitdemo.explorer import Look
from vitdemo.ui import html
from vitdemo.ui.look import drawing
from vitdemo.ui.look.shared import Shared, nearest

OVERLAY, RAW = "Overlay", "Raw"


def build(shared: Shared, *, look: Callable[[str, Image.Image], Look]) -> None:
    """Lay out and wire the section; `look(run_name, image)` gives the trace."""
    with gr.Row():
        view = gr.Radio([OVERLAY, RAW], value=OVERLAY, label="View", min_width=300)
        opacity = gr.Slider(0, 1, 0.6, step=0.05, label="Opacity of the overlay", min_width=300)
        one_scale = gr.Checkbox(
            False,
            label="One colour scale for all heads",
            info="off: each map is scaled to its own maximum",
            min_width=300,
        )
    heads = gr.HTML(elem_id="heads", apply_default_css=False)
    with gr.Row():
        fusion = gr.Radio(
            list(FUSIONS),
            value="mean",
            label="Rollout: heads joined by their",
            min_width=300,
            info="rollout multiplies the attention of all layers up to the chosen one",
        )
        discard_ratio = gr.Slider(
            0,
            0.95,
            0,
            step=0.05,
            label="Rollout: share of weakest patches discarded",
            info="in each layer, before multiplying: takes away noise, and detail",
            min_width=300,
        )
    summary = gr.HTML(elem_id="rollout", apply_default_css=False)

    def draw(image, name, layer, fusion, discard_ratio, view, opacity, one_scale):
        try:
            found = look(name, image)
        except VitdemoError as error:
            return html.notice(str(error)), ""
        layer, opacity = nearest(layer, found.layers), 1.0 if view == RAW else opacity
        rolled = found.rollout_map(layer, fusion=fusion, discard_ratio=discard_ratio)
        return (
            drawing.heads_html(found, layer, opacity, one_scale),
            drawing.summary_html(found, layer, opacity, rolled),
        )

    settings = [shared.layer, fusion, discard_ratio, view, opacity, one_scale]
    shared.when_drawn("heads", draw, settings, [heads, summary])
    shared.when_changed("heads", draw, settings, [heads, summary])
    shared.linked |= {"fusion": fusion, "discard": discard_ratio, "view": view}
    view.change(
        lambda view: gr.update(interactive=view != RAW),
        view,
        opacity,
        api_visibility="private",
    )
