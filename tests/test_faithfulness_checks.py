"""Imputation, SaCo, the sanity checks and the file of what was measured."""

import copy
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch.testing import assert_close

from tests.making import RESNET, TIMM, VIT, make_run, random_model
from tests.test_attention import build_timm, pictures
from vitdemo.faithfulness import CENTRE, answers
from vitdemo.faithfulness.imputation import imputed
from vitdemo.faithfulness.measured import FILE, best_of, read_measured, summed_up, write_measured
from vitdemo.faithfulness.saco import coefficient, group_of, saco
from vitdemo.faithfulness.sanity import randomised_head, rank_correlation


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
    with pytest.raises(TypeError, match="Identity has no linear last layer"):
        randomised_head(torch.nn.Identity())


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
    }


def test_best_are_all_that_are_not_told_apart_from_the_best():
    assert set(best_of(scores())) == {"leader", "tie"}
    near = scores() | {CENTRE: scores()["leader"] + 0.001}
    assert best_of(near) == ()  # nothing is beyond an order from the centre out


def test_what_was_measured_travels_with_its_weights(tmp_path):
    run = make_run(tmp_path / "run")
    assert read_measured(run.path) == {}
    layers = np.array([[0.1, 0.5, -0.2], [0.3, 0.5, 0.0]])
    written = {"drop": summed_up(scores(), layers)}
    assert written["drop"].layers == (0.2, 0.5, -0.1)
    write_measured(run.path, written, steps=4)
    assert read_measured(run.path) == written and written["drop"].pictures == 200
    (run.path / FILE).write_bytes(b"\xef\xbb\xbf" + (run.path / FILE).read_bytes())
    assert read_measured(run.path) == written  # an editor on Windows has put the mark there
    other = make_run(tmp_path / "other", seed=1)
    (other.path / FILE).write_text((run.path / FILE).read_text())
    assert read_measured(other.path) == {}  # of other weights


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
