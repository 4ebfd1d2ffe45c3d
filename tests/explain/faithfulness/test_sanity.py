"""The sanity checks and the file of stored scores."""

import copy
import json

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr, ttest_1samp
from torch.testing import assert_close

from tests.support.factories import RESNET, TIMM, TIMM_KINDS, VIT, make_run, random_model
from vitdemo.explain import attributions
from vitdemo.explain.faithfulness import CENTRE_BASELINE, EDGE_BASELINE
from vitdemo.explain.faithfulness.sanity import (
    RANDOM_HEAD_PATH_STEPS,
    compare_with_random_heads,
    compute_random_head_maps,
    randomise_head,
    rank_correlation,
)
from vitdemo.explain.faithfulness.summary import (
    FILE,
    find_best_maps,
    read_summaries,
    summarise_scores,
    write_summaries,
)


@pytest.mark.parametrize("spec", [VIT, TIMM, RESNET])
def test_randomised_head_changes_only_the_classifier_head(spec):
    model = random_model(spec)
    before = copy.deepcopy(model.state_dict())
    other = randomise_head(model, 1)
    weights, random = model.state_dict(), other.state_dict()
    assert_close(weights, before, rtol=0, atol=0)
    assert_close(random, randomise_head(model, 1).state_dict(), rtol=0, atol=0)
    changed = {name for name in weights if not torch.equal(weights[name], random[name])}
    weight = "fc.weight" if spec is RESNET else "head.weight"
    assert weight in changed <= {weight, weight.replace("weight", "bias")}
    assert float(random[weight].std()) == pytest.approx(float(weights[weight].std()), rel=0.3)
    with pytest.raises(TypeError, match="VisionTransformer has no linear classifier head"):
        randomise_head(random_model(TIMM, classes=0), 0)


@pytest.mark.parametrize("spec", [VIT, TIMM, RESNET, *TIMM_KINDS.values()])
def test_maps_of_random_heads_equal_one_attribution_per_head(spec):
    model = random_model(spec)
    image = torch.randn(1, 3, spec.image_size, spec.image_size)
    methods = [m.name for m in attributions.list_methods(model) if m.is_class_specific]
    steps, settings = [], {"count": 3, "on_step": lambda *at: steps.append(at)}
    with torch.inference_mode():  # a caller may use it
        maps = compute_random_head_maps(model, image, methods, 3, **settings)
    assert list(maps) == methods
    assert not steps or steps[-1][0] == steps[-1][1]  # a ResNet's map is fast
    for seed in range(3):
        head, settings = randomise_head(model, seed), {"path_steps": RANDOM_HEAD_PATH_STEPS}
        for name in methods:
            expected = attributions.attribute(name, head, image, 3, **settings)
            assert_close(maps[name][seed], expected[0], rtol=1e-3, atol=1e-5)
        assert model.num_classes == 10  # the model itself is unchanged


def test_head_check_compares_with_similarity_between_random_heads():
    random = torch.randn(19, 5, 5, generator=torch.Generator().manual_seed(0))
    values = random.mean(0)  # more similar to each map than they are to each other
    check = compare_with_random_heads(values, random)
    expected = [spearmanr(values.flatten(), other.flatten()).statistic for other in random]
    assert check.map_correlations == pytest.approx(expected)
    first, second = np.triu_indices(19, 1)
    pairs = zip(random[first].flatten(1), random[second].flatten(1), strict=True)
    assert check.head_correlations == pytest.approx([spearmanr(*pair).statistic for pair in pairs])
    assert check.p_value == 1 / 20
    assert compare_with_random_heads(-values, random).p_value == 1
    uniform = compare_with_random_heads(torch.ones(5, 5), random)
    assert not uniform.is_defined and np.isnan(uniform.p_value)
    some = compare_with_random_heads(values, torch.cat([random[:4], torch.zeros(2, 5, 5)]))
    assert some.is_defined and np.isnan(some.map_correlations).sum() == 2 and some.p_value == 1 / 5


def test_head_check_has_the_stated_false_positive_rate():
    shared = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))  # depends on the image
    p = []
    for seed in range(400):
        noise = torch.randn(20, 4, 4, generator=torch.Generator().manual_seed(seed))
        p.append(compare_with_random_heads((shared + noise)[0], (shared + noise)[1:]).p_value)
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.025)
    assert np.mean(p) == pytest.approx(0.525, abs=0.04)  # ranks 1 to 20 are equally likely


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
