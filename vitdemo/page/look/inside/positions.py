"""The part "Position embeddings": which places the model has learnt to hold for near each other.

Letters: P patches.
"""

import gradio as gr
import numpy as np

from vitdemo.figures.inside import diverging, position_overview
from vitdemo.inside import position_similarity
from vitdemo.page import html
from vitdemo.page.kit import MODEL_QUEUE, PickHTML, for_people, picked_numbers
from vitdemo.page.look.inside.pieces import caption, folded, paint, signed
from vitdemo.page.look.tab import Look

NUMBERED = 8  # columns; in the cells of a wider grid there is no room for a number
WORDS = (
    "How alike the learned position embedding of the chosen patch is to that of every other "
    "(cosine, 1 for itself). It says nothing of any picture."
)
START = {
    "random": "This training began with random numbers, which know nothing of where patches lie: "
    "neighbours, rows and columns that resemble each other were learnt.",
    "mimetic": "This training began with mimetic initialisation, whose position embeddings are "
    "sines and cosines (Trockman & Kolter 2023): neighbours resembled each other from the start, "
    "and what is seen here is mostly that start.",
    "weights": "This training began with the weights of another one: what resembles each other was "
    "learnt there, or was there from its start.",
}


def build(look: Look) -> None:
    """Lay out and wire the part."""
    cell = gr.State(None)
    with gr.Row():
        with gr.Column(min_width=300):
            map_ = PickHTML(elem_id="positions")
        with gr.Column(min_width=300):
            overview = gr.HTML(elem_id="all-positions", apply_default_css=False)

    def similarity_of(name):
        return position_similarity(look.workbench, look.workbench.run(name))

    def draw(image, name, cell):
        similarity, grid, start = similarity_of(name)
        drawn = map_html(similarity, grid, chosen(cell, grid), start)
        return drawn, overview_html(similarity, grid, name)

    @for_people
    def pick(name, event: gr.EventData):
        similarity, grid, start = similarity_of(name)
        cell = picked_numbers(event.pick, *grid)
        return map_html(similarity, grid, chosen(cell, grid), start), cell

    look.add("inside/positions", draw, [cell], [map_, overview])
    map_.pick(
        pick,
        inputs=look.model,
        outputs=[map_, cell],
        trigger_mode="always_last",
        show_progress="hidden",
        api_visibility="private",
        **MODEL_QUEUE,
    )


def chosen(cell: tuple[int, int] | None, grid: tuple[int, int]) -> tuple[int, int]:
    """The nearest patch of the grid to what was chosen; one in the middle at first."""
    row, column = cell or ((grid[0] - 1) // 2, (grid[1] - 1) // 2)
    return min(row, grid[0] - 1), min(column, grid[1] - 1)


def limit_of(similarity: np.ndarray) -> float:
    """The largest cosine of two different patches, either sign: the end of the colours."""
    others = similarity[~np.eye(len(similarity), dtype=bool)]
    return float(np.abs(others).max()) if others.size else 1.0


def map_html(
    similarity: np.ndarray, grid: tuple[int, int], cell: tuple[int, int], start: str
) -> str:
    """The row of `cell` as a grid of buttons, coloured by similarity."""
    rows, columns = grid
    values = similarity[cell[0] * columns + cell[1]].reshape(grid)
    limit = limit_of(similarity)
    colours = diverging(values, limit)
    lines = (
        "".join(_cell((i, j), (i, j) == cell, values[i, j], colours[i, j], columns) for j in
                range(columns))
        for i in range(rows)
    )  # fmt: skip
    legend = (
        f'<div class="vd-legend">{signed(-limit)} <i class="vd-ramp" style="background: '
        f'linear-gradient(to right, {", ".join(diverging(np.linspace(-1, 1, 9), 1))})"></i> '
        f"{signed(limit)}, the largest cosine of two different patches</div>"
    )
    numbers = html.table(
        ["row", *map(str, range(1, columns + 1))],
        [[str(i), *(signed(v) for v in line)] for i, line in enumerate(values, start=1)],
    )
    return (
        caption(f"{WORDS} {START[start]}")
        + f'<table class="vd-patches vd-pickable" style="--columns: {columns}"><caption>Row '
        f"{cell[0] + 1}, column {cell[1] + 1}: choose another patch</caption>"
        f'<tbody data-columns="{columns}">{"".join(f"<tr>{line}</tr>" for line in lines)}</tbody>'
        f"</table>{legend}{folded('Numbers: cosines of the chosen patch', numbers)}"
    )


def _cell(place: tuple[int, int], is_chosen: bool, value: float, colour: str, columns: int) -> str:
    label = f"Row {place[0] + 1}, column {place[1] + 1}: {signed(value)}"
    text = signed(value, 1) if columns <= NUMBERED else ""
    return (
        f'<td><button data-pick="{place[0]}.{place[1]}" aria-pressed="{str(is_chosen).lower()}" '
        f'aria-label="{label}" title="{label}" style="{paint(colour)}">{text}</button></td>'
    )


def overview_html(similarity: np.ndarray, grid: tuple[int, int], name: str) -> str:
    """All maps at once, each at the place of its patch."""
    picture = position_overview(similarity, grid, 400, limit_of(similarity))
    alt = (
        f"{name}: for each of {grid[0]} by {grid[1]} patches a small map of how alike its position "
        "embedding is to all others, at the patch's own place"
    )
    shown = html.figure(picture, alt, "All patches at once", "each small map is one patch's")
    return f'<div class="vd-row vd-pair" style="--vd-width: 300px">{shown}</div>'
