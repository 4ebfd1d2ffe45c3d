"""Shares of attribution maps on the marks of ground truth images."""

import shutil

import numpy as np
import pytest

from tests.support.factories import TRUTH_FOLDER, make_context
from vitdemo.analyses.ground_truth import (
    FIRST_MEASURED_SEED,
    measure_shares,
    read_shares,
    share_on_patches,
    summarise_shares,
    write_shares,
)
from vitdemo.context import read_test_accuracy
from vitdemo.data.ground_truth import TASKS, make_ground_truth_image
from vitdemo.explain.attributions import attribute, list_methods
from vitdemo.page.image_sources import TRUTH_SEEDS


@pytest.fixture(scope="module")
def context():
    return make_context(truth_root=TRUTH_FOLDER)


def test_share_equals_plain_loops():
    rng = np.random.default_rng(0)
    values, patches = rng.normal(size=(5, 4)), rng.random((5, 4)) < 0.3
    inside = total = 0.0
    for row in range(5):
        for column in range(4):
            if values[row, column] > 0:
                total += values[row, column]
                inside += values[row, column] if patches[row, column] else 0
    assert share_on_patches(values, patches) == pytest.approx(inside / total)


def test_share_of_known_maps():
    patches = np.zeros((4, 4), bool)
    patches[1, 2:] = True
    assert share_on_patches(patches.astype(float), patches) == 1
    assert share_on_patches(np.full((4, 4), 0.3), patches) == pytest.approx(2 / 16)
    assert share_on_patches(np.where(patches, -1.0, 1.0), patches) == 0
    assert share_on_patches(np.zeros((4, 4)), patches) == 0
    with pytest.raises(ValueError, match=r"\(2, 2\)"):
        share_on_patches(np.zeros((2, 2)), patches)
    with pytest.raises(ValueError, match="NaN"):
        share_on_patches(np.full((4, 4), np.nan), patches)


def test_intervals_equal_a_plain_bootstrap():
    rng = np.random.default_rng(1)
    shares, chance = rng.beta(2, 5, 150), rng.choice([1 / 64, 4 / 64], 150)
    found = summarise_shares(shares, chance)
    means = np.array([rng.choice(shares - chance, 150).mean() for _ in range(5000)])
    low, high = np.quantile(means, [0.025, 0.975])
    assert found.mean == pytest.approx(shares.mean())
    assert (found.low_gain, found.high_gain) == pytest.approx((low, high), abs=0.003)
    assert found.is_above_chance
    assert not summarise_shares(chance, chance).is_above_chance
    assert not summarise_shares(chance + rng.normal(0, 0.1, 150), chance).is_above_chance


def test_measured_shares_are_means_of_the_maps_for_the_predicted_class(context):
    run = context.find_run("one-mark")
    model, steps = context.load_model(run), []
    found = measure_shares(context, run, 2, on_step=lambda *step: steps.append(step))
    assert steps == [(1, 2), (2, 2)] and found.images == 2
    assert [*found.shares] and {*found.shares} == {each.name for each in list_methods(model)}
    shares, areas = [], []
    for seed in (FIRST_MEASURED_SEED, FIRST_MEASURED_SEED + 1):
        truth = make_ground_truth_image("one-mark", seed)
        _, pixels = context.prepare_input(run.preprocessing, truth.image)
        values = attribute("relevance", model, pixels, int(model(pixels).argmax()))[0].numpy()
        shares.append(values[truth.patches].sum() / values.sum())
        areas.append(truth.patches.sum() / 64)
    assert found.shares["relevance"].mean == pytest.approx(np.mean(shares), rel=1e-4)
    assert found.chance == np.mean(areas)
    with pytest.raises(ValueError, match="at least 2"):
        measure_shares(context, run, 1)


def test_stored_shares_belong_to_the_weights(context, tmp_path):
    folder = tmp_path / "one-mark"
    shutil.copytree(TRUTH_FOLDER / "one-mark", folder)
    known = read_shares(folder)
    write_shares(folder, known)
    assert read_shares(folder) == known
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes() + b"x")
    assert read_shares(folder) is None
    assert read_shares(tmp_path) is None


@pytest.mark.parametrize("task", TASKS)
def test_included_models_need_the_marks(context, task):
    run, stored = context.find_run(task), read_shares(TRUTH_FOLDER / task)
    assert run.classes == TASKS[task].classes
    assert len(run.evaluation.labels) == 2000 and read_test_accuracy(run) >= 0.999
    assert stored.images == 200 and stored.accuracy >= 0.99
    chance = 1 / len(run.classes)
    assert abs(stored.unmarked_accuracy - chance) < 0.1
    for seed in TRUTH_SEEDS[task]:
        truth = make_ground_truth_image(task, seed)
        assert int(context.predict(run, truth.image).probabilities.argmax()) == truth.label
