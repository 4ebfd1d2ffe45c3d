"""Thumbnails of the included lessons, from the included models and the lessons' photo.

    python -m vitdemo.lessons.thumbnails    # writes en/1-tokens.webp, en/2-attention.webp, ...

A thumbnail is a file next to the lesson, with the same name. S is the side of a thumbnail.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from vitdemo.analyses.perturbation import compute_ranking_maps
from vitdemo.context import AppContext
from vitdemo.data.ground_truth import make_ground_truth_image
from vitdemo.data.perturb.changes import ImageChanges, apply_changes
from vitdemo.figures import SEQUENTIAL_COLOURMAP, colour_table
from vitdemo.installation import included_folder
from vitdemo.lessons import DEFAULT_LANGUAGE, LESSONS_FOLDER
from vitdemo.lessons.facts import find_run, load_photo, trace_photo
from vitdemo.metrics import confusion_matrix

SIDE = 224  # pixels
SUFFIX = ".webp"
MAX_THUMBNAIL_BYTES = 200_000
MAP_OPACITY = 0.62  # the same opacity as on the page
REMOVED_COLOUR, GAP_COLOUR = (124, 132, 144), (255, 255, 255, 0)
CURVE_COLOURS = ("#2f86c9", "#d97706", "#7c4fd0")
CURVE_RUNS = ("vit-scratch", "conv-baseline", "vit-plain")
CHOSEN_PATCH = (3, 3)  # row and column, counted from 0
HEAD_LAYERS = (1, 3, 5)
REMOVED_PATCHES = 32
THUMBNAIL_TRUTH = ("one-mark", 3)  # task and seed


def find_thumbnail(folders: Sequence[Path], name: str) -> bytes | None:
    """Return the thumbnail of the lesson `name` from the last folder that contains it, or None."""
    for folder in reversed(folders):
        path = folder / f"{name}{SUFFIX}"
        if path.is_file() and path.stat().st_size <= MAX_THUMBNAIL_BYTES:
            return path.read_bytes()
    return None


def resize_photo() -> np.ndarray:
    """Return the lessons' photo (S, S, 3) uint8."""
    return np.asarray(load_photo().resize((SIDE, SIDE), Image.Resampling.LANCZOS))


def colour_map(values: np.ndarray, side: int) -> np.ndarray:
    """Return values (rows, columns) as colours (side, side, 3) uint8, one square per value."""
    share = values / (float(values.max()) or 1.0)
    colours = colour_table(SEQUENTIAL_COLOURMAP)[(255 * share).clip(0, 255).astype(int)]
    return np.asarray(Image.fromarray(colours).resize((side, side), Image.Resampling.NEAREST))


def draw_over(image: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the map `values` (rows, columns) over the image (S, S, 3)."""
    colours = colour_map(values, len(image))
    return (MAP_OPACITY * colours + (1 - MAP_OPACITY) * image).round().astype(np.uint8)


def patch_box(row: int, column: int, side: int) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of a patch, in pixels."""
    return (column * side, row * side, (column + 1) * side, (row + 1) * side)


def split(image: np.ndarray, rows: int, columns: int) -> list[np.ndarray]:
    """Cut an image (S, S, 3) into pieces, row by row."""
    side = len(image) // rows
    strips = (image[i * side : (i + 1) * side] for i in range(rows))
    return [strip[:, j * side : (j + 1) * side] for strip in strips for j in range(columns)]


def tile(images: Sequence[np.ndarray], columns: int) -> Image.Image:
    """Draw images in a square grid with transparent gaps."""
    gap = 4
    side = (SIDE - gap * (columns - 1)) // columns
    sheet = Image.new("RGBA", (SIDE, SIDE), GAP_COLOUR)
    for i, image in enumerate(images):
        row, column = divmod(i, columns)
        small = Image.fromarray(image).resize((side, side), Image.Resampling.LANCZOS)
        sheet.paste(small, (column * (side + gap), row * (side + gap)))
    return sheet


def draw_patches(context: AppContext) -> Image.Image:
    rows, columns = trace_photo(context, find_run(context, "vit")).grid
    return tile(split(resize_photo(), rows, columns), columns)


def draw_one_head(context: AppContext) -> Image.Image:
    """Draw the attention of one patch in one head, with a frame around the patch."""
    trace, (row, column) = trace_photo(context, find_run(context, "vit")), CHOSEN_PATCH
    rows, columns = trace.grid
    first = trace.num_prefix_tokens
    weights = trace.attention[2, 0, first + row * columns + column, first:].float().cpu().numpy()
    image = Image.fromarray(draw_over(resize_photo(), weights.reshape(rows, columns)))
    ImageDraw.Draw(image).rectangle(
        patch_box(row, column, SIDE // columns), outline="white", width=4
    )
    return image


def draw_heads(context: AppContext) -> Image.Image:
    trace = trace_photo(context, find_run(context, "vit"))
    maps = [values for layer in HEAD_LAYERS for values in trace.head_maps(layer)[:3]]
    return tile([draw_over(resize_photo(), values) for values in maps], 3)


def draw_rollout(context: AppContext) -> Image.Image:
    trace = trace_photo(context, find_run(context, "tuned"))
    values = trace.rollout_map(trace.num_layers, fusion="mean", discard_ratio=0.0)
    return Image.fromarray(draw_over(resize_photo(), values))


def draw_removed_patches(context: AppContext) -> Image.Image:
    """Draw the photo without the patches that the rollout ranks highest."""
    trace = trace_photo(context, find_run(context, "vit"))
    values, (_, columns) = compute_ranking_maps(trace)["rollout"][-1], trace.grid
    image, side = Image.fromarray(resize_photo()), SIDE // columns
    for patch in np.argsort(-values.ravel())[:REMOVED_PATCHES]:
        row, column = divmod(int(patch), columns)
        image.paste(REMOVED_COLOUR, patch_box(row, column, side))
    return image


def draw_ground_truth(context: AppContext) -> Image.Image:
    """Draw a ground truth image with its correct map."""
    truth = make_ground_truth_image(*THUMBNAIL_TRUTH)
    image = truth.image.resize((SIDE, SIDE), Image.Resampling.NEAREST)
    return Image.fromarray(draw_over(np.asarray(image), truth.patches.astype(float)))


def draw_confusion_matrix(context: AppContext) -> Image.Image:
    """Draw the tested model's confusion matrix; a square-root scale makes rare errors visible."""
    evaluation = find_run(context, "tested").evaluation
    counts = confusion_matrix(evaluation.probabilities, evaluation.labels)
    colours = colour_map(np.sqrt(counts / counts.sum(1, keepdims=True)), 10 * len(counts))
    return tile(split(colours, *counts.shape), len(counts))


def draw_curves(context: AppContext) -> Image.Image:
    """Draw the validation accuracy of three runs against the fraction of completed epochs."""
    scale, margin = 4, 12  # drawn larger and then reduced, for smooth lines
    sheet = Image.new("RGBA", (scale * SIDE, scale * SIDE), GAP_COLOUR)
    draw = ImageDraw.Draw(sheet)
    low, high = margin * scale, (SIDE - margin) * scale
    draw.line([(low, low), (low, high), (high, high)], fill=REMOVED_COLOUR, width=2 * scale)
    for name, colour in zip(CURVE_RUNS, CURVE_COLOURS, strict=True):
        values = np.array([each["val_accuracy"] for each in context.find_run(name).history])
        x = low + (high - low) * np.linspace(0.02, 1, len(values))
        y = high - (high - low) * values
        points = list(zip(x.tolist(), y.tolist(), strict=True))
        draw.line(points, fill=colour, width=4 * scale, joint="curve")
    return sheet.resize((SIDE, SIDE), Image.Resampling.LANCZOS)


def draw_shuffled_pieces(context: AppContext) -> Image.Image:
    return apply_changes(Image.fromarray(resize_photo()), ImageChanges(pieces=8))


def draw_sinks(context: AppContext) -> Image.Image:
    """Draw the attention of the fine-tuned model's last layer, with its few bright patches."""
    trace = trace_photo(context, find_run(context, "tuned"))
    return Image.fromarray(draw_over(resize_photo(), trace.head_maps(trace.num_layers).mean(0)))


DRAWINGS: dict[str, Callable[[AppContext], Image.Image]] = {  # lesson -> drawing
    "1-tokens": draw_patches,
    "2-attention": draw_one_head,
    "3-heads": draw_heads,
    "4-answer": draw_rollout,
    "5-true": draw_removed_patches,
    "6-errors": draw_confusion_matrix,
    "7-training": draw_curves,
    "8-convolution": draw_shuffled_pieces,
    "9-sinks": draw_sinks,
    "10-ground-truth": draw_ground_truth,
}


def main() -> None:
    context = AppContext([included_folder("runs")], None, torch.device("cpu"))
    for name, draw in DRAWINGS.items():
        path = LESSONS_FOLDER / DEFAULT_LANGUAGE / f"{name}{SUFFIX}"
        draw(context).save(path, "WEBP", quality=78, method=6)


if __name__ == "__main__":
    main()
