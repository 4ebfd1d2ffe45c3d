"""Milestones, stages and reasons, by hand from small histories."""

from dataclasses import replace

import pytest

from tests.making import VIT, make_run, record
from vitdemo.metrics import learning
from vitdemo.models import ModelSpec


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", epochs=6)


def with_recipe(run, **changes):
    return replace(run, config=run.config | {"recipe": run.config["recipe"] | changes})


def with_accuracies(run, *pairs):
    records = [
        record(epoch) | {"train_accuracy": train, "val_accuracy": validation}
        for epoch, (train, validation) in enumerate(pairs, start=1)
    ]
    return replace(run, history=tuple(records))


def test_minutes_add_up(run):
    assert learning.minutes(run) == pytest.approx([0.5, 1, 1.5, 2, 2.5, 3])


def test_milestones_are_the_first_epochs_that_reach_them(run):
    found = with_accuracies(run, (0.5, 0.7), (0.6, 0.8), (0.7, 0.79), (0.8, 0.91))
    assert learning.reached(found, (0.80, 0.90, 0.94)) == [
        learning.Reached(0.80, 2, 1.0),
        learning.Reached(0.90, 4, 2.0),
    ]


@pytest.mark.parametrize(
    ("best", "shares"),
    [
        ((0.61, 0.66, 0.79), [0.60, 0.65, 0.75]),  # of each run, what it reached
        ((0.962,), [0.85, 0.90, 0.95]),
        ((0.91, 0.93), [0.80, 0.85, 0.90]),
        ((0.61, 0.97), [0.60, 0.75, 0.95]),
        ((0.07,), [0.05]),
        ((0.0,), []),
        ((), []),
    ],
)
def test_milestones_are_taken_from_the_runs(run, best, shares):
    found = [with_accuracies(run, (0.5, 0.01), (0.5, share)) for share in best]
    assert learning.milestones([*found, replace(run, history=())]) == pytest.approx(shares)


def test_the_speed_of_a_run_is_that_of_its_usual_epoch(run):
    speeds = (322, 300, 868)  # another process had ended before the last one
    history = [r | {"images_per_second": s} for r, s in zip(run.history, speeds, strict=False)]
    assert learning.images_per_second(replace(run, history=tuple(history))) == 322
    assert learning.images_per_second(replace(run, history=())) is None


def test_what_a_run_started_from_counts(run):
    origin = {"run": "masked", "epochs": 16, "seconds": 90.0}
    found = replace(run, config=run.config | {"started_from": origin})
    assert learning.minutes(found) == pytest.approx([2, 2.5, 3, 3.5, 4, 4.5])
    assert found.train_seconds == run.train_seconds + 90 == 270
    first = learning.stages(found)[0]
    assert first.when == "at the start" and "masked, whose 16 epochs took 1.5 min" in first.words
    for strange in ("masked", {"seconds": "long"}, None):
        other = replace(run, config=run.config | {"started_from": strange})
        assert other.train_seconds == run.train_seconds
        assert len(learning.stages(other)) == bool(other.origin)


def test_dropped_patches_are_a_stage_and_a_reason(run):
    found = with_recipe(run, epochs=10, warmup_epochs=0, patch_dropout=0.5, whole_epochs=2)
    assert [(stage.after, stage.when) for stage in learning.stages(found)] == [
        (8, "after 8 epochs")
    ]
    assert "lack 50 % of their patches" in learning.reasons(found)[0]
    always = with_recipe(run, epochs=10, warmup_epochs=0, patch_dropout=0.5, whole_epochs=0)
    assert learning.stages(always) == []


def test_the_gap_is_training_minus_validation_in_points(run):
    found = with_accuracies(run, (0.5, 0.7), (0.75, 0.7))
    assert learning.gap(found) == pytest.approx([-20, 5])
    assert learning.below_validation(found) == 1
    assert learning.below_validation(replace(run, history=())) == 0


def test_smoothing_by_hand():
    assert learning.smoothed([1, 2, 4], 0) == [1, 2, 4]
    # weight 0.5: 1; (0.25*1 + 0.5*2)/0.75; (0.125*1 + 0.25*2 + 0.5*4)/0.875
    assert learning.smoothed([1, 2, 4], 0.5) == pytest.approx([1, 1.25 / 0.75, 2.625 / 0.875])
    assert learning.smoothed([], 0.9) == []


def test_stages_in_order_of_time(run):
    recipe = {"head_epochs": 2, "epochs": 10, "warmup_epochs": 0.5, "mixup": 0.2}
    found = learning.stages(with_recipe(run, **recipe, unmixed_epochs=3, patience=4))
    assert [stage.after for stage in found] == [2, 2.5, 6, 9]
    assert "head" in found[0].words and "warm-up" in found[1].words
    assert "lowest validation loss" in found[2].words and "MixUp" in found[3].words


def test_the_weights_are_the_last_epochs_or_those_of_the_lowest_validation_loss(run):
    losses = (0.9, 0.4, 0.4, 0.5)
    history = tuple(
        record | {"epoch": epoch, "val_loss": loss}
        for epoch, loss, record in zip(range(1, 5), losses, 4 * run.history[:1], strict=True)
    )
    found = replace(run, history=history)
    assert learning.record_of_weights(found)["epoch"] == 4
    assert learning.record_of_weights(with_recipe(found, patience=8))["epoch"] == 2
    assert learning.record_of_weights(replace(run, history=())) is None


def test_one_cycle_rises_for_three_tenths(run):
    (found,) = learning.stages(with_recipe(run, schedule="one-cycle", epochs=10, warmup_epochs=2))
    assert found.after == pytest.approx(3)


def test_a_plain_run_has_no_stages(run):
    assert learning.stages(run) == []


def test_reasons_name_what_the_recipe_does(run):
    plain = learning.reasons(with_recipe(run, crop_padding=0, flip=False))
    assert len(plain) == 1 and "means over the epoch" in plain[0]
    full = with_recipe(
        run, mixup=0.2, cutmix=1.0, policy="rand", label_smoothing=0.1, ema_decay=0.9
    )
    words = " ".join(learning.reasons(full))
    for part in (
        "MixUp and CutMix",
        "random operations, shifted and mirrored",
        "smoothing",
        "mean",
    ):
        assert part in words
    assert "Dropout" not in words
    dropping = replace(full, spec=ModelSpec("vit", 16, options=dict(VIT.options, drop_rate=0.1)))
    assert "Dropout" in " ".join(learning.reasons(dropping))


@pytest.mark.parametrize("odd", [{"mixup": "lots"}, {"head_epochs": None}, {"policy": 7}])
def test_an_odd_field_counts_as_not_there(run, odd):
    (field,) = odd
    assert learning.setting(with_recipe(run, **odd), field) == learning.setting(run, field)


def test_a_recipe_without_fields_is_explained_all_the_same(run):
    bare = replace(run, config={"recipe": {"name": "timm:x"}})
    assert learning.stages(bare) == []
    assert learning.reasons(bare)
