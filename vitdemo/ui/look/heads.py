"""The section "Heads and patches": every head of a model at once, and any patch asked for its own.

One wall of all heads stands beside one large map. Both answer the same question, "what does this
token attend to" or "who attends to it", of the token that is chosen by a click on the large map.
"""

from collections.abc import Callable

import gradio as gr
from PIL import Image

from vitdemo.errors import VitdemoError
from vitdemo.explorer import Look, heads
from vitdemo.ui import html
from vitdemo.ui.kit import MODEL_QUEUE, LayerSlider, PickHTML, for_people
from vitdemo.ui.look import stage, walls
from vitdemo.ui.look.shared import Shared, limited, nearest

INTRO = (
    "**Click a thumbnail** to see that head large. **Click a patch** of the large map to ask that "
    "patch instead of the class token: the wall follows. With the keyboard, the arrow keys move "
    "and Enter chooses."
)
SOURCES = [
    ("One head", heads.HEAD),
    ("Mean of the layer's heads", heads.MEAN),
    ("Rollout up to the layer", heads.ROLLOUT),
]
OUTGOING, INCOMING = "outgoing", "incoming"
DIRECTIONS = [("What it attends to", OUTGOING), ("Who attends to it", INCOMING)]
SECTION = "heads"


def build(shared: Shared, *, look: Callable[[str, Image.Image], Look]) -> None:
    """Lay out and wire the section; `look(run_name, image)` gives the trace."""
    gr.Markdown(INTRO)
    picture = gr.HTML(elem_classes="vd-style", apply_default_css=False, padding=False)
    token = gr.Textbox("", visible="hidden", label="Token", elem_id="token")
    with gr.Row(elem_id="look-heads"):
        with gr.Column(min_width=340):
            order = gr.Radio(
                walls.ORDERS, value=walls.OWN, label="Order of the heads", elem_id="order"
            )
            with gr.Row():
                across = gr.Checkbox(
                    False, label="Order across layers", info="else each layer keeps its row"
                )
                one_scale = gr.Checkbox(
                    False, label="One colour scale", info="else each map has its own maximum"
                )
            wall = PickHTML(elem_id="wall")
        with gr.Column(min_width=400):
            direction = gr.Radio(DIRECTIONS, value=OUTGOING, label="Show of the chosen token")
            source = gr.Radio(SOURCES, value=heads.HEAD, label="Of", elem_id="source")
            asked = PickHTML(elem_id="asked")
            with gr.Row():
                head = LayerSlider(
                    1, 12, 1, step=1, label="Head", elem_id="head", buttons=[], min_width=120
                )
                row = LayerSlider(
                    1, 14, 1, step=1, label="Row", elem_id="row", buttons=[], min_width=120
                )
                column = LayerSlider(
                    1, 14, 1, step=1, label="Column", elem_id="column", buttons=[], min_width=120
                )
            with gr.Row():
                view, opacity = stage.view_controls("look-heads")
    settings = [shared.layer, head, token, source, direction, order, across, one_scale]
    views = [wall, asked]

    def drawn(found, layer, head, code, source, direction, order, across, one_scale):
        question = walls.Question(
            heads.token_of(found, code),
            source,
            nearest(layer, found.layers),
            nearest(head, found.attention.shape[1]),
            direction == INCOMING,
        )
        maps = heads.wall(found, question.token, incoming=question.incoming)
        vmax = float(maps.max()) if one_scale else None
        return (
            walls.wall_html(found, maps, question, order, across, vmax),
            walls.asked_html(found, question, vmax),
        )

    def draw_views(image, name, *values):
        try:
            return drawn(look(name, image), *values)
        except VitdemoError as error:
            return html.notice(str(error)), ""

    def draw_all(image, name, layer, head, code, *values):
        try:
            found = look(name, image)
        except VitdemoError as error:
            return html.notice(str(error)), "", *[gr.skip()] * 5
        rows, columns = found.grid
        chosen = heads.token_of(found, code)
        row, column = chosen.place or (1, 1)
        return (
            *drawn(found, layer, head, code, *values),
            stage.seen_style(found),
            # No token chosen stays no token chosen: the next model's answer may be read elsewhere.
            chosen.code if code else "",
            gr.update(maximum=rows, value=row),
            gr.update(maximum=columns, value=column),
            limited(head, found.attention.shape[1]),
        )

    @for_people
    def redraw(image, name, *values):
        return skipped(2) if image is None else draw_views(image, name, *values)

    @for_people
    def slide(image, name, row, column, layer, head, _code, *values):
        if image is None:
            return skipped(3)
        code = heads.patch(look(name, image), row, column).code
        return code, *draw_views(image, name, layer, head, code, *values)

    @for_people
    def pick_token(event: gr.EventData, image, name, layer, head, _code, *values):
        if image is None:
            return skipped(5)
        chosen = heads.token_of(look(name, image), event.pick)
        places = chosen.place or (gr.skip(), gr.skip())
        return chosen.code, *places, *draw_views(image, name, layer, head, chosen.code, *values)

    @for_people
    def pick_head(event: gr.EventData, image, name, _layer, _head, code, _source, *values):
        if image is None:
            return skipped(5)
        layer, head = (int(number) for number in event.pick.split(","))
        views = draw_views(image, name, layer, head, code, heads.HEAD, *values)
        return layer, head, heads.HEAD, *views

    at_once = {
        "show_progress": "hidden",
        "trigger_mode": "always_last",
        "api_visibility": "private",
        **MODEL_QUEUE,
    }
    known = [shared.picture, shared.model]
    controls = [head, source, direction, order, across, one_scale]
    shared.when_drawn(SECTION, draw_all, settings, [*views, picture, token, row, column, head])
    shared.when_changed(SECTION, draw_views, settings, views, by=[shared.layer])
    gr.on([c.input for c in controls], redraw, [*known, *settings], views, **at_once)
    gr.on(
        [row.input, column.input],
        slide,
        [*known, row, column, *settings],
        [token, *views],
        **at_once,
    )
    asked.pick(pick_token, [*known, *settings], [token, row, column, *views], **at_once)
    wall.pick(pick_head, [*known, *settings], [shared.layer, head, source, *views], **at_once)
    shared.linked |= {
        "head": head,
        "token": token,
        "of": source,
        "direction": direction,
        "order": order,
        "view": view,
        "opacity": opacity,
    }


def skipped(count: int) -> list:
    """Leave the outputs as they are: there is no picture yet, or it has been forgotten."""
    return [gr.skip()] * count
