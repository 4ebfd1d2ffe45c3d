"""The comparison of a ranking by hand with the maps of *Why this class?*, as a document."""

import re

from vitdemo.analyses.class_attribution import ClassAttribution
from vitdemo.analyses.ranked_patches import BEST, OWN, RankingComparison, count_ranked
from vitdemo.documents import DocumentBlock, Text
from vitdemo.documents.table import Column, Table
from vitdemo.metrics import format_signed

CHANCE = "chance"
ABOUT_SCORE = (
    "Mean probability with only the first 1 to {count} patches of the ranking, minus the mean "
    "probability without them, in percentage points."
)
ABOUT_CHANCE = "Mean of {count} random rankings."
ABOUT_BEST = "Result of a greedy search. A better ranking may exist."
NO_SEARCH = "The button Find best order also searches for the best ranking."


def parse_ranking(text: str, grid: tuple[int, int]) -> list[int]:
    """Return the patches of a ranking, from 0; [] if `text` does not describe patches of `grid`."""
    if not re.fullmatch(r"\d+(\.\d+)+", text, re.ASCII):
        return []
    rows, columns, *patches = map(int, text.split("."))
    is_valid = (rows, columns) == grid and len({*patches}) == len(patches)
    known = is_valid and all(patch < rows * columns for patch in patches)
    return patches[: count_ranked(grid)] if known else []


def ranking_blocks(
    attribution: ClassAttribution, compared: RankingComparison, count: int
) -> list[DocumentBlock]:
    """Return a sentence and a table of all rankings of `count` patches, the highest score first."""
    chance = float(compared.random_scores.mean())
    titles = {each.method.name: each.title for each in attribution.maps}
    others = {BEST: "Best ranking found", CHANCE: "Chance"}
    titles |= {OWN: "Your ranking", **others}
    scores = sorted({**compared.scores, CHANCE: chance}.items(), key=lambda item: -item[1])
    terms = {
        others[CHANCE]: ABOUT_CHANCE.format(count=len(compared.random_scores)),
        others[BEST]: ABOUT_BEST,
    }
    rows = [[titles[name], format_signed(100 * score)] for name, score in scores]
    column = Column("score, points", ABOUT_SCORE.format(count=count))
    table = Table(["ranking", column], rows, terms=terms)
    search = [] if BEST in compared.scores else [Text(NO_SEARCH, quiet=True)]
    return [Text(describe_result(attribution, compared), told=True), table, *search]


def describe_result(attribution: ClassAttribution, compared: RankingComparison) -> str:
    own = compared.scores[OWN]
    maps = [compared.scores[each.method.name] for each in attribution.maps]
    beaten, noun = sum(own > score for score in maps), "map" if len(maps) == 1 else "maps"
    points = format_signed(100 * own, 1)
    return f"**Your ranking** scores {points} points. It beats {beaten} of {len(maps)} {noun}."
