"""Export of all maps of an image in one file, and the README in it."""

import re

import numpy as np
import pytest
import torch

from tests.support.factories import noise
from vitdemo.errors import RunError
from vitdemo.explain import attention, attributions, forward_pass
from vitdemo.publishing.maps_file import (
    ARRAY_DESCRIPTIONS,
    README_FILE,
    compute_all_maps,
    save_maps,
)


def test_exported_maps_equal_the_model(shown):
    run, image = shown.find_run("vit"), noise()
    maps = compute_all_maps(shown, run, image)
    _, pixels = shown.prepare_input(run.preprocessing, image)
    with torch.no_grad():
        trace = forward_pass.trace(shown.load_model(run), pixels)
    assert np.allclose(maps["attention"], trace.attention[:, 0], atol=1e-6)
    assert np.allclose(maps["heads"][2, 1], trace.attention[2, 0, 1, 0, 1:].reshape(4, 4))
    rollout = attention.rollout(trace.attention)[0, 0, 1:].reshape(4, 4)
    assert np.allclose(maps["rollout"][-1], rollout, atol=1e-6)
    target = int(trace.logits.argmax())
    relevance = attention.relevance(shown.load_model(run), pixels, target)[0, 0, 1:].reshape(4, 4)
    assert np.allclose(maps["relevance"], relevance, atol=1e-6)
    values = attributions.attribute("attnlrp", shown.load_model(run), pixels, target)[0]
    assert np.allclose(maps["attnlrp"], values, atol=1e-6)
    assert maps["class_index"] == target
    assert maps["probabilities"].sum() == pytest.approx(1, abs=1e-5)


def test_readme_of_the_export_matches_its_arrays(shown, tmp_path):
    with np.load(save_maps(shown, "vit", noise(), tmp_path)) as maps:
        readme = maps[README_FILE].decode()
        shapes = dict(re.findall(r"maps\['(\w+)'\].*: (\(.*\))$", readme, re.MULTILINE))
        assert set(shapes) == set(ARRAY_DESCRIPTIONS) == set(maps.files) - {README_FILE}
        assert {name: str(maps[name].shape) for name in shapes} == shapes
    assert "the model 'vit'" in readme


def test_export_of_a_resnet_raises_an_error(shown, tmp_path):
    with pytest.raises(RunError, match="is not a Vision Transformer"):
        save_maps(shown, "resnet", noise(), tmp_path)
