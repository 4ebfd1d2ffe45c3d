"""What was measured of a model's maps on many pictures, as a file that travels with its run.

`benchmarks/faithfulness.py` writes `faithfulness.json` into a run folder: by fill, the mean score
of each map and the names of the best, and of a model with attention that of each layer's. It says
of which weights it speaks, and is silent of others.

Letters: N pictures, L layers.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from vitdemo.faithfulness import CENTRE
from vitdemo.metrics.intervals import mean_interval
from vitdemo.runs import FAITHFULNESS as FILE
from vitdemo.runs import WEIGHTS


@dataclass(frozen=True)
class Measured:
    """Of one fill: mean scores by the map's name, the `best` (see `best_of`), and the scores of the
    mean of the heads of each layer, (L,); () where there are none."""

    pictures: int
    scores: dict[str, float]
    best: tuple[str, ...]
    layers: tuple[float, ...] = ()


def best_of(scores: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """The maps that may be called the best, by the scores (N,) of each on the same pictures.

    All whose paired 95% interval of the difference to the highest mean holds 0, the highest first;
    of these only such as are beyond an order from the centre out, by the same interval. None where
    nothing is.
    """
    maps = sorted(scores.keys() - {CENTRE}, key=lambda name: -scores[name].mean())
    first = scores[maps[0]]
    ties = [name for name in maps if name == maps[0] or mean_interval(first - scores[name])[1] <= 0]
    return tuple(name for name in ties if mean_interval(scores[name] - scores[CENTRE])[1] > 0)


def summed_up(scores: Mapping[str, np.ndarray], layers: np.ndarray) -> Measured:
    """`scores` hold (N,) for each map and for `CENTRE`; `layers` are (N, L), L perhaps 0."""
    means = {name: round(float(own.mean()), 4) for name, own in scores.items()}
    by_layer = tuple(round(float(score), 4) for score in layers.mean(0))
    return Measured(len(scores[CENTRE]), means, best_of(scores), by_layer)


def write_measured(folder: Path, by_fill: Mapping[str, Measured], **words: object) -> None:
    """Write the file into the run folder `folder`; `words` say how it was measured."""
    fills = {fill: asdict(found) for fill, found in by_fill.items()}
    content = {"weights": fingerprint(folder), **words, "fills": fills}
    beside = folder / f".{FILE}"
    beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    beside.replace(folder / FILE)


def read_measured(folder: Path) -> dict[str, Measured]:
    """By fill; {} where nothing was measured, or not of these weights, or the file is damaged."""
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8-sig"))
        if content["weights"] != fingerprint(folder):
            return {}
        return {
            fill: Measured(
                int(found["pictures"]),
                {str(name): float(score) for name, score in found["scores"].items()},
                tuple(map(str, found["best"])),
                tuple(map(float, found.get("layers", ()))),
            )
            for fill, found in content["fills"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def fingerprint(folder: Path) -> str:
    """Of the weights in use. Raises `OSError` where there are none."""
    return hashlib.blake2b((folder / WEIGHTS).read_bytes(), digest_size=16).hexdigest()
