"""Patches: how a Vision Transformer cuts the picture and makes a token of each patch.

Letters: S side of the input, P patches of a grid of rows x columns, D width of a token.
"""

import gradio as gr
import numpy as np
import torch
from PIL import Image

from vitdemo.attention.embeddings import embed_patches, principal_parts
from vitdemo.errors import ImageError, RunError
from vitdemo.figures.dataset import spread
from vitdemo.models import is_vision_transformer, patches_stand_alone
from vitdemo.page.components.article import Article, Heading, Piece, Text
from vitdemo.page.components.pictures import Item, Pictures
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.look.tab import Look
from vitdemo.page.sections import Sections
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

SIDE = 224
COMPONENTS = 3  # principal components of the projected patches that are shown
WORDS = (
    "The picture in *Look*, on its way into a Vision Transformer: it is cut into equal "
    "**patches**; one **linear projection**, the same for all, turns the pixels of each patch into "
    "a vector; and to each a learned **position** vector is added, since the layers themselves "
    "know no order."
)
COMPONENT_WORDS = (
    "Principal components of the projected patches: patches of one colour here have that part in "
    "common (purple below 0, orange above; the sign has no meaning of its own)."
)


def build(sections: Sections, workbench: Workbench, look: Look) -> None:
    """Lay out the section over the picture in Look."""
    gr.Markdown(WORDS)
    model = RunChoice(grouped(workbench.explained_runs()), elem_id="patches-model")
    view = Article(elem_id="patches")

    def draw(image, name):
        models, name = renewed_runs(workbench.explained_runs(), name)
        if image is None or name is None:
            raise ImageError("Choose a picture in Look first: none is kept.")
        return article(workbench, workbench.run(name), image), models

    sections.add("data-patches", draw, [look.picture, model], [view, model])


@torch.inference_mode()
def article(workbench: Workbench, run: Run, image: Image.Image) -> list[Piece]:
    """The cut, then the projection, the position and their sum, patch by patch."""
    model = workbench.model(run)
    if not is_vision_transformer(model):
        raise RunError(f"'{run.name}' is no Vision Transformer: it cuts no patches.")
    seen, pixels = workbench.input(run.preprocessing, image)
    projected, position = (x[0].float().cpu() for x in embed_patches(model, pixels))  # (P, D)
    rows, columns = grid = tuple(model.patch_embed.grid_size)
    patches = cut(seen, grid)
    height, width = patches.shape[2:4]
    D, more = projected.shape[1], model.num_prefix_tokens
    extra = f" and {more} more, as the class token," if more else ""
    made = f"{height} × {width} × 3 = {height * width * 3} numbers a patch become a vector of {D}"
    if not patches_stand_alone(model):
        made = (
            "In place of one projection, this model has convolutions, which see a little beyond "
            f"each patch: of each comes a vector of {D}"
        )
    lengths = {
        "Length of the projection": projected,
        "Length of the position": position,
        "Length of their sum, the token": projected + position,
    }
    parts, shares = principal_parts(projected, COMPONENTS)
    whole = Item(
        f"The picture as {run.name} cuts it: {rows} × {columns} patches",
        f"{rows} × {columns} patches of {height} × {width} pixels",
    )
    norms = [length(run, title, x.norm(dim=1).view(grid).numpy()) for title, x in lengths.items()]
    components = [
        component(run, i, part.view(grid).numpy(), float(share))
        for i, (part, share) in enumerate(zip(parts, shares, strict=True), start=1)
    ]
    return [
        Text(f"{made}; {rows * columns} such tokens{extra} go into the first layer."),
        Pictures([whole, *norms], spread(patches, SIDE), 200),
        Heading("What the projection keeps of this picture"),
        Text(COMPONENT_WORDS),
        Pictures(components, width=200),
    ]


def cut(seen: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """(S, S, 3) -> its patches, (rows, columns, height, width, 3)."""
    (rows, columns), S = grid, len(seen)
    return seen.reshape(rows, S // rows, columns, S // columns, 3).swapaxes(1, 2)


def length(run: Run, title: str, lengths: np.ndarray) -> Item:
    """The Euclidean lengths (rows, columns) of vectors as a map."""
    note = f"{lengths.min():.2f} to {lengths.max():.2f}"
    return Item(f"{run.name}: {title}, {note}", title, note, lengths)


def component(run: Run, number: int, values: np.ndarray, share: float) -> Item:
    """One principal component (rows, columns) as a signed map."""
    title, note = f"Component {number}", f"{100 * share:.1f} % of the variance"
    return Item(f"{run.name}: {title}, {note}", title, note, values, signed=True)
