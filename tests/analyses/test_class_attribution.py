"""Attribution maps of the section "Why this class?", their scores, their payload and tasks."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from tests.support import colours
from tests.support.factories import CLASSES, RESNET, VIT, make_context, make_run, noise
from vitdemo import figures, runs
from vitdemo.analyses import class_attribution as analysis
from vitdemo.analyses.class_attribution import (
    choose_first_map,
    compute_class_attribution,
    get_class_index,
    measure_faithfulness,
)
from vitdemo.errors import RunError, Stopped
from vitdemo.explain import attributions, faithfulness
from vitdemo.explain.faithfulness.sanity import (
    NUM_CHECKS,
    NUM_SLOW_CHECKS,
    MapCheck,
    check_maps,
)
from vitdemo.explain.faithfulness.summary import (
    BASELINE_NAMES,
    FaithfulnessSummary,
    write_summaries,
)
from vitdemo.metrics import DASH
from vitdemo.page import bridge
from vitdemo.page.bridge import load_square
from vitdemo.page.explore import class_attribution
from vitdemo.page.explore.class_attribution import (
    FEATURE,
    blocks,
    choose_fill,
    choose_large_map,
    control_updates,
    describe_measurement,
    details_payload,
    payload,
)
from vitdemo.page.explore.class_attribution.blocks import label_fill
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.view_state import ViewState
from vitdemo.training.devices import use_fast_precision

CPU = torch.device("cpu")
FAST_METHODS = ["attnlrp", "relevance", "gradient_rollout", "grad_cam", "attention", "rollout"]


@pytest.fixture(scope="module")
def ask(shown):
    """Fast maps of an image, computed from a seed, a run name and other settings."""

    def compute(seed, name="vit", **settings):
        settings = {"include_slow": False, **settings}
        return compute_class_attribution(shown, shown.find_run(name), noise(seed), **settings)

    return compute


def method_names(result):
    return [m.method.name for m in result.maps]


def maps_by_method(result):
    return {m.method.name: m.values for m in result.maps}


def test_maps_equal_attributions_of_the_predicted_class(shown, ask, monkeypatch):
    run, result = shown.find_run("vit"), ask(0, include_slow=True)
    _, pixels = shown.prepare_input(run.preprocessing, noise(0))
    assert result.target == int(result.probabilities.argmax()) and result.against is None
    assert method_names(result) == list(attributions.METHODS)  # this run has no stored scores
    expected = attributions.attribute_many(
        method_names(result), shown.load_model(run), pixels, result.target
    )
    for name, values in maps_by_method(result).items():
        assert np.allclose(values, expected[name][0], atol=1e-6), name
    monkeypatch.setattr(attributions, "attribute_many", None)  # it must not be called again
    cached = maps_by_method(ask(0, include_slow=True))
    assert all(values is cached[name] for name, values in maps_by_method(result).items())


def test_contrast_is_signed_for_class_specific_methods(ask):
    result = ask(0, target="cat", against="dog", include_slow=True)
    cat, dog = (maps_by_method(ask(0, target=name, include_slow=True)) for name in ("cat", "dog"))
    assert result.class_text == "cat and not dog"
    for attribution_map in result.maps:
        method = attribution_map.method
        expected = cat[method.name] - dog[method.name] * method.is_class_specific
        assert np.allclose(attribution_map.values, expected, atol=1e-5), method.name
        assert attribution_map.is_signed is method.is_class_specific


def test_attention_map_has_the_chosen_layer(shown, ask):
    run = shown.find_run("vit")
    _, pixels = shown.prepare_input(run.preprocessing, noise(0))
    trace = shown.trace_image(run, noise(0))
    (last,) = attributions.attribute("attention", shown.load_model(run), pixels, 0)
    found = {layer: ask(0, layer=layer) for layer in (None, 1, trace.num_layers)}
    for layer, result in found.items():
        attention = next(each for each in result.maps if each.method.name == "attention")
        expected = last if layer is None else trace.head_maps(layer).mean(axis=0)
        assert np.allclose(attention.values, expected, atol=1e-5), layer
        assert attention.title == (
            f"Attention, layer {layer}" if layer else "Last layer's attention"
        )
    assert np.allclose(maps_by_method(found[trace.num_layers])["attention"], last, atol=1e-5)
    measured = measure_faithfulness(shown, found[1], noise(0))
    assert "attention" in measured.scores
    other = ask(0, layer=2).cached_results["mean"]  # of the same image, so only this map is missing
    assert [each.layer for each in other.list_missing(ask(0, layer=2).maps)] == [2]
    assert other.scores["rollout"] == measured.scores["rollout"]


def test_slow_maps_are_left_out_unless_cached(ask):
    assert sorted(method_names(ask(101))) == sorted(FAST_METHODS)
    ask(101, include_slow=True)
    assert len(method_names(ask(101))) == len(attributions.METHODS)
    assert sorted(method_names(ask(102))) == sorted(FAST_METHODS)


def test_errors_name_unknown_classes(shown, ask):
    message = r"'vit' has no class 'unicorn': choose one of airplane, .*\."
    with pytest.raises(RunError, match=message):
        ask(0, target="unicorn")
    with pytest.raises(RunError, match="no class 'unicorn'"):
        ask(0, against="unicorn")
    with pytest.raises(RunError, match="'cat' cannot be compared with itself"):
        ask(0, target="cat", against="cat")
    assert get_class_index(shown.find_run("vit"), "frog") == CLASSES.index("frog")


def test_faithfulness_scores_equal_measure(shown, ask):
    run, result = shown.find_run("vit"), ask(0, target="cat")
    measured = measure_faithfulness(shown, result, noise(0), fill="drop")
    _, pixels = shown.prepare_input(run.preprocessing, noise(0))
    maps = {name: torch.from_numpy(v) for name, v in maps_by_method(result).items()}
    subject = shown.load_model(run), pixels
    maps["grad_cam"] = attributions.compute_ranking_values(  # without ties
        "grad_cam", *subject, maps["grad_cam"][None], CLASSES.index("cat")
    )[0]
    maps[faithfulness.EDGE_BASELINE] = faithfulness.edge_map(pixels, (4, 4))
    arguments = *subject, CLASSES.index("cat"), maps
    # The page also measures in half precision if the hardware supports it.
    with use_fast_precision(CPU):
        expected = faithfulness.measure_perturbation_curves(
            *arguments, fill="drop", steps=faithfulness.CURVE_STEPS
        )
    random = expected.random_scores
    for name, curve in expected.deletion.items():
        assert np.allclose(measured.deletion[name], curve, atol=2e-3)
        score = measured.scores[name]
        area = float(faithfulness.area_under_curve(expected.fractions, curve))
        assert score.deletion == pytest.approx(area, abs=2e-3)
        assert score.score == pytest.approx(expected.scores[name], abs=2e-3)
        p = faithfulness.rank_p_value(score.score, random)
        assert score.p_orders == pytest.approx(p, abs=0.05)
    assert measured.random_areas.shape == (2, faithfulness.NUM_RANDOM_ORDERS)
    assert np.allclose(measured.random_bands[1][0], expected.random_insertion.mean(0), atol=2e-3)


def test_best_order_has_the_highest_score(shown, ask):
    asked, steps = ask(111), []
    before = measure_faithfulness(shown, asked, noise(111), fill="drop")
    assert before.best_ranks is None and before.compute_share("relevance") is None
    found = analysis.find_best_order(
        shown, asked, noise(111), fill="drop", on_step=lambda *at: steps.append(at)
    )
    assert steps[-1][0] <= steps[-1][1] == analysis.MAX_PASSES
    assert found.scores.items() >= before.scores.items()
    assert sorted(found.best_ranks.flat) == list(range(16)) and {*found.ranks} == {*before.ranks}
    points = {name: score.score for name, score in found.scores.items()}
    assert max(points, key=points.get) == analysis.BEST_ORDER
    chance = (found.random_areas[1] - found.random_areas[0]).mean()
    for name, score in points.items():
        share = (score - chance) / (points[analysis.BEST_ORDER] - chance)
        assert found.compute_share(name) == pytest.approx(share, abs=1e-5)
    # The score is measured as that of a map with this order.
    run = shown.find_run("vit")
    subject = shown.load_model(run), shown.prepare_input(run.preprocessing, noise(111))[1]
    maps = {"best": -torch.from_numpy(found.best_ranks).float()}
    with use_fast_precision(CPU):
        measured = faithfulness.measure_perturbation_curves(
            *subject, asked.target, maps, fill="drop", steps=faithfulness.CURVE_STEPS
        )
    assert points[analysis.BEST_ORDER] == pytest.approx(measured.scores["best"], abs=2e-3)
    # It is cached for all maps of the image, but not for another replacement.
    again = ask(111, include_slow=True)
    assert again.cached_results["drop"].best_ranks is found.best_ranks
    assert measure_faithfulness(shown, again, noise(111), fill="mean").best_ranks is None
    with pytest.raises(RunError, match="does not support the replacement 'noise'"):
        analysis.find_best_order(shown, asked, noise(111), fill="noise")


def test_a_map_above_the_best_order_is_the_maximum(shown, ask):
    found = analysis.find_best_order(shown, ask(111), noise(111), fill="drop")
    high = replace(found.scores["relevance"], insertion=1.0, deletion=0.0)
    higher = replace(found, scores={**found.scores, "relevance": high})
    assert higher.compute_share("relevance") == 1 > higher.compute_share(analysis.BEST_ORDER)
    low = replace(high, insertion=0.0, deletion=1.0)
    lower = replace(found, scores={"relevance": low, analysis.BEST_ORDER: low})
    assert lower.compute_share("relevance") is None  # no score is above chance


def test_percentages_of_the_best_order_are_in_the_table(shown, ask):
    asked = ask(111)
    found = analysis.find_best_order(shown, asked, noise(111), fill="drop")
    table = blocks.faithfulness_table(asked, found)
    titles = [getattr(column, "label", column) for column in table.columns]
    place = titles.index("% of best order")
    shares = {row[0]: row[place] for row in table.rows}
    assert shares["Best order found"] == "100"
    share = f"{100 * found.compute_share('relevance'):.0f}".replace("-", "−")
    assert shares["Relevance"] == share
    assert {len(row) for row in [*table.rows, *table.feet]} == {len(table.columns)}
    p_values = next(row for row in table.rows if row[0] == "Best order found")[place + 1 : -1]
    assert p_values == [DASH, DASH]
    _, legend, _, areas, *_ = blocks.result_blocks(asked, found)
    assert "Best order found" in [entry.label for entry in legend.groups[""]]
    assert [row[3:] for row in areas.rows if row[0] == "best order"] == [(None, None)]
    payload_scores = blocks.score_payload(found)
    assert payload_scores["has_best"] and "best order" not in payload_scores["maps"]
    assert f"{payload_scores['maps']['relevance']['share']}".replace("-", "−") == share


def test_shape_p_value_is_computed_only_where_it_decides(shown, ask):
    significant = []
    for seed in range(4):
        scores = measure_faithfulness(shown, ask(seed), noise(seed), fill="drop").scores
        baselines = [scores[name].score for name in BASELINE_NAMES]
        for name, score in scores.items():
            is_significant = score.p_orders <= 0.05 and score.score > max(baselines)
            assert (score.p_shape is not None) is is_significant, name
            significant.append(is_significant)
    assert any(significant) and not all(significant)


def test_verdict_depends_on_baselines_and_p_values():
    for p, centre, edges, shape, worse, verdict in (
        (0.98, False, False, None, 0.05, analysis.WORSE_THAN_RANDOM),
        (0.06, True, True, None, 0.95, analysis.NOT_BETTER_THAN_RANDOM),
        (0.01, False, True, None, 1, analysis.NOT_BETTER_THAN_CENTRE),
        (0.01, True, False, None, 1, analysis.NOT_BETTER_THAN_EDGES),
        (0.01, True, True, 0.10, 1, analysis.NOT_BETTER_THAN_COPIES),
        (0.05, True, True, 0.05, 1, analysis.BETTER_THAN_BASELINES),
    ):
        score = analysis.FaithfulnessScore(0.2, 0.5, p, centre, edges, shape, worse)
        assert score.verdict == verdict


def test_removal_order_of_a_map_follows_its_values(shown, ask):
    result = ask(0)
    measured = measure_faithfulness(shown, result, noise(0), fill="drop")
    assert {*measured.ranks} == {*method_names(result)}
    for name, values in maps_by_method(result).items():
        ranks = measured.ranks[name]
        assert sorted(ranks.flat) == list(range(values.size))
        ordered = values.flat[ranks.argsort(axis=None)]
        assert (np.diff(ordered) <= 0).all(), name
    # In the other direction, the order with the score -s has the p-value of s.
    worse = {name: score.p_worse for name, score in measured.scores.items()}
    for name, score in measured.scores.items():
        random = measured.random_areas[1] - measured.random_areas[0]
        assert worse[name] == pytest.approx((1 + (random <= score.score).sum()) / (len(random) + 1))


def test_measured_map_is_not_measured_again(shown, ask, monkeypatch):
    first = measure_faithfulness(shown, ask(107), noise(107), fill="drop")
    measure = Mock(wraps=faithfulness.measure_perturbation_curves)
    monkeypatch.setattr(faithfulness, "measure_perturbation_curves", measure)
    second = measure_faithfulness(shown, ask(107, include_slow=True), noise(107), fill="drop")
    measured = [list(call.args[3]) for call in measure.call_args_list]
    assert measured == [["integrated_gradients"], ["occlusion"]]
    assert second.scores.items() >= first.scores.items()


def test_maps_have_sanity_checks(shown, ask):
    run = shown.find_run("vit")
    _, pixels = shown.prepare_input(run.preprocessing, noise(108))
    unchecked = ask(108, include_slow=True)
    steps = []
    result = ask(108, include_slow=True, check_slow=True, on_step=lambda *at: steps.append(at))
    assert np.argsort(result.probabilities)[-2] == CLASSES.index(result.runner_up)
    assert steps[-1][0] == steps[-1][1]
    model, runner_up = shown.load_model(run), CLASSES.index(result.runner_up)
    maps = {each.method.name: torch.from_numpy(each.values) for each in result.maps}
    fast = {name: own for name, own in maps.items() if not attributions.METHODS[name].is_slow}
    std = run.preprocessing.std
    expected = check_maps(model, pixels, fast, result.target, runner_up, std)
    for item, before in zip(result.maps, unchecked.maps, strict=True):
        assert (before.check is None) == item.method.is_slow
        count = NUM_SLOW_CHECKS if item.method.is_slow else NUM_CHECKS
        assert item.check.cascade.shape == (len(item.check.layers), count)
        if not item.method.is_slow:
            known = expected[item.method.name]
            assert item.check.runner_up == pytest.approx(known.runner_up, nan_ok=True)
            assert item.check.noise == pytest.approx(known.noise, abs=1e-6, nan_ok=True)
            assert item.check.cascade == pytest.approx(known.cascade, abs=1e-6, nan_ok=True)
    contrast = ask(108, target="cat", against="dog", include_slow=True, check_slow=True)
    assert all(item.check is None for item in contrast.maps)
    first = {each.method.name: each.check for each in ask(108, layer=1).maps}
    assert first["attention"] is None and first["rollout"] is not None


def test_integrated_gradients_report_their_completeness_error(ask):
    for settings in ({"target": "cat"}, {"target": "cat", "against": "dog"}):
        result = ask(0, include_slow=True, **settings)
        gaps = {item.method.name: item.completeness_gap for item in result.maps}
        assert gaps.pop("integrated_gradients") < attributions.MAX_COMPLETENESS_GAP
        assert set(gaps.values()) == {None}
        errors = {title: cells[-1] for title, *cells in blocks.checks_table(result).rows}
        assert errors.pop("Integrated Gradients").startswith("0.")
        assert set(errors.values()) == {DASH}


def describe_maps(result, fill) -> list[dict]:
    return [class_attribution.describe_map(result, each, fill) for each in result.maps]


def list_best(result, fill) -> list[str]:
    """Return the names of the maps that are among the best on average."""
    return [each["name"] for each in describe_maps(result, fill) if each["is_best"]]


def make_measured_context(root, **by_fill):
    """Write a run with stored scores and best maps by fill mode, and return its context."""
    run = make_run(root / "vit", VIT)
    settings = {"steps": 16, "part": "validation"}
    summaries = {
        fill: FaithfulnessSummary(100, *scores, **settings) for fill, scores in by_fill.items()
    }
    write_summaries(run.path, summaries)
    return make_context(root)


MEASURED_SCORES = {
    name: 0.1 * i for i, name in enumerate((*attributions.METHODS, faithfulness.EDGE_BASELINE))
}


def test_badges_are_read_from_the_run_by_replacement(tmp_path):
    best = ("rollout", "attention")
    measured = {"drop": (MEASURED_SCORES, best), "mean": (MEASURED_SCORES, ())}
    context = make_measured_context(tmp_path, **measured)
    result = compute_class_attribution(
        context, context.find_run("vit"), noise(0), include_slow=False
    )
    assert method_names(result)[:2] == ["rollout", "attention"]  # the highest score first
    measurement = {"count": 100, "part": "validation", "steps": 16, "fill": "token dropped"}
    assert describe_measurement(result, "drop") == measurement
    assert describe_measurement(result, "blur") is None
    assert {*list_best(result, "drop")} == {*best}
    assert list_best(result, "mean") == list_best(result, "blur") == []
    assert choose_large_map(result, "drop") == "rollout"  # no map is tested on this image
    retrained = runs.read_run(make_run(tmp_path / "vit", VIT, seed=5).path)  # other weights
    assert (
        compute_class_attribution(context, retrained, noise(0), include_slow=False).summaries == {}
    )


@pytest.mark.parametrize(
    ("by_fill", "first"),
    [
        ({"drop": (0.1, (0.1, 0.3, 0.2)), "mean": (0.2, (0.3, 0.2, 0.2))}, ("mean", 2)),
        ({"drop": (0.1, (0.4, 0.3, 0.2)), "mean": (0.2, (0.1, 0.0, 0.2))}, ("mean", 1)),
        ({"drop": (0.4, (0.1, 0.3, 0.2)), "mean": (0.2, (0.3, 0.2, 0.2))}, ("rollout", 3)),
        ({"drop": (0.1, (0.1, 0.3, 0.2)), "mean": (0.2, ())}, ("rollout", 3)),  # without layers
        ({"drop": (0.1, (0.1, 0.3))}, ("rollout", 3)),  # two layers
        ({}, ("rollout", 3)),
    ],
)
def test_first_map_is_the_most_faithful_measured_map(tmp_path, by_fill, first):
    scores = {fill: ({"rollout": rollout}, (), means) for fill, (rollout, means) in by_fill.items()}
    context = make_measured_context(tmp_path, **scores)
    assert choose_first_map(context, context.find_run("vit")) == first


def test_first_map_of_a_model_without_attention_has_no_layer(tmp_path):
    run = make_run(tmp_path / "resnet", RESNET)
    write_summaries(run.path, {"mean": FaithfulnessSummary(100, {"grad_cam": 0.3}, ())})
    context = make_context(tmp_path)
    assert choose_first_map(context, context.find_run("resnet")) == ("rollout", 0)


def test_faithfulness_result_is_cached_only_for_its_request(shown, ask):
    result = ask(103)
    assert result.cached_results == {}
    measured = measure_faithfulness(shown, result, noise(103), fill="blur")
    assert [*ask(103).cached_results] == ["blur"]
    assert ask(103).cached_results["blur"].scores == measured.scores
    assert ask(103, target="cat").cached_results == ask(104).cached_results == {}
    best = max(measured.ranks, key=lambda name: measured.scores[name].score)
    assert choose_large_map(ask(103), "blur") == best
    result = ask(103, include_slow=True)  # two more maps, which are not measured yet
    assert result.cached_results["blur"].scores == measured.scores
    assert choose_large_map(result, "blur") == best
    first, *_ = blocks.result_blocks(result, measured)
    assert first.text == "Not measured yet: Integrated Gradients, Occlusion."
    assert len(blocks.score_payload(measured)["maps"]) == len(FAST_METHODS)


def test_resnet_has_grad_cam_and_is_measured_on_cells(shown, ask, monkeypatch):
    monkeypatch.setattr(faithfulness, "CURVE_STEPS", 2)  # its passes are slow
    result = ask(0, "resnet")
    assert method_names(result) == ["grad_cam"] and result.fills == ("mean", "blur")
    measured = measure_faithfulness(shown, result, noise(0))
    assert set(measured.scores) == {"grad_cam", *BASELINE_NAMES}
    assert measured.fractions.tolist() == [0, 0.5, 1]
    with pytest.raises(RunError, match=r"does not support the replacement 'drop': .*mean, blur"):
        measure_faithfulness(shown, result, noise(0), fill="drop")


@pytest.mark.parametrize("seed", [109, 110])
def test_progress_of_the_faithfulness_test_never_decreases(shown, ask, seed):
    steps = []
    measure_faithfulness(shown, ask(seed), noise(seed), on_step=lambda *at: steps.append(at))
    done, totals = zip(*steps, strict=True)
    assert list(done) == sorted(done) and {*totals} == {done[-1]}


def test_stopped_computation_caches_no_partial_result(shown, ask):
    steps = []

    def on_step(done, total):
        if steps:
            raise Stopped
        steps.append(done)

    with pytest.raises(Stopped):
        ask(105, include_slow=True, on_step=on_step)
    result = ask(105)
    assert sorted(method_names(result)) == sorted(FAST_METHODS)
    with pytest.raises(Stopped):
        measure_faithfulness(shown, result, noise(105), on_step=on_step)
    assert ask(105).cached_results == {}


def match_begins(begins: list[str], texts: list[str]) -> list[tuple[str, str]]:
    """Return each text that begins with one of `begins`; all texts must have another begin."""
    found = [(start, text) for start in begins for text in texts if text.startswith(start)]
    assert sorted(text for _, text in found) == sorted(texts) and len(found) == len(begins)
    return found


def test_every_map_has_an_explanation_and_its_scores(shown, ask):
    result = ask(106, target="cat", include_slow=True)
    methods = attributions.METHODS.values()
    assert {each["title"] for each in describe_maps(result, "mean")} == {m.title for m in methods}
    assert list_best(result, "mean") == []
    _, checks, _, captions, *_ = blocks.result_blocks(result, None)
    begins = [f"**{method.title}**: {method.caption}" for method in methods]
    longer = [text.removeprefix(start) for start, text in match_begins(begins, captions.items)]
    assert [" On 200 ground truth images (two marks)" in text for text in longer if text] == [True]
    is_checked = [row[2] != DASH for row in checks.rows]
    assert is_checked == [not each.method.is_slow for each in result.maps]
    assert blocks.score_payload(None) is None
    measured = measure_faithfulness(shown, result, noise(106))
    plots, legend, table, areas, curves, *_ = blocks.result_blocks(result, measured)
    assert len(plots.figures) == 2 and len(legend.groups[""]) == len(methods) + 2 + 1
    assert len(table.rows) == len(methods) + 2 and table.feet[0][0].endswith("random orders")
    assert len(areas.rows) == len(methods) + 2 + 40
    assert {row[0] for row in curves.rows} == {"deletion", "insertion"}
    verdicts = {row[0]: row[-1] for row in table.rows}
    assert verdicts["Edge map"] == "baseline: uses the image, but no model"
    assert verdicts["Relevance"] == measured.scores["relevance"].verdict
    shown_scores = blocks.score_payload(measured)
    assert list(shown_scores["maps"]) == list(measured.deletion)[: len(methods)]  # in order
    assert shown_scores["fractions"] == pytest.approx(measured.fractions, abs=1e-6)
    for name, each in shown_scores["maps"].items():
        score = measured.scores[name]
        assert each["points"] == pytest.approx(100 * score.score)
        assert each["p"] == score.p_orders
        assert each["beats_random"] == (score.p_orders <= 0.05)
        assert each["verdict"] == blocks.SHORT_VERDICTS[score.verdict]
        assert each["curve"] == pytest.approx(measured.deletion[name], abs=1e-6)
        assert each["ranks"] == measured.ranks[name].tolist()
    explained = dict(shown_scores["explanations"])
    assert explained and {*explained} <= {each["verdict"] for each in shown_scores["maps"].values()}
    clear = {"worse than random", "better than baselines"}
    assert {*blocks.VERDICT_EXPLANATIONS} == {
        verdict for verdict, text in blocks.SHORT_VERDICTS.items() if text not in clear
    }
    styles = blocks.METHOD_STYLES.values()
    assert list(blocks.METHOD_STYLES) == list(attributions.METHODS)
    assert len(set(styles)) == len(attributions.METHODS)
    assert not {style.colour for style in styles} & set(blocks.ORDER_COLOURS.values())


def test_curves_are_not_confused_with_colours_of_signed_maps():
    samples = [([50, 2.6772, -79.7751], [50, 0, -82.7485]), ([50, 2.5, 0], [58, 24, 15])]
    found = [colours.difference(*map(np.array, pair)) for pair in samples]
    assert found == pytest.approx([2.0425, 19.4535], abs=1e-4)  # Sharma et al. 2005, table 1
    names = [colour for colour, _ in blocks.METHOD_COLOURS]
    diverging = colours.to_lab(figures.colour_table(figures.DIVERGING_COLOURMAP) / 255)  # (256, 3)
    for number, name in enumerate(names):
        own = colours.to_lab(np.array(to_rgb(name)))
        assert colours.difference(own, diverging).min() > 11
        assert all(colours.name_difference(name, other) > 12 for other in names[:number])


def test_only_maps_of_attention_are_the_same_for_every_class(ask):
    maps = describe_maps(ask(106, include_slow=True), "mean")
    titles = {each["title"] for each in maps if not each["is_class_specific"]}
    assert titles == {"Last layer's attention", "Attention rollout"}
    for item in ask(106).maps:
        if item.method.name in ("attention", "rollout"):
            assert 0 < item.values.sum() <= 1.001


def test_cells_of_sanity_checks_are_means():
    cascade = np.array([[-0.7, 0.2], [0.5, 0.4], [0.1, 0.0]])
    check = MapCheck(np.array([0.96, 0.98]), (0, 1, 2), cascade, 0.5)
    assert blocks.format_check(check) == ["+0.97", "+0.50", "−0.25", "+0.05"]
    uniform = MapCheck(np.full(2, np.nan), (0,), np.full((1, 2), np.nan), None)
    assert blocks.format_check(uniform)[:2] == ["undefined (uniform)", DASH]
    assert blocks.format_check(None) == [DASH] * 4


def test_plot_of_the_cascade_begins_with_the_noise_ceiling(ask):
    result = ask(108)
    ((figure,),) = [each.figures for each in blocks.cascade_blocks(result)]
    first = result.maps[0]
    values = [first.check.noise_ceiling, *first.check.cascade_means]
    assert f"{first.title} {', '.join(map(blocks.format_correlation, values))}" in figure.label
    for entry, each in zip(figure.lines, result.maps, strict=True):
        assert entry.label.endswith(each.title)
    assert blocks.cascade_blocks(ask(108, target="cat", against="dog")) == []


def test_the_true_class_is_offered_first(ask):
    result = ask(0)
    marked = control_updates(result, "", "mean", "frog")
    assert marked["second_class"]["choices"][1] == ("frog (the true class)", "frog")
    assert [name for _, name in marked["explained_class"]["choices"]].count("frog") == 1
    choices = control_updates(result, "", "mean")["explained_class"]["choices"]
    assert [name for _, name in choices][1:] == list(result.run.classes)


# --- the payload and the tasks of the view --------------------------------------------------------


def view_state(model="vit", photo="cat", **options) -> ViewState:
    return ViewState(ImageRequest(f"photo:{photo}"), model, options)


def test_payload_shows_the_maps_of_the_chosen_classes(shown):
    state = view_state(explained_class="ship", second_class="dog", fill="blur")
    found = payload(shown, state)
    image = load_square(shown, state.image)
    settings = {"target": "ship", "against": "dog", "include_slow": False}
    result = compute_class_attribution(shown, shown.find_run("vit"), image, **settings)
    assert (found.data["target"], found.data["against"]) == ("ship", "dog")
    probabilities = [result.probabilities[CLASSES.index(name)] for name in ("ship", "dog")]
    assert found.data["probabilities"] == pytest.approx(probabilities, abs=1e-6)
    assert found.data["problem"] == ""
    assert np.array_equal(found.data["seen"].pixels, result.input_image)
    for each, item in zip(found.data["maps"], result.maps, strict=True):
        assert each["name"] == item.method.name
        assert np.allclose(each["values"], item.values, rtol=1e-5), each["title"]
    assert found.data["scores"] is None
    chosen = {name: update["value"] for name, update in found.controls.items()}
    assert chosen == {"explained_class": "ship", "second_class": "dog", "fill": "blur"}


def test_payload_shows_attention_of_the_layer_of_the_page(shown):
    for chosen, layer in ((0, 3), (2, 2), (99, 3)):
        maps = payload(shown, view_state(layer=chosen)).data["maps"]
        titles = [each["title"] for each in maps if each["name"] == "attention"]
        assert titles == [f"Attention, layer {layer}"]
    titles = [each["title"] for each in payload(shown, view_state("resnet", layer=2)).data["maps"]]
    assert titles == ["Grad-CAM"]


def test_only_the_test_of_a_small_model_starts_by_itself(shown, monkeypatch):
    assert payload(shown, view_state()).data["is_quick"]
    monkeypatch.setattr(bridge, "MAX_QUICK_PARAMETERS", 10)
    assert not payload(shown, view_state()).data["is_quick"]


def test_payload_ignores_unsuitable_classes_with_a_message(shown):
    found = payload(shown, view_state(explained_class="unicorn", second_class="cat"))
    assert "'vit' has no class 'unicorn'" in found.data["problem"]
    predicted = payload(shown, view_state()).data["target"]
    assert (found.data["target"], found.data["against"]) == (predicted, None)
    assert (
        found.controls["explained_class"]["value"],
        found.controls["second_class"]["value"],
    ) == ("", "")
    found = payload(shown, view_state(explained_class="cat", second_class="cat"))
    assert "'cat' cannot be compared with itself" in found.data["problem"]
    assert (found.data["target"], found.data["against"]) == ("cat", None)
    assert (
        found.controls["explained_class"]["value"],
        found.controls["second_class"]["value"],
    ) == ("cat", "")


def test_choices_match_the_model(shown, ask):
    predicted = CLASSES[int(ask(0, "resnet").probabilities.argmax())]
    controls = control_updates(ask(0, "resnet"), "", "mean")
    assert controls["explained_class"]["choices"][0] == (f"predicted class ({predicted})", "")
    assert [value for _, value in controls["second_class"]["choices"]] == ["", *CLASSES]
    fill = payload(shown, view_state("resnet", fill="drop")).controls["fill"]
    zero = replace(shown.find_run("vit").preprocessing, mean=(0.5, 0.4, 0)).zero_colour
    assert zero == (128, 102, 0)  # the colour of the input 0
    run = shown.find_run("resnet")
    label = f"Uniform colour (RGB {', '.join(map(str, run.preprocessing.zero_colour))})"
    assert fill["choices"][0] == (label, "mean")
    black = replace(run, preprocessing=replace(run.preprocessing, mean=(0, 0, 0)))
    assert label_fill("mean", black) == "Uniform colour (RGB 0, 0, 0)"
    assert [value for _, value in fill["choices"]] == ["mean", "blur"]
    assert fill["value"] == "mean"  # a ResNet has no tokens to drop
    assert choose_fill(ask(0), view_state(fill="zero")) == "drop"


def test_results_of_both_tasks_stay_in_the_payload(shown):
    state, reports = view_state(photo="lion"), []
    assert payload(shown, state).data["has_slow"]

    def run(task) -> tuple[int, bool]:
        FEATURE.tasks[f"class_attribution.{task}"](
            shown, state, lambda *report: reports.append(report)
        )
        data = payload(shown, state).data
        kinds = [block["kind"] for block in details_payload(shown, state)]
        assert "Plots" in kinds and (kinds[0] == "Text") == data["is_untested"]
        return len(data["maps"]), data["is_untested"]

    assert run("faithfulness") == (len(FAST_METHODS), False)
    assert {text for _, _, text in reports} == {"Running the faithfulness test"}
    assert run("slow") == (len(attributions.METHODS), True)  # two maps are not measured yet
    texts = list(dict.fromkeys(text for _, _, text in reports[1:]))
    assert texts[1:] == ["Computing slow maps", "Checking slow maps"]
    assert not payload(shown, state).data["has_slow"]
    assert run("faithfulness") == (len(attributions.METHODS), False)
    assert not payload(shown, state).data["scores"]["has_best"]
    del reports[:]
    assert run("order") == (len(attributions.METHODS), False)
    texts = {text for _, _, text in reports}
    assert texts == {"Searching for the best order", "Searching for the best ranking"}
    scores = payload(shown, state).data["scores"]
    assert scores["has_best"]
    assert max(each["share"] for each in scores["maps"].values()) <= 100
