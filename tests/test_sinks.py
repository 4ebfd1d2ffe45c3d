"""What benchmarks/sinks.py tells of a last layer's brightest patches, against a plain account."""

import pytest
import torch

from benchmarks.sinks import measured
from tests.making import TIMM, VIT
from vitdemo import attention
from vitdemo.models import build_model


@pytest.mark.parametrize("spec", [VIT, TIMM], ids=lambda spec: spec.family)
def test_the_first_three_patches_are_told_of(spec):
    torch.manual_seed(0)
    model = build_model(spec, 10).eval()
    for parameter in model.parameters():  # heads that differ
        parameter.data += 0.1 * torch.randn_like(parameter)
    image = torch.randn(1, 3, spec.image_size, spec.image_size)
    found = measured(model, image, seed=0)
    with torch.no_grad():
        trace = attention.trace(model, image)
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
    assert abs(lost) > 1e-4  # else nothing is tested
    assert found["without"] == pytest.approx(lost, abs=1e-5)
    assert found["without_any"] != pytest.approx(found["without"], abs=1e-5)
