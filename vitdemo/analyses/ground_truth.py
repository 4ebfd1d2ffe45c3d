"""Attribution maps compared with the correct map, on images whose class depends only on marks.

The share of a map is the fraction of its positive weight on the patches of the marks. This is the
energy-based pointing game of Wang et al. 2020 (https://arxiv.org/abs/1910.01279). The chance level
is the fraction of patches that contain a mark, which is the share of a uniform map. The mean shares
of many images are stored as `shares.json` in the folder of the model.

    found = measure_shares(context, context.find_run("one-mark"), count=20)
    found.shares["relevance"].mean, found.chance

Letters: N images.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import scipy  # scipy loads a submodule on first use
import torch

from vitdemo.analyses.class_attribution import compute_class_attribution
from vitdemo.context import AppContext
from vitdemo.data.ground_truth import GroundTruthImage, make_ground_truth_image
from vitdemo.explain.attributions import OnStep
from vitdemo.explain.faithfulness.fills import predict_patch_sets
from vitdemo.runs import DAMAGED_VALUES, Run, read_measurements, write_measurements

SHARES_FILE = "shares.json"
RESAMPLES = 5000  # of the bootstrap
FIRST_MEASURED_SEED = 2000  # after the test images


@dataclass(frozen=True)
class MeanShare:
    """Mean share of a method over many images, with the ends of its 95% bootstrap interval.

    `low_gain` and `high_gain` are the ends of the interval of the mean difference from chance.
    """

    mean: float
    low: float
    high: float
    low_gain: float
    high_gain: float

    @property
    def is_above_chance(self) -> bool:
        return self.low_gain > 0


@dataclass(frozen=True)
class ShareSummary:
    """Mean shares of all methods on `images` images of a task, and the mean chance level.

    `accuracy` is the fraction of these images that the model classifies correctly, and
    `unmarked_accuracy` this fraction without the tokens of the marks.
    """

    images: int
    accuracy: float
    unmarked_accuracy: float
    chance: float
    shares: dict[str, MeanShare]


def share_on_patches(values: np.ndarray, patches: np.ndarray) -> float:
    """Return the fraction of the positive weight of a map that is on `patches`, 0 to 1.

    Both arrays are (rows, columns); `patches` is bool. A map without positive values has the share
    0. Raises `ValueError` if the shapes differ or a value is not finite.
    """
    if values.shape != patches.shape:
        raise ValueError(f"The map is {values.shape}, but the patches are {patches.shape}.")
    if not np.isfinite(values).all():
        raise ValueError("The map contains NaN or infinity. Use a map with finite values.")
    positive = values.clip(min=0).astype(np.float64)
    total = positive.sum()
    return float(positive[patches].sum() / total) if total else 0.0


def measure_shares(
    context: AppContext, run: Run, count: int, *, on_step: OnStep | None = None
) -> ShareSummary:
    """Measure the mean share of every method on `count` held-out images of the task of `run`.

    The maps explain the predicted class. `on_step` is called as (done, total) after each image.
    Raises `ValueError` for a run without a task, and for fewer than two images.
    """
    if count < 2:
        raise ValueError(f"count is {count}, but must be at least 2.")
    shares: dict[str, list[float]] = {}
    chances, hits, unmarked_hits = [], [], []
    for i in range(count):
        truth = make_ground_truth_image(run.name, FIRST_MEASURED_SEED + i)
        found = compute_class_attribution(context, run, truth.image, check_fast=False)
        for each in found.maps:
            shares.setdefault(each.method.name, []).append(
                share_on_patches(each.values, truth.patches)
            )
        chances.append(float(truth.patches.mean()))
        hits.append(int(found.probabilities.argmax()) == truth.label)
        unmarked_hits.append(predict_unmarked(context, run, truth) == truth.label)
        if on_step:
            on_step(i + 1, count)
    chance = np.array(chances)
    return ShareSummary(
        count,
        float(np.mean(hits)),
        float(np.mean(unmarked_hits)),
        float(chance.mean()),
        {name: summarise_shares(np.array(own), chance) for name, own in shares.items()},
    )


def predict_unmarked(context: AppContext, run: Run, truth: GroundTruthImage) -> int:
    """Return the index of the predicted class without the tokens of the marks."""
    _, pixels = context.prepare_input(run.preprocessing, truth.image)
    kept = torch.from_numpy(~truth.patches).flatten()[None]
    model = context.load_model(run)
    return int(predict_patch_sets(model, pixels, kept, truth.patches.shape, "drop").argmax())


def summarise_shares(shares: np.ndarray, chance: np.ndarray) -> MeanShare:
    """Return the mean of `shares` (N,), and bootstrap intervals over the images.

    The second interval is for the paired difference from the chance level `chance` (N,).
    """
    low, high = _bootstrap_mean(shares)
    return MeanShare(float(shares.mean()), low, high, *_bootstrap_mean(shares - chance))


def _bootstrap_mean(values: np.ndarray) -> tuple[float, float]:
    """Return the ends of the 95% percentile interval of the mean of `values` (N,) (Efron 1979)."""
    if not np.ptp(values):
        return float(values[0]), float(values[0])
    options = {"method": "percentile", "n_resamples": RESAMPLES, "vectorized": True}
    generator = np.random.default_rng(0)
    found = scipy.stats.bootstrap((values,), np.mean, rng=generator, **options)
    return tuple(map(float, found.confidence_interval))


def write_shares(folder: Path, summary: ShareSummary) -> None:
    """Write `shares.json` to the folder of the measured model."""
    write_measurements(folder, SHARES_FILE, asdict(summary))


def read_shares(folder: Path) -> ShareSummary | None:
    """Read `shares.json`; return None if it is missing, damaged or of other weights."""
    if (content := read_measurements(folder, SHARES_FILE)) is None:
        return None
    try:
        shares = {name: MeanShare(**each) for name, each in content.pop("shares").items()}
        return ShareSummary(**content, shares=shares)
    except DAMAGED_VALUES:
        return None
