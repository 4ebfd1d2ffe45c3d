"""Models of timm's by name: with random weights here, since nothing is downloaded in a test."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save, save_file
from timm.models import PretrainedCfg

import app
from benchmarks import timm_sweep
from tests.hub import hub
from tests.making import make_run
from vitdemo import attributions, timm_models
from vitdemo.class_maps import maps
from vitdemo.errors import ModelError, RunError
from vitdemo.export import all_maps
from vitdemo.inside.diagram import diagram
from vitdemo.inside.head_ablation import head_effects
from vitdemo.inside.logit_lens import logit_lens
from vitdemo.inside.residual_stream import residual_stream
from vitdemo.models import patch_side
from vitdemo.page.look import side
from vitdemo.runs import told_apart
from vitdemo.timm_models import (
    SUGGESTIONS,
    class_names,
    download,
    known_weights,
    licence,
    timm_run,
)
from vitdemo.workbench import Workbench

CPU = torch.device("cpu")
KINDS = {  # name: grid, prefix tokens, classes
    "deit_tiny_patch16_224": ((14, 14), 1, 1000),
    "deit_tiny_distilled_patch16_224": ((14, 14), 2, 1000),
    "vit_wee_patch16_reg1_gap_256": ((16, 16), 1, 1000),  # a register, and the patches' average
    "vit_base_patch32_clip_224.openai_ft_in12k_in1k": ((7, 7), 1, 1000),
    "vit_medium_patch16_gap_240": ((15, 15), 0, 11821),
}


def picture() -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (90, 70, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    run = timm_run(f"timm:{request.param}", pretrained=False)
    return request.param, run, Workbench([], None, CPU, [run])


def test_each_kind_answers_and_shows_its_maps(kind):
    name, run, workbench = kind
    grid, prefix, classes = KINDS[name]
    (answer,), problems = workbench.answers(picture())
    assert problems == []
    assert answer.grid == grid
    assert answer.probabilities.shape == (classes,)
    look = workbench.look(run, picture())
    assert look.num_prefix_tokens == prefix
    rolled = look.rollout_map(2, fusion="mean", discard_ratio=0.0)
    assert rolled.shape == grid
    assert np.isfinite(rolled).all()
    P = grid[0] * grid[1]
    # Where the patches answer, a register does not; each of two heads reads a token of its own.
    readers = slice(-P, None) if "gap" in name else slice(2 if "distilled" in name else 1)
    wanted = look.attention[0, :, readers, -P:].mean(1).reshape(-1, *grid)
    assert np.allclose(look.head_maps(1), wanted, atol=1e-7)


def test_imagenets_classes_have_their_names_and_a_local_file_of_weights_is_used(tmp_path):
    torch.manual_seed(0)
    model = timm.create_model("deit_tiny_patch16_224")
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    run = timm_run(f"timm:deit_tiny_patch16_224={tmp_path / 'weights.safetensors'}")
    loaded = Workbench([], None, CPU, [run]).model(run)
    assert torch.equal(loaded.head.weight, model.head.weight)
    assert run.classes[281] == "tabby, tabby cat"
    assert run.config["parameters"] == 5_717_416
    assert run.preprocessing.size == 224
    assert run.classes[134] == "crane (class 134)"  # the bird; the machine has the name as well
    assert run.classes[517] == "crane (class 517)"
    assert len(set(run.classes)) == 1000
    with pytest.raises(RunError, match="no evaluation"):
        _ = run.evaluation


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("deit_tiny_patch16_224", "of the form timm:NAME"),
        ("timm:", "of the form timm:NAME"),
        ("timm:nonsense", "timm has no model 'nonsense'"),
        ("timm:deit_tiny_patch16_224=nowhere.bin", "'nowhere.bin' does not exist"),
        ("timm:deit_tiny_patch16_224=/", "does not exist. It is a folder"),
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
def test_what_cannot_be_shown_is_refused_in_a_sentence(text, words):
    with pytest.raises(ModelError, match=words):
        timm_run(text)


LABELS = {  # name: how many labelled classes
    "vit_base_patch16_clip_224.openai": 0,  # 512 numbers of an embedding
    "vit_base_patch32_clip_224.laion2b": 0,
    "vit_large_patch14_clip_quickgelu_224.dfn2b": 0,
    "vit_base_mci_224.apple_mclip": 0,
    "vitamin_small_224.datacomp1b_clip": 0,
    "vit_base_patch16_siglip_gap_224.webli": 0,
    "vit_small_patch16_224.dino": 0,
    "vit_base_patch16_224.mae": 0,
    "vit_base_patch16_224.bamboo": 0,  # 115,217 classes whose names timm does not have
    "vit_base_patch16_clip_224.openai_ft_in1k": 1000,
    "vit_base_patch16_224_miil.in21k": 11221,
    "vit_tiny_patch16_224.augreg_in21k": 21843,
}


@pytest.mark.parametrize("name", LABELS)
def test_classes_are_those_of_a_classifier_with_known_labels(name):
    run = timm_run(f"timm:{name}", pretrained=False)
    assert len(run.classes) == len(set(run.classes)) == LABELS[name]


def test_labels_that_timm_describes_are_the_classes():
    config = PretrainedCfg(
        num_classes=2, label_names=("n1", "n2"), label_descriptions={"n1": "cat", "n2": "dog"}
    )
    assert class_names(config) == ("cat", "dog")
    assert class_names(PretrainedCfg(num_classes=2, label_names=("cat",))) == ()


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("vit_so400m_patch14_siglip_gap_384", 378),  # as many patches of 14 as 384 pixels have
        ("vit_base_r50_s16_384", 384),  # a hybrid: its stem has scaled by 16 before
        ("vit_small_r26_s32_224", 224),
        ("vit_tiny_r_s16_p8_384", 384),
        ("vit_base_mci_224", 224),
        ("vit_base_patch14_dinov2", 224),  # not 518: 37 x 37 patches
    ],
)
def test_an_image_is_whole_patches_and_not_too_many(name, size):
    assert timm_run(f"timm:{name}", pretrained=False).spec.image_size == size


def made(path: Path, name: str = "test_vit", seed: int = 0, **options) -> Path:
    torch.manual_seed(seed)
    save_file(timm.create_model(name, **options).state_dict(), path)
    return path


NOT_OF_IT = {
    "classes": ({"num_classes": 10}, r"10 classes, not 1000; 'head.weight' has shape \(10, 64\)"),
    "no head": ({"num_classes": 0}, "missing: 'head.weight', 'head.bias'"),
    "depth": ({"depth": 3}, "a depth of 3, not 6; missing: 'blocks.3.norm1.weight', "),
    "width": ({"embed_dim": 96, "num_heads": 3}, "a width of 96, not 64; "),
    "patch size": ({"patch_size": 8}, "a patch size of 8 px, not 16; "),
    "image size": ({"img_size": (160, 96)}, r"'pos_embed' has shape \(1, 61, 64\), not "),
    "another model": ({"name": "resnet18"}, "no tensor has a name of this model; "),
}


@pytest.mark.parametrize("kind", NOT_OF_IT)
def test_a_local_file_that_does_not_fit_is_told_why(kind, tmp_path):
    options, words = NOT_OF_IT[kind]
    run = timm_run(f"timm:test_vit={made(tmp_path / 'own.safetensors', **options)}")
    answers, (problem,) = Workbench([], None, CPU, [run]).answers(picture())
    assert answers == []
    start = rf"The weights in '{tmp_path}/own.safetensors' are not of this model: "
    assert re.match(start + words, problem)
    assert "network" not in problem and "--weights" not in problem
    assert (tmp_path / "own.safetensors").is_file()  # only a damaged download is deleted


def test_the_files_of_a_clip_tower_and_of_another_image_size_fit(tmp_path):
    tower = "vit_xsmall_patch16_clip_224"
    run = timm_run(f"timm:{tower}={made(tmp_path / 'tower.safetensors', tower)}")
    workbench = Workbench([], None, CPU, [run])
    assert workbench.model(run).num_classes == 0 and run.classes == ()
    assert workbench.look(run, picture()).head_maps(1).shape[1:] == (14, 14)
    larger = made(tmp_path / "larger.safetensors", img_size=320)
    run = timm_run(f"timm:test_vit={larger}")
    (answer,), problems = Workbench([], None, CPU, [run]).answers(picture())
    assert problems == [] and answer.grid == (10, 10)


def test_models_of_one_name_are_told_apart_by_their_files(tmp_path):
    texts = [f"timm:test_vit={made(tmp_path / f'{n}.safetensors', seed=n)}" for n in (0, 1)]
    twice = [timm_run(text) for text in (texts[0], *texts)]
    run = make_run(tmp_path / "runs" / "timm:test_vit2")
    other = timm_run("timm:test_vit2", pretrained=False)
    workbench = Workbench([tmp_path / "runs"], None, CPU, [*twice, other])
    names = [model.name for model in workbench.timm_models]
    second, third = f"timm:test_vit ({tmp_path}/1.safetensors)", "timm:test_vit2 (timm's weights)"
    assert names == ["timm:test_vit", second, third]
    assert [r.name for r in workbench.trained_runs()] == [*names, "timm:test_vit2"]
    assert workbench.run("timm:test_vit2").path == run.path
    heads = [workbench.model(workbench.run(name)).head.weight for name in names[:2]]
    assert not torch.equal(*heads)
    answers, problems = workbench.answers(picture())
    assert problems == [] and len({answer.run.name for answer in answers}) == 4
    alone = [workbench.answers(picture(), [workbench.run(name)])[0][0] for name in names[:2]]
    for answer, own in zip(answers, alone, strict=False):
        assert np.array_equal(answer.probabilities, own.probabilities)
    workbench.remove(second, for_all=True)
    assert [model.name for model in workbench.timm_models] == ["timm:test_vit", third]


def test_runs_of_one_name_and_place_are_numbered(tmp_path):
    run = make_run(tmp_path / "vit")
    names = [each.name for each in told_apart([run, run, run])]
    assert names == ["vit", f"vit ({tmp_path})", f"vit ({tmp_path}, 2)"]


SWEPT = {  # what differs -> timm's name, options that make it small, pixels
    "hybrid": ("vit_tiny_r_s16_p8_224", {}, 64),
    "stem, gated MLP": ("vitamin_small_224", {}, 32),
    "mobile stem": ("vit_base_mci_224", {}, 32),
    "registers, averaged": ("vit_wee_patch16_reg1_gap_256", {}, 48),
    "registers, no classes": ("vit_small_patch14_reg4_dinov2.lvd142m", {}, 42),
    "distilled": ("deit_tiny_distilled_patch16_224", {}, 48),
    "averaged, no class token": ("vit_medium_patch16_gap_240", {}, 48),
    "class token, averaged": ("deit_tiny_patch16_224", {"global_pool": "avg"}, 48),
    "SwiGLU": ("vit_giant_patch14_dinov2", {"embed_dim": 96, "num_heads": 2}, 28),
    "query and key norm": ("deit_tiny_patch16_224", {"qk_norm": True}, 48),
    "layer scale": ("deit3_small_patch16_224", {}, 48),
    "norm before the blocks": ("vit_base_patch32_clip_224.openai_ft_in1k", {}, 96),
    "RMSNorm, no biases": ("aimv2_large_patch14_224", {"embed_dim": 64, "num_heads": 2}, 28),
    "RMSNorm, classes": ("test_vit4", {}, 48),
    "one class more": ("vit_tiny_patch16_224.augreg_in21k", {}, 32),
    "odd size": ("vit_so400m_patch14_siglip_gap_384", {"embed_dim": 64, "num_heads": 2}, 70),
}


@pytest.mark.parametrize("kind", SWEPT)
def test_every_map_of_each_kind_of_model_works(kind, monkeypatch):
    monkeypatch.setattr(attributions, "STEPS", (4,))  # the sum matters in its own test
    name, options, size = SWEPT[kind]
    run = timm_run(f"timm:{name}", pretrained=False)
    spec = replace(run.spec, image_size=size, options={"depth": 2, **options})
    run = replace(run, spec=spec, preprocessing=replace(run.preprocessing, size=size))
    patches, refused = timm_sweep.check_run(run)
    assert refused == []
    assert patches == f"{size // side_of(run)} x {size // side_of(run)}"


def side_of(run) -> int:
    return patch_side(Workbench([], None, CPU, [run]).model(run))


LABELLESS = "timm:vit_small_patch14_reg4_dinov2.lvd142m"


@pytest.fixture(scope="module")
def labelless():
    run = timm_run(LABELLESS, pretrained=False)
    return run, Workbench([], None, CPU, [run])


def test_a_model_without_labels_has_maps_but_no_answer(labelless):
    run, workbench = labelless
    assert run.classes == () and run.spec.image_size == 224  # not 518: 37 x 37 patches
    assert workbench.answers(picture()) == ([], [])
    assert workbench.answer(run, picture()).probabilities.shape == (0,)
    look = workbench.look(run, picture())
    assert look.head_maps(12).shape == (6, 16, 16)
    assert look.prefix_names[1:] == tuple(f"register {i}" for i in (1, 2, 3, 4))
    arrays = all_maps(workbench, run, picture())
    assert sorted(arrays) == ["attention", "heads", "rollout", "seen"]
    assert "head" not in [part.kind for part in diagram(workbench, run)]
    panels, problems = side.side_by_side(
        workbench, [run.name], picture(), depth=1.0, kind="rollout"
    )
    assert problems == [] and panels[0].lines == ["no classes (no classifier with known labels)"]


@pytest.mark.parametrize("ask", [logit_lens, residual_stream, head_effects, maps])
def test_what_needs_a_class_says_that_there_is_none(labelless, ask):
    run, workbench = labelless
    with pytest.raises(
        RunError, match="no classifier with known labels, so it predicts no classes"
    ):
        ask(workbench, run, picture())


def test_each_suggestion_can_be_shown_and_is_there_when_a_space_starts():
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    for suggestion in SUGGESTIONS:
        run = timm_run(f"timm:{suggestion.name}")
        assert licence(run) == "apache-2.0"
        assert f"\n  - timm/{suggestion.name} {timm_models.WEIGHTS}\n" in readme


def test_a_download_is_used_and_stays_for_the_next_process(monkeypatch, tmp_path):
    monkeypatch.setattr(timm_models, "HF_HOME", str(tmp_path))
    torch.manual_seed(0)
    model = timm.create_model("test_vit")
    run = timm_run("timm:test_vit.r160_in1k")
    assert known_weights(run) is None
    with hub(monkeypatch, {"model.safetensors": save(model.state_dict())}) as asked:
        assert download(run).weights == known_weights(run)
        assert download(run).weights is None  # there is nothing left to fetch
    assert [line for line in asked if line.startswith("GET")] == ["GET 0"]
    loaded = Workbench([], None, CPU, [run]).model(timm_run(run.name))
    assert torch.equal(loaded.head.weight, model.head.weight)
    known_weights(run).write_bytes(b"damaged on the way")
    with pytest.raises(ModelError):
        Workbench([], None, CPU, [run]).model(timm_run(run.name))
    assert known_weights(run) is None  # the next one begins anew


def test_without_a_network_the_way_out_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(timm_models, "HF_HOME", str(tmp_path))
    with (
        hub(monkeypatch, {}),
        pytest.raises(ModelError, match=r"404.*network, or use a local weights file: --mo"),
    ):
        download(timm_run("timm:test_vit.r160_in1k"))


def test_a_model_is_added_for_all_or_for_one_visit():
    who = ["a"]
    workbench = Workbench([], None, CPU, visitor=lambda: who[0])
    one, two = (timm_run(f"timm:{name}", pretrained=False) for name in ("test_vit", "test_vit2"))
    workbench.add(one, for_all=True)
    workbench.add(two, for_all=False)
    workbench.add(two, for_all=False)
    assert workbench.timm_models == (one, two)
    who[0] = "b"
    assert workbench.timm_models == (one,)
    assert workbench.is_removable(one.name, for_all=True)
    assert not workbench.is_removable(one.name, for_all=False)
    workbench.remove(two.name, for_all=False)
    workbench.remove(one.name, for_all=True)
    assert workbench.timm_models == ()
    who[0] = "a"
    assert workbench.timm_models == (two,)
    assert workbench.is_removable(two.name, for_all=False)
    who[0] = "b"
    workbench.add(two, for_all=True)
    who[0] = "a"
    assert workbench.timm_models == (two,)  # once
    who[0] = None  # nobody in particular: neither all, nor anybody
    assert not workbench.is_removable(two.name, for_all=False)
    for change in (workbench.add, workbench.remove):
        with pytest.raises(RunError, match="needs a browser session"):
            change(two if change == workbench.add else two.name, for_all=False)
    assert workbench.timm_models == (two,)


def test_a_model_that_timm_lacks_is_told_where_it_was_named(monkeypatch, capsys):
    assert app.main(["--model", "timm:nonsense", "--device", "cpu"]) == 2
    assert "nonsense" in capsys.readouterr().err
    monkeypatch.setenv("VITDEMO_MODELS", "test_vit, timm:nonsense")
    assert app.main(["--device", "cpu"]) == 2
    assert "timm has no model 'nonsense'" in capsys.readouterr().err
