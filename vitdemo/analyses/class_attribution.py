"""Attribution maps of one image for one class, and the faithfulness test of these maps.

The functions need only an `AppContext`, so a notebook can call them as the page does:

    found = compute_class_attribution(context, run, image, target="cat", against="dog")
    found.maps[0].values  # (rows, columns)
    measure_faithfulness(context, found, image, fill="drop").scores["relevance"].deletion
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from vitdemo.cache import Cache, make_key
from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.explain import attributions, faithfulness
from vitdemo.explain.attributions import METHODS, AttributionMethod, OnStep, last_attention
from vitdemo.explain.best_order import search_best_order
from vitdemo.explain.faithfulness import (
    CENTRE_BASELINE,
    EDGE_BASELINE,
    SIGNIFICANCE_LEVEL,
    PerturbationCurves,
)
from vitdemo.explain.faithfulness.sanity import (
    NUM_CHECKS,
    NUM_SLOW_CHECKS,
    MapCheck,
    check_maps,
)
from vitdemo.explain.faithfulness.summary import FaithfulnessSummary, read_summaries
from vitdemo.explain.removal_search import MAX_PASSES
from vitdemo.runs import Run
from vitdemo.training.devices import use_fast_precision

ATTENTION = last_attention.METHOD.name
BEST_ORDER = "best order"  # name of the best order found, among the names of maps and baselines
# Verdicts on one map of one image. The first two and the last two verdicts are based on p-values.
WORSE_THAN_RANDOM = "significantly worse than random orders"
NOT_BETTER_THAN_RANDOM = "not significantly better than random orders"
NOT_BETTER_THAN_CENTRE = "not better than the centre-first baseline"
NOT_BETTER_THAN_EDGES = "not better than the edge map"
NOT_BETTER_THAN_COPIES = "not significantly better than transformed copies of the map"
BETTER_THAN_BASELINES = "better than all four baselines"


@dataclass(frozen=True)
class AttributionMap:
    """Attribution map of one image by one method: `values` (rows, columns).

    If `is_signed` is true, positive values support the class and negative values oppose it.
    `check` contains the sanity checks of the map. It is None if they were neither requested nor
    cached, for a contrast of two classes, and for the attention of an earlier layer than the last.
    `completeness_gap` is None for methods without completeness. `layer` (1..L) is the layer of an
    attention map, or None for the last layer.
    """

    method: AttributionMethod
    values: np.ndarray
    is_signed: bool
    check: MapCheck | None = None
    completeness_gap: float | None = None
    layer: int | None = None

    @property
    def title(self) -> str:
        return f"Attention, layer {self.layer}" if self.layer else self.method.title

    @property
    def cache_key(self) -> tuple:
        return self.method.name, self.layer


@dataclass(frozen=True)
class ClassAttribution:
    """Attribution maps of one image for class `target`, or for its contrast with `against`."""

    run: Run
    input_image: np.ndarray  # (S, S, 3) uint8
    probabilities: np.ndarray  # (C,)
    target: int
    against: int | None
    maps: tuple[AttributionMap, ...]  # sorted by decreasing mean score on many images
    # replacement -> mean scores of this run's maps on many images
    summaries: dict[str, FaithfulnessSummary]
    fills: tuple[str, ...]  # the replacements for removed patches that the model supports
    # replacement -> cached results of the faithfulness test; maps may be missing
    cached_results: dict[str, "FaithfulnessResult"]
    cache_key: tuple  # cache key of the image, the model and the classes

    @property
    def class_text(self) -> str:
        """Text for the class or the contrast: "cat", or "cat and not dog"."""
        name = self.run.classes[self.target]
        return name if self.against is None else f"{name} and not {self.run.classes[self.against]}"

    @property
    def runner_up(self) -> str:
        """Name of the most probable class except `target`."""
        others = np.where(np.arange(len(self.probabilities)) == self.target, -1, self.probabilities)
        return self.run.classes[int(others.argmax())]

    def best_maps(self, fill: str) -> tuple[str, ...]:
        """Return the names of the best maps for the replacement `fill`; () without mean scores."""
        return self.summaries[fill].best if fill in self.summaries else ()


@dataclass(frozen=True)
class FaithfulnessScore:
    """Faithfulness score of one map or baseline on one image.

    `deletion` and `insertion` are areas under curves, 0 to 1. `p_orders` is the score's rank
    p-value among random orders, and `p_shape` its rank p-value among transformed copies of the map.
    `p_worse` is the rank p-value among random orders in the other direction, for a low score.
    `p_shape` is None unless the score is better than all other baselines. The centre-first order
    and the edge map have only one score per image, so comparisons with them have no p-value.
    """

    deletion: float
    insertion: float
    p_orders: float
    is_better_than_centre: bool
    is_better_than_edges: bool
    p_shape: float | None = None
    p_worse: float = 1.0

    @property
    def score(self) -> float:
        return self.insertion - self.deletion

    @property
    def verdict(self) -> str:
        if self.p_worse <= SIGNIFICANCE_LEVEL:
            return WORSE_THAN_RANDOM
        if self.p_orders > SIGNIFICANCE_LEVEL:
            return NOT_BETTER_THAN_RANDOM
        if not self.is_better_than_centre:
            return NOT_BETTER_THAN_CENTRE
        if not self.is_better_than_edges:
            return NOT_BETTER_THAN_EDGES
        if self.p_shape is None or self.p_shape > SIGNIFICANCE_LEVEL:
            return NOT_BETTER_THAN_COPIES
        return BETTER_THAN_BASELINES


@dataclass(frozen=True)
class FaithfulnessResult:
    """Result of the faithfulness test: curves (K+1,) and scores by map or baseline.

    `ranks` (rows, columns) is the position of each patch in the order of a map, from 0.
    `best_ranks` are those of the best order found, or None before the search. The curves and the
    score of this order have the name `BEST_ORDER`.
    """

    fill: str
    fractions: np.ndarray
    deletion: dict[str, np.ndarray]
    insertion: dict[str, np.ndarray]
    random_bands: tuple[np.ndarray, np.ndarray]  # (3, K+1) each: mean, 5th and 95th percentile
    scores: dict[str, FaithfulnessScore]
    random_areas: np.ndarray  # (2, R): deletion and insertion areas of the random orders
    ranks: dict[str, np.ndarray]
    best_ranks: np.ndarray | None = None

    def compute_share(self, name: str) -> float | None:
        """Return the position of a score between chance (0) and the highest score found (1).

        Chance is the mean score of random orders. Returns None before the search for the best
        order, and if no score is above chance.
        """
        deletion, insertion = self.random_areas.mean(axis=1)
        chance = float(insertion - deletion)
        highest = max(each.score for each in self.scores.values())
        if self.best_ranks is None or highest <= chance:
            return None
        return (self.scores[name].score - chance) / (highest - chance)

    def list_missing(self, maps: Collection[AttributionMap]) -> list[AttributionMap]:
        """Return the `maps` that were not measured."""
        return [each for each in maps if each.method.name not in self.ranks]


def load_summaries(context: AppContext, run: Run) -> dict[str, FaithfulnessSummary]:
    """Return the mean faithfulness scores of `run`'s maps by replacement, or {} without scores."""
    key = (read_summaries, run)
    return context.cache.get_or_compute(key, partial(read_summaries, run.path))


def choose_first_map(context: AppContext, run: Run) -> tuple[str, int]:
    """Return the attention map with the highest mean faithfulness score, and its layer.

    ("mean", l) is the mean over heads in layer l = 1..L. ("rollout", L) is attention rollout, which
    is also returned if no score was measured. Scores are averaged over all replacements.
    """
    fills = load_summaries(context, run).values()
    layers, last = [found.layers for found in fills], context.count_layers(run)
    if not last or {*map(len, layers)} != {last}:
        return "rollout", last
    means = np.mean(layers, axis=0)  # (L,)
    rolled = np.mean([found.scores.get("rollout", -np.inf) for found in fills])
    return ("mean", int(means.argmax()) + 1) if means.max() > rolled else ("rollout", last)


def get_class_index(run: Run, name: str) -> int:
    """Return the index of the class `name` of `run`. Raises `RunError` for an unknown class."""
    if name not in run.classes:
        few = ", ".join(run.classes[:12]) + (", ..." if len(run.classes) > 12 else "")
        raise RunError(f"'{run.name}' has no class '{name}': choose one of {few}.")
    return run.classes.index(name)


def compute_class_attribution(
    context: AppContext,
    run: Run,
    image: Image.Image,
    *,
    target: str | None = None,
    against: str | None = None,
    layer: int | None = None,
    include_slow: bool = True,
    check_fast: bool = True,
    check_slow: bool = False,
    on_step: OnStep | None = None,
) -> ClassAttribution:
    """Compute the maps of an RGB image by every method that supports `run`'s model.

    Args:
        target: name of a class; None for the predicted class.
        against: name of a second class for a contrast; None for no second class.
        layer: layer (1..L) of the attention map; None for the last layer.
        include_slow: also compute the slow maps. Otherwise, slow maps are returned only if cached.
        check_fast: run the sanity checks of fast maps. Otherwise, only cached checks are returned.
        check_slow: also check slow maps (takes several times as long as the maps).
        on_step: called as (done, total) during a slow map; an exception in `on_step` stops the map.

    Raises `RunError` for an unknown class, for two equal classes, and for a model without classes.
    """
    run.require_classes()
    model = context.load_model(run)
    seen, pixels = context.prepare_input(run.preprocessing, image)
    probabilities = context.predict(run, image).probabilities
    first = get_class_index(run, target) if target else int(probabilities.argmax())
    second = get_class_index(run, against) if against else None
    if second == first:
        raise RunError(
            f"'{run.classes[first]}' cannot be compared with itself: choose another class."
        )
    key = make_key((compute_class_attribution, run, seen, first, second))
    asked = _MapComputation(context.cache, key, model, pixels, run.preprocessing.std)
    measured = load_summaries(context, run)
    methods = sort_by_measured_score(attributions.list_methods(model), measured)
    found = asked.compute_maps(methods, include_slow, on_step)
    checks = {}
    if second is None and len(probabilities) > 1:
        checks = asked.check_maps(found, probabilities, check_fast, check_slow, on_step)
    if layer and ATTENTION in found:
        found[ATTENTION] = context.trace_image(run, image).head_maps(layer).mean(axis=0)
        if layer < context.count_layers(run):
            checks.pop(ATTENTION, None)
    maps = tuple(
        asked.describe_map(m, found[m.name], layer, checks.get(m.name))
        for m in methods
        if m.name in found
    )
    fills = faithfulness.supported_fills(model)
    results = {fill: read_result(context.cache, key, fill, maps) for fill in fills}
    results = {fill: result for fill, result in results.items() if result}
    answer = run, seen, probabilities, first, second, maps, measured
    return ClassAttribution(*answer, fills, results, key)


def read_result(
    cache: Cache, key: tuple, fill: str, maps: Collection[AttributionMap]
) -> FaithfulnessResult | None:
    """Return the cached results of `maps`; None if the baselines or all maps are missing."""
    null = cache.get(_make_baseline_key(key, fill))
    cached = [(each.method.name, cache.get(_make_score_key(key, fill, each))) for each in maps]
    measured = {name: found for name, found in cached if found}
    if null is None or not measured:
        return None
    curves = {name: found.curves for name, found in measured.items()}
    scores = {name: found.score for name, found in measured.items()}
    for name in (CENTRE_BASELINE, EDGE_BASELINE):
        curves[name], scores[name] = null, _score_order(null, name, null)
    if best := cache.get(_make_best_key(key, fill)):
        curves[BEST_ORDER], scores[BEST_ORDER] = best.curves, best.score
    random = null.random_deletion, null.random_insertion
    return FaithfulnessResult(
        fill,
        null.fractions.numpy(),
        {name: each.deletion[name].numpy() for name, each in curves.items()},
        {name: each.insertion[name].numpy() for name, each in curves.items()},
        tuple(faithfulness.compute_band(each).numpy() for each in random),
        scores,
        torch.stack([faithfulness.area_under_curve(null.fractions, c) for c in random]).numpy(),
        {name: found.ranks for name, found in measured.items()},
        best.ranks if best else None,
    )


def sort_by_measured_score(
    methods: list[AttributionMethod], summaries: dict[str, FaithfulnessSummary]
) -> list[AttributionMethod]:
    """Sort methods by decreasing mean score for the first replacement in `summaries`, if any."""
    fill = next((fill for fill in faithfulness.FILLS if fill in summaries), None)
    scores = summaries[fill].scores if fill else {}
    return sorted(methods, key=lambda method: -scores.get(method.name, -1))


def list_ranked_methods(context: AppContext, run: Run) -> list[AttributionMethod]:
    """Return the methods that support `run`'s model, by decreasing mean score."""
    methods = attributions.list_methods(context.load_model(run))
    return sort_by_measured_score(methods, load_summaries(context, run))


def list_fast_methods(context: AppContext, run: Run) -> list[AttributionMethod]:
    """Return the fast methods that support `run`'s model, by decreasing mean score."""
    return [method for method in list_ranked_methods(context, run) if not method.is_slow]


def measure_faithfulness(
    context: AppContext,
    maps: ClassAttribution,
    image: Image.Image,
    *,
    fill: str = "mean",
    on_step: OnStep | None = None,
) -> FaithfulnessResult:
    """Run the faithfulness test on `maps`, with `faithfulness.CURVE_STEPS` steps.

    `image` must be the image of `maps`. The test uses half precision if the hardware supports it,
    which changes a score by about 0.005. Results of random orders and of each map are cached.
    Raises `RunError` for a replacement that is unknown or that the model does not support.
    """
    _FaithfulnessTest(context, maps, image, fill, on_step).run_test(context.cache)
    return read_result(context.cache, maps.cache_key, fill, maps.maps)


def find_best_order(
    context: AppContext,
    maps: ClassAttribution,
    image: Image.Image,
    *,
    fill: str = "mean",
    on_step: OnStep | None = None,
) -> FaithfulnessResult:
    """Run the faithfulness test on `maps`, then search for the order with the highest score.

    The score of the best order found is a lower bound for the highest score: see
    `explain.best_order`. Arguments and errors are those of `measure_faithfulness`, but `on_step`
    reports the images that the search passes through the model. The result is cached.
    """
    measured = measure_faithfulness(context, maps, image, fill=fill)
    test, key = _FaithfulnessTest(context, maps, image, fill, on_step), maps.cache_key
    null = context.cache.get_or_compute(_make_baseline_key(key, fill), test.measure_baselines)
    search = partial(test.search_order, measured, null)
    context.cache.get_or_compute(_make_best_key(key, fill), search)
    return read_result(context.cache, maps.cache_key, fill, maps.maps)


def compute_ranking(
    attribution: ClassAttribution, drawn: AttributionMap, model: nn.Module, pixels: Tensor
) -> Tensor:
    """Return values (rows, columns) that rank the patches of `model` as the map `drawn` does.

    `pixels` (1, 3, S, S) is the input of the model. The grid is that of `attributions.cell_grid`.
    """
    classes = attribution.target, attribution.against
    ranking = attributions.compute_ranking_values(
        drawn.method.name, model, pixels, torch.from_numpy(drawn.values)[None], *classes
    )
    grid = attributions.cell_grid(model, pixels)
    return faithfulness.resample_maps(ranking.float().cpu(), grid)[0]


class _MeasuredMap(NamedTuple):
    """Curves, score and ranks (rows, columns) of one map."""

    curves: PerturbationCurves
    score: FaithfulnessScore
    ranks: np.ndarray


class _FaithfulnessTest:
    """One run of the faithfulness test: all baselines are one part, and each map is one part."""

    def __init__(
        self, context: AppContext, maps: ClassAttribution, image: Image.Image, fill: str, on_step
    ):
        if fill not in maps.fills:
            raise RunError(
                f"'{maps.run.name}' does not support the replacement '{fill}': choose one of "
                f"{', '.join(maps.fills)}."
            )
        self.attribution, self.fill, self.model = maps, fill, context.load_model(maps.run)
        _, self.pixels = context.prepare_input(maps.run.preprocessing, image)
        self.grid = attributions.cell_grid(self.model, self.pixels)
        self.done, self.parts, self.on_step = 0, 1 + len(maps.maps), on_step
        self.reported = 0  # the largest number of steps
        self.settings = {"fill": fill, "against": maps.against, "steps": faithfulness.CURVE_STEPS}

    def run_test(self, cache: Cache) -> None:
        """Measure the baselines and each map, unless cached."""
        key = self.attribution.cache_key
        null = cache.get_or_compute(_make_baseline_key(key, self.fill), self.measure_baselines)
        for drawn in self.attribution.maps:
            self.done += 1
            measure = partial(self.measure_map, drawn, null)
            cache.get_or_compute(_make_score_key(key, self.fill, drawn), measure)

    def measure_baselines(self) -> PerturbationCurves:
        """Measure the edge map, random orders and the centre-first order."""
        edges = faithfulness.edge_map(self.pixels, self.grid).cpu()
        return self.call_with_settings(
            faithfulness.measure_perturbation_curves, {EDGE_BASELINE: edges}
        )

    def measure_map(self, drawn: AttributionMap, null: PerturbationCurves) -> _MeasuredMap:
        """Measure curves and score of a map, and scores of copies if it beats other baselines."""
        name = drawn.method.name
        values = compute_ranking(self.attribution, drawn, self.model, self.pixels)
        found = self.call_with_settings(
            faithfulness.measure_perturbation_curves, {name: values}, random_orders=0
        )
        score = _score_order(found, name, null)
        if score.verdict == NOT_BETTER_THAN_COPIES:

            def draw(count: int, seed: int) -> Tensor:
                score = faithfulness.score_transformed_copies
                return self.call_with_settings(score, values, count=count, seed=seed)

            score = replace(score, p_shape=faithfulness.staged_p_value(found.scores[name], draw))
        ranks = faithfulness.rank_by_value(values.flatten()).view(values.shape)
        return _MeasuredMap(found, score, ranks.numpy())

    def search_order(self, known: FaithfulnessResult, null: PerturbationCurves) -> _MeasuredMap:
        """Search for the best order, and measure its curves and score as those of a map.

        The search may begin with the order that has the highest score in `known`.
        """
        values = {name: -torch.from_numpy(ranks).float() for name, ranks in known.ranks.items()}
        values[CENTRE_BASELINE] = faithfulness.centre_map(*self.grid)
        values[EDGE_BASELINE] = faithfulness.edge_map(self.pixels, self.grid)
        start = values[max(values, key=lambda name: known.scores[name].score)]
        options = {"start": start, "max_passes": MAX_PASSES, "on_step": self.on_step}
        found = self.call_with_settings(search_best_order, self.grid, **options)
        maps = {BEST_ORDER: found.values}
        measure = faithfulness.measure_perturbation_curves
        measured = self.call_with_settings(measure, maps, random_orders=0, on_step=None)
        ranks = faithfulness.rank_by_value(found.values.flatten()).view(self.grid)
        return _MeasuredMap(measured, _score_order(measured, BEST_ORDER, null), ranks.numpy())

    def call_with_settings(self, function: Callable, subject: object, **options):
        """Call `function` for `subject`, such as the maps by name."""
        options = {"on_step": self.report_progress if self.on_step else None, **options}
        with use_fast_precision(self.pixels.device):
            return function(
                *(self.model, self.pixels, self.attribution.target, subject),
                **self.settings,
                **options,
            )

    def report_progress(self, done: int, total: int) -> None:
        """Report the progress of the current part; each part counts as 100 steps.

        The scores of copies begin again at 0, so the largest number of steps is reported.
        """
        self.reported = max(self.reported, 100 * self.done + 100 * done // total)
        self.on_step(self.reported, 100 * self.parts)


@dataclass(frozen=True)
class _MapComputation:
    """Computation of the maps of one image by one model, for one class or for a contrast."""

    cache: Cache
    key: tuple
    model: nn.Module
    pixels: Tensor  # (1, 3, S, S)
    std: Sequence[float]  # of each colour, see `check_maps`

    def compute_maps(
        self, methods: list[AttributionMethod], include_slow: bool, on_step: OnStep | None
    ) -> dict[str, np.ndarray]:
        """Return the maps by name; the fast maps share one forward and backward pass."""
        fast = [method.name for method in methods if not method.is_slow]
        found = dict(self.cache.get_or_compute((*self.key, "quick"), partial(self._compute, fast)))
        for name in (method.name for method in methods if method.is_slow):
            key = (*self.key, name)
            if include_slow or self.cache.get(key) is not None:
                found |= self.cache.get_or_compute(key, partial(self._compute, [name], on_step))
        return found

    def _compute(self, names: list[str], on_step: OnStep | None = None) -> dict[str, np.ndarray]:
        *_, target, against = self.key
        # The contrast of a map that does not depend on the class is 0, so the map itself is used.
        apart = [name for name in names if _is_signed(METHODS[name], against)]
        asked = self.model, self.pixels, target
        if against is None:
            found = attributions.attribute_many(names, *asked, on_step=on_step)
        else:
            found = attributions.contrast_many(apart, *asked, against, on_step=on_step)
            rest = [name for name in names if name not in apart]
            found |= attributions.attribute_many(rest, *asked)
        return {name: values[0].float().cpu().numpy() for name, values in found.items()}

    def describe_map(
        self,
        method: AttributionMethod,
        values: np.ndarray,
        layer: int | None,
        check: MapCheck | None,
    ) -> AttributionMap:
        *_, against = self.key
        return AttributionMap(
            method,
            values,
            _is_signed(method, against),
            check,
            self.compute_gap(method, values) if method.is_complete else None,
            layer if method.name == ATTENTION else None,
        )

    def compute_gap(self, method: AttributionMethod, values: np.ndarray) -> float:
        """Compute the completeness gap of the map `values` (rows, columns) by `method`."""
        *_, target, against = self.key

        def gap() -> float:
            count = self.model.num_classes
            weights = F.one_hot(torch.tensor([target]), count)
            if against is not None:
                weights = weights - F.one_hot(torch.tensor([against]), count)
            maps = torch.from_numpy(values)[None].to(self.pixels)
            asked = self.model, self.pixels, maps, weights.to(self.pixels)
            return float(attributions.completeness_gap(*asked))

        return self.cache.get_or_compute((*self.key, method.name, "gap"), gap)

    def check_maps(
        self,
        maps: Mapping[str, np.ndarray],
        probabilities: np.ndarray,
        check_fast: bool,
        check_slow: bool,
        on_step: OnStep | None,
    ) -> dict[str, MapCheck]:
        """Run the sanity checks of `maps` by name.

        Checks that are not requested are included if they are cached.
        """
        *_, target, _ = self.key
        runner_up = next(int(c) for c in np.argsort(-probabilities) if c != target)
        fast = [name for name in maps if not METHODS[name].is_slow]
        parts = [(fast, "quick", check_fast, NUM_CHECKS, None)]
        slow = [name for name in maps if METHODS[name].is_slow]
        parts += [([name], name, check_slow, NUM_SLOW_CHECKS, on_step) for name in slow]
        found = {}
        for names, part, is_requested, count, report in parts:
            key = (*self.key, part, "checks")
            own = {name: torch.from_numpy(maps[name]) for name in names}
            asked = self.model, self.pixels, own, target, runner_up, self.std
            check = partial(check_maps, *asked, count=count, on_step=report)
            if names and (is_requested or self.cache.get(key)):
                found |= self.cache.get_or_compute(key, check)
        return found


def _score_order(
    measured: PerturbationCurves, name: str, null: PerturbationCurves
) -> FaithfulnessScore:
    """Compare the order `name` of `measured` with the baselines `null`."""
    areas = (
        float(faithfulness.area_under_curve(measured.fractions, curves[name]))
        for curves in (measured.deletion, measured.insertion)
    )
    own = measured.scores[name]
    return FaithfulnessScore(
        *areas,
        faithfulness.rank_p_value(own, null.random_scores),
        own > null.scores[CENTRE_BASELINE],
        own > null.scores[EDGE_BASELINE],
        p_worse=faithfulness.rank_p_value(-own, -null.random_scores),
    )


def _is_signed(method: AttributionMethod, against: int | None) -> bool:
    return method.is_signed or (against is not None and method.is_class_specific)


def _make_baseline_key(cache_key: tuple, fill: str) -> tuple:
    return (*cache_key, "null", fill)


def _make_best_key(cache_key: tuple, fill: str) -> tuple:
    return (*cache_key, "best order", fill)


def _make_score_key(cache_key: tuple, fill: str, drawn: AttributionMap) -> tuple:
    return (*cache_key, "score", fill, *drawn.cache_key)
