"""Diagram of a model: its parts sum to the whole model and have the configured sizes."""

import copy

import numpy as np
import pytest
import torch

from tests.support.factories import (
    TIMM,
    TIMM_KINDS,
    VIT,
    make_context,
    make_run,
    random_model,
    timm_spec,
)
from vitdemo.analyses.architecture import list_model_parts
from vitdemo.models import ModelSpec, count_macs, count_parameters
from vitdemo.page.bridge import load_trace
from vitdemo.page.explore.inside import architecture, layer_by_layer
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.view_state import ViewState

MODELS = {
    "ours": VIT,
    "conv stem": ModelSpec("vit", 16, options=VIT.options | {"stem": "conv", "patch_size": 4}),
    "layer scale": timm_spec(init_values=0.3, qk_norm=True),
    "convnet": ModelSpec("convnet", 32),
    "resnet": ModelSpec("resnet18", 32),
    **TIMM_KINDS,
}


@pytest.mark.parametrize("kind", MODELS)
def test_parameters_and_macs_of_parts_sum_to_the_model(kind):
    spec = MODELS[kind]
    model = random_model(spec).train()
    before = copy.deepcopy(model.state_dict())
    parts = list_model_parts(model, spec.image_size)
    assert model.training
    torch.testing.assert_close(model.state_dict(), before, atol=0, rtol=0)
    assert sum(part.parameters for part in parts) == count_parameters(model)
    assert sum(part.macs for part in parts) == count_macs(model, spec.image_size) > 0


def test_part_sizes_match_the_model():
    options = {"patch_size": 4, "embed_dim": 24, "depth": 3, "num_heads": 2, "mlp_ratio": 2.0}
    model = random_model(ModelSpec("vit", 16, options=options))
    parts = {part.kind: part for part in list_model_parts(model, 16)}
    assert list(parts) == ["patches", "tokens", "attention", "mlp", "norm", "head"]
    assert parts["patches"].sizes == dict(image=16, side=4, rows=4, columns=4, width=24)
    assert parts["tokens"].sizes == dict(prefix=("class token",), patches=16, tokens=17)
    assert parts["attention"].sizes == dict(heads=2, size=12, tokens=17)
    assert parts["mlp"].sizes == dict(width=24, hidden=48)
    assert parts["attention"].repeats == parts["mlp"].repeats == 3
    projections, products = 4 * 17 * 24 * 24, 2 * 17 * 17 * 24
    assert parts["attention"].macs == 3 * (projections + products)
    assert parts["head"].sizes["answer"] == "the class token"


def test_diagram_describes_the_convolutions_of_a_model():
    model = random_model(ModelSpec("convnet", 32, options={"widths": (8, 16, 24)}))
    parts = {part.sizes["name"]: part for part in list_model_parts(model, 32)}
    assert list(parts) == ["whiten", "groups.0", "groups.1", "groups.2", "head"]
    sizes = [{k: v for k, v in part.sizes.items() if k != "type"} for part in parts.values()]
    shape = dict(count=1, side=2, before=3, after=24, is_frozen=True)
    assert sizes[0] == dict(name="whiten", **shape)
    shape = dict(count=2, side=3, before=8, after=16, is_frozen=False)
    assert sizes[2] == dict(name="groups.1", **shape)
    assert sizes[-1] == dict(name="head", before=24, after=10)
    # Two convolutions at half the side: 8 to 16 channels before the pooling, then 16 to 16.
    assert parts["groups.1"].macs == 9 * (8 * 16 * 15 * 15 + 16 * 16 * 7 * 7)


def test_steps_of_a_transformer_are_those_of_its_trace(shown):
    state = ViewState(ImageRequest("photo:cat"), "vit")
    found, trace = architecture.payload(shown, state), load_trace(shown, state)
    steps, L = found["steps"], trace.num_layers
    assert steps["grid"] == list(trace.grid) == [4, 4]
    np.testing.assert_allclose(steps["maps"][0], trace.head_maps(1).mean(0), atol=1e-5)
    norms = trace.tokens[0, 1:].norm(dim=-1).reshape(4, 4)
    np.testing.assert_allclose(steps["norms"], norms, atol=1e-4)
    attribution = layer_by_layer.payload(shown, state)["stream"]
    heads = np.array(attribution["heads"][0]).sum(-1)  # of the predicted class
    expected = heads + attribution["bias"][0] + np.array(attribution["mlps"][0])
    np.testing.assert_allclose(steps["contributions"], expected, atol=1e-4)
    probabilities = trace.logits.softmax(0)
    (name, share), *_ = found["answers"]
    assert share == pytest.approx(float(probabilities.max()), abs=1e-4)
    assert steps["probabilities"][-1] == pytest.approx(share, abs=1e-4)
    assert (len(steps["probabilities"]), name) == (L, trace.run.classes[probabilities.argmax()])
    assert np.array_equal(found["seen"].pixels, trace.input_image)


def test_model_without_classes_has_steps_but_no_prediction(tmp_path):
    make_run(tmp_path / "backbone", TIMM, classes=())
    state = ViewState(ImageRequest("photo:cat"), "backbone")
    found = architecture.payload(make_context(tmp_path), state)
    assert found["answers"] == found["steps"]["probabilities"] == []
    assert found["steps"]["contributions"] == [] and len(found["steps"]["maps"]) == 2


def test_convolutional_model_has_a_prediction_but_no_steps(shown):
    found = architecture.payload(shown, ViewState(ImageRequest("photo:cat"), "resnet"))
    assert found["steps"] is None and len(found["answers"]) == 3
    assert found["parts"][0]["kind"] == "convolutions"
