"""Payload of the section "Attention"."""

from pathlib import Path

import pytest
from PIL import Image

from tests.support.factories import TIMM_KINDS, make_context, make_run, timm_spec
from vitdemo.errors import RunError
from vitdemo.page.explore.attention_maps import norms_payload, to_payload
from vitdemo.page.explore.attention_maps.tensors import RolloutSettings, compute_rollout


def trace_image(root: Path, spec):
    image = Image.new("RGB", (40, 40), (200, 30, 90))
    return make_context(root).trace_image(make_run(root / "run", spec), image)


def test_rollout_has_a_map_for_each_layer_from_the_first_one(tmp_path):
    trace = trace_image(tmp_path, TIMM_KINDS["class token"])
    assert len(compute_rollout(trace, RolloutSettings())) == 2
    assert len(compute_rollout(trace, RolloutSettings(first_layer=2))) == 1


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
