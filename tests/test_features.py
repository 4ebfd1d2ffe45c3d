"""Features, distances, t-SNE and neighbours against plain loops and the models themselves."""

import math
import time

import numpy as np
import pytest
import torch

from tests.conftest import write_pictures
from tests.making import CONVNET, RESNET, TIMM, VIT, make_run, timm_spec
from vitdemo import features, models
from vitdemo.errors import DataError, RunError
from vitdemo.models import build_model, classifier
from vitdemo.tsne import tsne, tsne_apart
from vitdemo.workbench import Workbench

POOLED = timm_spec(depth=1, global_pool="avg", class_token=False)
COUNTS = {"train/ant": 2, "train/bee": 2, "test/ant": 9, "test/bee": 5}


@pytest.fixture(scope="module")
def workbench(shown_runs, tmp_path_factory):
    """One cache for all tests: where one asks for what is new, it has a sample of its own."""
    root = tmp_path_factory.mktemp("features")
    return Workbench([root, shown_runs], write_pictures(root / "data", COUNTS), torch.device("cpu"))


@pytest.mark.parametrize("spec", [VIT, TIMM, POOLED, RESNET, CONVNET])
@torch.no_grad()
def test_the_last_layer_answers_from_the_features(spec):
    torch.manual_seed(0)
    model = build_model(spec, 4).eval()
    images = torch.randn(3, 3, spec.image_size, spec.image_size)
    found = models.features(model, images)
    assert found.ndim == 2
    assert torch.allclose(classifier(model)(found), model(images), atol=1e-5)


@pytest.mark.parametrize("name", ["vit", "timm", "resnet"])
def test_a_space_holds_the_features_of_every_sampled_picture(workbench, name, monkeypatch):
    monkeypatch.setattr(features, "BATCH", 4)  # the last one is smaller
    run, told = workbench.run(name), []
    found = features.space(workbench, run, most=15, report=lambda share, _: told.append(share))
    assert told == [0, 4 / 14, 8 / 14, 12 / 14]
    pictures = found.sample.source.load("test", run.spec.image_size)
    assert np.array_equal(found.sample.labels, pictures.labels)
    with torch.no_grad():
        wanted = models.features(workbench.model(run), run.preprocessing(pictures.images))
    assert np.allclose(found.features, wanted, atol=1e-4)


def test_raw_pixels_are_a_space_too(workbench):
    found = features.space(workbench, None)
    assert found.name == "Raw pixels"
    assert found.features.shape == (14, 3 * features.SIDE**2)
    assert np.allclose(255 * found.features[3], found.sample.small[3].reshape(-1))


def test_a_space_is_computed_once_until_its_run_changes(workbench):
    run = make_run(workbench.roots[0] / "changing", VIT)
    first = features.space(workbench, run)
    assert features.space(workbench, run) is first
    changed = make_run(run.path, VIT, seed=9)
    assert features.space(workbench, changed) is not first


def test_nan_features_are_refused_by_name(workbench):
    run = make_run(workbench.roots[0] / "sick", VIT)
    torch.nn.init.constant_(workbench.model(run).norm.bias, float("nan"))
    with pytest.raises(RunError, match="features of 'sick' are not finite"):
        features.space(workbench, run)


def test_ratio_and_purity_equal_plain_loops():
    random = np.random.default_rng(0)
    points, labels = random.normal(size=(12, 5)), np.array([0] * 6 + [1] * 4 + [2] * 2)
    points += labels[:, None]
    inside, outside, pure = [], [], 0
    for i in range(12):
        lengths = {j: math.dist(points[i], points[j]) for j in range(12) if j != i}
        for j, length in lengths.items():
            (inside if labels[i] == labels[j] else outside).append(length)
        pure += labels[min(lengths, key=lengths.get)] == labels[i]
    distances = features.pair_distances(points)
    ratio = (sum(outside) / len(outside)) / (sum(inside) / len(inside))
    assert features.distance_ratio(distances, labels) == pytest.approx(ratio, abs=1e-12)
    assert features.nearest_purity(distances, labels) == pure / 12


def test_a_ratio_that_is_not_defined_is_nan():
    for points, labels in (
        ([[0.0], [1.0], [3.0]], [0, 0, 0]),  # one class: nothing between
        ([[0.0], [1.0]], [0, 1]),  # no class with two
        ([[0.0], [0.0], [1.0]], [0, 0, 1]),  # a class of one point
        ([[0.0]], [0]),
    ):
        distances = features.pair_distances(np.array(points))
        assert math.isnan(features.distance_ratio(distances, np.array(labels)))


def test_tsne_keeps_far_groups_apart_and_is_the_same_each_time():
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(3), 20)
    points = (30 * np.eye(60)[groups] + random.normal(size=(60, 60))).astype(np.float32)
    found = tsne(points)
    assert found.shape == (60, 2)
    assert found.min() >= 0 and found.max() <= 1
    assert features.nearest_purity(features.pair_distances(found), groups) == 1
    assert np.array_equal(found, tsne_apart(points, lambda: None))  # in another process, too


def test_tsne_ends_when_it_is_asked_to():
    class Enough(Exception):
        pass

    def waiting():
        raise Enough

    points = np.random.default_rng(0).normal(size=(2000, 200)).astype(np.float32)  # some seconds
    started = time.monotonic()
    with pytest.raises(Enough):
        tsne_apart(points, waiting)
    assert time.monotonic() - started < 2


def test_a_process_that_fails_is_told():
    with pytest.raises(RuntimeError, match="allow_pickle"):
        tsne_apart(np.array([None]), lambda: None)


@pytest.mark.parametrize(
    ("points", "words"),
    [(np.eye(3), "needs at least 4 test images"), (np.ones((9, 4)), "all images")],
)
def test_tsne_refuses_what_it_cannot_lay_out(points, words):
    found = features.Space("vit", None, points, 1.0, 1.0)
    with pytest.raises(DataError, match=words):
        features._laid_out(found, features.nothing)


def test_both_planes_are_of_the_same_pictures_and_computed_once(workbench):
    told = []
    pixels, learned = features.planes(workbench, "vit", 14, lambda _, words: told.append(words))
    assert [space.name for space, _ in (pixels, learned)] == ["Raw pixels", "vit"]
    assert pixels[0].sample is learned[0].sample
    assert pixels[1].shape == (14, 2)
    assert {words for words in told if words.startswith("Raw")} == {"Raw pixels: t-SNE"}
    assert any(words.startswith("vit: features of") for words in told)
    again = features.plane(workbench, workbench.run("vit"), most=14)
    (alone,) = features.planes(workbench, None, 14)
    assert again[0] is learned[0] and again[1] is learned[1]
    assert alone[0] is pixels[0] and alone[1] is pixels[1]


def test_what_the_report_raises_ends_both_planes(workbench):
    def stop(share, words):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        features.planes(workbench, "vit", 13, stop)


def test_nearest_equals_a_plain_loop():
    random = np.random.default_rng(2)
    points, query = random.normal(size=(9, 4)), random.normal(size=4)
    cosines = [
        sum(a * b for a, b in zip(p, query, strict=True)) / math.hypot(*p) / math.hypot(*query)
        for p in points
    ]
    wanted = sorted(range(9), key=lambda i: -cosines[i])[:4]
    places, found = features.nearest(points, query, 4)
    assert places.tolist() == wanted
    assert found == pytest.approx([cosines[i] for i in wanted])


@pytest.mark.parametrize("name", ["vit", "resnet", None])
def test_a_test_picture_is_its_own_nearest_neighbour(workbench, name):
    picture = workbench.test_picture(10).image
    sample, places, cosines = features.neighbours(workbench, name, picture, count=3)
    assert sample.indices[places[0]] == 10
    assert cosines[0] == pytest.approx(1, abs=1e-3)
    assert len(places) == 3 and (np.diff(cosines) <= 0).all()
