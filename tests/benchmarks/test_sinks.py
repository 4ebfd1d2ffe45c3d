"""Benchmarks of attention sinks and of layers, compared with plain implementations."""

import pytest
import torch

from benchmarks.faithfulness import score_layers
from benchmarks.sinks import measure_sinks
from tests.support.factories import RESNET, TIMM, VIT
from vitdemo.explain import faithfulness, forward_pass
from vitdemo.models import build_model


@pytest.mark.parametrize("spec", [VIT, TIMM], ids=lambda spec: spec.family)
def test_sink_measurements_equal_a_plain_implementation(spec):
    torch.manual_seed(0)
    model = build_model(spec, 10).eval()
    for parameter in model.parameters():  # make the heads differ
        parameter.data += 0.1 * torch.randn_like(parameter)
    image = torch.randn(1, 3, spec.image_size, spec.image_size)
    result = measure_sinks(model, image, seed=0)
    with torch.no_grad():
        trace = forward_pass.trace(model, image)
        heads = trace.attention[-1, 0, :, 0, 1:]
        mean = heads.sum(0) / len(heads)
        sinks = sorted(range(len(mean)), key=lambda i: -mean[i])[:3]
        assert result["share"] == pytest.approx(float(sum(mean[i] for i in sinks) / mean.sum()))
        overlaps = [len({*sinks} & {*head.topk(3).indices.tolist()}) for head in heads]
        assert result["agreed"] == pytest.approx(sum(overlaps) / len(heads))
        norms = trace.tokens[-2, 0, 1:].square().sum(1).sqrt()
        ratio = sum(norms[i] for i in sinks) / 3 / norms.sort().values[(len(norms) - 1) // 2]
        assert result["length"] == pytest.approx(float(ratio))
        # Without the sinks: every other token keeps its position, and none attends to them.
        positions = torch.tensor([0, *(1 + i for i in range(len(mean)) if i not in sinks)])
        tokens = trace.tokens[0][:, positions]
        for block in model.blocks:
            tokens = block(tokens)
        without = model.forward_head(model.norm(tokens)).softmax(1)[0]
        probabilities = trace.logits.softmax(1)[0]
        predicted = probabilities.argmax()
        drop = float(probabilities[predicted] - without[predicted])
        # Norms of alpha * f(x), from the matrices of the last layer.
        attn, normed = model.blocks[-1].attn, model.blocks[-1].norm1(trace.tokens[-2])[0]
        D = normed.shape[-1]
        value = normed @ attn.qkv.weight[2 * D :].T + attn.qkv.bias[2 * D :]  # (N, D)
        weights = trace.attention[-1, 0, :, 0].T.repeat_interleave(D // len(heads), 1)  # (N, D)
        length = (weights * value @ attn.proj.weight.T).norm(dim=-1)[1:]
        assert result["norm"] == pytest.approx(float(length[sinks].sum() / length.sum()), rel=1e-4)
        # The three most attended patches once the sinks are removed.
        rest = trace.tokens[0][:, positions]
        for block in model.blocks[:-1]:
            rest = block(rest)
        last = model.blocks[-1].attn
        q, k, _ = last.qkv(model.blocks[-1].norm1(rest)).chunk(3, dim=-1)
        split = (len(positions), last.num_heads, -1)
        q, k = (matrix[0].view(split).transpose(0, 1) for matrix in (q, k))
        to_rest = (q[:, :1] @ k.mT * last.scale).softmax(-1)[:, 0, 1:].mean(0)
        next_share = float(to_rest.topk(3).values.sum() / to_rest.sum())
        assert result["next_share"] == pytest.approx(next_share, rel=1e-4)
        # In the last layer only, the class token cannot attend to the three sinks.
        block, tokens = model.blocks[-1], trace.tokens[-2]
        outputs = block(tokens[:, positions])
        blocked = model.forward_head(model.norm(outputs)).softmax(1)[0]
        expected = float(probabilities[predicted] - blocked[predicted])
        assert result["blocked"] == pytest.approx(expected, abs=1e-5) and abs(expected) > 1e-5
    assert abs(drop) > 1e-4  # otherwise nothing is tested
    assert result["without"] == pytest.approx(drop, abs=1e-5)
    assert result["without_any"] != pytest.approx(result["without"], abs=1e-5)


@pytest.mark.parametrize("spec", [VIT, TIMM], ids=lambda spec: spec.family)
def test_layers_are_scored_by_the_mean_of_their_heads(spec):
    torch.manual_seed(0)
    model = build_model(spec, 10).eval().requires_grad_(False)
    image = torch.randn(1, 3, spec.image_size, spec.image_size)
    settings = {"fill": "mean", "steps": 4, "seed": 3}
    scores = score_layers(model, image, 5, **settings)
    layers = forward_pass.trace(model, image).attention[:, 0]
    assert len(scores) == len(layers)
    for score, heads in zip(scores, layers, strict=True):
        class_token_map = heads[:, 0, 1:].mean(0).view(model.patch_embed.grid_size)
        curves = faithfulness.measure_perturbation_curves(
            model, image, 5, {"own": class_token_map}, random_orders=1, **settings
        )
        assert score == pytest.approx(curves.scores["own"], abs=1e-6)
    assert len({round(score, 6) for score in scores}) > 1
    resnet = build_model(RESNET, 10).eval()
    assert score_layers(resnet, torch.randn(1, 3, 16, 16), 5, **settings) == []
