"""The run folder: what is written is read back, and a killed writer leaves a readable run."""

import fractions
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from vitdemo import runs
from vitdemo.data import synthetic
from vitdemo.errors import PretrainingError, RunError
from vitdemo.models import ModelSpec
from vitdemo.runs.steps import STEPS
from vitdemo.training import predict

RECORD = dict.fromkeys(runs.RECORD_FIELDS, 0.5) | {"stage": "all"}


def cut(path, share=0.5):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def test_a_finished_run_has_the_six_files_and_no_other(tiny_run):
    files = {runs.CONFIG, runs.HISTORY, runs.WEIGHTS, runs.EVALUATION, runs.CHECKPOINT, STEPS}
    assert {path.name for path in tiny_run.iterdir()} == files


def test_a_run_tells_what_it_was(tiny_run):
    run = runs.read_run(tiny_run)
    assert run.name == "tiny"
    assert run.classes == ("one", "two", "three", "four")
    assert run.spec.family == "vit"
    assert run.preprocessing.size == run.spec.image_size == 16
    assert [record["epoch"] for record in run.history] == [1, 2, 3]
    assert run.has_weights and run.has_evaluation


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"device": "a GPU", "processes": 4}, "4 × a GPU"),
        ({"device": "a GPU", "processes": 1}, "a GPU"),
        ({"device": "a GPU"}, "a GPU"),
        ({"device": "EPYC (1 threads)", "processes": 2}, "2 × EPYC (1 thread)"),
        ({"processes": 4}, None),
    ],
)
def test_a_run_names_each_device_that_trained_it(tiny_run, config, words):
    run = runs.read_run(tiny_run)
    others = {k: v for k, v in run.config.items() if k not in ("device", "processes")}
    assert replace(run, config=others | config).device == words


def test_config_has_all_that_the_design_promises(tiny_run):
    promised = "recipe model classes normalisation input_size split data parameters macs"
    promised += " packages device git_commit started command"
    assert set(promised.split()) <= runs.read_config(tiny_run).keys()


def test_config_comes_back_whole(tmp_path):
    config = {"recipe": {}, "model": {"family": "vit"}, "classes": ["Föhre"], "normalisation": {}}
    runs.write_config(tmp_path / "new" / "run", config)
    assert runs.read_config(tmp_path / "new" / "run") == config


def test_evaluation_comes_back_in_its_types(tmp_path):
    written = runs.Evaluation(np.full((3, 2), 0.5), np.array([0, 1, 1], np.int32), "abc", 0.25)
    runs.write_evaluation(tmp_path, written)
    read = runs.read_evaluation(tmp_path)
    assert (read.probabilities.dtype, read.labels.dtype) == (np.float32, np.int64)
    assert read.probabilities.tolist() == written.probabilities.tolist()
    assert read.labels.tolist() == [0, 1, 1]
    assert (read.fingerprint, read.seconds_per_image) == ("abc", 0.25)


def test_validation_comes_back_with_the_evaluation_and_may_be_absent(tmp_path):
    test = (np.full((3, 2), 0.5), np.array([0, 1, 1]), "abc", 0.25)
    held = (np.full((2, 2), 0.5, np.float64), np.array([1, 0], np.int32))
    runs.write_evaluation(tmp_path, runs.Evaluation(*test, *held))
    read = runs.read_evaluation(tmp_path)
    assert read.validation_probabilities.dtype == np.float32
    assert read.validation_probabilities.shape == (2, 2)
    assert (read.validation_labels.dtype, read.validation_labels.tolist()) == (np.int64, [1, 0])
    runs.write_evaluation(tmp_path, runs.Evaluation(*test))
    read = runs.read_evaluation(tmp_path)
    assert read.validation_probabilities is read.validation_labels is None


def test_validation_of_other_classes_is_refused(run_copy):
    held = (np.full((2, 3), 1 / 3), np.array([1, 0]))
    test = runs.read_evaluation(run_copy)
    runs.write_evaluation(
        run_copy, runs.Evaluation(test.probabilities, test.labels, "abc", 0.25, *held)
    )
    with pytest.raises(RunError, match=r"\(2, 3\), not of 4 classes"):
        _ = runs.read_run(run_copy).evaluation


def test_records_are_appended_and_rewritten(tmp_path):
    for epoch in (1, 2):
        runs.append_record(tmp_path, RECORD | {"epoch": epoch})
    assert [r["epoch"] for r in runs.read_history(tmp_path)] == [1, 2]
    runs.rewrite_history(tmp_path, [RECORD | {"epoch": 1}])
    assert runs.read_history(tmp_path) == (RECORD | {"epoch": 1},)


def test_no_history_means_no_epoch_yet(tmp_path):
    assert runs.read_history(tmp_path) == ()


@pytest.mark.parametrize("rest", ['{"epoch": 2, "tr', '{"epoch": 2}\n', "\0\0\0\n", "7\n", "\n"])
def test_a_torn_last_line_is_skipped(tmp_path, rest):
    runs.append_record(tmp_path, RECORD)
    with open(tmp_path / runs.HISTORY, "a") as file:
        file.write(rest)
    assert runs.read_history(tmp_path) == (RECORD,)


def test_a_line_torn_inside_a_letter_is_skipped(tmp_path):
    runs.append_record(tmp_path, RECORD)
    with open(tmp_path / runs.HISTORY, "ab") as file:
        file.write('{"stage": "ä'.encode()[:-1])
    assert runs.read_history(tmp_path) == (RECORD,)


WRITER = """
import itertools, sys
from pathlib import Path
from vitdemo.runs import RECORD_FIELDS, append_record, rewrite_history, write_config
folder, long = Path(sys.argv[1]), "x" * 20_000
record = dict.fromkeys(RECORD_FIELDS, 0.5) | {"stage": long}
config = {"recipe": {"name": long}, "model": {"family": "vit"}, "classes": [long]}
config |= {"normalisation": {"mean": [0.5], "std": [0.5]}}
for epoch in itertools.count(1):
    write_config(folder, config | {"epoch": epoch})
    append_record(folder, record | {"epoch": epoch})
"""


def test_a_writer_killed_at_any_moment_leaves_a_readable_run(tmp_path):
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
    history, deadline = tmp_path / runs.HISTORY, time.monotonic() + 120
    while not history.exists() or history.stat().st_size < 500_000:
        assert writer.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    run = runs.read_run(tmp_path)
    assert [r["epoch"] for r in run.history] == list(range(1, len(run.history) + 1))
    assert run.config["epoch"] - len(run.history) in (0, 1)


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        runs.write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_file_stands_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def write(file):
        file.write(b"new")
        assert path.read_text() == "old"

    runs.write_atomically(path, write)
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644


READERS = {
    runs.CONFIG: runs.read_run,
    runs.EVALUATION: runs.read_evaluation,
    runs.CHECKPOINT: runs.read_checkpoint,
    runs.WEIGHTS: lambda folder: runs.load_model(runs.read_run(folder)),
}


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("name", READERS)
def test_a_file_cut_short_is_named(run_copy, name, share):
    cut(run_copy / name, share)
    with pytest.raises(RunError, match=rf"{run_copy.name}\b"):
        READERS[name](run_copy)


@pytest.mark.parametrize("name", READERS)
def test_a_missing_file_is_named(run_copy, name):
    (run_copy / name).unlink()
    with pytest.raises(RunError, match=rf"{run_copy.name}' .*no ({name}|weights)"):
        READERS[name](run_copy)


def test_a_spoilt_byte_in_the_evaluation_is_found(run_copy):
    path = run_copy / runs.EVALUATION
    content = path.read_bytes()
    start = content.index(b"probabilities.npy") + 40
    for place in range(start, start + 40, 4):
        path.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        with pytest.raises(RunError, match="is damaged"):
            runs.read_evaluation(run_copy)


@pytest.mark.parametrize("text", ["[]", "{}", '{"recipe": {}}', "7"])
def test_a_config_that_lacks_something_says_what(tmp_path, text):
    (tmp_path / runs.CONFIG).write_text(text)
    with pytest.raises(RunError, match=r"lacks '(recipe|model)'"):
        runs.read_run(tmp_path)


def test_what_a_killed_writer_left_beside_is_no_harm(run_copy):
    (run_copy / f".{runs.WEIGHTS}.x7f3").write_bytes(b"half")
    (run_copy.parent / ".hidden").mkdir()
    found, problems = runs.find_runs(run_copy.parent)
    assert [run.name for run in found] == ["tiny"]
    assert problems == []
    runs.load_model(found[0])


def test_a_training_without_labels_is_no_run_to_ask(run_copy):
    config = runs.read_config(run_copy)
    runs.write_config(run_copy, config | {"recipe": config["recipe"] | {"mask_ratio": 0.75}})
    assert runs.find_runs(run_copy.parent) == ([], [])
    with pytest.raises(PretrainingError, match=r"--weights .*model\.safetensors"):
        runs.read_run(run_copy)


def test_a_record_without_accuracy_is_one_without_labels(tmp_path):
    record = dict.fromkeys(runs.RECORD_FIELDS, 1) | dict.fromkeys(runs.ACCURACIES)
    runs.rewrite_history(tmp_path, [record | {"stage": "masked"}, record | {"stage": "all"}])
    assert [found["stage"] for found in runs.read_history(tmp_path)] == ["masked"]


def test_a_damaged_run_is_named_and_the_others_are_found(run_copy):
    broken = run_copy.parent / "broken"
    broken.mkdir()
    found, problems = runs.find_runs(run_copy.parent, run_copy.parent / "nowhere")
    assert [run.name for run in found] == ["tiny"]
    assert len(problems) == 1
    assert str(broken) in problems[0]


def test_a_name_that_is_taken_gets_its_root_behind_it(run_copy, tiny_run):
    found, problems = runs.find_runs(run_copy.parent, tiny_run.parent)
    assert problems == []
    assert {run.name: run.path for run in found} == {
        "tiny": run_copy,
        f"tiny ({tiny_run.parent})": tiny_run,
    }


def test_the_loaded_model_is_the_trained_one(tiny_run):
    model = runs.load_model(runs.read_run(tiny_run))
    trained = runs.read_checkpoint(tiny_run)["ema"]
    assert not model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, trained[name].half().float())


def test_the_evaluation_is_that_of_the_weights_on_disk(tiny_run):
    run = runs.read_run(tiny_run)
    logits = predict(runs.load_model(run), synthetic(seed=1).images, run.preprocessing)
    assert np.allclose(run.evaluation.probabilities, logits.softmax(1), atol=1e-6)
    assert run.evaluation.labels.tolist() == synthetic(seed=1).labels.tolist()


def rename(weights):
    weights["extra.weight"] = weights["head.weight"].clone()


def drop(weights):
    del weights["head.bias"]


def reshape(weights):
    weights["head.weight"] = weights["head.weight"][:2].clone()


@pytest.mark.parametrize("damage", [rename, drop, reshape])
def test_weights_that_do_not_fit_are_refused(run_copy, damage):
    weights = load_file(run_copy / runs.WEIGHTS)
    damage(weights)
    save_file(weights, run_copy / runs.WEIGHTS)
    with pytest.raises(RunError, match=f"The weights of '{run_copy.name}'"):
        runs.load_model(runs.read_run(run_copy))


@pytest.mark.parametrize("change", [{"family": "cnn"}, {"colour": 1}, {"options": {"depth": 3}}])
def test_a_model_that_the_weights_are_not_of_is_refused(run_copy, change):
    config = runs.read_config(run_copy)
    config["model"] |= change
    runs.write_config(run_copy, config)
    with pytest.raises(runs.VitdemoError):
        runs.load_model(runs.read_run(run_copy))


def test_weights_are_float16_and_counters_stay_integers(tmp_path):
    runs.write_weights(tmp_path, {"w": torch.rand(3, 2).T, "count": torch.tensor(70_001)})
    read = load_file(tmp_path / runs.WEIGHTS)
    assert read["w"].dtype == torch.float16
    assert read["count"].item() == 70_001


def test_batch_norm_counters_survive_the_run_folder(run_copy):
    spec = ModelSpec("resnet18", 16)
    model = runs.build_model(spec, 4)
    model.bn1.num_batches_tracked.fill_(70_001)
    runs.write_weights(run_copy, model.state_dict())
    config = runs.read_config(run_copy) | {"model": {"family": "resnet18", "image_size": 16}}
    runs.write_config(run_copy, config)
    assert runs.load_model(runs.read_run(run_copy)).bn1.num_batches_tracked == 70_001


def test_a_checkpoint_holds_tensors_and_builtins_alone(tiny_run):
    state = torch.load(tiny_run / runs.CHECKPOINT, weights_only=True)
    assert state["epoch"] == 3
    assert {"model", "ema", "optimizer", "best"} <= state.keys()


def test_a_checkpoint_with_code_in_it_is_refused(tmp_path):
    torch.save({"epoch": fractions.Fraction(1)}, tmp_path / runs.CHECKPOINT)
    with pytest.raises(RunError, match=runs.CHECKPOINT):
        runs.read_checkpoint(tmp_path)


def test_history_is_json_a_line(tiny_run):
    lines = (tiny_run / runs.HISTORY).read_text().splitlines()
    assert [tuple(json.loads(line)) for line in lines] == [runs.RECORD_FIELDS] * 3


@pytest.mark.parametrize(
    "broken",
    [
        {"model": {"family": "vit", "options": None}},
        {"model": {"family": "vit", "options": []}},
        {"data": 3},
        {"data": []},
    ],
)
def test_settings_of_another_kind_are_refused_where_they_are_read(run_copy, broken):
    runs.write_config(run_copy, runs.read_config(run_copy) | broken)
    with pytest.raises(RunError, match="is not a run's"):
        runs.read_run(run_copy)
