"""Similarity to a run's training images, and the file that holds its reference."""

import numpy as np
import pytest
import torch

from tests.making import CONVNET, KINDS, RESNET, VIT, make_run, noise
from vitdemo import data, models, runs
from vitdemo.errors import RunError
from vitdemo.runs import reference
from vitdemo.runs.reference import (
    build_reference,
    compute_reference,
    read_reference,
    write_reference,
)
from vitdemo.workbench import Workbench

CPU = torch.device("cpu")


def with_fingerprint(run, value="1" * 16):
    runs.write_config(run.path, run.config | {"data": {"name": "test", "fingerprint": value}})
    return runs.read_run(run.path)


def images(count, seed=0, classes=10):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 3, 16, 16), generator=generator, dtype=torch.uint8)
    return data.Pictures(pixels, torch.arange(count) % classes)


def test_the_score_is_the_mean_cosine_to_the_ten_nearest():
    random = np.random.default_rng(0)
    train, queries = random.normal(size=(30, 8)), random.normal(size=(5, 8))
    found = build_reference(train, queries)
    by_hand = []
    for query in queries:
        cosines = [t @ query / np.linalg.norm(t) / np.linalg.norm(query) for t in train]
        by_hand.append(np.mean(sorted(cosines)[-10:]))
    np.testing.assert_allclose(found.score(queries), by_hand, atol=1e-3)  # float16
    np.testing.assert_array_equal(found.validation_scores, np.sort(found.score(queries)))
    np.testing.assert_allclose(found.score(7 * queries), found.score(queries), atol=1e-6)


def test_the_percentile_is_the_share_of_less_similar_validation_images():
    random = np.random.default_rng(0)
    train = np.eye(8)[0] + 0.1 * random.normal(size=(50, 8))
    validation = np.eye(8)[0] + 0.2 * random.normal(size=(200, 8))
    found = build_reference(train, validation)
    assert found.percentile(-np.eye(8)[0]) == 0
    assert found.percentile(train.mean(0)) > 95
    middle = np.argsort(found.score(validation))[100]
    assert found.percentile(validation[middle]) == 50


def test_a_reference_is_read_as_it_was_written_for_its_own_data_alone(tmp_path):
    run = with_fingerprint(make_run(tmp_path / "vit"))
    random = np.random.default_rng(0)
    found = build_reference(random.normal(size=(20, 32)), random.normal(size=(100, 32)))
    before = run.stamp
    write_reference(run.path, found, "1" * 16)
    run = runs.read_run(run.path)
    assert run.stamp != before  # a page that is open takes notice
    again = read_reference(run)
    np.testing.assert_array_equal(again.features, found.features)
    np.testing.assert_array_equal(again.validation_scores, found.validation_scores)
    assert again.features.dtype == np.float16
    assert read_reference(with_fingerprint(run, "2" * 16)) is None
    (run.path / runs.REFERENCE).write_bytes(b"PK\x03\x04 and no more")
    assert read_reference(run) is None
    (run.path / runs.REFERENCE).unlink()
    assert read_reference(run) is None


@pytest.mark.parametrize("spec", [VIT, CONVNET, RESNET])
def test_a_sample_of_the_images_is_stored_and_training_images_are_usual(
    spec, tmp_path, monkeypatch
):
    monkeypatch.setattr(reference, "REFERENCE_IMAGES", 40)
    run = make_run(tmp_path / "run", spec)
    found = compute_reference(run, images(60), images(150, seed=1), CPU)
    assert len(found.features) == 40 and len(found.validation_scores) == 150
    np.testing.assert_allclose(np.linalg.norm(found.features.astype(float), axis=1), 1, atol=1e-2)
    assert compute_reference(run, images(60), images(99, seed=1), CPU) is None
    assert compute_reference(run, images(9), images(150, seed=1), CPU) is None


def test_features_of_nan_are_refused(tmp_path):
    run = make_run(tmp_path / "vit")
    weights = runs.load_model(run).state_dict()
    weights["norm.weight"][:] = float("nan")
    runs.write_weights(run.path, weights)
    with pytest.raises(RunError, match="are NaN"):
        compute_reference(runs.read_run(run.path), images(60), images(150), CPU)


@pytest.mark.parametrize("kind", [*KINDS, "convnet", "resnet"])
def test_one_pass_gives_the_features_and_the_logits(kind, tmp_path):
    spec = {"convnet": CONVNET, "resnet": RESNET}.get(kind) or KINDS[kind]
    run = make_run(tmp_path / "run", spec)
    model = runs.load_model(run)
    pixels = run.preprocessing(images(3).images)
    with torch.inference_mode():
        features, logits = models.features_and_logits(model, pixels)
        torch.testing.assert_close(logits, model(pixels))
        torch.testing.assert_close(features, models.features(model, pixels))


@pytest.mark.parametrize("spec", [VIT, CONVNET])
def test_an_answer_has_the_percentile_whether_or_not_the_image_was_traced(spec, tmp_path):
    run = with_fingerprint(make_run(tmp_path / "run", spec))
    found = compute_reference(run, images(60), images(150, seed=1), CPU)
    plain = Workbench([tmp_path], None, CPU)
    assert plain.answer(plain.run("run"), noise(3)).similarity_percentile is None
    write_reference(run.path, found, "1" * 16)
    passed, traced = (Workbench([tmp_path], None, CPU) for _ in range(2))
    first = passed.answer(passed.run("run"), noise(3))
    assert 0 <= first.similarity_percentile <= 100
    if spec is VIT:
        traced.look(traced.run("run"), noise(3))
        second = traced.answer(traced.run("run"), noise(3))
        assert second.similarity_percentile == pytest.approx(first.similarity_percentile, abs=1)
