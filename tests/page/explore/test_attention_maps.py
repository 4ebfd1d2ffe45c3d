"""Payload of the section "Attention"."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.support.factories import TIMM_KINDS, make_context, make_run, timm_spec
from vitdemo.errors import RunError
from vitdemo.explain import norms
from vitdemo.page.bridge import CachedFile
from vitdemo.page.components.matrix_file import unpack_matrices
from vitdemo.page.explore.attention_maps import (
    RolloutSettings,
    compute_rollout,
    norms_payload,
    to_payload,
)


def trace_image(root: Path, spec):
    image = Image.new("RGB", (40, 40), (200, 30, 90))
    return make_context(root).trace_image(make_run(root / "run", spec), image)


def read_matrices(file: CachedFile) -> np.ndarray:
    return unpack_matrices(file.make_content())


@pytest.mark.parametrize("kind", TIMM_KINDS)
def test_attention_payload_contains_matrix_files(tmp_path, kind):
    trace = trace_image(tmp_path, TIMM_KINDS[kind])
    settings = RolloutSettings("min", 0.5, residual=False)
    value = to_payload(trace, settings)
    assert (value["run"], value["layers"], value["heads"], value["grid"]) == ("run", 2, 3, [4, 4])
    assert value["prefix"] == list(trace.prefix_names)
    assert value["rows"] is None and value["norms"] is None
    assert value["rollout"]["words"] == " (min of the heads, 50% discarded, no residual)"
    (file,) = value["attention"]
    np.testing.assert_allclose(read_matrices(file), trace.attention, atol=1e-3)
    rollout = compute_rollout(trace, settings)
    np.testing.assert_allclose(read_matrices(value["rollout"]["file"])[:, 0], rollout, atol=1e-3)
    np.testing.assert_allclose(
        read_matrices(value["similar"])[:, 0], trace.token_similarity, atol=1e-3
    )
    np.testing.assert_array_equal(value["seen"].pixels, trace.input_image)


def test_rollout_settings_are_described_only_if_they_are_not_defaults(tmp_path):
    trace = trace_image(tmp_path, TIMM_KINDS["class token"])
    assert RolloutSettings().describe() == ""
    assert len(compute_rollout(trace, RolloutSettings())) == 2
    assert len(compute_rollout(trace, RolloutSettings(first_layer=2))) == 1


@pytest.mark.parametrize("kind", TIMM_KINDS)
def test_norm_weighted_attention_is_sent_on_request(tmp_path, kind):
    trace = trace_image(tmp_path, TIMM_KINDS[kind])
    context = make_context(tmp_path)
    products = context.value_products(trace)
    value = norms_payload(context, trace)
    assert value["rows"] is None
    heads = norms.head_norms(trace.attention, products)
    (file,) = value["heads"]
    np.testing.assert_allclose(read_matrices(file), heads / heads.sum(-1, keepdim=True), atol=1e-3)
    summed = norms.summed_head_norms(trace.attention, products)
    expected = summed / summed.sum(-1, keepdim=True)
    np.testing.assert_allclose(read_matrices(value["all"])[:, 0], expected, atol=1e-3)


def test_payload_explains_missing_norm_weighted_attention(tmp_path):
    trace = trace_image(tmp_path, timm_spec(scale_attn_norm=True))
    with pytest.raises(RunError, match="normalises its joined heads") as caught:
        make_context(tmp_path).value_products(trace)
    assert norms_payload(make_context(tmp_path), trace) == {"sentence": str(caught.value)}


def test_attention_of_a_large_model_is_sent_layer_by_layer(tmp_path):
    spec = timm_spec(image_size=112, depth=12, embed_dim=96, num_heads=12)
    trace = trace_image(tmp_path, spec)
    value = to_payload(trace, RolloutSettings())
    assert len(value["attention"]) == 12
    np.testing.assert_allclose(
        read_matrices(value["attention"][7])[0], trace.attention[7], atol=1e-3
    )
    np.testing.assert_allclose(read_matrices(value["rows"]), trace.attention[:, :, :1], atol=1e-3)


def test_another_rollout_changes_the_name_of_one_file(tmp_path):
    trace = trace_image(tmp_path, TIMM_KINDS["class token"])

    def names(settings: RolloutSettings) -> list[str]:
        value = to_payload(trace, settings)
        files = [value["rollout"]["file"], value["similar"], *value["attention"]]
        return [file.name for file in files]

    first, again, other = map(names, (RolloutSettings(), RolloutSettings(), RolloutSettings("max")))
    assert first == again
    assert [a == b for a, b in zip(first, other, strict=True)] == [False, True, True]
