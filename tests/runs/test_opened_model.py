"""Third-party models, from a local stand-in for the Hub and from this computer."""

import json
import shutil
from functools import partial

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

from tests.support.factories import (
    TIMM_KINDS,
    noise,
    random_model,
    timm_spec,
    write_noise_images,
)
from tests.support.foreign_checkpoints import LABELS, compute_logits, make_tensors, write_checkpoint
from tests.support.hub import serve_hub
from vitdemo import data
from vitdemo.analyses.architecture import load_model_parts
from vitdemo.analyses.class_attribution import compute_class_attribution
from vitdemo.analyses.head_ablation import compute_head_effects
from vitdemo.context import AppContext
from vitdemo.data.image_files import crop_and_resize
from vitdemo.errors import ModelError, RunError
from vitdemo.explain.logit_attribution import compute_logit_attribution
from vitdemo.explain.logit_lens import compute_logit_lens
from vitdemo.models.vit_shape import ConcatenatedVisionTransformer
from vitdemo.notebook import read_image
from vitdemo.page.image_sources import USER_PHOTO, ImageRequest, prepare_image
from vitdemo.publishing.maps_file import compute_all_maps
from vitdemo.runs import model_files
from vitdemo.runs.opened_model import create_model_run, open_model, parse_labels

CPU = torch.device("cpu")
HUB_NAME = "hf-hub:someone/model"


@pytest.fixture(autouse=True)
def _downloads(monkeypatch, tmp_path):
    monkeypatch.setattr(model_files, "HF_HOME", str(tmp_path / "hub"))


def read_folder(folder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def write_timm_model(folder, spec=None, classes=("ant", "bee", "cat"), **details):
    """Write a model as timm's `push_to_hf_hub` does, with random weights."""
    spec = spec or timm_spec()
    model = random_model(spec, classes=len(classes))
    folder.mkdir(parents=True, exist_ok=True)
    save_file(model.state_dict(), folder / "model.safetensors")
    config = {
        "architecture": spec.name,
        "num_classes": len(classes),
        "num_features": 48,
        "model_args": {"img_size": spec.image_size, **spec.options},
        "pretrained_cfg": {
            "input_size": [3, spec.image_size, spec.image_size],
            "mean": [0.4, 0.5, 0.6],
            "std": [0.2, 0.25, 0.3],
            "crop_pct": 0.8,
            "crop_mode": "center",
            "interpolation": "bicubic",
            "num_classes": len(classes),
        },
        "label_names": list(classes),
    }
    config["pretrained_cfg"] |= details
    (folder / "config.json").write_text(json.dumps(config))
    return folder, model


def predict(run, image) -> np.ndarray:
    return AppContext([], None, CPU, [run]).predict(run, image).probabilities


@pytest.mark.parametrize("kind", TIMM_KINDS)
def test_timm_repository_predicts_as_timm_itself(kind, tmp_path, monkeypatch):
    folder, _ = write_timm_model(tmp_path / "timm", TIMM_KINDS[kind])
    with serve_hub(monkeypatch, read_folder(folder)):
        run = open_model(HUB_NAME)
    assert run.name == HUB_NAME
    assert run.classes == ("ant", "bee", "cat")
    assert run.preprocessing.mean == (0.4, 0.5, 0.6)
    assert run.preprocessing.crop == 0.8
    assert run.notices == ()
    assert run.config["parameters"] == sum(t.numel() for t in run.build().parameters())
    image = noise(size=(60, 50))
    theirs = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    seen, pixels = AppContext([], None, CPU, [run]).prepare_input(run.preprocessing, image)
    resized = np.asarray(crop_and_resize(image.crop((5, 0, 55, 50)), 40))
    assert np.array_equal(seen, resized[4:36, 4:36])  # resized to 32 / 0.8 before the crop
    with torch.no_grad():
        expected = theirs(pixels).softmax(-1)[0].numpy()
    assert np.allclose(predict(run, image), expected, atol=1e-5)


def test_flat_timm_config_and_imagenet_labels(tmp_path):
    folder, _ = write_timm_model(tmp_path / "old", classes=tuple(map(str, range(1000))))
    config = json.loads((folder / "config.json").read_text())
    del config["label_names"]
    (folder / "config.json").write_text(json.dumps(config))
    run = open_model(f"local:{folder}")
    assert run.name == "local:old"
    assert run.classes[281] == "tabby, tabby cat"
    assert "ImageNet's 1,000 labels are assumed" in run.notices[0]
    flat = config.pop("pretrained_cfg") | config | {"model_args": config["model_args"]}
    (folder / "config.json").write_text(json.dumps(flat))
    assert open_model(f"local:{folder}").preprocessing == run.preprocessing


@pytest.mark.parametrize("kind", ["vit", "deit", "dinov2", "dinov2_with_registers"])
def test_transformers_checkpoint_is_opened_and_explored(kind, tmp_path, monkeypatch):
    folder = write_checkpoint(tmp_path / kind, kind)
    with serve_hub(monkeypatch, read_folder(folder)):
        run = open_model(HUB_NAME)
        again = open_model("https://huggingface.co/someone/model")
    assert again.weights == run.weights
    assert run.classes == tuple(LABELS.values())
    assert run.preprocessing.mean == (0.4, 0.5, 0.6)
    assert run.preprocessing.crop == (1.0 if kind == "vit" else 0.8)
    assert any("stretches" in notice for notice in run.notices) == (kind == "vit")
    context, image = AppContext([], None, CPU, [run]), noise()
    assert context.explainable_runs() == [run]
    _, pixels = context.prepare_input(run.preprocessing, image)
    eps = 1e-6 if kind.startswith("dinov2") else 1e-12
    expected = compute_logits(kind, make_tensors(kind), pixels, eps)[0]
    assert torch.allclose(context.trace_image(run, image).logits, expected, atol=1e-4)
    assert np.allclose(predict(run, image), expected.softmax(-1).numpy(), atol=1e-5)
    assert np.isfinite(
        context.trace_image(run, image).rollout_map(2, fusion="mean", discard_ratio=0.0)
    ).all()
    model, trace = context.load_model(run), context.trace_image(run, image)
    lens = compute_logit_lens(model, trace)
    assert np.allclose(lens.predictions[-1], expected.softmax(-1).numpy(), atol=1e-5)
    assert lens.patches.shape == (3, 16, 5)
    arrays = compute_all_maps(context, run, image).values()
    assert all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")
    maps = compute_class_attribution(context, run, image, include_slow=False)
    assert run.classes[maps.target] == run.classes[int(expected.argmax())]
    assert all(np.isfinite(found.values).all() for found in maps.maps)
    assert load_model_parts(context, run)
    if kind.startswith("dinov2"):
        with pytest.raises(RunError, match="reads both the class token and the mean"):
            compute_logit_attribution(model, trace)
    else:
        assert compute_logit_attribution(model, trace)
    assert compute_head_effects(context, run, image, mode="zero")


def test_input_size_follows_the_preprocessing_of_dinov2(tmp_path):
    folder = write_checkpoint(tmp_path / "dino", "dinov2")
    processor = json.loads((folder / "preprocessor_config.json").read_text())
    sizes = {"size": {"shortest_edge": 64}, "crop_size": {"height": 48, "width": 48}}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor | sizes))
    run = open_model(f"local:{folder}")
    assert (run.preprocessing.size, run.preprocessing.crop) == (48, 0.75)
    context = AppContext([], None, CPU, [run])
    assert isinstance(context.load_model(run), ConcatenatedVisionTransformer)
    _, pixels = context.prepare_input(run.preprocessing, noise())
    expected = compute_logits("dinov2", make_tensors("dinov2"), pixels, 1e-6)[0]
    assert torch.allclose(context.trace_image(run, noise()).logits, expected, atol=1e-4)
    assert "class token and the mean of the patches" in run.notices[0]


def test_old_processors_state_sizes_as_numbers(tmp_path):
    folder = write_checkpoint(tmp_path / "vit")
    processor = {"size": 32, "do_resize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    run = open_model(f"local:{folder}")
    assert run.preprocessing.crop == 1.0 and "stretches" in " ".join(run.notices)
    cropped = processor | {"size": 40, "crop_size": 32, "do_center_crop": True}
    (folder / "preprocessor_config.json").write_text(json.dumps(cropped))
    run = open_model(f"local:{folder}")
    assert run.preprocessing.crop == 0.8 and "stretches" in " ".join(run.notices)


def test_stretching_does_not_change_the_square_that_models_receive(tmp_path):
    folder = write_checkpoint(tmp_path / "deit", "deit")
    processor = {"size": {"height": 40, "width": 40}, "crop_size": 32, "resample": 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    run = open_model(f"local:{folder}")
    assert "stretches" in " ".join(run.notices)
    path = tmp_path / "photo.png"
    noise(size=(90, 60)).save(path)
    dataset = data.open_dataset(
        write_noise_images(
            tmp_path / "images", dict.fromkeys(("train/a", "train/b", "test/a", "test/b"), 3)
        ),
        download=False,
    )
    squares = [
        read_image(path),  # notebooks
        prepare_image(ImageRequest(USER_PHOTO, str(path), 0.25), None).square,  # the page
        data.TestSet(dataset)[0].image,
    ]
    for square in squares:
        assert square.width == square.height
        stretched = square.resize((40, 40), Image.Resampling.BICUBIC).crop((4, 4, 36, 36))
        difference = run.preprocessing.crop_image(square) - np.moveaxis(
            np.array(stretched), 2, 0
        ).astype(int)
        assert abs(difference).mean() < 1  # rounding of 8-bit pixels between two passes


def test_clip_image_encoder_predicts_no_classes(tmp_path):
    spec = timm_spec("vit_base_patch32_clip_224")
    names = tuple(map(str, range(512)))
    folder, _ = write_timm_model(tmp_path / "clip", spec, names, label_names=None)
    damage(folder, label_names=None)
    run = open_model(f"local:{folder}")
    assert run.classes == () and "no classifier" in " ".join(run.notices)
    assert AppContext([], None, CPU, [run]).trace_image(run, noise()).attention.shape[0] == 2


def test_folder_without_processor_uses_the_usual_values(tmp_path):
    folder = write_checkpoint(tmp_path / "plain")
    (folder / "preprocessor_config.json").unlink()
    run = open_model(f"local:{folder}")
    assert run.preprocessing.mean == (0.5, 0.5, 0.5)
    assert any("not stored with the model" in notice for notice in run.notices)


def test_weights_file_states_heads_labels_size_and_normalisation(tmp_path):
    model = random_model(timm_spec(embed_dim=192), classes=3)
    file = tmp_path / "own.pth"
    torch.save({"state_dict": {f"module.{n}": t for n, t in model.state_dict().items()}}, file)
    run = open_model(f"local:{file}")
    assert run.classes == ("class 0", "class 1", "class 2")
    heads, pooling, activation, eps, pixels, resizing, labels = run.notices
    assert "3 attention heads are assumed, 64 dimensions each" in heads
    assert "?pool=avg" in pooling and "?act=quick_gelu" in activation and "?eps=E" in eps
    assert "?mean=M&std=S" in pixels and "classes are numbered" in labels
    assert "filter bicubic and a crop of 1 are assumed" in resizing
    (tmp_path / "labels.txt").write_text("ant\nbee\nbee\n\n")
    options = f"heads=6&labels={tmp_path / 'labels.txt'}&mean=0.5&std=0.1,0.2,0.3&size=48"
    options += "&pool=token&act=gelu&eps=1e-6&crop=0.9&interpolation=bilinear"
    stated = open_model(f"local:{file}?{options}")
    assert stated.notices == ()
    assert stated.classes == ("ant", "bee (class 1)", "bee (class 2)")
    assert stated.preprocessing.size == 48
    assert stated.preprocessing.mean == (0.5, 0.5, 0.5)
    assert stated.preprocessing.std == (0.1, 0.2, 0.3)
    assert (stated.preprocessing.crop, stated.preprocessing.interpolation) == (0.9, "bilinear")
    loaded = AppContext([], None, CPU, [stated]).load_model(stated)
    assert loaded.blocks[0].attn.num_heads == 6
    assert loaded.patch_embed.grid_size == (6, 6)
    named = open_model(f"local:{file}", labels=("x", "y", "z"))
    assert named.classes == ("x", "y", "z") and named.stamp != run.stamp
    assert parse_labels(" a \nb\n\n") == ("a", "b")


def test_large_inputs_are_reduced_with_a_notice(tmp_path):
    save_file(random_model(timm_spec(image_size=256)).state_dict(), tmp_path / "large.safetensors")
    run = open_model(f"local:{tmp_path / 'large.safetensors'}?heads=3")
    assert run.preprocessing.size == 128
    assert "reduced from 256 to 128 pixels" in " ".join(run.notices)
    assert predict(run, noise()).shape == (10,)


def test_imagenet_22k_has_21841_labels(tmp_path):
    model = random_model(timm_spec(), classes=21841)
    save_file(model.state_dict(), tmp_path / "large.safetensors")
    run = open_model(f"local:{tmp_path / 'large.safetensors'}?heads=3")
    assert len(run.classes) == len(set(run.classes)) == 21841
    assert "ImageNet's 21,841 labels are assumed" in " ".join(run.notices)
    assert predict(run, noise()).shape == (21841,)


REFUSALS = {  # what the Hub answers: (status and code, files, message)
    "missing": ((401, "RepoNotFound"), {}, "no public repository 'someone/model'"),
    "gated": ((403, "GatedRepo"), {}, r"'someone/model' is gated: accept its conditions"),
    "pickles only": (None, {"pytorch_model.bin": b"x"}, r"only pickled weights \(pytorch_model.b"),
    "shards": (None, {"model.safetensors.index.json": b"{}"}, "split into several files"),
    "no weights": (None, {"config.json": b"{}"}, "has no model.safetensors"),
    "damaged config": (
        None,
        {"config.json": b'{"a', "model.safetensors": b"x"},
        "config.json' is damaged or incomplete",
    ),
    "server fault": ((500, "X"), {}, r"could not be downloaded .*local:PATH"),
    "revision": ((404, "RevisionNotFound"), {}, "has no revision"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_refusals_of_the_hub_are_one_sentence(kind, monkeypatch):
    refusal, files, message = REFUSALS[kind]
    with (
        serve_hub(monkeypatch, files, refusal=refusal),
        pytest.raises(ModelError, match=message) as caught,
    ):
        open_model(HUB_NAME)
    assert "\n" not in str(caught.value)


def test_pickled_weights_of_the_hub_are_never_read(monkeypatch):
    files = {"config.json": b"{}", "pytorch_model.bin": b"x", "model.pth": b"x"}
    with serve_hub(monkeypatch, files) as requests, pytest.raises(ModelError, match="pickled"):
        open_model(HUB_NAME)
    assert [r for r in requests if r.startswith("GET")] == ["GET 0"]  # of config.json


def test_known_model_opens_without_a_network(tmp_path, monkeypatch):
    folder = write_checkpoint(tmp_path / "vit")
    with serve_hub(monkeypatch, read_folder(folder)):
        run = open_model(HUB_NAME)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert open_model(HUB_NAME).weights == run.weights
    with pytest.raises(ModelError, match=r"'a/other' could not be downloaded .*Without a network"):
        open_model("hf-hub:a/other")


def test_incomplete_download_is_reported_and_can_be_repeated(tmp_path, monkeypatch):
    folder = write_checkpoint(tmp_path / "vit")
    with (
        serve_hub(monkeypatch, read_folder(folder), limit=2000),
        pytest.raises(ModelError, match="'someone/model' could not be downloaded"),
    ):
        open_model(HUB_NAME)
    with serve_hub(monkeypatch, read_folder(folder)):
        assert open_model(HUB_NAME).classes


def damage(folder, **changes):
    """Change config.json of a checkpoint."""
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


LOCAL_FAULTS = {
    "other width": (dict(hidden_size=48), "json says 48 hidden_size, but the weights have 32"),
    "other depth": (dict(num_hidden_layers=12), "says 12 num_hidden_layers, but the .* have 2"),
    "other image size": (dict(image_size=224), "says 224 image_size, but the weights have 32"),
    "other labels": (dict(id2label={"0": "a", "1": "b"}), "says 2 labels in id2label.* have 5"),
}


@pytest.mark.parametrize("kind", LOCAL_FAULTS)
def test_config_and_weights_that_disagree_are_refused(kind, tmp_path):
    changes, message = LOCAL_FAULTS[kind]
    folder = write_checkpoint(tmp_path / "vit")
    damage(folder, **changes)
    with pytest.raises(ModelError, match=message):
        open_model(f"local:{folder}")


def test_timm_configs_that_disagree_are_refused(tmp_path):
    folder, _ = write_timm_model(tmp_path / "timm")
    complete = (folder / "config.json").read_text()
    for changes, message in (
        ({"architecture": "swin_tiny_patch4_window7_224"}, "'swin_tiny.*cannot be opened. Support"),
        ({"architecture": "nonsense"}, "timm has no model 'nonsense'"),
        ({"num_classes": 7}, "3 classes, not 7"),
        ({"model_args": {"img_size": 32, "depth": 9}}, "are not of this model|does not fit"),
        ({"model_args": {"patch_size": [8, 4], "img_size": [32, 16]}}, "square"),
        ({"model_args": {"depth": 10**9}}, "depth 1,000,000,000, which is too large"),
        ({"model_args": {"heads": 3}}, "does not fit timm's"),
        ({"model_args": 7}, "JSON files are not valid"),
        ({"label_names": 7}, "JSON files are not valid"),
        ({"architecture": ["x"]}, "not in timm's format"),
        ({"label_names": ["ant"]}, ""),
    ):
        (folder / "config.json").write_text(complete)
        damage(folder, **changes)
        if not message:
            assert open_model(f"local:{folder}").classes == ("class 0", "class 1", "class 2")
            continue
        with pytest.raises(ModelError, match=message):
            open_model(f"local:{folder}")


def test_missing_ambiguous_and_damaged_local_files_are_reported(tmp_path):
    folder = tmp_path / "model"
    with pytest.raises(ModelError, match="does not exist"):
        open_model(f"local:{folder}")
    folder.mkdir()
    with pytest.raises(ModelError, match="has no weights file"):
        open_model(f"local:{folder}")
    (folder / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ModelError, match="split into several files"):
        open_model(f"local:{folder}")
    for name in ("a.pth.tar", "b.ckpt"):
        torch.save({"x": torch.zeros(1)}, folder / name)
    (folder / "model.safetensors.index.json").unlink()
    (folder / "notes.txt").write_text("x")
    with pytest.raises(ModelError, match=r"several weights files \(a.pth.tar, b.ckpt\)"):
        open_model(f"local:{folder}")
    (folder / "b.ckpt").unlink()
    with pytest.raises(ModelError, match="contains no tensors with the names"):
        open_model(f"local:{folder}")
    with pytest.raises(ModelError, match="is neither a safetensors file nor a file from torch"):
        open_model(f"local:{folder / 'notes.txt'}")
    (folder / "pytorch_model.bin.index.json").write_text("{}")
    with pytest.raises(ModelError, match="split into several files"):
        open_model(f"local:{folder}")
    whole = write_checkpoint(tmp_path / "vit") / "model.safetensors"
    whole.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(ModelError, match=r"damaged or incomplete"):
        open_model(f"local:{whole.parent}")


class Dangerous:
    """Object whose unpickling would run code."""

    def __reduce__(self):
        return (pytest.fail, ("pickled code was executed",))


def test_pickled_code_is_never_executed(tmp_path):
    file = tmp_path / "evil.pth"
    torch.save({"model": random_model(timm_spec()).state_dict(), "x": Dangerous()}, file)
    with pytest.raises(ModelError, match="contains Python objects, which could run code"):
        open_model(f"local:{file}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "Write timm:NAME, hf-hub:USER/NAME or local:PATH"),
        ("hf-hub:", "Write timm:NAME"),
        ("hf-hub:name", "'name' is not a repository of the Hub"),
        ("hf-hub:../../etc", "is not a repository of the Hub"),
        ("local:x.pth?colour=1", "'colour' is not an option of a model: choose heads"),
    ],
)
def test_unknown_addresses_are_refused(text, message):
    with pytest.raises(ModelError, match=message):
        create_model_run(text)


def test_wrong_options_and_label_files_are_refused(tmp_path):
    folder = write_checkpoint(tmp_path / "vit")
    (tmp_path / "short.txt").write_text("ant\nbee\n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00\xff")
    for options, message in (
        (f"labels={tmp_path / 'short.txt'}", "There are 2 labels, but the model has 5 outputs"),
        (f"labels={tmp_path / 'none.txt'}", "cannot be read: No such file"),
        (f"labels={tmp_path / 'binary.txt'}", "cannot be read: it is not UTF-8"),
        ("heads=x", "'heads=x' is not valid. Choose a whole number from 1 to 9,999."),
        ("size=4", "4 pixels are less than one patch of 8 pixels"),
        ("mean=a", "'mean' must be one or three numbers"),
        ("std=0", "'std' must be one or three numbers"),
        ("mean=1,2", "'mean' must be one or three numbers"),
        ("pool=max", "'pool=max' is not valid: choose token or avg"),
        ("act=tanh", "Unknown activation 'tanh'"),
        ("eps=0", "'eps=0' is not valid. Choose a number above 0."),
        ("crop=x", "'crop=x' is not valid. Choose a number above 0."),
        ("interpolation=best", "Unknown interpolation 'best'"),
    ):
        with pytest.raises(ModelError, match=message):
            open_model(f"local:{folder}?{options}")


def test_models_without_classifier_predict_no_classes(tmp_path):
    folder = write_checkpoint(tmp_path / "encoder")
    tensors = load_file(folder / "model.safetensors")
    body = {n.removeprefix("vit."): t for n, t in tensors.items() if n.startswith("vit.")}
    body |= {"pooler.dense.weight": torch.zeros(32, 32), "pooler.dense.bias": torch.zeros(32)}
    save_file(body, folder / "model.safetensors")
    damage(folder, architectures=["ViTModel"], id2label=None)
    run = open_model(f"local:{folder}")
    assert run.classes == ()
    assert "no classifier" in " ".join(run.notices)
    assert "not used: pooler (2 tensors)" in " ".join(run.notices)
    assert AppContext([], None, CPU, [run]).trace_image(run, noise()).attention.shape[0] == 2
    with pytest.raises(RunError, match="was not trained here"):
        _ = run.evaluation


def test_model_without_positions_needs_a_size(tmp_path):
    spec = timm_spec(pos_embed="none")
    save_file(random_model(spec).state_dict(), tmp_path / "none.safetensors")
    with pytest.raises(ModelError, match="input size is unknown"):
        open_model(f"local:{tmp_path / 'none.safetensors'}?heads=3")
    run = open_model(f"local:{tmp_path / 'none.safetensors'}?heads=3&size=40")
    assert predict(run, Image.new("RGB", (30, 30))).shape == (10,)


@pytest.mark.parametrize(
    ("changes", "outputs", "notice"),
    [
        ({"problem_type": "multi_label_classification"}, 5, "5 outputs (multi_label_classific"),
        ({"problem_type": "regression"}, 5, "5 outputs (regression)"),
        ({}, 1, "1 output (a number or one label)"),
    ],
)
def test_outputs_that_do_not_exclude_each_other_are_no_classes(changes, outputs, notice, tmp_path):
    folder = write_checkpoint(tmp_path / "vit")
    tensors = load_file(folder / "model.safetensors")
    head = {n: t[:outputs].clone() for n, t in tensors.items() if n.startswith("classifier")}
    save_file(tensors | head, folder / "model.safetensors")
    labels = dict(list(LABELS.items())[:outputs])
    damage(folder, id2label=labels, **changes)
    run = open_model(f"local:{folder}")
    assert run.classes == () and notice in " ".join(run.notices)
    assert AppContext([], None, CPU, [run]).trace_image(run, noise()).logits.shape == (32,)


def test_classifier_that_is_not_one_matrix_is_named(tmp_path):
    tensors = {
        f"backbone.{n}": t for n, t in random_model(timm_spec(), classes=0).state_dict().items()
    }
    tensors |= {"classifier.1.weight": torch.zeros(3, 48), "classifier.1.bias": torch.zeros(3)}
    save_file(tensors, tmp_path / "x.safetensors")
    run = open_model(f"local:{tmp_path / 'x.safetensors'}?heads=3")
    assert "not used: classifier (2 tensors)" in " ".join(run.notices)


def test_layer_between_body_and_classifier_is_refused(tmp_path):
    extra = {"pre_logits.fc.weight": torch.zeros(48, 48), "pre_logits.fc.bias": torch.zeros(48)}
    save_file(random_model(timm_spec()).state_dict() | extra, tmp_path / "x.safetensors")
    with pytest.raises(ModelError, match=r"unexpected: 'pre_logits\.fc"):
        open_model(f"local:{tmp_path / 'x.safetensors'}?heads=3")


def test_stated_pooling_activation_and_eps_give_the_models_logits(tmp_path):
    spec = timm_spec(
        global_pool="avg",
        fc_norm=False,
        norm_layer=partial(nn.LayerNorm, eps=1e-2),
        act_layer="quick_gelu",
    )
    model, file = random_model(spec).eval(), tmp_path / "x.safetensors"
    save_file(model.state_dict(), file)
    options = "heads=3&mean=0.5&std=0.5"
    run = open_model(f"local:{file}?{options}&pool=avg&act=quick_gelu&eps=1e-2")
    pixels = torch.rand(1, 3, 32, 32)
    with torch.no_grad():
        expected = model(pixels)
        assert torch.allclose(run.build()(pixels), expected, atol=1e-5)
        assumed = open_model(f"local:{file}?{options}").build()(pixels)
    assert not torch.allclose(assumed, expected, atol=1e-2)


_NUMBERS = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.25, 0.3]}
_CROPPED = [
    [-0.6471, -0.1569, 1.0784, 0.0392],
    [0.102, -0.5098, 0.1176, -0.149],
    [-0.3399, -0.4837, 0.3529, -0.7974],
]
PROCESSORS = {  # fields, values of transformers 5.24 for `noise(0, (40, 40))` at four points, and
    # a tolerance of two grey levels, because transformers rounds to 8 bits twice
    "DeiT": (
        {
            "image_processor_type": "DeiTImageProcessor",
            "size": {"height": 20, "width": 20},
            "crop_size": {"height": 16, "width": 16},
        }
        | _NUMBERS,
        _CROPPED,
        0.04,
    ),
    "DINOv2": (
        {
            "image_processor_type": "BitImageProcessor",
            "size": {"shortest_edge": 20},
            "crop_size": {"height": 16, "width": 16},
        }
        | _NUMBERS,
        _CROPPED,
        0.04,
    ),
    "ViT, pixels of 0 to 255": (
        {"size": {"height": 16, "width": 16}, "do_rescale": False} | _NUMBERS,
        [
            [853.0, 563.0, 643.0, 788.0],
            [470.0, 570.0, 498.0, 502.0],
            [428.0, 278.0, 504.6666, 418.0],
        ],
        10.0,
    ),
    "ViT, not normalised": (
        {"size": {"height": 16, "width": 16}, "do_normalize": False},
        [
            [0.6706, 0.4431, 0.5059, 0.6196],
            [0.4627, 0.5608, 0.4902, 0.4941],
            [0.5059, 0.3294, 0.5961, 0.4941],
        ],
        0.008,
    ),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_pixels_are_those_of_transformers_processors(name, tmp_path):
    fields, expected, tolerance = PROCESSORS[name]
    folder = write_checkpoint(tmp_path / "vit")
    (folder / "preprocessor_config.json").write_text(json.dumps(fields))
    run = open_model(f"local:{folder}?size=16")
    _, pixels = AppContext([], None, CPU, [run]).prepare_input(
        run.preprocessing, noise(0, (40, 40))
    )
    found = pixels[0][:, [0, 3, 8, 15], [0, 9, 4, 15]]
    assert torch.allclose(found, torch.tensor(expected), atol=tolerance, rtol=0)


def test_differences_and_defaults_of_a_processor_are_reported(tmp_path):
    folder = write_checkpoint(tmp_path / "vit")
    complete = {
        "image_processor_type": "ViTImageProcessor",
        "size": {"height": 32, "width": 32},
        "resample": 2,
        "image_mean": [0.5] * 3,
        "image_std": [0.25] * 3,
    }
    for changes, notice in (
        ({"do_rescale": False}, "multiplies pixels of 0 to 255 by 1"),
        ({"do_resize": False}, "does not resize"),
        ({"do_pad": True}, "The step 'do_pad' of the model's own preprocessing is unknown"),
        ({"resample": None}, "does not state resample: the defaults of transformers' ViTIm"),
        ({"size": {"shortest_edge": 32}}, "keeps the whole image"),
        (
            {"size": {"height": 64, "width": 64}},
            "resizes images to 64 pixels, but the position embeddings fit 32",
        ),
        ({"do_center_crop": True, "crop_size": 48}, "adds a margin"),
        ({"image_processor_type": "OwnProcessor"}, "processor 'OwnProcessor' is unknown"),
    ):
        (folder / "preprocessor_config.json").write_text(json.dumps(complete | changes))
        assert notice in " ".join(open_model(f"local:{folder}").notices)
    (folder / "preprocessor_config.json").write_text(json.dumps(complete | {"do_rescale": False}))
    run = open_model(f"local:{folder}")
    assert run.preprocessing.interpolation == "bilinear"
    assert np.allclose(run.preprocessing.mean, 0.5 / 255)
    damage(folder, hidden_act=None)
    config = json.loads((folder / "config.json").read_text())
    del config["hidden_act"]
    (folder / "config.json").write_text(json.dumps(config))
    assert "config.json does not state hidden_act" in " ".join(
        open_model(f"local:{folder}").notices
    )


def test_checkpoints_of_training_programs_are_opened(tmp_path):
    state = random_model(timm_spec(), classes=3).state_dict()
    content = {"arch": "x", "epoch": 3, "best_acc": np.float64(81.5), "n": np.int64(3)}
    prefixed = {f"model.{name}": tensor for name, tensor in state.items()}
    for name, tensors in (("model_best.pth.tar", state), ("last.ckpt", prefixed)):
        folder = tmp_path / name[:4]
        folder.mkdir()
        torch.save(content | {"state_dict": tensors}, folder / name)
        for place in (folder, folder / name):
            assert len(open_model(f"local:{place}?heads=3").classes) == 3


def write_npz(file):
    np.savez(file.with_suffix(".npz"), cls=np.zeros((1, 1, 768)))
    file.with_suffix(".npz").rename(file)


def write_adapter(file):
    name = "base_model.model.vit.encoder.layer.0.attention.attention.query.lora_A.weight"
    save_file({name: torch.zeros(4, 8)}, file)


def write_quantised(file):
    state = random_model(timm_spec()).state_dict()
    state["blocks.0.attn.qkv.weight"] = state["blocks.0.attn.qkv.weight"].to(torch.int8)
    save_file(state, file)


OTHER_FILES = {
    "npz": (write_npz, r"is a NumPy archive \(.npz\)"),
    "HDF5": (lambda file: file.write_bytes(b"\x89HDF\r\n"), "is an HDF5 file, as Keras writes"),
    "LoRA adapter": (write_adapter, "LoRA layers, which merge_and_unload.* must first merge"),
    "integers": (write_quantised, "'blocks.0.attn.qkv.weight' has numbers of type int8"),
}


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_kind_of_a_file_that_is_no_model_is_named(kind, tmp_path):
    write, message = OTHER_FILES[kind]
    write(tmp_path / "file")
    with pytest.raises(ModelError, match=message):
        open_model(f"local:{tmp_path / 'file'}?heads=3").load(CPU)


def test_moved_weights_are_reported_when_the_model_is_loaded(tmp_path):
    folder = write_checkpoint(tmp_path / "vit")
    run = open_model(f"local:{folder}")
    shutil.rmtree(folder)
    with pytest.raises(ModelError, match="does not exist"):
        AppContext([], None, CPU, [run]).load_model(run)
