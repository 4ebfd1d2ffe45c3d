"""Greedy search for few patches whose removal changes a prediction.

This is the deletion game of Fong & Vedaldi 2017 (https://arxiv.org/abs/1704.03296) on whole
patches. In each step, the search tests the candidate patches: each one is removed together with the
patches of earlier steps. The patch with the lowest objective stays removed. When the prediction has
changed, the search can restore patches that are not needed. The number of patches is an upper bound
for the smallest number: a smaller set may exist.

Letters: P patches (rows x columns), C classes, n sets of patches, S side.

    objective = partial(score_class, target=3)
    found = search_removal(model, image, (8, 8), objective, fill="drop")  # an order of all patches
    misses = lambda logits: logits.argmax(dim=1) != 3
    search_removal(model, image, (8, 8), objective, stop=misses, restores=True).order  # few patches
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitdemo.explain.attributions import ATTRIBUTION_BATCH_SIZE, OnStep
from vitdemo.explain.faithfulness.fills import ReplacePatches, check_fill, predict_patch_sets

MAX_PASSES = 2000  # images that a search passes through the model, by default
FULL_STEP = 3  # one of this number of steps tests all patches


@dataclass(frozen=True)
class RemovalSearch:
    """The patches that a search removed, in this order.

    `values` are the objective for the full image and after each step of the search. `passes` is the
    number of images that passed through the model. `is_met` is true if the stop rule holds without
    these patches; without a stop rule, it is true if all patches are removed.
    """

    order: tuple[int, ...]
    values: tuple[float, ...]
    passes: int
    is_met: bool


def score_class(logits: Tensor, target: int | Tensor) -> Tensor:
    """Return the log-probability (n,) of class `target` from `logits` (n, C).

    It has the same order as the probability, but also separates probabilities near 1. The value of
    a tensor `target` () is not read.
    """
    chosen = torch.as_tensor(target, device=logits.device).view(1)
    return logits.log_softmax(dim=1).index_select(1, chosen)[:, 0]


def search_removal(
    model: nn.Module,
    image: Tensor,
    grid: tuple[int, int],
    objective: Callable[[Tensor], Tensor],
    *,
    fill: str | ReplacePatches = "mean",
    stop: Callable[[Tensor], Tensor] | None = None,
    restores: bool = False,
    candidates: int | None = None,
    max_passes: int = MAX_PASSES,
    max_removed: int | None = None,
    on_step: OnStep | None = None,
) -> RemovalSearch:
    """Remove patches of `image`, one per step, so that the objective becomes as low as possible.

    Args:
        image: normalised, (1, 3, S, S).
        grid: rows and columns of the patches. With `fill="drop"`, it must be the model's grid.
        objective: function of logits (n, C) that returns the values (n,) to lower, such as
            `score_class` or the logit of a class.
        fill: replacement of removed patches, as in `predict_patch_sets`.
        stop: function of logits (n, C) that returns whether the search ends (n,). None means that
            the search removes all patches.
        restores: whether the search then restores patches, one per step, while the rule `stop`
            still holds. Each step restores the patch that leaves the objective lowest.
        candidates: number of patches to test in most steps. They are the patches with the largest
            decrease of the objective in their last test. The first step and every third step after
            it test all patches, because decreases change. None: every step tests all patches.
        max_passes: the search ends before it passes more images through the model.
        max_removed: the search ends when it has removed this number of patches. None: no limit.
        on_step: called as (passes, max_passes); an exception in `on_step` stops the search.

    Raises `ValueError` for a replacement that the model does not support, and for numbers below 1.
    """
    check_fill(model, fill)
    limits = {"candidates": candidates, "max_passes": max_passes, "max_removed": max_removed}
    for name, number in limits.items():
        if number is not None and number < 1:
            raise ValueError(f"{name} is {number}, but must be at least 1.")
    P, batch = math.prod(grid), ATTRIBUTION_BATCH_SIZE
    loop = RemovalLoop(P, objective, stop, restores, candidates, max_passes, batch, max_removed)

    def predict(sets: Tensor, needed: Tensor) -> Tensor:
        logits = predict_patch_sets(model, image, ~sets[needed], grid, fill)  # (n, C)
        return logits.new_zeros(len(sets), logits.shape[1]).index_put((needed,), logits)

    return run_search(loop, predict, image.dtype, on_step)


def run_search(
    loop: "RemovalLoop",
    predict: Callable[[Tensor, Tensor], Tensor],
    dtype: torch.dtype,
    on_step: OnStep | None = None,
) -> RemovalSearch:
    """Repeat the steps of `loop` until it is finished; `dtype` is that of the predictions.

    `predict` is as in `RemovalLoop.continue_search`, and `on_step` as in `search_removal`.
    """
    state, values = loop.start(dtype), []
    while not state["is_finished"]:
        state = loop.continue_search(predict, state)
        if state["steps"] > len(values):
            values.append(float(state["score"]))
        if on_step is not None:
            on_step(int(state["passes"]), loop.max_passes)
    return RemovalSearch(
        loop.list_order(state), tuple(values), int(state["passes"]), bool(state["is_met"])
    )


@dataclass(frozen=True)
class RemovalLoop:
    """The steps of `search_removal`, as functions that read no values of tensors.

    Such functions can be recorded as graphs. A round tests one more or one less removed patch for
    each of its candidates, at most `batch_size` at a time, and then changes the best candidate. The
    candidate P changes no patch: the first round tests the full image.
    """

    P: int
    objective: Callable[[Tensor], Tensor]
    stop: Callable[[Tensor], Tensor] | None
    restores: bool
    candidates: int | None
    max_passes: int
    batch_size: int
    max_removed: int | None = None

    def start(self, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        """Return the state before the first step.

        "removed" (P,) are the removed patches, "steps" () is the number of rounds, "step_of" (P,)
        the round that removed a patch, "passes" () the number of tested images, "score" () the
        objective, and "is_met" () whether the stop rule holds.
        """
        none = torch.zeros(self.P + 1, dtype=torch.bool)
        first = torch.arange(self.P + 1) == self.P
        return {
            "removed": none[: self.P],
            "step_of": torch.zeros(self.P, dtype=torch.long),
            "decrease": torch.zeros(self.P, dtype=dtype),  # of the objective, when last tested
            "candidates": first,  # of the round
            "pending": first,  # candidates that are not tested yet
            "scores": torch.zeros(self.P + 1, dtype=dtype),
            "meets_rule": none,
            "score": torch.zeros((), dtype=dtype),
            "steps": torch.tensor(0),
            "passes": torch.tensor(0),
            "is_met": torch.tensor(False),
            "is_restoring": torch.tensor(False),
            "is_finished": torch.tensor(False),
        }

    def continue_search(
        self, predict: Callable[[Tensor, Tensor], Tensor], state: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """Test the next candidates; the last ones end the round.

        `predict` returns the logits (n, C) without the patches in sets (n, P). Its second argument
        (n,) is false for sets whose logits are not needed.
        """
        place = torch.arange(self.P + 1)
        pending = state["pending"]
        first = torch.where(pending, -place, -place - len(place))
        tested = first.topk(min(self.batch_size, len(place))).indices  # (n,)
        needed = pending.index_select(0, tested)
        logits = predict(state["removed"] ^ (tested[:, None] == place[: self.P]), needed)
        rules = self.stop(logits) if self.stop else torch.zeros_like(needed)

        def update(name: str, new: Tensor) -> Tensor:
            old = state[name].index_select(0, tested)
            return state[name].scatter(0, tested, torch.where(needed, new.to(old.dtype), old))

        new = {
            **state,
            "scores": update("scores", self.objective(logits)),
            "meets_rule": update("meets_rule", rules),
            "pending": pending.scatter(0, tested, torch.zeros_like(needed)),
            "passes": state["passes"] + needed.sum(),
        }
        ended = self.end_round(new)
        is_last = ~new["pending"].any()
        return {name: torch.where(is_last, ended[name], each) for name, each in new.items()}

    def end_round(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Change the patch of the best candidate, and begin the next round."""
        allowed = state["candidates"] & state["meets_rule"]
        is_useless = state["is_restoring"] & ~allowed.any()  # no patch can be restored
        allowed = torch.where(allowed.any(), allowed, state["candidates"])
        best = state["scores"].masked_fill(~allowed, math.inf).argmin()[None]
        is_changed = (torch.arange(self.P) == best) & ~is_useless
        removed, steps = state["removed"] ^ is_changed, state["steps"] + (~is_useless).long()
        found, is_met = (state[n].index_select(0, best)[0] for n in ("scores", "meets_rule"))
        score = torch.where(is_useless, state["score"], found)
        is_met = torch.where(is_useless, state["is_met"], is_met if self.stop else removed.all())
        decrease = torch.where(
            state["candidates"][: self.P],
            state["score"] - state["scores"][: self.P],
            state["decrease"],
        )
        most = self.P if self.max_removed is None else min(self.max_removed, self.P)
        ends_removal = is_met | (removed.sum() >= most) | (state["passes"] >= self.max_passes)
        can_restore = removed.any() & (state["passes"] + removed.sum() <= self.max_passes)
        is_restoring = state["is_restoring"] | (is_met & bool(self.restores and self.stop))
        candidates = torch.where(
            is_restoring, removed, self.choose_candidates(removed, decrease, state["passes"])
        )
        candidates = torch.cat([candidates, torch.zeros_like(candidates[:1])])
        return {
            **state,
            "removed": removed,
            "step_of": torch.where(is_changed, steps, state["step_of"]),
            "decrease": decrease,
            "candidates": candidates,
            "pending": candidates,
            "score": score,
            "steps": steps,
            "is_met": is_met,
            "is_restoring": is_restoring,
            "is_finished": torch.where(is_restoring, is_useless | ~can_restore, ends_removal),
        }

    def choose_candidates(self, removed: Tensor, decrease: Tensor, passes: Tensor) -> Tensor:
        """Return the patches (P,) that the next round of the removal tests."""
        count = torch.tensor(self.P)
        if self.candidates is not None:
            is_full = removed.sum() % FULL_STEP == 0
            count = torch.where(is_full, count, self.candidates)
        order = decrease.masked_fill(removed, -math.inf).sort(descending=True, stable=True).indices
        rank = torch.zeros_like(order).scatter(0, order, torch.arange(self.P))
        return ~removed & (rank < torch.minimum(count, self.max_passes - passes))

    def list_order(self, state: Mapping[str, Tensor]) -> tuple[int, ...]:
        """Return the removed patches in the order of their removal."""
        steps = state["step_of"].masked_fill(~state["removed"], 0)
        return tuple(
            steps.argsort(stable=True)[len(steps) - int(state["removed"].sum()) :].tolist()
        )
