"""Opened models serve as backbones of custom classes."""

import numpy as np
import pytest
import torch

from tests.runs.test_opened_model import write_timm_model
from tests.support.factories import RESNET, TIMM_KINDS, make_run
from tests.support.foreign_checkpoints import write_checkpoint
from tests.test_custom_classes import make_collection
from vitdemo.context import AppContext
from vitdemo.custom_classes import classify_image, fit_linear_probe, write_probe_run
from vitdemo.page import bridge
from vitdemo.page.custom_classes import models
from vitdemo.page.custom_classes.session import CustomClassesSession
from vitdemo.page.state_keys import BACKBONE
from vitdemo.runs.opened_model import open_model

CPU = torch.device("cpu")
WRITERS = {
    "timm": write_timm_model,
    "timm, no classifier": lambda folder: write_timm_model(folder, classes=()),
    "timm, distilled": lambda folder: write_timm_model(folder, TIMM_KINDS["distilled"]),
    "transformers, resized": lambda folder: write_checkpoint(folder, "deit", teacher=True),
    "transformers, two inputs of the classifier": lambda folder: write_checkpoint(folder, "dinov2"),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_opened_model_is_offered_and_its_classifier_is_a_run(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("vitdemo.custom_classes.INVERSE_REGULARISATIONS", [1])
    WRITERS[kind](tmp_path / "opened")
    base = open_model(f"local:{tmp_path / 'opened'}" + ("?size=48" if "resized" in kind else ""))
    make_run(tmp_path / "runs" / "resnet", RESNET)
    context = AppContext([tmp_path / "runs"], None, CPU, [base])

    state = bridge.parse_view_state({"model": base.name, "image": None})
    found = models.payload(CustomClassesSession, None, context, state)
    menu = found.controls[BACKBONE.name]
    assert menu["value"] == base.name and "resnet" not in str(menu)

    collection = make_collection("mug", "cup")
    probe = fit_linear_probe(context, base, collection)
    write_probe_run(context, probe, tmp_path / "own" / "mugs")
    reloaded = AppContext([tmp_path / "own"], None, CPU)
    for square in collection.list_squares()[::4]:
        prediction = reloaded.predict(reloaded.find_run("mugs"), square)
        np.testing.assert_allclose(
            prediction.probabilities,
            classify_image(context, probe, square).probabilities,
            atol=0.02,
        )
        assert reloaded.trace_image(prediction.run, square).num_layers == context.count_layers(base)
