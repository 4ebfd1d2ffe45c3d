"""The rollout settings of the attention view, and the rollout computed with them."""

import gradio as gr
from gradio.components import Component

from vitdemo.errors import VitdemoError
from vitdemo.explain.attention import FUSIONS, rollout_steps
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.page.components.attention import AttentionData
from vitdemo.page.kit import UncheckedSlider, clamp_layer

COMMON_DEPTH = 12  # layers of ViT-Tiny to ViT-Base


def compute_rollout(look: ImageTrace, fusion, discard, residual, first) -> AttentionData:
    """Compute the rollout of one image with the given settings. Raises `VitdemoError`."""
    first = clamp_layer(first, look.num_layers)
    words = [f"{fusion} of the heads"] if fusion != "mean" else []
    words += [f"{100 * discard:g}% discarded"] if discard else []
    words += [] if residual else ["no residual"]
    try:
        steps = rollout_steps(
            look.attention[:, None],  # (L, 1, H, N, N)
            fusion=fusion,
            discard_ratio=discard or 0.0,
            residual=bool(residual),
            start_layer=first - 1,
            num_prefix_tokens=look.num_prefix_tokens,
        )[:, 0]  # (S, N, N)
    except ValueError as error:
        raise VitdemoError(str(error)) from error
    return AttentionData(look, steps, first, f" ({', '.join(words)})" if words else "")


def lay_out_rollout_settings() -> list[Component]:
    """Lay out the rollout settings of the attention view, in the order of `compute_rollout`."""
    with gr.Accordion("Rollout settings", open=False, elem_id="rollout-settings"), gr.Row():
        fusion = gr.Radio(
            list(FUSIONS),
            value="mean",
            label="Combine heads by",
            info="min keeps attention that all heads share; max keeps attention of any head",
            elem_id="fusion",
            min_width=220,
        )
        discard = gr.Slider(
            0,
            0.95,
            0,
            step=0.05,
            label="Discard ratio",
            info="fraction of the smallest attention weights set to 0 in each layer",
            elem_id="discard",
            min_width=220,
        )
        first = UncheckedSlider(
            1, COMMON_DEPTH, 1, step=1, label="First layer", elem_id="first-layer", min_width=160
        )
        residual = gr.Checkbox(
            True,
            label="Residual connection",
            info="averages each attention matrix with the identity matrix",
            elem_id="residual",
            min_width=160,
        )
    return [fusion, discard, residual, first]
