"""Runs are pushed to a local stand-in for the Hub, opened from it, and exported as ONNX."""

import json

import numpy as np
import pytest
import timm
import torch

from tests.support.factories import (
    CONVNET,
    RESNET,
    TIMM,
    TIMM_KINDS,
    VIT,
    make_run,
    noise,
    run_train_py,
)
from tests.support.hub import serve_hub
from vitdemo import runs
from vitdemo.context import AppContext
from vitdemo.errors import ModelError, RunError
from vitdemo.explain.forward_pass import run_forward
from vitdemo.models import ModelSpec
from vitdemo.publishing import onnx_file
from vitdemo.publishing.model_card import escape_markdown, format_code
from vitdemo.publishing.onnx_file import export_onnx
from vitdemo.publishing.repository import push_run, write_repository
from vitdemo.runs import model_files
from vitdemo.runs.opened_model import open_model

CPU = torch.device("cpu")
NAME = "someone/my-vit"
AVERAGED = ModelSpec("vit", 16, options={**VIT.options, "global_pool": "avg"})
NO_POSITIONS = ModelSpec("vit", 16, options={**VIT.options, "pos_embed": "none"})
CONV_STEM = ModelSpec("vit", 16, options={**VIT.options, "stem": "conv"})
KINDS = {  # name: (spec, whether timm has the architecture)
    "ours": (VIT, True),
    "ours, mean of patches": (AVERAGED, True),
    "ours, no positions": (NO_POSITIONS, True),
    "ours, conv stem": (CONV_STEM, False),
    "convnet": (CONVNET, False),
    "resnet": (RESNET, False),
    **{f"timm, {kind}": (spec, True) for kind, spec in TIMM_KINDS.items()},
}


@pytest.fixture(autouse=True)
def _hub(monkeypatch, tmp_path):
    monkeypatch.setattr(model_files, "HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_TOKEN", "hf_for_tests")


@pytest.mark.parametrize("kind", KINDS)
def test_pushed_model_is_opened_and_predicts_the_same(kind, tmp_path, monkeypatch):
    spec, is_timm = KINDS[kind]
    run = make_run(tmp_path / "my-vit", spec)
    files, steps = {}, []
    with serve_hub(monkeypatch, files) as requests:
        address = push_run(run, NAME, private=True, on_step=steps.append)
        opened = open_model(f"hf-hub:{NAME}")
    assert address.endswith(f"/{NAME}") and len(steps) == 2
    assert any("/repos/create" in request for request in requests)
    assert set(files) == {"README.md", "config.json", "model.safetensors"}
    assert opened.classes == run.classes and opened.notices == ()
    assert opened.preprocessing == run.preprocessing
    assert ("architecture" in json.loads(files["config.json"])) == is_timm
    context = AppContext([tmp_path], None, CPU, [opened])
    ours, theirs = (context.predict(each, noise()).probabilities for each in (run, opened))
    assert np.abs(ours - theirs).max() <= 1e-6
    if is_timm:
        write_repository(run, tmp_path / "repository", NAME)
        model = timm.create_model(f"local-dir:{tmp_path / 'repository'}", pretrained=True).eval()
        _, pixels = context.prepare_input(run.preprocessing, noise())
        with torch.no_grad():
            logits = model(pixels)[0].softmax(-1).numpy()
        assert np.abs(logits - ours).max() <= 1e-5
        config = timm.data.resolve_model_data_config(model)
        assert config["input_size"] == (3, spec.image_size, spec.image_size)
        assert tuple(config["mean"]) == run.preprocessing.mean


def test_trained_run_is_pushed_by_train_py_and_opened(tiny_run, tmp_path, monkeypatch, capsys):
    with serve_hub(monkeypatch, {}):
        assert run_train_py("push", tiny_run, "someone/tiny") == 0
        opened = open_model("hf-hub:someone/tiny")
    assert "python app.py --model hf-hub:someone/tiny" in capsys.readouterr().out
    assert opened.classes == runs.read_run(tiny_run).classes


def test_dry_run_writes_the_model_card(tiny_run, tmp_path, capsys):
    folder = tmp_path / "repository"
    options = ("--dry-run", folder, "--license", "apache-2.0")
    assert run_train_py("push", tiny_run, "someone/tiny", *options) == 0
    card = (folder / "README.md").read_text()
    front, _, body = card.removeprefix("---\n").partition("\n---\n")
    assert "license: apache-2.0" in front and "pipeline_tag: image-classification" in front
    assert "type: accuracy" in front
    for text in (
        "# tiny\n",
        'timm.create_model("hf-hub:someone/tiny", pretrained=True)',
        "python app.py --model hf-hub:someone/tiny",
        "Recipe: `tiny`. 3 epochs",
        "| batch_size | 16 |",
        "| mixup | 0.2 |",
        "| test accuracy |",
        "validation images (stratified split, seed 0)",
        "## Limits",
    ):
        assert text in body
    assert str(tmp_path) not in card and "licence of the weights is not stated" not in card
    assert (folder / "model.safetensors").read_bytes() == (
        tiny_run / "model.safetensors"
    ).read_bytes()
    assert run_train_py("push", tiny_run, "--dry-run", folder) == 0  # files are replaced
    assert "USER/tiny" in (folder / "README.md").read_text()
    (folder / "thesis.txt").write_text("x")
    assert run_train_py("push", tiny_run, "--dry-run", folder) == 2
    assert "contains other files, such as 'thesis.txt'" in capsys.readouterr().err


def test_card_contains_intervals_and_no_paths_of_this_computer(tmp_path):
    run = make_run(tmp_path / "own", CONV_STEM, recipe={"teacher": f"{tmp_path}/teacher"})
    write_repository(run, tmp_path / "repository", NAME)
    card = (tmp_path / "repository" / "README.md").read_text()
    config = (tmp_path / "repository" / "config.json").read_text()
    assert str(tmp_path) not in card + config
    assert "| teacher | teacher |" in card
    assert "| test accuracy | 97.5 | 94.3 to 98.9 |" in card  # 195 of 200: Wilson's interval
    assert "| cat | 75.0 | 53.1 to 88.8 | 20 |" in card  # 15 of 20
    assert 'open_model("hf-hub:someone/my-vit")' in card
    runs.write_config(run.path, run.config | {"own_classes": {}})
    write_repository(runs.read_run(run.path), tmp_path / "repository", NAME)
    card = (tmp_path / "repository" / "README.md").read_text()
    assert "cross-validation on the 200 images" in card
    assert "test set" not in card and "model-index" not in card
    (run.path / runs.EVALUATION_FILE).unlink()
    write_repository(runs.read_run(run.path), tmp_path / "repository", NAME)
    card = (tmp_path / "repository" / "README.md").read_text()
    assert "not evaluated on a test set" in card and "The accuracy of the model is unknown." in card


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, r"does not let you write to 'someone/my-vit' \(error 403\)"),
        (401, r"does not let you write to 'someone/my-vit' \(error 401\)"),
        (500, "'someone/my-vit' could not be uploaded"),
    ],
)
def test_refused_uploads_are_one_sentence(status, message, tmp_path, monkeypatch):
    run = make_run(tmp_path / "run")
    with (
        serve_hub(monkeypatch, {}, refusal=(status, "X")),
        pytest.raises(ModelError, match=message),
    ):
        push_run(run, NAME)


def test_uploads_without_network_token_name_or_weights_are_refused(tmp_path, monkeypatch, capsys):
    run = make_run(tmp_path / "run")
    with pytest.raises(ModelError, match=r"could not be uploaded .*Check the network"):
        push_run(run, NAME)  # the address of the Hub refuses connections in tests
    for name in ("my-vit", "a/b/c", "../x", "a/"):
        with pytest.raises(ModelError, match="Write USER/NAME"):
            push_run(run, name)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(ModelError, match=r"no token for the Hub.*hf auth login"):
        push_run(run, NAME)
    runs.weights_path(run.path).unlink()
    with pytest.raises(RunError, match="'run' has no weights to export"):
        write_repository(run, tmp_path / "out", NAME)
    assert run_train_py("push", run.path) == 2
    assert "push needs a run folder and a name" in capsys.readouterr().err
    assert run_train_py("export", run.path) == 2
    assert "export needs a run folder and a file" in capsys.readouterr().err
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="is a file"):
        write_repository(make_run(tmp_path / "other"), tmp_path / "file", NAME)


@pytest.mark.parametrize("spec", [VIT, TIMM, TIMM_KINDS["distilled"], CONVNET], ids=str)
def test_onnx_file_computes_logits_and_attention(spec, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    run = make_run(tmp_path / "run", spec)
    file = tmp_path / "model.onnx"
    assert run_train_py("export", run.path, "--onnx", file) == 0
    session = onnxruntime.InferenceSession(str(file))
    images = torch.randn(3, 3, spec.image_size, spec.image_size)
    found = session.run(None, {"images": images.numpy()})
    model = runs.load_model(run)
    with torch.no_grad():
        expected = [model(images)]
        if spec.family != "convnet":
            expected += run_forward(model, images).attention
    assert [output.name for output in session.get_outputs()] == [
        "logits",
        *(f"attention_{i}" for i in range(1, len(expected))),
    ]
    for ours, theirs in zip(expected, found, strict=True):
        assert np.abs(ours.numpy() - theirs).max() <= 1e-4
    described = session.get_modelmeta().custom_metadata_map
    assert json.loads(described["classes"]) == list(run.classes)
    assert json.loads(described["mean"]) == list(run.preprocessing.mean)
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".part"] == []


def test_missing_onnx_packages_and_folders_are_reported(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run")
    monkeypatch.setattr(onnx_file.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="packages onnx and onnxscript: pip install onnx onnxscri"):
        export_onnx(run, tmp_path / "model.onnx")
    monkeypatch.setattr(onnx_file.importlib.util, "find_spec", lambda name: name)
    with pytest.raises(ModelError, match="does not exist"):
        export_onnx(run, tmp_path / "none" / "model.onnx")


def test_names_stay_one_cell_and_one_code_span_of_markdown():
    assert escape_markdown("a|b") == "a\\|b"
    assert escape_markdown("a\\|b\n<b>*x*") == "a\\\\\\|b \\<b\\>\\*x\\*"
    assert escape_markdown("traffic_light _x_") == "traffic_light \\_x\\_"
    assert format_code("a`b") == "`` a`b ``"
    assert format_code("mine") == "`mine`"
