"""What the section "Why this class?" asks of runs and models, and its handlers' manners."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image

from tests.making import CLASSES, RESNET, VIT, make_run
from vitdemo import attributions, class_maps, faithfulness, runs
from vitdemo.class_maps import class_index, first_source, maps, truth
from vitdemo.errors import RunError
from vitdemo.faithfulness.measured import Measured, write_measured
from vitdemo.faithfulness.sanity import randomised_head, rank_correlation
from vitdemo.page.components.article import Text
from vitdemo.page.look.class_maps import Stopped, Ticket, choices, drawing, drawn
from vitdemo.timm_models import timm_run
from vitdemo.training.devices import autocast_helps
from vitdemo.workbench import Workbench

CPU = torch.device("cpu")
QUICK = ["relevance", "gradient_rollout", "grad_cam", "attention", "rollout"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    make_run(root / "vit", VIT)
    make_run(root / "resnet", RESNET, seed=2)
    return root


@pytest.fixture
def workbench(root, tmp_path):
    return Workbench([root], tmp_path / "none", CPU)


def picture(seed: int) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def names(found):
    return [m.method.name for m in found.maps]


def values(found):
    return {m.method.name: m.values for m in found.maps}


# --- maps ---


def test_maps_are_those_of_attribute_for_the_predicted_class(workbench):
    run = workbench.run("vit")
    found = maps(workbench, run, picture(0))
    _, pixels = workbench.input(run.preprocessing, picture(0))
    assert found.target == int(found.probabilities.argmax()) and found.against is None
    assert set(names(found)) == set(attributions.METHODS)
    for name, own in values(found).items():
        expected = attributions.attribute(name, workbench.model(run), pixels, found.target)[0]
        assert np.allclose(own, expected, atol=1e-6), name
    assert names(found) == list(attributions.METHODS)  # nothing was measured of this run


def test_contrast_is_signed_where_the_class_matters(workbench):
    run = workbench.run("vit")
    found = maps(workbench, run, picture(0), target="cat", against="dog")
    cat, dog = (maps(workbench, run, picture(0), target=name) for name in ("cat", "dog"))
    assert found.named == "cat and not dog"
    for drawn_map in found.maps:
        method = drawn_map.method
        first, second = values(cat)[method.name], values(dog)[method.name]
        expected = first - second if method.class_specific else first
        assert np.allclose(drawn_map.values, expected, atol=1e-5), method.name
        assert drawn_map.signed is method.class_specific


def test_without_the_slow_ones_unless_they_are_known(workbench):
    run = workbench.run("vit")
    assert sorted(names(maps(workbench, run, picture(1), slow=False))) == sorted(QUICK)
    maps(workbench, run, picture(1))
    assert len(names(maps(workbench, run, picture(1), slow=False))) == 7
    assert sorted(names(maps(workbench, run, picture(2), slow=False))) == sorted(QUICK)


def test_a_resnet_has_its_own_maps(workbench):
    found = maps(workbench, workbench.run("resnet"), picture(0), slow=False)
    assert names(found) == ["grad_cam"]
    assert found.fills == ("mean", "blur")


def test_what_was_answered_is_not_made_again(workbench, monkeypatch):
    run = workbench.run("vit")
    first = maps(workbench, run, picture(0))
    monkeypatch.setattr(attributions, "attribute_many", None)
    again = maps(workbench, run, picture(0))
    assert all(a.values is b.values for a, b in zip(first.maps, again.maps, strict=True))


def test_two_at_once_get_their_own_maps(workbench):
    asked = [("vit", 0, "cat"), ("vit", 1, "dog"), ("vit", 0, "ship")]
    alone = [
        values(maps(workbench, workbench.run(n), picture(s), target=t, slow=False))
        for n, s, t in asked
    ]
    fresh = Workbench(workbench.roots, None, CPU)

    def ask(one):
        name, seed, target = one
        return values(maps(fresh, fresh.run(name), picture(seed), target=target, slow=False))

    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(ask, asked))
    for one, other in zip(alone, together, strict=True):
        assert all(np.allclose(one[name], other[name], atol=1e-6) for name in QUICK)


def test_bad_classes_are_named(workbench):
    run = workbench.run("vit")
    with pytest.raises(RunError, match=r"'vit' has no class 'unicorn': it has airplane, .*\."):
        maps(workbench, run, picture(0), target="unicorn")
    with pytest.raises(RunError, match="no class 'unicorn'"):
        maps(workbench, run, picture(0), against="unicorn")
    with pytest.raises(RunError, match="'cat' cannot be set against itself"):
        maps(workbench, run, picture(0), target="cat", against="cat")
    assert class_index(run, "frog") == CLASSES.index("frog")


# --- truth ---


def half():
    """As the page measures, where the hardware has half precision."""
    return torch.autocast("cpu", torch.bfloat16, enabled=autocast_helps(CPU))


def test_truth_is_that_of_measure(workbench):
    run = workbench.run("vit")
    found = maps(workbench, run, picture(0), target="cat", slow=False)
    measured = truth(workbench, found, picture(0), fill="drop")
    _, pixels = workbench.input(run.preprocessing, picture(0))
    own = {name: torch.from_numpy(v) for name, v in values(found).items()}
    model, index, settings = (
        workbench.model(run),
        CLASSES.index("cat"),
        {"fill": "drop", "steps": 4},
    )
    with half():
        expected = faithfulness.measure(model, pixels, index, own, **settings)
    random = expected.random_scores
    for name, curve in expected.deletion.items():
        assert np.allclose(measured.deletion[name], curve, atol=2e-3)
        score = measured.scores[name]
        assert score.deletion == pytest.approx(
            float(faithfulness.area(expected.shares, curve)), abs=2e-3
        )
        assert score.score == pytest.approx(expected.scores[name], abs=2e-3)
        assert score.p_orders == pytest.approx(faithfulness.rank_p(score.score, random), abs=0.05)
    assert measured.random_areas.shape == (2, 100)
    assert np.allclose(measured.bands[1][0], expected.random_insertion.mean(0), atol=2e-3)


def test_its_own_shape_is_asked_where_it_can_decide(workbench):
    run = workbench.run("vit")
    asked = []
    for seed in range(4):
        found = maps(workbench, run, picture(seed), slow=False)
        scores = truth(workbench, found, picture(seed), fill="drop").scores
        centre = scores[faithfulness.CENTRE]
        for name, score in scores.items():
            beyond = score.p_orders <= 0.05 and score.score > centre.score
            assert (score.p_shape is not None) is (beyond and score.beyond_centre), name
            asked.append(beyond)
    assert any(asked) and not all(asked)


@pytest.mark.parametrize(
    ("p", "beyond", "shape", "verdict"),
    [
        (0.06, True, None, class_maps.RANDOM),
        (0.01, False, None, class_maps.MIDDLE),
        (0.01, True, 0.10, class_maps.ELSEWHERE),
        (0.05, True, 0.05, class_maps.BEYOND),
    ],
)
def test_verdicts(p, beyond, shape, verdict):
    assert class_maps.Score(0.2, 0.5, p, beyond, shape).verdict == verdict


def test_a_map_that_was_measured_is_not_measured_again(workbench, monkeypatch):
    run = workbench.run("vit")
    first = truth(workbench, maps(workbench, run, picture(7), slow=False), picture(7), fill="drop")
    asked = []
    measure = faithfulness.measure

    def listen(model, image, target, drawn, **settings):
        asked.append(list(drawn))
        return measure(model, image, target, drawn, **settings)

    monkeypatch.setattr(faithfulness, "measure", listen)
    second = truth(workbench, maps(workbench, run, picture(7)), picture(7), fill="drop")
    assert asked == [["integrated_gradients"], ["occlusion"]]
    assert second.scores.items() >= first.scores.items()


# --- what a map depends on ---


def test_maps_of_a_class_are_checked_against_another_class_and_a_random_head(workbench):
    run = workbench.run("vit")
    _, pixels = workbench.input(run.preprocessing, picture(0))
    unchecked = maps(workbench, run, picture(0))
    steps = []
    found = maps(workbench, run, picture(0), checked=True, on_step=lambda *at: steps.append(at))
    assert np.argsort(found.probabilities)[-2] == CLASSES.index(found.runner_up)
    assert steps[-1][0] == steps[-1][1]
    other = values(maps(workbench, run, picture(0), target=found.runner_up))
    head = randomised_head(workbench.model(run))
    for own, before in zip(found.maps, unchecked.maps, strict=True):
        name = own.method.name
        if not own.method.class_specific:
            assert own.other_class is own.random_head is None
            continue
        mine = torch.from_numpy(own.values)
        theirs = rank_correlation(mine, torch.from_numpy(other[name]))
        random = attributions.attribute_many([name], head, pixels, found.target)[name][0]
        assert own.other_class == pytest.approx(theirs, nan_ok=True)
        assert own.random_head == pytest.approx(rank_correlation(mine, random), nan_ok=True)
        assert (before.other_class is None) == own.method.long
    contrast = maps(workbench, run, picture(0), target="cat", against="dog", checked=True)
    assert all(own.other_class is None for own in contrast.maps)


def test_what_adds_up_says_by_how_much_it_misses(workbench):
    run = workbench.run("vit")
    for asked in ({"target": "cat"}, {"target": "cat", "against": "dog"}):
        found = maps(workbench, run, picture(0), **asked)
        gaps = {own.method.name: own.gap for own in found.maps if own.gap is not None}
        assert gaps.keys() == {"integrated_gradients"}
        assert gaps["integrated_gradients"] < attributions.MOST_GAP
        lines = [line for each in panels(found, "drop") for line in each.lines]
        assert any("Adds up to the change of the log-probability, less 0." in x for x in lines)


# --- what was measured on many pictures ---


def panels(found, fill) -> list:
    return drawn(found, fill)[0].panels


def badges(found, fill) -> list:
    return [panel for panel in panels(found, fill) if panel.badge]


def measured_run(root, **best):
    """A run whose file says which maps are the best, by fill."""
    run = make_run(root / "vit", VIT)
    scores = {name: 0.1 * i for i, name in enumerate(attributions.METHODS)}
    write_measured(run.path, {fill: Measured(100, scores, tuple(b)) for fill, b in best.items()})
    return Workbench([root], root / "none", CPU)


def test_badges_come_from_the_runs_own_file_by_fill(tmp_path):
    workbench = measured_run(tmp_path, drop=["rollout", "attention"], mean=[])
    found = maps(workbench, workbench.run("vit"), picture(0), slow=False)
    assert names(found)[:2] == ["rollout", "attention"]  # the highest score first
    count = {fill: len(badges(found, fill)) for fill in found.fills}
    assert count == {"drop": 2, "mean": 0, "blur": 0}
    assert all("On 100 test pictures" in each.badge_title for each in badges(found, "drop"))


@pytest.mark.parametrize(
    ("scores", "source"),
    [
        ({"drop": (0.3, 0.1), "mean": (0.1, 0.2)}, "mean"),
        ({"drop": (0.1, 0.3)}, "rollout"),
        ({}, "rollout"),
    ],
)
def test_the_first_map_is_the_one_that_measured_truer(tmp_path, scores, source):
    run = make_run(tmp_path / "vit", VIT)
    write_measured(
        run.path,
        {
            fill: Measured(9, {"attention": mean, "rollout": rolled}, ())
            for fill, (mean, rolled) in scores.items()
        },
    )
    workbench = Workbench([tmp_path], tmp_path / "none", CPU)
    assert first_source(workbench, workbench.run("vit")) == source


def test_no_badge_for_what_was_not_measured(workbench, tmp_path):
    for name in ("vit", "resnet"):
        found = maps(workbench, workbench.run(name), picture(0), slow=False)
        assert found.measured == {} and found.best("drop") == ()
        assert badges(found, found.fills[0]) == []
    measured = measured_run(tmp_path, drop=["rollout"])
    other = make_run(tmp_path / "vit", VIT, seed=5)  # trained again: the file is of other weights
    assert maps(measured, runs.read_run(other.path), picture(0), slow=False).measured == {}


def test_no_badge_for_a_model_of_timms():
    run = timm_run("timm:deit_tiny_patch16_224", pretrained=False)
    found = maps(Workbench([], None, CPU, [run]), run, picture(0), slow=False)
    assert names(found) == QUICK and found.measured == {}
    assert badges(found, "drop") == []


# --- truth, kept ---


def test_truth_is_known_afterwards_for_its_own_question_alone(workbench):
    run = workbench.run("vit")
    found = maps(workbench, run, picture(3), slow=False)
    assert found.truths == {}
    measured = truth(workbench, found, picture(3), fill="blur")
    assert maps(workbench, run, picture(3), slow=False).truths == {"blur": measured}
    assert maps(workbench, run, picture(3), target="cat", slow=False).truths == {}
    assert maps(workbench, run, picture(4), slow=False).truths == {}
    assert maps(workbench, run, picture(3)).truths == {}  # two maps more to be measured


def test_a_resnet_is_measured_on_cells(workbench, monkeypatch):
    monkeypatch.setattr(faithfulness, "STEPS", 2)  # its passes are dear
    found = maps(workbench, workbench.run("resnet"), picture(0), slow=False)
    measured = truth(workbench, found, picture(0))
    assert set(measured.scores) == {"grad_cam", faithfulness.CENTRE}
    assert measured.shares.tolist() == [0, 0.5, 1]
    with pytest.raises(RunError, match=r"'resnet' has no fill 'drop': .*mean, blur"):
        truth(workbench, found, picture(0), fill="drop")


def test_work_that_is_stopped_leaves_nothing_behind(workbench):
    run, ticket = workbench.run("vit"), Ticket(question=())

    def on_step(done, total):
        ticket.check()
        ticket.stop()

    with pytest.raises(Stopped):
        maps(workbench, run, picture(5), on_step=on_step)
    found = maps(workbench, run, picture(5), slow=False)
    assert sorted(names(found)) == sorted(QUICK)
    with pytest.raises(Stopped):
        truth(workbench, found, picture(5), on_step=on_step)
    assert maps(workbench, run, picture(5), slow=False).truths == {}


# --- drawing ---


def test_every_map_says_what_it_shows_and_its_limit(workbench):
    found = maps(workbench, workbench.run("vit"), picture(0), target="cat")
    row, meter = drawn(found, "mean")
    shown = {(panel.title, panel.caption) for panel in row.panels}
    assert shown == {(each.title, each.caption) for each in attributions.METHODS.values()}
    assert badges(found, "mean") == []
    lines = [line for panel in row.panels for line in panel.lines]
    assert sum("Rank correlation with its own map for" in line for line in lines) == 3
    assert meter == [Text(drawing.UNMEASURED, quiet=True)]
    truth(workbench, found, picture(0))
    row, meter = drawn(maps(workbench, workbench.run("vit"), picture(0), target="cat"), "mean")
    lines = [line for panel in row.panels for line in panel.lines]
    assert sum(line.startswith("Score ") for line in lines) == 7
    legend, plots, table, areas, curves = meter
    assert len(plots.figures) == 2 and len(legend.groups[""]) == 7 + 1 + 1
    assert len(table.rows) == 7 + 1 and table.feet[0][0].endswith("random orders")
    assert len(areas.rows) > 50 and {row[0] for row in curves.rows} == {"deletion", "insertion"}
    assert set(drawing.COLOURS) == {*attributions.METHODS, faithfulness.CENTRE}


def test_a_class_named_like_html_is_shown_as_it_is(root, workbench):
    run = workbench.run("vit")
    odd = tuple("<b>cat" if name == "cat" else name for name in run.classes)
    object.__setattr__(run, "classes", odd)
    found = maps(workbench, run, picture(0), target="<b>cat", against="dog", slow=False)
    truth(workbench, found, picture(0))
    found = maps(workbench, run, picture(0), target="<b>cat", against="dog", slow=False)
    row, _ = drawn(found, "mean")
    assert row.intro.startswith("Why <b>cat and not dog?")  # the browser writes it as text


def test_the_true_class_is_offered_first(workbench):
    found = maps(workbench, workbench.run("vit"), picture(0), slow=False)
    target, against, *_ = choices(found, "", "", "mean", "frog")
    assert against["choices"][1] == ("frog (the true class)", "frog")
    assert [name for _, name in target["choices"]].count("frog") == 1
    plain = choices(found, "", "", "mean")[0]["choices"]
    assert [name for _, name in plain][1:] == list(found.run.classes)


def test_choices_are_the_models_own(workbench):
    found = maps(workbench, workbench.run("resnet"), picture(0), slow=False)
    target, against, fill, held = choices(found, "", "", "zero")
    predicted = CLASSES[int(found.probabilities.argmax())]
    assert target["choices"][0] == (f"the predicted class ({predicted})", "")
    assert [value for _, value in against["choices"]] == ["", *CLASSES]
    assert [value for _, value in fill["choices"]] == ["mean", "blur"]
    assert fill["value"] == held == "mean"  # a convolution has no token to leave out
    assert "value" not in target and "value" not in against  # a click made meanwhile stays
