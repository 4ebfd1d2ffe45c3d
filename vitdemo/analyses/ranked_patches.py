"""A ranking of a few patches by hand, compared with maps, random rankings and a search.

    found = compare_ranking(context, maps, image, [12, 13, 20], fill="drop")
    found.scores["relevance"]  # of the first three patches of this map

Letters: P patches (rows x columns), K ranked patches, R random rankings.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitdemo.analyses.class_attribution import ClassAttribution, compute_ranking
from vitdemo.context import AppContext
from vitdemo.explain import attributions
from vitdemo.explain.attributions import OnStep
from vitdemo.explain.faithfulness.baselines import draw_random_rankings, rank_by_value
from vitdemo.explain.first_patches import (
    measure_first_patches,
    score_first_patches,
    search_first_patches,
)
from vitdemo.training.devices import use_fast_precision

OWN, BEST = "own", "best"  # names of the user's ranking and of the best ranking found
NUM_RANKED = 10  # patches of a ranking by hand
NUM_RANDOM_RANKINGS = 20


@dataclass(frozen=True)
class RankingComparison:
    """Scores of rankings of K patches, -1 to 1: see `explain.first_patches`.

    `scores` contains the user's ranking (`OWN`), each map by name and, after the search, the best
    ranking found (`BEST`). `random_scores` (R,) are those of random rankings.
    """

    scores: dict[str, float]
    random_scores: np.ndarray


def get_grid(context: AppContext, maps: ClassAttribution) -> tuple[int, int]:
    """Return rows and columns of the patches that the model of `maps` can rank."""
    model, size = context.load_model(maps.run), maps.run.preprocessing.size
    return attributions.cell_grid(model, torch.empty(1, 3, size, size))


def count_ranked(grid: tuple[int, int]) -> int:
    return min(NUM_RANKED, math.prod(grid))


def compare_ranking(
    context: AppContext,
    maps: ClassAttribution,
    image: Image.Image,
    patches: Sequence[int],
    *,
    fill: str = "mean",
) -> RankingComparison:
    """Compare the score of `patches`, from 0 in reading order, with that of other rankings.

    `image` must be the image of `maps`. The results of other rankings are cached. Raises
    `ValueError` for a patch that occurs twice, and for a replacement that the model does not
    support.
    """
    subject, count = _Subject(context, maps, image, fill), len(patches)
    (own,) = subject.measure_scores(torch.tensor([list(patches)])).tolist()
    names = tuple(each.cache_key for each in maps.maps)
    key = (*maps.cache_key, "rankings", fill, count, *names)
    others, random = context.cache.get_or_compute(key, partial(subject.measure_maps, count))
    best = context.cache.get(_make_best_key(maps, fill, count))
    searched = {} if best is None else {BEST: best}
    return RankingComparison({OWN: own, **others, **searched}, random)


def find_best_ranking(
    context: AppContext,
    maps: ClassAttribution,
    image: Image.Image,
    *,
    fill: str = "mean",
    on_step: OnStep | None = None,
) -> float:
    """Search for the ranking of the first patches with the highest score, and return this score.

    The search is greedy: see `explain.first_patches`. The result is cached. Arguments and errors
    are those of `compare_ranking`; `on_step` is called as (passes, most passes).
    """
    subject = _Subject(context, maps, image, fill)
    count = count_ranked(subject.grid)
    key = _make_best_key(maps, fill, count)
    return context.cache.get_or_compute(key, partial(subject.search_best, count, on_step))


def _make_best_key(maps: ClassAttribution, fill: str, count: int) -> tuple:
    return (*maps.cache_key, "best ranking", fill, count)


class _Subject:
    """Model, image and classes of `maps`, with the replacement `fill`."""

    def __init__(self, context: AppContext, maps: ClassAttribution, image: Image.Image, fill: str):
        self.maps, self.fill, self.model = maps, fill, context.load_model(maps.run)
        _, self.pixels = context.prepare_input(maps.run.preprocessing, image)
        self.grid = attributions.cell_grid(self.model, self.pixels)

    def measure_scores(self, orders: Tensor) -> Tensor:
        """Measure the scores (M,) of the `orders` (M, K)."""
        options = {"fill": self.fill, "against": self.maps.against}
        subject = self.model, self.pixels, self.maps.target
        return score_first_patches(measure_first_patches(*subject, orders, self.grid, **options))

    def measure_maps(self, count: int) -> tuple[dict[str, float], np.ndarray]:
        """Measure the scores of the first `count` patches of each map and of random rankings."""
        subject = self.model, self.pixels
        values = [compute_ranking(self.maps, each, *subject) for each in self.maps.maps]
        ranks = [rank_by_value(each.flatten()) for each in values]
        ranks += draw_random_rankings(NUM_RANDOM_RANKINGS, math.prod(self.grid))
        scores = self.measure_scores(torch.stack(ranks).argsort(dim=1)[:, :count]).numpy()
        names = [each.method.name for each in self.maps.maps]
        return dict(zip(names, scores.tolist(), strict=False)), scores[len(names) :]

    def search_best(self, count: int, on_step: OnStep | None) -> float:
        """Search for the best ranking of `count` patches, and measure its score."""
        options = {"fill": self.fill, "against": self.maps.against, "on_step": on_step}
        subject = self.model, self.pixels, self.maps.target, self.grid, count
        with use_fast_precision(self.pixels.device):
            found = search_first_patches(*subject, **options)
        return float(self.measure_scores(torch.tensor([found.order])))
