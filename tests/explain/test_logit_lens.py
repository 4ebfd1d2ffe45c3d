"""The logit lens compared with truncated models and with the classifier head on one patch."""

import copy

import pytest
import torch
from torch.testing import assert_close

from tests.support.factories import TIMM_KINDS, VIT, random_images, random_model
from vitdemo.explain.forward_pass import trace
from vitdemo.explain.logit_lens import apply_logit_lens

MODELS = {"ours": VIT, **TIMM_KINDS}


def run_truncated_model(model, layers, images):
    """Return the class probabilities of a copy with only the first `layers` blocks."""
    model = copy.deepcopy(model)
    model.blocks = model.blocks[:layers]
    return model(images).softmax(dim=-1)


def reference_patch_probabilities(model, token):
    """Apply the mean of the classifier heads to a token (D,) and return probabilities (C,)."""
    x = model.norm(token)
    x = model.fc_norm(x) if hasattr(model, "fc_norm") else x
    heads = [model.head, getattr(model, "head_dist", model.head)]
    return (sum(head(x) for head in heads) / 2).softmax(0)


@pytest.mark.parametrize("kind", MODELS)
@torch.no_grad()
def test_predictions_equal_a_truncated_model_and_the_head_applied_to_a_patch(kind):
    model = random_model(MODELS[kind]).double()
    images = random_images(model)
    traced = trace(model, images)
    predictions, patches = apply_logit_lens(model, traced.tokens)
    assert len(predictions) == len(model.blocks) + 1
    for layers, prediction in enumerate(predictions):
        assert_close(prediction, run_truncated_model(model, layers, images), atol=1e-9, rtol=1e-9)
    assert_close(predictions[-1], traced.logits.softmax(-1), atol=1e-14, rtol=0)
    assert (predictions[0] - predictions[-1]).abs().max() > 0.05  # the blocks change the prediction
    tokens, p = traced.tokens, model.num_prefix_tokens
    assert patches.shape == (*tokens.shape[:2], tokens.shape[2] - p, model.num_classes)
    for layer, image, patch in [(0, 0, 0), (1, 1, 5), (len(tokens) - 1, 0, 15)]:
        expected = reference_patch_probabilities(model, tokens[layer, image, p + patch])
        assert_close(patches[layer, image, patch], expected, atol=1e-9, rtol=1e-9)
