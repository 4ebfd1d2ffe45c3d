"""The run folder: files round-trip, and a killed writer leaves a readable run."""

import fractions
import itertools
import json
import multiprocessing
import shutil
import time
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from vitdemo import runs
from vitdemo.data import make_synthetic_images
from vitdemo.errors import ModelError, PretrainingError, RunError
from vitdemo.models import ModelSpec, build_model
from vitdemo.runs.origin import has_same_classes, origin_entry, read_origin
from vitdemo.runs.steps import STEPS_FILE, read_steps
from vitdemo.training import predict_logits
from vitdemo.training.pretraining import ACCURACY_FIELDS

RECORD = dict.fromkeys(runs.RECORD_FIELDS, 0.5) | {"stage": "all"}


def test_run_has_its_config_history_and_files(tiny_run):
    run = runs.read_run(tiny_run)
    assert run.name == "tiny"
    assert run.classes == ("one", "two", "three", "four")
    assert run.spec.family == "vit"
    assert run.preprocessing.size == run.spec.image_size == 16
    assert [record["epoch"] for record in run.history] == [1, 2, 3]
    assert run.has_weights and run.has_evaluation
    fields = "recipe model classes normalisation input_size split data parameters macs"
    fields += " packages device git_commit started command"
    assert set(fields.split()) <= run.config.keys()
    lines = (tiny_run / runs.HISTORY_FILE).read_text().splitlines()
    assert [tuple(json.loads(line)) for line in lines] == [runs.RECORD_FIELDS] * 3


def test_device_text_has_the_number_of_processes_and_threads(tiny_run):
    run = runs.read_run(tiny_run)
    rest = {k: v for k, v in run.config.items() if k not in ("device", "processes")}

    def device_text(**config):
        return replace(run, config=rest | config).device

    assert device_text(device="a GPU", processes=4) == "4 × a GPU"
    assert device_text(device="a GPU", processes=1) == device_text(device="a GPU") == "a GPU"
    old = "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz (1 threads)"
    assert device_text(device=old, processes=2) == "2 × Intel Xeon Platinum 8259CL (1 thread)"
    assert device_text(processes=4) is None


def test_byte_order_marks_are_ignored(tiny_run, tmp_path):
    """Editors on Windows add such a mark."""
    folder = tmp_path / "run"
    shutil.copytree(tiny_run, folder)
    plain = runs.read_run(folder)
    for name in (runs.CONFIG_FILE, runs.HISTORY_FILE, STEPS_FILE):
        (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    run = runs.read_run(folder)
    assert (run.config, run.history) == (plain.config, plain.history)
    assert read_steps(folder) == read_steps(tiny_run) != []


def test_class_names_are_nfc_and_invalid_unicode_paths_are_kept(tiny_run, tmp_path):
    composed, decomposed = (unicodedata.normalize(form, "größe") for form in ("NFC", "NFD"))
    config = runs.read_config(tiny_run) | {"classes": [decomposed, "b", "c", "d"]}
    config["command"] = "train.py --out caf\udce9"  # a path that is not valid Unicode
    runs.write_config(tmp_path, config)
    run = runs.read_run(tmp_path)
    assert run.classes == (composed, "b", "c", "d")
    assert run.config == config


def test_evaluation_round_trips_with_and_without_validation(tmp_path):
    test = (np.full((3, 2), 0.5), np.array([0, 1, 1], np.int32), "abc", 0.25)
    validation = (np.full((2, 2), 0.5), np.array([1, 0], np.int32))
    runs.write_evaluation(tmp_path, runs.Evaluation(*test, *validation))
    with np.load(tmp_path / runs.EVALUATION_FILE) as arrays:  # plain arrays for other programs
        shapes = {name: (arrays[name].shape, arrays[name].dtype.name) for name in arrays.files}
    assert shapes == {
        "probabilities": ((3, 2), "float32"),
        "labels": ((3,), "int64"),
        "validation_probabilities": ((2, 2), "float32"),
        "validation_labels": ((2,), "int64"),
        "fingerprint": ((), "str96"),
        "seconds_per_image": ((), "float64"),
    }
    read = runs.read_evaluation(tmp_path)
    assert (read.fingerprint, read.seconds_per_image) == ("abc", 0.25)
    pairs = (read.probabilities, test[0]), (read.validation_probabilities, validation[0])
    for probabilities, written in pairs:
        assert probabilities.dtype == np.float32 and probabilities.tolist() == written.tolist()
    for labels, written in ((read.labels, test[1]), (read.validation_labels, validation[1])):
        assert labels.dtype == np.int64 and labels.tolist() == written.tolist()
    runs.write_evaluation(tmp_path, runs.Evaluation(*test))
    read = runs.read_evaluation(tmp_path)
    assert read.validation_probabilities is read.validation_labels is None


def test_evaluation_of_an_earlier_version_is_readable(tmp_path):
    probs = np.random.default_rng(0).dirichlet([0.1] * 3, 5).astype(np.float32)
    split = np.moveaxis(probs[..., None].view(np.uint8), -1, 0)  # (4, N, C)
    arrays = {"probabilities_bytes": split, "labels": np.zeros(5, int), "fingerprint": "abc"}
    arrays |= {"validation_probabilities_bytes": split[:, :2], "validation_labels": np.ones(2, int)}
    np.savez(tmp_path / runs.EVALUATION_FILE, seconds_per_image=0.1, **arrays)
    read = runs.read_evaluation(tmp_path)
    assert np.array_equal(read.probabilities, probs)
    assert np.array_equal(read.validation_probabilities, probs[:2])


def test_probabilities_are_stored_with_16_bits_and_nan_survives(tmp_path):
    probs = np.random.default_rng(0).dirichlet([0.1] * 10, 500).astype(np.float32)
    probs[0] = np.nan
    probs[1] = np.eye(10)[3]
    runs.write_evaluation(tmp_path, runs.Evaluation(probs, np.zeros(500, int), "", 0.1))
    read = runs.read_evaluation(tmp_path).probabilities
    assert np.isnan(read[0]).all() and np.array_equal(read[1], probs[1])
    assert np.abs(read[1:] / np.maximum(probs[1:], 1e-30) - 1)[probs[1:] > 1e-30].max() <= 2**-16
    assert not (read[2:].view(np.uint32) % 256).any()  # the last 8 of float32's 24 mantissa bits


@pytest.mark.parametrize("part", ["", "validation_"])
def test_predictions_of_other_classes_are_rejected(run_copy, part):
    fields = {f"{part}probabilities": np.full((2, 3), 1 / 3), f"{part}labels": np.zeros(2)}
    runs.write_evaluation(run_copy, replace(runs.read_evaluation(run_copy), **fields))
    with pytest.raises(RunError, match=r"\(2, 3\), but the run has 4 classes"):
        _ = runs.read_run(run_copy).evaluation


DAMAGED_LINES = [b'{"epoch": 2, "tr', b'{"epoch": 2}\n', b"\0\0\0\n", b"7\n", b"\n"]
DAMAGED_LINES.append('{"stage": "ä'.encode()[:-1])  # inside a multi-byte character


@pytest.mark.parametrize("rest", DAMAGED_LINES)
def test_damaged_last_line_is_skipped(tmp_path, rest):
    assert runs.read_history(tmp_path) == ()
    runs.append_record(tmp_path, RECORD)
    with open(tmp_path / runs.HISTORY_FILE, "ab") as file:
        file.write(rest)
    assert runs.read_history(tmp_path) == (RECORD,)


def write_forever(folder):
    long = "x" * 20_000
    config = {"recipe": {"name": long}, "model": {"family": "vit"}, "classes": [long]}
    config |= {"normalisation": {"mean": [0.5], "std": [0.5]}}
    for epoch in itertools.count(1):
        runs.write_config(folder, config | {"epoch": epoch})
        runs.append_record(folder, RECORD | {"stage": long, "epoch": epoch})


def test_killed_writer_leaves_a_readable_run(tmp_path):
    context = multiprocessing.get_context("fork")
    writer = context.Process(target=write_forever, args=(tmp_path,), daemon=True)
    writer.start()
    history, deadline = tmp_path / runs.HISTORY_FILE, time.monotonic() + 120
    while not history.exists() or history.stat().st_size < 200_000:
        assert writer.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    writer.kill()
    writer.join()
    run = runs.read_run(tmp_path)
    assert [r["epoch"] for r in run.history] == list(range(1, len(run.history) + 1))
    assert run.config["epoch"] - len(run.history) in (0, 1)


def test_steps_that_cannot_be_read_are_left_out(tmp_path):
    assert read_steps(tmp_path) == []
    (tmp_path / STEPS_FILE).mkdir()
    assert read_steps(tmp_path) == []


def test_files_are_replaced_atomically(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    def write(file):
        file.write(b"new")
        assert path.read_text() == "old"

    with pytest.raises(OSError, match="disk full"):
        runs.write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    runs.write_atomically(path, write)
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644


READERS = {
    runs.CONFIG_FILE: runs.read_run,
    runs.EVALUATION_FILE: runs.read_evaluation,
    runs.CHECKPOINT_FILE: runs.read_checkpoint,
    runs.WEIGHTS_FILE: lambda folder: runs.load_model(runs.read_run(folder)),
}


@pytest.mark.parametrize("name", READERS)
def test_truncated_and_missing_files_raise_run_errors(run_copy, name):
    path = run_copy / name
    content = path.read_bytes()
    for fraction in (0.0, 0.5, 0.99):
        path.write_bytes(content[: int(len(content) * fraction)])
        with pytest.raises(RunError, match=rf"{run_copy.name}\b"):
            READERS[name](run_copy)
    path.unlink()
    with pytest.raises(RunError, match=rf"{run_copy.name}' .*no ({name}|weights)"):
        READERS[name](run_copy)


def test_corrupted_evaluation_raises_run_error(run_copy):
    path = run_copy / runs.EVALUATION_FILE
    content = path.read_bytes()
    start = content.index(b"probabilities.npy") + 50
    for index in range(start, start + 40, 4):
        path.write_bytes(content[:index] + bytes([content[index] ^ 255]) + content[index + 1 :])
        with pytest.raises(RunError, match="is damaged"):
            runs.read_evaluation(run_copy)


@pytest.mark.parametrize("text", ["[]", "{}", '{"recipe": {}}', "7"])
def test_missing_config_field_is_named_in_the_error(tmp_path, text):
    (tmp_path / runs.CONFIG_FILE).write_text(text)
    with pytest.raises(RunError, match=r"no field '(recipe|model)'"):
        runs.read_run(tmp_path)


def test_pretraining_runs_are_not_listed_as_models(run_copy):
    config = runs.read_config(run_copy)
    runs.write_config(run_copy, config | {"recipe": config["recipe"] | {"mask_ratio": 0.75}})
    assert runs.find_runs(run_copy.parent) == ([], [])
    with pytest.raises(PretrainingError, match=r"--weights .*model\.safetensors"):
        runs.read_run(run_copy)


def test_pretraining_of_a_run_is_found_in_a_sibling_folder(run_copy):
    config = runs.read_config(run_copy)

    def make_sibling(name, origin=None, **settings):
        folder, recipe = run_copy.parent / name, config["recipe"] | settings
        folder.mkdir(exist_ok=True)
        fields = {"recipe": recipe, "started": f"when {name} was"}
        if origin:
            fields["started_from"] = {"run": origin, "started": f"when {origin} was"}
        runs.write_config(folder, config | fields)
        return runs.read_run(folder) if not recipe["mask_ratio"] else None

    make_sibling("masked", mask_ratio=0.75)
    second = make_sibling("second", make_sibling("first", "masked").name)
    assert runs.find_pretraining(second).path == run_copy.parent / "masked"
    assert runs.find_pretraining(runs.read_run(run_copy)) is None
    assert runs.find_pretraining(make_sibling("lone", "gone")) is None
    assert runs.find_pretraining(make_sibling("circle", "circle")) is None
    make_sibling("masked", "masked", mask_ratio=0.75)
    restarted = runs.read_config(run_copy.parent / "masked") | {"started": "since then"}
    runs.write_config(run_copy.parent / "masked", restarted)
    assert runs.find_pretraining(second) is None


def test_source_run_has_same_classes_only_if_labelled_and_equal(run_copy, tmp_path):
    config, weights = runs.read_config(run_copy), run_copy / runs.WEIGHTS_FILE
    classes = tuple(config["classes"])
    assert has_same_classes(read_origin(weights), classes)
    assert not has_same_classes(read_origin(weights), classes[::-1])
    copy = tmp_path / "some.safetensors"
    copy.write_bytes(weights.read_bytes())
    hub = tmp_path / runs.WEIGHTS_FILE  # a hub model has the same file names as a run
    (tmp_path / runs.CONFIG_FILE).write_text('{"architecture": "vit"}')
    for path in (None, copy, run_copy / "other.safetensors", hub):
        assert read_origin(path) is None
    assert not has_same_classes(None, classes)
    runs.write_config(run_copy, config | {"recipe": config["recipe"] | {"mask_ratio": 0.75}})
    assert not has_same_classes(read_origin(weights), classes)


def test_origin_counts_epochs_up_to_the_loaded_weights(run_copy):
    record = runs.read_history(run_copy)[-1]
    losses = (0.9, 0.4, 0.5)  # with patience, the weights with the lowest loss are saved
    history = [
        record | {"epoch": i, "val_loss": loss, "epoch_seconds": 10.0 * i}
        for i, loss in enumerate(losses, start=1)
    ]
    runs.rewrite_history(run_copy, history)
    config = runs.read_config(run_copy)

    def origin(weights, **settings):
        runs.write_config(run_copy, config | {"recipe": config["recipe"] | settings})
        entry = origin_entry(read_origin(weights))["started_from"]
        return entry["epochs"], entry["seconds"]

    weights, first = runs.weights_path(run_copy), runs.weights_path(run_copy, epoch=1)
    assert origin(weights) == (3, 60)
    assert origin(weights, patience=1) == (2, 30)
    assert origin(first, patience=1) == (1, 10)
    resumes = [{"after_epoch": epoch, "device": f"machine {epoch}"} for epoch in (1, 2)]
    runs.write_config(run_copy, config | {"resumed": resumes})
    assert origin_entry(read_origin(weights))["started_from"]["resumed"] == resumes
    assert "resumed" not in origin_entry(read_origin(first))["started_from"]
    assert origin_entry(None) == {}


def test_records_without_accuracy_require_the_masked_stage(tmp_path):
    record = dict.fromkeys(runs.RECORD_FIELDS, 1) | dict.fromkeys(ACCURACY_FIELDS)
    runs.rewrite_history(tmp_path, [record | {"stage": "masked"}, record | {"stage": "all"}])
    assert [row["stage"] for row in runs.read_history(tmp_path)] == ["masked"]


def test_damaged_run_is_reported_and_the_others_are_found(run_copy):
    broken = run_copy.parent / "broken"
    broken.mkdir()
    (run_copy / f".{runs.WEIGHTS_FILE}.x7f3").write_bytes(b"half")  # left by a killed writer
    (run_copy.parent / ".hidden").mkdir()
    valid_runs, problems = runs.find_runs(run_copy.parent, run_copy.parent / "nowhere")
    assert [run.name for run in valid_runs] == ["tiny"]
    assert len(problems) == 1
    assert str(broken) in problems[0]
    runs.load_model(valid_runs[0])


def test_loaded_weights_and_evaluation_match_the_trained_model(tiny_run):
    run = runs.read_run(tiny_run)
    model, trained = runs.load_model(run), runs.read_checkpoint(tiny_run)["ema"]
    assert not model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, trained[name].half().float())
    logits = predict_logits(model, make_synthetic_images(seed=1).images, run.preprocessing)
    assert np.allclose(run.evaluation.probabilities, logits.softmax(1), rtol=2**-15, atol=1e-7)
    assert run.evaluation.labels.tolist() == make_synthetic_images(seed=1).labels.tolist()


@pytest.mark.parametrize("damage", ["more", "fewer", "other shape"])
def test_mismatched_weights_are_rejected(run_copy, damage):
    weights = load_file(run_copy / runs.WEIGHTS_FILE)
    if damage == "more":
        weights["extra.weight"] = weights["head.weight"].clone()
    elif damage == "fewer":
        del weights["head.bias"]
    else:
        weights["head.weight"] = weights["head.weight"][:2].clone()
    save_file(weights, run_copy / runs.WEIGHTS_FILE)
    with pytest.raises(RunError, match=f"The weights of '{run_copy.name}'"):
        runs.load_model(runs.read_run(run_copy))


def test_unknown_model_family_raises_model_error(run_copy):
    runs.write_config(run_copy, runs.read_config(run_copy) | {"model": {"family": "cnn"}})
    with pytest.raises(ModelError, match="'cnn': choose one of vit, convnet, resnet18, timm"):
        runs.load_model(runs.read_run(run_copy))


def test_weights_are_saved_as_float16_and_counters_exactly(run_copy):
    model = build_model(ModelSpec("resnet18", 16), 4)
    model.bn1.num_batches_tracked.fill_(70_001)  # more than float16 holds
    runs.write_weights(run_copy, model.state_dict() | {"fc.weight": torch.rand(512, 4).T})
    assert load_file(run_copy / runs.WEIGHTS_FILE)["fc.weight"].dtype == torch.float16
    config = runs.read_config(run_copy) | {"model": {"family": "resnet18", "image_size": 16}}
    runs.write_config(run_copy, config)
    assert runs.load_model(runs.read_run(run_copy)).bn1.num_batches_tracked == 70_001


def test_checkpoint_contains_only_tensors_and_builtins(tiny_run, tmp_path):
    state = torch.load(tiny_run / runs.CHECKPOINT_FILE, weights_only=True)
    assert state["epoch"] == 3
    assert {"model", "ema", "optimizer", "best"} <= state.keys()
    torch.save({"epoch": fractions.Fraction(1)}, tmp_path / runs.CHECKPOINT_FILE)  # needs code
    with pytest.raises(RunError, match=runs.CHECKPOINT_FILE):
        runs.read_checkpoint(tmp_path)


INVALID_MODELS = [{"options": None}, {"options": []}, {"colour": 1}]
INVALID_CONFIGS = [{"model": {"family": "vit", **wrong}} for wrong in INVALID_MODELS]
INVALID_CONFIGS += [{"data": 3}, {"data": []}, {"model": None}, {"normalisation": {}}]
INVALID_CONFIGS += [{"recipe": "vit"}, {"classes": None}]


@pytest.mark.parametrize("broken", INVALID_CONFIGS)
def test_config_fields_of_wrong_type_are_rejected(run_copy, broken):
    runs.write_config(run_copy, runs.read_config(run_copy) | broken)
    with pytest.raises(RunError, match="is not valid"):
        runs.read_run(run_copy)


def test_devices_and_epochs_include_the_source_runs(run_copy):
    run = runs.read_run(run_copy)
    origin = {"run": "first", "epochs": 2, "device": "NVIDIA H200", "processes": 2}
    origin |= {"started_from": origin | {"run": "masked", "epochs": 4}}
    config = run.config | {"device": "AMD EPYC (1 thread)"}
    runs.write_config(run_copy, config | {"started_from": origin})
    loaded = runs.read_run(run_copy)
    assert loaded.device == "2 × NVIDIA H200, then AMD EPYC (1 thread)"
    assert loaded.epochs_before == [2, 4]
    leg = {"after_epoch": 1, "device": "AMD EPYC (2 threads)", "processes": 1}
    now = {"started_from": origin | {"resumed": [leg]}, "resumed": [leg | {"device": "Apple M9"}]}
    runs.write_config(run_copy, config | now)
    devices = "2 × NVIDIA H200, then AMD EPYC (2 threads), then AMD EPYC (1 thread), then Apple M9"
    assert runs.read_run(run_copy).device == devices
    runs.write_config(run_copy, config | {"started_from": origin | {"device": None, "epochs": "?"}})
    loaded = runs.read_run(run_copy)
    assert loaded.device == "2 × NVIDIA H200, then AMD EPYC (1 thread)"  # the masked run's GPUs
    assert loaded.epochs_before == []
