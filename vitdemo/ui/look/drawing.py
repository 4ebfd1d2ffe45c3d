"""Answers and maps as HTML, each picture with its words and numbers.

Letters: S side of what a model saw, rows and columns of its patch grid.
"""

import numpy as np

from vitdemo import figures
from vitdemo.evaluation import top_k
from vitdemo.explorer import Answer, Look, TestPicture, final_accuracy
from vitdemo.recipes import RECIPES
from vitdemo.runs import Run
from vitdemo.ui import html

LISTED = 30  # classes that are named under the answers


def offered_item(picture: TestPicture) -> tuple[np.ndarray, str]:
    return figures.enlarge(np.asarray(picture.image), 128), picture.label


def answers_html(answers: list[Answer], problems: list[str]) -> str:
    """A card for each model, and a line for each that could not answer."""
    cards = f'<div class="vd-cards">{"".join(map(card, answers))}</div>'
    vocabularies = dict.fromkeys(answer.run.classes for answer in answers)
    words = (
        f"{len(classes)} classes are all there is to say: {', '.join(classes)}. Anything else "
        "becomes the nearest of them."
        for classes in vocabularies
        if len(classes) <= LISTED
    )
    known = "".join(f'<p class="vd-quiet">{html.escape(sentence)}</p>' for sentence in words)
    return cards + known + html.notices(problems)


def card(answer: Answer) -> str:
    run, side = answer.run, answer.seen.shape[0]
    what = f"{side} × {side} pixels"
    if answer.grid:
        rows, columns = answer.grid
        what += f" in {rows} × {columns} patches"
    picture = figures.enlarge(answer.seen, display_side(side, 192))
    indices, values = top_k(answer.probabilities, 5)
    seen = html.figure(
        picture,
        f"The picture as {run.name} sees it, {what}",
        "What it sees",
        what,
        grid=answer.grid,
    )
    bars = html.probability_bars([run.classes[i] for i in indices], values)
    return (
        f'<section class="vd-card"><h3>{html.escape(run.name)}</h3>'
        f'<p class="vd-quiet">{html.escape(describe(run))}</p>'
        f'<div>{seen}<div class="vd-bars">{bars}</div></div></section>'
    )


def describe(run: Run) -> str:
    """One line: what the model is, its size, and how good it is on the test set."""
    recipe = run.config["recipe"]
    known = RECIPES.get(recipe.get("name"))  # its words may have been mended since
    words = [known.summary if known else recipe.get("summary", run.spec.family)]
    if "parameters" in run.config:
        words.append(f"{run.config['parameters'] / 1e6:.1f} million parameters")
    right = final_accuracy(run)
    share = "not evaluated" if right is None else f"{100 * right:.1f} % of test pictures right"
    words.append(share)
    return " · ".join(words)


def heads_html(look: Look, layer: int, opacity: float, one_scale: bool) -> str:
    """All heads of one layer (1..L) as a row of pictures, each by itself or on `one_scale`."""
    maps = look.head_maps(layer)  # (H, rows, columns)
    vmax = float(maps.max()) if one_scale else None
    named = [(f"Head {i}", values) for i, values in enumerate(maps, start=1)]
    items = (
        map_figure(look, values, opacity, f"{name}, layer {layer}", 160, vmax)
        for name, values in named
    )
    return html.row(items, 160)


def summary_html(look: Look, layer: int, opacity: float, rolled: np.ndarray) -> str:
    """What was seen, the mean of the heads, and the rollout up to the layer."""
    mean = look.head_maps(layer).mean(0)  # (rows, columns)
    seen = html.figure(
        figures.enlarge(look.seen, display_side(len(look.seen), 288)),
        f"What {look.run.name} saw, with its patches",
        f"What {look.run.name} saw",
        grid=look.grid,
    )
    span = f"layers 1 to {layer}" if layer > 1 else "layer 1"
    pictures = [
        seen,
        map_figure(look, mean, opacity, f"Mean of the heads, layer {layer}", 288),
        map_figure(look, rolled, opacity, f"Attention rollout, {span}", 288),
    ]
    bar = html.image_uri(figures.scale_bar(160, 10))
    legend = (
        f'<div class="vd-legend">0 <img src="{bar}" alt="Colours from black to yellow"> '
        "the map's maximum</div>"
    )
    return html.row(pictures, 250) + legend


def map_figure(
    look: Look,
    values: np.ndarray,
    opacity: float,
    title: str,
    target: int,
    vmax: float | None = None,
) -> str:
    """One map (rows, columns) over what the model saw, with where its maximum lies."""
    side = display_side(len(look.seen), target)
    row, column = np.unravel_index(values.argmax(), values.shape)
    peak = f"maximum {100 * values.max():.1f} % at row {row + 1}, column {column + 1}"
    picture = figures.overlay(look.seen, values, side, opacity=opacity, vmax=vmax)
    numbers = html.number_grid(values, "Numbers, in percent")
    return html.figure(picture, f"{look.run.name}: {title}: {peak}", title, peak, numbers)


def display_side(side: int, target: int) -> int:
    """The smallest whole multiple of `side` from `target` on: pixels stay equal squares."""
    return side * -(-target // side)
