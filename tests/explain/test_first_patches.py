"""Scores of the first patches of orders, compared with loops over single images."""

from functools import partial

import pytest
import torch

from tests.explain.test_attributions import build_convolutional, build_kind
from tests.explain.test_best_order import TARGET, list_values, make_image
from tests.explain.test_removal_search import GRID, predict_without
from vitdemo.explain.faithfulness import measure_perturbation_curves
from vitdemo.explain.first_patches import (
    measure_first_patches,
    score_first_patches,
    search_first_patches,
)
from vitdemo.explain.removal_search import score_class, search_removal

ORDERS = torch.tensor([[4, 0, 5], [1, 2, 0], [4, 5, 0]])


@pytest.mark.parametrize("build", [lambda: build_kind("class token"), build_convolutional])
@pytest.mark.parametrize("against", [None, 1])
def test_scores_equal_those_of_loops(build, against):
    model, image = build(), make_image()
    classes = [*range(model.num_classes)] if against is None else [TARGET, against]

    def predict(removed) -> float:
        logits = predict_without(model, image, removed)
        return float(logits[classes].softmax(0)[classes.index(TARGET)])

    found = measure_first_patches(model, image, TARGET, ORDERS, GRID, against=against)
    for i, order in enumerate(ORDERS.tolist()):
        first = [order[:k] for k in range(4)]
        without = [predict(patches) for patches in first]
        only = [predict({*range(6)} - {*patches}) for patches in first]
        assert found[:, i].flatten().tolist() == pytest.approx([*without, *only])
        score = float(score_first_patches(found)[i])
        assert score == pytest.approx(sum(only[1:]) / 3 - sum(without[1:]) / 3)


def test_curves_begin_as_those_of_the_faithfulness_test():
    model, image = build_kind("class token"), make_image()
    values = torch.rand(4, 4, generator=torch.Generator().manual_seed(0))
    order = values.flatten().argsort(descending=True)[None, :5]
    found = measure_first_patches(model, image, TARGET, order, (4, 4), fill="drop")
    measured = measure_perturbation_curves(model, image, TARGET, {"own": values}, fill="drop")
    for curve, curves in zip(found[:, 0], (measured.deletion, measured.insertion), strict=True):
        assert curve.tolist() == pytest.approx(curves["own"][:6].tolist())


def test_search_chooses_the_best_patch_in_each_step():
    model, image, order = build_kind("class token"), make_image(), []
    values = list_values(model, image)
    for _ in range(3):
        rest = {*range(6)} - {*order}
        order.append(max(rest, key=lambda patch: values[frozenset({*order, patch})]))
    found = search_first_patches(model, image, TARGET, GRID, 3)
    assert found.order == tuple(order)
    scores = [
        float(score_first_patches(measure_first_patches(model, image, TARGET, each[None], GRID)))
        for each in (torch.tensor(order), *ORDERS)
    ]
    assert max(scores) == scores[0]


def test_removal_ends_after_the_chosen_number_of_patches():
    model, image = build_kind("class token"), make_image()
    score = partial(score_class, target=TARGET)
    every = search_removal(model, image, GRID, score)
    found = search_removal(model, image, GRID, score, max_removed=2)
    assert found.order == every.order[:2] and found.passes == 1 + 6 + 5
    assert search_removal(model, image, GRID, score, max_removed=99).order == every.order
    with pytest.raises(ValueError, match="max_removed is 0"):
        search_removal(model, image, GRID, score, max_removed=0)


def test_errors_name_the_fault():
    model, image = build_kind("class token"), make_image()
    with pytest.raises(ValueError, match="contains a patch twice"):
        measure_first_patches(model, image, TARGET, torch.tensor([[1, 1]]), GRID)
    with pytest.raises(ValueError, match="target 99 is out of range"):
        measure_first_patches(model, image, 99, ORDERS, GRID)
    with pytest.raises(ValueError, match="Unknown fill 'noise'"):
        measure_first_patches(model, image, TARGET, ORDERS, GRID, fill="noise")
