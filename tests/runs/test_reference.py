"""Similarity to a run's training images, and the file of its reference features."""

import numpy as np
import pytest
import torch

from tests.support.factories import CONVNET, RESNET, TIMM_KINDS, VIT, make_run, noise
from vitdemo import data, models, runs
from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.runs import reference
from vitdemo.runs.reference import (
    build_reference,
    compute_reference,
    read_reference,
    write_reference,
)

CPU = torch.device("cpu")


def set_fingerprint(run, value="1" * 16):
    runs.write_config(run.path, run.config | {"data": {"name": "test", "fingerprint": value}})
    return runs.read_run(run.path)


def make_images(count, seed=0, classes=10):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 3, 16, 16), generator=generator, dtype=torch.uint8)
    return data.LabelledImages(pixels, torch.arange(count) % classes)


def test_the_score_is_the_mean_cosine_to_the_ten_nearest():
    torch.manual_seed(0)
    train, queries = torch.randn(30, 8), torch.randn(5, 8)
    similarity = build_reference(train, queries)
    expected = []
    for query in queries:
        cosines = [t @ query / t.norm() / query.norm() for t in train]
        expected.append(np.mean(sorted(cosines)[-10:]))
    np.testing.assert_allclose(similarity.score(queries), expected, atol=1e-3)  # float16
    np.testing.assert_array_equal(similarity.validation_scores, similarity.score(queries).sort()[0])
    np.testing.assert_allclose(similarity.score(7 * queries), similarity.score(queries), atol=1e-6)


def test_percentile_is_the_fraction_of_less_similar_images():
    torch.manual_seed(0)
    train = torch.eye(8)[0] + 0.1 * torch.randn(50, 8)
    validation = torch.eye(8)[0] + 0.2 * torch.randn(200, 8)
    similarity = build_reference(train, validation)
    assert similarity.percentile(-torch.eye(8)[0]) == 0
    assert similarity.percentile(train.mean(0)) > 95
    median = similarity.score(validation).argsort()[100]
    assert similarity.percentile(validation[median]) == 50


def test_reference_round_trips_and_requires_its_own_dataset(tmp_path):
    run = set_fingerprint(make_run(tmp_path / "vit"))
    written = build_reference(torch.randn(20, 32), torch.randn(100, 32))
    before = run.stamp
    write_reference(run.path, written, "1" * 16)
    run = runs.read_run(run.path)
    assert run.stamp != before  # an open page reloads the run
    loaded = read_reference(run)
    np.testing.assert_array_equal(loaded.features, written.features)
    np.testing.assert_array_equal(loaded.validation_scores, written.validation_scores)
    assert loaded.features.dtype == np.float16
    assert read_reference(set_fingerprint(run, "2" * 16)) is None
    (run.path / runs.REFERENCE).write_bytes(b"PK\x03\x04 and no more")
    assert read_reference(run) is None
    (run.path / runs.REFERENCE).unlink()
    assert read_reference(run) is None


@pytest.mark.parametrize("spec", [VIT, CONVNET, RESNET])
def test_reference_stores_a_sample_and_needs_enough_images(spec, tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "NUM_REFERENCE_IMAGES", 40)
    run = make_run(tmp_path / "run", spec)
    stored = compute_reference(run, make_images(60), make_images(150, seed=1), CPU)
    assert len(stored.features) == 40 and len(stored.validation_scores) == 150
    np.testing.assert_allclose(np.linalg.norm(stored.features.astype(float), axis=1), 1, atol=1e-2)
    assert compute_reference(run, make_images(60), make_images(99, seed=1), CPU) is None
    assert compute_reference(run, make_images(9), make_images(150, seed=1), CPU) is None


def test_nan_features_are_rejected(tmp_path):
    run = make_run(tmp_path / "vit")
    weights = runs.load_model(run).state_dict()
    weights["norm.weight"][:] = float("nan")
    runs.write_weights(run.path, weights)
    with pytest.raises(RunError, match="are NaN"):
        compute_reference(runs.read_run(run.path), make_images(60), make_images(150), CPU)


@pytest.mark.parametrize("kind", [*TIMM_KINDS, "convnet", "resnet"])
def test_one_pass_gives_the_features_and_the_logits(kind, tmp_path):
    spec = {"convnet": CONVNET, "resnet": RESNET}.get(kind) or TIMM_KINDS[kind]
    run = make_run(tmp_path / "run", spec)
    model = runs.load_model(run)
    pixels = run.preprocessing(make_images(3).images)
    with torch.inference_mode():
        features, logits = models.features_and_logits(model, pixels)
        torch.testing.assert_close(logits, model(pixels))
        torch.testing.assert_close(features, models.extract_features(model, pixels))


@pytest.mark.parametrize("spec", [VIT, CONVNET])
def test_prediction_has_the_percentile_with_and_without_a_trace(spec, tmp_path):
    run = set_fingerprint(make_run(tmp_path / "run", spec))
    computed = compute_reference(run, make_images(60), make_images(150, seed=1), CPU)
    plain = AppContext([tmp_path], None, CPU)
    assert plain.predict(plain.find_run("run"), noise(3)).similarity_percentile is None
    write_reference(run.path, computed, "1" * 16)
    untraced, traced = (AppContext([tmp_path], None, CPU) for _ in range(2))
    first = untraced.predict(untraced.find_run("run"), noise(3))
    assert 0 <= first.similarity_percentile <= 100
    if spec is VIT:
        traced.trace_image(traced.find_run("run"), noise(3))
        second = traced.predict(traced.find_run("run"), noise(3))
        assert second.similarity_percentile == pytest.approx(first.similarity_percentile, abs=1)
