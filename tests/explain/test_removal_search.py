"""The greedy search for few removed patches, compared with loops over single images."""

import itertools
from functools import partial

import pytest
import torch

from tests.explain.test_attributions import build_convolutional, build_kind
from vitdemo.explain import removal_search
from vitdemo.explain.removal_search import score_class, search_removal

GRID, P, TARGET = (2, 3), 6, 2
SIDE = 32


@torch.no_grad()
def predict_without(model, image, patches) -> torch.Tensor:
    """Compute the logits (C,) of `image` with `patches` of `GRID` painted with zeros."""
    image = image.clone()
    for patch in patches:
        row, column = divmod(patch, GRID[1])
        rows = [y for y in range(SIDE) if y * GRID[0] // SIDE == row]
        columns = [x for x in range(SIDE) if x * GRID[1] // SIDE == column]
        for y, x in itertools.product(rows, columns):
            image[0, :, y, x] = 0
    return model(image)[0]


def search_by_loops(model, image, score, is_met) -> tuple[list[int], list[float]]:
    """Search without batches: in each step, test each patch that remains."""
    order, values = [], [score(predict_without(model, image, []))]
    while len(order) < P and not is_met(predict_without(model, image, order)):
        tested = {}
        for patch in set(range(P)) - {*order}:
            logits = predict_without(model, image, [*order, patch])
            tested[patch] = (not is_met(logits), score(logits))
        best = min(tested, key=tested.get)
        order.append(best)
        values.append(tested[best][1])
    return order, values


@pytest.fixture(scope="module", params=["convolutional", "vision transformer"])
def model_and_image(request):
    build = {"convolutional": build_convolutional}
    model = build.get(request.param, partial(build_kind, "class token"))()
    generator = torch.Generator().manual_seed(1)
    return model, torch.randn(1, 3, SIDE, SIDE, dtype=torch.float64, generator=generator)


def log_probability(logits) -> float:
    return float(logits[TARGET] - logits.exp().sum().log())


def test_order_and_values_equal_those_of_loops(model_and_image):
    model, image = model_and_image
    order, values = search_by_loops(model, image, log_probability, lambda logits: False)
    found = search_removal(model, image, GRID, partial(score_class, target=TARGET))
    assert found.order == tuple(order)
    assert found.values == pytest.approx(values)
    assert found.is_met and found.passes == 1 + sum(range(1, P + 1))


def test_search_ends_when_the_class_changes(model_and_image):
    model, image = model_and_image
    target = int(predict_without(model, image, []).argmax())

    def is_other(logits) -> bool:
        return int(logits.argmax()) != target

    order, values = search_by_loops(model, image, lambda logits: float(logits[target]), is_other)
    found = search_removal(
        *(model, image, GRID, lambda logits: logits[:, target]),
        stop=lambda logits: logits.argmax(dim=1) != target,
    )
    assert found.order == tuple(order) and found.values == pytest.approx(values)
    assert found.is_met == is_other(predict_without(model, image, order))


def test_a_set_that_meets_the_rule_is_preferred():
    """Patch 0 lowers the objective most, but only patch 1 meets the rule."""
    model = ConstantModel()
    found = search_removal(
        *(model, torch.ones(1, 3, 2, 2), (1, 2), lambda logits: logits[:, 0]),
        stop=lambda logits: logits[:, 1] < 1,
    )
    assert (found.order, found.values, found.is_met) == ((1,), (3.0, 2.0), True)


class ConstantModel(torch.nn.Module):
    """Logit 0 is twice the left pixel plus the right pixel, and logit 1 is the right pixel."""

    num_classes = 2

    def forward(self, images):
        left, right = images[:, 0, 0].unbind(1)
        return torch.stack([2 * left + right, right], dim=1)


def test_nothing_is_removed_if_the_rule_is_already_met(model_and_image):
    objective = partial(score_class, target=TARGET)
    stop = lambda logits: torch.ones(len(logits), dtype=torch.bool)  # noqa: E731
    found = search_removal(*model_and_image, GRID, objective, stop=stop)
    assert (found.order, found.passes, found.is_met) == ((), 1, True)


def test_all_patches_are_removed_if_the_rule_is_never_met(model_and_image):
    objective = partial(score_class, target=TARGET)
    stop = lambda logits: torch.zeros(len(logits), dtype=torch.bool)  # noqa: E731
    found = search_removal(*model_and_image, GRID, objective, stop=stop)
    assert sorted(found.order) == [*range(P)] and not found.is_met


def test_later_steps_test_the_candidates_with_the_largest_last_decrease(
    model_and_image, monkeypatch
):
    model, image = model_and_image
    monkeypatch.setattr(removal_search, "FULL_STEP", P)  # only the first step tests all patches
    found = search_removal(model, image, GRID, partial(score_class, target=TARGET), candidates=1)
    single = [log_probability(predict_without(model, image, [patch])) for patch in range(P)]
    assert found.order == tuple(sorted(range(P), key=single.__getitem__))
    assert found.passes == 1 + P + (P - 1)


def test_every_third_step_tests_all_patches(model_and_image):
    found = search_removal(
        *(*model_and_image, GRID, partial(score_class, target=TARGET)), candidates=2
    )
    assert found.passes == 1 + (6 + 2 + 2) + (3 + 2 + 1)


class WeightedPixels(torch.nn.Module):
    """Logit 0 is 4 times the first pixel, plus twice the second, plus the third; others follow."""

    num_classes = 4

    def forward(self, images):
        pixels = images[:, 0, 0]  # (n, 3)
        weighted = pixels @ torch.tensor([4.0, 2.0, 1.0])
        return torch.cat([weighted[:, None], pixels], dim=1)


def test_patches_that_are_not_needed_are_restored():
    """The search removes the first pixel first, but the rule needs only the other pixels."""
    found = search_removal(
        *(WeightedPixels(), torch.ones(1, 3, 3, 3), (1, 3), lambda logits: logits[:, 0]),
        stop=lambda logits: logits[:, 2] + logits[:, 3] == 0,
        restores=True,
    )
    assert (found.order, found.is_met) == ((1, 2), True)
    assert found.values == (7, 3, 1, 0, 4)
    assert found.passes == (1 + 3 + 2 + 1) + (3 + 2)


def test_every_patch_that_stays_removed_is_needed(model_and_image):
    model, image = model_and_image
    threshold = log_probability(predict_without(model, image, [0, 1, 2]))

    def is_met(logits) -> bool:
        return log_probability(logits) <= threshold + 1e-9

    found = search_removal(
        *(model, image, GRID, partial(score_class, target=TARGET)),
        stop=lambda logits: score_class(logits, TARGET) <= threshold + 1e-9,
        restores=True,
        candidates=1,
    )
    assert found.is_met and is_met(predict_without(model, image, found.order))
    for patch in found.order:
        others = [each for each in found.order if each != patch]
        assert not is_met(predict_without(model, image, others))


@pytest.mark.parametrize("max_passes", [1, 4, 9])
def test_no_more_images_are_passed_than_allowed(model_and_image, max_passes):
    steps = []
    found = search_removal(
        *model_and_image,
        GRID,
        partial(score_class, target=TARGET),
        max_passes=max_passes,
        on_step=lambda done, total: steps.append((done, total)),
    )
    assert found.passes == max_passes and not found.is_met
    assert steps[-1] == (max_passes, max_passes)
    assert steps == sorted(steps)
    assert len(found.order) == {1: 0, 4: 1, 9: 2}[max_passes]


def test_an_exception_in_the_report_stops_the_search(model_and_image):
    def stop_after_five(done, total):
        if done > 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        search_removal(
            *model_and_image, GRID, partial(score_class, target=0), on_step=stop_after_five
        )


def test_dropped_tokens_need_a_supported_model():
    image = torch.randn(1, 3, SIDE, SIDE, dtype=torch.float64)
    model = build_kind("class token")
    found = search_removal(
        model,
        image,
        tuple(model.patch_embed.grid_size),
        partial(score_class, target=0),
        fill="drop",
    )
    assert sorted(found.order) == [*range(model.patch_embed.num_patches)]
    with pytest.raises(ValueError, match="'drop'"):
        search_removal(
            build_convolutional(), image, GRID, partial(score_class, target=0), fill="drop"
        )


@pytest.mark.parametrize("name", ["candidates", "max_passes"])
def test_numbers_below_one_are_rejected(model_and_image, name):
    with pytest.raises(ValueError, match=f"{name} is 0"):
        search_removal(*model_and_image, GRID, partial(score_class, target=0), **{name: 0})
