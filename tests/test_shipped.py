"""The models that ship are what their files say, and what README and docs/ say of them."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from vitdemo import attributions, data, models, runs
from vitdemo.class_maps import first_map
from vitdemo.faithfulness import STEPS
from vitdemo.faithfulness.measured import BASELINES, read_measured
from vitdemo.inputs import load_image
from vitdemo.metrics.calibrated_runs import calibration
from vitdemo.metrics.errors import probable_label_errors
from vitdemo.metrics.intervals import mean_interval
from vitdemo.metrics.learning import setting
from vitdemo.metrics.recipe_ablation import gain_rows
from vitdemo.metrics.tested_runs import paired_test
from vitdemo.models import count_macs, count_parameters
from vitdemo.page.calibration import temperature
from vitdemo.page.compare.ablation import ablation
from vitdemo.page.errors import KINDS
from vitdemo.photos import example_files, name_of
from vitdemo.predictions import every_model
from vitdemo.recipes import RECIPES
from vitdemo.runs.evaluate import split_of
from vitdemo.runs.reference import POSSIBLE_PERCENTILE, PROBABLE_PERCENTILE, read_reference
from vitdemo.training import predict
from vitdemo.workbench import final_accuracy

ROOT = Path(__file__).parents[1]
FOLDERS = sorted((ROOT / "assets" / "runs").glob("[!.]*"))
MASKED = {path for path in FOLDERS if path.name.endswith("-masked")}  # their curves alone ship
SHIPPED = [path for path in FOLDERS if path not in MASKED]
TRAINED = [path for path in SHIPPED if (path / runs.WEIGHTS).exists()]  # of others the figures ship
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
AT_LEAST = {
    "finetune-deit-tiny": 0.975,
    "vit-scratch": 0.95,
    "conv-baseline": 0.945,
    "vit-conv-stem": 0.945,
}

BASES = ("vit-plain-cpu", "vit-muon-cpu")  # of the two ablations
MADE_TO_FAIL = {f"vit-plain-cpu-{how}" for how in ("shuffled-labels", "too-fast")}  # is no gain
SEEDS = {path.name for path in SHIPPED if "-seed-" in path.name}  # each a recipe once more


@pytest.fixture(params=SHIPPED, ids=lambda path: path.name)
def run(request, shipped) -> runs.Run:
    return shipped.run(request.param.name)


@pytest.fixture(params=TRAINED, ids=lambda path: path.name)
def trained(request, shipped) -> runs.Run:
    return shipped.run(request.param.name)


@pytest.fixture(scope="module")
def tested(cifar10) -> data.Pictures:
    return cifar10.load("test")


def test_the_set_is_small_and_holds_no_checkpoint():
    files = [file for path in FOLDERS for file in path.rglob("*")]
    assert sum(file.stat().st_size for file in files) < 74e6
    assert not [file for file in files if file.name == runs.CHECKPOINT]


def test_the_command_names_the_recipe_that_trained_it(run):
    words = shlex.split(run.config["command"])
    program = words.index("train.py")
    assert words[:program] in (["python"], ["torchrun", "--nproc_per_node=2"])
    assert words[program + 1] == run.config["recipe"]["name"]
    assert run.config["recipe"]["name"] in RECIPES
    assert "--smoke" not in words


def test_the_history_is_whole(run):
    recipe = run.config["recipe"]
    epochs = [record["epoch"] for record in run.history]
    assert epochs == list(range(1, len(epochs) + 1))
    ended = run.config.get("stopped", {}).get("epoch", recipe["head_epochs"] + recipe["epochs"])
    assert len(epochs) == ended or recipe["patience"]


def test_a_training_without_labels_ships_whole_beside_what_started_from_it(shipped):
    found = [start for run in shipped.runs()[0] if (start := runs.pretraining(run))]
    assert {start.path for start in found} == MASKED
    for start in found:
        assert len(start.history) == start.config["recipe"]["epochs"]
        assert {record["stage"] for record in start.history} == {"masked"}


def test_the_weights_are_the_configs_model(trained, shipped):
    model = shipped.model(trained)
    assert count_parameters(model) == trained.config["parameters"]
    assert count_macs(model, trained.spec.image_size) == trained.config["macs"]


def test_epochs_that_ship_were_kept_by_the_training(run):
    kept = set(runs.kept_epochs(run))
    assert kept == ({1, 10} if run.name == "vit-scratch" else set())
    assert kept <= {int(epoch) for epoch in setting(run, "keep").split(",") if epoch}


def test_the_first_map_is_one_that_it_has(trained, shipped):
    source, layer = first_map(shipped, trained)
    layers = shipped.layers(trained)
    assert (source, layer) == ("rollout", 0) if not layers else 1 <= layer <= layers


def test_the_evaluation_is_of_the_whole_test_set(run):
    labels = run.evaluation.labels
    assert run.evaluation.probabilities.shape == (10_000, 10)
    assert np.array_equal(np.bincount(labels), [1000] * 10)


def test_the_error_of_deit_after_scaling_exceeds_its_own_chance_not_that_before(shipped):
    found = calibration(shipped.run("finetune-deit-tiny"))
    assert found.chance.error == pytest.approx(0.0081, abs=2e-4)
    assert found.scaled.chance.error == pytest.approx(0.0037, abs=2e-4)
    assert found.scaled.chance.error < found.scaled.reliability.error < found.chance.error
    told = temperature(found, "").text
    assert "would stay below 0.37 points" in told and "not perfectly calibrated" in told


def test_one_temperature_reduces_the_error_of_every_trained_run(trained):
    found = calibration(trained)
    assert found.scaled.reliability.error < found.before.error


@pytest.mark.parametrize(("base", "points"), [("vit-plain-cpu", 8), ("vit-muon-cpu", 13)])
def test_the_lesson_states_the_measured_effect_of_mixing_on_confidence(base, points, shipped):
    plain, mixed = (calibration(shipped.run(name)) for name in (base, f"{base}-mixed"))
    effect = (plain.mean_confidence - plain.accuracy) - (mixed.mean_confidence - mixed.accuracy)
    assert round(100 * effect) == points
    lesson = (ROOT / "vitdemo" / "lessons" / "en" / "6-errors.md").read_text()
    assert re.search(rf"relative to the accuracy by .*\b{points}\b.* points", lesson)


def test_the_page_states_how_many_labels_the_trained_runs_doubt(shipped):
    group = every_model(shipped, "finetune-deit-tiny")
    assert {run.name for run in group.runs} == {path.name for path in TRAINED}
    found = probable_label_errors(group.probabilities, group.labels)
    assert f"flag {len(found)} test images of CIFAR-10" in KINDS["label_errors"][1]


@pytest.mark.parametrize(("name", "accuracy"), AT_LEAST.items())
def test_it_is_as_good_as_promised(shipped, name, accuracy):
    run = shipped.run(name)
    assert run.has_weights and final_accuracy(run) >= accuracy


def rows_of(name: str) -> dict[str, str]:
    """The row of each page's table that begins with the run `name`, by the page's name."""
    pages = [page for page in PAGES if page.name in ("README.md", "figures.md")]
    lines = ((page.name, line) for page in pages for line in page.read_text().splitlines())
    return {page: line for page, line in lines if line.startswith(f"| `{name}` |")}


def test_the_pages_and_its_recipe_state_the_measured_accuracy_and_time(run):
    right, rows = f"{100 * final_accuracy(run):.2f}%", rows_of(run.name)
    assert set(rows) >= {"figures.md"} | ({"README.md"} if run.has_weights else set())
    if run.name.startswith(BASES) and run.name not in SEEDS:
        assert f"CIFAR-10: {right.replace(' %', '%')}" in RECIPES[run.name].note
    for row in rows.values():
        assert right in row
        assert f"{run.config['parameters'] / 1e6:.2f} M" in row
        minutes = run.train_seconds / 60
        time = f"{minutes:.0f} minutes" if minutes >= 2 else f"{run.train_seconds:.0f} seconds"
        assert f"| {time}" in row


@pytest.mark.parametrize("base", BASES)
def test_the_figures_state_what_each_change_bought(base, shipped):
    found = ablation(shipped, base)
    ingredients = {run.name for run in SHIPPED if run.name.startswith(f"{base}-")}
    shorter = {"vit-muon-cpu": {"vit-plain-cpu-muon"}}.get(base, set())  # of the other ablation
    assert {gain.run for gain in found.near} == ingredients - MADE_TO_FAIL - SEEDS | shorter
    _, (_, *rows) = gain_rows(found)
    for name, right, gained, interval, *_ in rows:
        if name in ingredients:
            assert f"| {right}% | {gained} | {interval} |" in rows_of(name)["figures.md"]


def test_the_figures_state_the_variation_between_seeds(shipped):
    text = " ".join((ROOT / "docs" / "figures.md").read_text().split())
    for base, spread in zip(BASES, ("0.41", "0.36"), strict=True):
        found = ablation(shipped, base)
        assert f"{100 * np.std(found.seed_accuracies, ddof=1):.2f}" == spread
        assert f"x {spread} = {100 * found.seed_threshold:.1f} points" in text
    for words, ends in (
        ("pretraining", ("-pretrained", "")),
        ("TrivialAugment", ("-augmented", "")),
        ("mean of the patches", ("-pooled", "")),
    ):
        gains = [
            100
            * paired_test(
                *(shipped.run(f"vit-muon-cpu{end}{seed}") for end in ends)
            ).overall.difference
            for seed in ("", "-seed-1", "-seed-2")
        ]
        mean, low, high = mean_interval(np.array(gains))
        each = ", ".join(f"{gain:.1f}" for gain in gains)
        assert f"| {words} | {each} | {mean:+.1f} | {low:+.1f} to {high:+.1f} |" in text


def test_what_was_measured_of_its_maps_is_of_its_weights(trained):
    file = trained.path / runs.FAITHFULNESS
    if not file.is_file():
        pytest.skip("nothing was measured of its maps: it has no badge")
    found = read_measured(trained.path)
    assert found and all(each.pictures >= 50 for each in found.values())
    for each in found.values():  # measured as the page measures, or without a badge
        if set(BASELINES) <= set(each.scores):
            assert (each.part, each.steps) == ("validation", STEPS)
        else:
            assert each.best == ()
    assert json.loads(file.read_text())["completeness_gap_worst"] < attributions.MOST_GAP


# To conv-baseline a flat picture is as surely a ship as one of the ships is: its log-probabilities
# are 0.02 apart, so that a miss of 0.002 is a large share of them.
@pytest.mark.parametrize(("name", "share"), [("vit-scratch", 1.0), ("conv-baseline", 0.75)])
def test_integrated_gradients_add_up_on_shipped_models(name, share, shipped, tested):
    run = shipped.run(name)
    model = runs.load_model(run).requires_grad_(False)
    images = run.preprocessing(tested.images[:4])
    with torch.no_grad():
        target = model(images).argmax(1)
    weights = torch.eye(len(run.classes))[target]
    maps = attributions.attribute("integrated_gradients", model, images, target)
    gap = attributions.completeness_gap(model, images, maps, weights)
    assert (gap < attributions.MOST_GAP).float().mean() >= share


def test_the_data_set_is_the_one_they_were_evaluated_on(shipped, cifar10, tested):
    found = {run.evaluation.fingerprint for run in shipped.runs()[0]}
    assert found == {data.fingerprint(tested, cifar10.classes)}


def test_the_weights_reproduce_their_evaluation(trained, shipped, tested):
    logits = predict(shipped.model(trained), tested.images[:40], trained.preprocessing)
    recorded = trained.evaluation.probabilities[:40]
    np.testing.assert_allclose(logits.softmax(1), recorded, atol=1e-3)


def test_the_reference_features_are_of_its_weights_and_training_images(trained, shipped, cifar10):
    found = read_reference(trained)
    assert len(found.features) == 800 and len(found.validation_scores) == 2000
    train, _ = split_of(trained, cifar10)
    chosen = data.stratified(train.labels.numpy(), 800)[:12]
    images = trained.preprocessing(train.images[chosen])
    with torch.inference_mode():
        features = models.features(shipped.model(trained), images).numpy()
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    np.testing.assert_allclose(features, found.features[:12].astype(float), atol=5e-3)


def test_the_cat_is_usual_and_the_tower_is_not(shipped):
    cat, *others = example_files()
    for run in (shipped.run(path.name) for path in TRAINED):
        assert shipped.answer(run, load_image(cat)).similarity_percentile > 40
    run = shipped.run("finetune-deit-tiny")
    for file in others:
        found = shipped.answer(run, load_image(file)).similarity_percentile
        assert (found < POSSIBLE_PERCENTILE) == (name_of(file) != "bus")
        if name_of(file) == "tower":
            assert found < PROBABLE_PERCENTILE


def test_every_model_knows_the_photo_that_the_page_begins_with(trained, shipped):
    answer = shipped.answer(trained, load_image(example_files()[0]))
    assert trained.classes[answer.probabilities.argmax()] == "cat"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_finished_and_its_files_exist(page):
    text = page.read_text()
    assert "@@" not in text
    local = re.findall(r"\]\((?!http)([^)#]+)\)", text)
    assert [name for name in local if not (page.parent / name).is_file()] == []


def test_every_page_is_linked_from_readme():
    linked = re.findall(r"\]\((docs/[^)#]+)\)", PAGES[0].read_text())
    assert set(linked) == {f"docs/{page.name}" for page in PAGES[1:]}
