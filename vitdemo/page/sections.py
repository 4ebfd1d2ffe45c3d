"""Wiring of a tab's sections, of which only the open one is computed.

    sections = Sections([opened], [picture, model])  # `opened`: its value is the id of a tab
    sections.add("side", draw, [kind, depth], [view])  # draw(picture, model, kind, depth)
    sections.wire({"side": tab, ...})  # after all sections are laid out

A section is drawn when its tab is opened and when the user changes one of its inputs. It is also
part of the response to a new image or model (`Sections.drawn`). Each event costs the browser a
tenth of a second in addition to its response, so one event draws all sections that open together.
Changes that the page makes itself (a URL, a preset, the layers of another model) start no event:
the response that makes the change also draws the section.

All drawing waits in one queue. A session's model requests run in order (`Page.process_api`), so the
response to an older request never arrives after the response to a newer one.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import gradio as gr
from gradio.components import Component, FormComponent

from vitdemo.errors import VitdemoError
from vitdemo.page.components.run_choice import RunChoice
from vitdemo.page.kit import MODEL_QUEUE, PRIVATE

# Skip when the URL handler opened this tab; it renders the section itself.
OPENED = "(open, openings = 0) => [NAME, open === NAME ? openings : openings + 1]"
LAST = {"trigger_mode": "always_last", **PRIVATE}


@dataclass(frozen=True)
class Section:
    """A section: `draw` computes the values of `outputs` from the common inputs and `inputs`.

    `where` contains the id of the section's tab, and of its part if it has several. It is empty if
    the section is always open. The message of a `VitdemoError` goes to the first output. The other
    outputs are emptied, unless they are also inputs.
    """

    where: Sequence[str]
    draw: Callable
    inputs: Sequence[Component]
    outputs: Sequence[Component]

    def is_open(self, opened: Sequence[str]) -> bool:
        return all(a == b for a, b in zip(self.where, opened, strict=False))

    def drawn(self, *values) -> list:
        try:
            found = self.draw(*values)
        except VitdemoError as error:
            return [str(error), *(self._emptied(other) for other in self.outputs[1:])]
        return [found] if len(self.outputs) == 1 else list(found)

    def _emptied(self, output: Component):
        return gr.skip() if any(output is each for each in self.inputs) else None

    @property
    def skipped(self) -> list:
        return [gr.skip()] * len(self.outputs)


class Sections:
    """The sections of one tab. The values of `choosers` are the open tab and its open part.

    `always` are the first inputs of every section; while one of them is None, nothing is drawn.
    All drawing waits in `queue`.
    """

    def __init__(
        self,
        choosers: Sequence[Component],
        always: Sequence[Component] = (),
        *,
        queue: Mapping = MODEL_QUEUE,
    ):
        self.choosers, self.always, self.queue = list(choosers), list(always), queue
        self.all: list[Section] = []
        self._redrawn: list[tuple[Callable, Sequence[Section]]] = []

    def add(
        self,
        where: str,
        draw: Callable,
        inputs: Sequence[Component],
        outputs: Sequence[Component],
        *,
        by: Sequence[Component] | None = None,
    ) -> None:
        """Add a section ("side"), a part of one ("inside/lens"), or one that is always open ("").

        Several sections may have the same place. A change of any of `by` by the user draws the
        section again (default: of the choices in `inputs`).
        """
        place = where.split("/") if where else []
        section = Section(place, draw, list(inputs), list(outputs))
        self.all.append(section)
        choices = [c for c in inputs if isinstance(c, FormComponent | RunChoice)]
        if changed := choices if by is None else by:
            events = [self.asked_by(component, section.where) for component in changed]
            self.draw_on(partial(gr.on, events), [section])

    def draw_on(self, listen: Callable, sections: Sequence[Section]) -> None:
        """On the event `listen`, such as a button's `click`, draw the open ones of `sections`."""
        self._redrawn.append((listen, sections))

    def asked_by(self, component: Component, where: Sequence[str]) -> Callable:
        """Return the event of a user's change of `component` for the section at `where`."""
        return component.input

    def inputs_of(self, sections: Sequence[Section]) -> list[Component]:
        """Return the inputs of `drawn`."""
        own = [component for section in sections for component in section.inputs]
        return [*self.always, *self.choosers, *own]

    def outputs_of(self, sections: Sequence[Section]) -> list[Component]:
        """Return the outputs of `drawn`."""
        return [component for section in sections for component in section.outputs]

    def drawn(self, sections: Sequence[Section], values: Sequence) -> list:
        """Return the values of all outputs; sections that are not open keep theirs."""
        values, found = list(values), []
        always = [values.pop(0) for _ in self.always]
        opened = [values.pop(0) for _ in self.choosers]
        for section in sections:
            own = [values.pop(0) for _ in section.inputs]
            is_drawn = section.is_open(opened) and not any(each is None for each in always)
            found += section.drawn(*always, *own) if is_drawn else section.skipped
        return found

    def within(self, name: str) -> list[Section]:
        """Return the sections of the tab `name`."""
        return [section for section in self.all if section.where[:1] == [name]]

    def _draw_on(
        self, listen: Callable, sections: Sequence[Section], show_progress: str = "hidden"
    ) -> None:
        def draw_open(*values):
            found = self.drawn(sections, values)
            return found[0] if len(found) == 1 else found

        inputs, outputs = self.inputs_of(sections), self.outputs_of(sections)
        listen(draw_open, inputs, outputs, show_progress=show_progress, **LAST, **self.queue)

    def wire(self, tabs: Mapping[str, gr.Tab]) -> None:
        """Connect all sections after they are laid out; `tabs` maps ids to tabs."""
        for listen, sections in self._redrawn:
            self._draw_on(listen, sections)
        for name, tab in tabs.items():
            self._draw_when_opened(name, tab)

    def _draw_when_opened(self, name: str, tab: gr.Tab) -> None:
        # The browser stores the open tab immediately, so a model chosen meanwhile is drawn there.
        noted = [self.choosers[0]]
        if sections := self.within(name):
            openings = gr.Number(0, visible="hidden", label=f"openings of {name}")
            noted.append(openings)
            self._draw_on(openings.change, sections, show_progress="full")
        js = OPENED.replace("NAME", json.dumps(name))
        tab.select(None, noted, noted, js=js, **LAST)
