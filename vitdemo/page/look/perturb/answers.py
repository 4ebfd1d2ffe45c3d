"""Every model's answer before and after a change, and the maps that follow it.

    untouched = canvas(workbench, image)
    changed = change(untouched, Changes(pieces=4))
    shifts, problems = shifts_of(workbench, untouched, changed)

The change is made once, on one picture, before each model's own preprocessing: all models see the
same. Letters: C classes, rows and columns of a patch grid.
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

MULTIPLE = PIECES[-1]  # every canvas can be cut into any of them
MAPS = ("rollout", "mean")  # what "attends to most" may go by


@dataclass(frozen=True)
class Shift:
    """What one model predicts (C,) of the untouched picture and of the changed one."""

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
        """The `most` likely classes before, then those that came among them since."""
        first, then = (np.argsort(-row, kind="stable")[:most] for row in (self.before, self.after))
        return list(dict.fromkeys([*first.tolist(), *then.tolist()]))


def canvas(workbench: Workbench, image: Image.Image) -> Image.Image:
    """The picture that hands work on: as large as the largest input of the trained models.

    An RGB square; a smaller picture stays as it is where its side can be cut into all `PIECES`,
    so that one of CIFAR-10 reaches the models with its own 32 pixels.
    """
    largest = max((run.preprocessing.size for run in workbench.trained_runs()), default=32)
    side = max(min(*image.size, largest), 32)
    side = -(-side // MULTIPLE) * MULTIPLE
    return image if image.size == (side, side) else inputs.square_crop(image, side)


def shifts_of(
    workbench: Workbench, before: Image.Image, after: Image.Image
) -> tuple[list[Shift], list[str]]:
    """Every trained model's two answers, and a sentence for each model that has none."""
    first, problems = workbench.answers(before)
    then = {answer.run.name: answer for answer in workbench.answers(after)[0]}
    found = [
        Shift(answer.run, answer.probabilities, then[answer.run.name].probabilities)
        for answer in first
        if answer.run.name in then
    ]
    return found, problems


def grid_of(workbench: Workbench, run: Run) -> tuple[int, int]:
    """Rows and columns of the model's patches; 8 x 8 for a model without. Raises `RunError`."""
    model = workbench.model(run)
    return tuple(model.patch_embed.grid_size) if workbench.layers(run) else (8, 8)


def most_attended(
    look: Traced, layer: int, removed: Removed, count: int, by: str = "rollout"
) -> list[int]:
    """The `count` patches of `removed.grid` still there that the class token attends to most.

    `by` is "rollout" up to the layer 1..L or "mean", that of its heads. On another grid than the
    model's a patch has the mean of what it covers. Fewer, where fewer are left.
    """
    values = torch.from_numpy(attended(look, layer, by))[None]  # (1, rows, columns)
    values = F.adaptive_avg_pool2d(values, removed.grid).flatten()  # (P,)
    order = values.argsort(descending=True, stable=True).tolist()
    return [cell for cell in order if cell not in removed.cells][:count]


def attended(look: Traced, layer: int, by: str) -> np.ndarray:
    """Attention of the class token (rows, columns): `by` "rollout" or "mean" of the heads."""
    if by not in MAPS:
        raise DataError(f"Unknown map '{by}': choose one of {', '.join(MAPS)}.")
    if by == "mean":
        return look.head_maps(layer).mean(0)
    return look.rollout_map(layer, fusion="mean", discard_ratio=0.0)


def at_random(removed: Removed, count: int, seed: int) -> Removed:
    """As many patches as are `removed`, or `count` where none is, each as likely and drawn anew:
    what `most_attended` must beat."""
    rows, columns = removed.grid
    order = np.random.default_rng(seed).permutation(rows * columns).tolist()
    return Removed(removed.grid, tuple(order[: len(removed.cells) or count]))


def shift_pieces(
    shifts: list[Shift], problems: list[str], changes: Changes, side: int
) -> list[Piece]:
    """A card a model with its answers before and after, and in words how many changed theirs.

    `side` is that of the `canvas`, in pixels: both answers are of it.
    """
    told = [Notice(problem) for problem in problems]
    sized = f"Answers to the picture as it is here, {side} × {side} pixels"
    if changes.untouched:
        words = "The picture is untouched: change it, and see which answers move."
        cards = [card(shift, "") for shift in shifts]
        return [Text(f"**{words}**", told=True), Text(f"{sized}.", quiet=True), *cards, *told]
    kept = sum(shift.was == shift.now for shift in shifts)
    models = "model keeps its" if len(shifts) == 1 else "models keep their"
    return [
        Text(f"**{kept} of {len(shifts)} {models} answer.**", told=True),
        Text(f"{sized}. Thin bars: before. Thick bars: now.", quiet=True),
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
    """Mean of the heads of `layer` and rollout up to it, untouched and changed."""
    named = [(after, "")]
    if not changes.untouched:
        named = [(before, ", untouched"), (after, ", changed")]
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
