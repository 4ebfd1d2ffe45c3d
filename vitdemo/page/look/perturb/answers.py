"""Predictions of all models before and after a change, and attention maps of the changed image.

    untouched = canvas(workbench, image)
    changed = change(untouched, Changes(pieces=4))
    shifts, problems = shifts_of(workbench, untouched, changed)

One image is changed once, before the preprocessing of each model, so all models receive the same
image. Letters: C classes, rows and columns of a patch grid.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from vitdemo import inputs
from vitdemo.errors import DataError
from vitdemo.page.components.article import Moved, Notice, Piece, Text
from vitdemo.page.components.maps import MapRow, Panel, peak
from vitdemo.perturb.changes import PIECES, Changes, Removed
from vitdemo.runs import Run
from vitdemo.traced import Traced
from vitdemo.workbench import Workbench

MULTIPLE = PIECES[-1]  # of the canvas side, so that every number of `PIECES` divides it
MAPS = ("rollout", "mean")  # ways to rank patches by attention


@dataclass(frozen=True)
class Shift:
    """Probabilities (C,) of one model for the original image and for the changed one."""

    run: Run
    before: np.ndarray
    after: np.ndarray

    @property
    def was(self) -> str:
        return self.run.classes[int(self.before.argmax())]

    @property
    def now(self) -> str:
        return self.run.classes[int(self.after.argmax())]

    def classes(self, most: int = 3) -> list[int]:
        """Return the `most` likely classes before, then new ones among the `most` likely after."""
        first, then = (np.argsort(-row, kind="stable")[:most] for row in (self.before, self.after))
        return list(dict.fromkeys([*first.tolist(), *then.tolist()]))


def canvas(workbench: Workbench, image: Image.Image) -> Image.Image:
    """Return the image to change, an RGB square as large as the largest model input.

    A smaller image keeps its size if every number of `PIECES` divides its side. A CIFAR-10 image
    therefore reaches the models with its own 32 pixels.
    """
    largest = max((run.preprocessing.size for run in workbench.trained_runs()), default=32)
    side = max(min(*image.size, largest), 32)
    side = -(-side // MULTIPLE) * MULTIPLE
    return image if image.size == (side, side) else inputs.square_crop(image, side)


def shifts_of(
    workbench: Workbench, before: Image.Image, after: Image.Image
) -> tuple[list[Shift], list[str]]:
    """Return the two predictions of each trained model, and a message for each failed model."""
    first, problems = workbench.answers(before)
    then = {answer.run.name: answer for answer in workbench.answers(after)[0]}
    found = [
        Shift(answer.run, answer.probabilities, then[answer.run.name].probabilities)
        for answer in first
        if answer.run.name in then
    ]
    return found, problems


def grid_of(workbench: Workbench, run: Run) -> tuple[int, int]:
    """Return rows and columns of the model's patches, 8 x 8 without patches. Raises `RunError`."""
    model = workbench.model(run)
    return tuple(model.patch_embed.grid_size) if workbench.layers(run) else (8, 8)


def most_attended(
    look: Traced, layer: int, removed: Removed, count: int, by: str = "rollout"
) -> list[int]:
    """Return the `count` remaining patches that the class token attends to most.

    `by` is "rollout" (up to the layer 1..L) or "mean" (mean of the heads in this layer). The
    patches are those of `removed.grid`. If this is not the model's grid, the map is averaged over
    each patch. The list is shorter if fewer than `count` patches remain.
    """
    values = torch.from_numpy(attended(look, layer, by))[None]  # (1, rows, columns)
    values = F.adaptive_avg_pool2d(values, removed.grid).flatten()  # (P,)
    order = values.argsort(descending=True, stable=True).tolist()
    return [cell for cell in order if cell not in removed.cells][:count]


def attended(look: Traced, layer: int, by: str) -> np.ndarray:
    """Return the class token's attention (rows, columns) by "rollout" or "mean" of the heads."""
    if by not in MAPS:
        raise DataError(f"Unknown map '{by}': choose one of {', '.join(MAPS)}.")
    if by == "mean":
        return look.head_maps(layer).mean(0)
    return look.rollout_map(layer, fusion="mean", discard_ratio=0.0)


def at_random(removed: Removed, count: int, seed: int) -> Removed:
    """Return as many random patches as are `removed`, or `count` if none is removed.

    All patches are equally likely. This is the baseline of `most_attended`.
    """
    rows, columns = removed.grid
    order = np.random.default_rng(seed).permutation(rows * columns).tolist()
    return Removed(removed.grid, tuple(order[: len(removed.cells) or count]))


def shift_pieces(
    shifts: list[Shift], problems: list[str], changes: Changes, side: int
) -> list[Piece]:
    """Return a card per model with its predictions before and after, and the number that changed.

    `side` is the side of the `canvas` in pixels: all predictions are for this size.
    """
    told = [Notice(problem) for problem in problems]
    sized = f"Predictions for the image at this size, {side} × {side} pixels"
    if changes.untouched:
        words = "The image is unchanged. Change it to see which predictions change."
        cards = [card(shift, "") for shift in shifts]
        return [Text(f"**{words}**", told=True), Text(f"{sized}.", quiet=True), *cards, *told]
    kept = sum(shift.was == shift.now for shift in shifts)
    models = "model keeps its" if len(shifts) == 1 else "models keep their"
    return [
        Text(f"**{kept} of {len(shifts)} {models} prediction.**", told=True),
        Text(f"{sized}. Thin bars: original image. Thick bars: changed image.", quiet=True),
        *(card(shift, "still ") for shift in shifts),
        *told,
    ]


def card(shift: Shift, still: str) -> Moved:
    kept = shift.was == shift.now
    verdict = f"{still}{shift.was}" if kept else f"{shift.was} → **{shift.now}**"
    rows = [
        (shift.run.classes[i], float(shift.before[i]), float(shift.after[i]))
        for i in shift.classes()
    ]
    return Moved(f"{shift.run.name}: {verdict}", rows)


def maps_row(before: Traced, after: Traced, layer: int, changes: Changes) -> MapRow:
    """Return maps of the original and the changed image: head mean of `layer`, and rollout."""
    named = [(after, "")]
    if not changes.untouched:
        named = [(before, ", original"), (after, ", changed")]
    span = f"layers 1 to {layer}" if layer > 1 else "layer 1"
    titles = {"mean": f"Mean of the heads, layer {layer}", "rollout": f"Rollout, {span}"}
    panels = [
        map_panel(look, attended(look, layer, by), title + which)
        for by, title in titles.items()
        for look, which in named
    ]
    words = (
        f"The attention of {after.run.name} to the image as it is now. Bright: {after.reader} "
        f"attends most to this patch in layer {layer}, or in the rollout up to it. That is not the "
        "reason for the prediction."
    )
    return MapRow(panels, words)


def map_panel(look: Traced, values: np.ndarray, title: str) -> Panel:
    lines = [f"strongest in {peak(values)}"]
    return Panel(title, values, look.seen, f"{look.run.name}: {title}", lines=lines)
