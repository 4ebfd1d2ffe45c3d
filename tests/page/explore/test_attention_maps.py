"""Payload of the section "Attention"."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from tests.support.factories import TIMM_KINDS, make_context, make_run, timm_spec
from vitdemo.errors import RunError
from vitdemo.explain.attention import FUSIONS, rollout_steps
from vitdemo.page.explore.attention_maps import norms_payload, to_payload
from vitdemo.page.explore.attention_maps.tensors import RolloutSettings, compute_rollout


def trace_image(root: Path, spec):
    image = Image.new("RGB", (40, 40), (200, 30, 90))
    return make_context(root).trace_image(make_run(root / "run", spec), image)


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("ratio", [0, 0.55])
def test_rollout_begins_with_identities_before_its_first_layer(tmp_path, fusion, residual, ratio):
    trace = trace_image(tmp_path, TIMM_KINDS["class token"])
    settings = RolloutSettings(fusion, ratio, residual, first_layer=2)
    first, second = compute_rollout(trace, settings)
    assert torch.equal(first, torch.eye(len(first)))
    expected = rollout_steps(trace.attention[:, None], **settings.arguments)
    assert_close(second, expected[0, 0])
    values = FUSIONS.index(fusion), ratio, residual, 2
    in_graph = compute_rollout(trace, RolloutSettings(*map(torch.tensor, values)))
    assert torch.equal(in_graph, torch.stack([first, second]))


def test_payload_explains_missing_norm_weighted_attention(tmp_path):
    trace = trace_image(tmp_path, timm_spec(scale_attn_norm=True))
    with pytest.raises(RunError, match="normalises its joined heads") as caught:
        make_context(tmp_path).value_products(trace)
    assert norms_payload(make_context(tmp_path), trace) == {"sentence": str(caught.value)}


def test_another_rollout_changes_only_the_names_of_its_files(tmp_path):
    trace = trace_image(tmp_path, TIMM_KINDS["class token"])

    def names(settings: RolloutSettings) -> list[str]:
        sets = to_payload(trace, settings)["sets"]
        parts = [sets[source] for source in ("rollout", "similar", "head")]
        return [file.name for part in parts for file in (*part["files"], part["rows"])]

    first, again, other = map(names, (RolloutSettings(), RolloutSettings(), RolloutSettings("max")))
    assert first == again
    assert [a == b for a, b in zip(first, other, strict=True)] == [False] * 2 + [True] * 4
