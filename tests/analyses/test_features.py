"""Features, distances, t-SNE and neighbours against plain loops and the models themselves."""

import math
import shutil
import time

import numpy as np
import pytest
import torch

from tests.support.factories import (
    CONVNET,
    RESNET,
    TIMM,
    VIT,
    make_context,
    make_run,
    timm_spec,
    write_noise_images,
)
from vitdemo import models, runs
from vitdemo.analyses import features, tsne_file
from vitdemo.analyses.tsne import compute_tsne, run_tsne_process
from vitdemo.errors import DataError, RunError
from vitdemo.models import build_model

POOLED = timm_spec(depth=1, global_pool="avg", class_token=False)
IMAGE_COUNTS = {"train/ant": 2, "train/bee": 2, "test/ant": 9, "test/bee": 5}


@pytest.fixture(scope="module")
def context(shown_runs, tmp_path_factory):
    """AppContext with one cache for all tests; a test of new results has its own sample size."""
    root = tmp_path_factory.mktemp("features")
    data_root = write_noise_images(root / "data", IMAGE_COUNTS)
    return make_context(root, shown_runs, data_root=data_root)


@pytest.mark.parametrize("spec", [VIT, TIMM, POOLED, RESNET, CONVNET])
@torch.no_grad()
def test_classifier_of_the_features_equals_the_model(spec):
    torch.manual_seed(0)
    model = build_model(spec, 4).eval()
    images = torch.randn(3, 3, spec.image_size, spec.image_size)
    outputs = models.extract_features(model, images)
    assert outputs.ndim == 2
    assert torch.allclose(model.get_classifier()(outputs), model(images), atol=1e-5)


@pytest.mark.parametrize("name", ["vit", "timm", "resnet"])
def test_feature_space_contains_features_of_every_sampled_image(context, name, monkeypatch):
    monkeypatch.setattr(features, "FEATURE_BATCH_SIZE", 4)  # the last one is smaller
    run, fractions = context.find_run(name), []
    space = features.load_feature_space(
        context, run, max_images=15, report=lambda fraction, _: fractions.append(fraction)
    )
    assert fractions == [0, 4 / 14, 8 / 14, 12 / 14]
    test_set = space.sample.source.load("test", run.spec.image_size)
    assert np.array_equal(space.sample.labels, test_set.labels)
    images = run.preprocessing(test_set.images)
    with torch.no_grad():
        expected = models.extract_features(context.load_model(run), images)
    assert np.allclose(space.features, expected, atol=1e-4)


def test_nan_features_raise_an_error_with_the_model_name(context):
    run = make_run(context.roots[0] / "sick", VIT)
    torch.nn.init.constant_(context.load_model(run).norm.bias, float("nan"))
    with pytest.raises(RunError, match="features of 'sick' are not finite"):
        features.load_feature_space(context, run)


def test_distance_ratio_and_purity_equal_plain_loops():
    random = np.random.default_rng(0)
    points, labels = random.normal(size=(12, 5)), np.array([0] * 6 + [1] * 4 + [2] * 2)
    points += labels[:, None]
    within, between, num_pure = [], [], 0
    for i in range(12):
        lengths = {j: math.dist(points[i], points[j]) for j in range(12) if j != i}
        for j, length in lengths.items():
            (within if labels[i] == labels[j] else between).append(length)
        num_pure += labels[min(lengths, key=lengths.get)] == labels[i]
    distances = features.pairwise_distances(points)
    ratio = (sum(between) / len(between)) / (sum(within) / len(within))
    assert features.distance_ratio(distances, labels) == pytest.approx(ratio, abs=1e-12)
    assert features.nearest_purity(distances, labels) == num_pure / 12


def test_undefined_distance_ratio_is_nan():
    for points, labels in (
        ([[0.0], [1.0], [3.0]], [0, 0, 0]),  # one class: no distances between classes
        ([[0.0], [1.0]], [0, 1]),  # no class with two points
        ([[0.0], [0.0], [1.0]], [0, 0, 1]),  # a class of one point
        ([[0.0]], [0]),
    ):
        distances = features.pairwise_distances(np.array(points))
        assert math.isnan(features.distance_ratio(distances, np.array(labels)))


def test_tsne_separates_distant_groups_and_is_deterministic():
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(3), 20)
    points = (30 * np.eye(60)[groups] + random.normal(size=(60, 60))).astype(np.float32)
    embedding = compute_tsne(points)
    assert embedding.shape == (60, 2)
    assert embedding.min() >= 0 and embedding.max() <= 1
    assert features.nearest_purity(features.pairwise_distances(embedding), groups) == 1
    assert np.array_equal(embedding, run_tsne_process(points, lambda: None))


def test_tsne_is_cancellable():
    class Cancelled(Exception):
        pass

    def cancel():
        raise Cancelled

    points = np.random.default_rng(0).normal(size=(2000, 200)).astype(np.float32)  # takes seconds
    started = time.monotonic()
    with pytest.raises(Cancelled):
        run_tsne_process(points, cancel)
    assert time.monotonic() - started < 2


def test_error_in_the_tsne_process_is_raised():
    with pytest.raises(RuntimeError, match="allow_pickle"):
        run_tsne_process(np.array([None]), lambda: None)


@pytest.mark.parametrize(
    ("points", "message"),
    [(np.eye(3), "t-SNE needs at least . test images, not 3"), (np.ones((9, 4)), "All images")],
)
def test_tsne_rejects_too_few_or_equal_features(points, message):
    space = features.FeatureSpace("vit", None, points, 1.0, 1.0)
    with pytest.raises(DataError, match=message):
        features._compute_tsne(space, features.ignore_progress)


def test_both_scatter_plots_use_the_same_images_and_are_cached(context):
    messages, run = [], context.find_run("vit")
    assert features.find_cached_planes(context, run, 14) is None
    pixels, learned = features.load_planes(
        context, run, 14, lambda _, message: messages.append(message)
    )
    assert [plane.name for plane in (pixels, learned)] == ["Raw pixels", "vit"]
    assert pixels.sample is learned.sample
    assert pixels.places.shape == (14, 2)
    assert {message for message in messages if message.startswith("Raw")} == {"Raw pixels: t-SNE"}
    assert any(message.startswith("vit: features of") for message in messages)
    _, cached = features.load_planes(context, run, 14)
    (single,) = features.load_planes(context, None, 14)
    assert cached is learned and single is pixels
    again = features.find_cached_planes(context, run, 14)
    assert again == [pixels, learned]
    assert features.find_cached_planes(context, context.find_run("resnet"), 14) is None


def test_progress_callback_cancels_both_scatter_plots(context):
    def stop(fraction, message):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        features.load_planes(context, context.find_run("vit"), 13, stop)


def test_nearest_neighbours_equal_a_plain_loop():
    random = np.random.default_rng(2)
    points, query = random.normal(size=(9, 4)), random.normal(size=4)
    cosines = [
        sum(a * b for a, b in zip(p, query, strict=True)) / math.hypot(*p) / math.hypot(*query)
        for p in points
    ]
    expected = sorted(range(9), key=lambda i: -cosines[i])[:4]
    indices, similarities = features.find_nearest(points, query, 4)
    assert indices.tolist() == expected
    assert similarities == pytest.approx([cosines[i] for i in expected])


@pytest.mark.parametrize("name", ["vit", "resnet", None])
def test_test_image_is_its_own_nearest_neighbour(context, name):
    image = context.load_test_image(10).image
    run = context.find_run(name) if name else None
    sample, indices, cosines = features.find_neighbours(context, run, image)
    assert features.has_feature_space(context, run)
    assert sample.indices[indices[0]] == 10
    assert cosines[0] == pytest.approx(1, abs=1e-3)
    assert len(indices) == 8 and (np.diff(cosines) <= 0).all()


def test_maps_are_read_from_the_run_folder_while_weights_and_images_fit(context, tmp_path):
    run = context.find_run("vit")
    planes = features.load_planes(context, run, 14)
    copy = shutil.copytree(run.path, tmp_path / "vit")
    stored, sample = runs.read_run(copy), planes[0].sample
    assert tsne_file.read_planes(stored, sample) is None  # there is no file
    tsne_file.write_planes(stored, planes)
    for found, plane in zip(tsne_file.read_planes(stored, sample), planes, strict=True):
        assert (found.name, found.dimension) == (plane.name, plane.dimension)
        assert found.purity == pytest.approx(plane.purity)
        np.testing.assert_allclose(found.places, plane.places, atol=5e-4)  # float16
    assert tsne_file.read_planes(stored, features.load_sample(context, 13)) is None
    (copy / runs.WEIGHTS_FILE).write_bytes(b"other weights")
    assert tsne_file.read_planes(stored, sample) is None
    (copy / tsne_file.TSNE_FILE).write_bytes(b"damaged")
    assert tsne_file.read_planes(stored, sample) is None
