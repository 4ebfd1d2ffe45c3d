"""Imputation, SaCo, the sanity checks and the file of what was measured."""

import copy
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr, ttest_1samp
from torch.testing import assert_close

from tests.making import KINDS, RESNET, TIMM, VIT, make_run, random_model
from tests.test_attention import build_timm, pictures
from vitdemo import attributions
from vitdemo.faithfulness import CENTRE, EDGES, answers
from vitdemo.faithfulness.imputation import imputed
from vitdemo.faithfulness.measured import FILE, best_of, read_measured, summed_up, write_measured
from vitdemo.faithfulness.saco import coefficient, group_of, saco
from vitdemo.faithfulness.sanity import (
    PATH_STEPS,
    check_heads,
    random_head_maps,
    randomised_head,
    rank_correlation,
)


def test_each_imputed_pixel_is_the_mean_of_its_neighbours():
    image = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    stays = torch.rand(1, 64, generator=torch.Generator().manual_seed(1)) < 0.5
    found = imputed(image, stays, (8, 8))[0].double()
    kept = stays.view(8, 8).repeat_interleave(4, 0).repeat_interleave(4, 1)
    assert torch.equal(found[:, kept].float(), image[0][:, kept])
    # Weights of the neighbours that are in the picture, by Rong et al. 2022: 1/6, and 1/12 across.
    weights = torch.tensor([[1.0, 2, 1], [2, 0, 2], [1, 2, 1]]).double()[None, None] / 12
    total = F.conv2d(found[:, None], weights, padding=1)[:, 0]
    inside = F.conv2d(torch.ones(1, 1, 32, 32).double(), weights, padding=1)[0]
    errors = (found - total / inside)[:, ~kept].abs().amax(dim=0)
    assert 0.001 < errors.mean() < 0.03  # the noise, and nothing else


def test_a_slope_is_foretold_and_large_pictures_are_solved_small():
    slope = torch.linspace(-1, 1, 112).expand(1, 3, 112, 112)
    stays = torch.ones(1, 49, dtype=torch.bool)
    stays[0, [16, 24, 32]] = False
    found = imputed(slope, stays, (7, 7))
    assert (found - slope).abs().max() < 0.15
    hole = ~stays.view(7, 7).repeat_interleave(16, 0).repeat_interleave(16, 1)
    assert (found - slope)[0][:, hole].abs().mean() < 0.03
    none = imputed(slope, torch.zeros_like(stays), (7, 7))
    assert none.abs().max() < 0.1  # the mean colour, and noise
    assert torch.equal(imputed(slope, torch.ones_like(stays), (7, 7)), slope)


def test_saco_by_hand():
    cost = torch.tensor([0.3, 0.1, 0.2])
    # pairs: 5-2 agrees, 5-1 agrees, 2-1 does not: (3 + 4 - 1) / 8
    assert coefficient(torch.tensor([5.0, 2.0, 1.0]), cost) == pytest.approx(6 / 8)
    assert coefficient(torch.tensor([5.0, 2.0, 1.0]), torch.tensor([3.0, 2, 1])) == 1
    assert coefficient(torch.tensor([5.0, 2.0, 1.0]), torch.tensor([1.0, 2, 3])) == -1
    assert np.isnan(coefficient(torch.ones(3), cost))
    assert group_of(torch.arange(6.0), 3).tolist() == [2, 2, 1, 1, 0, 0]


@torch.no_grad()
def test_saco_takes_each_group_away_alone():
    model = build_timm().double()
    image = pictures(model, batch=1).double()
    values = torch.rand(4, 4, generator=torch.Generator().manual_seed(0)).double()
    groups = values.flatten().argsort(descending=True).view(4, 4)
    stays = torch.ones(4, 16, dtype=torch.bool).scatter(1, groups, False)
    left = answers(model, image, stays, (4, 4), "drop").softmax(1)[:, 1]
    cost = model(image).softmax(1)[0, 1] - left
    expected = coefficient(values.flatten()[groups].sum(1), cost)
    found = saco(model, image, 1, {"own": values, "reverse": -values}, fill="drop", groups=4)
    assert found["own"] == pytest.approx(expected)
    assert found["reverse"] == pytest.approx(-expected)


@pytest.mark.parametrize("spec", [VIT, TIMM, RESNET])
def test_a_random_head_and_nothing_else(spec):
    model = random_model(spec)
    before = copy.deepcopy(model.state_dict())
    other = randomised_head(model, seed=1)
    own, head = model.state_dict(), other.state_dict()
    assert_close(own, before, rtol=0, atol=0)
    assert_close(head, randomised_head(model, seed=1).state_dict(), rtol=0, atol=0)
    changed = {name for name in own if not torch.equal(own[name], head[name])}
    weight = "fc.weight" if spec is RESNET else "head.weight"
    assert weight in changed <= {weight, weight.replace("weight", "bias")}
    assert float(head[weight].std()) == pytest.approx(float(own[weight].std()), rel=0.3)
    with pytest.raises(TypeError, match="Identity has no linear classifier head"):
        randomised_head(torch.nn.Identity())


@pytest.mark.parametrize("spec", [VIT, TIMM, RESNET, *KINDS.values()])
def test_maps_of_many_heads_are_those_of_each_head(spec):
    model = random_model(spec)
    image = torch.randn(1, 3, spec.image_size, spec.image_size)
    methods = [m.name for m in attributions.methods_for(model) if m.class_specific]
    steps, settings = [], {"count": 3, "on_step": lambda *at: steps.append(at)}
    with torch.inference_mode():  # as a caller may be in
        found = random_head_maps(model, image, methods, 3, **settings)
    assert list(found) == methods
    assert not steps or steps[-1][0] == steps[-1][1]  # a ResNet's map is a fast one
    for seed in range(3):
        head, settings = randomised_head(model, seed), {"path_steps": PATH_STEPS}
        for name in methods:
            own = attributions.attribute(name, head, image, 3, **settings)
            assert_close(found[name][seed], own[0], rtol=1e-3, atol=1e-5)
        assert attributions.class_count(model) == 10  # the model itself is as it was


def test_heads_are_checked_against_each_other():
    random = torch.randn(19, 5, 5, generator=torch.Generator().manual_seed(0))
    own = random.mean(0)  # more like each of them than they are like each other
    found = check_heads(own, random)
    expected = [spearmanr(own.flatten(), other.flatten()).statistic for other in random]
    assert found.own == pytest.approx(expected)
    first, second = np.triu_indices(19, 1)
    pairs = zip(random[first].flatten(1), random[second].flatten(1), strict=True)
    assert found.between == pytest.approx([spearmanr(*pair).statistic for pair in pairs])
    assert found.p == 1 / 20 and found.more_similar
    assert check_heads(-own, random).p == 1
    flat = check_heads(torch.ones(5, 5), random)
    assert not flat.is_defined and np.isnan(flat.p) and not flat.more_similar
    some = check_heads(own, torch.cat([random[:4], torch.zeros(2, 5, 5)]))
    assert some.is_defined and np.isnan(some.own).sum() == 2 and some.p == 1 / 5


def test_a_map_of_one_more_random_head_is_rarely_called_more_similar():
    shared = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))  # of the image
    p = []
    for seed in range(400):
        drawn = torch.randn(20, 4, 4, generator=torch.Generator().manual_seed(seed))
        p.append(check_heads((shared + drawn)[0], (shared + drawn)[1:]).p)
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.025)
    assert np.mean(p) == pytest.approx(0.525, abs=0.04)  # places 1 to 20 of 20 are equally likely


def test_rank_correlation_is_spearmans():
    random = torch.Generator().manual_seed(0)
    first = torch.randn(6, 6, generator=random)
    second = (first + torch.randn(6, 6, generator=random)).clamp(min=0)  # many ties
    expected = spearmanr(first.flatten(), second.flatten()).statistic
    assert rank_correlation(first, second) == pytest.approx(expected)
    assert rank_correlation(first, first.exp()) == pytest.approx(1)
    assert np.isnan(rank_correlation(first, torch.ones(6, 6)))


def scores(seed=0, n=200):
    """One clear leader and its tie, one behind, one no better than from the centre out."""
    random = np.random.default_rng(seed)
    base = random.normal(0.2, 0.1, n)
    return {
        "leader": base + 0.1,
        "tie": base + 0.1 + random.normal(-0.001, 0.05, n),
        "behind": base + 0.06 + random.normal(0, 0.05, n),
        CENTRE: base,
        EDGES: base - 0.05 + random.normal(0, 0.02, n),
    }


def test_best_are_all_that_are_not_told_apart_from_the_best():
    assert set(best_of(scores())) == {"leader", "tie"}
    for baseline in (CENTRE, EDGES):
        near = scores() | {baseline: scores()["leader"] + 0.001}
        assert best_of(near) == ()  # nothing is above this baseline


def test_best_are_found_by_holms_correction():
    """A difference of p = 0.03 alone is not significant among several comparisons."""
    random = np.random.default_rng(3)
    base = random.normal(0.2, 0.1, 100)
    edge = random.normal(0, 1, 100)
    edge = (edge - edge.mean()) / edge.std(ddof=1)
    differences = 0.01 * (edge + 2.2 / 10)  # t = 2.2 with 99 degrees of freedom: p = 0.03
    assert ttest_1samp(differences, 0).pvalue == pytest.approx(0.03, abs=0.001)
    far = base - 0.5 + random.normal(0, 0.01, 100)
    one = {"map": base, CENTRE: base - differences, EDGES: far}
    assert best_of(one) == ("map",)  # Holm: the second of two tests is not corrected
    both = one | {EDGES: base - np.roll(differences, 1)}
    assert best_of(both) == ()  # two tests of p = 0.03: 0.06 each


def test_what_was_measured_travels_with_its_weights(tmp_path):
    run = make_run(tmp_path / "run")
    assert read_measured(run.path) == {}
    layers = np.array([[0.1, 0.5, -0.2], [0.3, 0.5, 0.0]])
    written = {"drop": summed_up(scores(), layers, steps=16, part="validation")}
    assert written["drop"].layers == (0.2, 0.5, -0.1)
    write_measured(run.path, written, machine="one")
    assert read_measured(run.path) == written and written["drop"].pictures == 200
    assert written["drop"].best and EDGES in written["drop"].scores
    (run.path / FILE).write_bytes(b"\xef\xbb\xbf" + (run.path / FILE).read_bytes())
    assert read_measured(run.path) == written  # an editor on Windows has put the mark there
    other = make_run(tmp_path / "other", seed=1)
    (other.path / FILE).write_text((run.path / FILE).read_text())
    assert read_measured(other.path) == {}  # of other weights


def test_a_file_without_the_edge_map_names_no_best_map(tmp_path):
    run = make_run(tmp_path / "run")
    write_measured(run.path, {"drop": summed_up(scores(), np.zeros((2, 0)))})
    content = json.loads((run.path / FILE).read_text())
    found = content["fills"]["drop"]
    del found["scores"][EDGES], found["steps"], found["part"]
    (run.path / FILE).write_text(json.dumps(content | {"steps": 4}))
    measured = read_measured(run.path)["drop"]
    assert measured.best == () and measured.scores["leader"] == found["scores"]["leader"]
    assert (measured.steps, measured.part) == (4, "test")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weights": 1, "fills": []}', "\x00"])
def test_a_damaged_file_measures_nothing(tmp_path, text):
    run = make_run(tmp_path / "run")
    (run.path / FILE).write_text(text)
    assert read_measured(run.path) == {}
    write_measured(run.path, {"mean": summed_up(scores(), np.zeros((2, 0)))})
    content = json.loads((run.path / FILE).read_text())
    content["fills"] = {"mean": {"pictures": "many", "scores": {}, "best": []}}
    (run.path / FILE).write_text(json.dumps(content))
    assert read_measured(run.path) == {}
