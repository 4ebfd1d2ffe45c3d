"""Functions of tensors can be recorded as graphs, which a browser runs without Python.

Each function is recorded with one image and compared with the plain call on another image. Options
of the page that are tensors, such as class and masks, also differ between the two calls.
"""

from functools import partial

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

from tests.support.factories import CONVNET, VIT, random_images, random_model
from vitdemo.explain import (
    attention,
    head_ablation,
    knockout,
    logit_lens,
    norms,
    patching,
    statistics,
)
from vitdemo.explain.attributions import METHODS, cell_grid
from vitdemo.explain.attributions.integrated_gradients import compute_path_gradients
from vitdemo.explain.attributions.method import AttributionInput
from vitdemo.explain.faithfulness.fills import FILLS, predict_patch_sets
from vitdemo.explain.forward_pass import run_forward, trace
from vitdemo.explain.logit_attribution import compute_contributions
from vitdemo.explain.qkv import compute_qkv
from vitdemo.explain.sinks import find_sinks

# Of Integrated Gradients, only one step is recorded, which a loop repeats.
ATTRIBUTIONS = [
    *((VIT, name) for name in METHODS if name != "integrated_gradients"),
    (CONVNET, "grad_cam"),
    (CONVNET, "occlusion"),
]


def check_recorded(compute, first, second):
    """Check that `compute`, recorded with the inputs `first`, gives the same for `second`."""
    # Fused attention would be recorded as a kernel of PyTorch's CPU build.
    with sdpa_kernel(SDPBackend.MATH):
        graph = make_fx(compute)(*first)
    assert not [node for node in graph.graph.nodes if "scaled_dot_product" in str(node.target)]
    expected = compute(*second)
    assert_close(graph(*second), expected, rtol=0, atol=1e-6)
    moved = [
        a.ne(b).any() for a, b in zip(tensors(expected), tensors(compute(*first)), strict=True)
    ]
    assert all(moved)  # a constant would also pass


def tensors(found):
    return [found] if isinstance(found, torch.Tensor) else list(found)


def make_inputs():
    """Return two pairs of one image and its class."""
    size, generator = (2, 1, 3, VIT.image_size, VIT.image_size), torch.Generator().manual_seed(1)
    images = torch.randn(size, generator=generator)
    return list(zip(images, torch.tensor([[1], [3]]), strict=True))


def run_all(model, images):
    found = run_forward(model, images)
    return found.logits, *found.attention


def compute_rollout(model, images, **options):
    return attention.rollout_steps(trace(model, images).attention, **options)


def compute_norm_weights(model, images):
    found = trace(model, images)
    products = norms.value_products(model, found.tokens)
    by_head = norms.head_norms(found.attention, products)
    summed = norms.summed_head_norms(found.attention, products)
    return norms.norms_to_weights(by_head), norms.norms_to_weights(summed)


def compute_statistics(model, images):
    found = trace(model, images)
    grid = cell_grid(model, images)
    return (
        statistics.mean_attention_distance(found.attention, grid, model.num_prefix_tokens),
        statistics.entropy(found.attention),
        statistics.token_similarity(found.tokens),
    )


def ablate_each_head(model, images):
    means = head_ablation.compute_head_means(model, images.flip(-1))
    return head_ablation.ablate_each_head(model, trace(model, images).tokens, means)


def attribute_logits(model, images):
    parts = compute_contributions(model, trace(model, images).tokens[:, 0], [0, 2])
    return parts.embedding, parts.heads, parts.mlps


FUNCTIONS = {  # functions of a model and one image
    "logits": lambda model, images: model(images),
    "logits and attention": run_all,
    "rollout": partial(compute_rollout, discard_ratio=0.3),
    "rollout of maximum": partial(compute_rollout, fusion="max", start_layer=1),
    "logit lens": lambda model, images: logit_lens.apply_logit_lens(
        model, trace(model, images).tokens
    ),
    "logit attribution": attribute_logits,
    "norm-weighted attention": compute_norm_weights,
    "queries, keys and values": lambda model, images: compute_qkv(
        model, trace(model, images).tokens[1], 1
    ),
    "statistics": compute_statistics,
    "ablation of each head": ablate_each_head,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_recorded_function_holds_for_another_image(name):
    model = random_model(VIT).requires_grad_(False)
    first, second = (images for images, _ in make_inputs())
    check_recorded(partial(FUNCTIONS[name], model), [first], [second])


def test_recorded_relevance_holds_for_other_images_and_classes():
    model = random_model(VIT).requires_grad_(False)
    check_recorded(partial(attention.relevance, model), *make_inputs())


@pytest.mark.parametrize(
    ("spec", "name"), ATTRIBUTIONS, ids=lambda each: getattr(each, "family", each)
)
def test_recorded_attribution_holds_for_other_images_and_classes(spec, name):
    model = random_model(spec).requires_grad_(False)

    def compute(images, classes):
        return METHODS[name].compute(AttributionInput.create(model, images, classes))

    check_recorded(compute, *make_inputs())


def test_recorded_step_of_integrated_gradients_holds_for_other_points():
    model = random_model(VIT).requires_grad_(False)

    def compute(image, position, classes):
        subject = AttributionInput.create(model, image, classes)
        return compute_path_gradients(model, position * image, subject.class_weights)

    inputs = zip(make_inputs(), (0.2, 0.7), strict=True)
    check_recorded(compute, *((image, torch.tensor(at), c) for (image, c), at in inputs))


def test_recorded_sinks_hold_for_another_image():
    model = random_model(VIT).requires_grad_(False)

    def compute(image):
        found = trace(model, image)
        values = compute_qkv(model, found.tokens[1], layer=1)[2]
        sinks = find_sinks(found.attention[1], values, model.num_prefix_tokens)
        return sinks.weights, sinks.norm_ratios, sinks.directions

    check_recorded(compute, *((image,) for image, _ in make_inputs()))


def test_recorded_knockout_holds_for_other_tokens():
    model = random_model(VIT).requires_grad_(False)
    masks = (knockout.build_patch_knockout(model, layers) for layers in (range(1), range(1, 3)))
    inputs = zip(make_inputs(), masks, strict=True)
    check_recorded(
        partial(knockout.compute_knockout_logits, model), *((image, m) for (image, _), m in inputs)
    )


def test_recorded_patching_holds_for_other_images_tokens_and_classes():
    model = random_model(VIT).requires_grad_(False)

    def compute(image, masks, classes):
        first, second = (trace(model, each) for each in (image, image.flip(-1)))
        logits = patching.compute_patched_logits(
            model, first.tokens[1, 0], second.tokens[1, 0], masks, 1
        )
        return logits, patching.compute_logit_shares(
            logits, first.logits[0], second.logits[0], classes
        )

    sets = patching.build_patch_masks(model)
    inputs = zip(make_inputs(), (sets[:2], sets[3:5]), ([0, 1], [2, 3]), strict=True)
    check_recorded(compute, *((image, m, torch.tensor(c)) for (image, _), m, c in inputs))


@pytest.mark.parametrize("is_zero", [True, False], ids=["zeros", "means"])
def test_recorded_ablation_holds_for_other_heads(is_zero):
    model = random_model(VIT).requires_grad_(False)
    means = None
    if not is_zero:
        means = head_ablation.compute_head_means(model, random_images(model, seed=2))
    choices = [{(0, 1)}, {(1, 0), (2, 1)}]
    masks = (head_ablation.build_head_masks(model, heads) for heads in choices)
    inputs = zip(make_inputs(), masks, strict=True)
    check_recorded(
        lambda images, *own: head_ablation.compute_masked_logits(model, images, own, means),
        *((image, *own) for (image, _), own in inputs),
    )


@pytest.mark.parametrize("fill", FILLS)
def test_recorded_removal_holds_for_other_patches(fill):
    model = random_model(VIT).requires_grad_(False)
    sets = ~torch.eye(model.patch_embed.num_patches, dtype=torch.bool)  # one patch is removed
    inputs = zip(make_inputs(), (sets[:2], sets[3:5]), strict=True)

    def compute(image, remaining):
        return predict_patch_sets(model, image, remaining, cell_grid(model, image), fill)

    check_recorded(compute, *((image, chosen) for (image, _), chosen in inputs))
