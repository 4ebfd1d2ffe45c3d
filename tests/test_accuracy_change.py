"""The interval of a change in accuracy: by hand, by counting how often it is right, at its ends."""

import numpy as np
import pytest

from vitdemo.metrics.change import accuracy_change


def right(both, won, lost, neither):
    before = [True] * (both + lost) + [False] * (won + neither)
    after = [True] * both + [False] * lost + [True] * won + [False] * neither
    return np.array(before), np.array(after)


def test_a_case_worked_by_hand():
    change = accuracy_change(*right(both=70, won=2, lost=12, neither=16))
    assert (change.before, change.after, change.pictures) == (0.82, 0.72, 100)
    # -10 / 102 -+ 1.96 * sqrt(15 - 100 / 102) / 102
    assert change.low == pytest.approx(-0.16994, abs=1e-4)
    assert change.high == pytest.approx(-0.02614, abs=1e-4)
    assert change.is_clear


def test_nothing_changed_is_no_clear_change_and_has_a_width():
    change = accuracy_change(*right(both=80, won=0, lost=0, neither=20))
    assert change.low == -change.high < 0
    assert not change.is_clear


def test_all_lost_stays_within_one():
    change = accuracy_change(*right(both=0, won=0, lost=5, neither=0))
    assert (change.low, change.before, change.after) == (-1.0, 1.0, 0.0)


@pytest.mark.parametrize(("won", "lost"), [(0.02, 0.02), (0.05, 0.15), (0.0, 0.01)])
def test_95_of_100_intervals_hold_the_truth(won, lost):
    random = np.random.default_rng(0)
    held = []
    for _ in range(2000):
        side = random.random(300)
        before = (side < lost) | (side > 0.5)  # lost: right before alone; above 0.5: right twice
        after = ((side > lost) & (side < lost + won)) | (side > 0.5)
        change = accuracy_change(before, after)
        held.append(change.low <= won - lost <= change.high)
    assert np.mean(held) > 0.94


def test_pictures_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match=r"\(3,\) and \(4,\)"):
        accuracy_change(np.ones(3, bool), np.ones(4, bool))
