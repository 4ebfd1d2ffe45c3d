"""Division of the image into patches, and their embedding as tokens.

The payload is a document.

Letters: S side of the input, P patches in a grid of rows x columns, D embedding dimension.
"""

import numpy as np
import torch
from PIL import Image

from vitdemo.context import AppContext
from vitdemo.documents import Details, DocumentBlock, Heading, Text
from vitdemo.documents.images import ImageItem, ImageRow
from vitdemo.errors import RunError
from vitdemo.explain.embeddings import embed_patches, project_on_components
from vitdemo.figures.dataset import arrange_patches
from vitdemo.models import has_attention, has_separate_patches
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import document_payload, load_square
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "patches"
DISPLAY_SIDE = 224
TILE_WIDTH = 124  # pixels
COMPONENT_COUNT = 3  # number of principal components shown
ABOUT_PATCHES = (
    "All patches share one **linear projection** from pixels to vectors. A learned **position** "
    "vector is added, because attention itself ignores the order of the patches."
)
COMPONENTS_HELP = (
    "The **components** are principal components of the projected patches. Patches with the same "
    "colour have similar values (purple: negative, orange: positive). The sign of a component is "
    "arbitrary."
)


@needs(keys.IMAGE, keys.MODEL)
def payload(context: AppContext, state: ViewState) -> list:
    run = context.find_run(state.model)
    return document_payload(patch_blocks(context, run, load_square(context, state.image)))


FEATURE = Feature({VIEW: payload})


@torch.inference_mode()
def patch_blocks(context: AppContext, run: Run, image: Image.Image) -> list[DocumentBlock]:
    """Return the patches of an image, the norms of their vectors, and principal components."""
    model = context.load_model(run)
    if not has_attention(model):
        raise RunError(
            f"'{run.name}' is not a Vision Transformer and has no patches. Choose another model."
        )
    seen, pixels = context.prepare_input(run.preprocessing, image)
    projected, position = (x[0].float().cpu() for x in embed_patches(model, pixels))  # (P, D)
    rows, columns = grid = tuple(model.patch_embed.grid_size)
    patches = split_patches(seen, grid)
    height, width = patches.shape[2:4]
    D, more = projected.shape[1], model.num_prefix_tokens
    special = f"{more} special token{'' if more == 1 else 's'}"  # class and register tokens
    extra = f" and {special}" if more else ""
    made = (
        f"The {height} × {width} × 3 = {height * width * 3} values of a patch are projected to a "
        f"vector of {D} numbers"
    )
    if not has_separate_patches(model):
        made = (
            "Instead of one projection, this model uses convolutions, which also read a few "
            f"pixels around each patch. The convolutions output a vector of {D} numbers per patch"
        )
    lengths = {
        "Norm of the projection": projected,
        "Norm of the position vector": position,
        "Norm of the token (their sum)": projected + position,
    }
    parts, shares = project_on_components(projected, COMPONENT_COUNT)
    whole = ImageItem(
        f"Image divided into patches by {run.name}: {rows} × {columns}",
        f"{rows} × {columns} patches of {height} × {width} pixels",
    )
    norms = [
        norm_item(run, title, x.norm(dim=1).view(grid).numpy()) for title, x in lengths.items()
    ]
    components = [
        component_item(run, i, part.view(grid).numpy(), float(share))
        for i, (part, share) in enumerate(zip(parts, shares, strict=True), start=1)
    ]
    row = ImageRow([whole, *norms, *components], arrange_patches(patches, DISPLAY_SIDE), TILE_WIDTH)
    return [
        Heading("Patches"),
        Text(f"{made}. The first layer receives {rows * columns} patch tokens{extra}.", quiet=True),
        row,
        Details("About", [Text(ABOUT_PATCHES), Text(COMPONENTS_HELP)]),
    ]


def split_patches(crop: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Divide an image (S, S, 3) into patches (rows, columns, height, width, 3)."""
    (rows, columns), S = grid, len(crop)
    return crop.reshape(rows, S // rows, columns, S // columns, 3).swapaxes(1, 2)


def norm_item(run: Run, title: str, lengths: np.ndarray) -> ImageItem:
    """Return a map of vector norms (rows, columns)."""
    note = f"{lengths.min():.2f} to {lengths.max():.2f}"
    return ImageItem(f"{run.name}: {title}, {note}", title, note, lengths)


def component_item(run: Run, number: int, values: np.ndarray, share: float) -> ImageItem:
    """Return a signed map of one principal component (rows, columns)."""
    title, note = f"Component {number}", f"{100 * share:.1f}% of the variance"
    return ImageItem(f"{run.name}: {title}, {note}", title, note, values, signed=True)
