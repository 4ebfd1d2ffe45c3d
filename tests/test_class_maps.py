"""What the section "Why this class?" asks of runs and models, and its handlers' manners."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.making import CLASSES, RESNET, VIT, make_run, noise
from vitdemo import attributions, class_maps, faithfulness, runs
from vitdemo.class_maps import class_index, first_map, maps, truth
from vitdemo.errors import RunError, Stopped
from vitdemo.faithfulness.measured import Measured, write_measured
from vitdemo.faithfulness.sanity import (
    RANDOM_HEADS,
    HeadCheck,
    randomised_head,
    rank_correlation,
)
from vitdemo.page.components.article import Text
from vitdemo.page.kit import Stops
from vitdemo.page.look.class_maps import choices, drawing, drawn
from vitdemo.training.devices import autocast_helps
from vitdemo.workbench import Workbench

CPU = torch.device("cpu")
QUICK = ["relevance", "gradient_rollout", "grad_cam", "attention", "rollout"]


@pytest.fixture(scope="module")
def ask(shown):
    """ask(seed, name="vit", **settings of `maps`) -> the maps of that picture, the quick ones."""

    def ask(seed, name="vit", **settings):
        settings = {"slow": False, **settings}
        return maps(shown, shown.run(name), noise(seed), **settings)

    return ask


def names(found):
    return [m.method.name for m in found.maps]


def values(found):
    return {m.method.name: m.values for m in found.maps}


def test_maps_are_those_of_attribute_for_the_predicted_class(shown, ask, monkeypatch):
    run, found = shown.run("vit"), ask(0, slow=True)
    _, pixels = shown.input(run.preprocessing, noise(0))
    assert found.target == int(found.probabilities.argmax()) and found.against is None
    assert names(found) == list(attributions.METHODS)  # nothing was measured of this run
    expected = attributions.attribute_many(names(found), shown.model(run), pixels, found.target)
    for name, own in values(found).items():
        assert np.allclose(own, expected[name][0], atol=1e-6), name
    monkeypatch.setattr(attributions, "attribute_many", None)  # it is not made again
    again = values(ask(0, slow=True))
    assert all(own is again[name] for name, own in values(found).items())


def test_contrast_is_signed_where_the_class_matters(ask):
    found = ask(0, target="cat", against="dog", slow=True)
    cat, dog = (values(ask(0, target=name, slow=True)) for name in ("cat", "dog"))
    assert found.named == "cat and not dog"
    for drawn_map in found.maps:
        method = drawn_map.method
        expected = cat[method.name] - dog[method.name] * method.class_specific
        assert np.allclose(drawn_map.values, expected, atol=1e-5), method.name
        assert drawn_map.signed is method.class_specific


def test_without_the_slow_ones_unless_they_are_known(ask):
    assert sorted(names(ask(101))) == sorted(QUICK)
    ask(101, slow=True)
    assert len(names(ask(101))) == 7
    assert sorted(names(ask(102))) == sorted(QUICK)


def test_bad_classes_are_named(shown, ask):
    with pytest.raises(RunError, match=r"'vit' has no class 'unicorn': it has airplane, .*\."):
        ask(0, target="unicorn")
    with pytest.raises(RunError, match="no class 'unicorn'"):
        ask(0, against="unicorn")
    with pytest.raises(RunError, match="'cat' cannot be compared with itself"):
        ask(0, target="cat", against="cat")
    assert class_index(shown.run("vit"), "frog") == CLASSES.index("frog")


def test_truth_is_that_of_measure(shown, ask):
    run, found = shown.run("vit"), ask(0, target="cat")
    measured = truth(shown, found, noise(0), fill="drop")
    _, pixels = shown.input(run.preprocessing, noise(0))
    own = {name: torch.from_numpy(v) for name, v in values(found).items()}
    asked = shown.model(run), pixels, CLASSES.index("cat"), own
    # As the page measures, where the hardware has half precision.
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast_helps(CPU)):
        expected = faithfulness.measure(*asked, fill="drop", steps=faithfulness.STEPS)
    random = expected.random_scores
    for name, curve in expected.deletion.items():
        assert np.allclose(measured.deletion[name], curve, atol=2e-3)
        score, area = measured.scores[name], float(faithfulness.area(expected.shares, curve))
        assert score.deletion == pytest.approx(area, abs=2e-3)
        assert score.score == pytest.approx(expected.scores[name], abs=2e-3)
        assert score.p_orders == pytest.approx(faithfulness.rank_p(score.score, random), abs=0.05)
    assert measured.random_areas.shape == (2, faithfulness.RANDOM_ORDERS)
    edges = {faithfulness.EDGES: faithfulness.edge_map(pixels, (4, 4))}
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast_helps(CPU)):
        baseline = faithfulness.measure(*asked[:3], edges, fill="drop", steps=faithfulness.STEPS)
    found = measured.scores[faithfulness.EDGES].score
    assert found == pytest.approx(baseline.scores[faithfulness.EDGES], abs=2e-3)
    assert np.allclose(measured.bands[1][0], expected.random_insertion.mean(0), atol=2e-3)


def test_its_own_shape_is_asked_where_it_can_decide(shown, ask):
    asked = []
    for seed in range(4):
        scores = truth(shown, ask(seed), noise(seed), fill="drop").scores
        baselines = [scores[faithfulness.CENTRE].score, scores[faithfulness.EDGES].score]
        for name, score in scores.items():
            beyond = score.p_orders <= 0.05 and score.score > max(baselines)
            assert (score.p_shape is not None) is beyond, name
            asked.append(beyond)
    assert any(asked) and not all(asked)


def test_verdicts():
    for p, centre, edges, shape, verdict in (
        (0.06, True, True, None, class_maps.RANDOM),
        (0.01, False, True, None, class_maps.MIDDLE),
        (0.01, True, False, None, class_maps.EDGES_FIRST),
        (0.01, True, True, 0.10, class_maps.ELSEWHERE),
        (0.05, True, True, 0.05, class_maps.BEYOND),
    ):
        assert class_maps.Score(0.2, 0.5, p, centre, edges, shape).verdict == verdict


def test_a_map_that_was_measured_is_not_measured_again(shown, ask, monkeypatch):
    first = truth(shown, ask(107), noise(107), fill="drop")
    asked = []
    measure = faithfulness.measure

    def listen(model, image, target, drawn, **settings):
        asked.append(list(drawn))
        return measure(model, image, target, drawn, **settings)

    monkeypatch.setattr(faithfulness, "measure", listen)
    second = truth(shown, ask(107, slow=True), noise(107), fill="drop")
    assert asked == [["integrated_gradients"], ["occlusion"]]
    assert second.scores.items() >= first.scores.items()


def test_maps_are_checked_against_another_class_and_randomised_heads(shown, ask):
    run = shown.run("vit")
    _, pixels = shown.input(run.preprocessing, noise(108))
    unchecked = ask(108, slow=True)
    steps = []
    found = ask(108, slow=True, checked=True, on_step=lambda *at: steps.append(at))
    assert np.argsort(found.probabilities)[-2] == CLASSES.index(found.runner_up)
    assert steps[-1][0] == steps[-1][1]
    other = values(ask(108, target=found.runner_up, slow=True))
    specific = [own.method.name for own in found.maps if own.method.class_specific]
    fast = [name for name in specific if not attributions.METHODS[name].long]
    heads = [randomised_head(shown.model(run), seed) for seed in range(RANDOM_HEADS)]
    random = [attributions.attribute_many(fast, head, pixels, found.target) for head in heads]
    for own, before in zip(found.maps, unchecked.maps, strict=True):
        name = own.method.name
        if not own.method.class_specific:
            assert own.other_class is own.random_heads is None
            continue
        mine = torch.from_numpy(own.values)
        theirs = rank_correlation(mine, torch.from_numpy(other[name]))
        assert own.other_class == pytest.approx(theirs, nan_ok=True)
        assert own.random_heads.own.shape == (RANDOM_HEADS,)
        if name in fast:
            expected = [rank_correlation(mine, maps[name][0]) for maps in random]
            assert own.random_heads.own == pytest.approx(expected, abs=1e-3, nan_ok=True)
        assert (before.other_class is None) == own.method.long
    contrast = ask(108, target="cat", against="dog", slow=True, checked=True)
    assert all(own.other_class is None for own in contrast.maps)


def test_what_adds_up_says_by_how_much_it_misses(ask):
    for asked in ({"target": "cat"}, {"target": "cat", "against": "dog"}):
        found = ask(0, slow=True, **asked)
        gaps = {own.method.name: own.gap for own in found.maps if own.gap is not None}
        assert gaps.keys() == {"integrated_gradients"}
        assert gaps["integrated_gradients"] < attributions.MOST_GAP
        words = "add up to the change of the log-probability, with an error of 0."
        assert any(words in line for line in lines(found, "drop"))


def panels(found, fill) -> list:
    return drawn(found, fill)[0].panels


def badges(found, fill) -> list:
    return [panel for panel in panels(found, fill) if panel.badge]


def lines(found, fill) -> list[str]:
    return [line for panel in panels(found, fill) for line in panel.lines]


def measured_run(root, **by_fill):
    """A run whose file says by fill what the scores are, and which maps are the best."""
    run = make_run(root / "vit", VIT)
    settings = {"steps": 16, "part": "validation"}
    measured = {fill: Measured(100, *found, **settings) for fill, found in by_fill.items()}
    write_measured(run.path, measured)
    return Workbench([root], root / "none", CPU)


SCORES = {name: 0.1 * i for i, name in enumerate((*attributions.METHODS, faithfulness.EDGES))}


def test_badges_come_from_the_runs_own_file_by_fill(tmp_path):
    best = ("rollout", "attention")
    bench = measured_run(tmp_path, drop=(SCORES, best), mean=(SCORES, ()))
    found = maps(bench, bench.run("vit"), noise(0), slow=False)
    assert names(found)[:2] == ["rollout", "attention"]  # the highest score first
    count = {fill: len(badges(found, fill)) for fill in found.fills}
    assert count == {"drop": 2, "mean": 0, "blur": 0}
    words = "On 100 validation images", "Holm's correction", "16 steps"
    assert all(word in each.badge_title for each in badges(found, "drop") for word in words)
    other = make_run(tmp_path / "vit", VIT, seed=5)  # trained again: the file is of other weights
    assert maps(bench, runs.read_run(other.path), noise(0), slow=False).measured == {}


@pytest.mark.parametrize(
    ("by_fill", "first"),
    [
        ({"drop": (0.1, (0.1, 0.3, 0.2)), "mean": (0.2, (0.3, 0.2, 0.2))}, ("mean", 2)),
        ({"drop": (0.1, (0.4, 0.3, 0.2)), "mean": (0.2, (0.1, 0.0, 0.2))}, ("mean", 1)),
        ({"drop": (0.4, (0.1, 0.3, 0.2)), "mean": (0.2, (0.3, 0.2, 0.2))}, ("rollout", 3)),
        ({"drop": (0.1, (0.1, 0.3, 0.2)), "mean": (0.2, ())}, ("rollout", 3)),  # an older file
        ({"drop": (0.1, (0.1, 0.3))}, ("rollout", 3)),  # of another model
        ({}, ("rollout", 3)),
    ],
)
def test_the_first_map_is_the_one_that_measured_truest(tmp_path, by_fill, first):
    found = {fill: ({"rollout": rolled}, (), means) for fill, (rolled, means) in by_fill.items()}
    bench = measured_run(tmp_path, **found)
    assert first_map(bench, bench.run("vit")) == first


def test_a_measured_network_without_attention_begins_with_no_layer(tmp_path):
    run = make_run(tmp_path / "resnet", RESNET)
    write_measured(run.path, {"mean": Measured(100, {"grad_cam": 0.3}, ())})
    bench = Workbench([tmp_path], tmp_path / "none", CPU)
    assert first_map(bench, bench.run("resnet")) == ("rollout", 0)


def test_truth_is_known_afterwards_for_its_own_question_alone(shown, ask):
    found = ask(103)
    assert found.truths == {}
    measured = truth(shown, found, noise(103), fill="blur")
    assert ask(103).truths == {"blur": measured}
    assert ask(103, target="cat").truths == ask(104).truths == {}
    assert ask(103, slow=True).truths == {}  # two maps more to be measured


def test_a_resnet_has_its_own_map_and_is_measured_on_cells(shown, ask, monkeypatch):
    monkeypatch.setattr(faithfulness, "STEPS", 2)  # its passes are dear
    found = ask(0, "resnet")
    assert names(found) == ["grad_cam"] and found.fills == ("mean", "blur")
    measured = truth(shown, found, noise(0))
    assert set(measured.scores) == {"grad_cam", faithfulness.CENTRE, faithfulness.EDGES}
    assert measured.shares.tolist() == [0, 0.5, 1]
    with pytest.raises(RunError, match=r"does not support the replacement 'drop': .*mean, blur"):
        truth(shown, found, noise(0), fill="drop")


def test_work_that_is_stopped_leaves_nothing_behind(shown, ask):
    stops = Stops()
    stops.arm()
    raise_if_stopped = stops.watch()

    def on_step(done, total):
        raise_if_stopped()
        stops.stop()

    with pytest.raises(Stopped):
        ask(105, slow=True, on_step=on_step)
    found = ask(105)
    assert sorted(names(found)) == sorted(QUICK)
    with pytest.raises(Stopped):
        truth(shown, found, noise(105), on_step=on_step)
    assert ask(105).truths == {}


def test_every_map_says_what_it_shows_and_its_limit(shown, ask):
    found = ask(106, target="cat", slow=True)
    row, meter = drawn(found, "mean")
    captions = {(panel.title, panel.caption) for panel in row.panels}
    assert captions == {(each.title, each.caption) for each in attributions.METHODS.values()}
    assert badges(found, "mean") == []
    words = "Rank correlation with the map for"
    assert sum(words in line for line in lines(found, "mean")) == 3
    assert meter == [Text(drawing.UNMEASURED, quiet=True)]
    measured = truth(shown, found, noise(106))
    found = ask(106, target="cat", slow=True)
    _, (legend, plots, table, areas, curves) = drawn(found, "mean")
    assert sum(line.startswith("Score ") for line in lines(found, "mean")) == 7
    assert len(plots.figures) == 2 and len(legend.groups[""]) == 7 + 2 + 1
    assert len(table.rows) == 7 + 2 and table.feet[0][0].endswith("random orders")
    assert len(areas.rows) == 7 + 2 + 40 and {row[0] for row in curves.rows} == {
        "deletion",
        "insertion",
    }
    verdicts = {row[0]: row[-1] for row in table.rows}
    assert verdicts["Edge map"] == "baseline: uses the image, but no model"
    assert verdicts["Relevance"] == measured.scores["relevance"].verdict
    baselines = {faithfulness.CENTRE, faithfulness.EDGES}
    assert set(drawing.COLOURS) == {*attributions.METHODS, *baselines}


def test_only_attention_is_a_fraction_of_a_whole(ask):
    fractions = {panel.title for panel in panels(ask(106, slow=True), "mean") if panel.fraction}
    assert fractions == {"Last layer's attention", "Attention rollout"}
    for own in ask(106).maps:
        if own.method.name in ("attention", "rollout"):
            assert 0 < own.values.sum() <= 1.001


def test_randomised_heads_are_put_into_words_next_to_their_baseline():
    own, between = np.array([-0.79, 0.21, 0.7]), np.array([0.5, 0.4, 0.6])
    words = drawing.head_words(HeadCheck(own, between, 0.5))
    assert "3 randomised classifier heads: mean +0.04 (−0.79 to +0.70)" in words
    assert "between these heads: mean +0.50. The map is not significantly more similar" in words
    words = drawing.head_words(HeadCheck(own, between, 0.05))
    assert "The map is more similar to their maps than these are to each other (p = 0.05)" in words
    flat = HeadCheck(np.full(3, np.nan), np.full(3, np.nan), np.nan)
    assert "uniform" in drawing.head_words(flat)


def test_a_class_named_like_html_is_shown_as_it_is(shown):
    run = shown.run("vit")
    odd = replace(run, classes=tuple("<b>cat" if name == "cat" else name for name in run.classes))
    asked = {"target": "<b>cat", "against": "dog", "slow": False}
    row, _ = drawn(maps(shown, odd, noise(109), **asked), "mean")
    assert row.intro.startswith("Why <b>cat and not dog?")  # the browser writes it as text


def test_the_true_class_is_offered_first(ask):
    found = ask(0)
    target, against, *_ = choices(found, "", "", "mean", "frog")
    assert against["choices"][1] == ("frog (the true class)", "frog")
    assert [name for _, name in target["choices"]].count("frog") == 1
    plain = choices(found, "", "", "mean")[0]["choices"]
    assert [name for _, name in plain][1:] == list(found.run.classes)


def test_choices_are_the_models_own(ask):
    found = ask(0, "resnet")
    target, against, fill, held = choices(found, "", "", "zero")
    predicted = CLASSES[int(found.probabilities.argmax())]
    assert target["choices"][0] == (f"the predicted class ({predicted})", "")
    assert [value for _, value in against["choices"]] == ["", *CLASSES]
    assert [value for _, value in fill["choices"]] == ["mean", "blur"]
    assert fill["value"] == held == "mean"  # a convolution has no token to leave out
    assert "value" not in target and "value" not in against  # a click made meanwhile stays
