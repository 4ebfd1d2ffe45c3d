"""Models of timm's by name: with random weights here, since nothing is downloaded in a test."""

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save, save_file

import app
from tests.hub import hub
from vitdemo import timm_models
from vitdemo.class_maps import maps
from vitdemo.errors import ModelError, RunError
from vitdemo.export import all_maps
from vitdemo.inside.diagram import diagram
from vitdemo.inside.head_ablation import head_effects
from vitdemo.inside.logit_lens import logit_lens
from vitdemo.inside.residual_stream import residual_stream
from vitdemo.page.look import side
from vitdemo.timm_models import SUGGESTIONS, download, known_weights, licence, timm_run
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
        ("timm:resnet18", "Cannot explain ResNet"),
        ("timm:vit_base_patch16_siglip_224", "cannot be shown"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_sentence(text, words):
    with pytest.raises(ModelError, match=words):
        timm_run(text)


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
    with pytest.raises(RunError, match="no classifier with known labels, so it predicts no classes"):
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
    with hub(monkeypatch, {}), pytest.raises(ModelError, match=r"404.*network, or start with --mo"):
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
        with pytest.raises(RunError, match="Nobody is here"):
            change(two if change == workbench.add else two.name, for_all=False)
    assert workbench.timm_models == (two,)


def test_a_model_that_timm_lacks_is_told_where_it_was_named(monkeypatch, capsys):
    assert app.main(["--model", "timm:nonsense", "--device", "cpu"]) == 2
    assert "nonsense" in capsys.readouterr().err
    monkeypatch.setenv("VITDEMO_MODELS", "test_vit, timm:nonsense")
    assert app.main(["--device", "cpu"]) == 2
    assert "timm has no model 'nonsense'" in capsys.readouterr().err
