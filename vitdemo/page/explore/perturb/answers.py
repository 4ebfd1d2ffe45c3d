"""Predictions of all models before and after a change, and attention maps of the changed image.

    untouched = make_canvas(context, image)
    changed = apply_changes(untouched, ImageChanges(pieces=4))
    shifts, problems = predict_changes(context, untouched, changed)

The image is changed before any model's preprocessing, so all models receive the same image.
Letters: C classes, rows and columns of a patch grid.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from vitdemo.context import AppContext
from vitdemo.data import image_files
from vitdemo.data.perturb.changes import PIECE_CHOICES, ImageChanges, RemovedPatches
from vitdemo.errors import DataError
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.page.components.article import DocumentBlock, Notice, ProbabilityChange, Text
from vitdemo.page.components.maps import MapPanel, MapRow, describe_peak
from vitdemo.runs import Run

CANVAS_MULTIPLE = PIECE_CHOICES[
    -1
]  # the canvas side is a multiple of this, and so of every number in `PIECE_CHOICES`
RANKING_MAPS = ("rollout", "mean")  # maps that rank the patches


@dataclass(frozen=True)
class PredictionChange:
    """Class probabilities (C,) of one model before and after the change of the image."""

    run: Run
    before: np.ndarray
    after: np.ndarray

    @property
    def class_before(self) -> str:
        return self.run.classes[int(self.before.argmax())]

    @property
    def class_after(self) -> str:
        return self.run.classes[int(self.after.argmax())]

    def top_classes(self, most: int = 3) -> list[int]:
        """Return the `most` likely classes before the change, then further classes after it."""
        first, then = (np.argsort(-row, kind="stable")[:most] for row in (self.before, self.after))
        return list(dict.fromkeys([*first.tolist(), *then.tolist()]))


def make_canvas(context: AppContext, image: Image.Image) -> Image.Image:
    """Return the RGB square to change, not larger than the largest model input.

    Every number in `PIECE_CHOICES` divides the side. A smaller image with such a side keeps its
    size, such as a CIFAR-10 image with 32 pixels.
    """
    largest = max((run.preprocessing.size for run in context.trained_runs()), default=32)
    side = max(min(*image.size, largest), 32)
    side = -(-side // CANVAS_MULTIPLE) * CANVAS_MULTIPLE
    return image if image.size == (side, side) else image_files.crop_and_resize(image, side)


def predict_changes(
    context: AppContext, before: Image.Image, after: Image.Image
) -> tuple[list[PredictionChange], list[str]]:
    """Return each model's predictions before and after a change, and a message per failed model."""
    first, problems = context.predict_all(before)
    then = {answer.run.name: answer for answer in context.predict_all(after)[0]}
    found = [
        PredictionChange(answer.run, answer.probabilities, then[answer.run.name].probabilities)
        for answer in first
        if answer.run.name in then
    ]
    return found, problems


def patch_grid(context: AppContext, run: Run) -> tuple[int, int]:
    """Return the model's patch grid (rows, columns); 8 x 8 for a convolutional model."""
    model = context.load_model(run)
    return tuple(model.patch_embed.grid_size) if context.count_layers(run) else (8, 8)


def rank_patches(
    look: ImageTrace, layer: int, removed: RemovedPatches, count: int, ranking: str = "rollout"
) -> list[int]:
    """Return the `count` remaining patches that the class token attends to most.

    `ranking` is "rollout" (up to the layer 1..L) or "mean" (mean of the heads in this layer).
    Patches are numbered on `removed.grid`. If the model's grid is different, the attention map is
    averaged over each patch. The list is shorter if fewer than `count` patches remain.
    """
    values = torch.from_numpy(compute_ranking_map(look, layer, ranking))[None]  # (1, rows, columns)
    values = F.adaptive_avg_pool2d(values, removed.grid).flatten()  # (P,)
    order = values.argsort(descending=True, stable=True).tolist()
    return [cell for cell in order if cell not in removed.cells][:count]


def compute_ranking_map(look: ImageTrace, layer: int, ranking: str) -> np.ndarray:
    """Return the map (rows, columns) that ranks the patches: "rollout", or "mean" of the heads."""
    if ranking not in RANKING_MAPS:
        raise DataError(f"Unknown map '{ranking}': choose one of {', '.join(RANKING_MAPS)}.")
    if ranking == "mean":
        return look.head_maps(layer).mean(0)
    return look.rollout_map(layer, fusion="mean", discard_ratio=0.0)


def sample_patches(removed: RemovedPatches, count: int, seed: int) -> RemovedPatches:
    """Return random patches, as many as are `removed`, or `count` if none is removed.

    All patches are equally likely. Random patches are the baseline of `rank_patches`.
    """
    rows, columns = removed.grid
    order = np.random.default_rng(seed).permutation(rows * columns).tolist()
    return RemovedPatches(removed.grid, tuple(order[: len(removed.cells) or count]))


def change_blocks(
    shifts: list[PredictionChange], problems: list[str], changes: ImageChanges, side: int
) -> list[DocumentBlock]:
    """Return the number of unchanged predictions, and a card with the predictions of each model.

    `side` is the side of the changed image in pixels.
    """
    told = [Notice(problem) for problem in problems]
    sized = f"Predictions for the image at this size, {side} × {side} pixels"
    if changes.is_identity:
        words = "The image is unchanged. Change it to see which predictions change."
        cards = [change_card(shift, "") for shift in shifts]
        return [Text(f"**{words}**", told=True), Text(f"{sized}.", quiet=True), *cards, *told]
    kept = sum(shift.class_before == shift.class_after for shift in shifts)
    models = "model keeps its" if len(shifts) == 1 else "models keep their"
    return [
        Text(f"**{kept} of {len(shifts)} {models} prediction.**", told=True),
        Text(f"{sized}. Thin bars: original image. Thick bars: changed image.", quiet=True),
        *(change_card(shift, "still ") for shift in shifts),
        *told,
    ]


def change_card(shift: PredictionChange, still: str) -> ProbabilityChange:
    kept = shift.class_before == shift.class_after
    verdict = (
        f"{still}{shift.class_before}"
        if kept
        else f"{shift.class_before} → **{shift.class_after}**"
    )
    rows = [
        (shift.run.classes[i], float(shift.before[i]), float(shift.after[i]))
        for i in shift.top_classes()
    ]
    return ProbabilityChange(f"{shift.run.name}: {verdict}", rows)


def attention_map_row(
    before: ImageTrace, after: ImageTrace, layer: int, changes: ImageChanges
) -> MapRow:
    """Return attention maps of the original and the changed image: mean of heads, and rollout."""
    named = [(after, "")]
    if not changes.is_identity:
        named = [(before, ", original"), (after, ", changed")]
    span = f"layers 1 to {layer}" if layer > 1 else "layer 1"
    titles = {"mean": f"Mean of the heads, layer {layer}", "rollout": f"Rollout, {span}"}
    panels = [
        attention_panel(look, compute_ranking_map(look, layer, by), title + which)
        for by, title in titles.items()
        for look, which in named
    ]
    words = (
        f"Attention of {after.run.name} to the current image. Bright: {after.reader_name} attends "
        f"most to this patch in layer {layer}, or in the rollout up to this layer. Attention "
        "does not explain the prediction."
    )
    return MapRow(panels, words)


def attention_panel(look: ImageTrace, values: np.ndarray, title: str) -> MapPanel:
    lines = [f"strongest in {describe_peak(values)}"]
    return MapPanel(title, values, look.input_image, f"{look.run.name}: {title}", lines=lines)
