"""Included models match their files, and the documentation states their measured results."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from vitdemo import data, models, runs
from vitdemo.analyses import features, linear_probes, tsne_file
from vitdemo.analyses.class_attribution import choose_first_map
from vitdemo.analyses.predictions import available_predictions
from vitdemo.context import read_test_accuracy
from vitdemo.data.image_files import load_image
from vitdemo.data.photos import example_files, name_of
from vitdemo.explain import attributions
from vitdemo.explain.faithfulness import CURVE_STEPS
from vitdemo.explain.faithfulness.summary import BASELINE_NAMES, read_summaries
from vitdemo.metrics.calibration_report import compute_calibration_report
from vitdemo.metrics.classification_report import compare_runs
from vitdemo.metrics.error_selection import find_label_errors
from vitdemo.metrics.intervals import mean_interval
from vitdemo.metrics.recipe_ablation import ablation_table, find_ablations
from vitdemo.metrics.training_progress import recipe_field
from vitdemo.models import count_macs, count_parameters
from vitdemo.page.explore.class_attribution.blocks import ABOUT_P_VALUES
from vitdemo.page.results.compare.recipe_ablation import compute_run_ablation
from vitdemo.page.results.errors import KIND_TEXTS
from vitdemo.report.calibration import temperature_block
from vitdemo.runs.evaluate import split_of
from vitdemo.runs.reference import RATHER_UNLIKE_PERCENTILE, UNLIKE_PERCENTILE, read_reference
from vitdemo.training import predict_logits
from vitdemo.training.recipes import RECIPES

ROOT = Path(__file__).parents[2]
FOLDERS = sorted((ROOT / "assets" / "runs").glob("[!.]*"))
# Only the training curves of the pretraining runs are included.
PRETRAINING_RUNS = {path for path in FOLDERS if path.name.endswith("-masked")}
INCLUDED_RUNS = [path for path in FOLDERS if path not in PRETRAINING_RUNS]
RUNS_WITH_WEIGHTS = [path for path in INCLUDED_RUNS if (path / runs.WEIGHTS_FILE).exists()]
README, RESULTS = ROOT / "README.md", ROOT / "docs" / "results.md"
# The page of the log with all seeds, and with parameters and times of the ablations.
TABLES = ROOT / "benchmarks" / "log" / "2026-11-29-result-tables.md"
MIN_ACCURACIES = {
    "finetune-deit-tiny": 0.975,
    "vit-scratch": 0.95,
    "conv-baseline": 0.945,
    "vit-conv-stem": 0.945,
}

ABLATION_BASELINES = ("vit-plain-cpu", "vit-muon-cpu")
FAILING_RUNS = {f"vit-plain-cpu-{how}" for how in ("shuffled-labels", "too-fast")}  # no gain
PLAIN_MUON_RUNS = [f"vit-plain-cpu-muon{seed}" for seed in ("", "-seed-1", "-seed-2")]
SEED_RUNS = {path.name for path in INCLUDED_RUNS if "-seed-" in path.name}  # repeated recipes


@pytest.fixture(params=INCLUDED_RUNS, ids=lambda path: path.name)
def run(request, shipped) -> runs.Run:
    return shipped.find_run(request.param.name)


@pytest.fixture(params=RUNS_WITH_WEIGHTS, ids=lambda path: path.name)
def trained(request, shipped) -> runs.Run:
    return shipped.find_run(request.param.name)


@pytest.fixture(scope="module")
def cifar10_test(cifar10) -> data.LabelledImages:
    return cifar10.load("test")


def test_included_runs_form_the_two_ablations(shipped):
    plain, muon = (
        [base, *(path.name for path in INCLUDED_RUNS if path.name.startswith(f"{base}-"))]
        for base in ABLATION_BASELINES
    )
    plain = [name for name in plain if name not in FAILING_RUNS]
    found = find_ablations(shipped.list_runs()[0])
    assert found == dict(zip(ABLATION_BASELINES, (plain, muon + PLAIN_MUON_RUNS), strict=True))
    assert (len(plain), len(muon)) == (14, 14)


def test_included_runs_are_small_and_have_no_checkpoint():
    files = [file for path in FOLDERS for file in path.rglob("*")]
    assert sum(file.stat().st_size for file in files) < 74e6
    truth = [*(ROOT / "assets" / "ground_truth").rglob("*")]
    assert sum(file.stat().st_size for file in truth) < 1e6
    files += truth
    assert not [file for file in files if file.name == runs.CHECKPOINT_FILE]


def test_command_contains_the_recipe_name(run):
    arguments = shlex.split(run.config["command"])
    script = arguments.index("train.py")
    assert arguments[:script] in (["python"], ["torchrun", "--nproc_per_node=2"])
    assert arguments[script + 1] == run.config["recipe"]["name"]
    assert run.config["recipe"]["name"] in RECIPES
    assert "--smoke" not in arguments


def test_history_has_every_epoch(run):
    recipe = run.config["recipe"]
    epochs = [record["epoch"] for record in run.history]
    assert epochs == list(range(1, len(epochs) + 1))
    count = run.config.get("stopped", {}).get("epoch", recipe["head_epochs"] + recipe["epochs"])
    assert len(epochs) == count or recipe["patience"]


def test_pretraining_histories_are_included_and_complete(shipped):
    starts = [start for run in shipped.list_runs()[0] if (start := runs.find_pretraining(run))]
    assert {start.path for start in starts} == PRETRAINING_RUNS
    for start in starts:
        assert len(start.history) == start.config["recipe"]["epochs"]
        assert {record["stage"] for record in start.history} == {"masked"}


def test_parameters_and_macs_match_the_config(trained, shipped):
    model = shipped.load_model(trained)
    assert count_parameters(model) == trained.config["parameters"]
    assert count_macs(model, trained.spec.image_size) == trained.config["macs"]


def test_included_epoch_weights_are_listed_in_the_recipe(run):
    saved = set(runs.list_saved_epochs(run))
    assert saved == ({1, 10} if run.name == "vit-scratch" else set())
    assert saved <= {int(epoch) for epoch in recipe_field(run, "keep").split(",") if epoch}


def test_first_map_is_available_for_the_model(trained, shipped):
    source, layer = choose_first_map(shipped, trained)
    layers = shipped.count_layers(trained)
    assert (source, layer) == ("rollout", 0) if not layers else 1 <= layer <= layers


def test_evaluation_covers_the_whole_test_set(run):
    labels = run.evaluation.labels
    assert run.evaluation.probabilities.shape == (10_000, 10)
    assert np.array_equal(np.bincount(labels), [1000] * 10)


def test_scaled_deit_error_exceeds_its_expected_chance_error(shipped):
    report = compute_calibration_report(shipped.find_run("finetune-deit-tiny"))
    assert report.chance.max_calibration_error == pytest.approx(0.0081, abs=2e-4)
    assert report.scaled.chance.max_calibration_error == pytest.approx(0.0037, abs=2e-4)
    assert (
        report.scaled.chance.max_calibration_error
        < report.scaled.reliability.calibration_error
        < report.chance.max_calibration_error
    )
    text = temperature_block(report, "").text
    assert (
        "has a calibration error below 0.37 points" in text and "not perfectly calibrated" in text
    )


def test_temperature_scaling_reduces_every_calibration_error(trained):
    report = compute_calibration_report(trained)
    assert report.scaled.reliability.calibration_error < report.reliability.calibration_error


@pytest.mark.parametrize(("base", "points"), [("vit-plain-cpu", 8), ("vit-muon-cpu", 13)])
def test_the_lesson_states_the_measured_effect_of_mixing_on_confidence(base, points, shipped):
    plain, mixed = (
        compute_calibration_report(shipped.find_run(name)) for name in (base, f"{base}-mixed")
    )
    effect = (plain.mean_confidence - plain.accuracy) - (mixed.mean_confidence - mixed.accuracy)
    assert round(100 * effect) == points
    lesson = (ROOT / "vitdemo" / "lessons" / "en" / "6-errors.md").read_text()
    assert re.search(rf"relative to the accuracy by .*\b{points}\b.* points", lesson)


def test_page_states_the_number_of_possible_label_errors(shipped):
    group = available_predictions(shipped, "finetune-deit-tiny")
    assert {run.name for run in group.runs} == {path.name for path in RUNS_WITH_WEIGHTS}
    label_errors = find_label_errors(group.probabilities, group.labels)
    assert f"flag {len(label_errors)} test images of CIFAR-10" in KIND_TEXTS["label_errors"]


@pytest.mark.parametrize(("name", "accuracy"), MIN_ACCURACIES.items())
def test_test_accuracy_reaches_the_stated_minimum(shipped, name, accuracy):
    run = shipped.find_run(name)
    assert run.has_weights and read_test_accuracy(run) >= accuracy


def find_table_rows(name: str) -> dict[Path, str]:
    """Return the table row of the run `name` in each page that has one."""
    pages = (README, RESULTS, TABLES)
    lines = ((page, line) for page in pages for line in page.read_text().splitlines())
    return {page: line for page, line in lines if line.startswith(f"| `{name}` |")}


def test_docs_and_recipe_state_the_measured_accuracy_and_time(run):
    accuracy, rows = f"{100 * read_test_accuracy(run):.2f}%", find_table_rows(run.name)
    in_ablation, is_seed = run.name.startswith(ABLATION_BASELINES), run.name in SEED_RUNS
    expected = {README: run.has_weights, RESULTS: not is_seed, TABLES: in_ablation or is_seed}
    assert set(rows) == {page for page, has_row in expected.items() if has_row}
    if in_ablation and not is_seed:
        assert f"CIFAR-10: {accuracy.replace(' %', '%')}" in RECIPES[run.name].note
        assert accuracy in rows.pop(RESULTS)  # without parameters and time
    for row in rows.values():
        assert accuracy in row
        assert f"{run.config['parameters'] / 1e6:.2f} M" in row
        minutes = run.train_seconds / 60
        time = f"{minutes:.0f} minutes" if minutes >= 2 else f"{run.train_seconds:.0f} seconds"
        assert f"| {time}" in row


@pytest.mark.parametrize("base", ABLATION_BASELINES)
def test_results_state_the_gain_of_each_change(base, shipped):
    ablation = compute_run_ablation(shipped, base)
    changes = {run.name for run in INCLUDED_RUNS if run.name.startswith(f"{base}-")}
    shared = {"vit-muon-cpu": {"vit-plain-cpu-muon"}}.get(base, set())  # from the other ablation
    assert {
        gain.run for gain in ablation.single_changes
    } == changes - FAILING_RUNS - SEED_RUNS | shared
    _, (_, *rows) = ablation_table(ablation)
    for name, accuracy, points, interval, *_ in rows:
        if name in changes:
            for row in find_table_rows(name).values():
                assert f"| {accuracy}% | {points} | {interval} |" in row


def test_results_state_the_variation_between_seeds(shipped):
    text = " ".join((RESULTS.read_text() + TABLES.read_text()).split())
    for base, deviation in zip(ABLATION_BASELINES, ("0.41", "0.36"), strict=True):
        ablation = compute_run_ablation(shipped, base)
        assert f"{100 * np.std(ablation.seed_accuracies, ddof=1):.2f}" == deviation
        assert f"x {deviation} = {100 * ablation.seed_threshold:.1f} points" in text
    for change, suffixes in (
        ("pretraining", ("-pretrained", "")),
        ("TrivialAugment", ("-augmented", "")),
        ("mean of the patches", ("-pooled", "")),
    ):
        gains = [
            100
            * compare_runs(
                *(shipped.find_run(f"vit-muon-cpu{suffix}{seed}") for suffix in suffixes)
            ).overall.difference
            for seed in ("", "-seed-1", "-seed-2")
        ]
        mean, low, high = mean_interval(np.array(gains))
        listed = ", ".join(f"{gain:.1f}" for gain in gains)
        assert f"| {change} | {listed} | {mean:+.1f} | {low:+.1f} to {high:+.1f} |" in text


def test_faithfulness_scores_belong_to_the_included_weights(trained):
    file = trained.path / runs.FAITHFULNESS_FILE
    if not file.is_file():
        pytest.skip("its maps were not measured, so it has no badge")
    summaries = read_summaries(trained.path)
    assert summaries and all(summary.pictures >= 50 for summary in summaries.values())
    for summary in summaries.values():  # other settings than the page's give no badge
        if set(BASELINE_NAMES) <= set(summary.scores):
            assert (summary.part, summary.steps) == ("validation", CURVE_STEPS)
        else:
            assert summary.best == ()
    assert (
        json.loads(file.read_text())["completeness_gap_worst"] < attributions.MAX_COMPLETENESS_GAP
    )


# conv-baseline predicts "ship" almost equally for a uniform image and for one image of a ship.
# Their log-probabilities differ by only 0.02, so a gap of 0.002 is a large fraction.
@pytest.mark.parametrize(("name", "fraction"), [("vit-scratch", 1.0), ("conv-baseline", 0.75)])
def test_integrated_gradients_are_complete_on_included_models(
    name, fraction, shipped, cifar10_test
):
    run = shipped.find_run(name)
    model = runs.load_model(run).requires_grad_(False)
    images = run.preprocessing(cifar10_test.images[:4])
    with torch.no_grad():
        target = model(images).argmax(1)
    weights = torch.eye(len(run.classes))[target]
    maps = attributions.attribute("integrated_gradients", model, images, target)
    gap = attributions.completeness_gap(model, images, maps, weights)
    assert (gap < attributions.MAX_COMPLETENESS_GAP).float().mean() >= fraction


def test_evaluations_use_the_cifar10_test_set(shipped, cifar10, cifar10_test):
    fingerprints = {run.evaluation.fingerprint for run in shipped.list_runs()[0]}
    assert fingerprints == {data.compute_fingerprint(cifar10_test, cifar10.classes)}


def test_weights_reproduce_the_stored_evaluation(trained, shipped, cifar10_test):
    logits = predict_logits(
        shipped.load_model(trained), cifar10_test.images[:40], trained.preprocessing
    )
    recorded = trained.evaluation.probabilities[:40]
    np.testing.assert_allclose(logits.softmax(1), recorded, atol=1e-3)


def test_reference_features_are_reproduced_from_the_weights(trained, shipped, cifar10):
    reference = read_reference(trained)
    assert len(reference.features) == 800 and len(reference.validation_scores) == 2000
    train, _ = split_of(trained, cifar10)
    sample = data.sample_stratified(train.labels.numpy(), 800)[:12]
    images = trained.preprocessing(train.images[sample])
    with torch.inference_mode():
        features = models.extract_features(shipped.load_model(trained), images).numpy()
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    np.testing.assert_allclose(features, reference.features[:12].astype(float), atol=5e-3)


def test_cat_photo_is_similar_to_training_images_and_tower_is_not(shipped):
    cat, *others = example_files()
    for run in (shipped.find_run(path.name) for path in RUNS_WITH_WEIGHTS):
        assert shipped.predict(run, load_image(cat)).similarity_percentile > 40
    run = shipped.find_run("finetune-deit-tiny")
    for file in others:
        percentile = shipped.predict(run, load_image(file)).similarity_percentile
        assert (percentile < RATHER_UNLIKE_PERCENTILE) == (name_of(file) != "bus")
        if name_of(file) == "tower":
            assert percentile < UNLIKE_PERCENTILE


def test_every_model_classifies_the_initial_photo_correctly(trained, shipped):
    prediction = shipped.predict(trained, load_image(example_files()[0]))
    assert trained.classes[prediction.probabilities.argmax()] == "cat"


def test_every_page_is_linked_from_readme():
    linked = re.findall(r"\]\((docs/[^)#]+)\)", README.read_text())
    assert set(linked) == {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}


def test_help_states_the_measured_score_of_centre_first():
    """A map that does not use the image may score above random orders, whose mean is 0."""
    found = read_summaries(ROOT / "assets" / "runs" / "vit-scratch")["drop"]
    assert f"{100 * found.scores['centre first']:.0f} points with vit-scratch" in ABOUT_P_VALUES
    assert "is 5% for a randomly placed map" in ABOUT_P_VALUES


def test_stored_maps_fit_the_weights_and_the_default_sample(trained, cifar10):
    sample = features._draw_sample(cifar10, features.MAX_SAMPLE_SIZE)
    pixels, learned = tsne_file.read_planes(trained, sample)
    assert pixels.places.shape == learned.places.shape == (features.MAX_SAMPLE_SIZE, 2)
    assert learned.places.min() >= 0 and learned.places.max() <= 1
    assert learned.purity > 0.85 > 0.5 > pixels.purity
    assert (trained.path / tsne_file.TSNE_FILE).stat().st_size < 20_000


def test_stored_probes_fit_the_weights_and_the_model(trained):
    if not models.get_family(trained.spec).has_attention:
        assert linear_probes.read_probes(trained) is None
        return
    probes = linear_probes.read_probes(trained)
    assert (probes.training_images, probes.test_images) == (2000, 1000)
    lens, probe = (probes.accuracies[name] for name in ("logit lens", "mean of the patches"))
    depth = len(runs.load_model(trained).blocks)
    assert {len(each) for each in probes.accuracies.values()} == {depth + 1}
    # The last value of the lens is the model's accuracy on a tenth of the test set.
    assert lens[-1] == pytest.approx(read_test_accuracy(trained), abs=0.02)
    assert 0.2 < probe[0] < probe[-1] and max(lens[:2]) < 0.3
