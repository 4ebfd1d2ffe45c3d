"""What the page asks of runs and models: answers, maps, test pictures, and honest errors."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from tests.making import bench, make_run, noise, record
from vitdemo import attention, runs
from vitdemo.data import stratified
from vitdemo.errors import DataError, RunError
from vitdemo.workbench import Workbench, final_accuracy


def test_every_trained_model_answers_to_what_it_saw(shown):
    answers, problems = shown.answers(noise(0))
    assert problems == []
    grids = {answer.run.name: answer.grid for answer in answers}
    assert grids == {"vit": (4, 4), "timm": (4, 4), "resnet": None}
    for answer in answers:
        run, side = answer.run, answer.run.spec.image_size
        assert answer.seen.shape == (side, side, 3)
        seen = torch.from_numpy(answer.seen).permute(2, 0, 1)[None]  # (1, 3, S, S)
        with torch.no_grad():
            wanted = shown.model(run)(run.preprocessing(seen)).softmax(1)[0]
        np.testing.assert_allclose(answer.probabilities, wanted, atol=1e-6)


def test_transformers_come_first_where_attention_is_explained(shown):
    found = {run.name: shown.layers(run) for run in shown.explained_runs()}
    assert list(found.items()) == [("timm", 2), ("vit", 3), ("resnet", 0)]
    with pytest.raises(RunError, match="'resnet' is not a Vision Transformer"):
        shown.look(shown.run("resnet"), noise(0))


@pytest.mark.parametrize(("name", "layers", "heads"), [("vit", 3, 2), ("timm", 2, 3)])
def test_maps_are_the_class_tokens_rows_and_a_rollout_stops_at_its_layer(
    shown, name, layers, heads
):
    look = shown.look(shown.run(name), noise(2))
    assert look.layers == layers
    for layer in range(1, layers + 1):
        rows = look.attention[layer - 1, :, 0, 1:].reshape(heads, 4, 4)
        assert np.array_equal(look.head_maps(layer), rows)
    first = look.rollout_map(1, fusion="mean", discard_ratio=0.0)
    matrix = attention.rollout(look.attention[:1, None])  # (1, N, N)
    assert np.allclose(first, matrix[0, 0, 1:].reshape(4, 4), atol=1e-6)
    assert not np.allclose(first, look.rollout_map(layers, fusion="mean", discard_ratio=0.0))


def test_two_users_at_once_get_their_own_maps(shown):
    run = shown.run("vit")
    alone = [shown.look(run, noise(seed)).attention for seed in range(6)]
    fresh = bench(*shown.roots)
    with ThreadPoolExecutor(4) as pool:
        looks = list(pool.map(lambda seed: fresh.look(run, noise(seed)), range(6)))
    for look, wanted in zip(looks, alone, strict=True):
        assert torch.allclose(look.attention, wanted, atol=1e-6)


def test_the_same_question_is_answered_by_one_pass(shown):
    fresh = bench(*shown.roots)
    run, passes = fresh.run("resnet"), []
    fresh.model(run).conv1.register_forward_hook(lambda *_: passes.append(1))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: fresh.answer(run, noise(0)), range(8)))
    assert len(passes) == 1
    assert all(np.array_equal(each.probabilities, found[0].probabilities) for each in found)


def test_passes_at_once_share_the_cores():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    workbench = bench()
    torch.set_num_threads(before)

    def threads() -> int:
        with workbench.shared_cores():
            return torch.get_num_threads()

    with ThreadPoolExecutor(1) as pool, workbench.shared_cores():
        assert torch.get_num_threads() == 4
        assert pool.submit(threads).result() == 2
        assert pool.submit(torch.get_num_threads).result() == 4
    # One that is new to torch while others are at work begins with a share, and keeps none.
    with ThreadPoolExecutor(1) as pool, workbench.shared_cores(), workbench.shared_cores():
        assert pool.submit(threads).result() == 1
        assert pool.submit(torch.get_num_threads).result() == 4
    assert threads() == 4
    assert torch.get_num_threads() == 4
    torch.set_num_threads(before)


def test_no_model_waits_for_the_loading_of_another(shown_runs, monkeypatch):
    fresh, load, other = bench(shown_runs), runs.load_model, ThreadPoolExecutor(1)

    def slow(run, device):
        if run.name == "vit":
            other.submit(fresh.model, fresh.run("timm")).result(timeout=30)
        return load(run, device)

    monkeypatch.setattr(runs, "load_model", slow)
    run = fresh.run("vit")
    assert fresh.model(run) is fresh.model(run)


def test_a_run_is_read_again_only_when_it_changed_told_apart_or_not(tmp_path):
    for folder in ("shipped", "own"):
        make_run(tmp_path / folder / "vit")
    workbench = bench(tmp_path / "shipped", tmp_path / "own")
    found = workbench.runs()[0]
    assert [run.name for run in found] == ["vit", f"vit ({tmp_path / 'own'})"]
    evaluations = [run.evaluation for run in found]
    for run, evaluation in zip(found, evaluations, strict=True):
        assert workbench.run(run.name) is run and run.evaluation is evaluation
        runs.append_record(run.path, record(4))
        assert len(workbench.run(run.name).history) == 4


def test_new_weights_are_noticed(tmp_path):
    make_run(tmp_path / "vit")
    workbench = bench(tmp_path)
    before = workbench.answer(workbench.run("vit"), noise(5)).probabilities
    make_run(tmp_path / "vit", seed=9)
    after = workbench.answer(workbench.run("vit"), noise(5)).probabilities
    assert not np.allclose(before, after)


SPOILT = {
    "a strange model field": lambda c: c["model"].update(colour="red"),
    "no model": lambda c: c.update(model=None),
    "no mean": lambda c: c.update(normalisation={}),
    "a recipe in words": lambda c: c.update(recipe="vit"),
    "no classes": lambda c: c.update(classes=None),
}


def test_what_is_damaged_is_named_and_the_others_answer(tmp_path):
    make_run(tmp_path / "good")
    (make_run(tmp_path / "cut").path / runs.WEIGHTS).write_bytes(b"no weights")
    diverged = make_run(tmp_path / "diverged")
    weights = runs.load_model(diverged).state_dict()
    weights["head.bias"][:] = float("nan")
    runs.write_weights(diverged.path, weights)
    (tmp_path / "empty").mkdir()
    for name, spoil in SPOILT.items():
        config = runs.read_config(make_run(tmp_path / name).path)
        spoil(config)
        runs.write_config(tmp_path / name, config)
    workbench = bench(tmp_path)
    answers, problems = workbench.answers(noise(6))
    assert [answer.run.name for answer in answers] == ["good"]
    assert len(problems) == 2
    assert "cut" in problems[0] and "'diverged' predicts NaN" in problems[1]
    found, problems = workbench.runs()
    assert [run.name for run in found] == ["cut", "diverged", "good"]
    for name, problem in zip(sorted(["empty", *SPOILT]), problems, strict=True):
        assert name in problem


def test_an_evaluation_of_other_classes_is_refused(tmp_path):
    run = make_run(tmp_path / "vit")
    found = run.evaluation
    runs.write_evaluation(run.path, replace(found, probabilities=found.probabilities[:, :4]))
    with pytest.raises(RunError, match="the run has 10 classes"):
        _ = runs.read_run(run.path).evaluation


def test_the_best_model_comes_first_and_one_of_a_damaged_evaluation_last(tmp_path):
    for name in "abc":
        make_run(tmp_path / name)
    (tmp_path / "a" / runs.EVALUATION).write_bytes(b"PK")
    worse = runs.read_evaluation(tmp_path / "b")
    worse.probabilities[:50] = worse.probabilities[:50, ::-1]
    runs.write_evaluation(tmp_path / "b", worse)
    found = {run.name: final_accuracy(run) for run in bench(tmp_path).trained_runs()}
    assert list(found) == ["c", "b", "a"]
    assert found["c"] == pytest.approx(195 / 200) and found["a"] is None


def test_test_pictures_are_a_folders_and_without_data_the_way_out_is_named(tmp_path, shown):
    for part in ("train", "test"):
        for name in ("black", "white"):
            (tmp_path / part / name).mkdir(parents=True)
            Image.new("RGB", (9, 7), name).save(tmp_path / part / name / "one.png")
    workbench = bench(data_root=tmp_path)
    found = workbench.test_picture(1)
    assert found.label == "white"
    assert found.image.getextrema() == ((255, 255),) * 3
    with pytest.raises(DataError, match="Choose 0 to 1"):
        workbench.test_picture(2)
    with pytest.raises(DataError, match="--data"):
        shown.test_picture(0)


def test_a_look_is_traced_once_for_a_picture_and_a_model(shown):
    vit, timm = shown.run("vit"), shown.run("timm")
    first = shown.look(vit, noise(5))
    assert shown.look(vit, noise(5)) is first
    assert shown.look(vit, noise(6)) is not first
    assert shown.look(timm, noise(5)).attention.shape != first.attention.shape


def test_a_kept_look_and_its_model_serve_gradients(shown):
    run = shown.run("vit")
    with torch.inference_mode():  # as who asks first may be
        shown.look(run, noise(50))
    look = shown.look(run, noise(50))
    assert not any(t.is_inference() for t in (look.tokens, look.attention, look.logits))
    images = torch.rand(1, 3, 16, 16)
    assert attention.relevance(shown.model(run), images, 0).shape == (1, 17, 17)


def test_a_look_answers_too_and_a_picture_is_cropped_once_a_size(shown, monkeypatch):
    run, image = shown.run("vit"), noise(7)
    passed = shown.answer(run, image).probabilities
    look = shown.look(run, image)
    monkeypatch.setattr(shown, "model", lambda run: None)  # no pass is made any more
    monkeypatch.setattr("vitdemo.workbench.is_vision_transformer", lambda model: False)
    monkeypatch.setattr("vitdemo.inputs.square_crop", None)
    known = shown.answer(run, image).probabilities
    np.testing.assert_allclose(known, look.logits.softmax(0), atol=1e-6)
    np.testing.assert_allclose(known, passed, atol=1e-4)


def test_a_sample_of_cifar10_is_a_tenth_of_each_class(cifar10, tmp_path):
    run = make_run(tmp_path / "vit")
    workbench = bench(tmp_path, data_root=cifar10.root)
    sample = workbench.sample(run, 1000)
    assert sample.images.shape == (1000, 3, 32, 32)
    assert torch.bincount(sample.labels).tolist() == [100] * 10
    large = replace(run, preprocessing=replace(run.preprocessing, size=224))
    assert workbench.sample(large, 1000) is sample  # the same pixels, kept once
    test = cifar10.load("test")
    chosen = stratified(test.labels.numpy(), 1000)
    assert torch.equal(sample.images, test.images[chosen])


def test_a_run_of_ones_own_is_seen_by_its_maker_alone(tmp_path):
    asking = ["ann"]
    make_run(tmp_path / "vit")
    workbench = Workbench([tmp_path], None, torch.device("cpu"), visitor=lambda: asking[0])
    mine = make_run(workbench.own_root() / "mine")
    assert workbench.own_root() == mine.path.parent
    runs.write_config(mine.path, mine.config | {"own_classes": {}})
    assert [run.name for run in workbench.trained_runs()] == ["vit", "mine"]  # last, however good
    assert [run.name for run in workbench.runs()[0]] == ["mine", "vit"]
    assert workbench.run("mine").name == "mine"
    for asking[0] in ("bob", None):
        assert [run.name for run in workbench.trained_runs()] == ["vit"]
        with pytest.raises(RunError, match=r"There is no run 'mine'\. Choose one of: vit"):
            workbench.run("mine")
    with pytest.raises(RunError, match="needs a browser session"):
        workbench.own_root()
