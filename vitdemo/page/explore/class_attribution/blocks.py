"""Documents of the section "Why this class?": maps with captions, and the faithfulness test."""

import numpy as np

from vitdemo import figures
from vitdemo.analyses.class_maps import ClassMap, ClassMaps, FaithfulnessResult, FaithfulnessScore
from vitdemo.explain.attributions import METHODS
from vitdemo.explain.faithfulness import CENTRE_BASELINE, EDGE_BASELINE
from vitdemo.explain.faithfulness.sanity import RandomHeadCheck
from vitdemo.figures import Curve
from vitdemo.figures.charts import plot_faithfulness
from vitdemo.figures.curves import HUES
from vitdemo.metrics import DASH, format_signed
from vitdemo.page.components.article import (
    DocumentBlock,
    Download,
    Figure,
    Legend,
    LegendEntry,
    Plots,
    Text,
)
from vitdemo.page.components.maps import MapPanel, MapRow, describe_peak
from vitdemo.page.components.table import Column, Table

BADGE_HELP = (
    "On {count} {part} images, no other map of this model scored significantly higher. This map "
    "scored significantly higher than the centre-first order and the edge map (paired t-tests with "
    "Holm's correction, p < 0.05; replacement: {fill}; {steps} steps)"
)
FILL_LABELS = {"drop": "Token dropped (ViT only)", "mean": "Mean colour", "blur": "Blurred image"}
COLOURED_METHODS = (
    "relevance",
    "gradient_rollout",
    "grad_cam",
    "integrated_gradients",
    "occlusion",
)
ORDER_COLOURS = dict(zip((*COLOURED_METHODS, "attention"), HUES, strict=True))
ORDER_COLOURS |= {
    "rollout": "#d0576b",
    CENTRE_BASELINE: "#8a98ac",
    EDGE_BASELINE: "#a58a6f",
}  # colours with a contrast of at least 2.9:1 to the background
BASELINE_TITLES = {CENTRE_BASELINE: "Centre first", EDGE_BASELINE: "Edge map"}
BASELINE_DESCRIPTIONS = {  # baseline -> information that it uses
    CENTRE_BASELINE: "baseline: uses only the distance to the centre",
    EDGE_BASELINE: "baseline: uses the image, but no model",
    "random": "baseline: uses neither image nor model; 5th to 95th percentile",
}
NOT_MEASURED_MESSAGE = (
    "Not measured yet for this image, these classes and this replacement. "
    'Press "Test faithfulness".'
)
MAPS_NOT_MEASURED_MESSAGE = 'Not measured yet: {titles}. Press "Test faithfulness".'


def class_map_row(
    answer: ClassMaps, known: FaithfulnessResult | None, fill: str, message: str = ""
) -> MapRow:
    """Return all attribution maps as a row with captions, checks, badges, and scores if `known`.

    The `message` is shown above the maps.
    """
    classes, chance = answer.run.classes, answer.probabilities
    asked = (
        f"Why {answer.class_text}? {answer.run.name} predicts "
        f"{format_class_probability(classes, chance, answer.target)}"
    )
    if answer.against is not None:
        asked += f" and {format_class_probability(classes, chance, answer.against)}"
    return MapRow(
        [class_map_panel(answer, found, known, fill) for found in answer.maps],
        f"{asked}.",
        message,
        colour_labels=label_colours(answer),
    )


def label_colours(answer: ClassMaps) -> tuple[str, str]:
    """Return the colour labels for negative and positive values of a signed map."""
    name = answer.run.classes[answer.target]
    if answer.against is None:
        return f"opposes {name}", f"supports {name}"
    return f"supports {answer.run.classes[answer.against]}", f"supports {name}"


def format_class_probability(
    classes: tuple[str, ...], probabilities: np.ndarray, index: int
) -> str:
    return f"{classes[index]} {100 * probabilities[index]:.1f}%"


def class_map_panel(
    answer: ClassMaps, found: ClassMap, known: FaithfulnessResult | None, fill: str
) -> MapPanel:
    values, method = found.values, found.method
    strongest = f"strongest in {describe_peak(values)}"
    if found.is_signed:
        opposes = values.flat[np.abs(values).argmax()] < 0
        strongest += ", opposes the class" if opposes else ", supports the class"
    if not np.ptp(values):
        strongest = "uniform"
    asked = answer.class_text if method.is_class_specific else "every class (the map is the same)"
    badge = method.name in answer.best_maps(fill)
    return MapPanel(
        method.title,
        values,
        answer.input_image,
        f"{method.title} of {answer.run.name} for {asked}: {strongest}",
        lines=[strongest, *describe_score(method.name, known), *describe_checks(answer, found)],
        caption=method.caption,
        badge="among the best on average" if badge else "",
        badge_title=explain_badge(answer, fill) if badge else "",
        signed=found.is_signed,
        fraction=not method.is_class_specific,
    )


def explain_badge(answer: ClassMaps, fill: str) -> str:
    """Return the help text of the badge, with the number of images in the faithfulness test."""
    measured = answer.summaries[fill]
    words = {"count": measured.pictures, "part": measured.part, "steps": measured.steps}
    return BADGE_HELP.format(fill=FILL_LABELS[fill].lower(), **words)


def describe_score(name: str, known: FaithfulnessResult | None) -> list[str]:
    if known is None or name not in known.scores:
        return []
    score = known.scores[name]
    return [
        f"Score {format_signed(100 * score.score)} points: {score.verdict} "
        f"({format_p_values(score)})."
    ]


def format_p_values(score: FaithfulnessScore) -> str:
    """Format the p-values of the tests against random orders and transformed copies."""
    copies = "" if score.p_shape is None else f"; transformed copies p = {score.p_shape:.2f}"
    return f"random orders p = {score.p_orders:.2f}{copies}"


def describe_checks(answer: ClassMaps, found: ClassMap) -> list[str]:
    """Describe a map's dependence on the class and the classifier head, and its completeness."""
    words = []
    if found.runner_up_correlation is not None:
        words.append(
            f"Rank correlation with the map for {answer.runner_up}, the runner-up class: "
            f"{format_correlation(found.runner_up_correlation)}."
        )
    if found.head_check is not None:
        words.append(describe_head_check(found.head_check))
    if found.completeness_gap is not None:
        words.append(
            "The values add up to the change of the log-probability, with an error of "
            f"{found.completeness_gap:.2%}."
        )
    return words


def describe_head_check(check: RandomHeadCheck) -> str:
    """Describe the correlation of a map with the maps of randomised classifier heads."""
    if not check.is_defined:
        return "Randomised classifier heads: correlation undefined, because the maps are uniform."
    means = [
        format_signed(float(np.nanmean(values)), 2)
        for values in (check.map_correlations, check.head_correlations)
    ]
    low, high = (
        format_signed(end, 2)
        for end in (np.nanmin(check.map_correlations), np.nanmax(check.map_correlations))
    )
    verdict = "significantly" if check.is_more_similar else "not significantly"
    return (
        f"Mean rank correlation with the maps of {len(check.map_correlations)} randomised "
        f"classifier heads: {means[0]} ({low} to {high}). Mean between these maps: {means[1]}. "
        f"The first mean is {verdict} higher than the second (p = {check.p_value:.2f})."
    )


def format_correlation(value: float) -> str:
    is_flat = value != value  # NaN
    return "undefined, because one map is uniform" if is_flat else format_signed(value, 2)


def faithfulness_blocks(answer: ClassMaps, known: FaithfulnessResult | None) -> list[DocumentBlock]:
    """Return deletion and insertion plots, a table of their areas, and CSV downloads.

    A text names the maps that were computed after the test.
    """
    if known is None:
        return [Text(NOT_MEASURED_MESSAGE, quiet=True)]
    value = "probability, %" if answer.against is None else "probability among two classes, %"
    plots = (
        ("Deletion: lower is more faithful", known.deletion, 0, "patches removed, %"),
        ("Insertion: higher is more faithful", known.insertion, 1, "patches restored, %"),
    )
    drawn = [
        Figure(
            title,
            f"{title}. {describe_areas(known, kind)}",
            figures.figure_to_svg(plot_perturbation_curves(known, curves, kind, x_label, value)),
        )
        for title, curves, kind, x_label in plots
    ]
    return [
        *list_unmeasured_maps(answer, known),
        faithfulness_legend(known),
        Plots(drawn),
        faithfulness_table(known),
        *faithfulness_downloads(answer, known),
    ]


def list_unmeasured_maps(answer: ClassMaps, known: FaithfulnessResult) -> list[DocumentBlock]:
    methods = [found.method for found in answer.maps]
    titles = ", ".join(each.title for each in methods if each.name not in known.scores)
    return [Text(MAPS_NOT_MEASURED_MESSAGE.format(titles=titles), quiet=True)] if titles else []


def faithfulness_legend(known: FaithfulnessResult) -> Legend:
    lines = [
        LegendEntry(get_order_title(name), ORDER_COLOURS[name], name in BASELINE_TITLES)
        for name in known.deletion
    ]
    return Legend({"": [*lines, LegendEntry("grey band: 5th to 95th percentile of random orders")]})


def describe_areas(known: FaithfulnessResult, kind: int) -> str:
    """List the areas under the curves of the plot `kind`, for screen readers."""
    heights = ", ".join(
        f"{get_order_title(name)} {100 * (score.deletion, score.insertion)[kind]:.1f}"
        for name, score in known.scores.items()
    )
    chance = 100 * known.random_areas[kind].mean()
    return f"Area under the curve, %: {heights}; random orders {chance:.1f}."


def plot_perturbation_curves(
    known: FaithfulnessResult, curves: dict, kind: int, x_label: str, y_label: str
):
    shares = 100 * known.fractions
    lines = [
        Curve(shares, 100 * curve, ORDER_COLOURS[name], dashed=name in BASELINE_TITLES)
        for name, curve in curves.items()
    ]
    return plot_faithfulness(lines, (shares, *(100 * known.random_bands[kind])), x_label, y_label)


def get_order_title(name: str) -> str:
    return BASELINE_TITLES.get(name) or METHODS[name].title


def faithfulness_table(known: FaithfulnessResult) -> Table:
    """Return a table with areas, score, p-values and verdict per order, highest score first."""
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
        verdict = BASELINE_DESCRIPTIONS.get(name, score.verdict)
        chance = [f"{score.p_orders:.2f}", shape, verdict]
        rows.append([get_order_title(name), *heights, format_signed(100 * score.score), *chance])
    random = known.random_areas  # (2, R)
    low, high = 100 * np.quantile(random[1] - random[0], [0.05, 0.95])
    heights = [f"{height:.1f}" for height in 100 * random.mean(axis=1)]
    span = f"{format_signed(low)} to {format_signed(high)}"
    foot = [
        f"{random.shape[1]} random orders",
        *heights,
        span,
        "",
        "",
        BASELINE_DESCRIPTIONS["random"],
    ]
    return Table(head, rows, feet=[foot])


def faithfulness_downloads(answer: ClassMaps, known: FaithfulnessResult) -> list[Download]:
    areas = [
        (name, score.deletion, score.insertion, score.p_orders, score.p_shape)
        for name, score in known.scores.items()
    ]
    areas += [("random", *pair, None, None) for pair in known.random_areas.T.tolist()]
    curves = [
        (kind, name, float(share), float(value))
        for kind, lines in (("deletion", known.deletion), ("insertion", known.insertion))
        for name, line in lines.items()
        for share, value in zip(known.fractions, line, strict=True)
    ]
    name = f"{answer.run.name}-{answer.run.classes[answer.target]}-{known.fill}"
    head = ("order", "deletion", "insertion", "p_orders", "p_shape")
    return [
        Download("Download CSV", f"{name}-areas", head, areas),
        Download(
            "Download curves as CSV", f"{name}-curves", ("curve", "order", "share", "value"), curves
        ),
    ]
