"""`vitdemo.attributions` against references that share no code with it.

Attention, features and their gradients come out of timm's own unfused pass on a copy with hooks, or
from finite differences; the maps are then worked again in plain loops in float64, on random weights
of several kinds of model. captum's own GradCam, FeatureAblation and IntegratedGradients, on copies,
are the second references for the ResNet and the pixel methods.
"""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from captum.attr import FeatureAblation, IntegratedGradients, LayerGradCam
from torch import nn

from tests.test_attention import (
    build_ours,
    build_timm,
    finite_differences,
    matmul,
    pictures,
    reference_pass,
    reference_relevance,
    reference_rollout,
    snapshot,
    timm_unfused,
)
from vitdemo import attributions
from vitdemo.attention.gradient_maps import gradient_rollout, token_grad_cam
from vitdemo.attributions import (
    METHODS,
    MOST_GAP,
    attribute,
    attribute_many,
    completeness_gap,
    contrast,
    methods_for,
)
from vitdemo.models.convnet import ConvNet
from vitdemo.models.resnet import build_resnet18

KINDS = {  # name: (model, prefix tokens, whether the answer is read from the patches)
    "class token": (lambda: build_timm(), 1, False),
    "distilled": (lambda: build_timm("deit_tiny_distilled_patch16_224"), 2, False),
    "registers": (lambda: build_timm(reg_tokens=4, no_embed_class=True), 5, False),
    "average pooled": (lambda: build_timm(class_token=False, global_pool="avg"), 0, True),
    "pooled registers": (
        lambda: build_timm(class_token=False, reg_tokens=2, global_pool="avg"),
        2,
        True,
    ),
    "pooled beside a class token": (lambda: build_timm(global_pool="avg"), 1, True),
}
ON_TOKENS = ["relevance", "gradient_rollout", "grad_cam", "attention", "rollout"]
ON_PIXELS = ["integrated_gradients", "occlusion"]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


class Narrow(nn.Module):
    """torchvision's ResNet by its names, 8 channels wide: the real one takes seconds a map."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.relu = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
        )
        self.maxpool, self.avgpool, self.fc = (
            nn.Identity(),
            nn.AdaptiveAvgPool2d(1),
            nn.Linear(8, 5),
        )
        for number, stride in enumerate((1, 2, 2, 2), start=1):
            conv = nn.Conv2d(8, 8, 3, stride=stride, padding=1)
            setattr(self, f"layer{number}", nn.Sequential(conv, nn.BatchNorm2d(8), nn.ReLU()))

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def build_convolutional(model_class=Narrow):
    """In float64, with a BatchNorm that has seen something."""
    torch.manual_seed(0)
    model = model_class().double()
    model.train()(torch.randn(8, 3, 16, 16, dtype=torch.float64))
    return model.eval()


def build(kind):
    return KINDS[kind][0]().double()


def reference_readout(matrix, kind):
    """(B, N, N) nested lists -> (B, P): the mean row of the tokens that the heads read."""
    _, prefix, averaged = KINDS[kind]
    heads = 2 if kind == "distilled" else 1
    rows = []
    for picture in matrix.tolist():
        read = picture[prefix:] if averaged else picture[:heads]
        rows.append([sum(row[j] for row in read) / len(read) for j in range(prefix, len(picture))])
    return torch.tensor(rows, dtype=torch.float64)


def reference_gradient_rollout(attention, gradients):
    """I + (mean over heads of G * A)+, rows divided by their sum, multiplied up; plain loops.

    What comes to a token from itself by skips alone is left out.
    """
    results = []
    B, H, N, _ = attention[0].shape
    for b in range(B):
        result, skipped = [[float(i == j) for j in range(N)] for i in range(N)], [1.0] * N
        for weights, gradient in zip(attention, gradients, strict=True):
            a, g, matrix = weights[b].tolist(), gradient[b].tolist(), []
            for i in range(N):
                mean = [sum(g[h][i][j] * a[h][i][j] for h in range(H)) / H for j in range(N)]
                row = [(i == j) + max(value, 0.0) for j, value in enumerate(mean)]
                matrix.append([value / sum(row) for value in row])
                skipped[i] /= sum(row)
            result = matmul(matrix, result)
        for i in range(N):
            result[i][i] -= skipped[i]
        results.append(result)
    return torch.tensor(results, dtype=torch.float64)


def reference_grad_cam(model, images, target, prefix):
    """Features and gradients of `blocks[-1].norm1` by a hook on a copy; the map in plain loops."""
    model, kept = copy.deepcopy(model), []
    model.blocks[-1].norm1.register_forward_hook(lambda module, args, out: kept.append(out))
    logits = model(images)
    score = logits[torch.arange(len(images)), target].sum()
    (gradient,) = torch.autograd.grad(score, kept[0])
    maps = []
    for x, g in zip(kept[0][:, prefix:].tolist(), gradient[:, prefix:].tolist(), strict=True):
        weights = [sum(column) / len(column) for column in zip(*g, strict=True)]
        own = [sum(w * v for w, v in zip(weights, token, strict=True)) for token in x]
        maps.append([max(value, 0.0) for value in own])
    return torch.tensor(maps, dtype=torch.float64)


def reference_on_tokens(method, model, images, target, kind):
    if method == "grad_cam":
        return reference_grad_cam(model, images, target, KINDS[kind][1])
    attention, gradients = timm_unfused(model, images, target)
    N = attention[0].shape[-1]
    matrix = {
        "relevance": lambda: reference_relevance(attention, gradients).sub(torch.eye(N)),
        "gradient_rollout": lambda: reference_gradient_rollout(attention, gradients),
        "attention": lambda: attention[-1].mean(dim=1),
        "rollout": lambda: reference_rollout(
            torch.stack(attention), "mean", 0.0, True, 0, KINDS[kind][1]
        ),
    }[method]()
    return reference_readout(matrix, kind)


@torch.no_grad()
def reference_occlusion(model, images, target, rows, columns):
    """One picture, one patch at a time, cut out by slices."""
    maps = torch.zeros(len(images), rows, columns, dtype=torch.float64)
    high, wide = images.shape[2] // rows, images.shape[3] // columns
    for b in range(len(images)):
        whole = model(images[b : b + 1]).log_softmax(1)[0, target[b]]
        for r in range(rows):
            for c in range(columns):
                holed = images[b : b + 1].clone()
                holed[:, :, r * high : (r + 1) * high, c * wide : (c + 1) * wide] = 0
                maps[b, r, c] = whole - model(holed).log_softmax(1)[0, target[b]]
    return maps


def log_probability(model):
    """A copy of `model`, which captum may hook, that answers with log-probabilities."""
    return nn.Sequential(copy.deepcopy(model), nn.LogSoftmax(dim=1))


def reference_integrated_gradients(model, images, target, rows, columns):
    """captum's, on a copy and a picture at a time, summed by slices; of many steps."""
    integral, maps = IntegratedGradients(log_probability(model)), []
    for image, label in zip(images, target, strict=True):
        pixels = integral.attribute(
            image[None], target=int(label), n_steps=300, internal_batch_size=100
        )[0].sum(0)
        cut = [band.chunk(columns, dim=1) for band in pixels.chunk(rows, dim=0)]
        maps.append(torch.tensor([[float(cell.sum()) for cell in line] for line in cut]))
    return torch.stack(maps).double()


# --- every method against its reference ---


@pytest.mark.parametrize("method", ON_TOKENS)
def test_method_on_tokens_equals_the_reference(method, kind):
    model = build(kind)
    images, target = pictures(model, batch=2).double(), torch.tensor([4, 1])
    expected = reference_on_tokens(method, model, images, target, kind)
    result = attribute(method, model, images, target)
    assert result.shape == (2, 4, 4)
    torch.testing.assert_close(result.flatten(1), expected, atol=1e-5, rtol=1e-5)
    assert result.std() > 1e-4  # else little is tested


@pytest.mark.parametrize("method", ["relevance", "gradient_rollout"])
def test_where_no_gradient_comes_back_no_patch_is_shown(method, kind):
    model = build(kind)
    for head in (model.head, getattr(model, "head_dist", model.head)):
        torch.nn.init.zeros_(head.weight)
    result = attribute(method, model, pictures(model, batch=2).double(), 1)
    assert torch.equal(result, torch.zeros(2, 4, 4).double())


@pytest.mark.parametrize("method", ON_PIXELS)
def test_method_on_pixels_equals_the_reference(method, kind):
    model = build(kind)
    images, target = pictures(model, batch=2).double(), torch.tensor([4, 1])
    reference = globals()[f"reference_{method}"]
    expected = reference(model, images, target, 4, 4)
    result = attribute(method, model, images, target)
    torch.testing.assert_close(result, expected, atol=closeness(method, expected), rtol=1e-5)
    assert result.std() > 1e-2


def closeness(method, expected):
    """Integrated Gradients stop where they add up within 1 %; the rest is exact."""
    return 0.03 * float(expected.abs().max()) if method == "integrated_gradients" else 1e-5


@pytest.mark.parametrize("method", ON_PIXELS)
def test_method_on_pixels_of_a_resnet_equals_the_reference(method):
    resnet = build_convolutional()
    images, target = torch.randn(2, 3, 16, 16).double(), torch.tensor([4, 1])
    expected = globals()[f"reference_{method}"](resnet, images, target, 8, 8)
    result = attribute(method, resnet, images, target)
    torch.testing.assert_close(result, expected, atol=closeness(method, expected), rtol=1e-5)


def convnet():
    return ConvNet(num_classes=5, widths=(24, 24, 24))


@pytest.mark.parametrize(
    ("model_class", "last", "side"),
    [(Narrow, "layer4", 2), (lambda: build_resnet18(5), "layer4", 2), (convnet, "groups", 1)],
    ids=["narrow", "resnet18", "convnet"],
)
def test_grad_cam_of_a_convolutional_model_equals_captum(model_class, last, side):
    resnet = build_convolutional(model_class)
    images, target = torch.randn(2, 3, 16, 16).double(), torch.tensor([4, 1])
    own = copy.deepcopy(resnet)  # captum hooks it
    expected = LayerGradCam(own, getattr(own, last)).attribute(
        images, target, relu_attributions=True
    )
    result = attribute("grad_cam", resnet, images, target)
    assert result.shape == (2, side, side)
    torch.testing.assert_close(result, expected[:, 0].detach())
    assert result.max() > 0


def test_occlusion_equals_captum():
    model = build("class token")
    images = pictures(model, batch=2).double()
    cell = attributions.cells(32, 32, (4, 4), images.device)[None, None]
    expected = FeatureAblation(log_probability(model)).attribute(
        images, target=2, feature_mask=cell
    )
    corners = expected[:, 0, ::8, ::8].detach()  # one pixel of each patch
    torch.testing.assert_close(attribute("occlusion", model, images, 2), corners)


@pytest.mark.parametrize("family", ["vit", "cnn"])
def test_integrated_gradients_add_up(family):
    model, images = subject(family, batch=4)
    weights = F.one_hot(torch.tensor([2, 0, 4, 1]), 5).double()
    found = attribute("integrated_gradients", model, images, torch.tensor([2, 0, 4, 1]))
    with torch.no_grad():
        rise = model(images).log_softmax(1) - model(torch.zeros_like(images)).log_softmax(1)
    change = (rise * weights).sum(1)
    gap = completeness_gap(model, images, found, weights)
    torch.testing.assert_close(gap, ((found.sum((1, 2)) - change) / change).abs())
    assert gap.max() < MOST_GAP
    assert completeness_gap(model, images, 2 * found, weights).min() > 0.9


def test_steps_double_until_it_adds_up():
    model, images = subject("vit", batch=1)
    steps = []
    for scale in (0.01, 3.0):  # near the start the score is nearly straight
        calls = []
        attribute(
            "integrated_gradients",
            model,
            scale * images,
            1,
            on_step=lambda *c, to=calls: to.append(c),
        )
        steps.append(calls[-1][0])
    assert steps[0] == 32 < steps[1]


def test_a_picture_of_the_mean_colour_adds_up_to_nothing():
    model, _ = subject("vit")
    images, weights = torch.zeros(1, 3, 32, 32).double(), torch.eye(5)[:1].double()
    found = attribute("integrated_gradients", model, images, 0)
    assert completeness_gap(model, images, found, weights).tolist() == [0]


def test_gradient_methods_equal_finite_differences():
    model = build_ours(depth=2, image_size=8, embed_dim=12, num_heads=2).double()
    images, target = pictures(model, batch=2).double(), torch.tensor([3, 1])
    _, attention = reference_pass(model, images)
    gradients = finite_differences(model, images, target)
    results = attribute_many(["relevance", "gradient_rollout"], model, images, target)
    for name, reference in (
        ("relevance", reference_relevance),
        ("gradient_rollout", reference_gradient_rollout),
    ):
        expected = reference(attention, gradients)[:, 0, 1:].unflatten(1, (2, 2))
        torch.testing.assert_close(results[name], expected, atol=1e-6, rtol=1e-5)
        backwards = reference(attention, gradients[::-1])[:, 0, 1:].unflatten(1, (2, 2))
        assert not torch.allclose(backwards, expected, rtol=0.02)  # a public fault must show here


def test_feature_gradients_equal_finite_differences():
    """dy/dx of the last `norm1`, by adding to its bias, which moves all tokens at once."""
    model = build_ours(depth=2, image_size=8, embed_dim=12, num_heads=2).double()
    images = pictures(model, batch=1).double()
    found = attributions.attention.class_gradients(model, images, 3)
    bias = model.blocks[-1].norm1.bias
    with torch.no_grad():
        for d in range(12):
            values = []
            for step in (1e-5, -1e-5):
                moved = copy.deepcopy(model)
                moved.blocks[-1].norm1.bias[d] += step
                values.append(float(moved(images)[0, 3]))
            slope = (values[0] - values[1]) / 2e-5
            assert slope == pytest.approx(float(found.feature_gradients[0, :, d].sum()), abs=1e-6)
    assert bias.grad is None


# --- worked by hand ---


def test_gradient_rollout_by_hand():
    attention = [torch.tensor([[[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]]])]
    gradients = [torch.tensor([[[[2.0, 6.0], [-4.0, 1.0]], [[2.0, -2.0], [9.0, -1.0]]]])]
    # means over heads: [[1, 1], [-2, -0.5]]; with I and without what is negative: [[2, 1], [0, 1]]
    expected = torch.tensor([[[2 / 3, 1 / 3], [0.0, 1.0]]])
    torch.testing.assert_close(gradient_rollout(attention, gradients), expected)
    expected -= torch.diag(torch.tensor([1 / 3, 1.0]))  # the skip connection's part
    torch.testing.assert_close(gradient_rollout(attention, gradients, skips=False), expected)


def test_token_grad_cam_by_hand():
    features = torch.tensor([[[9.0, 9.0], [1.0, 2.0], [3.0, -1.0]]])  # the first is a class token
    gradients = torch.tensor([[[9.0, 9.0], [1.0, 0.0], [3.0, 4.0]]])
    # weights: mean over the two patches, (2, 2); maps: 2*1 + 2*2 and 2*3 - 2*1
    assert token_grad_cam(features, gradients, 1).tolist() == [[6.0, 4.0]]
    assert token_grad_cam(features, -gradients, 1).tolist() == [[0.0, 0.0]]


# --- what must hold of all of them ---


FAMILIES = ("vit", "cnn")


def subject(family, batch=1):
    """A model in float64, and pictures for it."""
    images = torch.randn(batch, 3, 32, 32, generator=torch.Generator().manual_seed(3)).double()
    return build_timm().double() if family == "vit" else build_convolutional(), images


@pytest.mark.parametrize("family", FAMILIES)
def test_every_picture_has_its_own_map(family):
    model, images = subject(family, batch=3)
    target, order = torch.tensor([2, 0, 4]), torch.tensor([2, 0, 1])
    names = [method.name for method in methods_for(model)]
    straight = attribute_many(names, model, images, target)
    shuffled = attribute_many(names, model, images[order], target[order])
    for name in names:
        torch.testing.assert_close(shuffled[name], straight[name][order])
        alone = attribute(name, model, images[1:2], 0)
        torch.testing.assert_close(alone[0], straight[name][1])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_class_matters_where_it_is_said_to(family):
    model, images = subject(family)
    for method in methods_for(model):
        first, second = (attribute(method.name, model, images, target) for target in (0, 1))
        assert torch.equal(first, second) is not method.class_specific
        assert bool((first < 0).any()) is method.signed


def test_together_as_alone():
    model = build("registers")
    images = pictures(model).double()
    together = attribute_many(METHODS, model, images, 1)
    assert list(together) == list(METHODS)
    for name, values in together.items():
        torch.testing.assert_close(attribute(name, model, images, 1), values)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_works_where_gradients_are_off(mode):
    model = build_timm()
    expected = attribute_many(METHODS, model, pictures(model), 2)
    with mode():
        found = attribute_many(METHODS, model, pictures(model), torch.tensor([2, 2, 2]))
        difference = contrast("grad_cam", model, pictures(model), 2, 3)
    for name in METHODS:
        torch.testing.assert_close(found[name], expected[name])
    assert not difference.requires_grad and not any(v.requires_grad for v in found.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_is_left_as_it_was(family):
    model, images = subject(family)
    model.requires_grad_(False)
    before, weights = snapshot(model), copy.deepcopy(model.state_dict())
    attribute_many([method.name for method in methods_for(model)], model, images, 1)
    assert snapshot(model) == before
    torch.testing.assert_close(model.state_dict(), weights, atol=0, rtol=0)
    assert not images.requires_grad and images.grad is None


def test_threads_on_one_model_get_their_own_maps():
    model = build_timm()
    batches = [pictures(model, batch=1, seed=seed) for seed in range(2)]
    alone = [attribute_many(METHODS, model, images, 1) for images in batches]
    start = threading.Barrier(2)

    def work(index):
        start.wait(timeout=10)
        for _ in range(3):
            found = attribute_many(METHODS, model, batches[index], 1)
            torch.testing.assert_close(found, alone[index])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))


@pytest.mark.parametrize("method", METHODS)
def test_a_picture_of_one_colour(method):
    model = build_timm()
    for colour in (0.0, 2.5):
        values = attribute(method, model, torch.full((1, 3, 32, 32), colour), 1)
        assert values.isfinite().all()
    assert METHODS[method].name == method


def test_pixels_that_the_cells_do_not_divide():
    model, _ = subject("cnn")
    images = torch.randn(1, 3, 10, 10).double()
    assert attribute("occlusion", model, images, 0).shape == (1, 8, 8)
    cell = attributions.cells(10, 10, (8, 8), images.device)
    counts = cell.flatten().bincount(minlength=64)
    assert counts.sum() == 100 and counts.min() >= 1
    total = attribute("integrated_gradients", model, images, 0).sum()
    pixels = IntegratedGradients(log_probability(model)).attribute(images, target=0, n_steps=200)
    torch.testing.assert_close(total, pixels.sum(), atol=0, rtol=0.02)


# --- contrast ---


@pytest.mark.parametrize("method", METHODS)
def test_contrast_is_the_difference_of_two_maps(method):
    model = build("class token")
    images = pictures(model, batch=2).double()
    first, second = (attribute(method, model, images, target) for target in (3, 1))
    result = contrast(method, model, images, 3, torch.tensor([1, 1]))
    near = closeness(method, first - second)
    torch.testing.assert_close(result, first - second, atol=near, rtol=1e-5)
    torch.testing.assert_close(contrast(method, model, images, 1, 3), -result)


def test_contrast_of_a_linear_method_takes_one_run():
    model, calls = build_timm(), []
    images = pictures(model, batch=1)
    contrast("occlusion", model, images, 3, 1, on_step=lambda done, total: calls.append(done))
    assert calls == [0, 16]


# --- progress, and what goes wrong ---


@pytest.mark.parametrize("method", ON_PIXELS)
def test_progress_grows_to_the_whole(method):
    model, calls = build_timm(patch_size=4), []
    images = pictures(model, batch=1)
    attribute(method, model, images, 1, on_step=lambda *call: calls.append(call))
    done, totals = zip(*calls, strict=True)
    assert list(done) == sorted(set(done)) and len(done) >= 2
    assert all(one <= most for one, most in calls) and totals[-1] == done[-1] and done[0] == 0


@pytest.mark.parametrize("method", ON_PIXELS)
def test_a_listener_that_raises_ends_the_work(method):
    model, calls = build_timm(patch_size=4), []

    def stop(done, total):
        calls.append(done)
        if len(calls) == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        attribute(method, model, pictures(model, batch=2), 1, on_step=stop)
    assert len(calls) == 2


def test_bad_values_are_named():
    model, (resnet, _) = build_timm(), subject("cnn")
    images = pictures(model)
    with pytest.raises(ValueError, match=r"'lime'.*relevance, gradient_rollout.*\."):
        attribute("lime", model, images, 1)
    with pytest.raises(ValueError, match=r"'rollout' does not serve Narrow.*grad_cam"):
        attribute("rollout", resnet, images.double(), 1)
    with pytest.raises(ValueError, match=r"target 5 .* 0\.\.4"):
        attribute("occlusion", model, images, 5)
    with pytest.raises(ValueError, match=r"target -1 .* 0\.\.4"):
        contrast("grad_cam", resnet, images.double(), 0, -1)
    with pytest.raises(ValueError, match="Cannot explain Linear"):
        attribute("occlusion", torch.nn.Linear(2, 2), images, 1)


def test_captions_are_one_sentence():
    for name, method in METHODS.items():
        assert method.name == name and method.title
        assert method.caption.endswith(".") and ". " not in method.caption.replace("et al. ", "")
