"""Patches: how a Vision Transformer cuts the picture and makes a token of each patch."""

from collections.abc import Callable

import gradio as gr
import numpy as np
from PIL import Image

from vitdemo import figures
from vitdemo.errors import ImageError
from vitdemo.explorer.patches import PatchEmbedding
from vitdemo.figures.dataset import signed_map, spread
from vitdemo.page import html
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.sections import Sections
from vitdemo.runs import Run

SIDE = 224
WORDS = (
    "The picture in *Look*, on its way into a Vision Transformer: it is cut into equal "
    "**patches**; one **linear projection**, the same for all, turns the pixels of each patch into "
    "a vector; and to each a learned **position** vector is added, since the layers themselves "
    "know no order."
)


def build(
    sections: Sections,
    picture: gr.State,
    *,
    explained_runs: Callable[[], list[Run]],
    embed: Callable[[str, Image.Image], PatchEmbedding],
) -> None:
    """Lay out the section over the `picture` in Look; `embed` takes a run's name."""
    gr.Markdown(WORDS)
    model = RunChoice(grouped(explained_runs()), elem_id="patches-model")
    view = gr.HTML(elem_id="patches", apply_default_css=False)

    def draw(image, name):
        models, name = renewed_runs(explained_runs(), name)
        if image is None or name is None:
            raise ImageError("Choose a picture in Look first: none is kept.")
        return patches_html(embed(name, image)), models

    sections.add("data-patches", draw, [picture, model], [view, model])


def patches_html(found: PatchEmbedding) -> str:
    """The cut, then the projection, the position and their sum, patch by patch."""
    rows, columns = found.grid
    height, width = found.patches().shape[2:4]
    D, more = found.projected.shape[1], found.num_prefix_tokens
    extra = f" and {more} more, as the class token," if more else ""
    cut = html.figure(
        spread(found.patches(), SIDE),
        f"The picture as {found.run.name} cuts it: {rows} × {columns} patches",
        f"{rows} × {columns} patches of {height} × {width} pixels",
    )
    lengths = [
        length_figure(found, found.projected, "Length of the projection"),
        length_figure(found, found.position, "Length of the position"),
        length_figure(found, found.tokens, "Length of their sum, the token"),
    ]
    maps, shares = found.components()
    parts = [component_figure(found, m, share, i) for i, (m, share) in
             enumerate(zip(maps, shares, strict=True), start=1)]  # fmt: skip
    made = f"{height} × {width} × 3 = {height * width * 3} numbers a patch become a vector of {D}"
    if not found.alone:
        made = (
            "In place of one projection, this model has convolutions, which see a little beyond "
            f"each patch: of each comes a vector of {D}"
        )
    return (
        f"<p>{made}; {rows * columns} such tokens{extra} go into the first layer.</p>"
        + html.row([cut, *lengths], 200)
        + "<h2>What the projection keeps of this picture</h2><p>Principal components of the "
        "projected patches: patches of one colour here have that part in common (purple below 0, "
        "orange above; the sign has no meaning of its own).</p>" + html.row(parts, 200)
    )


def length_figure(found: PatchEmbedding, values: np.ndarray, title: str) -> str:
    lengths = found.norms(values)  # (rows, columns)
    note = f"{lengths.min():.2f} to {lengths.max():.2f}"
    picture = figures.colour_map(lengths, side_for(lengths))
    return html.figure(picture, f"{found.run.name}: {title}, {note}", title, note, numbers(lengths))


def component_figure(found: PatchEmbedding, values: np.ndarray, share: float, number: int) -> str:
    title, note = f"Component {number}", f"{100 * share:.1f} % of the variance"
    picture = signed_map(values, side_for(values))
    return html.figure(picture, f"{found.run.name}: {title}, {note}", title, note, numbers(values))


def side_for(values: np.ndarray) -> int:
    """A whole multiple of the grid, so that patches stay equal squares."""
    return len(values) * -(-SIDE // len(values))


def numbers(values: np.ndarray) -> str:
    """The numbers (rows, columns) behind a map, folded away."""
    head = ("", *map(str, range(1, values.shape[1] + 1)))
    rows = [(str(i), *(f"{v:.2f}" for v in line)) for i, line in enumerate(values, start=1)]
    return (
        f'<details class="vd-numbers"><summary>Numbers</summary>{html.table(head, rows)}</details>'
    )
