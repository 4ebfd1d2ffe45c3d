"""Predictions before and after a change, which several views compare.

    {"predicted": [class before, class now], "classes": [names], "before": [probabilities],
     "now": [probabilities]}

The classes are the most probable before the change, then the most probable after it.

Letters: C classes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from vitdemo.page.graph import Choice, Numbers, Outputs

PROBABILITY_DIGITS = 6  # enough for equal rounding in the browser and in Python


def compare_predictions(
    classes: Sequence[str], before: Tensor, now: Tensor, shown_before: int, shown_now: int
) -> Outputs:
    """Return the probabilities (C,) `before` and `now` of the most probable classes of each.

    No values are read, see `page.graph`.
    """
    first, then = (
        values.topk(min(count, len(classes))).indices
        for values, count in ((before, shown_before), (now, shown_now))
    )
    is_twice = (then[:, None] == first).any(1)
    shown = torch.cat([first, then])
    left_out = torch.cat([torch.zeros_like(first).bool(), is_twice])
    return {
        "predicted": Choice(torch.stack([before.argmax(), now.argmax()]), classes),
        "classes": Choice(torch.where(left_out, -1, shown), classes),
        **{
            name: Numbers(values[shown].masked_fill(left_out, torch.nan), PROBABILITY_DIGITS)
            for name, values in (("before", before), ("now", now))
        },
    }
