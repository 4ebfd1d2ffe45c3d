"""What the page asks of runs and models: answers, maps, test pictures, and honest errors."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from tests.making import RESNET, TIMM, VIT, make_run, record
from vitdemo import attention, runs
from vitdemo.data import stratified
from vitdemo.errors import DataError, RunError
from vitdemo.workbench import Workbench, final_accuracy

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    make_run(root / "vit", VIT)
    make_run(root / "timm", TIMM, seed=1)
    make_run(root / "resnet", RESNET, seed=2)
    return root


@pytest.fixture(scope="module")
def workbench(root, tmp_path_factory):
    return Workbench([root], tmp_path_factory.mktemp("data") / "none", CPU)


def picture(seed: int, size=(50, 40)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_every_trained_model_answers(workbench):
    answers, problems = workbench.answers(picture(0))
    assert problems == []
    assert {a.run.name: a.grid for a in answers} == {
        "vit": (4, 4), "timm": (4, 4), "resnet": None
    }  # fmt: skip
    for answer in answers:
        side = answer.run.spec.image_size
        assert answer.seen.shape == (side, side, 3)
        assert answer.probabilities.sum() == pytest.approx(1, abs=1e-5)


def test_answer_is_the_model_on_what_it_saw(workbench):
    run = workbench.run("vit")
    answer = workbench.answer(run, picture(1))
    seen = torch.from_numpy(answer.seen).permute(2, 0, 1)[None]  # (1, 3, S, S)
    with torch.no_grad():
        wanted = workbench.model(run)(run.preprocessing(seen)).softmax(1)[0]
    assert np.allclose(answer.probabilities, wanted, atol=1e-6)


def test_transformers_come_first_where_attention_is_explained(workbench):
    assert [run.name for run in workbench.explained_runs()] == ["timm", "vit", "resnet"]
    with pytest.raises(RunError, match="'resnet' is no Vision Transformer"):
        workbench.look(workbench.run("resnet"), picture(0))


@pytest.mark.parametrize(("name", "layers", "heads"), [("vit", 3, 2), ("timm", 2, 3)])
def test_look_has_every_layer_and_head(workbench, name, layers, heads):
    look = workbench.look(workbench.run(name), picture(2))
    assert look.layers == layers
    for layer in range(1, layers + 1):
        assert look.head_maps(layer).shape == (heads, 4, 4)


def test_head_maps_are_the_class_token_row(workbench):
    look = workbench.look(workbench.run("vit"), picture(3))
    wanted = look.attention[1, 1, 0, 1:].reshape(4, 4)  # layer 2, head 2
    assert np.array_equal(look.head_maps(2)[1], wanted)


def test_rollout_map_stops_at_its_layer(workbench):
    look = workbench.look(workbench.run("vit"), picture(4))
    first = look.rollout_map(1, fusion="mean", discard_ratio=0.0)
    matrix = attention.rollout(look.attention[:1, None])  # (1, N, N)
    assert np.allclose(first, matrix[0, 0, 1:].reshape(4, 4), atol=1e-6)
    assert not np.allclose(first, look.rollout_map(3, fusion="mean", discard_ratio=0.0))


def test_two_users_at_once_get_their_own_maps(workbench):
    run = workbench.run("vit")
    alone = [workbench.look(run, picture(seed)).attention for seed in range(6)]
    fresh = Workbench(workbench.roots, None, CPU)  # that has kept none of them
    with ThreadPoolExecutor(4) as pool:
        looks = list(pool.map(lambda seed: fresh.look(run, picture(seed)), range(6)))
    for look, wanted in zip(looks, alone, strict=True):
        assert torch.allclose(look.attention, wanted, atol=1e-6)


def test_the_same_question_is_answered_by_one_pass(workbench):
    workbench = Workbench(workbench.roots, None, CPU)  # that has kept nothing
    run, passes = workbench.run("resnet"), []
    workbench.model(run).register_forward_hook(lambda *_: passes.append(1))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: workbench.answer(run, picture(0)), range(8)))
    assert len(passes) == 1
    assert all(np.array_equal(each.probabilities, found[0].probabilities) for each in found)


def test_passes_at_once_share_the_cores(root, monkeypatch):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        workbench = Workbench([root], None, CPU)
    finally:
        torch.set_num_threads(before)
    one, two = threading.Barrier(2, timeout=30), threading.Barrier(2, timeout=30)

    def second():
        with workbench.shared_cores():
            one.wait()
            found = torch.get_num_threads()
            two.wait()
        return found

    with ThreadPoolExecutor(1) as pool, workbench.shared_cores():
        assert torch.get_num_threads() == 4
        other = pool.submit(second)
        one.wait()
        two.wait()
        assert other.result() == 2
    assert torch.get_num_threads() == before
    with workbench.shared_cores():
        assert torch.get_num_threads() == 4
    assert torch.get_num_threads() == before


def test_no_model_waits_for_the_loading_of_another(root, monkeypatch):
    workbench = Workbench([root], None, CPU)
    load, going, done = runs.load_model, threading.Event(), threading.Event()

    def slow(run, device):
        if run.name == "vit":
            going.set()
            assert done.wait(30)
        return load(run, device)

    monkeypatch.setattr(runs, "load_model", slow)
    with ThreadPoolExecutor(1) as worker:
        first = worker.submit(workbench.model, workbench.run("vit"))
        assert going.wait(30)
        workbench.model(workbench.run("timm"))  # while the other is loaded
        done.set()
        assert first.result() is workbench.model(workbench.run("vit"))


def test_a_run_that_is_told_apart_reads_its_evaluation_once(tmp_path):
    for folder in ("shipped", "own"):
        make_run(tmp_path / folder / "vit")
    workbench = Workbench([tmp_path / "shipped", tmp_path / "own"], None, CPU)
    names = [run.name for run in workbench.runs()[0]]
    assert names == ["vit", f"vit ({tmp_path / 'own'})"]
    evaluations = [workbench.run(name).evaluation for name in names]
    assert all(workbench.run(n).evaluation is e for n, e in zip(names, evaluations, strict=True))
    runs.append_record(tmp_path / "own" / "vit", record(4))
    assert len(workbench.run(names[1]).history) == 4


def test_a_model_is_loaded_once(workbench):
    run = workbench.run("vit")
    assert workbench.model(run) is workbench.model(run)


def test_new_weights_are_noticed(tmp_path):
    make_run(tmp_path / "vit")
    workbench = Workbench([tmp_path], None, CPU)
    before = workbench.answer(workbench.run("vit"), picture(5)).probabilities
    make_run(tmp_path / "vit", seed=9)
    after = workbench.answer(workbench.run("vit"), picture(5)).probabilities
    assert not np.allclose(before, after)


def test_damaged_weights_are_named_and_the_others_answer(tmp_path):
    make_run(tmp_path / "good")
    (make_run(tmp_path / "bad").path / runs.WEIGHTS).write_bytes(b"no weights")
    answers, problems = Workbench([tmp_path], None, CPU).answers(picture(6))
    assert [a.run.name for a in answers] == ["good"]
    assert len(problems) == 1
    assert "bad" in problems[0]


def test_a_run_without_config_is_named(tmp_path):
    make_run(tmp_path / "good")
    (tmp_path / "empty").mkdir()
    found, problems = Workbench([tmp_path], None, CPU).runs()
    assert [run.name for run in found] == ["good"]
    assert "empty" in problems[0]


SPOILT = {
    "a strange model field": lambda c: c["model"].update(colour="red"),
    "no model": lambda c: c.update(model=None),
    "no mean": lambda c: c.update(normalisation={}),
    "a recipe in words": lambda c: c.update(recipe="vit"),
    "no classes": lambda c: c.update(classes=None),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_strange_config_is_named_and_the_others_load(tmp_path, spoil):
    make_run(tmp_path / "good")
    path = make_run(tmp_path / "bad").path / runs.CONFIG
    config = json.loads(path.read_text())
    spoil(config)
    path.write_text(json.dumps(config))
    workbench = Workbench([tmp_path], None, CPU)
    found, problems = workbench.runs()
    assert [run.name for run in found] == ["good"]
    assert len(problems) == 1 and "bad" in problems[0]
    assert [run.name for run in workbench.explained_runs()] == ["good"]


def test_a_null_in_the_history_is_skipped(tmp_path):
    run = make_run(tmp_path / "vit", epochs=3)
    records = list(run.history)
    runs.rewrite_history(run.path, [records[0], records[1] | {"val_loss": None}, records[2]])
    assert [record["epoch"] for record in runs.read_run(run.path).history] == [1, 3]


def test_a_diverged_model_is_named_and_the_others_answer(tmp_path):
    make_run(tmp_path / "good")
    run = make_run(tmp_path / "bad")
    weights = runs.load_model(run).state_dict()
    weights["head.bias"][:] = float("nan")
    runs.write_weights(run.path, weights)
    answers, problems = Workbench([tmp_path], None, CPU).answers(picture(0))
    assert [a.run.name for a in answers] == ["good"]
    assert "'bad' answers with NaN" in problems[0]


def test_an_evaluation_of_other_classes_is_refused(tmp_path):
    run = make_run(tmp_path / "vit")
    found = run.evaluation
    runs.write_evaluation(run.path, replace(found, probabilities=found.probabilities[:, :4]))
    with pytest.raises(RunError, match="not of 10 classes"):
        _ = runs.read_run(run.path).evaluation


def test_a_run_is_read_again_only_when_it_changed(tmp_path):
    run = make_run(tmp_path / "vit")
    workbench = Workbench([tmp_path], None, CPU)
    first = workbench.run("vit")
    assert workbench.run("vit") is first
    runs.append_record(run.path, record(4))
    assert len(workbench.run("vit").history) == 4


def test_gradients_reach_a_model_that_the_page_has_used(workbench):
    run = workbench.run("vit")
    workbench.look(run, picture(0))
    images = torch.rand(1, 3, 16, 16)
    assert attention.relevance(workbench.model(run), images, 0).shape == (1, 17, 17)


def test_unknown_run_names_the_choices(workbench):
    with pytest.raises(RunError, match="resnet, timm, vit"):
        workbench.run("nope")


def test_best_model_comes_first(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b")
    worse = runs.read_evaluation(tmp_path / "a")
    rolled = np.roll(worse.probabilities, 1, axis=1)
    runs.write_evaluation(tmp_path / "a", runs.Evaluation(rolled, worse.labels, "0", 0.1))
    assert [r.name for r in Workbench([tmp_path], None, CPU).trained_runs()] == ["b", "a"]


def test_final_accuracy(root):
    assert final_accuracy(runs.read_run(root / "vit")) == pytest.approx(195 / 200)


def test_final_accuracy_of_a_damaged_evaluation_is_none(tmp_path):
    run = make_run(tmp_path / "vit")
    (run.path / runs.EVALUATION).write_bytes(b"PK")
    assert final_accuracy(run) is None


def test_test_pictures_without_data_name_the_way_out(workbench):
    with pytest.raises(DataError, match="--data"):
        workbench.test_picture(0)


def test_test_picture_of_a_folder(tmp_path):
    for part in ("train", "test"):
        for name in ("black", "white"):
            (tmp_path / part / name).mkdir(parents=True)
            shade = 255 * (name == "white")
            Image.new("RGB", (9, 7), (shade,) * 3).save(tmp_path / part / name / "one.png")
    found = Workbench([], tmp_path, CPU).test_picture(1)
    assert found.label == "white"
    assert found.image.getextrema() == ((255, 255),) * 3
    with pytest.raises(DataError, match="choose 0 to 1"):
        Workbench([], tmp_path, CPU).test_picture(2)


def test_a_look_is_traced_once_for_a_picture_and_a_model(workbench):
    vit, timm = workbench.run("vit"), workbench.run("timm")
    first = workbench.look(vit, picture(5))
    assert workbench.look(vit, picture(5)) is first
    assert workbench.look(vit, picture(6)) is not first
    assert workbench.look(timm, picture(5)).attention.shape != first.attention.shape


def test_a_kept_look_serves_gradients(workbench):
    run = workbench.run("vit")
    with torch.inference_mode():  # as who asks first may be
        workbench.look(run, picture(50))
    look = workbench.look(run, picture(50))
    assert not any(t.is_inference() for t in (look.tokens, look.attention, look.logits))


def test_a_resnet_has_no_layers_of_attention(workbench):
    assert [workbench.layers(run) for run in workbench.explained_runs()] == [2, 3, 0]


def test_a_look_answers_too_and_a_picture_is_cropped_once_a_size(workbench, monkeypatch):
    image = Image.fromarray(np.random.default_rng(7).integers(0, 256, (50, 50, 3), np.uint8))
    run = workbench.run("vit")
    passed = workbench.answer(run, image).probabilities
    look = workbench.look(run, image)
    monkeypatch.setattr(workbench, "model", lambda run: None)  # no pass is made any more
    monkeypatch.setattr("vitdemo.workbench.is_vision_transformer", lambda model: False)
    monkeypatch.setattr("vitdemo.inputs.square_crop", None)
    known = workbench.answer(run, image).probabilities
    np.testing.assert_allclose(known, look.logits.softmax(0), atol=1e-6)
    np.testing.assert_allclose(known, passed, atol=1e-4)


def test_a_sample_of_cifar10_is_a_tenth_of_each_class(cifar10, tmp_path):
    run = make_run(tmp_path / "vit")
    workbench = Workbench([tmp_path], cifar10.root, CPU)
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
    make_run(tmp_path / "runs" / "vit", VIT)
    roots = [tmp_path / "runs"]
    workbench = Workbench(roots, tmp_path, torch.device("cpu"), visitor=lambda: asking[0])
    make_run(workbench.own_root() / "mine", VIT)
    config = runs.read_config(workbench.own_root() / "mine")
    runs.write_config(workbench.own_root() / "mine", config | {"own_classes": {}})
    assert [run.name for run in workbench.trained_runs()] == ["vit", "mine"]  # last, however good
    assert [run.name for run in workbench.runs()[0]] == ["mine", "vit"]
    assert workbench.run("mine").name == "mine"
    for asking[0] in ("bob", None):
        assert [run.name for run in workbench.trained_runs()] == ["vit"]
        with pytest.raises(RunError, match="There is no run 'mine'"):
            workbench.run("mine")
    with pytest.raises(RunError, match="Nobody is here"):
        workbench.own_root()
