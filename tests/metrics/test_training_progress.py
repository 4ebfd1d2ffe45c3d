"""Milestones, stages and explanations of training curves, on small histories."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.factories import VIT, make_history_record, make_run, record_start_weights
from vitdemo.metrics import training_progress as progress


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "run", epochs=6)


def with_recipe(run, **changes):
    return replace(run, config=run.config | {"recipe": run.config["recipe"] | changes})


def with_history(run, *changes):
    """Return `run` with one epoch per entry of `changes`, which overrides values of its record."""
    records = [make_history_record(epoch) | change for epoch, change in enumerate(changes, start=1)]
    return replace(run, history=tuple(records))


def with_accuracies(run, *pairs):
    return with_history(run, *({"train_accuracy": t, "val_accuracy": v} for t, v in pairs))


def test_milestones_are_the_first_epochs_that_reach_them(run):
    example = with_accuracies(run, (0.5, 0.7), (0.6, 0.8), (0.7, 0.79), (0.8, 0.91))
    assert progress.first_epochs_reaching(example, (0.80, 0.90, 0.94)) == [
        progress.Milestone(0.80, 2, 1.0),
        progress.Milestone(0.90, 4, 2.0),
    ]


@pytest.mark.parametrize(
    ("best", "expected"),
    [
        ((0.61, 0.66, 0.79), [0.60, 0.65, 0.75]),  # one milestone per run
        ((0.962,), [0.85, 0.90, 0.95]),
        ((0.61, 0.97), [0.60, 0.75, 0.95]),
        ((0.07,), [0.05]),
        ((0.0,), []),
    ],
)
def test_milestones_are_derived_from_the_best_accuracies(run, best, expected):
    examples = [with_accuracies(run, (0.5, 0.01), (0.5, accuracy)) for accuracy in best]
    assert progress.choose_milestones(examples) == pytest.approx(expected)


def test_speed_of_a_run_is_the_median_over_epochs(run):
    speeds = (322, 300, 868)  # the last epoch had the CPU to itself
    example = with_history(run, *({"images_per_second": speed} for speed in speeds))
    assert progress.median_images_per_second(example) == 322
    assert progress.median_images_per_second(with_history(run)) is None


def test_time_and_epochs_include_the_run_started_from(run):
    assert progress.elapsed_minutes(run) == pytest.approx([0.5, 1, 1.5, 2, 2.5, 3])
    origin = {"run": "masked", "epochs": 16, "seconds": 90.0}
    continued = replace(run, config=run.config | {"started_from": origin})
    assert progress.elapsed_minutes(continued) == pytest.approx([2, 2.5, 3, 3.5, 4, 4.5])
    assert continued.train_seconds == run.train_seconds + 90 == 270
    twice = replace(run, config=run.config | {"started_from": origin | {"started_from": origin}})
    counts = [progress.format_epoch_count(each) for each in (run, continued, twice)]
    assert counts == ["6", "6 + 16", "6 + 16 + 16"]
    first = progress.list_stage_changes(continued)[0]
    assert first.when == "at the start" and "masked (16 epochs, 1.5 min" in first.text
    for invalid in ("masked", {"seconds": "long"}, None):
        unknown = replace(run, config=run.config | {"started_from": invalid})
        assert unknown.train_seconds == run.train_seconds
        assert len(progress.list_stage_changes(unknown)) == bool(unknown.origin)


def test_gap_is_training_minus_validation_in_percentage_points(run):
    example = with_accuracies(run, (0.5, 0.7), (0.75, 0.7))
    assert progress.generalisation_gap(example) == pytest.approx([-20, 5])
    assert progress.count_epochs_below_validation(example) == 1
    assert progress.count_epochs_below_validation(with_history(run)) == 0


def test_weights_are_of_the_last_or_the_lowest_validation_loss_epoch(run):
    example = with_history(run, *({"val_loss": loss} for loss in (0.9, 0.4, 0.4, 0.5)))
    assert example.weights_record["epoch"] == 4
    assert with_recipe(example, patience=8).weights_record["epoch"] == 2
    assert with_history(run).weights_record is None


def test_final_validation_accuracy_is_that_of_the_evaluation(run, tmp_path):
    example = with_accuracies(run, (0.8, 0.75))
    assert progress.final_validation_accuracy(example) == 0.75  # the evaluation has only test data
    assert progress.final_validation_accuracy(with_history(run)) is None
    half_correct = np.eye(10, dtype=np.float32)[[0, 1]], np.array([0, 2])
    complete = replace(
        run.evaluation, validation_probabilities=half_correct[0], validation_labels=half_correct[1]
    )
    example = replace(make_run(tmp_path / "run", tested=complete), history=example.history)
    assert progress.final_validation_accuracy(example) == 0.5


MIXUP_RECIPE = {"head_epochs": 2, "warmup_epochs": 0.5, "mixup": 0.2, "unmixed_epochs": 3}


@pytest.mark.parametrize(
    ("recipe", "stages"),
    [
        ({}, {}),
        (MIXUP_RECIPE, {2: "head", 2.5: "warm-up", 9: "MixUp"}),
        ({"patience": 4}, {6: "lowest validation loss"}),
        ({"schedule": "one-cycle", "warmup_epochs": 2}, {3: "peak"}),
        ({"patch_dropout": 0.5, "whole_epochs": 2}, {8: "PatchDropout ends"}),
        ({"patch_dropout": 0.5, "whole_epochs": 0}, {}),
        ({"warmup_epochs": 1}, {1: "warm-up"}),
    ],
)
def test_stages_are_in_chronological_order(run, recipe, stages):
    recipe = {"epochs": 10, "warmup_epochs": 0} | recipe
    changes = progress.list_stage_changes(with_recipe(run, **recipe))
    assert [stage.after for stage in changes] == pytest.approx(list(stages))
    assert [stage.when for stage in changes] == [
        "after 1 epoch" if after == 1 else f"after {after} epochs" for after in stages
    ]
    assert all(part in stage.text for stage, part in zip(changes, stages.values(), strict=True))


def test_parent_stages_after_the_continuation_are_omitted(tmp_path):
    mixed = {"epochs": 50, "warmup_epochs": 1, "mixup": 0.2, "unmixed_epochs": 10}
    first = make_run(tmp_path / "first", epochs=50, recipe=mixed)

    def stage_epochs(epochs):
        second = record_start_weights(make_run(tmp_path / "second", epochs=5), first, epochs)
        return [stage.after for stage in progress.list_stage_changes(second)]

    assert stage_epochs(10) == [1, 10]  # the end of the warm-up and the start of the second run
    assert stage_epochs(45) == [1, 40, 45]


def test_reasons_match_the_recipe(run):
    explain = progress.explain_low_training_accuracy
    (plain,) = explain(with_recipe(run, crop_padding=0, flip=False))
    assert "means over an epoch" in plain
    recipe = {"mixup": 0.2, "cutmix": 1.0, "policy": "rand", "patch_dropout": 0.5}
    full = with_recipe(run, **recipe, label_smoothing=0.1, ema_decay=0.9)
    expected = ["MixUp and CutMix", "50% of each image's patches"]
    expected += ["random operations, shifted and flipped", "smoothing", "moving average", plain]
    assert all(part in reason for part, reason in zip(expected, explain(full), strict=True))
    spec = replace(VIT, options=VIT.options | {"drop_rate": 0.1})
    assert "Dropout" in " ".join(explain(replace(full, spec=spec)))


@pytest.mark.parametrize("invalid", [{"mixup": "lots"}, {"head_epochs": None}, {"policy": 7}])
def test_invalid_recipe_fields_are_ignored(run, invalid):
    (field,) = invalid
    found = progress.recipe_field(with_recipe(run, **invalid), field)
    assert found == progress.recipe_field(run, field)


def test_recipe_without_fields_has_reasons_but_no_stages(run):
    bare = replace(run, config={"recipe": {"name": "timm:x"}})
    assert progress.list_stage_changes(bare) == []
    assert progress.explain_low_training_accuracy(bare)
