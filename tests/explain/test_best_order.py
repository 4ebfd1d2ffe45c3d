"""The search for the best order, compared with loops over single images and all orders."""

import itertools
import math
from functools import partial

import pytest
import torch

from tests.explain.faithfulness.test_faithfulness import GRID, reference_curves
from tests.explain.test_attributions import build_convolutional, build_kind
from tests.explain.test_removal_search import GRID as SMALL_GRID
from tests.explain.test_removal_search import SIDE, predict_without
from vitdemo.explain import best_order
from vitdemo.explain.best_order import search_best_order
from vitdemo.explain.faithfulness import list_step_ends, measure_perturbation_curves

TARGET = 2
PATCHES = 6  # of the small grid


def make_image(seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, 3, SIDE, SIDE, dtype=torch.float64, generator=generator)


def list_values(model, image) -> dict[frozenset, float]:
    """Return the value of each set: the probability with only its patches, minus without them."""

    def predict(removed) -> float:
        return float(predict_without(model, image, removed).softmax(0)[TARGET])

    patches = {*range(PATCHES)}
    sets = itertools.chain(*(itertools.combinations(patches, n) for n in range(PATCHES + 1)))
    return {frozenset(each): predict(patches - {*each}) - predict(each) for each in sets}


def score_order(values, order) -> float:
    """Compute the area under the curve of the values of the first patches of an order."""
    curve = [values[frozenset(order[:k])] for k in range(PATCHES + 1)]
    return sum(curve[1:-1], (curve[0] + curve[-1]) / 2) / PATCHES


def sort_patches(found) -> list[int]:
    return (-found.values.flatten()).argsort(stable=True).tolist()


@pytest.mark.parametrize("build", [lambda: build_kind("class token"), build_convolutional])
def test_order_is_almost_the_best_of_all_orders(build):
    model, is_best = build(), []
    for seed in range(4):
        image = make_image(seed)
        values = list_values(model, image)
        scores = [score_order(values, order) for order in itertools.permutations(range(PATCHES))]
        found = search_best_order(model, image, TARGET, SMALL_GRID)
        order = sort_patches(found)
        assert found.score == pytest.approx(score_order(values, order))
        assert found.score <= max(scores) + 1e-9
        assert sum(score > found.score + 1e-9 for score in scores) < 0.02 * len(scores)
        is_best.append(found.score == pytest.approx(max(scores)))
        # No swap of neighbours is better.
        for i in range(PATCHES - 1):
            swapped = [*order[:i], order[i + 1], order[i], *order[i + 2 :]]
            assert score_order(values, swapped) <= found.score + best_order.MIN_GAIN
    assert sum(is_best) >= 2


def fill_by_loops(values, sizes) -> list[int]:
    """Return the step of each patch: fill the first and the last steps in turn."""
    steps, unused = {}, {*range(PATCHES)}
    turns = [step for pair in zip(range(len(sizes)), range(len(sizes))[::-1]) for step in pair]  # noqa: B905
    for turn, step in enumerate(turns[: len(sizes)]):
        is_last = turn % 2 == 1
        base = {p for p, at in steps.items() if (at > step if is_last else at < step)}
        gains = {p: values[frozenset(base | {p})] - values[frozenset(base)] for p in unused}
        ranked = sorted(unused, key=lambda p: gains[p] * (1 if is_last else -1))
        for patch in ranked[: sizes[step]]:
            steps[patch] = step
            unused.remove(patch)
    return [steps[patch] for patch in range(PATCHES)]


@pytest.mark.parametrize("steps", [None, 4, 3, 2, 1])
def test_first_part_fills_the_steps_as_loops_do(steps):
    model, image = build_kind("class token"), make_image()
    values = list_values(model, image)

    def measure(sets):
        chosen = [frozenset(each.nonzero()[:, 0].tolist()) for each in sets]
        return torch.tensor([values[each] for each in chosen], dtype=torch.float64)

    ends = list_step_ends(PATCHES, steps)
    search = best_order._Search(measure, ends, 10_000, 0, None)
    search.fill_steps()
    assert search.step_of.tolist() == fill_by_loops(values, ends.diff().tolist())


@pytest.mark.parametrize("fill", ["mean", "blur", "drop"])
@pytest.mark.parametrize("against", [None, 1])
def test_score_is_measured_like_the_score_of_a_map(fill, against):
    model, image = build_kind("class token"), make_image()
    settings = {"fill": fill, "against": against, "steps": 5}
    found = search_best_order(model, image, TARGET, GRID, **settings)
    measured = measure_perturbation_curves(model, image, TARGET, {"best": found.values}, **settings)
    assert found.score == pytest.approx(measured.scores["best"])
    assert found.score > measured.random_scores.max()
    if fill == "mean" and against is None:
        ends = list_step_ends(math.prod(GRID), 5)
        curves = reference_curves(model, image, TARGET, found.values, torch.zeros_like(image))
        areas = torch.trapezoid(curves[:, ends], ends / math.prod(GRID))
        assert found.score == pytest.approx(float(areas[1] - areas[0]))


def test_search_passes_at_most_the_chosen_number_of_images():
    model, image, passed, steps = build_kind("class token"), make_image(), [], []
    model.register_forward_hook(lambda module, inputs, output: passed.append(len(output)))
    settings = {"steps": 8, "on_step": lambda *at: steps.append(at)}
    scores = []
    for most in (0, 120, 180, 4000):
        passed.clear()
        found = search_best_order(model, image, TARGET, GRID, max_passes=most, **settings)
        assert sum(passed) == found.passes <= max(most, 4 * (math.prod(GRID) + 8))
        assert steps[-1] == (found.passes, most)
        scores.append(found.score)
    assert found.passes < 4000  # no swap is left to test
    assert scores[0] < scores[-1]


def test_search_improves_the_given_order_if_it_is_better():
    model, image = build_kind("class token"), make_image()
    values = list_values(model, image)
    orders = sorted(itertools.permutations(range(PATCHES)), key=partial(score_order, values))
    scores = []
    for order in (orders[0], orders[-1]):
        start = torch.empty(PATCHES)
        start[list(order)] = torch.arange(PATCHES, 0, -1).float()
        settings = {"start": start.view(SMALL_GRID), "max_passes": 0}
        scores.append(search_best_order(model, image, TARGET, SMALL_GRID, **settings).score)
    own = search_best_order(model, image, TARGET, SMALL_GRID, max_passes=0).score
    best = score_order(values, orders[-1])
    assert scores == pytest.approx([own, best]) and own < best


def test_search_can_be_stopped():
    def stop(done, total):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        search_best_order(build_kind("class token"), make_image(), TARGET, GRID, on_step=stop)


@pytest.mark.parametrize("grid", [(1, 1), (1, 2), (1, 3)])
def test_very_few_patches_are_ordered(grid):
    found = search_best_order(build_kind("class token"), make_image(), TARGET, grid)
    assert found.values.shape == grid and len(found.values.unique()) == math.prod(grid)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 99}, "target 99 is out of range"),
        ({"fill": "noise"}, "Unknown fill 'noise'"),
        ({"steps": 0}, "steps is 0"),
    ],
)
def test_errors_name_the_value(options, message):
    options = {"target": TARGET, "grid": GRID, **options}
    with pytest.raises(ValueError, match=message):
        search_best_order(build_kind("class token"), make_image(), **options)
