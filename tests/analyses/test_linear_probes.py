"""Linear probes compared with a plain ridge regression, on models of all kinds."""

import json

import numpy as np
import pytest
import torch

from tests.support.factories import (
    RESNET,
    TIMM_KINDS,
    VIT,
    make_context,
    make_run,
    timm_spec,
    write_noise_images,
)
from vitdemo import runs
from vitdemo.analyses import linear_probes
from vitdemo.analyses.features import load_sample
from vitdemo.analyses.linear_probes import (
    RIDGE_STRENGTHS,
    LayerProbes,
    compute_probes,
    find_probes,
    fit_probe,
    read_probes,
    write_probes,
)
from vitdemo.data import sample_stratified
from vitdemo.errors import DataError, RunError, Stopped
from vitdemo.explain.forward_pass import classifier_rows, trace

KINDS = {"vit": VIT, "one layer": timm_spec(depth=1), **TIMM_KINDS}


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    root = tmp_path_factory.mktemp("probes")
    for name, spec in KINDS.items():
        make_run(root / "runs" / name, spec)
    make_run(root / "runs" / "other", classes=tuple("abcdefghij"))
    make_run(root / "runs" / "resnet", RESNET)
    run = make_run(root / "runs" / "broken")
    weights = runs.load_model(run).state_dict()
    weights["blocks.0.norm1.weight"][:] = float("nan")
    runs.write_weights(run.path, weights)
    counts = {f"train/{name}": 4 for name in run.classes}
    counts |= {f"test/{name}": 3 for name in run.classes}
    return make_context(root / "runs", data_root=write_noise_images(root / "data", counts))


def fit_by_normal_equations(training, labels, test):
    """Predict (M,) with a ridge regression on standardised tokens, in float64."""
    training, test = np.asarray(training, np.float64), np.asarray(test, np.float64)
    scale = training.std(0)
    scale[scale < 1e-6 * max(scale.max(), 1e-12)] = 1  # a constant dimension
    known, other = ((each - training.mean(0)) / scale for each in (training, test))
    targets = np.where(labels[:, None] == np.arange(labels.max() + 1), 1.0, -1.0)
    n, best = len(known), (np.inf, None)
    for strength in RIDGE_STRENGTHS:

        def predict(rows, y, new, strength=strength):
            mean = y.mean(0)
            centre = rows.mean(0)
            matrix = (rows - centre).T @ (rows - centre) + strength * np.eye(rows.shape[1])
            return (new - centre) @ np.linalg.solve(matrix, (rows - centre).T @ (y - mean)) + mean

        error = 0.0
        for i in range(n):  # leave one out
            rest = np.arange(n) != i
            error += ((predict(known[rest], targets[rest], known[i]) - targets[i]) ** 2).sum()
        if error < best[0]:
            best = error, predict(known, targets, other).argmax(1)
    return best[1]


def read_tokens(context, run, images, rows):
    """Return the mean token (L+1, N, D) of the `rows`, from single passes."""
    found = []
    for image in images:
        with torch.no_grad():
            tokens = trace(context.load_model(run), run.preprocessing(image[None])).tokens[:, 0]
        found.append(tokens[:, rows].mean(1))
    return torch.stack(found, 1).numpy()


@pytest.mark.parametrize("name", KINDS)
def test_accuracies_equal_a_plain_ridge_regression(context, name):
    run, source = context.find_run(name), context.open_dataset()
    model, probes = context.load_model(run), compute_probes(context, run)
    assert (probes.training_images, probes.test_images) == (40, 30)
    labels = source.load_labels("train").numpy()
    chosen = sample_stratified(labels, 2000)
    images = source.load_subset("train", torch.from_numpy(chosen), run.spec.image_size)
    sample, prefix = load_sample(context, 1000), model.num_prefix_tokens
    places = {"mean of the patches": slice(prefix, None)}
    if "average" not in name:
        places["class token"] = classifier_rows(model)
    assert probes.accuracies.keys() == {*places, "logit lens"}
    L = len(model.blocks)
    for kind, rows in places.items():
        training = read_tokens(context, run, images.images, rows)
        test = read_tokens(context, run, sample.load_inputs(run), rows)
        accuracies = probes.accuracies[kind]
        assert len(accuracies) == L + 1
        predicted = fit_by_normal_equations(training[L], images.labels.numpy(), test[L])
        # float32 tokens of a batch can change the prediction of one of 30 noise images
        assert accuracies[L] == pytest.approx((predicted == sample.labels).mean(), abs=0.04)


def test_a_probe_equals_a_plain_ridge_regression():
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(4, 12))
    labels = np.arange(160) % 4
    tokens = centres[labels] + 1.3 * generator.normal(size=(160, 12)) * np.linspace(1, 9, 12)
    training, test = tokens[:80].astype(np.float32), tokens[80:].astype(np.float32)
    expected = (fit_by_normal_equations(training, labels[:80], test) == labels[80:]).mean()
    found = fit_probe(training, labels[:80], test, labels[80:])
    assert 0.4 < found < 1 and found == pytest.approx(expected, abs=1e-9)


def test_equal_tokens_give_the_accuracy_of_one_class():
    equal = np.ones((40, 6), np.float32)
    labels = np.arange(40) % 4
    assert fit_probe(equal, labels, equal[:20], labels[:20]) == 0.25


def test_the_last_lens_accuracy_is_that_of_the_model(context):
    for name in KINDS:
        run = context.find_run(name)
        sample = load_sample(context, 1000)
        with torch.no_grad():
            logits = context.load_model(run)(run.preprocessing(sample.load_inputs(run)))
        accuracy = (logits.argmax(1).numpy() == sample.labels).mean()
        assert compute_probes(context, run).accuracies["logit lens"][-1] == pytest.approx(accuracy)


def test_models_of_other_classes_have_probes_without_the_lens(context):
    probes = compute_probes(context, context.find_run("other"))
    assert probes.accuracies.keys() == {"class token", "mean of the patches"}


def test_probes_are_computed_once_with_progress(context):
    context.cache = type(context.cache)(context.cache.max_bytes)
    run, steps = context.find_run("registers"), []

    def cancel(done, total):
        raise Stopped

    with pytest.raises(Stopped):
        compute_probes(context, run, cancel)
    assert find_probes(context, run) is None
    probes = compute_probes(context, run, lambda *step: steps.append(step))
    assert find_probes(context, run) is probes is compute_probes(context, run)
    assert steps == [(0, 70), (25, 70), (40, 70), (65, 70)]


def test_stored_probes_need_no_dataset_and_belong_to_the_weights(context, tmp_path):
    run = make_run(tmp_path / "vit")
    bare = make_context(tmp_path)
    with pytest.raises(DataError):
        find_probes(bare, run)
    probes = LayerProbes(40, 30, {"class token": [0.1, 0.5], "logit lens": [0.1, 0.25]})
    write_probes(run, probes)
    assert find_probes(bare, runs.read_run(run.path)) == probes == read_probes(run)
    for damage in ("", "{}", "[]", '{"stamp": 1}'):
        (run.path / runs.PROBES_FILE).write_text(damage)
        assert read_probes(run) is None
    write_probes(run, probes)
    changed = make_run(tmp_path / "vit", seed=5)  # with other weights
    assert json.loads((run.path / runs.PROBES_FILE).read_text())["test_images"] == 30
    assert read_probes(changed) is None


def test_unsuitable_models_are_named(context):
    with pytest.raises(RunError, match="no attention"):
        compute_probes(context, context.find_run("resnet"))
    with pytest.raises(RunError, match="not finite"):
        compute_probes(context, context.find_run("broken"))
    assert linear_probes.find_probes(context, context.find_run("broken")) is None
