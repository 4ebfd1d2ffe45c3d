"""Test pictures in pages of 48, each a button that opens it in Look; for any tab that chooses some.

Without the data set the same pages are a table of picture numbers with the models' answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gradio as gr
import numpy as np

from vitdemo.errors import DataError, VitdemoError
from vitdemo.page import html
from vitdemo.page.kit import QUIET, PickHTML, picked_numbers
from vitdemo.page.look.tab import Look
from vitdemo.predictions import Query, Selection
from vitdemo.runs import Run

PAGE = 48
KEPT_SECONDS = 6 * 3600
PIXELS = 64  # pictures up to this side are shown with their pixels as squares

Find = Callable[[Query], Selection]
Pictures = Callable[[Run, Sequence[int]], np.ndarray]


@dataclass(frozen=True)
class Gallery:
    """A place for the chosen pictures; `show` gives the values of `outputs`."""

    find: Find
    pictures: Pictures
    query: gr.State  # a Query, or None
    start: gr.State  # place of the first picture shown among the chosen ones, from 0
    every: gr.Checkbox
    head: gr.HTML
    view: PickHTML
    earlier: gr.Button
    later: gr.Button

    @property
    def outputs(self) -> list:
        return [self.query, *self.page]

    @property
    def page(self) -> list:
        """What changes from page to page."""
        return [self.start, self.head, self.view, self.earlier, self.later]

    def show(self, query: Query | None, every: bool) -> tuple:
        """Values of `outputs` for the first page; of None, an empty place."""
        return query, *self.turn(query, 0, every)

    def turn(self, query: Query | None, start: int, every: bool) -> tuple:
        """Values of `page`, from the picture at `start` on."""
        hidden = gr.update(visible=False)
        if query is None:
            return 0, "", "", hidden, hidden
        try:
            found = self.find(query)
        except VitdemoError as error:
            return 0, html.notice(str(error)), "", hidden, hidden
        count = len(found.numbers)
        start = max(0, min(start, (count - 1) // PAGE * PAGE))
        paged = count > PAGE
        return (
            start,
            head_html(count, start),
            self._page_html(found, start, every),
            gr.update(visible=paged, interactive=start > 0),
            gr.update(visible=paged, interactive=start + PAGE < count),
        )

    def _page_html(self, found: Selection, start: int, every: bool) -> str:
        numbers = found.numbers[start : start + PAGE]
        if not len(numbers):
            return ""
        run = found.predictions.runs[found.predictions.names.index(found.query.run)]
        try:
            shown = self.pictures(run, numbers)  # (n, S, S, 3)
        except DataError as error:
            words = f"Here are their numbers; the pictures themselves are not here. {error}"
            return html.notice(words) + table_html(found, numbers)
        return pictures_html(found, numbers, shown, every)


def lay_out(name: str, *, find: Find, pictures: Pictures) -> Gallery:
    """The components in reading order; `name` is the id of the place with the pictures."""
    query = gr.State(None, time_to_live=KEPT_SECONDS)
    start = gr.State(0, time_to_live=KEPT_SECONDS)
    with gr.Row():
        with gr.Column(min_width=300):
            head = gr.HTML(elem_id=f"{name}-head", apply_default_css=False)
        with gr.Column(min_width=300):
            every = gr.Checkbox(
                False, label="Show every model's answer", container=False, elem_id=f"{name}-every"
            )
    view = PickHTML(elem_id=name)
    with gr.Row():
        earlier = gr.Button("Previous pictures", size="sm", visible=False)
        later = gr.Button("Next pictures", size="sm", visible=False)
    return Gallery(find, pictures, query, start, every, head, view, earlier, later)


def wire(gallery: Gallery, opener: Look) -> None:
    """Turn pages, and open a picture that is picked in Look, with the model that was asked."""
    inputs = [gallery.query, gallery.start, gallery.every]

    def back(query, start, every):
        return gallery.turn(query, start - PAGE, every)

    def on(query, start, every):
        return gallery.turn(query, start + PAGE, every)

    for event, turn in (
        (gallery.earlier.click, back),
        (gallery.later.click, on),
        (gallery.every.input, gallery.turn),
    ):
        event(turn, inputs=inputs, outputs=gallery.page, **QUIET)

    def picked(query, event: gr.EventData):
        if query is None:  # kept for some hours alone
            raise VitdemoError("Choose the pictures anew: they are not kept so long.")
        (number,) = picked_numbers(event.pick, len(gallery.find(query).predictions.labels))
        return number, query.run

    opener.connect(gallery.view.pick, picked, [gallery.query])


def head_html(count: int, start: int) -> str:
    """Which of how many pictures are shown; read out when it changes."""
    if count == 0:
        words = "No picture"
    elif count == 1:
        words = "1 picture"
    elif count <= PAGE:
        words = f"{count} pictures"
    else:
        words = f"{count:,} pictures, {start + 1:,} to {min(start + PAGE, count):,} shown"
    key = ". Under each: true class → predicted class, and its confidence" if count else ""
    return f'<p class="vd-found" role="status">{words}<small>{key}</small></p>'


def pictures_html(found: Selection, numbers: np.ndarray, shown: np.ndarray, every: bool) -> str:
    """Buttons with the pictures `numbers` (n,), `shown` (n, S, S, 3) uint8, and their answers."""
    names = found.predictions.names if every else compared(found)
    items = "".join(
        _button(found, int(number), picture, names)
        for number, picture in zip(numbers, shown, strict=True)
    )
    looks = "vd-pictures" + (" vd-every" if names else "")
    looks += " vd-pixels" if shown.shape[1] <= PIXELS else ""
    return f'<div class="{looks}" data-columns="auto">{items}</div>'


def compared(found: Selection) -> list[str]:
    """The two models whose pictures these are; of one alone, the caption says enough."""
    return [found.query.run, found.query.other] if found.query.other else []


def _button(found: Selection, number: int, picture: np.ndarray, names: list[str]) -> str:
    group, name = found.predictions, found.query.run
    true = group.classes[group.labels[number]]
    predicted, confidence = answer(found, name, number)
    percent = f"{100 * confidence:.1f} %"
    named = "classified correctly" if predicted == true else f"called {predicted}"
    answers = [_line(found, other, number) for other in names]
    spoken = f"Test picture {number}: {true}, {named} by {name} with {percent}. "
    spoken += "".join(f"{words}. " for words in answers) + "Open it in Look."
    words = f"{true} ✓" if predicted == true else f"{true} → {predicted}"
    lines = f"<b>{html.escape(words)}</b><span>{percent}</span>"
    lines += "".join(f"<small>{html.escape(words)}</small>" for words in answers)
    return (
        f'<button type="button" data-pick="{number}" aria-label="{html.escape(spoken)}">'
        f'<img src="{html.thumbnail_uri(picture)}" alt="Test picture {number}">{lines}</button>'
    )


def _line(found: Selection, name: str, number: int) -> str:
    predicted, confidence = answer(found, name, number)
    right = predicted == found.predictions.classes[found.predictions.labels[number]]
    return f"{name}: {predicted}{' ✓' if right else ''} {100 * confidence:.1f} %"


def table_html(found: Selection, numbers: np.ndarray) -> str:
    """The same without pictures: their numbers, true classes, and what every model predicted."""
    group, run = found.predictions, found.query.run
    names = [run, *(name for name in group.names if name != run)]
    rows = []
    for number in map(int, numbers):
        answers = (answer(found, name, number) for name in names)
        words = (f"{predicted} {100 * confidence:.1f} %" for predicted, confidence in answers)
        rows.append((str(number), group.classes[group.labels[number]], *words))
    return html.table(("Test picture", "True class", *names), rows)


def answer(found: Selection, name: str, number: int) -> tuple[str, float]:
    """The predicted class of a picture, and its probability."""
    group = found.predictions
    row = group.probabilities[group.names.index(name), number]  # (C,)
    return group.classes[row.argmax()], float(row.max())
