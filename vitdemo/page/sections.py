"""One way to wire the sections of a tab, of which one is open at a time and alone does work.

    sections = Sections([opened], [picture, model])  # `opened`: a component, its value a tab's id
    sections.add("side", draw, [kind, depth], [view])  # draw(picture, model, kind, depth)
    sections.wire({"side": tab, ...})  # when all of them are laid out

A section is drawn when its tab is opened, within the one answer to a new picture or model
(`Sections.drawn`), and when a person changes one of its inputs. Each event costs a browser a tenth
of a second beside its answer, so what opens together is drawn by one. What the page changes by
itself (an address, a preset, another model's layers) asks nothing: the answer that changes it draws
the section too. All that is drawn waits in one queue, and one person's questions to models are
answered in turn (`Page.process_api`): so no answer to an older question comes after that to a newer
one.
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

# What the address opened is noted already, and the answer to the address draws it.
OPENED = "(open, openings = 0) => [NAME, open === NAME ? openings : openings + 1]"
LAST = {"trigger_mode": "always_last", **PRIVATE}


@dataclass(frozen=True)
class Section:
    """`draw` gives the values of `outputs` from those that always come first and of `inputs`.

    `where` has the id of its tab, and within that of its part, if it is one of several; it is empty
    where the section is always open. What a `VitdemoError` says stands in the first output; others
    are emptied, but for inputs.
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
    """The sections of one tab. The values of `choosers` say which is open: its tab, then its part.

    `always` come first among what each section draws from; while one is None, nothing is drawn.
    What is drawn waits in `queue`.
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
        """Add a section, or a part of one ("inside/lens"), or one that is always open ("").

        One place may have several.

        A person's change of any of `by` draws it anew (default: of the choices in `inputs`).
        """
        place = where.split("/") if where else []
        section = Section(place, draw, list(inputs), list(outputs))
        self.all.append(section)
        choices = [c for c in inputs if isinstance(c, FormComponent | RunChoice)]
        if changed := choices if by is None else by:
            events = [self.asked_by(component, section.where) for component in changed]
            self.draw_on(partial(gr.on, events), [section])

    def draw_on(self, listen: Callable, sections: Sequence[Section]) -> None:
        """Draw those of `sections` that are open on the event `listen`, as a button's `click`."""
        self._redrawn.append((listen, sections))

    def asked_by(self, component: Component, where: Sequence[str]) -> Callable:
        """The event of a person's change of `component` that asks the section at `where`."""
        return component.input

    def inputs_of(self, sections: Sequence[Section]) -> list[Component]:
        """What `drawn` takes the values of."""
        own = [component for section in sections for component in section.inputs]
        return [*self.always, *self.choosers, *own]

    def outputs_of(self, sections: Sequence[Section]) -> list[Component]:
        """What `drawn` gives the values of."""
        return [component for section in sections for component in section.outputs]

    def drawn(self, sections: Sequence[Section], values: Sequence) -> list:
        """All outputs from the values of all inputs; what is not open stays as it is."""
        values, found = list(values), []
        always = [values.pop(0) for _ in self.always]
        opened = [values.pop(0) for _ in self.choosers]
        for section in sections:
            own = [values.pop(0) for _ in section.inputs]
            is_drawn = section.is_open(opened) and not any(each is None for each in always)
            found += section.drawn(*always, *own) if is_drawn else section.skipped
        return found

    def within(self, name: str) -> list[Section]:
        """The sections of the tab `name`."""
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
        """Connect all sections, when all are laid out; `tabs` by their ids."""
        for listen, sections in self._redrawn:
            self._draw_on(listen, sections)
        for name, tab in tabs.items():
            self._draw_when_opened(name, tab)

    def _draw_when_opened(self, name: str, tab: gr.Tab) -> None:
        # The browser notes at once what is open: a model chosen meanwhile is drawn there, too.
        noted = [self.choosers[0]]
        if sections := self.within(name):
            openings = gr.Number(0, visible="hidden", label=f"openings of {name}")
            noted.append(openings)
            self._draw_on(openings.change, sections, show_progress="full")
        js = OPENED.replace("NAME", json.dumps(name))
        tab.select(None, noted, noted, js=js, **LAST)
