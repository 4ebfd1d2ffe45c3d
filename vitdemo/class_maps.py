"""Attribution maps of one image for one class, and the faithfulness test of these maps.

The functions need only a `Workbench`, so a notebook can call them as the page does:

    found = maps(workbench, run, image, target="cat", against="dog")
    found.maps[0].values  # (rows, columns)
    truth(workbench, found, image, fill="drop").scores["relevance"].deletion
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from vitdemo import attributions, faithfulness
from vitdemo.attributions import METHODS, Method, OnStep
from vitdemo.cache import Cache, as_key
from vitdemo.errors import RunError
from vitdemo.faithfulness import CENTRE, EDGES, LEVEL
from vitdemo.faithfulness.measured import Measured, read_measured
from vitdemo.faithfulness.sanity import HeadCheck, check_heads, random_head_maps, rank_correlation
from vitdemo.runs import Run
from vitdemo.training.devices import autocast_helps
from vitdemo.workbench import Workbench

FILLS = ("drop", "mean", "blur")  # without "road", which is too slow for the page
# Verdicts on one map of one image. Only the first and the last two use a significance test.
RANDOM = "not significantly better than random orders"
MIDDLE = "not better than centre first"
EDGES_FIRST = "not better than the edge map"
ELSEWHERE = "not significantly better than transformed copies of the map"
BEYOND = "better than all four baselines"


@dataclass(frozen=True)
class ClassMap:
    """The map `values` (rows, columns) of one method.

    If it is `signed`, positive values support the class and negative values oppose it.
    `other_class` is the rank correlation with the map of the runner-up class. `random_heads` is the
    comparison with the maps of the same class under randomised classifier heads. Both are None if
    they were not computed: for a map that does not depend on the class, for a contrast of two
    classes, and for a slow map until they are requested.
    `gap` is the completeness gap; None for methods without completeness.
    """

    method: Method
    values: np.ndarray
    signed: bool
    other_class: float | None = None
    random_heads: HeadCheck | None = None
    gap: float | None = None


@dataclass(frozen=True)
class ClassMaps:
    """The maps of one image for the class `target`, or for its contrast with `against`."""

    run: Run
    seen: np.ndarray  # (S, S, 3) uint8
    probabilities: np.ndarray  # (C,)
    target: int
    against: int | None
    maps: tuple[ClassMap, ...]  # the highest measured mean score first
    measured: dict[str, Measured]  # by replacement: mean scores of this run's maps on many images
    fills: tuple[str, ...]  # the replacements for removed patches that the model supports
    truths: dict[str, "Reading"]  # by replacement: cached results of the faithfulness test
    key: tuple  # cache key of the image, the model and the classes

    @property
    def named(self) -> str:
        """The class or the contrast in words: "cat", or "cat and not dog"."""
        name = self.run.classes[self.target]
        return name if self.against is None else f"{name} and not {self.run.classes[self.against]}"

    @property
    def runner_up(self) -> str:
        """The most probable class except the target."""
        others = np.where(np.arange(len(self.probabilities)) == self.target, -1, self.probabilities)
        return self.run.classes[int(others.argmax())]

    def best(self, fill: str) -> tuple[str, ...]:
        """Return the names of this run's best maps under `fill`; () if nothing was measured."""
        return self.measured[fill].best if fill in self.measured else ()


@dataclass(frozen=True)
class Score:
    """Scores of one order of patches on one image. Areas under its curves are 0 to 1.

    `p_orders` is the rank p-value of its score among random orders, `p_shape` among transformed
    copies of the same map. The latter is None unless the score is above all other baselines. The
    centre-first order and the edge map have only one score per image, so a comparison with them has
    no p-value.
    """

    deletion: float
    insertion: float
    p_orders: float
    beyond_centre: bool
    beyond_edges: bool
    p_shape: float | None = None

    @property
    def score(self) -> float:
        return self.insertion - self.deletion

    @property
    def verdict(self) -> str:
        if self.p_orders > LEVEL:
            return RANDOM
        if not self.beyond_centre:
            return MIDDLE
        if not self.beyond_edges:
            return EDGES_FIRST
        return BEYOND if self.p_shape is not None and self.p_shape <= LEVEL else ELSEWHERE


@dataclass(frozen=True)
class Reading:
    """Curves (K+1,) of every map and every baseline, as numpy arrays."""

    fill: str
    shares: np.ndarray
    deletion: dict[str, np.ndarray]
    insertion: dict[str, np.ndarray]
    bands: tuple[np.ndarray, np.ndarray]  # (3, K+1) each: mean, 5th and 95th percentile
    scores: dict[str, Score]
    random_areas: np.ndarray  # (2, R)


def measured_of(workbench: Workbench, run: Run) -> dict[str, Measured]:
    """Return the mean scores of this run's maps by replacement; {} if nothing was measured."""
    key = (read_measured, run)
    return workbench.cache.get_or_make(key, partial(read_measured, run.path))


def first_map(workbench: Workbench, run: Run) -> tuple[str, int]:
    """Return the map without a class that has the highest mean score, and its layer.

    The mean is taken over all replacements. ("mean", l) is the mean over heads in layer l = 1..L.
    ("rollout", L) is the rollout, which is also returned if nothing was measured. `Measured.part`
    names the images that the choice is based on.
    """
    fills = measured_of(workbench, run).values()
    layers, last = [found.layers for found in fills], workbench.layers(run)
    if not last or {*map(len, layers)} != {last}:
        return "rollout", last
    means = np.mean(layers, axis=0)  # (L,)
    rolled = np.mean([found.scores.get("rollout", -np.inf) for found in fills])
    return ("mean", int(means.argmax()) + 1) if means.max() > rolled else ("rollout", last)


def class_index(run: Run, name: str) -> int:
    """Return the index of the class `name`. Raises `RunError` for an unknown class."""
    if name not in run.classes:
        few = ", ".join(run.classes[:12]) + (", ..." if len(run.classes) > 12 else "")
        raise RunError(f"'{run.name}' has no class '{name}': it has {few}.")
    return run.classes.index(name)


def maps(
    workbench: Workbench,
    run: Run,
    image: Image.Image,
    *,
    target: str | None = None,
    against: str | None = None,
    slow: bool = True,
    checked: bool = False,
    on_step: OnStep | None = None,
) -> ClassMaps:
    """Compute the maps of an RGB image by every method that supports `run`'s model.

    Args:
        target: name of a class; None for the predicted class.
        against: name of a second class for a contrast; None for no second class.
        slow: also compute the slow maps. Without it, only cached slow maps are returned.
        checked: also check how slow maps depend on class and head, which triples their time.
        on_step: called as (done, total) during a slow map. An exception in it stops the map.

    Raises `RunError` for an unknown class, for two equal classes, and for a model without classes.
    """
    run.check_classes()
    model = workbench.model(run)
    seen, pixels = workbench.input(run.preprocessing, image)
    probabilities = workbench.answer(run, image).probabilities
    first = class_index(run, target) if target else int(probabilities.argmax())
    second = class_index(run, against) if against else None
    if second == first:
        raise RunError(
            f"'{run.classes[first]}' cannot be compared with itself: choose another class."
        )
    asked = _Asked(workbench.cache, as_key((maps, run, seen, first, second)), model, pixels)
    measured = measured_of(workbench, run)
    methods = best_first(attributions.methods_for(model), measured)
    found = asked.together([m.name for m in methods if not m.long])
    for method in methods:
        if method.long and (slow or asked.has(method.name)):
            found |= asked.alone(method, on_step)
    depends = {}
    if second is None and len(probabilities) > 1:
        depends = asked.dependence(methods, probabilities, checked, on_step)
    drawn = tuple(
        ClassMap(
            m,
            found[m.name],
            _is_signed(m, second),
            *depends.get(m.name, (None, None)),
            asked.gap(m, found[m.name]) if m.complete else None,
        )
        for m in methods
        if m.name in found
    )
    fills = tuple(fill for fill in FILLS if fill in faithfulness.fills(model))
    answer = run, seen, probabilities, first, second, drawn, measured
    found = ClassMaps(*answer, fills, {}, asked.key)
    truths = {fill: asked.kept.get(_truth_key(found, fill)) for fill in found.fills}
    return replace(found, truths={fill: truth for fill, truth in truths.items() if truth})


def best_first(methods: list[Method], measured: dict[str, Measured]) -> list[Method]:
    """Sort by the mean score under the first measured replacement; keep the order without one."""
    fill = next((fill for fill in FILLS if fill in measured), None)
    scores = measured[fill].scores if fill else {}
    return sorted(methods, key=lambda method: -scores.get(method.name, -1))


def truth(
    workbench: Workbench,
    found: ClassMaps,
    image: Image.Image,
    *,
    fill: str = "mean",
    on_step: OnStep | None = None,
) -> Reading:
    """Run the faithfulness test on the maps of `found`, with `faithfulness.STEPS` steps.

    Uses half precision if the hardware supports it, which changes a score by about 0.005. Random
    orders are measured once per image, classes and replacement; each map is measured once and
    cached. `image` must be the image of `found`. Raises `RunError` for a replacement that is
    unknown or that the model does not support.
    """
    if fill not in found.fills:
        choices = ", ".join(found.fills)
        raise RunError(
            f"'{found.run.name}' does not support the replacement '{fill}': choose one of "
            f"{choices}."
        )
    kept = workbench.cache
    return kept.get_or_make(
        _truth_key(found, fill),
        lambda: _Meter(workbench, found, image, fill, on_step).measured(kept),
    )


class _Meter:
    """One run of the faithfulness test: first the random orders, then each map."""

    def __init__(
        self, workbench: Workbench, found: ClassMaps, image: Image.Image, fill: str, on_step
    ):
        self.found, self.fill, self.model = found, fill, workbench.model(found.run)
        _, self.pixels = workbench.input(found.run.preprocessing, image)
        self.grid = attributions.cell_grid(self.model, self.pixels)
        self.done, self.parts, self.on_step = 0, 1 + len(found.maps), on_step
        self.settings = {"fill": fill, "against": found.against, "steps": faithfulness.STEPS}

    def measured(self, kept: Cache) -> Reading:
        null = kept.get_or_make((*self.found.key, "null", self.fill), self.null)
        self.done += 1
        deletion, insertion, scores = {}, {}, {}
        for drawn in self.found.maps:
            name = drawn.method.name
            key = (*self.found.key, "score", self.fill, name)
            found, scores[name] = kept.get_or_make(key, partial(self.judged, drawn, null))
            deletion[name], insertion[name] = found.deletion[name], found.insertion[name]
            self.done += 1
        for name in (CENTRE, EDGES):
            deletion[name], insertion[name] = null.deletion[name], null.insertion[name]
            scores[name] = self.score(null, name, null)
        random = null.random_deletion, null.random_insertion
        return Reading(
            self.fill,
            null.shares.numpy(),
            {name: curve.numpy() for name, curve in deletion.items()},
            {name: curve.numpy() for name, curve in insertion.items()},
            tuple(torch.stack(faithfulness.band(curves)).numpy() for curves in random),
            scores,
            torch.stack([faithfulness.area(null.shares, c) for c in random]).numpy(),
        )

    def null(self) -> faithfulness.Truth:
        edges = faithfulness.edge_map(self.pixels, self.grid).cpu()
        return self.ask(faithfulness.measure, {EDGES: edges})  # `measure` adds `CENTRE`

    def judged(self, drawn: ClassMap, null: faithfulness.Truth) -> tuple:
        """Measure a map's curves and score, and its transformed copies if they decide."""
        name = drawn.method.name
        values = faithfulness.resampled(torch.from_numpy(drawn.values)[None], self.grid)[0]
        found = self.ask(faithfulness.measure, {name: values}, random_orders=0)
        score = self.score(found, name, null)
        if score.verdict == ELSEWHERE:
            draw = partial(self.laid, values)
            score = replace(score, p_shape=faithfulness.staged_p(found.scores[name], draw))
        return found, score

    def laid(self, values: Tensor, count: int, seed: int) -> Tensor:
        return self.ask(faithfulness.shape_scores, values, count=count, seed=seed)

    def score(self, found: faithfulness.Truth, name: str, null: faithfulness.Truth) -> Score:
        areas = (
            float(faithfulness.area(found.shares, curves[name]))
            for curves in (found.deletion, found.insertion)
        )
        own = found.scores[name]
        p = faithfulness.rank_p(own, null.random_scores)
        return Score(*areas, p, own > null.scores[CENTRE], own > null.scores[EDGES])

    def ask(self, function: Callable, maps, **options):
        device = self.pixels.device
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast_helps(device)):
            return function(
                self.model,
                self.pixels,
                self.found.target,
                maps,
                on_step=self.step if self.on_step else None,
                **self.settings,
                **options,
            )

    def step(self, done: int, total: int) -> None:
        """Report progress in hundredths of a part: the random orders, then each map."""
        self.on_step(100 * self.done + 100 * done // total, 100 * self.parts)


@dataclass(frozen=True)
class _Asked:
    """One request: maps of one image by one model, for one class or for a contrast."""

    kept: Cache
    key: tuple
    model: nn.Module
    pixels: Tensor  # (1, 3, S, S)

    def has(self, name: str) -> bool:
        return self.kept.get((*self.key, name)) is not None

    def alone(self, method: Method, on_step: OnStep | None) -> dict[str, np.ndarray]:
        make = partial(self._compute, [method.name], on_step)
        return self.kept.get_or_make((*self.key, method.name), make)

    def together(self, names: list[str]) -> dict[str, np.ndarray]:
        """Compute several maps with one forward and backward pass, or two for a contrast."""
        return dict(self.kept.get_or_make((*self.key, "quick"), partial(self._compute, names)))

    def _compute(self, names: list[str], on_step: OnStep | None = None) -> dict[str, np.ndarray]:
        *_, target, against = self.key
        # A map that does not depend on the class would have a contrast of 0, so it stays as it is.
        apart = [name for name in names if _is_signed(METHODS[name], against)]
        asked = self.model, self.pixels, target
        if against is None:
            found = attributions.attribute_many(names, *asked, on_step=on_step)
        else:
            found = attributions.contrast_many(apart, *asked, against, on_step=on_step)
            rest = [name for name in names if name not in apart]
            found |= attributions.attribute_many(rest, *asked)
        return {name: values[0].float().cpu().numpy() for name, values in found.items()}

    def gap(self, method: Method, values: np.ndarray) -> float:
        """Return the completeness gap of the map `values` of `method`."""
        *_, target, against = self.key

        def gap() -> float:
            count = attributions.class_count(self.model)
            weights = F.one_hot(torch.tensor([target]), count)
            if against is not None:
                weights = weights - F.one_hot(torch.tensor([against]), count)
            maps = torch.from_numpy(values)[None].to(self.pixels)
            asked = self.model, self.pixels, maps, weights.to(self.pixels)
            return float(attributions.completeness_gap(*asked))

        return self.kept.get_or_make((*self.key, method.name, "gap"), gap)

    def dependence(
        self,
        methods: list[Method],
        probabilities: np.ndarray,
        checked: bool,
        on_step: OnStep | None,
    ) -> dict[str, tuple[float, HeadCheck]]:
        """Compute `other_class` and `random_heads` of the maps that depend on the class, by name.

        Slow maps are included if `checked` is true or if they were checked before.
        """
        *_, target, _ = self.key
        runner_up = next(int(c) for c in np.argsort(-probabilities) if c != target)
        specific = [method for method in methods if method.class_specific]
        quick = [method.name for method in specific if not method.long]
        found = {}
        if quick:
            make = partial(self._checks, quick, self.together(quick), runner_up)
            found |= self.kept.get_or_make((*self.key, "dependence"), make)
        for method in [method for method in specific if method.long and self.has(method.name)]:
            key = (*self.key, method.name, "dependence")
            if checked or self.kept.get(key):
                own = self.alone(method, on_step)
                make = partial(self._checks, [method.name], own, runner_up, on_step)
                found |= self.kept.get_or_make(key, make)
        return found

    def _checks(
        self,
        names: list[str],
        own: Mapping[str, np.ndarray],
        runner_up: int,
        on_step: OnStep | None = None,
    ) -> dict[str, tuple[float, HeadCheck]]:
        def half(index: int) -> OnStep | None:
            return on_step and (lambda done, total: on_step(index * total + done, 2 * total))

        *_, target, _ = self.key
        asked = self.model, self.pixels
        other = attributions.attribute_many(names, *asked, runner_up, on_step=half(0))
        random = random_head_maps(*asked, names, target, on_step=half(1))
        found = {}
        for name in names:
            mine = torch.from_numpy(own[name])
            runner_up_map = other[name][0].float().cpu()
            heads = check_heads(mine, random[name].float().cpu())
            found[name] = rank_correlation(mine, runner_up_map), heads
        return found


def _is_signed(method: Method, against: int | None) -> bool:
    return method.signed or (against is not None and method.class_specific)


def _truth_key(found: ClassMaps, fill: str) -> tuple:
    return (*found.key, "truth", fill, *sorted(m.method.name for m in found.maps))
