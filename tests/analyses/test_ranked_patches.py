"""A ranking by hand compared with maps: the scores, the document and the payload."""

import numpy as np
import pytest
import torch

from tests.support.factories import noise
from vitdemo.analyses.class_attribution import ATTENTION, compute_class_attribution
from vitdemo.analyses.ranked_patches import (
    BEST,
    NUM_RANDOM_RANKINGS,
    OWN,
    compare_ranking,
    count_ranked,
    find_best_ranking,
    get_grid,
)
from vitdemo.explain.attributions import METHODS
from vitdemo.explain.faithfulness.baselines import draw_random_rankings
from vitdemo.explain.first_patches import measure_first_patches, score_first_patches
from vitdemo.page.explore.class_attribution import ranking_payload
from vitdemo.page.explore.class_attribution.ranking import parse_ranking
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.view_state import ViewState

GRID, PATCHES = (4, 4), [5, 6, 9, 10, 0, 1, 2, 3, 4, 7]


@pytest.fixture(scope="module")
def maps(shown):
    return compute_class_attribution(shown, shown.find_run("vit"), noise(7), include_slow=False)


def test_all_rankings_have_the_same_measure(shown, maps):
    found = compare_ranking(shown, maps, noise(7), PATCHES, fill="drop")
    run = shown.find_run("vit")
    subject = shown.load_model(run), shown.prepare_input(run.preprocessing, noise(7))[1]

    def measure(orders) -> list[float]:
        asked = maps.target, torch.tensor(orders), GRID
        return score_first_patches(measure_first_patches(*subject, *asked, fill="drop")).tolist()

    assert {*found.scores} == {OWN, *(each.method.name for each in maps.maps)}
    assert found.scores[OWN] == pytest.approx(measure([PATCHES])[0], abs=1e-6)
    values = next(each.values for each in maps.maps if each.method.name == "rollout")
    first = np.argsort(-values, axis=None, kind="stable")[:10].tolist()
    assert found.scores["rollout"] == pytest.approx(measure([first])[0], abs=1e-6)
    random = [r.argsort()[:10].tolist() for r in draw_random_rankings(NUM_RANDOM_RANKINGS, 16)]
    assert found.random_scores == pytest.approx(measure(random), abs=1e-6)


def test_best_ranking_is_part_of_the_comparison_after_the_search(shown, maps):
    before, steps = compare_ranking(shown, maps, noise(7), PATCHES, fill="mean"), []
    assert BEST not in before.scores
    score = find_best_ranking(
        shown, maps, noise(7), fill="mean", on_step=lambda *at: steps.append(at)
    )
    assert steps
    found = compare_ranking(shown, maps, noise(7), PATCHES, fill="mean")
    assert found.scores == {**before.scores, BEST: score}
    assert score > max(before.random_scores)
    assert BEST not in compare_ranking(shown, maps, noise(7), PATCHES, fill="blur").scores


def test_a_contrast_has_a_best_ranking(shown):
    contrast = compute_class_attribution(
        *(shown, shown.find_run("vit"), noise(7)), target="cat", against="dog", include_slow=False
    )
    score = find_best_ranking(shown, contrast, noise(7), fill="drop")
    found = compare_ranking(shown, contrast, noise(7), PATCHES, fill="drop")
    assert found.scores[BEST] == score > found.random_scores.mean()


def test_the_grid_is_that_of_the_model(shown, maps):
    assert get_grid(shown, maps) == GRID
    assert (count_ranked(GRID), count_ranked((2, 3))) == (10, 6)


@pytest.mark.parametrize(
    ("text", "patches"),
    [
        ("4.4.5.0", [5, 0]),
        ("4.4", []),
        ("", []),
        ("4", []),
        ("8.8.5.0", []),  # another grid
        ("4.4.5.5", []),
        ("4.4.16", []),
        ("4.4.-1", []),
        ("4.4.x", []),
        ("4.4." + ".".join(map(str, range(16))), [*range(10)]),
    ],
)
def test_rankings_are_parsed(text, patches):
    assert parse_ranking(text, GRID) == patches


def test_payload_ranks_the_maps_and_the_ranking(shown):
    def ask(text, **options) -> list:
        options = {"attribution.ranking": text, **options}
        return ranking_payload(shown, ViewState(ImageRequest("photo:cat"), "vit", options))

    assert ask("") == ask("4.4.1.2.3") == []
    text = "4.4." + ".".join(map(str, PATCHES))
    sentence, table, note = ask(text)
    assert "**Your ranking** scores" in sentence["text"]
    titles = [row[0] for row in table["rows"]]
    methods = {e.title for e in METHODS.values() if not e.is_slow and e.name != ATTENTION}
    assert {*titles} == {"Your ranking", "Chance", "Attention, layer 3", *methods}
    scores = [float(row[1].replace("−", "-")) for row in table["rows"]]
    assert scores == sorted(scores, reverse=True)
    beaten = sum(score < scores[titles.index("Your ranking")] for score in scores)
    beaten -= titles.index("Chance") > titles.index("Your ranking")
    assert f"It beats {beaten} of {len(methods) + 1} maps." in sentence["text"]
    assert "Find best order" in note["text"]
