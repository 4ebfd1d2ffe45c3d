"""timm models by name, with random weights because the tests download nothing."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save, save_file
from timm.data import create_transform, resolve_data_config
from timm.models import PretrainedCfg, get_pretrained_cfg

from benchmarks import timm_sweep
from tests.support.factories import make_run, noise
from tests.support.hub import serve_hub
from vitdemo.analyses.architecture import load_model_parts
from vitdemo.analyses.class_attribution import compute_class_attribution
from vitdemo.analyses.head_ablation import compute_head_effects
from vitdemo.cli import app
from vitdemo.context import AppContext
from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.errors import ModelError, RunError
from vitdemo.explain.attributions import integrated_gradients
from vitdemo.explain.logit_attribution import compute_logit_attribution
from vitdemo.explain.logit_lens import compute_logit_lens
from vitdemo.installation import included_folder
from vitdemo.models import patch_side
from vitdemo.page.explore import side_by_side
from vitdemo.publishing.maps_file import compute_all_maps
from vitdemo.runs import disambiguate_names, timm_run
from vitdemo.runs.timm_run import (
    MODEL_SUGGESTIONS,
    TimmRun,
    create_timm_run,
    download_weights,
    get_class_names,
)

CPU = torch.device("cpu")
IMAGE = noise(size=(70, 90))


def test_imagenet_class_names_and_local_weights_are_used(tmp_path):
    torch.manual_seed(0)
    model = timm.create_model("deit_tiny_patch16_224")
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    run = create_timm_run(f"timm:deit_tiny_patch16_224={tmp_path / 'weights.safetensors'}")
    loaded = AppContext([], None, CPU, [run]).load_model(run)
    assert torch.equal(loaded.head.weight, model.head.weight)
    assert run.classes[281] == "tabby, tabby cat"
    assert run.config["parameters"] == 5_717_416
    assert run.preprocessing.size == 224
    assert run.classes[134] == "crane (class 134)"  # the bird; class 517 is the machine
    assert run.classes[517] == "crane (class 517)"
    assert len(set(run.classes)) == 1000
    with pytest.raises(RunError, match="no evaluation"):
        _ = run.evaluation


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("deit_tiny_patch16_224", "Write timm:NAME"),
        ("timm:", "Write timm:NAME"),
        ("timm:nonsense", "timm has no model 'nonsense'"),
        ("timm:deit_tiny_patch16_224=nowhere.bin", "'nowhere.bin' does not exist"),
        ("timm:deit_tiny_patch16_224=/", "is a folder, not a weights file"),
        (
            "timm:vit_tiny_patch16_224.in12k",
            r"no weights 'in12k' for 'vit_tiny.*one of augreg_in21k",
        ),
        ("timm:deit_tiny_patch16_224.", "no weights '' for 'deit_tiny_patch16_224'"),
        ("timm:deit_tiny_patch16_224.a.b", "no weights 'a.b' for"),
        ("timm:vit_giant_patch14_224", "no pretrained weights for 'vit_giant_patch14_224'"),
        ("timm:resnet18", "Cannot explain ResNet"),
        ("timm:vit_base_patch16_siglip_224", "is not supported"),
    ],
)
def test_unsupported_models_and_weights_raise_model_errors(text, message):
    with pytest.raises(ModelError, match=message):
        create_timm_run(text)


CLASS_COUNTS = {  # name: number of labelled classes
    "vit_base_patch16_clip_224.openai": 0,  # its outputs are an embedding
    "vit_base_mci_224.apple_mclip": 0,
    "vitamin_small_224.datacomp1b_clip": 0,
    "vit_small_patch16_224.dino": 0,
    "vit_base_patch16_224.mae": 0,
    "vit_base_patch16_224.bamboo": 0,  # 115,217 classes whose names timm does not have
    "vit_base_patch16_clip_224.openai_ft_in1k": 1000,
    "vit_base_patch16_224_miil.in21k": 11221,
    "vit_tiny_patch16_224.augreg_in21k": 21843,
}


@pytest.mark.parametrize("name", CLASS_COUNTS)
def test_classes_are_those_of_a_classifier_with_known_labels(name):
    run = create_timm_run(f"timm:{name}", pretrained=False)
    assert len(run.classes) == len(set(run.classes)) == CLASS_COUNTS[name]


def test_class_names_are_the_label_descriptions_of_timm():
    config = PretrainedCfg(
        num_classes=2, label_names=("n1", "n2"), label_descriptions={"n1": "cat", "n2": "dog"}
    )
    assert get_class_names(config) == ("cat", "dog")
    assert get_class_names(PretrainedCfg(num_classes=2, label_names=("cat",))) == ()


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("vit_so400m_patch14_siglip_gap_384", 378),  # the whole patches of 14 px in 384 px
        ("vit_base_r50_s16_384", 384),  # a hybrid: its stem downsamples by 16
        ("vit_small_r26_s32_224", 224),
        ("vit_tiny_r_s16_p8_384", 384),
        ("vit_base_mci_224", 224),
        ("vit_base_patch14_dinov2", 224),  # not 518: 37 x 37 patches
    ],
)
def test_image_size_is_a_limited_number_of_whole_patches(name, size):
    assert create_timm_run(f"timm:{name}", pretrained=False).spec.image_size == size


def test_pixels_are_those_of_timms_transform():
    image = crop_visible_square(load_image(included_folder("photos") / "cat.jpg"))
    for name in ("deit_tiny_patch16_224.fb_in1k", "vit_small_patch16_224.dino"):
        run, config = create_timm_run(f"timm:{name}"), get_pretrained_cfg(name)
        transform = create_transform(**resolve_data_config(config.to_dict()), is_training=False)
        _, pixels = AppContext([], None, CPU, [run]).prepare_input(run.preprocessing, image)
        difference = (pixels[0] - transform(image)).abs() * torch.tensor(config.std)[:, None, None]
        assert difference.max() < 3 / 255, name  # timm rounds to 8 bits twice
        assert run.notices == ()


def test_weights_for_another_activation_are_reported():
    (notice,) = create_timm_run("timm:vit_base_patch16_clip_224.openai").notices
    assert "timm:vit_base_patch16_clip_quickgelu_224.openai" in notice
    assert create_timm_run("timm:vit_base_patch16_clip_quickgelu_224.openai").notices == ()
    (reduced,) = create_timm_run("timm:vit_base_patch14_dinov2").notices
    assert "reduced from 518 to 224 pixels" in reduced


def save_random_weights(path: Path, name: str = "test_vit", seed: int = 0, **options) -> Path:
    torch.manual_seed(seed)
    save_file(timm.create_model(name, **options).state_dict(), path)
    return path


MISMATCHED_WEIGHTS = {
    "classes": ({"num_classes": 10}, r"10 classes, not 1000; 'head.weight' has shape \(10, 64\)"),
    "no head": ({"num_classes": 0}, "missing: 'head.weight', 'head.bias'"),
    "depth": ({"depth": 3}, "a depth of 3, not 6; missing: 'blocks.3.norm1.weight', "),
    "width": ({"embed_dim": 96, "num_heads": 3}, "a width of 96, not 64; "),
    "patch size": ({"patch_size": 8}, "a patch size of 8 px, not 16; "),
    "image size": ({"img_size": (160, 96)}, r"'pos_embed' has shape \(1, 61, 64\), not "),
    "another model": ({"name": "resnet18"}, "no tensor name belongs to this model; "),
}


@pytest.mark.parametrize("kind", MISMATCHED_WEIGHTS)
def test_mismatched_local_weights_are_reported_with_the_reason(kind, tmp_path):
    options, reason = MISMATCHED_WEIGHTS[kind]
    run = create_timm_run(
        f"timm:test_vit={save_random_weights(tmp_path / 'own.safetensors', **options)}"
    )
    predictions, (problem,) = AppContext([], None, CPU, [run]).predict_all(IMAGE)
    assert predictions == []
    start = rf"The weights in '{tmp_path}/own.safetensors' are not of this model: "
    assert re.match(start + reason, problem)
    assert "network" not in problem and "--weights" not in problem
    assert (tmp_path / "own.safetensors").is_file()  # only a damaged download is deleted


def test_clip_weights_and_other_image_sizes_are_loaded(tmp_path):
    name = "vit_xsmall_patch16_clip_224"
    run = create_timm_run(
        f"timm:{name}={save_random_weights(tmp_path / 'tower.safetensors', name)}"
    )
    context = AppContext([], None, CPU, [run])
    assert context.load_model(run).num_classes == 0 and run.classes == ()
    assert context.trace_image(run, IMAGE).head_maps(1).shape[1:] == (14, 14)
    larger = save_random_weights(tmp_path / "larger.safetensors", img_size=320)
    run = create_timm_run(f"timm:test_vit={larger}")
    (prediction,), problems = AppContext([], None, CPU, [run]).predict_all(IMAGE)
    assert problems == [] and prediction.grid == (10, 10)


def list_names(context) -> list[str]:
    return [run.name for run in context.list_runs_and_models()[0] if isinstance(run, TimmRun)]


def test_models_with_the_same_name_get_their_file_as_suffix(tmp_path):
    texts = [
        f"timm:test_vit={save_random_weights(tmp_path / f'{n}.safetensors', seed=n)}"
        for n in (0, 1)
    ]
    timm_runs = [create_timm_run(text) for text in (texts[0], *texts)]
    run = make_run(tmp_path / "runs" / "timm:test_vit2")
    other = create_timm_run("timm:test_vit2", pretrained=False)
    context = AppContext([tmp_path / "runs"], None, CPU, [*timm_runs, other])
    names = list_names(context)
    second, third = f"timm:test_vit ({tmp_path}/1.safetensors)", "timm:test_vit2 (timm's weights)"
    assert names == ["timm:test_vit", second, third]
    assert [r.name for r in context.trained_runs()] == [*names, "timm:test_vit2"]
    assert context.find_run("timm:test_vit2").path == run.path
    heads = [context.load_model(context.find_run(name)).head.weight for name in names[:2]]
    assert not torch.equal(*heads)
    predictions, problems = context.predict_all(IMAGE)
    assert problems == [] and len({prediction.run.name for prediction in predictions}) == 4
    separate = [context.predict_all(IMAGE, [context.find_run(name)])[0][0] for name in names[:2]]
    for prediction, single in zip(predictions, separate, strict=False):
        assert np.array_equal(prediction.probabilities, single.probabilities)
    context.timm_models.remove(context.find_run(second), for_all=True)
    assert list_names(context) == ["timm:test_vit", third]


def test_runs_with_the_same_name_and_folder_are_numbered(tmp_path):
    run = make_run(tmp_path / "vit")
    names = [renamed.name for renamed in disambiguate_names([run, run, run])]
    assert names == ["vit", f"vit ({tmp_path})", f"vit ({tmp_path}, 2)"]


NARROW = {"embed_dim": 64, "num_heads": 2}
MODEL_VARIANTS = {  # kind: timm's name, options that make it small, image size
    "hybrid": ("vit_tiny_r_s16_p8_224", {}, 64),
    "stem, gated MLP": ("vitamin_small_224", {}, 32),
    "mobile stem": ("vit_base_mci_224", {}, 32),
    "registers, averaged": ("vit_wee_patch16_reg1_gap_256", NARROW, 48),
    "registers, no classes": ("vit_small_patch14_reg4_dinov2.lvd142m", NARROW, 42),
    "distilled": ("deit_tiny_distilled_patch16_224", NARROW, 48),
    "averaged, no class token": ("vit_medium_patch16_gap_240", NARROW, 48),
    "class token, averaged": ("deit_tiny_patch16_224", {"global_pool": "avg"}, 48),
    "SwiGLU": ("vit_giant_patch14_dinov2", {"embed_dim": 96, "num_heads": 2}, 28),
    "query and key norm": ("deit_tiny_patch16_224", {"qk_norm": True}, 48),
    "layer scale": ("deit3_small_patch16_224", NARROW, 48),
    "norm before the blocks": ("vit_base_patch32_clip_224.openai_ft_in1k", NARROW, 96),
    "RMSNorm, no biases": ("aimv2_large_patch14_224", NARROW, 28),
    "RMSNorm, classes": ("test_vit4", {}, 48),
    "one class more": ("vit_tiny_patch16_224.augreg_in21k", NARROW, 32),
    "odd size": ("vit_so400m_patch14_siglip_gap_384", NARROW, 70),
}


@pytest.mark.parametrize("kind", MODEL_VARIANTS)
def test_every_map_of_each_kind_of_model_works(kind, monkeypatch):
    # other tests check completeness
    monkeypatch.setattr(integrated_gradients, "INTEGRATION_STEPS", (4,))
    name, options, size = MODEL_VARIANTS[kind]
    run = create_timm_run(f"timm:{name}", pretrained=False)
    spec = replace(run.spec, image_size=size, options={"depth": 2, **options})
    run = replace(run, spec=spec, preprocessing=replace(run.preprocessing, size=size))
    patches, problems = timm_sweep.check_views(run)
    assert problems == []
    assert patches == f"{size // get_patch_side(run)} x {size // get_patch_side(run)}"


def get_patch_side(run) -> int:
    return patch_side(AppContext([], None, CPU, [run]).load_model(run))


UNLABELLED_MODEL = "timm:vit_small_patch14_reg4_dinov2.lvd142m"


@pytest.fixture(scope="module")
def labelless():
    run = create_timm_run(UNLABELLED_MODEL, pretrained=False)
    return run, AppContext([], None, CPU, [run])


def test_model_without_labels_has_maps_but_no_predictions(labelless):
    run, context = labelless
    assert run.classes == () and run.spec.image_size == 224  # not 518: 37 x 37 patches
    assert context.predict_all(IMAGE) == ([], [])
    assert context.predict(run, IMAGE).probabilities.shape == (0,)
    trace = context.trace_image(run, IMAGE)
    assert trace.head_maps(12).shape == (6, 16, 16)
    assert trace.prefix_names[1:] == tuple(f"register {i}" for i in (1, 2, 3, 4))
    arrays = compute_all_maps(context, run, IMAGE)
    assert sorted(arrays) == ["attention", "heads", "rollout", "seen"]
    assert "head" not in [part.kind for part in load_model_parts(context, run)]
    (rollout,), problems = side_by_side.compute_side_by_side(
        context, [run.name], IMAGE, depth=1.0, kind="rollout"
    )
    assert problems == [] and side_by_side.describe_map(rollout)["classes"] == []


NO_LABELS = "no classifier with known labels, so it predicts no classes"


def test_class_dependent_results_raise_run_error_without_labels(labelless):
    run, context = labelless
    model, trace = context.load_model(run), context.trace_image(run, IMAGE)
    for compute, arguments in (
        *(
            (compute, (context, run, IMAGE))
            for compute in (compute_head_effects, compute_class_attribution)
        ),
        *((compute, (model, trace)) for compute in (compute_logit_lens, compute_logit_attribution)),
    ):
        with pytest.raises(RunError, match=NO_LABELS):
            compute(*arguments)


def test_suggested_models_are_supported_and_preloaded_in_the_space():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    for suggestion in MODEL_SUGGESTIONS:
        run = create_timm_run(f"timm:{suggestion.name}")
        assert run.licence == "apache-2.0"
        assert f"\n  - timm/{suggestion.name} {timm_run.HUB_WEIGHTS_FILE}\n" in readme


def test_downloaded_weights_are_cached_and_deleted_if_damaged(monkeypatch, tmp_path):
    monkeypatch.setattr(timm_run, "HF_HOME", str(tmp_path))
    torch.manual_seed(0)
    model = timm.create_model("test_vit")
    run = create_timm_run("timm:test_vit.r160_in1k")
    assert run.find_downloaded() is None
    with serve_hub(monkeypatch, {"model.safetensors": save(model.state_dict())}) as requests:
        assert download_weights(run).weights == run.find_downloaded()
        assert download_weights(run).weights is None  # already downloaded
    assert [line for line in requests if line.startswith("GET")] == ["GET 0"]
    loaded = AppContext([], None, CPU, [run]).load_model(create_timm_run(run.name))
    assert torch.equal(loaded.head.weight, model.head.weight)
    run.find_downloaded().write_bytes(b"damaged on the way")
    with pytest.raises(ModelError):
        AppContext([], None, CPU, [run]).load_model(create_timm_run(run.name))
    assert run.find_downloaded() is None  # the next download starts over


def test_failed_download_suggests_a_local_weights_file(monkeypatch, tmp_path):
    monkeypatch.setattr(timm_run, "HF_HOME", str(tmp_path))
    with (
        serve_hub(monkeypatch, {}),
        pytest.raises(ModelError, match=r"404.*network, or use a local weights file: --mo"),
    ):
        download_weights(create_timm_run("timm:test_vit.r160_in1k"))


def test_app_reports_unknown_timm_models(monkeypatch, capsys):
    assert app.main(["--model", "timm:nonsense", "--device", "cpu"]) == 2
    assert "nonsense" in capsys.readouterr().err
    monkeypatch.setenv("VITDEMO_MODELS", "test_vit, timm:nonsense")
    assert app.main(["--device", "cpu"]) == 2
    assert "timm has no model 'nonsense'" in capsys.readouterr().err
