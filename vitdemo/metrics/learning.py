"""What a run's history and recipe say of how it learned: stages, milestones, and the gap.

Everything is read from `config.json` and `history.jsonl`; what a recipe does not say has the value
that `Recipe` gives it.
"""

import math
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from statistics import median
from typing import Any

import pandas as pd

from vitdemo.metrics import DASH, counted
from vitdemo.recipes import Recipe
from vitdemo.runs import Run, lineage

STEP = 5  # percent of validation accuracy between two milestones, at least
DEFAULTS = {f.name: f.default for f in fields(Recipe) if f.default is not MISSING}


@dataclass(frozen=True)
class Stage:
    """Something that changes `after` so many epochs (0: at the start), in words."""

    after: float
    words: str

    @property
    def when(self) -> str:
        return f"after {counted(self.after, 'epoch')}" if self.after else "at the start"


@dataclass(frozen=True)
class Reached:
    """The first epoch whose validation accuracy is at least `share`, and the minutes up to it."""

    share: float
    epoch: int
    minutes: float


def setting(run: Run, field: str) -> Any:
    """A field of the run's recipe; the default where the run is older than the field or odd."""
    default = DEFAULTS[field]
    value = run.config["recipe"].get(field, default)
    kinds = (str, (int, float), (tuple, list))
    kind = next(kind for kind in kinds if isinstance(default, kind))
    return value if isinstance(value, kind) else default


def epoch_count(run: Run) -> str:
    """Its epochs, "24", or "24 + 22" with those of the training that it started from, ..."""
    own = run.history[-1]["epoch"] if run.history else 0
    return " + ".join(map(str, (own, *run.epochs_before)))


def smoothed(values: Sequence[float], weight: float) -> list[float]:
    """Exponential mean: `weight` 0..1 of what came before, 0 changes nothing.

    Divided by the weights' sum, so that the first values are not drawn towards zero (Kingma & Ba
    2015, section 3). An epoch without a number (NaN) has none here either.
    """
    series = pd.Series(values, dtype=float)
    return series.ewm(alpha=1 - weight).mean().where(series.notna()).tolist()


def minutes(run: Run) -> list[float]:
    """`Run.elapsed` in minutes."""
    return [seconds / 60 for seconds in run.elapsed]


def gap(run: Run) -> list[float]:
    """Training minus validation accuracy at each epoch, in percentage points."""
    return [100 * (r["train_accuracy"] - r["val_accuracy"]) for r in run.history]


def milestones(runs: Sequence[Run]) -> list[float]:
    """Up to three shares of validation accuracy, multiples of 5 %, that tell these runs apart.

    What the worst, the middle and the best of them reach at best; where these are one, the two
    steps before it as well.
    """
    best = [max(r["val_accuracy"] for r in run.history) for run in runs if run.history]
    if not best:
        return []
    steps = {
        math.floor(100 * share / STEP + 1e-9) for share in (min(best), median(best), max(best))
    }
    for below in (1, 2):
        if len(steps) < 3:
            steps.add(max(steps) - below)
    return sorted(STEP * step / 100 for step in steps if step > 0)


def images_per_second(run: Run) -> float | None:
    """The median of the epochs, so that one that shared the machine does not speak for all."""
    return median(r["images_per_second"] for r in run.history) if run.history else None


def reached(run: Run, shares: Sequence[float]) -> list[Reached]:
    """When the run first had these shares of validation accuracy, of those that it had."""
    found = []
    for share in shares:
        for record, total in zip(run.history, minutes(run), strict=True):
            if record["val_accuracy"] >= share:
                found.append(Reached(share, record["epoch"], total))
                break
    return found


def milestone_rows(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """When each run first had reached what, the best of them first: (header, a row each).

    Runs without an epoch are left out.
    """
    shares, rows = milestones(runs), []
    for run in runs:
        if not run.history:
            continue
        known = {found.share: found for found in reached(run, shares)}
        cells = [
            f"epoch {first.epoch}, {first.minutes:.1f} min" if (first := known.get(share)) else DASH
            for share in shares
        ]
        best = max(record["val_accuracy"] for record in run.history)
        rows.append((-best, [run.name, *cells, f"{100 * best:.2f} %"]))
    header = ["Run", *(f"{100 * share:.0f} %" for share in shares), "Best"]
    return header, [row for _, row in sorted(rows)]


def epoch_of_weights(run: Run) -> int:
    """The epoch whose weights the run has, counted through its `runs.lineage`; 0 before one has
    ended."""
    record = run.record_of_weights
    return lineage(run)[-1][0] + record["epoch"] if record else 0


def whole(run: Run) -> Run:
    """`run` with the history of all trainings of its `runs.lineage`, epochs and seconds counted
    from the first of them on."""
    line = lineage(run)
    history = [r | {"epoch": before + r["epoch"]} for before, each in line for r in each.history]
    started = {"started_from": line[0][1].config.get("started_from")}
    return replace(run, history=history, config=run.config | started) if line[1:] else run


def stages(run: Run) -> list[Stage]:
    """When the trainings of the run's `runs.lineage` change their manner, in order of time, counted
    as in `whole`."""
    return [
        replace(stage, after=before + stage.after)
        for before, training in lineage(run)
        for stage in _own_stages(training, left=training is not run)
    ]


def _own_stages(run: Run, left: bool) -> list[Stage]:
    """Those of its own recipe, up to where it was ended before its time, or `left` for another."""
    head, epochs = setting(run, "head_epochs"), setting(run, "epochs")
    warmup, resting = setting(run, "warmup_epochs"), setting(run, "unmixed_epochs")
    total = head + epochs
    found = []
    if run.origin:
        found.append(Stage(0, _origin_words(run)))
    if head:
        found.append(Stage(head, "the head alone until here, then the whole model"))
    if setting(run, "schedule") == "one-cycle":
        found.append(Stage(head + 0.3 * epochs, "the learning rate rises until here"))
    elif warmup:
        found.append(Stage(head + warmup, "warm-up of the learning rate ends"))
    if resting and mixes(run) and resting < total:
        found.append(Stage(total - resting, "MixUp and CutMix rest from here on"))
    whole = setting(run, "whole_epochs")
    if setting(run, "patch_dropout") and 0 < whole < total:
        found.append(Stage(total - whole, "no patch is dropped from here on"))
    if setting(run, "patience") and (best := run.record_of_weights):
        found.append(Stage(best["epoch"], "lowest validation loss: these weights are kept"))
    ended = run.history and (left or "stopped" in run.config)
    end = run.history[-1]["epoch"] if ended else math.inf
    return sorted((stage for stage in found if stage.after <= end), key=lambda stage: stage.after)


def _origin_words(run: Run) -> str:
    name, epochs = run.origin.get("run", "?"), " + ".join(map(str, run.epochs_before)) or "?"
    minutes = run.seconds_before / 60
    return (
        f"the weights of {name}, whose {epochs} epochs took {minutes:.1f} minutes that count here"
    )


def mixes(run: Run) -> bool:
    return bool(setting(run, "mixup") or setting(run, "cutmix"))


def reasons(run: Run) -> list[str]:
    """Why the run's training figures may look worse than validation, strongest reason first."""
    found = []
    if mixes(run):
        names = [n for n in ("mixup", "cutmix") if setting(run, n)]
        words = " and ".join({"mixup": "MixUp", "cutmix": "CutMix"}[n] for n in names)
        found.append(
            f"Under {words} the model sees two pictures in one; an answer counts as right only "
            "where it names the larger part, and no answer can bring the loss near 0."
        )
    if setting(run, "patch_dropout"):
        found.append(
            f"Training pictures lack {100 * setting(run, 'patch_dropout'):g} % of their patches; "
            "validation pictures lack none."
        )
    harder = [
        words
        for field, words in (
            ("policy", "changed by random operations"),
            ("erasing", "partly erased"),
            ("cutout", "partly cut out"),
            ("crop_padding", "shifted"),
            ("flip", "mirrored"),
        )
        if field in DEFAULTS and setting(run, field) not in (0, False, "none")
    ]
    if harder:
        found.append(
            f"Training pictures are {listed(harder)}; validation pictures are as they are."
        )
    options = run.spec.options
    if options.get("drop_rate") or options.get("drop_path_rate"):
        found.append(
            "Dropout or drop path switches parts of the model off while it trains, never while it "
            "is validated."
        )
    if setting(run, "label_smoothing"):
        found.append(
            "Label smoothing keeps the training loss above 0 even for perfect answers; validation "
            "loss is plain cross-entropy."
        )
    if setting(run, "ema_decay"):
        found.append(
            "Validation uses the running mean of the weights (EMA); training accuracy is that of "
            "the weights at each step."
        )
    found.append(
        "Training figures are means over the epoch, in which the model was worse at first; "
        "validation comes at its end."
    )
    return found


def below_validation(run: Run) -> int:
    """In how many epochs the training accuracy was below validation's."""
    return sum(points < 0 for points in gap(run))


def listed(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
