"""`vitdemo.analyses.sinks` against the traces of the same images, head by head."""

import numpy as np
import pytest

from tests.support.factories import RESNET, make_context, make_run, noise
from vitdemo.analyses import sinks
from vitdemo.analyses.sinks import compute_photo_similarities, compute_sinks
from vitdemo.data.photos import load_example_squares
from vitdemo.errors import RunError
from vitdemo.explain.qkv import compute_layer_qkv


@pytest.mark.parametrize("name", ["vit", "timm"])
def test_sinks_equal_the_trace(shown, name):
    run = shown.find_run(name)
    found, trace = compute_sinks(shown, run, noise(1)), shown.trace_image(run, noise(1))
    prefix, (L, H) = trace.num_prefix_tokens, trace.attention.shape[:2]
    assert found.positions.shape == (L, H, 2)
    for layer in range(L):
        values = compute_layer_qkv(shown.load_model(run), trace.tokens, layer + 1)[2].numpy()
        for h in range(H):
            received = trace.attention[layer, h].numpy().mean(0)[prefix:].reshape(trace.grid)
            row, column = found.positions[layer, h] - 1
            assert received[row, column] == received.max()
            assert found.weights[layer, h] == pytest.approx(received.max(), rel=1e-5)
            norms = np.sqrt((values[h, prefix:] ** 2).sum(-1)).reshape(trace.grid)
            ratio = norms[row, column] / norms.mean()
            assert found.norm_ratios[layer, h] == pytest.approx(ratio, rel=1e-5)


def test_photo_similarities_equal_loops_over_pairs_of_photos(shown):
    run, photos = shown.find_run("vit"), load_example_squares()
    found = compute_photo_similarities(shown, run)
    model, directions = shown.load_model(run), []
    for photo in photos:
        trace = shown.trace_image(run, photo)
        row, column = compute_sinks(shown, run, photo).positions[1, 1] - 1
        values = compute_layer_qkv(model, trace.tokens, 2)[2][1].numpy()  # (N, D/H)
        patches = values[trace.num_prefix_tokens :]
        patches = patches / np.linalg.norm(patches, axis=-1, keepdims=True)
        directions.append((patches, row * trace.grid[1] + column))
    pairs = [(a, b) for i, a in enumerate(directions) for b in directions[:i]]
    own = np.mean([a[i] @ b[j] for (a, i), (b, j) in pairs])
    every = np.mean([a @ b.T for (a, _), (b, _) in pairs])
    assert found.count == len(photos) and found.sinks.shape == found.patches.shape == (3, 2)
    assert found.sinks[1, 1] == pytest.approx(own, abs=1e-5)
    assert found.patches[1, 1] == pytest.approx(every, abs=1e-5)


def test_a_single_photo_has_no_similarity(tmp_path, monkeypatch):
    run = make_run(tmp_path / "vit")
    monkeypatch.setattr(sinks, "load_example_squares", lambda: [noise(0)])
    found = compute_sinks(make_context(tmp_path), run, noise(1))
    assert np.isnan(found.similarities.sinks).all() and found.similarities.count == 1
    assert np.isfinite(found.norm_ratios).all()


def test_a_model_without_attention_has_no_sinks(tmp_path):
    run = make_run(tmp_path / "resnet", RESNET)
    with pytest.raises(RunError, match="'resnet' has no attention heads"):
        compute_sinks(make_context(tmp_path), run, noise(1))
