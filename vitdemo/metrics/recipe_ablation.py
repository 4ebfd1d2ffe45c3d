"""Ablation: settings in which runs differ from a baseline, and their effect on the accuracy.

    gain = compute_ablation(run, others).gains[0]
    gain.description, gain.test.difference  # "augmentation: none → …", 0.031

Both runs predicted the same test images, so the comparison is paired. The interval and p of a gain
cover only the variation between test images. If the baseline was also trained with other seeds,
`summarise_ablation` checks whether a gain exceeds the variation between seeds.

A *change* is a difference in one recipe setting (MixUp and CutMix count as one). The seed is not a
change.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from vitdemo.errors import RunError
from vitdemo.metrics import DASH, compute_accuracy, format_signed, format_signed_range
from vitdemo.metrics.classification_report import compare_runs, validated_evaluation
from vitdemo.metrics.intervals import mean_interval, seed_difference_threshold
from vitdemo.metrics.paired import (
    SIGNIFICANCE_THRESHOLD,
    McNemarResult,
    format_p_value,
    holm,
    is_correct,
)
from vitdemo.metrics.training_progress import RECIPE_DEFAULTS, recipe_field, uses_mixing
from vitdemo.models import get_family
from vitdemo.runs import Run
from vitdemo.training.recipes.ablations import declare_ablations

MIXING_PREFIXES = ("MixUp: ", "CutMix: ")  # these two settings count as one change
# Training has failed if (accuracy - chance) / (1 - chance) is below this fraction.
MIN_LEARNED_FRACTION = 1 / 9
MIN_SINGLE_CHANGES = 3  # minimum number of different changes in an ablation
# Fields without effect on training, or described by `_describe_start`
_IGNORED_FIELDS = ("note", "pretrained", "keep")
# Fields that have an effect only with another setting.
_FIELD_CONDITIONS: dict[str, Callable[[Run], Any]] = {
    "momentum": lambda run: recipe_field(run, "optimizer") in ("sgd", "muon"),
    "betas": lambda run: recipe_field(run, "optimizer") in ("adam", "adamw"),
    "warmup_epochs": lambda run: recipe_field(run, "schedule") != "one-cycle",
    "head_learning_rate": lambda run: recipe_field(run, "head_epochs"),
    "unmixed_epochs": uses_mixing,
    "whole_epochs": lambda run: recipe_field(run, "patch_dropout"),
    "teacher_share": lambda run: recipe_field(run, "teacher"),
}
# Names of fields and values on the page, where they differ from the names in the code.
_FIELD_TITLES = {
    "embed_dim": "width",
    "num_heads": "heads",
    "pos_embed": "position embedding",
    "global_pool": "pooling",
    "init": "initialisation",
    "stem": "patch embedding",
    "widths": "block widths",
    "drop_rate": "dropout",
    "drop_path_rate": "stochastic depth",
    "schedule": "learning-rate schedule",
    "warmup_epochs": "warm-up epochs",
    "layer_decay": "layer-wise learning-rate decay",
    "clip_norm": "gradient clipping",
    "head_epochs": "first epochs of the classifier head only",
    "head_learning_rate": "learning rate of the classifier head only",
    "flip": "horizontal flip",
    "crop_padding": "random-crop padding",
    "policy": "augmentation",
    "erasing": "random erasing",
    "cutout": "Cutout",
    "mixup": "MixUp",
    "cutmix": "CutMix",
    "unmixed_epochs": "last epochs without MixUp and CutMix",
    "whole_epochs": "last epochs with all patches",
    "teacher_share": "distillation weight",
    "mask_ratio": "fraction of hidden patches",
    "ema_decay": "EMA decay of the weights",
    "patience": "early stopping: epochs without improvement",
    "validation_share": "validation fraction",
    "train_pictures": "training images",
}
_VALUE_TITLES = {
    "": "none",
    "adamw": "AdamW",
    "adam": "Adam",
    "sgd": "SGD",
    "muon": "Muon",
    "one-cycle": "one cycle",
    "trivial": "TrivialAugment",
    "rand": "RandAugment",
    "auto": "AutoAugment",
    "trunc_normal": "truncated normal",
    "learn": "learned",
    "patch": "linear",
    "conv": "convolutional",
    "token": "class token",
    "avg": "mean of patches",
}
_OFF_AT_ZERO = (
    *("clip_norm", "crop_padding", "erasing", "cutout", "mixup", "cutmix", "patch_dropout"),
    *("ema_decay", "patience", "head_epochs"),
)


@dataclass(frozen=True)
class AblationGain:
    """Comparison of one run (first in `test`) with the baseline (second in `test`).

    `p` includes Holm's correction for all runs that are compared with the same baseline.
    `validation_gain` is the gain in validation accuracy, -1 to 1, or None if the two runs used
    different validation images. Use the validation gain, not the test result, to choose changes.
    """

    run: str
    differences: tuple[str, ...]
    test: McNemarResult
    p: float
    validation_gain: float | None
    has_learned: bool = True  # False if the accuracy is close to chance

    @property
    def recipe_changes(self) -> tuple[str, ...]:
        """Differences from the baseline other than the seed."""
        return tuple(text for text in self.differences if not text.startswith("seed: "))

    @property
    def seed_change(self) -> str:
        """Difference in the seed, such as "seed: 0 → 1"; empty if both have the same seed."""
        return next((text for text in self.differences if text not in self.recipe_changes), "")

    @property
    def is_single_change(self) -> bool:
        """Whether the run has learned, and its recipe has one change without counting the seed."""
        changes = {
            MIXING_PREFIXES if change.startswith(MIXING_PREFIXES) else change
            for change in self.recipe_changes
        }
        return self.has_learned and len(changes) == 1

    @property
    def is_seed_only(self) -> bool:
        """Whether the run uses the baseline's recipe with another seed."""
        return len(self.differences) > 0 and not self.recipe_changes

    @property
    def description(self) -> str:
        """All differences from the baseline as one text."""
        return "; ".join(self.differences)

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant on these test images."""
        return self.p < SIGNIFICANCE_THRESHOLD


@dataclass(frozen=True)
class RecipeAblation:
    """Comparison of runs with the `baseline`, evaluated on the same images.

    `accuracy` is the baseline's test accuracy. In `gains`, runs with a single change
    (`is_single_change`) come first, then repeats of the baseline with other seeds, then other runs.
    Each group is sorted by validation gain, because the test set must not be used for a choice.
    `exclusion_messages` contains a sentence for each run that cannot be compared.
    """

    baseline: str
    accuracy: float
    gains: tuple[AblationGain, ...]
    exclusion_messages: tuple[str, ...]

    @property
    def single_changes(self) -> list[AblationGain]:
        """Gains of single changes, one per change, with the baseline's seed if available."""
        single = [gain for gain in self.gains if gain.is_single_change]
        covered = {gain.recipe_changes for gain in single if not gain.seed_change}
        return [g for g in single if not g.seed_change or g.recipe_changes not in covered]

    @property
    def seed_repeats(self) -> list[AblationGain]:
        """Runs of the baseline's recipe with other seeds."""
        return [gain for gain in self.gains if gain.is_seed_only]

    def other_seed_gains(self, gain: AblationGain) -> list[float]:
        """Return the gains, -1 to 1, of the same change with other seeds.

        Each run is compared with the run of the baseline's recipe that has the same seed.
        """
        baselines = {repeat.seed_change: repeat.test.difference for repeat in self.seed_repeats}
        return [
            other.test.difference - baselines[other.seed_change]
            for other in self.gains
            if other.seed_change in baselines and other.recipe_changes == gain.recipe_changes != ()
        ]

    @property
    def seed_accuracies(self) -> list[float]:
        """Test accuracies of the baseline and of its repeats with other seeds, 0 to 1."""
        return [self.accuracy, *(repeat.test.first_accuracy for repeat in self.seed_repeats)]

    @property
    def seed_threshold(self) -> float | None:
        """`seed_difference_threshold` of the baseline, 0 to 1; None with only one seed."""
        return seed_difference_threshold(self.seed_accuracies) if self.seed_repeats else None

    def paired_seed_gains(self, gain: AblationGain) -> list[float]:
        """Return the paired gain for each seed that both recipes were trained with."""
        same_seed = [] if gain.seed_change else [gain.test.difference]
        return same_seed + self.other_seed_gains(gain)

    def exceeds_seed_variation(self, gain: AblationGain) -> bool | None:
        """Return whether `gain` exceeds the variation between seeds; None with only one seed.

        With two or more paired seeds, the 95% t interval of the mean gain must exclude 0. With one
        paired seed, the gain must exceed `seed_threshold`.
        """
        if self.seed_threshold is None:
            return None
        paired = self.paired_seed_gains(gain)
        if len(paired) > 1:
            _, low, high = mean_interval(np.array(paired))
            return not low <= 0 <= high
        return abs(gain.test.difference) > self.seed_threshold


def compute_ablation(
    baseline: Run, others: Sequence[Run], exclusion_messages: Sequence[str] = ()
) -> RecipeAblation:
    """Compare `others` with `baseline`. Raises `RunError` if their test images differ."""
    tests = [compare_runs(run, baseline).overall for run in others]
    p_values = holm([test.p for test in tests])
    gains = [
        AblationGain(
            run.name,
            tuple(list_differences(baseline, run)),
            test,
            float(p),
            compute_validation_gain(run, baseline),
            not is_at_chance(run),
        )
        for run, test, p in zip(others, tests, p_values, strict=True)
    ]
    gains.sort(key=_sort_key)
    evaluation = validated_evaluation(baseline)
    accuracy = compute_accuracy(evaluation.probabilities, evaluation.labels)
    return RecipeAblation(baseline.name, accuracy, tuple(gains), tuple(exclusion_messages))


def summarise_ablation(ablation: RecipeAblation) -> list[str]:
    """Return sentences that group the changes by verdict, and a sentence about the seeds."""
    significant = [gain for gain in ablation.single_changes if gain.is_significant]
    significant.sort(key=lambda gain: -abs(gain.test.difference))
    unclear = [gain for gain in significant if ablation.exceeds_seed_variation(gain) is False]
    confirmed = [gain for gain in significant if gain not in unclear]
    better = [gain for gain in confirmed if gain.test.difference > 0]
    worse = [gain for gain in confirmed if gain.test.difference <= 0]
    others = [gain for gain in ablation.single_changes if not gain.is_significant]
    sentences = [
        f"{heading}: {'; '.join(_describe_gain(gain, ablation) for gain in gains)}."
        for heading, gains in (
            (f"More accurate than {ablation.baseline}", better),
            (f"Less accurate than {ablation.baseline}", worse),
            ("Significant on these test images, but within the variation between seeds", unclear),
            ("Not significant on these test images", others),
        )
        if gains
    ]
    return sentences + ([_describe_seed_variation(ablation)] if ablation.single_changes else [])


def _describe_seed_variation(ablation: RecipeAblation) -> str:
    if not ablation.seed_repeats:
        return (
            f"{ablation.baseline} was trained with only one seed. These verdicts cover the "
            "variation between test images, but not between training seeds."
        )
    accuracies = " and ".join(f"{100 * a:.2f}" for a in sorted(ablation.seed_accuracies[1:]))
    n = len(ablation.seed_accuracies)
    deviation = 100 * float(np.std(ablation.seed_accuracies, ddof=1))
    degrees = "1 degree of freedom" if n == 2 else f"{n - 1} degrees of freedom"
    return (
        f"The test accuracy of the baseline is {100 * ablation.accuracy:.2f}%. With "
        f"{_seed_phrase(ablation.seed_repeats)}, it is {accuracies}%. The standard deviation over "
        f"{n} seeds is {deviation:.2f} percentage points. A gain measured with one seed is larger "
        f"than the variation between seeds only if it exceeds {100 * ablation.seed_threshold:.1f} "
        f"points (95%, Student's t with {degrees}). For gains measured with several seeds, the "
        "95% interval of the mean must exclude 0."
    )


def ablation_table(ablation: RecipeAblation) -> tuple[list[str], list[list[str]]]:
    """Return the header and a row per run, the baseline first; gains in percentage points."""
    header = ["Run", "Test accuracy (%)", "Gain, points", "95% interval", "p (Holm)"]
    header += ["Validation gain", "Changed settings"]
    baseline_row = [ablation.baseline, f"{100 * ablation.accuracy:.2f}", *[DASH] * 5]
    return header, [baseline_row, *map(_gain_row, ablation.gains)]


def _gain_row(gain: AblationGain) -> list[str]:
    return [
        gain.run,
        f"{100 * gain.test.first_accuracy:.2f}",
        format_signed(100 * gain.test.difference),
        format_signed_range(*100 * gain.test.interval),
        format_p_value(gain.p),
        DASH if gain.validation_gain is None else format_signed(100 * gain.validation_gain),
        gain.description or "none (same recipe)",
    ]


def _describe_gain(gain: AblationGain, ablation: RecipeAblation) -> str:
    """Describe a change, its gain in percentage points, and the gains with other seeds."""
    other_gains = ablation.other_seed_gains(gain)
    points = f"{format_signed(100 * gain.test.difference)} points"
    gains = " and ".join(format_signed(100 * value) for value in other_gains)
    details = f"; with {_seed_phrase(other_gains)} {gains}" if other_gains else ""
    if other_gains and not gain.seed_change:
        paired = np.array(ablation.paired_seed_gains(gain))
        mean, *ends = (100 * value for value in mean_interval(paired))
        details += f"; mean {format_signed(mean)}, 95% interval over seeds "
        details += format_signed_range(*ends)
    return f"{' and '.join(gain.differences)} ({points}{details})"


def _seed_phrase(seeds: Sequence) -> str:
    return "another seed" if len(seeds) == 1 else "other seeds"


def compute_validation_gain(run: Run, baseline: Run) -> float | None:
    """Return the validation accuracy of `run` minus the baseline's, -1 to 1.

    Returns None if a run has no validation predictions or the validation images differ.
    """
    evaluations = [validated_evaluation(member) for member in (run, baseline)]
    labels = [e.validation_labels for e in evaluations]
    if any(member is None or not len(member) for member in labels) or not np.array_equal(*labels):
        return None
    correct = [is_correct(e.validation_probabilities, e.validation_labels) for e in evaluations]
    return float(correct[0].mean() - correct[1].mean())


def _sort_key(gain: AblationGain) -> tuple:
    is_validated = gain.validation_gain is not None
    value = gain.validation_gain if is_validated else gain.test.difference
    return not gain.is_single_change, not gain.is_seed_only, not is_validated, -value


def find_ablations(runs: Iterable[Run]) -> dict[str, list[str]]:
    """Return the declared ablations among runs: baseline -> names of the baseline and other runs.

    The baseline is a run of the baseline's recipe. If there are several, the run with the most
    frequent seed is used. An ablation contains runs with at least `MIN_SINGLE_CHANGES` different
    changes, on the same dataset. The ablations are sorted by their number of runs with the
    baseline's seed, largest first, then by name.
    """
    studies: dict[tuple, list[tuple[Run, str]]] = {}
    for run in sorted(runs, key=lambda run: run.name):
        for recipe, change in read_ablations(run):
            studies.setdefault((recipe, run.classes, run.dataset_name), []).append((run, change))
    found = []
    for members in studies.values():
        bases = [run for run, change in members if not change]
        changes = {change.partition(":")[0] for _, change in members if change}
        if not bases or len(changes) < MIN_SINGLE_CHANGES:
            continue
        counts = Counter(recipe_field(run, "seed") for run, _ in members)
        rank, base = min((-counts[recipe_field(run, "seed")], run.name) for run in bases)
        names = [base, *(run.name for run, _ in members if run.name != base)]
        found.append((rank, base, names))
    return {base: names for _, base, names in sorted(found)}


def read_ablations(run: Run) -> list[tuple[str, str]]:
    """Return the ablations that a run declares: (recipe of the baseline, name of the change).

    The change is "" for a run of the baseline's recipe. Old runs have no declaration; see
    `declare_ablations`.
    """
    recorded = run.config.get("ablations")
    if not isinstance(recorded, list):
        recorded = declare_ablations(run.config["recipe"])
    return [
        (str(each["baseline"]), str(each["change"]))
        for each in recorded
        if isinstance(each, dict) and {"baseline", "change"} <= each.keys()
    ]


def is_at_chance(run: Run) -> bool:
    """Return whether the test accuracy is close to chance, for example after divergence."""
    try:
        evaluation = validated_evaluation(run)
    except RunError:
        return False
    chance = 1 / len(run.classes)
    accuracy = compute_accuracy(evaluation.probabilities, evaluation.labels)
    return accuracy < chance + MIN_LEARNED_FRACTION * (1 - chance)


def list_differences(baseline: Run, run: Run) -> list[str]:
    """List the settings that differ, such as "augmentation: none → RandAugment".

    Dependent settings are not listed separately: two optimizers also differ in the learning rate,
    and only one of them may have a momentum or betas.
    """
    first, second = describe_settings(baseline), describe_settings(run)
    changes = {"model": tuple(r.spec.name or r.spec.family for r in (baseline, run))}
    if len({*changes["model"]}) == 1:
        options = dict.fromkeys([*baseline.spec.options, *run.spec.options])
        changes |= {o: tuple(_format_option(r, o) for r in (baseline, run)) for o in options}
    if first["optimizer"] != second["optimizer"]:
        for texts in (first, second):
            texts["optimizer"] += f", learning rate {texts.pop('learning_rate')}"
    changes |= {field: (first[field], second[field]) for field in first if field in second}
    return [
        f"{_FIELD_TITLES.get(field, field.replace('_', ' '))}: {before} → {after}"
        for field, (before, after) in changes.items()
        if before != after
    ]


def describe_settings(run: Run) -> dict[str, str]:
    """Return the training settings of `run` without its model: recipe field -> text.

    Fields without effect are omitted. Fields that are missing in an older run have the default
    value.
    """
    texts = {"image_size": str(run.spec.image_size), "start": _describe_start(run)}
    for field in RECIPE_DEFAULTS:
        if field not in _IGNORED_FIELDS and (
            field not in _FIELD_CONDITIONS or _FIELD_CONDITIONS[field](run)
        ):
            texts[field] = _format_setting(field, recipe_field(run, field))
    return texts


def _format_setting(field: str, value: Any) -> str:
    if not value and field in _OFF_AT_ZERO:
        return "none"
    if (field, value) == ("train_pictures", 0):
        return "all"
    if field == "teacher" and value:
        return PurePath(value).name
    return _format_value(value)


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " and ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else _VALUE_TITLES.get(str(value), str(value))


def _format_option(run: Run, name: str) -> str:
    default = get_family(run.spec).option_defaults.get(name, "default")
    return _format_value(run.spec.options.get(name, default))


def _describe_start(run: Run) -> str:
    if run.origin:
        name, epochs = (run.origin.get(key, "?") for key in ("run", "epochs"))
        # Repeats with other seeds may start from weights of other seeds. The seed is removed from
        # the name, so that all repeats count as the same change.
        name = str(name).replace(f"-seed-{recipe_field(run, 'seed')}", "")
        return f"weights of {name} after {epochs} epochs"
    if recipe_field(run, "pretrained"):
        return "pretrained weights"
    from_file = "--weights" in str(run.config.get("command", ""))  # file outside run folders
    return "weights from a file" if from_file else "random weights"
