"""Maps of a class and the truth meter as HTML, each picture with its words and numbers."""

import numpy as np

from vitdemo import figures
from vitdemo.explorer.why import ClassMap, Truth, Why
from vitdemo.faithfulness import CENTRE
from vitdemo.figures import Curve, truth
from vitdemo.ui import html

BEST = "The truest on hundreds of test pictures; which is of this one, the truth meter below says"
FILLS = {"mean": "Mean colour", "blur": "Blurred picture", "drop": "Token dropped (ViT only)"}
OPACITY = 0.65
# Each at 2.9 : 1 or more on white and on the dark theme; neighbours differ for the colour-blind.
COLOURS = {
    "relevance": "#0a78c2",
    "gradient_rollout": "#c45f10",
    "grad_cam": "#17876a",
    "integrated_gradients": "#a2559a",
    "occlusion": "#96740a",
    "attention": "#64748b",
    "rollout": "#d0576b",
    CENTRE: "#8a98ac",
}
UNMEASURED = "Not measured yet for this picture, these maps and this fill: press the button above."


def maps_html(why: Why, known: Truth | None) -> str:
    """All maps side by side, each with its caption, its limit and its score where `known`."""
    classes, chance = why.run.classes, why.probabilities
    asked = f"Why {why.named}? {why.run.name} gives {chance_of(classes, chance, why.target)}"
    if why.against is not None:
        asked += f" and {chance_of(classes, chance, why.against)}"
    items = (map_figure(why, found, known) for found in why.maps)
    cells = f'<div class="vd-why">{"".join(items)}</div>'
    return f"<p><strong>{html.escape(asked)}.</strong></p>{cells}{legend_html(why)}"


def chance_of(classes: tuple[str, ...], probabilities: np.ndarray, index: int) -> str:
    return f"{classes[index]} {100 * probabilities[index]:.1f} %"


def map_figure(why: Why, found: ClassMap, known: Truth | None) -> str:
    values, method, side = found.values, found.method, figures.display_side(len(why.seen), 240)
    row, column = np.unravel_index(np.abs(values).argmax(), values.shape)
    peak = (
        f"strongest in row {row + 1}, column {column + 1} of {values.shape[0]} × {values.shape[1]}"
    )
    if found.signed:
        peak += ", against it" if values[row, column] < 0 else ", for it"
    if not np.ptp(values):
        peak = "the same everywhere"
    if found.signed:
        picture = truth.signed_overlay(why.seen, values, side, opacity=OPACITY)
    else:
        picture = figures.overlay(why.seen, values, side, opacity=OPACITY)
    top = float(np.abs(values).max()) or 1.0
    asked = why.named if method.class_specific else "every class alike"
    numbers = html.number_grid(values / top, "Numbers, in percent of the strongest")
    badge = f' <b class="vd-best" title="{BEST}">best on average</b>'
    best = badge if method.name == why.best else ""
    below = (
        f"{best}{score_html(method.name, known)}"
        f'<p class="vd-caption">{html.escape(method.caption)}</p>{numbers}'
    )
    alt = f"{method.title} of {why.run.name} for {asked}: {peak}"
    return html.figure(picture, alt, method.title, peak, below)


def score_html(name: str, known: Truth | None) -> str:
    if known is None:
        return ""
    deletion, insertion = known.areas[name]
    chance = known.random_areas.mean(axis=1)  # (2,)
    return (
        f'<p class="vd-score">deletion {100 * deletion:.1f} % (random {100 * chance[0]:.1f}), '
        f"insertion {100 * insertion:.1f} % (random {100 * chance[1]:.1f})</p>"
    )


def legend_html(why: Why) -> str:
    """What the colours of plain and of signed maps mean."""
    plain = html.image_uri(figures.scale_bar(160, 10))
    words = f'0 <img src="{plain}" alt="Colours from black to yellow"> the map\'s maximum'
    if any(found.signed for found in why.maps):
        bar = html.image_uri(truth.signed_scale_bar(160, 10))
        name = html.escape(why.run.classes[why.target])
        other = why.against is not None
        against = f"for {html.escape(why.run.classes[why.against])}" if other else f"against {name}"
        words += (
            f'<span class="vd-apart">{against} <img src="{bar}" '
            f'alt="Colours from purple over white to orange"> for {name}</span>'
        )
    return f'<div class="vd-legend vd-wrap">{words}</div>'


def meter_html(why: Why, known: Truth | None) -> str:
    """Both kinds of curves, and a table of areas that is their legend too."""
    if known is None:
        return f'<p class="vd-quiet">{UNMEASURED}</p>'
    value = "probability, %" if why.against is None else "probability of the two, %"
    plots = (
        ("Deletion: a true map falls at once", known.deletion, 0, "patches gone, %"),
        ("Insertion: a true map rises at once", known.insertion, 1, "patches back, %"),
    )
    cells = "".join(
        f'<figure aria-label="{html.escape(f"{title}. {words(why, known, kind)}")}">'
        f"<figcaption>{html.escape(title)}</figcaption>"
        f"{figures.svg(plot(known, curves, kind, x_label, value))}</figure>"
        for title, curves, kind, x_label in plots
    )
    return f'<div class="vd-plots">{cells}</div>{table_html(why, known)}'


def words(why: Why, known: Truth, kind: int) -> str:
    """The areas of one kind in a sentence, for those who do not see the curves."""
    areas = ", ".join(f"{title(why, n)} {100 * a[kind]:.1f}" for n, a in known.areas.items())
    chance = 100 * known.random_areas[kind].mean()
    return f"Areas in percent: {areas}; random orders {chance:.1f}."


def plot(known: Truth, curves: dict, kind: int, x_label: str, y_label: str):
    shares = 100 * known.shares
    lines = [
        Curve(shares, 100 * curve, COLOURS[name], dashed=name == CENTRE)
        for name, curve in curves.items()
    ]
    return truth.truth_plot(lines, (shares, *(100 * known.bands[kind])), x_label, y_label)


def title(why: Why, name: str) -> str:
    named = {found.method.name: found.method.title for found in why.maps}
    return named.get(name, "Centre first")


def table_html(why: Why, known: Truth) -> str:
    """Areas, the best difference first; what lies beyond nine of ten random orders is said."""
    low, high = np.quantile(known.random_areas, [0.05, 0.95], axis=1)  # (2,) each
    head = ("order", "deletion, % (low is true)", "insertion, % (high is true)", "difference", "")
    ordered = sorted(known.areas.items(), key=lambda item: item[1][0] - item[1][1])
    rows = []
    for name, (deletion, insertion) in ordered:
        beyond = [
            kind
            for kind, beats in (("deletion", deletion < low[0]), ("insertion", insertion > high[1]))
            if beats
        ]
        verdict = f"beyond random in {' and '.join(beyond)}" if beyond else "no better than random"
        dashed = ' class="vd-dashed"' if name == CENTRE else ""
        rows.append(
            f'<tr><th scope="row"><i{dashed} style="color: {COLOURS[name]}"></i>'
            f"{html.escape(title(why, name))}</th><td>{100 * deletion:.1f}</td>"
            f"<td>{100 * insertion:.1f}</td><td>{100 * (insertion - deletion):+.1f}</td>"
            f"<td>{verdict}</td></tr>"
        )
    count, chance = known.random_areas.shape[1], 100 * known.random_areas.mean(axis=1)
    bands = [f"{100 * a:.1f} to {100 * b:.1f}" for a, b in zip(low, high, strict=True)]
    rows.append(
        f'<tr><th scope="row"><i class="vd-band"></i>{count} random orders</th>'
        f"<td>{chance[0]:.1f} ({bands[0]})</td><td>{chance[1]:.1f} ({bands[1]})</td>"
        "<td></td><td>mean (nine of ten)</td></tr>"
    )
    cells = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    return (
        f'<div class="vd-scroll"><table class="vd-table vd-truth"><thead><tr>{cells}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div><p>{csv_links(why, known)}</p>"
    )


def csv_links(why: Why, known: Truth) -> str:
    areas = [(name, *pair) for name, pair in known.areas.items()]
    areas += [("random", *pair) for pair in known.random_areas.T.tolist()]
    curves = [
        (kind, name, float(share), float(value))
        for kind, lines in (("deletion", known.deletion), ("insertion", known.insertion))
        for name, line in lines.items()
        for share, value in zip(known.shares, line, strict=True)
    ]
    name = f"{why.run.name}-{why.run.classes[why.target]}-{known.fill}"
    return (
        html.csv_link(("order", "deletion", "insertion"), areas, f"{name}-areas.csv")
        + " "
        + html.csv_link(("curve", "order", "share", "value"), curves, f"{name}-curves.csv").replace(
            "Download CSV", "Download curves as CSV"
        )
    )
