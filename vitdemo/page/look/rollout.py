"""The settings of the rollout that the attention view shows, and the rollout that they ask for."""

import gradio as gr
from gradio.components import Component

from vitdemo.attention import FUSIONS, rollout_steps
from vitdemo.errors import VitdemoError
from vitdemo.page.components.attention import Drawn
from vitdemo.page.kit import LayerSlider, nearest
from vitdemo.traced import Traced

COMMON_DEPTH = 12  # layers of ViT-Tiny to ViT-Base


def rolled(look: Traced, fusion, discard, residual, first) -> Drawn:
    """`look` with the rollout that these settings ask for. Raises `VitdemoError`."""
    first = nearest(first, look.layers)
    words = [f"heads joined by {fusion}"] if fusion != "mean" else []
    words += [f"{100 * discard:g} % discarded"] if discard else []
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
    return Drawn(look, steps, first, f" ({', '.join(words)})" if words else "")


def lay_out() -> list[Component]:
    """The settings of the rollout that the attention view shows, in the order of `rolled`."""
    with gr.Accordion("Settings of the rollout", open=False, elem_id="rollout-settings"), gr.Row():
        fusion = gr.Radio(
            list(FUSIONS),
            value="mean",
            label="Heads are joined by their",
            info="min keeps what all heads agree on, max what any of them sees",
            elem_id="fusion",
            min_width=220,
        )
        discard = gr.Slider(
            0,
            0.95,
            0,
            step=0.05,
            label="Discard ratio",
            info="share of the weakest patches left out in each layer",
            elem_id="discard",
            min_width=220,
        )
        first = LayerSlider(
            1, COMMON_DEPTH, 1, step=1, label="First layer", elem_id="first-layer", min_width=160
        )
        residual = gr.Checkbox(
            True,
            label="Residual",
            info="half of each token stays where it is, for the skip connection",
            elem_id="residual",
            min_width=160,
        )
    return [fusion, discard, residual, first]
