"""Payloads of the section "Why this class?": maps with captions, and the faithfulness test."""

import numpy as np

from vitdemo import figures
from vitdemo.class_maps import ClassMap, ClassMaps, Reading, Score
from vitdemo.faithfulness import CENTRE, EDGES
from vitdemo.faithfulness.sanity import HeadCheck
from vitdemo.figures import Curve
from vitdemo.figures.charts import truth_plot
from vitdemo.figures.curves import HUES
from vitdemo.metrics import DASH, signed
from vitdemo.page.components.article import (
    Download,
    Figure,
    Legend,
    Line,
    Piece,
    Plots,
    Text,
)
from vitdemo.page.components.maps import MapRow, Panel, peak
from vitdemo.page.components.table import Column, Table

BEST = (
    "On {count} {part} images, no other map of this model scored significantly higher. This map "
    "scored significantly higher than the centre-first order and the edge map (paired t-tests with "
    "Holm's correction, p < 0.05; replacement: {fill}; {steps} steps)"
)
FILLS = {"drop": "Token dropped (ViT only)", "mean": "Mean colour", "blur": "Blurred image"}
DRAWN = ("relevance", "gradient_rollout", "grad_cam", "integrated_gradients", "occlusion")
COLOURS = dict(zip((*DRAWN, "attention"), HUES, strict=True))
COLOURS |= {"rollout": "#d0576b", CENTRE: "#8a98ac", EDGES: "#a58a6f"}  # contrast of at least 2.9:1
BASELINES = {CENTRE: "Centre first", EDGES: "Edge map"}
KNOWLEDGE = {  # the information that each baseline uses
    CENTRE: "baseline: uses the distance to the centre only",
    EDGES: "baseline: uses the image, but no model",
    "random": "baseline: uses neither image nor model; 5th to 95th percentile",
}
UNMEASURED = (
    "Not measured yet for this image, these classes and this replacement. "
    'Press "Test faithfulness".'
)


def maps_row(answer: ClassMaps, known: Reading | None, fill: str) -> MapRow:
    """Return all maps side by side, with captions, checks, scores (if `known`) and badges."""
    classes, chance = answer.run.classes, answer.probabilities
    asked = (
        f"Why {answer.named}? {answer.run.name} predicts "
        f"{chance_of(classes, chance, answer.target)}"
    )
    if answer.against is not None:
        asked += f" and {chance_of(classes, chance, answer.against)}"
    return MapRow(
        [panel(answer, found, known, fill) for found in answer.maps], f"{asked}.", ends=ends(answer)
    )


def ends(answer: ClassMaps) -> tuple[str, str]:
    """Return the labels of the negative and the positive colour of a signed map."""
    name = answer.run.classes[answer.target]
    if answer.against is None:
        return f"opposes {name}", f"supports {name}"
    return f"supports {answer.run.classes[answer.against]}", f"supports {name}"


def chance_of(classes: tuple[str, ...], probabilities: np.ndarray, index: int) -> str:
    return f"{classes[index]} {100 * probabilities[index]:.1f}%"


def panel(answer: ClassMaps, found: ClassMap, known: Reading | None, fill: str) -> Panel:
    values, method = found.values, found.method
    strongest = f"strongest in {peak(values)}"
    if found.signed:
        opposes = values.flat[np.abs(values).argmax()] < 0
        strongest += ", opposes the class" if opposes else ", supports the class"
    if not np.ptp(values):
        strongest = "uniform"
    asked = answer.named if method.class_specific else "every class (the map is the same)"
    badge = method.name in answer.best(fill)
    return Panel(
        method.title,
        values,
        answer.seen,
        f"{method.title} of {answer.run.name} for {asked}: {strongest}",
        lines=[strongest, *score_words(method.name, known), *checks(answer, found)],
        caption=method.caption,
        badge="among the best on average" if badge else "",
        badge_title=badge_words(answer, fill) if badge else "",
        signed=found.signed,
        fraction=not method.class_specific,
    )


def badge_words(answer: ClassMaps, fill: str) -> str:
    """Return the explanation of the badge, with the images that it is based on."""
    measured = answer.measured[fill]
    words = {"count": measured.pictures, "part": measured.part, "steps": measured.steps}
    return BEST.format(fill=FILLS[fill].lower(), **words)


def score_words(name: str, known: Reading | None) -> list[str]:
    if known is None:
        return []
    score = known.scores[name]
    return [f"Score {signed(100 * score.score)} points: {score.verdict} ({chances(score)})."]


def chances(score: Score) -> str:
    """Return the rank p-values that were computed, in words."""
    copies = "" if score.p_shape is None else f"; transformed copies p = {score.p_shape:.2f}"
    return f"random orders p = {score.p_orders:.2f}{copies}"


def checks(answer: ClassMaps, found: ClassMap) -> list[str]:
    """Describe the map's dependence on class and classifier head, and its completeness gap."""
    words = []
    if found.other_class is not None:
        words.append(
            f"Rank correlation with the map for {answer.runner_up}, the runner-up class: "
            f"{correlation(found.other_class)}."
        )
    if found.random_heads is not None:
        words.append(head_words(found.random_heads))
    if found.gap is not None:
        words.append(
            "The values add up to the change of the log-probability, with an error of "
            f"{found.gap:.2%}."
        )
    return words


def head_words(check: HeadCheck) -> str:
    """Describe the comparison of a map with the maps of randomised classifier heads."""
    if not check.is_defined:
        return "Randomised classifier heads: correlation undefined, because the maps are uniform."
    means = [signed(float(np.nanmean(values)), 2) for values in (check.own, check.between)]
    low, high = (signed(end, 2) for end in (np.nanmin(check.own), np.nanmax(check.own)))
    more = "more" if check.more_similar else "not significantly more"
    return (
        f"Rank correlation with {len(check.own)} randomised classifier heads: mean {means[0]} "
        f"({low} to {high}); between these heads: mean {means[1]}. The map is {more} similar to "
        f"their maps than these are to each other (p = {check.p:.2f})."
    )


def correlation(value: float) -> str:
    is_flat = value != value  # NaN
    return "undefined, because one map is uniform" if is_flat else signed(value, 2)


def meter(answer: ClassMaps, known: Reading | None) -> list[Piece]:
    """Return both plots with their legend, a table of the areas, and downloads as CSV."""
    if known is None:
        return [Text(UNMEASURED, quiet=True)]
    value = "probability, %" if answer.against is None else "probability among two classes, %"
    plots = (
        ("Deletion: lower is more faithful", known.deletion, 0, "patches removed, %"),
        ("Insertion: higher is more faithful", known.insertion, 1, "patches restored, %"),
    )
    drawn = [
        Figure(
            title,
            f"{title}. {words(answer, known, kind)}",
            figures.svg(plot(known, curves, kind, x_label, value)),
        )
        for title, curves, kind, x_label in plots
    ]
    return [legend(answer, known), Plots(drawn), table(answer, known), *downloads(answer, known)]


def legend(answer: ClassMaps, known: Reading) -> Legend:
    lines = [Line(title(answer, name), COLOURS[name], name in BASELINES) for name in known.deletion]
    return Legend({"": [*lines, Line("grey band: 5th to 95th percentile of random orders")]})


def words(answer: ClassMaps, known: Reading, kind: int) -> str:
    """Describe the areas under the curves of one plot in a sentence, for screen readers."""
    heights = ", ".join(
        f"{title(answer, name)} {100 * (score.deletion, score.insertion)[kind]:.1f}"
        for name, score in known.scores.items()
    )
    chance = 100 * known.random_areas[kind].mean()
    return f"Area under the curve, %: {heights}; random orders {chance:.1f}."


def plot(known: Reading, curves: dict, kind: int, x_label: str, y_label: str):
    shares = 100 * known.shares
    lines = [
        Curve(shares, 100 * curve, COLOURS[name], dashed=name in BASELINES)
        for name, curve in curves.items()
    ]
    return truth_plot(lines, (shares, *(100 * known.bands[kind])), x_label, y_label)


def title(answer: ClassMaps, name: str) -> str:
    named = {found.method.name: found.method.title for found in answer.maps}
    return (named | BASELINES)[name]


def table(answer: ClassMaps, known: Reading) -> Table:
    """Return the areas, score, p-values and verdict of each order, the highest score first."""
    head = (
        "order",
        "deletion area, % (lower is better)",
        "insertion area, % (higher is better)",
        "score, points",
        "p, random orders",
        "p, transformed copies",
        Column("verdict", numeric=False),
    )
    rows = []
    for name, score in sorted(known.scores.items(), key=lambda item: -item[1].score):
        heights = [f"{100 * height:.1f}" for height in (score.deletion, score.insertion)]
        shape = DASH if score.p_shape is None else f"{score.p_shape:.2f}"
        verdict = KNOWLEDGE.get(name, score.verdict)
        chance = [f"{score.p_orders:.2f}", shape, verdict]
        rows.append([title(answer, name), *heights, signed(100 * score.score), *chance])
    random = known.random_areas  # (2, R)
    low, high = 100 * np.quantile(random[1] - random[0], [0.05, 0.95])
    heights = [f"{height:.1f}" for height in 100 * random.mean(axis=1)]
    span = f"{signed(low)} to {signed(high)}"
    foot = [f"{random.shape[1]} random orders", *heights, span, "", "", KNOWLEDGE["random"]]
    return Table(head, rows, feet=[foot])


def downloads(answer: ClassMaps, known: Reading) -> list[Download]:
    areas = [
        (name, score.deletion, score.insertion, score.p_orders, score.p_shape)
        for name, score in known.scores.items()
    ]
    areas += [("random", *pair, None, None) for pair in known.random_areas.T.tolist()]
    curves = [
        (kind, name, float(share), float(value))
        for kind, lines in (("deletion", known.deletion), ("insertion", known.insertion))
        for name, line in lines.items()
        for share, value in zip(known.shares, line, strict=True)
    ]
    name = f"{answer.run.name}-{answer.run.classes[answer.target]}-{known.fill}"
    head = ("order", "deletion", "insertion", "p_orders", "p_shape")
    return [
        Download("Download CSV", f"{name}-areas", head, areas),
        Download(
            "Download curves as CSV", f"{name}-curves", ("curve", "order", "share", "value"), curves
        ),
    ]
