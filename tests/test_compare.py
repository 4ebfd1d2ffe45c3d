"""Table of all runs, and latency measurement (`page.compare.models`)."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.factories import RESNET, VIT, make_context, make_run
from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.metrics.classification_report import compute_classification_report
from vitdemo.page.compare import ablation_run_names, model_table
from vitdemo.page.compare import models as compare
from vitdemo.page.components.table import Table
from vitdemo.training.recipes import RECIPES


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    make_run(root / "vit", VIT)
    make_run(root / "worse", RESNET, seed=1)
    evaluation = runs.read_evaluation(root / "worse")
    shifted = np.roll(evaluation.probabilities, 20, axis=0)
    runs.write_evaluation(root / "worse", replace(evaluation, probabilities=shifted))
    untested = make_run(root / "untested", VIT)
    (untested.path / runs.EVALUATION_FILE).unlink()
    (untested.path / runs.WEIGHTS_FILE).unlink()
    return make_context(root)


def test_runs_are_sorted_by_accuracy_and_trained_runs_have_weights(context):
    rows = compare.model_rows(context)
    assert context.cache.get((compute_classification_report, context.find_run(rows[0].name)))
    assert [row.name for row in rows] == ["vit", "worse", "untested"]
    assert rows[-1].evaluation is None and rows[-1].file_bytes is None
    assert [run.name for run in compare.list_trained_runs(context)] == ["vit", "worse"]
    with pytest.raises(RunError, match="'untested' has no weights"):
        compare.measure_run_latency(context, context.find_run("untested"), 1)


def test_invalid_evaluation_is_reported_and_skipped(tmp_path):
    make_run(tmp_path / "good")
    bad = make_run(tmp_path / "bad")
    valid = bad.evaluation
    runs.write_evaluation(bad.path, replace(valid, probabilities=valid.probabilities * np.nan))
    rows = compare.model_rows(make_context(tmp_path))
    assert [row.name for row in rows] == ["good", "bad"]
    assert "NaN" in rows[1].problem and rows[1].evaluation is None


def test_ablation_runs_are_folded_if_there_are_others(tmp_path):
    changes = {"base": {}, "a": {"epochs": 9}, "b": {"flip": False}, "c": {"cutout": 8}}
    for name, change in changes.items():
        make_run(tmp_path / name, recipe=change)
    context = make_context(tmp_path)
    rows = compare.model_rows(context)
    folded = ablation_run_names(context)
    assert folded == {"a", "b", "c"}  # the baseline has weights, so it is listed
    (table,) = (block for block in model_table(rows, {}, folded) if isinstance(block, Table))
    assert {rows[i].name for i in table.folded} == folded
    (table,) = (block for block in model_table(rows, {}, {*changes}) if isinstance(block, Table))
    assert not table.folded


SPLIT = {"seed": 0, "train_pictures": 20_000, "validation_pictures": 5000}
TRAINING_IMAGES_COLUMN, MACS_COLUMN = "Training images (thousand)", "Multiply-adds (million)"
PUBLISHED_COLUMN = "Published results (%)"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {},
            {
                TRAINING_IMAGES_COLUMN: "–",
                MACS_COLUMN: "–",
                PUBLISHED_COLUMN: "91.45 / 95.04",
                "Macro ROC-AUC": "–",
            },
        ),
        ({"data": {"name": "cifar10"}}, {"Dataset": "cifar10", PUBLISHED_COLUMN: "91.45 / 95.04"}),
        (
            {"data": {"name": "pets"}, "split": SPLIT},
            {"Dataset": "pets", PUBLISHED_COLUMN: "–", TRAINING_IMAGES_COLUMN: "20.0"},
        ),
    ],
)
def test_cells_match_the_run_files(tmp_path, config, expected):
    """Published results depend on the recipe and appear only for runs on the same dataset."""
    run = make_run(tmp_path / "mine")
    recipe = run.config["recipe"] | {"name": "vit-conv-stem"}
    runs.write_config(run.path, run.config | {"recipe": recipe} | config)
    one_class = replace(run.evaluation, labels=np.zeros(200, dtype=np.int64))
    runs.write_evaluation(run.path, one_class)
    header, (row,) = compare.model_cells(compare.model_rows(make_context(tmp_path)))
    cells = dict(zip(header, row, strict=True))
    assert expected == {title: cells[title] for title in expected}


def test_constant_columns_are_reported_once():
    header = ["Model", "Dataset", "Accuracy"]
    rows = [["a", "cifar10", "1"], ["b", "cifar10", "2"]]
    assert compare.constant_columns(header, rows) == {"Dataset": "cifar10"}
    assert compare.constant_columns(header, rows[:1]) == {}


def test_missing_values_are_dashes_and_latencies_have_a_column(context):
    header, rows = compare.model_cells(compare.model_rows(context))
    last = dict(zip(header, rows[-1], strict=True))
    assert last["Test accuracy (%)"] == last["Worst class"] == last["File (MB)"] == "–"
    measured = {"worse": [compare.Latency(32, 12.34, 12, 13, 5, "cpu")]}
    header, rows = compare.model_cells(compare.model_rows(context), measured)
    column = header.index("Latency, 32 images (ms)")
    assert [row[column] for row in rows] == ["–", "12.3", "–"]


def test_published_results_have_sources_and_known_recipes():
    _, rows = compare.published_cells()
    assert all(all(row) for row in rows)
    for recipe, results in compare.PUBLISHED_RESULTS.items():
        note = RECIPES[recipe].note if recipe in RECIPES else ""
        if "reported elsewhere" in note:
            assert any(result.accuracy in note for result in results)


def test_latency_is_the_median_of_the_passes_after_the_warm_up(context, monkeypatch):
    clock = iter(np.cumsum([0, *[0.001, 1] * 2, 0.1, 1, 0.001, 1, 0.005, 1, 0.001]))
    monkeypatch.setattr(compare.time, "perf_counter", lambda: next(clock))
    passes = []
    run = context.find_run("vit")
    model = context.load_model(run)
    handle = model.register_forward_hook(lambda *_: passes.append(1))
    latency = compare.measure_run_latency(context, run, 2, seconds=0)
    handle.remove()
    assert len(passes) == compare.WARM_UP_PASSES + 5
    assert (latency.passes, latency.batch) == (5, 2)
    assert (latency.low, latency.milliseconds, latency.high) == pytest.approx((1, 1, 5))


def test_latency_measurement_continues_until_its_time_limit(context, monkeypatch):
    clock = itertools.count(step=0.25)  # each pass takes 250 ms
    monkeypatch.setattr(compare.time, "perf_counter", lambda: next(clock))
    latency = compare.measure_run_latency(context, context.find_run("vit"), 1, seconds=2.0)
    assert (latency.passes, latency.milliseconds) == (8, 250)
    assert "1 thread)" in latency.device
