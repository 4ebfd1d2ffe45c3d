"""Mean faithfulness scores of a model's maps over many images, as a file in its run folder.

`benchmarks/faithfulness.py` writes `faithfulness.json`. For each replacement of removed patches,
the file contains the mean score of each map and the names of the best maps. For a model with
attention, the file also contains the score of each layer's mean attention. The file is valid only
for the weights that were measured, and is ignored for other weights.

Letters: N images, L layers.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import scipy  # scipy loads a submodule on first use

from vitdemo.explain.faithfulness import CENTRE_BASELINE, EDGE_BASELINE, SIGNIFICANCE_LEVEL
from vitdemo.metrics.paired import holm
from vitdemo.runs import DAMAGED_VALUES, read_measurements, write_measurements
from vitdemo.runs import FAITHFULNESS_FILE as FILE

BASELINE_NAMES = (CENTRE_BASELINE, EDGE_BASELINE)
DEFAULT_PART = "test"  # assumed part of the dataset for older files


@dataclass(frozen=True)
class FaithfulnessSummary:
    """Mean faithfulness scores of a model's maps on many images, for one replacement.

    `best` are the names from `find_best_maps`. `layers` (L,) are the scores of each layer's mean
    attention, or (). `steps` is the number of steps of each curve, or None if it is unknown. `part`
    is the part of the dataset with the images: "validation" or "test".
    """

    pictures: int
    scores: dict[str, float]
    best: tuple[str, ...]
    layers: tuple[float, ...] = ()
    steps: int | None = None
    part: str = DEFAULT_PART


def find_best_maps(scores: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Return the names of the best maps, from scores (N,) of each map on the same images.

    A best map has a significantly higher mean score than each baseline (`BASELINE_NAMES`), and no
    other map has a significantly higher mean score. Significant means p < 0.05 in a two-sided
    paired t-test with Holm's correction. The correction covers all comparisons: the leading map
    with each other map, and each map with each baseline. The map with the highest mean comes first.
    """
    maps = sorted(scores.keys() - set(BASELINE_NAMES), key=lambda name: -scores[name].mean())
    pairs = [(maps[0], name) for name in maps[1:]]
    pairs += [(name, baseline) for name in maps for baseline in BASELINE_NAMES]
    p = holm([paired_p_value(scores[one] - scores[other]) for one, other in pairs])
    higher = {
        (one, other)
        for (one, other), value in zip(pairs, p, strict=True)
        if value < SIGNIFICANCE_LEVEL and scores[one].mean() > scores[other].mean()
    }
    return tuple(
        name
        for name in maps
        if (maps[0], name) not in higher
        and all((name, other) in higher for other in BASELINE_NAMES)
    )


def paired_p_value(differences: np.ndarray) -> float:
    """Compute the p-value of a two-sided paired t-test of `differences` (N,)."""
    mean, error = abs(differences.mean()), differences.std(ddof=1) / len(differences) ** 0.5
    if not error:  # the t statistic is undefined without variance
        return 0.0 if mean else 1.0
    return float(2 * scipy.stats.t.sf(mean / error, len(differences) - 1))


def summarise_scores(
    scores: Mapping[str, np.ndarray],
    layers: np.ndarray,
    steps: int | None = None,
    part: str = DEFAULT_PART,
) -> FaithfulnessSummary:
    """Compute means over N images of `scores` (N,) by map or baseline, and of `layers` (N, L)."""
    means = {name: round(float(own.mean()), 4) for name, own in scores.items()}
    by_layer = tuple(round(float(score), 4) for score in layers.mean(0))
    return FaithfulnessSummary(
        len(scores[CENTRE_BASELINE]), means, find_best_maps(scores), by_layer, steps, part
    )


def write_summaries(
    folder: Path, by_fill: Mapping[str, FaithfulnessSummary], **description: object
) -> None:
    """Write `faithfulness.json` to the run folder `folder`, with the items of `description`."""
    by_replacement = {fill: asdict(found) for fill, found in by_fill.items()}
    write_measurements(folder, FILE, {**description, "fills": by_replacement})


def read_summaries(folder: Path) -> dict[str, FaithfulnessSummary]:
    """Read `faithfulness.json` from the run folder `folder`; return its summaries by replacement.

    Returns {} if the file does not exist, is damaged, or was measured with other weights. The best
    maps of older files are ignored, because these files do not contain the edge map as a baseline.
    """
    if (content := read_measurements(folder, FILE)) is None:
        return {}
    try:
        return {
            fill: FaithfulnessSummary(
                int(found["pictures"]),
                {str(name): float(score) for name, score in found["scores"].items()},
                tuple(map(str, found["best"])) if EDGE_BASELINE in found["scores"] else (),
                tuple(map(float, found.get("layers", ()))),
                found.get("steps", content.get("steps")),
                str(found.get("part", DEFAULT_PART)),
            )
            for fill, found in content["fills"].items()
        }
    except DAMAGED_VALUES:
        return {}
