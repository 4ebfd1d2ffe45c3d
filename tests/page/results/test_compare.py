"""Table of all runs, latency measurement, and published results (tab Compare models)."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.support.factories import (
    RESNET,
    VIT,
    declare_ablation,
    make_context,
    make_run,
    make_unfinished_run,
)
from vitdemo import runs
from vitdemo.analyses import latency, model_rows
from vitdemo.analyses.published_results import PUBLISHED_RESULTS
from vitdemo.documents.table import Table
from vitdemo.errors import RunError, Stopped, VitdemoError
from vitdemo.metrics.classification_report import compute_classification_report
from vitdemo.page.results.compare import latency as latency_view
from vitdemo.page.results.compare import (
    model_scatter,
    models_table,
    published_results,
    recipe_ablation,
)
from vitdemo.page.view_state import ViewState
from vitdemo.report import models
from vitdemo.training.recipes import RECIPES

STATE = ViewState(None, "")


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    make_run(root / "vit", VIT)
    make_run(root / "worse", RESNET, seed=1)
    evaluation = runs.read_evaluation(root / "worse")
    shifted = evaluation.probabilities.copy()
    shifted[:100] = np.roll(shifted[:100], 20, axis=0)  # half of the images
    runs.write_evaluation(root / "worse", replace(evaluation, probabilities=shifted))
    (make_unfinished_run(root / "untested").path / runs.WEIGHTS_FILE).unlink()
    return make_context(root)


def test_runs_are_sorted_by_accuracy_and_trained_runs_have_weights(context):
    rows = model_rows.model_rows(context)
    assert [row.name for row in rows] == ["vit", "worse", "untested"]
    assert rows[-1].evaluation is None and rows[-1].file_bytes is None
    assert [run.name for run in model_rows.list_trained_runs(context)] == ["vit", "worse"]
    with pytest.raises(RunError, match="'untested' has no weights"):
        latency.measure_run_latency(context, context.find_run("untested"), 1)


def test_metrics_per_class_are_computed_at_their_first_use(context):
    found = model_rows.model_rows(context)[0].evaluation
    assert "class_metrics" not in vars(found)
    report = compute_classification_report(context.find_run("vit"))
    assert (found.macro_f1, found.macro_roc_auc) == (report.macro["f1"], report.macro["roc_auc"])
    assert found.accuracy_interval == tuple(report.accuracy_interval)
    assert report.classes[np.argmin(report.columns["f1"])] == found.worst_class
    assert found.worst_f1 == report.columns["f1"].min()
    assert model_rows.model_rows(context)[0].evaluation.class_metrics is found.class_metrics


def test_runs_close_to_chance_come_last(tmp_path):
    failed = make_run(tmp_path / "failed")
    wrong = np.full_like(failed.evaluation.probabilities, 0.1)
    runs.write_evaluation(failed.path, replace(failed.evaluation, probabilities=wrong))
    make_run(tmp_path / "good")
    make_unfinished_run(tmp_path / "untested")
    context = make_context(tmp_path)
    found = model_scatter.payload(context, STATE)
    names = [[each["name"] for each in found[key]] for key in ("models", "failed")]
    assert names == [["good"], ["failed"]]
    assert [row.name for row in model_rows.model_rows(context)] == ["good", "untested", "failed"]
    assert [run.name for run in recipe_ablation.list_baselines(context)] == ["good", "failed"]


def test_scatter_plot_has_each_tested_run_once(context):
    found = model_scatter.payload(context, STATE)
    best, worse = found["models"]
    assert [best["name"], worse["name"], found["failed"]] == ["vit", "worse", []]
    row = model_rows.model_rows(context)[0]
    assert best["accuracy"] == round(100 * row.evaluation.accuracy, 2)
    assert best["parameters"] == row.parameters / 1e6
    assert best["macs"] is None and "Multiply-adds" not in dict(best["details"])
    assert dict(best["details"])["Parameters"] == f"{row.parameters / 1e6:.2f} million"


def test_ablation_runs_are_folded_and_have_other_dots(tmp_path):
    changes = {"base": {}, "a": {"epochs": 9}, "b": {"flip": False}, "c": {"cutout": 8}}
    for name, change in changes.items():
        run = declare_ablation(make_run(tmp_path / name, recipe=change), "".join(change))
        if name != "base":
            (run.path / runs.WEIGHTS_FILE).unlink()
    others = {"epochs": 50, "flip": False, "cutout": 4}
    (make_run(tmp_path / "alone", RESNET, recipe=others).path / runs.WEIGHTS_FILE).unlink()
    context = make_context(tmp_path)
    found = model_scatter.payload(context, STATE)
    kinds = {each["name"]: each["kind"] for each in found["models"]}
    assert kinds == {"base": "model", **dict.fromkeys("abc", "ablation"), "alone": "results"}
    rows = model_rows.model_rows(context)
    folded = models_table.ablation_run_names(context)
    assert folded == {"a", "b", "c"}  # the baseline has weights, so it is listed
    assert {rows[i].name for i in read_table(rows, {}, folded).folded} == folded
    assert not read_table(rows, {}, {*kinds}).folded  # without other runs


def test_invalid_evaluation_is_reported_and_skipped(tmp_path):
    make_run(tmp_path / "good")
    bad = make_run(tmp_path / "bad")
    valid = bad.evaluation
    runs.write_evaluation(bad.path, replace(valid, probabilities=valid.probabilities * np.nan))
    rows = model_rows.model_rows(make_context(tmp_path))
    assert [row.name for row in rows] == ["good", "bad"]
    assert "NaN" in rows[1].problem and rows[1].evaluation is None


def read_table(rows, *options) -> Table:
    blocks = models.model_blocks(rows, *options)
    return next(block for block in blocks if isinstance(block, Table))


def read_cells(rows, *options) -> list[dict[str, str]]:
    """Return title -> text of the cells of each model."""
    table = read_table(rows, *options)
    titles = [column.label for column in table.columns]
    return [dict(zip(titles, row, strict=True)) for row in table.rows]


SPLIT = {"seed": 0, "train_pictures": 20_000, "validation_pictures": 5000}
PUBLISHED_COLUMN = "Published results (%)"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {"Multiply-adds (million)": "–", PUBLISHED_COLUMN: "91.45 / 95.04"}),
        ({"data": {"name": "cifar10"}}, {"Dataset": "cifar10", PUBLISHED_COLUMN: "91.45 / 95.04"}),
        ({"data": {"name": "pets"}}, {"Dataset": "pets", PUBLISHED_COLUMN: "–"}),
        ({"split": SPLIT}, {"Training images (thousand)": "20.0", "Macro ROC-AUC": "–"}),
    ],
)
def test_cells_match_the_run_files(tmp_path, config, expected):
    """Published results depend on the recipe and appear only for runs on the same dataset."""
    run = make_run(tmp_path / "mine")
    recipe = run.config["recipe"] | {"name": "vit-conv-stem"}
    runs.write_config(run.path, run.config | {"recipe": recipe} | config)
    one_class = replace(run.evaluation, labels=np.zeros(200, dtype=np.int64))
    runs.write_evaluation(run.path, one_class)
    (cells,) = read_cells(model_rows.model_rows(make_context(tmp_path)))
    assert expected.items() <= cells.items()


def test_constant_columns_are_reported_once():
    header = ["Model", "Dataset", "Accuracy"]
    rows = [["a", "cifar10", "1"], ["b", "cifar10", "2"]]
    assert models.constant_columns(header, rows) == {"Dataset": "cifar10"}
    assert models.constant_columns(header, rows[:1]) == {}


def test_missing_values_are_dashes_and_latencies_have_a_column(context):
    measured = {"worse": [latency.Latency(32, 12.34, 12, 13, 5, "cpu")]}
    cells = read_cells(model_rows.model_rows(context), measured)
    last = cells[-1]
    assert last["Test accuracy (%)"] == last["Worst class"] == last["File (MB)"] == "–"
    assert [row["Latency, 32 images (ms)"] for row in cells] == ["–", "12.3", "–"]


def test_published_results_have_sources_and_own_recipes_come_first():
    last = list(PUBLISHED_RESULTS)[-1]
    heading, details = published_results.published_blocks({last})
    assert heading.text == "Published results"
    rows = details.pieces[1].rows
    assert details.title == f"{len(rows)} results with sources"
    assert rows[0][0] == last and all(all(row) for row in rows)
    for recipe, results in PUBLISHED_RESULTS.items():
        note = RECIPES[recipe].note if recipe in RECIPES else ""
        if "reported elsewhere" in note:
            assert any(result.accuracy in note for result in results)


def test_latency_is_the_median_of_the_passes_after_the_warm_up(context, monkeypatch):
    clock = iter(np.cumsum([0, *[0.001, 1] * 2, 0.1, 1, 0.001, 1, 0.005, 1, 0.001]))
    monkeypatch.setattr(latency.time, "perf_counter", lambda: next(clock))
    passes = []
    run = context.find_run("vit")
    model = context.load_model(run)
    handle = model.register_forward_hook(lambda *_: passes.append(1))
    found = latency.measure_run_latency(context, run, 2, seconds=0)
    handle.remove()
    assert len(passes) == latency.WARM_UP_PASSES + 5
    assert (found.passes, found.batch) == (5, 2)
    assert (found.low, found.milliseconds, found.high) == pytest.approx((1, 1, 5))


def test_latency_measurement_continues_until_its_time_limit(context, monkeypatch):
    clock = itertools.count(step=0.25)  # each pass takes 250 ms
    monkeypatch.setattr(latency.time, "perf_counter", lambda: next(clock))
    found = latency.measure_run_latency(context, context.find_run("vit"), 1, seconds=2.0)
    assert (found.passes, found.milliseconds) == (8, 250)
    assert "1 thread)" in found.device


def test_latencies_are_cached_until_the_run_changes(tmp_path, monkeypatch):
    make_run(tmp_path / "fast")
    make_run(tmp_path / "slow")
    context = make_context(tmp_path)

    def measure(context, run, batch):
        if run.name == "slow":
            raise RunError("'slow' has no weights.")
        return latency.Latency(batch, 12.34 * batch, 12, 13, 5, "this CPU")

    monkeypatch.setattr(latency_view, "measure_run_latency", measure)
    assert latency_view.payload(context, STATE) == {"document": [], "has_gpu": False}
    reports = []
    problems = latency_view.measure_here(context, STATE, lambda *step: reports.append(step))
    assert problems == ["'slow' has no weights."]
    assert reports == [(0, 2, "Timing fast"), (1, 2, "Timing slow")]
    measured, note = latency_view.payload(context, STATE)["document"]
    assert measured["text"] == "Latency in milliseconds for batches of 1 and 32 images: " + (
        "fast 12.3 and 394.9."
    )
    assert "forward passes on this CPU, after 3 warm-up passes" in note["text"]
    table = next(b for b in models_table.payload(context, STATE) if b["kind"] == "Table")
    column = [each["label"] for each in table["columns"]].index("Latency, 1 image (ms)")
    assert {row[0]: row[column] for row in table["rows"]} == {"fast": "12.3", "slow": "–"}
    make_run(tmp_path / "fast", VIT, seed=7)
    assert latency_view.payload(context, STATE)["document"] == []


def test_latency_measurement_needs_a_model_and_stops_when_it_is_cancelled(tmp_path, monkeypatch):
    def stop(done, total, text):
        raise Stopped

    monkeypatch.setattr(latency_view, "measure_run_latency", lambda *_: pytest.fail("It ran."))
    with pytest.raises(RunError, match="There is no trained model"):
        latency_view.measure_here(make_context(tmp_path), STATE, lambda *_: None)
    make_run(tmp_path / "vit")
    with pytest.raises(Stopped):
        latency_view.measure_here(make_context(tmp_path), STATE, stop)
    with pytest.raises(VitdemoError, match="cannot borrow a GPU"):
        latency_view.measure_on_gpu(make_context(tmp_path), STATE, lambda *_: None)


def test_ablation_falls_back_to_an_existing_baseline(context, tmp_path):
    def read(context, name):
        found = recipe_ablation.payload(context, ViewState(None, "", {"compare.base": name}))
        return found.controls["compare.base"], found.data

    control, blocks = read(context, "vit")
    assert control["value"] == "vit"
    assert control["props"]["groups"] == [("Models", ["worse", "vit"])]
    pieces = [each for block in blocks for each in block.get("pieces", [block])]
    table = next(piece for piece in pieces if piece["kind"] == "Table")
    assert [row[0] for row in table["rows"]] == ["vit", "worse"]
    assert read(context, "deleted")[0]["value"] == "worse"  # the lowest accuracy
    assert read(context, 7)[0]["value"] == "worse"
    none = make_context(tmp_path)
    assert read(none, "vit") == (
        {"props": {"groups": [], "warning": "There is no model 'vit' in this menu."}, "value": ""},
        [],
    )
    make_unfinished_run(tmp_path / "vit")
    assert "No run has been evaluated yet" in read(none, "vit")[1][0]["text"]
