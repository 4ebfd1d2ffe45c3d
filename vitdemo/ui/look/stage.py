"""A map over what the model saw, laid together by the browser: small pictures, quick to send.

The picture that was seen travels once (`seen_style`), as a CSS variable named after its content, so
that a map never lies over another picture than its own. A map has one pixel a patch. Both are
enlarged in the browser, pixels as squares, and how much of the picture shines through is its
business too.
"""

import hashlib

import gradio as gr
import numpy as np

from vitdemo import figures
from vitdemo.explorer import Look
from vitdemo.figures.maps import map_picture
from vitdemo.ui import html

OVERLAY, RAW = "Overlay", "Raw"
OPACITY = 0.6
VIEWED = """(view, opacity) => {
    const place = document.getElementById("%s");
    if (place) place.style.setProperty("--vd-opacity", view === "Raw" ? 1 : opacity);
    return [];
}"""


def view_controls(scope: str) -> tuple[gr.Radio, gr.Slider]:
    """Overlay or raw, and how strong the overlay is, for all stages inside the element `scope`."""
    view = gr.Radio([OVERLAY, RAW], value=OVERLAY, label="View", min_width=240)
    opacity = gr.Slider(
        0, 1, OPACITY, step=0.05, label="Opacity of the map over the picture", min_width=240
    )
    private = {"api_visibility": "private", "show_progress": "hidden"}
    gr.on([view.change, opacity.change], None, [view, opacity], js=VIEWED % scope, **private)
    view.change(lambda view: gr.update(interactive=view != RAW), view, opacity, **private)
    return view, opacity


def seen_style(look: Look) -> str:
    """The picture that the model saw, for all stages of this look on the page."""
    return f'<style>:root {{ {_seen_name(look)}: url("{html.image_uri(look.seen)}") }}</style>'


def seen(look: Look) -> str:
    """The CSS that lays what the model saw under an element."""
    return f"background-image: var({_seen_name(look)})"


def _seen_name(look: Look) -> str:
    return "--vd-seen-" + hashlib.blake2b(look.seen.tobytes(), digest_size=6).hexdigest()


def stage(
    look: Look, values: np.ndarray, alt: str, *, vmax: float | None = None, over: str = ""
) -> str:
    """A map (rows, columns) over what the model saw; `over` is HTML that lies on top."""
    uri = html.png_uri(map_picture(values, vmax=vmax))
    return (
        f'<figure class="vd-map"><div class="vd-stage" data-tiles="1 1" style="{seen(look)}">'
        f'<img src="{uri}" alt="{html.escape(alt)}">{over}</div></figure>'
    )


def legend(top: float) -> str:
    """The colours from 0 to the share `top`."""
    bar = html.image_uri(figures.scale_bar(160, 10))
    return (
        f'<div class="vd-legend">0 <img src="{bar}" alt="Colours from black to yellow"> '
        f"{percent(top)}</div>"
    )


def percent(share: float) -> str:
    """As many digits as a share of many patches needs: "12.3 %", "0.041 %"."""
    number = 100 * float(share)
    return f"{number:.1f} %" if number >= 1 or number == 0 else f"{number:.2g} %"


def peak(values: np.ndarray) -> str:
    """Where a map is brightest, in words."""
    row, column = np.unravel_index(values.argmax(), values.shape)
    return f"{percent(values.max())} at row {row + 1}, column {column + 1}"
