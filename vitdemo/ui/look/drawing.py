"""What the models say of a picture, and a map over what one saw, as HTML."""

import numpy as np

from vitdemo import figures
from vitdemo.evaluation import top_k
from vitdemo.explorer import Answer, Look, TestPicture, final_accuracy
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
    # The run's own words: a recipe of that name may have changed since.
    words = [run.config["recipe"].get("summary") or run.spec.family]
    if "parameters" in run.config:
        words.append(f"{run.config['parameters'] / 1e6:.1f} million parameters")
    right = final_accuracy(run)
    share = "not evaluated" if right is None else f"{100 * right:.1f} % of test pictures right"
    words.append(share)
    return " · ".join(words)


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
