"""Functions of tensors can be recorded as graphs, which a browser runs without Python."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

from tests.support.factories import VIT, random_images, random_model
from vitdemo.explain.attention import relevance
from vitdemo.explain.forward_pass import run_forward


def test_recorded_relevance_holds_for_other_images_and_classes():
    model = random_model(VIT).requires_grad_(False)
    first, second = (random_images(model, batch=1, seed=seed) for seed in range(2))
    graph = make_fx(lambda images, target: relevance(model, images, target))(
        first, torch.tensor([1])
    )
    for images, target in ((first, torch.tensor([1])), (second, torch.tensor([3]))):
        assert_close(graph(images, target), relevance(model, images, target), rtol=0, atol=1e-6)


def test_recorded_forward_pass_gives_logits_and_attention():
    model = random_model(VIT).requires_grad_(False)

    def compute(images):
        found = run_forward(model, images)
        return found.logits, *found.attention

    first, second = (random_images(model, batch=1, seed=seed) for seed in range(2))
    assert_close(make_fx(compute)(first)(second), compute(second), rtol=0, atol=1e-6)
