"""Faithfulness scores of a model's maps over many images, as a file in its run folder.

`benchmarks/faithfulness.py` writes `faithfulness.json`. For each replacement of removed patches,
the file contains the mean score of each map, the names of the best maps, and for a model with
attention the score of each layer's mean attention. It also states the images and the number of
steps. The file belongs to one set of weights and is ignored for other weights.

Letters: N images, L layers.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import scipy  # loads its submodules when they are first used

from vitdemo.explain.faithfulness import CENTRE_BASELINE, EDGE_BASELINE, SIGNIFICANCE_LEVEL
from vitdemo.metrics.paired import holm
from vitdemo.runs import FAITHFULNESS_FILE as FILE
from vitdemo.runs import WEIGHTS_FILE

BASELINE_NAMES = (CENTRE_BASELINE, EDGE_BASELINE)
DEFAULT_PART = "test"  # for files that do not state the part of the dataset


@dataclass(frozen=True)
class FaithfulnessSummary:
    """Mean scores under one replacement, by map name, and the `best` maps of `find_best_maps`.

    `layers` (L,) are the scores of each layer's mean attention, or (). `steps` is the number of
    steps of each curve, None if it is not stated. `part` is the part of the dataset that the images
    come from: "validation" or "test".
    """

    pictures: int
    scores: dict[str, float]
    best: tuple[str, ...]
    layers: tuple[float, ...] = ()
    steps: int | None = None
    part: str = DEFAULT_PART


def find_best_maps(scores: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Return the maps that may be called among the best, from scores (N,) on the same images.

    A map is among the best if its mean score is significantly higher than the mean score of each
    baseline (`BASELINE_NAMES`), and no map has a significantly higher mean score. Significant means
    p < 0.05 in a two-sided paired t-test with Holm's correction. The correction covers all
    comparisons: the leading map with each other map, and each map with each baseline. The highest
    mean comes first.
    """
    maps = sorted(scores.keys() - set(BASELINE_NAMES), key=lambda name: -scores[name].mean())
    pairs = [(maps[0], name) for name in maps[1:]]
    pairs += [(name, baseline) for name in maps for baseline in BASELINE_NAMES]
    p = holm([_paired_p(scores[one] - scores[other]) for one, other in pairs])
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


def _paired_p(differences: np.ndarray) -> float:
    """Compute the p-value of a two-sided paired t-test of `differences` (N,)."""
    mean, error = abs(differences.mean()), differences.std(ddof=1) / len(differences) ** 0.5
    if not error:  # t is undefined without variance
        return 0.0 if mean else 1.0
    return float(2 * scipy.stats.t.sf(mean / error, len(differences) - 1))


def summarise_scores(
    scores: Mapping[str, np.ndarray],
    layers: np.ndarray,
    steps: int | None = None,
    part: str = DEFAULT_PART,
) -> FaithfulnessSummary:
    """Summarise `scores`, (N,) for each map and baseline, and `layers` (N, L); L may be 0."""
    means = {name: round(float(own.mean()), 4) for name, own in scores.items()}
    by_layer = tuple(round(float(score), 4) for score in layers.mean(0))
    return FaithfulnessSummary(
        len(scores[CENTRE_BASELINE]), means, find_best_maps(scores), by_layer, steps, part
    )


def write_summaries(
    folder: Path, by_fill: Mapping[str, FaithfulnessSummary], **description: object
) -> None:
    """Write the file to the run folder `folder`; `description` describe the measurement."""
    by_replacement = {fill: asdict(found) for fill, found in by_fill.items()}
    content = {"weights": hash_weights(folder), **description, "fills": by_replacement}
    beside = folder / f".{FILE}"
    beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    beside.replace(folder / FILE)


def read_summaries(folder: Path) -> dict[str, FaithfulnessSummary]:
    """Read the file of a run folder, by replacement.

    Returns {} if there is no file, if it is damaged, and if it belongs to other weights. Older
    files do not contain the edge map as a baseline; their best maps are ignored.
    """
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8-sig"))
        if content["weights"] != hash_weights(folder):
            return {}
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
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def hash_weights(folder: Path) -> str:
    """Return a hash of the run's weights. Raises `OSError` if there are none."""
    return hashlib.blake2b((folder / WEIGHTS_FILE).read_bytes(), digest_size=16).hexdigest()
