"""The parts of the section: of all that is laid out here, only the open one is shown and draws."""

from collections.abc import Callable, Mapping, Sequence

import gradio as gr
from gradio.components import Component

from vitdemo.errors import VitdemoError
from vitdemo.page import html
from vitdemo.page.kit import QUIET
from vitdemo.page.look.shared import Drawer, Shared, drawn_of

SECTION = "inside"


class Parts:
    """A choice of parts, `titles` by their ids, and a column for each; the first one stands open.

    Not tabs: as they appear, the browser selects the first by itself, over what the page's address
    asks for.
    """

    def __init__(self, shared: Shared, titles: Mapping[str, str]):
        self.shared = shared
        choices = [(title, part) for part, title in titles.items()]
        self.open = gr.Radio(choices, value=choices[0][1], label="Part", elem_id="part")
        self.columns = {
            part: gr.Column(visible=number == 0, elem_id=f"part-{part}")
            for number, part in enumerate(titles)
        }
        self.drawers: list[Drawer] = []

    def draw(
        self,
        part: str,
        draw: Callable,
        inputs: Sequence[Component],
        outputs: Sequence[Component],
        *,
        by: Sequence[Component] = (),
    ) -> None:
        """Call `draw(image, run_name, *inputs)` for `outputs` whenever the open `part` has to be
        drawn: it is opened, the picture or the model changes, or a component of `by` does.

        What a person can mend is told in the first output, and the others are emptied.
        """
        told = _telling(draw, len(outputs))
        self.drawers.append(Drawer(part, told, list(inputs), list(outputs)))
        if by:
            self.redraw(part, told, inputs, outputs, by=by)

    def redraw(
        self,
        part: str,
        draw: Callable,
        inputs: Sequence[Component],
        outputs: Sequence[Component],
        *,
        by: Sequence[Component],
    ) -> None:
        """Call `draw(image, run_name, *inputs)` for `outputs` when a component of `by` changes
        while `part` is open."""
        drawer = Drawer(part, draw, list(inputs), list(outputs))

        def draw_if_open(image, name, open_part, *values):
            drawn = drawer(image, name, *values) if open_part == part else drawer.skipped
            return drawn[0] if len(drawn) == 1 else drawn

        self.shared.when_changed(SECTION, draw_if_open, [self.open, *inputs], outputs, by=by)

    def wire(self) -> None:
        """Connect the choice and what is drawn; called once, when all parts are laid out."""
        columns = list(self.columns.values())
        inputs = [self.open, *(each for drawer in self.drawers for each in drawer.inputs)]
        outputs = [*columns, *(each for drawer in self.drawers for each in drawer.outputs)]

        def show(open_part):
            return [gr.update(visible=part == open_part) for part in self.columns]

        def draw_open(image, name, open_part, *values):
            return [*show(open_part), *drawn_of(self.drawers, open_part, image, name, values)]

        self.shared.when_drawn(SECTION, draw_open, inputs, outputs)
        self.shared.when_changed(SECTION, draw_open, inputs, outputs, by=[self.open])
        self.open.change(show, self.open, columns, **QUIET)  # without a picture, too
        self.shared.linked["inside"] = self.open


def _telling(draw: Callable, count: int) -> Callable:
    def drawn(*arguments):
        try:
            return draw(*arguments)
        except VitdemoError as error:
            told = html.notice(str(error))
            return told if count == 1 else [told, *[None] * (count - 1)]

    return drawn
