"""The sanity checks and the file of stored scores."""

import copy
import json

import numpy as np
import pytest
import timm
import torch
from scipy.stats import spearmanr, ttest_1samp
from torch.testing import assert_close

from tests.support.factories import RESNET, TIMM, TIMM_KINDS, VIT, make_run, random_model
from vitdemo.explain import attributions
from vitdemo.explain.attributions import attribute_many
from vitdemo.explain.faithfulness import CENTRE_BASELINE, EDGE_BASELINE
from vitdemo.explain.faithfulness.sanity import (
    NUM_CHECKS,
    PROGRESS_STEPS,
    MapCheck,
    add_grey_noise,
    check_maps,
    list_stages,
    randomise_in_stages,
    rank_correlation,
)
from vitdemo.explain.faithfulness.summary import (
    FILE,
    find_best_maps,
    read_summaries,
    summarise_scores,
    write_summaries,
)
from vitdemo.models import list_classifier_heads, list_layers


@pytest.mark.parametrize("spec", [VIT, TIMM, RESNET, *TIMM_KINDS.values()])
def test_stages_randomise_from_the_classifier_head_to_the_first_layer(spec):
    model = random_model(spec)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter.data)  # equal values have no other order
    before = copy.deepcopy(model.state_dict())
    layers, stages = list_layers(model), list_stages(model)
    assert stages[0] == 0 and stages[-1] == len(layers) and (*sorted(set(stages)),) == stages
    for stage, other in zip(stages, randomise_in_stages(model, stages, 1), strict=True):
        assert all(map(changes_at, list_classifier_heads(model), list_classifier_heads(other)))
        changed = [*map(changes_at, layers, list_layers(other))]
        assert changed == [False] * (len(layers) - stage) + [True] * stage
    for own, new in zip(model.parameters(), other.parameters(), strict=True):
        assert_close(own.flatten().sort().values, new.flatten().sort().values, rtol=0, atol=0)
    assert_close(model.state_dict(), before, rtol=0, atol=0)
    *_, again = randomise_in_stages(model, stages, 1)
    assert_close(again.state_dict(), other.state_dict(), rtol=0, atol=0)
    *_, different = randomise_in_stages(model, stages, 2)
    assert all(map(changes_at, layers, list_layers(different)))
    assert changes_at(again, different)


def changes_at(own, other) -> bool:
    """Return whether the parameters of `other` have another order."""
    pairs = zip(own.parameters(), other.parameters(), strict=True)
    return any(not torch.equal(*pair) for pair in pairs)


def test_layers_of_models_without_blocks_are_their_children():
    model = timm.create_model("convnext_atto", pretrained=False, num_classes=4)
    names = {id(module): name for name, module in model.named_modules()}
    found = [names[id(layer)] for layer in list_layers(model)]
    assert found == ["stem.0", "stem.1", "stages.0", "stages.1", "stages.2", "stages.3"]


@pytest.mark.parametrize("spec", [VIT, TIMM, RESNET, *TIMM_KINDS.values()])
def test_checks_equal_single_attributions(spec):
    model = random_model(spec)
    image = torch.randn(1, 3, spec.image_size, spec.image_size)
    methods = [method.name for method in attributions.list_methods(model) if not method.is_slow]
    maps = {name: own[0] for name, own in attribute_many(methods, model, image, 3).items()}
    std = 0.5, 0.25, 0.2
    with torch.inference_mode():  # a caller may use it
        checks = check_maps(model, image, maps, 3, 5, std, count=2)
    assert [*checks] == methods
    noisy = attribute_many(methods, model, add_grey_noise(image, std, 2), 3)
    other = attribute_many(methods, model, image, 5)
    for name, check in checks.items():
        assert check.noise == pytest.approx(spearman(maps[name], noisy[name]), nan_ok=True)
        specific = attributions.METHODS[name].is_class_specific
        assert (check.runner_up is not None) == specific
        if specific:
            expected = spearman(maps[name], other[name])[0]
            assert check.runner_up == pytest.approx(expected, nan_ok=True)
        assert check.layers == list_stages(model)
        assert check.cascade.shape == (len(check.layers), 2)
    for seed in range(2):
        for k, random in enumerate(randomise_in_stages(model, list_stages(model), seed)):
            expected = attribute_many(methods, random, image, 3)
            for name, check in checks.items():
                value = spearman(maps[name], expected[name])[0]
                assert check.cascade[k, seed] == pytest.approx(value, abs=1e-6, nan_ok=True)


def spearman(own, maps) -> list[float]:
    if own.max() == own.min():
        return [np.nan] * len(maps)
    return [
        spearmanr(own.flatten(), each.flatten()).statistic if each.max() > each.min() else np.nan
        for each in maps
    ]


def test_attention_maps_do_not_depend_on_the_classifier_head():
    model = random_model(VIT)
    image = torch.randn(1, 3, VIT.image_size, VIT.image_size)
    maps = {name: own[0] for name, own in attribute_many(["rollout"], model, image, 0).items()}
    check = check_maps(model, image, maps, 0, 1, (1, 1, 1))["rollout"]
    assert check.cascade[0] == pytest.approx(1) and check.cascade_means[-1] < 0.9
    assert check.cascade.shape[1] == NUM_CHECKS


def test_slow_checks_report_their_progress():
    model = random_model(VIT)
    image = torch.randn(1, 3, VIT.image_size, VIT.image_size)
    maps = {"occlusion": attributions.attribute("occlusion", model, image, 3)[0]}
    steps = []
    check_maps(model, image, maps, 3, 5, (1, 1, 1), count=1, on_step=lambda *at: steps.append(at))
    done = [done for done, _ in steps]
    assert done == sorted(done) and done[0] == 0 and steps[-1] == (PROGRESS_STEPS, PROGRESS_STEPS)
    assert len(set(done)) > 2 + len(list_stages(model))

    def stop(done: int, total: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        check_maps(model, image, maps, 3, 5, (1, 1, 1), count=1, on_step=stop)


def test_noise_changes_each_grey_level_by_one_or_two():
    std = 0.5, 0.25, 0.2
    image = torch.randn(1, 3, 16, 16)
    changes = 255 * torch.tensor(std).view(3, 1, 1) * (add_grey_noise(image, std, 4) - image)
    levels = changes.round()
    assert_close(changes, levels, rtol=0, atol=1e-3)
    counts = torch.stack([(levels == each).float().mean() for each in (-2, -1, 1, 2)])
    assert_close(counts, torch.full((4,), 0.25), rtol=0, atol=0.03)
    assert not torch.equal(changes[0], changes[1])


def test_means_ignore_uniform_maps():
    check = MapCheck(
        np.array([0.5, np.nan]), (0, 1), np.array([[1.0, 0.5], [np.nan, np.nan]]), None
    )
    assert check.noise_ceiling == 0.5
    assert check.cascade_means == [0.75, pytest.approx(np.nan, nan_ok=True)]


def test_rank_correlation_equals_spearman():
    random = torch.Generator().manual_seed(0)
    first = torch.randn(6, 6, generator=random)
    second = (first + torch.randn(6, 6, generator=random)).clamp(min=0)  # many ties
    expected = spearmanr(first.flatten(), second.flatten()).statistic
    assert rank_correlation(first, second) == pytest.approx(expected)
    assert rank_correlation(first, first.exp()) == pytest.approx(1)
    assert np.isnan(rank_correlation(first, torch.ones(6, 6)))


def make_scores(seed=0, n=200):
    """Create scores of a leader, a tie with it, a less faithful map and both baselines."""
    random = np.random.default_rng(seed)
    base = random.normal(0.2, 0.1, n)
    return {
        "leader": base + 0.1,
        "tie": base + 0.1 + random.normal(-0.001, 0.05, n),
        "behind": base + 0.06 + random.normal(0, 0.05, n),
        CENTRE_BASELINE: base,
        EDGE_BASELINE: base - 0.05 + random.normal(0, 0.02, n),
    }


def test_best_maps_are_those_not_significantly_below_the_top_map():
    assert set(find_best_maps(make_scores())) == {"leader", "tie"}
    for baseline in (CENTRE_BASELINE, EDGE_BASELINE):
        near = make_scores() | {baseline: make_scores()["leader"] + 0.001}
        assert find_best_maps(near) == ()  # nothing is above this baseline


def test_best_maps_use_holm_correction():
    """A difference of p = 0.03 alone is not significant among several comparisons."""
    random = np.random.default_rng(3)
    base = random.normal(0.2, 0.1, 100)
    noise = random.normal(0, 1, 100)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    differences = 0.01 * (noise + 2.2 / 10)  # t = 2.2 with 99 degrees of freedom: p = 0.03
    assert ttest_1samp(differences, 0).pvalue == pytest.approx(0.03, abs=0.001)
    far = base - 0.5 + random.normal(0, 0.01, 100)
    scores = {"map": base, CENTRE_BASELINE: base - differences, EDGE_BASELINE: far}
    assert find_best_maps(scores) == ("map",)  # Holm: the second of two tests is not corrected
    both = scores | {EDGE_BASELINE: base - np.roll(differences, 1)}
    assert find_best_maps(both) == ()  # two tests of p = 0.03: 0.06 each


def test_measured_results_are_valid_only_for_their_weights(tmp_path):
    run = make_run(tmp_path / "run")
    assert read_summaries(run.path) == {}
    layers = np.array([[0.1, 0.5, -0.2], [0.3, 0.5, 0.0]])
    summaries = {"drop": summarise_scores(make_scores(), layers, steps=16, part="validation")}
    assert summaries["drop"].layers == (0.2, 0.5, -0.1)
    write_summaries(run.path, summaries, machine="one")
    assert read_summaries(run.path) == summaries and summaries["drop"].pictures == 200
    assert summaries["drop"].best and EDGE_BASELINE in summaries["drop"].scores
    (run.path / FILE).write_bytes(b"\xef\xbb\xbf" + (run.path / FILE).read_bytes())
    assert read_summaries(run.path) == summaries  # some Windows editors add this mark
    other = make_run(tmp_path / "other", seed=1)
    (other.path / FILE).write_text((run.path / FILE).read_text())
    assert read_summaries(other.path) == {}  # other weights


def test_measured_file_without_edge_map_has_no_best_map(tmp_path):
    run = make_run(tmp_path / "run")
    write_summaries(run.path, {"drop": summarise_scores(make_scores(), np.zeros((2, 0)))})
    content = json.loads((run.path / FILE).read_text())
    stored = content["fills"]["drop"]
    del stored["scores"][EDGE_BASELINE], stored["steps"], stored["part"]
    (run.path / FILE).write_text(json.dumps(content | {"steps": 4}))
    measured = read_summaries(run.path)["drop"]
    assert measured.best == () and measured.scores["leader"] == stored["scores"]["leader"]
    assert (measured.steps, measured.part) == (4, "test")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weights": 1, "fills": []}', "\x00"])
def test_damaged_measured_file_is_ignored(tmp_path, text):
    run = make_run(tmp_path / "run")
    (run.path / FILE).write_text(text)
    assert read_summaries(run.path) == {}
    write_summaries(run.path, {"mean": summarise_scores(make_scores(), np.zeros((2, 0)))})
    content = json.loads((run.path / FILE).read_text())
    content["fills"] = {"mean": {"pictures": "many", "scores": {}, "best": []}}
    (run.path / FILE).write_text(json.dumps(content))
    assert read_summaries(run.path) == {}
