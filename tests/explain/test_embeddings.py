"""Position similarity and filters against numpy, on models of every kind."""

import numpy as np
import pytest
import torch

from tests.support.factories import RESNET, TIMM_KINDS, VIT, random_model
from vitdemo.explain import embeddings
from vitdemo.explain.forward_pass import trace


@pytest.mark.parametrize("spec", [VIT, *TIMM_KINDS.values()], ids=["ours", *TIMM_KINDS])
def test_position_similarity_equals_the_reference(spec):
    model = random_model(spec).double()
    similarity = embeddings.position_embedding_similarity(model)
    assert similarity.shape == (16, 16)  # only patches, no special tokens
    # timm's registers here have no position embedding; all other tokens have one.
    prefix = model.pos_embed.shape[1] - 16
    assert prefix == (0 if spec is TIMM_KINDS["registers"] else model.num_prefix_tokens)
    positions = model.pos_embed[0, prefix:].detach().numpy()
    lengths = np.linalg.norm(positions, axis=1)
    expected = positions @ positions.T / np.outer(lengths, lengths)
    assert np.allclose(similarity, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("spec", [VIT, RESNET], ids=["vit", "resnet"])
def test_filters_are_the_first_convolution_sorted_by_norm(spec):
    model = random_model(spec)
    weight = (model.patch_embed.proj if spec is VIT else model.conv1).weight.detach()
    filters = embeddings.get_first_filters(model)
    assert filters.shape == ((24, 3, 4, 4) if spec is VIT else (64, 3, 3, 3))
    assert not filters.requires_grad
    order = sorted(range(len(filters)), key=lambda k: -float(weight[k].norm()))
    assert torch.equal(filters, weight[order])


def test_filters_are_those_of_the_first_convolution_if_any():
    stem = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3), torch.nn.ReLU(), torch.nn.Conv2d(6, 9, 3))
    assert embeddings.get_first_filters(stem).shape == (6, 3, 3, 3)
    with pytest.raises(TypeError, match="Linear has no RGB convolution"):
        embeddings.get_first_filters(torch.nn.Linear(3, 3))


@pytest.mark.parametrize("count", [20, 200])
def test_principal_filters_equal_numpy_eigenvectors(count):
    weight = torch.randn(count, 3, 4, 4, generator=torch.Generator().manual_seed(0)).double()
    weight *= torch.linspace(1, 3, 48).view(3, 4, 4)  # so that no two variances are equal
    components, explained = embeddings.compute_filter_components(weight)
    values, vectors = np.linalg.eigh(np.cov(weight.flatten(1).numpy().T))  # smallest first
    rank = min(count - 1, 48)  # the mean takes one dimension
    assert components.shape == (min(count, 48), 3, 4, 4)
    assert np.allclose(explained[:rank], values[::-1][:rank] / values.sum())
    for component, vector in zip(components.flatten(1)[:rank], vectors.T[::-1], strict=False):
        assert abs(component.numpy() @ vector) == pytest.approx(1)
        assert component[component.abs().argmax()] > 0


def test_equal_filters_have_zero_explained_variance():
    _, explained = embeddings.compute_filter_components(torch.ones(5, 3, 2, 2))
    assert explained.tolist() == [0.0] * 5


def test_zero_weights_are_grey():
    weight = torch.zeros(2, 3, 2, 2)
    weight[0, 0, 0, 0], weight[0, 1, 1, 1] = -4.0, 2.0
    colours = embeddings.filters_to_colours(weight)
    assert colours[0, 0, 0, 0] == 0 and colours[0, 1, 1, 1] == 0.75
    assert (colours[1] == 0.5).all()


@pytest.mark.parametrize("spec", [VIT, *TIMM_KINDS.values()], ids=["ours", *TIMM_KINDS])
def test_projection_plus_position_equals_the_first_tokens(spec):
    model, images = random_model(spec), torch.randn(2, 3, spec.image_size, spec.image_size)
    with torch.no_grad():
        projected, position = embeddings.embed_patches(model, images)  # each (B, P, D)
        expected = trace(model, images).tokens[0, :, model.num_prefix_tokens :]
        assert torch.allclose(projected + position, expected, atol=1e-4)
        # The projection is one linear map of a patch's pixels.
        projection = model.patch_embed.proj
        height, width = projection.weight.shape[2:]
        patch = images[0, :, height : 2 * height, :width]  # row 1, column 0
        product = (projection.weight * patch).sum((1, 2, 3)) + projection.bias
        assert torch.allclose(projected[0, model.patch_embed.grid_size[1]], product, atol=1e-4)


def test_principal_components_match_their_explained_variance():
    vectors = torch.randn(16, 24, generator=torch.Generator().manual_seed(0))
    components, explained = embeddings.project_on_components(vectors, 3)
    assert components.shape == (3, 16)
    total = (vectors - vectors.mean(0)).square().sum()
    assert torch.allclose(components.square().sum(1), explained * total, rtol=1e-4)
    assert (explained.diff() <= 0).all() and explained.sum() <= 1
    assert (components.amax(1) >= -components.amin(1)).all()  # the largest value is positive
