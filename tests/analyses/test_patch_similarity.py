"""Similar patches of runs compared with plain loops, and unsuitable models."""

import numpy as np
import pytest
import torch

from tests.support.factories import (
    RESNET,
    TIMM_KINDS,
    VIT,
    make_context,
    make_run,
    noise,
    timm_spec,
    write_noise_images,
)
from vitdemo import runs
from vitdemo.analyses import patch_similarity
from vitdemo.analyses.patch_similarity import (
    MAX_INDEX_BYTES,
    build_patch_index,
    colour_images,
    count_index_images,
    find_patch_index,
    get_patch_tokens,
    load_photo_colours,
)
from vitdemo.data.photos import example_files
from vitdemo.errors import DataError, RunError, Stopped
from vitdemo.explain.forward_pass import trace

KINDS = {"vit": VIT, "one layer": timm_spec(depth=1), **TIMM_KINDS}
IMAGES = [noise(1), noise(2, size=(90, 33))]  # of different sizes


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    root = tmp_path_factory.mktemp("similarity")
    for name, spec in KINDS.items():
        make_run(root / "runs" / name, spec)
    make_run(root / "runs" / "resnet", RESNET)
    run = make_run(root / "runs" / "broken")
    weights = runs.load_model(run).state_dict()
    weights["blocks.0.norm1.weight"][:] = float("nan")
    runs.write_weights(run.path, weights)
    counts = {f"{part}/{name}": 3 for part in ("train", "test") for name in run.classes}
    return make_context(root / "runs", data_root=write_noise_images(root / "data", counts))


def find_by_loops(context, run, layer, token, excluded):
    """Find image, patch and cosine of the ten best images, from the tokens of single images."""
    model, sample = context.load_model(run), patch_similarity.load_sample(context, 1000)
    token, found = np.asarray(token, np.float64), []
    for place, image in enumerate(sample.load_inputs(run)):
        if sample.indices[place] == excluded:
            continue
        with torch.no_grad():
            tokens = trace(model, run.preprocessing(image[None])).tokens[layer, 0]
        best = max(
            (float(own @ token / np.linalg.norm(own) / np.linalg.norm(token)), -patch)
            for patch, own in enumerate(np.asarray(tokens[model.num_prefix_tokens :], np.float64))
        )
        found.append((place, -best[1], best[0]))
    return sorted(found, key=lambda each: -each[2])[:10]


@pytest.mark.parametrize("name", KINDS)
def test_similar_patches_equal_those_of_plain_loops(context, name):
    run = context.find_run(name)
    own = context.trace_image(run, IMAGES[0])
    for layer in (1, own.num_layers):
        token, index = get_patch_tokens(own)[layer - 1, 5], build_patch_index(context, run, layer)
        for excluded in (None, 7):
            expected = find_by_loops(context, run, layer, token, excluded)
            found = index.find_similar(token, excluded=excluded)
            np.testing.assert_allclose(
                [each[2] for each in found], [each[2] for each in expected], atol=1e-3
            )
            cosines = {place: (patch, cosine) for place, patch, cosine in expected}
            for place, patch, cosine in found:
                if place in cosines:  # a place after the tenth can have almost the same cosine
                    assert cosine == pytest.approx(cosines[place][1], abs=1e-3)
                    assert patch == cosines[place][0] or cosine > cosines[place][1] - 1e-3
                else:
                    assert cosine == pytest.approx(expected[-1][2], abs=1e-3)
            numbers = index.sample.indices[[each[0] for each in found]].tolist()
            assert len({*numbers}) == 10 and excluded not in numbers


def test_a_test_image_is_most_similar_to_itself_unless_it_is_excluded(context):
    run = context.find_run("vit")
    index = build_patch_index(context, run, 2)
    token = index.tokens[4, 9]
    assert index.find_similar(token)[0][:2] == (4, 9)
    assert index.find_similar(token)[0][2] == pytest.approx(1, abs=1e-3)
    number = int(index.sample.indices[4])
    assert 4 not in [place for place, _, _ in index.find_similar(token, excluded=number)]


def test_few_images_give_few_patches(context):
    run = context.find_run("vit")
    index = build_patch_index(context, run, 1)
    few = patch_similarity.PatchIndex(index.sample, index.tokens)
    assert len(few.find_similar(index.tokens[0, 0], count=50)) == 30
    assert len(few.find_similar(index.tokens[0, 0], count=50, excluded=3)) == 29


def test_an_index_is_computed_once_with_progress(context):
    run, steps = context.find_run("distilled"), []
    context.cache = type(context.cache)(context.cache.max_bytes)
    assert find_patch_index(context, run, 2) is None

    def cancel(done, total):
        raise Stopped

    with pytest.raises(Stopped):
        build_patch_index(context, run, 2, cancel)
    assert find_patch_index(context, run, 2) is None
    index = build_patch_index(context, run, 2, lambda *step: steps.append(step))
    assert find_patch_index(context, run, 2) is index is build_patch_index(context, run, 2)
    assert steps == [(0, 30), (25, 30)]


def test_the_size_of_an_index_is_limited(context):
    def count(patches, width):
        model = type("Model", (), {"embed_dim": width})
        model.patch_embed = type("Patches", (), {"num_patches": patches})
        fake = type("Context", (), {"load_model": lambda self, run: model})()
        return count_index_images(fake, None)

    assert count(64, 192) == 1000
    assert count(256, 1024) == MAX_INDEX_BYTES // (2 * 256 * 1024) < 1000
    assert count(10**6, 10**6) == 1


@pytest.mark.parametrize("name", KINDS)
def test_images_of_different_sizes_share_their_axes(context, name):
    run = context.find_run(name)
    axes, colours = colour_images(context, run, IMAGES)
    L, P = get_patch_tokens(context.trace_image(run, IMAGES[0])).shape[:2]
    assert colours.shape == (L, 2, P, 3) and axes.ratios.shape == (L, 3)
    tokens = [get_patch_tokens(context.trace_image(run, each)) for each in IMAGES]
    for layer in range(L):
        fitted = np.concatenate([each[layer].numpy().astype(np.float64) for each in tokens])
        direction = np.linalg.svd(fitted - fitted.mean(0), full_matrices=False)[2][0]
        first = (fitted - fitted.mean(0)) @ direction
        first *= np.sign(first[np.abs(first).argmax()])
        low, high = np.percentile(first, [2, 98])
        expected = np.clip((first - low) / (high - low), 0, 1)
        np.testing.assert_allclose(colours[layer, ..., 0].flatten(), expected, atol=1e-3)


def test_the_axes_of_the_page_are_those_of_all_photos(context):
    axes, colours = load_photo_colours(context, context.find_run("vit"))
    assert colours.shape == (3, len(example_files()), 16, 3)
    assert load_photo_colours(context, context.find_run("vit"))[0] is axes  # cached


def test_unsuitable_models_and_layers_are_named(context):
    with pytest.raises(RunError, match="has no attention"):
        build_patch_index(context, context.find_run("resnet"), 1)
    with pytest.raises(RunError, match="has no attention"):
        load_photo_colours(context, context.find_run("resnet"))
    with pytest.raises(RunError, match="not finite"):
        build_patch_index(context, context.find_run("broken"), 1)
    with pytest.raises(RunError, match="contain NaN"):
        load_photo_colours(context, context.find_run("broken"))
    for layer in (0, 4):
        with pytest.raises(ValueError, match="choose 1 to 3"):
            build_patch_index(context, context.find_run("vit"), layer)


def test_without_a_dataset_there_is_no_index(context):
    bare = make_context(*context.roots)
    with pytest.raises(DataError):
        build_patch_index(bare, bare.find_run("vit"), 1)
