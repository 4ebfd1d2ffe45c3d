"""The application context: predictions, maps, test images and errors."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from tests.support.factories import make_context, make_history_record, make_run, noise
from vitdemo import runs
from vitdemo.context import AppContext, read_test_accuracy
from vitdemo.data import sample_stratified
from vitdemo.errors import DataError, RunError
from vitdemo.explain import attention


def test_each_model_predicts_from_its_own_input_crop(shown):
    predictions, problems = shown.predict_all(noise(0))
    assert problems == []
    grids = {prediction.run.name: prediction.grid for prediction in predictions}
    assert grids == {"vit": (4, 4), "timm": (4, 4), "resnet": None}
    for prediction in predictions:
        run, side = prediction.run, prediction.run.spec.image_size
        assert prediction.input_image.shape == (side, side, 3)
        crop = torch.from_numpy(prediction.input_image).permute(2, 0, 1)[None]  # (1, 3, S, S)
        with torch.no_grad():
            expected = shown.load_model(run)(run.preprocessing(crop)).softmax(1)[0]
        np.testing.assert_allclose(prediction.probabilities, expected, atol=1e-6)


def test_explained_runs_list_transformers_first(shown):
    layer_counts = {run.name: shown.count_layers(run) for run in shown.explainable_runs()}
    assert list(layer_counts.items()) == [("timm", 2), ("vit", 3), ("resnet", 0)]
    with pytest.raises(RunError, match="'resnet' is not a Vision Transformer"):
        shown.trace_image(shown.find_run("resnet"), noise(0))


@pytest.mark.parametrize(("name", "layers", "heads"), [("vit", 3, 2), ("timm", 2, 3)])
def test_maps_are_class_token_rows_and_rollout_ends_at_the_layer(shown, name, layers, heads):
    trace = shown.trace_image(shown.find_run(name), noise(2))
    assert trace.num_layers == layers
    for layer in range(1, layers + 1):
        rows = trace.attention[layer - 1, :, 0, 1:].reshape(heads, 4, 4)
        assert np.array_equal(trace.head_maps(layer), rows)
    first = trace.rollout_map(1, fusion="mean", discard_ratio=0.0)
    matrix = attention.rollout(trace.attention[:1, None])  # (1, N, N)
    assert np.allclose(first, matrix[0, 0, 1:].reshape(4, 4), atol=1e-6)
    assert not np.allclose(first, trace.rollout_map(layers, fusion="mean", discard_ratio=0.0))


def test_two_users_at_once_get_their_own_maps(shown):
    run = shown.find_run("vit")
    separate = [shown.trace_image(run, noise(seed)).attention for seed in range(6)]
    fresh = make_context(*shown.roots)
    with ThreadPoolExecutor(4) as pool:
        traces = list(pool.map(lambda seed: fresh.trace_image(run, noise(seed)), range(6)))
    for trace, expected in zip(traces, separate, strict=True):
        assert torch.allclose(trace.attention, expected, atol=1e-6)


def test_identical_requests_share_one_forward_pass(shown):
    fresh = make_context(*shown.roots)
    run, passes = fresh.find_run("resnet"), []
    fresh.load_model(run).conv1.register_forward_hook(lambda *_: passes.append(1))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: fresh.predict(run, noise(0)), range(8)))
    assert len(passes) == 1
    assert all(np.array_equal(each.probabilities, results[0].probabilities) for each in results)


def test_concurrent_passes_share_the_cores():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    context = make_context()
    torch.set_num_threads(before)

    def threads() -> int:
        with context.divide_cores():
            return torch.get_num_threads()

    with ThreadPoolExecutor(1) as pool, context.divide_cores():
        assert torch.get_num_threads() == 4
        assert pool.submit(threads).result() == 2
        assert pool.submit(torch.get_num_threads).result() == 4
    # A thread that starts while others work uses fewer cores until they finish.
    with ThreadPoolExecutor(1) as pool, context.divide_cores(), context.divide_cores():
        assert pool.submit(threads).result() == 1
        assert pool.submit(torch.get_num_threads).result() == 4
    assert threads() == 4
    assert torch.get_num_threads() == 4
    torch.set_num_threads(before)


def test_models_are_loaded_concurrently(shown_runs, monkeypatch):
    fresh, load = make_context(shown_runs), runs.load_model

    def slow(run, device):
        if run.name == "vit":
            with ThreadPoolExecutor(1) as other:
                other.submit(fresh.load_model, fresh.find_run("timm")).result(timeout=120)
        return load(run, device)

    monkeypatch.setattr(runs, "load_model", slow)
    run = fresh.find_run("vit")
    assert fresh.load_model(run) is fresh.load_model(run)


def test_runs_are_reread_only_after_a_change(tmp_path):
    for folder in ("shipped", "own"):
        make_run(tmp_path / folder / "vit")
    context = make_context(tmp_path / "shipped", tmp_path / "own")
    listed = context.list_runs()[0]
    assert [run.name for run in listed] == ["vit", f"vit ({tmp_path / 'own'})"]
    evaluations = [run.evaluation for run in listed]
    for run, evaluation in zip(listed, evaluations, strict=True):
        assert context.find_run(run.name) is run and run.evaluation is evaluation
        runs.append_record(run.path, make_history_record(4))
        assert len(context.find_run(run.name).history) == 4


def test_new_weights_change_the_predictions(tmp_path):
    make_run(tmp_path / "vit")
    context = make_context(tmp_path)
    before = context.predict(context.find_run("vit"), noise(5)).probabilities
    make_run(tmp_path / "vit", seed=9)
    after = context.predict(context.find_run("vit"), noise(5)).probabilities
    assert not np.allclose(before, after)


def test_damaged_runs_are_reported_and_the_others_predict(tmp_path):
    make_run(tmp_path / "good")
    (make_run(tmp_path / "cut").path / runs.WEIGHTS_FILE).write_bytes(b"no weights")
    diverged = make_run(tmp_path / "diverged")
    weights = runs.load_model(diverged).state_dict()
    weights["head.bias"][:] = float("nan")
    runs.write_weights(diverged.path, weights)
    (tmp_path / "empty").mkdir()
    context = make_context(tmp_path)
    predictions, problems = context.predict_all(noise(6))
    assert [prediction.run.name for prediction in predictions] == ["good"]
    assert len(problems) == 2
    assert "cut" in problems[0] and "'diverged' predicts NaN" in problems[1]
    listed, (problem,) = context.list_runs()
    assert [run.name for run in listed] == ["cut", "diverged", "good"] and "empty" in problem


def test_runs_are_sorted_by_accuracy_with_damaged_ones_last(tmp_path):
    for name in "abc":
        make_run(tmp_path / name)
    (tmp_path / "a" / runs.EVALUATION_FILE).write_bytes(b"PK")
    worse = runs.read_evaluation(tmp_path / "b")
    worse.probabilities[:50] = worse.probabilities[:50, ::-1]
    runs.write_evaluation(tmp_path / "b", worse)
    scores = {run.name: read_test_accuracy(run) for run in make_context(tmp_path).trained_runs()}
    assert list(scores) == ["c", "b", "a"]
    assert scores["c"] == pytest.approx(195 / 200) and scores["a"] is None


def test_test_images_require_a_dataset_folder(tmp_path, shown):
    for part in ("train", "test"):
        for name in ("black", "white"):
            (tmp_path / part / name).mkdir(parents=True)
            Image.new("RGB", (9, 7), name).save(tmp_path / part / name / "one.png")
    context = make_context(data_root=tmp_path)
    opened = context.load_test_image(1)
    assert opened.label == "white"
    assert opened.image.getextrema() == ((255, 255),) * 3
    with pytest.raises(DataError, match="Choose 0 to 1"):
        context.load_test_image(2)
    with pytest.raises(DataError, match="--data"):
        shown.load_test_image(0)


def test_trace_is_cached_per_image_and_model(shown):
    vit, timm = shown.find_run("vit"), shown.find_run("timm")
    first = shown.trace_image(vit, noise(5))
    assert shown.trace_image(vit, noise(5)) is first
    assert shown.trace_image(vit, noise(6)) is not first
    assert shown.trace_image(timm, noise(5)).attention.shape != first.attention.shape


def test_cached_trace_and_model_support_gradients(shown):
    run = shown.find_run("vit")
    with torch.inference_mode():  # the first caller may use this mode
        shown.trace_image(run, noise(50))
    trace = shown.trace_image(run, noise(50))
    assert not any(t.is_inference() for t in (trace.tokens, trace.attention, trace.logits))
    images = torch.rand(1, 3, 16, 16)
    assert attention.relevance(shown.load_model(run), images, 0).shape == (1, 17, 17)


def test_prediction_and_crop_are_reused_from_a_trace(shown, monkeypatch):
    run, image = shown.find_run("vit"), noise(7)
    computed = shown.predict(run, image).probabilities
    trace = shown.trace_image(run, image)
    monkeypatch.setattr(shown, "load_model", lambda run: None)  # no further pass is possible
    monkeypatch.setattr("vitdemo.context.has_attention", lambda model: False)
    monkeypatch.setattr("vitdemo.data.image_files.crop_and_resize", None)
    reused = shown.predict(run, image).probabilities
    np.testing.assert_allclose(reused, trace.logits.softmax(0), atol=1e-6)
    np.testing.assert_allclose(reused, computed, atol=1e-4)


def test_cifar10_sample_has_100_images_of_each_class(cifar10, tmp_path):
    run = make_run(tmp_path / "vit")
    context = make_context(tmp_path, data_root=cifar10.root)
    sample = context.sample_test_images(run, 1000)
    assert sample.images.shape == (1000, 3, 32, 32)
    assert torch.bincount(sample.labels).tolist() == [100] * 10
    large = replace(run, preprocessing=replace(run.preprocessing, size=224))
    assert context.sample_test_images(large, 1000) is sample  # the same pixels are cached once
    test = cifar10.load("test")
    indices = sample_stratified(test.labels.numpy(), 1000)
    assert torch.equal(sample.images, test.images[indices])


def test_private_runs_are_visible_only_to_their_session(tmp_path):
    session = ["ann"]
    make_run(tmp_path / "vit")
    context = AppContext([tmp_path], None, torch.device("cpu"), get_session_id=lambda: session[0])
    private = make_run(context.sessions.make_folder() / "mine")
    assert context.sessions.make_folder() == private.path.parent
    runs.write_config(private.path, private.config | {"own_classes": {}})
    assert [run.name for run in context.trained_runs()] == ["vit", "mine"]  # always last
    assert [run.name for run in context.list_runs()[0]] == ["mine", "vit"]
    assert context.find_run("mine").name == "mine"
    for session[0] in ("bob", None):
        assert [run.name for run in context.trained_runs()] == ["vit"]
        with pytest.raises(RunError, match=r"There is no run 'mine'\. Choose one of: vit"):
            context.find_run("mine")
    with pytest.raises(RunError, match="needs a browser session"):
        context.sessions.make_folder()
