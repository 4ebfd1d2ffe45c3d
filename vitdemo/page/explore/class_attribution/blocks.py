"""Scores of the maps of *Why this class?*, and the document *Details*: curves, numbers, texts."""

from collections.abc import Collection

import numpy as np

from vitdemo import figures
from vitdemo.analyses.class_attribution import (
    BEST_ORDER,
    BETTER_THAN_BASELINES,
    NOT_BETTER_THAN_CENTRE,
    NOT_BETTER_THAN_COPIES,
    NOT_BETTER_THAN_EDGES,
    NOT_BETTER_THAN_RANDOM,
    WORSE_THAN_RANDOM,
    AttributionMap,
    ClassAttribution,
    FaithfulnessResult,
)
from vitdemo.documents import (
    Bullets,
    DocumentBlock,
    Download,
    Figure,
    Legend,
    LegendEntry,
    Plots,
    Text,
)
from vitdemo.documents.maps import describe_peak
from vitdemo.documents.table import Column, Table
from vitdemo.explain.attributions import METHODS, AttributionMethod
from vitdemo.explain.faithfulness import (
    CENTRE_BASELINE,
    EDGE_BASELINE,
    NUM_COPIES,
    NUM_RANDOM_ORDERS,
    SIGNIFICANCE_LEVEL,
)
from vitdemo.explain.faithfulness.sanity import MAX_GREY_CHANGE, NUM_CHECKS, MapCheck
from vitdemo.explain.removal_search import MAX_PASSES
from vitdemo.figures import Curve
from vitdemo.figures.charts import plot_cascade, plot_faithfulness
from vitdemo.figures.curves import COLOURS, iter_line_styles
from vitdemo.metrics import DASH, format_signed, format_signed_range
from vitdemo.page.bridge import round_numbers
from vitdemo.page.explore.class_attribution.ground_truth import describe_failed_tests
from vitdemo.page.state_keys import PATCH_REPLACEMENT
from vitdemo.runs import Run

PROBABILITY_DIGITS = 6
FILL_LABELS = PATCH_REPLACEMENT.choices
# Colours with a contrast of at least 2.9:1 to the background. Green replaces the orange of runs,
# because orange and purple mean that a patch supports or opposes the class.
METHOD_COLOURS = (
    COLOURS[0],
    ("#6b8e23", "#8fb14a"),
    *COLOURS[2:],
    ("#d0576b", "#e0808f"),
    ("#0097a7", "#2fb3c2"),
)
METHOD_STYLES = dict(zip(METHODS, iter_line_styles(METHOD_COLOURS), strict=False))
# Orders of patches that are not from maps
ORDER_COLOURS = {CENTRE_BASELINE: "#8a98ac", EDGE_BASELINE: "#a58a6f", BEST_ORDER: "#19a3b8"}
ORDER_TITLES = {
    CENTRE_BASELINE: "Centre-first baseline",
    EDGE_BASELINE: "Edge map",
    BEST_ORDER: "Best order found",
}
ORDER_DESCRIPTIONS = {  # order -> information that it uses
    BEST_ORDER: f"search for the highest score, at most {MAX_PASSES:,} tested images",
    CENTRE_BASELINE: "baseline: uses only the distance to the centre",
    EDGE_BASELINE: "baseline: uses the image, but no model",
    "random": "baseline: uses neither image nor model; 5th to 95th percentile",
}
SHORT_VERDICTS = {  # below each map
    WORSE_THAN_RANDOM: "worse than random",
    NOT_BETTER_THAN_RANDOM: "like random",
    NOT_BETTER_THAN_CENTRE: "below centre-first",
    NOT_BETTER_THAN_EDGES: "below edge map",
    NOT_BETTER_THAN_COPIES: "like its copies",
    BETTER_THAN_BASELINES: "better than baselines",
}
VERDICT_EXPLANATIONS = {  # of the verdicts that are not self-explanatory
    NOT_BETTER_THAN_RANDOM: "not significantly better than removing patches in random order",
    NOT_BETTER_THAN_CENTRE: "not better than removing patches from the centre outwards",
    NOT_BETTER_THAN_EDGES: "not better than a map of the image's edges",
    NOT_BETTER_THAN_COPIES: "not significantly better than the same map rotated or shifted",
}
ABOUT_MAPS = (
    "Each map shows which patches support a class, according to one attribution method. The "
    "methods often disagree. Choose a second class to compare the reasons for the two classes."
)
ABOUT_TEST = (
    "**Faithfulness test.** **Deletion** removes patches in the order of decreasing map values. "
    "**Insertion** restores the patches in the same order. The score is the area under the "
    "insertion curve minus the area under the deletion curve, in percentage points. The score "
    "measures how well the map predicts the response of **this model** to removed patches. The "
    "score does not measure whether the prediction is correct, or which patches a human would "
    "use. Compare each score with four baselines:"
)
ABOUT_BASELINES = (
    "**Random orders** use neither the image nor the model. A map is compared with "
    f"{NUM_RANDOM_ORDERS} random orders.",
    "**Transformed copies** are the same map, rotated, flipped or shifted. They are necessary "
    "because smooth maps have a high score at any position. A map is compared with up to "
    f"{NUM_COPIES} copies.",
    "The **centre-first baseline** ranks patches by their distance to the centre, because most "
    "photos show their subject there.",
    "The **edge map** (Sobel gradient, mean per patch) uses the image but no model.",
)
ABOUT_P_VALUES = (
    "The tests against random orders and transformed copies have p-values. For these tests, **not "
    "better** means p > 0.05. The centre-first baseline and the edge map have only one score per "
    "image, so this comparison has no p-value. The false-positive rate of both tests together is "
    "5% for a randomly placed map. This rate applies to each map separately. Random orders are "
    "not smooth, so smooth maps pass the first test more often. With vit-scratch, a blob at the "
    "centre passes the first test on 14 of 40 validation images, and both tests on 4. The mean "
    "score of the centre-first baseline is 15 points with vit-scratch, and the mean score of "
    "random orders is 0. An edge map passes both tests on 10 of 40 images, and the mean relevance "
    "map of other images passes both tests on 8."
)
ABOUT_COMPARISONS = (
    "Do not compare scores between models, because the score also depends on the model's "
    "confidence. If the logits of vit-scratch are halved, the mean score of relevance falls from "
    "36 to 19 points. Do not compare scores between replacements either. The included Vision "
    "Transformers were trained with half of the patches dropped (PatchDropout). The included "
    "convolutional model was trained with a square removed from each image (Cutout). Other models "
    "may never have seen a removed patch."
)
ABOUT_BEST = (
    "**Best order.** A greedy search looks for the order of patches with the highest score. It "
    "first chooses the patches of the first and last steps, then swaps patches of neighbouring "
    f"steps. It tests at most {MAX_PASSES:,} images. The percentage of a score is 0% for the mean "
    "of random orders and 100% for the best order found. A better order may exist, so the "
    "percentages are upper bounds. The best order depends on the model's response to each set of "
    "patches, so it need not look like an object."
)
ABOUT_COLOUR = (
    "**Uniform colour** is the model input 0: the mean colour of the normalisation, here RGB "
    "{colour}. Occlusion and Integrated Gradients use the same colour. The section Fool the "
    "model uses the mean colour of the image instead, because all models receive this image."
)
ABOUT_CHECKS = (
    "**Sanity checks.** All correlations are rank correlations of a map with another map by the "
    "same method. 1 means the same order of patches. The **noise ceiling** is the correlation "
    f"after each grey level changed by 1 or {MAX_GREY_CHANGE}. Other correlations are hardly "
    "higher. Another seed of the training changes maps more: for three runs of first-steps, the "
    "mean correlation is 0.57 for attention rollout, 0.44 for Integrated Gradients, 0.25 for "
    "relevance and 0.05 for the last layer's attention."
)
ABOUT_CASCADE = (
    "**Cascading randomisation** (Adebayo et al. 2018) randomises the weights of the classifier "
    "head. Then it also randomises the last layer, and so on to the first layer. Here, the weights "
    "are permuted. If the correlation remains near 1, the map hardly depends on these weights. "
    f"Each point is the mean of {NUM_CHECKS} models, except for slow maps, which have one. With "
    "few models, a correlation can differ from 0 by chance."
)
CASCADE_TITLE = "Correlation after randomised layers"
ABOUT_SHARE = "0 is the mean score of random orders, and 100 is the score of the best order found."
MAPS_NOT_MEASURED_MESSAGE = "Not measured yet: {titles}."


def describe_strongest(attribution_map: AttributionMap) -> str:
    values = attribution_map.values
    if not np.ptp(values):
        return "uniform"
    strongest = f"strongest patch in {describe_peak(values)}"
    if not attribution_map.is_signed:
        return strongest
    opposes = values.flat[np.abs(values).argmax()] < 0
    return f"{strongest} ({'opposes' if opposes else 'supports'} the class)"


def describe_method(
    method: AttributionMethod, is_signed: bool, best: Collection[str]
) -> dict[str, object]:
    """Return the data of a map that do not depend on the image. `best` are the best maps."""
    return {
        "name": method.name,
        "title": method.title,
        "signed": is_signed,
        "is_class_specific": method.is_class_specific,
        "is_best": method.name in best,
    }


def score_payload(known: FaithfulnessResult | None) -> dict | None:
    """Return the scores of maps in points, their verdicts, and the curves of removed patches.

    `random` is the mean probability of random orders at each of the `fractions` of patches.
    `explanations` are about the verdicts of these maps. `has_best` tells whether the best order is
    known.
    """
    if known is None:
        return None
    verdicts = {known.scores[name].verdict for name in known.ranks}
    return {
        "fractions": round_numbers(known.fractions, PROBABILITY_DIGITS),
        "random": round_numbers(known.random_bands[0][0], PROBABILITY_DIGITS),
        "maps": {name: describe_score(known, name) for name in known.ranks},
        "has_best": known.best_ranks is not None,
        "explanations": [
            [SHORT_VERDICTS[verdict], text]
            for verdict, text in VERDICT_EXPLANATIONS.items()
            if verdict in verdicts
        ],
    }


def describe_score(known: FaithfulnessResult, name: str) -> dict:
    score, share = known.scores[name], known.compute_share(name)
    return {
        "points": 100 * score.score,
        "share": None if share is None else round(100 * share),
        "p": score.p_orders,
        "beats_random": score.p_orders <= SIGNIFICANCE_LEVEL,
        "beats_all": score.verdict == BETTER_THAN_BASELINES,
        "is_worse": score.verdict == WORSE_THAN_RANDOM,
        "verdict": SHORT_VERDICTS[score.verdict],
        "title": score.verdict,
        "curve": round_numbers(known.deletion[name], PROBABILITY_DIGITS),
        "ranks": known.ranks[name].tolist(),
    }


def random_score_range(known: FaithfulnessResult) -> list[float]:
    """Return the 5th and the 95th percentile of the scores of random orders, in points."""
    deletion, insertion = known.random_areas  # (R,) each
    return (100 * np.quantile(insertion - deletion, [0.05, 0.95])).tolist()


def checks_table(attribution: ClassAttribution) -> Table:
    """Return a table of maps: strongest patch and sanity checks, which slow maps may not have."""
    head = (
        "map",
        Column("strongest patch", numeric=False),
        Column(
            "noise ceiling",
            "Mean rank correlation with the maps of images with slightly changed grey levels.",
        ),
        Column(
            f"correlation with {attribution.runner_up}",
            "Rank correlation with the map for the runner-up class.",
        ),
        Column(
            "random head",
            "Mean rank correlation with the maps of models with a random classifier head.",
        ),
        Column(
            "random layers",
            "The same if all layers are also random, but not the patch embedding.",
        ),
        Column(
            "completeness error",
            "Difference between the sum of Integrated Gradients and the change of the "
            "log-probability.",
        ),
    )
    rows = []
    for found in attribution.maps:
        gap = found.completeness_gap
        strongest = describe_strongest(found).removeprefix("strongest patch in ")
        error = DASH if gap is None else f"{gap:.2%}"
        rows.append([found.title, strongest, *format_check(found.check), error])
    return Table(head, rows)


def format_check(check: MapCheck | None) -> list[str]:
    """Return noise ceiling, and correlations with runner-up, random head and random layers."""
    if check is None:
        return [DASH] * 4
    means = check.cascade_means
    runner_up = DASH if check.runner_up is None else format_correlation(check.runner_up)
    return [
        format_correlation(check.noise_ceiling),
        runner_up,
        *map(format_correlation, (means[0], means[-1])),
    ]


def cascade_blocks(attribution: ClassAttribution) -> list[DocumentBlock]:
    """Return a plot of the maps' correlations by the number of randomised layers."""
    checked = [each for each in attribution.maps if each.check]
    if not checked:
        return []
    layers = checked[0].check.layers
    curves, texts = [], []
    for each in checked:
        values = [each.check.noise_ceiling, *each.check.cascade_means]
        style = METHOD_STYLES[each.method.name]
        curves.append(style.curve(range(len(values)), values, training=False))
        texts.append(f"{each.title} {', '.join(map(format_correlation, values))}")
    ticks = ["none", "head", *map(str, layers[1:])]
    drawn = plot_cascade(curves, ticks, "randomised layers, from the last one")
    stages = f"none (noise ceiling), classifier head, and {', '.join(ticks[2:])} layers"
    label = f"{CASCADE_TITLE}. Rank correlations for {stages}: {'; '.join(texts)}."
    figure = Figure(CASCADE_TITLE, label, figures.figure_to_svg(drawn), list_entries(checked))
    return [Plots([figure])]


def format_correlation(value: float) -> str:
    is_flat = value != value  # NaN
    return "undefined (uniform)" if is_flat else format_signed(value, 2)


def result_blocks(
    attribution: ClassAttribution, known: FaithfulnessResult | None
) -> list[DocumentBlock]:
    """Return curves and numbers of the test, if it is `known`, then checks and explanations."""
    results = []
    if known is not None:
        table = faithfulness_table(attribution, known)
        results = [*curve_blocks(attribution, known), table, *downloads(attribution, known)]
    checks = [*cascade_blocks(attribution), checks_table(attribution)]
    return [*results, *checks, *about_blocks(attribution)]


def format_zero_colour(run: Run) -> str:
    return ", ".join(map(str, run.preprocessing.zero_colour))


def label_fill(fill: str, run: Run) -> str:
    """Return the label of a replacement; the uniform colour depends on the model."""
    label = FILL_LABELS[fill]
    return f"{label} (RGB {format_zero_colour(run)})" if fill == "mean" else label


def about_blocks(attribution: ClassAttribution) -> list[DocumentBlock]:
    captions = [
        f"**{found.title}**: {found.method.caption}{describe_failed_tests(found.method.name)}"
        for found in attribution.maps
    ]
    return [
        Text(ABOUT_MAPS),
        Bullets(captions),
        Text(ABOUT_TEST),
        Bullets(ABOUT_BASELINES),
        Text(ABOUT_BEST),
        Text(ABOUT_COLOUR.format(colour=format_zero_colour(attribution.run))),
        *map(Text, (ABOUT_P_VALUES, ABOUT_COMPARISONS, ABOUT_CHECKS, ABOUT_CASCADE)),
    ]


def curve_blocks(attribution: ClassAttribution, known: FaithfulnessResult) -> list[DocumentBlock]:
    """Return deletion and insertion plots, and a text that lists maps without curves."""
    value = "probability, %" if attribution.against is None else "probability among two classes, %"
    plots = (
        ("Deletion: lower is more faithful", known.deletion, 0, "patches removed, %"),
        ("Insertion: higher is more faithful", known.insertion, 1, "patches restored, %"),
    )
    drawn = [
        Figure(
            title,
            f"{title}. {describe_areas(attribution, known, kind)}",
            figures.figure_to_svg(plot_perturbation_curves(known, curves, kind, x_label, value)),
        )
        for title, curves, kind, x_label in plots
    ]
    legend = draw_legend(attribution, known)
    return [*list_unmeasured_maps(attribution, known), Plots(drawn), legend]


def list_unmeasured_maps(
    attribution: ClassAttribution, known: FaithfulnessResult
) -> list[DocumentBlock]:
    titles = ", ".join(each.title for each in known.list_missing(attribution.maps))
    return [Text(MAPS_NOT_MEASURED_MESSAGE.format(titles=titles), quiet=True)] if titles else []


def draw_legend(attribution: ClassAttribution, known: FaithfulnessResult) -> Legend:
    lines = list_entries(attribution.maps)
    lines += [
        LegendEntry(title, ORDER_COLOURS[name], dashed=True)
        for name, title in ORDER_TITLES.items()
        if name in known.scores
    ]
    return Legend({"": [*lines, LegendEntry("grey band: 5th to 95th percentile of random orders")]})


def list_entries(maps: Collection[AttributionMap]) -> list[LegendEntry]:
    """Return a legend's entries of `maps`."""
    styles = [(each.title, METHOD_STYLES[each.method.name]) for each in maps]
    return [LegendEntry(f"{style.symbol} {title}".strip(), style.colour) for title, style in styles]


def describe_areas(attribution: ClassAttribution, known: FaithfulnessResult, kind: int) -> str:
    """List the areas under the curves of the plot `kind`, for screen readers."""
    titles = get_order_titles(attribution)
    heights = ", ".join(
        f"{titles[name]} {100 * (score.deletion, score.insertion)[kind]:.1f}"
        for name, score in known.scores.items()
    )
    chance = 100 * known.random_areas[kind].mean()
    return f"Area under the curve, %: {heights}; random orders {chance:.1f}."


def plot_perturbation_curves(
    known: FaithfulnessResult, curves: dict, kind: int, x_label: str, y_label: str
):
    shares = 100 * known.fractions
    lines = [
        Curve(shares, 100 * curve, ORDER_COLOURS[name], dashed=True)
        if name in ORDER_COLOURS
        else METHOD_STYLES[name].curve(shares, 100 * curve, training=False)
        for name, curve in curves.items()
    ]
    return plot_faithfulness(lines, (shares, *(100 * known.random_bands[kind])), x_label, y_label)


def get_order_titles(attribution: ClassAttribution) -> dict[str, str]:
    return {each.method.name: each.title for each in attribution.maps} | ORDER_TITLES


def faithfulness_table(attribution: ClassAttribution, known: FaithfulnessResult) -> Table:
    """Return a table with areas, score, p-values and verdict per order, highest score first.

    After the search for the best order, the table also contains the percentages of its score.
    """
    has_best = known.best_ranks is not None
    head = (
        "order",
        "deletion area, % (lower is better)",
        "insertion area, % (higher is better)",
        "score, points",
        *([Column("% of best order", ABOUT_SHARE)] if has_best else []),
        "p, random orders",
        "p, transformed copies",
        Column("verdict", numeric=False),
    )
    rows, titles = [], get_order_titles(attribution)
    for name, score in sorted(known.scores.items(), key=lambda item: -item[1].score):
        heights = [f"{100 * height:.1f}" for height in (score.deletion, score.insertion)]
        points = [format_signed(100 * score.score), *[format_share(known, name)] * has_best]
        p_values = get_p_values(known, name)
        chance = [DASH if p is None else f"{p:.2f}" for p in p_values]
        verdict = ORDER_DESCRIPTIONS.get(name, score.verdict)
        rows.append([titles[name], *heights, *points, *chance, verdict])
    random = known.random_areas  # (2, R)
    heights = [f"{height:.1f}" for height in 100 * random.mean(axis=1)]
    foot = [
        f"{random.shape[1]} random orders",
        *heights,
        format_signed_range(*random_score_range(known)),
        *[""] * (3 if has_best else 2),
        ORDER_DESCRIPTIONS["random"],
    ]
    return Table(head, rows, feet=[foot])


def get_p_values(known: FaithfulnessResult, name: str) -> tuple[float | None, float | None]:
    """Return the p-values of an order against random orders and transformed copies.

    The best order has none: a search selected it for its score.
    """
    score = known.scores[name]
    return (None, None) if name == BEST_ORDER else (score.p_orders, score.p_shape)


def format_share(known: FaithfulnessResult, name: str) -> str:
    share = known.compute_share(name)
    return DASH if share is None else format_signed(100 * share, 0).removeprefix("+")


def downloads(attribution: ClassAttribution, known: FaithfulnessResult) -> list[Download]:
    areas = [
        (name, score.deletion, score.insertion, *get_p_values(known, name))
        for name, score in known.scores.items()
    ]
    areas += [("random", *pair, None, None) for pair in known.random_areas.T.tolist()]
    curves = [
        (kind, name, float(share), float(value))
        for kind, lines in (("deletion", known.deletion), ("insertion", known.insertion))
        for name, line in lines.items()
        for share, value in zip(known.fractions, line, strict=True)
    ]
    name = f"{attribution.run.name}-{attribution.run.classes[attribution.target]}-{known.fill}"
    head = ("order", "deletion", "insertion", "p_orders", "p_shape")
    return [
        Download("Download CSV", f"{name}-areas", head, areas),
        Download(
            "Download curves as CSV", f"{name}-curves", ("curve", "order", "share", "value"), curves
        ),
    ]
