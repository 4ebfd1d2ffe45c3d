"""Results of the section "Inside the model" against direct calls of the model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.support.factories import (
    VIT,
    make_context,
    make_run,
    noise,
    timm_spec,
    write_noise_images,
)
from vitdemo import runs
from vitdemo.analyses import attention_distance, head_ablation, weights
from vitdemo.context import AppContext
from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.data.photos import example_files
from vitdemo.errors import DataError, RunError
from vitdemo.explain import statistics
from vitdemo.explain.head_ablation import ablate_heads, compute_head_means
from vitdemo.explain.logit_lens import compute_logit_lens
from vitdemo.metrics.paired import mcnemar


@pytest.fixture(scope="module")
def with_pictures(tmp_path_factory):
    """AppContext of one run with a dataset of 80 test images."""
    root = tmp_path_factory.mktemp("with_pictures")
    run = make_run(root / "runs" / "vit")
    counts = {f"{part}/{name}": 8 for part in ("train", "test") for name in run.classes}
    context = make_context(root / "runs", data_root=write_noise_images(root / "data", counts))
    balance_predictions(context, run)
    return context


@torch.no_grad()
def balance_predictions(context: AppContext, run: runs.Run) -> None:
    """Rescale the classifier head, so that the random weights predict several classes."""
    model, images = runs.load_model(run), [context.load_test_image(n).image for n in range(80)]
    logits = [model(context.prepare_input(run.preprocessing, image)[1])[0] for image in images]
    logits = torch.stack(logits)  # (N, C)
    model.head.bias -= logits.mean(0)
    model.head.weight *= 3 / logits.std()  # float16 rounding must not decide
    model.head.bias *= 3 / logits.std()
    runs.write_weights(run.path, model.state_dict())


@pytest.mark.parametrize(("name", "shape"), [("vit", (3, 2)), ("timm", (2, 3))])
def test_head_effect_equals_the_prediction_without_the_head(shown, name, shape):
    run = shown.find_run(name)
    effects = head_ablation.compute_head_effects(shown, run, noise(1))
    before = shown.predict(run, noise(1)).probabilities
    unchanged = head_ablation.predict_without_heads(shown, run, noise(1), ())
    assert np.allclose(unchanged, before, atol=1e-5)
    assert effects.target == before.argmax()
    assert effects.logit_change.shape == effects.probability_change.shape == shape
    without = head_ablation.predict_without_heads(shown, run, noise(1), {(1, 0)})
    change = without[effects.target] - before[effects.target]
    assert effects.probability_change[1, 0] == pytest.approx(change, abs=1e-5)
    expected = np.log(without) - np.log(without[0]) - np.log(before) + np.log(before[0])
    difference = effects.ablated_logits[1, 0] - effects.logits
    assert np.allclose(difference - difference[0], expected, atol=1e-3)


def test_mean_ablation_uses_test_images_or_example_photos(shown, with_pictures):
    def check(context, image, others, source):
        run = context.find_run("vit")
        model = context.load_model(run)
        effects = head_ablation.compute_head_effects(context, run, image)
        assert effects.mean_source == source
        _, pixels = context.prepare_input(run.preprocessing, image)
        means = compute_head_means(model, others)
        expected = ablate_heads(model, pixels, {(2, 1)}, means)[0].detach()
        assert np.allclose(effects.ablated_logits[2, 1], expected, atol=1e-5)
        zero = head_ablation.compute_head_effects(context, run, image, "zero")
        assert zero.mean_source is None
        assert not np.allclose(effects.ablated_logits, zero.ablated_logits, atol=1e-3)

    run, count = shown.find_run("vit"), len(example_files())
    photos = [crop_visible_square(load_image(file)) for file in example_files()]
    inputs = torch.cat([shown.prepare_input(run.preprocessing, each)[1] for each in photos])
    reason = "photos, because no test images are available"
    check(shown, noise(1), inputs, f"{count} {reason}")
    check(shown, photos[0], inputs[1:], f"{count - 1} {reason}")
    run = with_pictures.find_run("vit")
    sample = with_pictures.sample_test_images(run, 32).images
    check(with_pictures, noise(1), run.preprocessing(sample), "32 test images")
    with pytest.raises(RunError, match="'noise' for a head: choose one of mean, zero"):
        head_ablation.compute_head_effects(with_pictures, run, noise(1), "noise")


def test_accuracy_without_heads_uses_the_same_test_images(with_pictures):
    run, heads = with_pictures.find_run("vit"), {(0, 0), (2, 1)}
    steps = list(head_ablation.measure_accuracy_without_heads(with_pictures, run, heads))
    assert [step.done for step in steps] == [50, 80, 130, 160, 160]
    assert {step.total for step in steps} == {160}
    assert all(step.test is None for step in steps[:-1])
    before, after = [], []
    for number in range(80):
        test = with_pictures.load_test_image(number)
        label = run.classes.index(test.label)
        complete = with_pictures.predict(run, test.image).probabilities
        without = head_ablation.predict_without_heads(with_pictures, run, test.image, heads)
        before.append(complete.argmax() == label)
        after.append(without.argmax() == label)
    assert steps[-1].test == mcnemar(np.array(after), np.array(before))
    assert before != after and 0 < sum(after) < 80
    *_, last = head_ablation.measure_accuracy_without_heads(with_pictures, run, heads)
    assert (last.total, last.test) == (80, steps[-1].test)  # the first accuracy is cached


def test_diverged_model_is_named_in_the_error(tmp_path):
    run = make_run(tmp_path / "bad")
    weights = runs.load_model(run).state_dict()
    weights["head.bias"][:] = float("nan")
    runs.write_weights(run.path, weights)
    context = make_context(tmp_path)
    run = context.find_run("bad")
    with pytest.raises(RunError, match="'bad' predicts NaN"):
        compute_logit_lens(context.load_model(run), context.trace_image(run, noise(0)))
    with pytest.raises(RunError, match="'bad' predicts NaN"):
        head_ablation.compute_head_effects(context, run, noise(0))


def test_accuracy_without_heads_needs_test_images_and_attention_heads(shown, with_pictures):
    with pytest.raises(DataError, match="--data"):
        next(head_ablation.measure_accuracy_without_heads(shown, shown.find_run("vit"), {(0, 0)}))
    steps = head_ablation.measure_accuracy_without_heads(
        with_pictures, shown.find_run("resnet"), ()
    )
    with pytest.raises(RunError, match=r"'resnet' .* no attention heads"):
        next(steps)


def test_attention_distances_use_the_image_without_a_test_set(shown):
    distances = attention_distance.compute_distances(shown, shown.find_run("vit"), noise(3))
    assert (distances.heads.shape, distances.num_images) == ((3, 2), 1)
    trace = shown.trace_image(shown.find_run("vit"), noise(3))
    expected = statistics.mean_attention_distance(trace.attention, (4, 4), 1) / 4
    assert np.allclose(distances.heads, expected)


def test_attention_distances_are_the_mean_over_test_images(with_pictures, monkeypatch):
    run = with_pictures.find_run("vit")
    distance = attention_distance.compute_distances(with_pictures, run, noise(4))
    assert distance.num_images == 32
    monkeypatch.setattr(attention_distance, "NUM_DISTANCE_IMAGES", 80)
    all_images = attention_distance.compute_distances(with_pictures, run, noise(4))
    images = (with_pictures.load_test_image(i).image for i in range(80))
    expected = [with_pictures.trace_image(run, image).distances / 4 for image in images]
    assert np.allclose(all_images.heads, np.mean(expected, 0), atol=1e-5)
    lengths = [np.hypot(i // 4 - j // 4, i % 4 - j % 4) for i in range(16) for j in range(16)]
    assert distance.uniform == pytest.approx(np.mean(lengths) / 4)


def test_position_similarity_needs_learned_positions(shown, tmp_path):
    similarity, grid, start = weights.compute_position_similarity(shown, shown.find_run("timm"))
    assert start == "random"
    mimetic = replace(VIT, options=VIT.options | {"init": "mimetic"})
    changed = replace(shown.find_run("vit"), spec=mimetic)
    assert weights.compute_position_similarity(shown, changed)[2] == "mimetic"
    changed = replace(changed, spec=VIT, config=changed.config | {"started_from": {"seconds": 1}})
    assert weights.compute_position_similarity(shown, changed)[2] == "weights"
    assert similarity.shape == (16, 16) and grid == (4, 4)
    assert np.allclose(similarity.diagonal(), 1)
    with pytest.raises(RunError, match="'resnet' is not a Vision Transformer"):
        weights.compute_position_similarity(shown, shown.find_run("resnet"))
    make_run(tmp_path / "nowhere", timm_spec(pos_embed="none"))
    context = make_context(tmp_path)
    with pytest.raises(RunError, match=r"'nowhere': .* no learned position embedding"):
        weights.compute_position_similarity(context, context.find_run("nowhere"))


@pytest.mark.parametrize(
    ("name", "count", "largest", "side"),
    [("vit", 24, 24, 4), ("timm", 48, 48, 8), ("resnet", 64, 64, 3)],
)
def test_first_filters_support_every_model_family(shown, name, count, largest, side):
    filters = weights.load_first_filters(shown, shown.find_run(name))
    assert filters.count == count
    assert filters.largest.shape == (largest, 3, side, side)
    assert (np.diff(filters.norms) <= 0).all()
    rank = min(28, count, 3 * side**2)
    assert filters.principal.shape == (rank, 3, side, side)
    assert filters.explained_variance.shape == (rank,)
    assert min(filters.largest.min(), filters.principal.min()) >= 0
    assert max(filters.largest.max(), filters.principal.max()) <= 1
