"""What benchmarks tell of layers and their brightest patches, against a plain account."""

import pytest
import torch

from benchmarks.faithfulness import score_layers
from benchmarks.sinks import measure_sinks
from tests.factories import RESNET, TIMM, VIT
from vitdemo.explain import faithfulness, forward_pass
from vitdemo.models import build_model


@pytest.mark.parametrize("spec", [VIT, TIMM], ids=lambda spec: spec.family)
def test_sink_measurements_equal_a_plain_implementation(spec):
    torch.manual_seed(0)
    model = build_model(spec, 10).eval()
    for parameter in model.parameters():  # heads that differ
        parameter.data += 0.1 * torch.randn_like(parameter)
    image = torch.randn(1, 3, spec.image_size, spec.image_size)
    found = measure_sinks(model, image, seed=0)
    with torch.no_grad():
        trace = forward_pass.trace(model, image)
        heads = trace.attention[-1, 0, :, 0, 1:]
        mean = heads.sum(0) / len(heads)
        first = sorted(range(len(mean)), key=lambda i: -mean[i])[:3]
        assert found["share"] == pytest.approx(float(sum(mean[i] for i in first) / mean.sum()))
        common = [len({*first} & {*head.topk(3).indices.tolist()}) for head in heads]
        assert found["agreed"] == pytest.approx(sum(common) / len(heads))
        long = trace.tokens[-2, 0, 1:].square().sum(1).sqrt()
        mine = sum(long[i] for i in first) / 3 / long.sort().values[(len(long) - 1) // 2]
        assert found["length"] == pytest.approx(float(mine))
        # Without them: each other token keeps its place, and none sees them.
        places = torch.tensor([0, *(1 + i for i in range(len(mean)) if i not in first)])
        tokens = trace.tokens[0][:, places]
        for block in model.blocks:
            tokens = block(tokens)
        without = model.forward_head(model.norm(tokens)).softmax(1)[0]
        probabilities = trace.logits.softmax(1)[0]
        answer = probabilities.argmax()
        lost = float(probabilities[answer] - without[answer])
        # Norms of alpha * f(x), from the matrices of the last layer.
        attn, normed = model.blocks[-1].attn, model.blocks[-1].norm1(trace.tokens[-2])[0]
        D = normed.shape[-1]
        value = normed @ attn.qkv.weight[2 * D :].T + attn.qkv.bias[2 * D :]  # (N, D)
        weights = trace.attention[-1, 0, :, 0].T.repeat_interleave(D // len(heads), 1)  # (N, D)
        length = (weights * value @ attn.proj.weight.T).norm(dim=-1)[1:]
        assert found["norm"] == pytest.approx(float(length[first].sum() / length.sum()), rel=1e-4)
        # The three most attended patches of the model that lacks the first three.
        rest = trace.tokens[0][:, places]
        for block in model.blocks[:-1]:
            rest = block(rest)
        last = model.blocks[-1].attn
        q, k, _ = last.qkv(model.blocks[-1].norm1(rest)).chunk(3, dim=-1)
        split = (len(places), last.num_heads, -1)
        q, k = (each[0].view(split).transpose(0, 1) for each in (q, k))
        to_rest = (q[:, :1] @ k.mT * last.scale).softmax(-1)[:, 0, 1:].mean(0)
        next_share = float(to_rest.topk(3).values.sum() / to_rest.sum())
        assert found["next_share"] == pytest.approx(next_share, rel=1e-4)
        # The class token cannot attend to the three in the last layer: it never had them.
        block, tokens = model.blocks[-1], trace.tokens[-2]
        kept = block(tokens[:, places])
        barred = model.forward_head(model.norm(kept)).softmax(1)[0]
        wanted = float(probabilities[answer] - barred[answer])
        assert found["barred"] == pytest.approx(wanted, abs=1e-5) and abs(wanted) > 1e-5
    assert abs(lost) > 1e-4  # else nothing is tested
    assert found["without"] == pytest.approx(lost, abs=1e-5)
    assert found["without_any"] != pytest.approx(found["without"], abs=1e-5)


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
        own = heads[:, 0, 1:].mean(0).view(model.patch_embed.grid_size)
        found = faithfulness.measure_perturbation_curves(
            model, image, 5, {"own": own}, random_orders=1, **settings
        )
        assert score == pytest.approx(found.scores["own"], abs=1e-6)
    assert len({round(score, 6) for score in scores}) > 1
    network = build_model(RESNET, 10).eval()
    assert score_layers(network, torch.randn(1, 3, 16, 16), 5, **settings) == []
