"""Sections of a tab, of which the page computes only the open section.

    sections = LazySections([opened], [picture, model])  # `opened`: its value is the id of a tab
    sections.add("side", draw, [kind, depth], [view])  # draw(picture, model, kind, depth)
    sections.wire({"side": tab, ...})  # after all sections are laid out

A section is drawn when the user opens its tab, changes one of its inputs, or chooses another image
or model (`LazySections.render_open`). Each event costs the browser a tenth of a second in addition
to the response, so one event draws all sections that open together. A change that the page makes
itself (by a URL, a preset or another model) starts no event. The same response then also draws the
section.

All drawing waits in one queue. A session's model requests run in order (`AppBlocks.process_api`),
so the response to an older request never arrives after the response to a newer one.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import gradio as gr
from gradio.components import Component, FormComponent

from vitdemo.errors import VitdemoError
from vitdemo.page.components.run_choice import RunChoice
from vitdemo.page.kit import MODEL_QUEUE, NO_API

# No event if the page itself opened this tab, since the same response then draws the section.
JS_MARK_OPEN = "(open, openings = 0) => [NAME, open === NAME ? openings : openings + 1]"
LATEST_EVENT = {"trigger_mode": "always_last", **NO_API}


@dataclass(frozen=True)
class LazySection:
    """Section of a tab: `draw` computes `outputs` from the common inputs of the tab and `inputs`.

    `place` has the id of the section's tab and, for a part of a section, the id of the part. It is
    empty if the section is always open. If `draw` raises a `VitdemoError`, the first output shows
    the message. The other outputs are cleared, unless they are also inputs.
    """

    place: Sequence[str]
    draw: Callable
    inputs: Sequence[Component]
    outputs: Sequence[Component]

    def is_open(self, opened: Sequence[str]) -> bool:
        return all(a == b for a, b in zip(self.place, opened, strict=False))

    def render(self, *values) -> list:
        try:
            found = self.draw(*values)
        except VitdemoError as error:
            return [str(error), *(self._clear_output(other) for other in self.outputs[1:])]
        return [found] if len(self.outputs) == 1 else list(found)

    def _clear_output(self, output: Component):
        return gr.skip() if any(output is each for each in self.inputs) else None

    @property
    def skip_all(self) -> list:
        return [gr.skip()] * len(self.outputs)


class LazySections:
    """All sections of a tab; the values of `choosers` are the ids of the open section and part.

    `common_inputs` are the first inputs of every section. While one of their values is None, no
    section is drawn. All drawing waits in `queue`.
    """

    def __init__(
        self,
        choosers: Sequence[Component],
        common_inputs: Sequence[Component] = (),
        *,
        queue: Mapping = MODEL_QUEUE,
    ):
        self.choosers, self.common_inputs, self.queue = list(choosers), list(common_inputs), queue
        self.section_list: list[LazySection] = []
        self._redraw_events: list[tuple[Callable, Sequence[LazySection]]] = []

    def add(
        self,
        where: str,
        draw: Callable,
        inputs: Sequence[Component],
        outputs: Sequence[Component],
        *,
        triggers: Sequence[Component] | None = None,
    ) -> None:
        """Add a section, or a part of a section, that is drawn while it is open.

        `where` is the id of a section ("side"), the path of a part ("side/maps"), or "" for a
        section that is always open. Several sections may have the same place. If the user changes
        one of `triggers` (default: all form components in `inputs`), the section is drawn again.
        """
        place = where.split("/") if where else []
        section = LazySection(place, draw, list(inputs), list(outputs))
        self.section_list.append(section)
        choices = [c for c in inputs if isinstance(c, FormComponent | RunChoice)]
        if changed := choices if triggers is None else triggers:
            events = [self.change_event(component, section.place) for component in changed]
            self.draw_on(partial(gr.on, events), [section])

    def draw_on(self, listen: Callable, sections: Sequence[LazySection]) -> None:
        """Draw those `sections` that are open on the event `listen`, such as a button's `click`."""
        self._redraw_events.append((listen, sections))

    def change_event(self, component: Component, where: Sequence[str]) -> Callable:
        """Return the event that means: the user changed `component` of the section at `where`."""
        return component.input

    def section_inputs(self, sections: Sequence[LazySection]) -> list[Component]:
        """Return the components whose values `render_open` receives."""
        own = [component for section in sections for component in section.inputs]
        return [*self.common_inputs, *self.choosers, *own]

    def section_outputs(self, sections: Sequence[LazySection]) -> list[Component]:
        """Return the components whose values `render_open` returns."""
        return [component for section in sections for component in section.outputs]

    def render_open(self, sections: Sequence[LazySection], values: Sequence) -> list:
        """Return the values of all outputs; the outputs of closed sections stay unchanged."""
        values, found = list(values), []
        always = [values.pop(0) for _ in self.common_inputs]
        opened = [values.pop(0) for _ in self.choosers]
        for section in sections:
            own = [values.pop(0) for _ in section.inputs]
            is_drawn = section.is_open(opened) and not any(each is None for each in always)
            found += section.render(*always, *own) if is_drawn else section.skip_all
        return found

    def sections_of_tab(self, name: str) -> list[LazySection]:
        """Return the sections of the tab `name`."""
        return [section for section in self.section_list if section.place[:1] == [name]]

    def _draw_on(
        self, listen: Callable, sections: Sequence[LazySection], show_progress: str = "hidden"
    ) -> None:
        def draw_open(*values):
            found = self.render_open(sections, values)
            return found[0] if len(found) == 1 else found

        inputs, outputs = self.section_inputs(sections), self.section_outputs(sections)
        listen(
            draw_open, inputs, outputs, show_progress=show_progress, **LATEST_EVENT, **self.queue
        )

    def wire(self, tabs: Mapping[str, gr.Tab]) -> None:
        """Connect all sections after they are laid out; `tabs` maps ids to tabs."""
        for listen, sections in self._redraw_events:
            self._draw_on(listen, sections)
        for name, tab in tabs.items():
            self._draw_on_open(name, tab)

    def _draw_on_open(self, name: str, tab: gr.Tab) -> None:
        # The browser stores the open tab immediately, so a model chosen meanwhile is drawn there.
        noted = [self.choosers[0]]
        if sections := self.sections_of_tab(name):
            openings = gr.Number(0, visible="hidden", label=f"openings of {name}")
            noted.append(openings)
            self._draw_on(openings.change, sections, show_progress="full")
        js = JS_MARK_OPEN.replace("NAME", json.dumps(name))
        tab.select(None, noted, noted, js=js, **LATEST_EVENT)
