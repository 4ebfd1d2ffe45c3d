"""What the sections of the Look tab share: the picture, the model, the layer, and who draws when.

A section is one file with `build(shared, ...)`, called inside its own `gr.Tab`. It draws through
`shared.when_drawn`: when it is opened, and while it is open with every new picture and model, in
the same answer. What is not open does no work.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import gradio as gr
from gradio.components import Component

from vitdemo.page.kit import MODEL_QUEUE, for_people

Draw = Callable[..., object]
# The browser alone answers a change of layer, but for sections that ask a model about it.
ELSEWHERE = "(layer, section, known) => [section === 'heads' ? known : layer]"


@dataclass(frozen=True)
class Drawer:
    """What one section draws: `draw(image, run_name, *inputs)` gives the values of `outputs`."""

    section: str
    draw: Draw
    inputs: list[Component]
    outputs: list[Component]

    def __call__(self, image, name, *values) -> list:
        """The outputs' values as a list; without a picture or model they stay as they are."""
        if image is None or name is None:
            return self.skipped
        drawn = self.draw(image, name, *values)
        return [drawn] if len(self.outputs) == 1 else list(drawn)

    @property
    def skipped(self) -> list:
        return [gr.skip()] * len(self.outputs)


@dataclass
class Shared:
    """The components that all sections of the tab read."""

    picture: gr.State  # what models can see of this user's picture: an RGB square
    model: Component  # its value: name of the chosen run
    layer: gr.Slider  # 1..L of the chosen run; the nearest one counts
    layer_elsewhere: gr.Number  # the same, but still while the attention alone is open; hidden
    section: gr.Textbox  # id of the open section; hidden, so that the browser can read it
    linked: dict[str, Component] = field(default_factory=dict)  # what the page's address holds
    drawers: list[Drawer] = field(default_factory=list)

    def when_drawn(
        self,
        section: str,
        draw: Draw,
        inputs: Sequence[Component],
        outputs: Sequence[Component],
    ) -> None:
        """Call `draw(image, run_name, *inputs)` for `outputs` whenever `section` has to be drawn.

        `section` is the id of the section's `gr.Tab`; one section may draw several things.
        """
        self.drawers.append(Drawer(section, draw, list(inputs), list(outputs)))

    def when_changed(
        self,
        section: str,
        draw: Draw,
        inputs: Sequence[Component],
        outputs: Sequence[Component],
        *,
        by: Sequence[Component] | None = None,
    ) -> None:
        """Call `draw(image, run_name, *inputs)` on a change of any of `by` (default: `inputs`).

        Only while `section` is open: one that is opened later draws with the values it finds.
        Changes by the page itself count too (a slider's reset); of many, the last one wins.
        """
        drawer = Drawer(section, draw, list(inputs), list(outputs))
        by = [self.layer_elsewhere if c is self.layer else c for c in (by or inputs)]

        @for_people
        def redraw(open_section, image, name, *values):
            is_open = open_section == section
            drawn = drawer(image, name, *values) if is_open else drawer.skipped
            return drawn[0] if len(drawn) == 1 else drawn

        gr.on(
            [component.change for component in by],
            redraw,
            inputs=[self.section, self.picture, self.model, *inputs],
            outputs=drawer.outputs,
            show_progress="hidden",
            trigger_mode="always_last",
            api_visibility="private",
            **MODEL_QUEUE,
        )

    @property
    def inputs(self) -> list[Component]:
        """What `drawn` takes behind the section, the picture and the model."""
        return [component for drawer in self.drawers for component in drawer.inputs]

    @property
    def outputs(self) -> list[Component]:
        """What `drawn` gives the values of."""
        return [component for drawer in self.drawers for component in drawer.outputs]

    def drawn(self, open_section: str, image, name, values: Sequence) -> list:
        """The values of all `outputs`: those of sections that are not open stay as they are."""
        return drawn_of(self.drawers, open_section, image, name, values)

    def wire_tabs(self, tabs: dict[str, gr.Tab]) -> None:
        """Draw a section when its tab is opened, and leave a layer's change to those that ask."""
        for name, tab in tabs.items():
            self._draw_when_opened(name, tab)
        self.layer.change(
            None,
            [self.layer, self.section, self.layer_elsewhere],
            self.layer_elsewhere,
            js=ELSEWHERE,
            api_visibility="private",
        )

    def _draw_when_opened(self, name: str, tab: gr.Tab) -> None:
        drawers = [drawer for drawer in self.drawers if drawer.section == name]
        outputs = [component for drawer in drawers for component in drawer.outputs]
        private = {"api_visibility": "private", "trigger_mode": "always_last"}
        if not drawers:
            tab.select(None, None, self.section, js=f"() => [{name!r}]", **private)
            return

        @for_people
        def draw(open_section, image, run_name, *values):
            if open_section == name:  # opened by the address, whose answer draws it
                return [gr.skip()] * (1 + len(outputs))
            return [name, *drawn_of(drawers, name, image, run_name, values)]

        asked = [self.section, self.picture, self.model]
        inputs = [*asked, *(c for d in drawers for c in d.inputs)]
        tab.select(draw, inputs, [self.section, *outputs], **private, **MODEL_QUEUE)


def drawn_of(drawers: Sequence[Drawer], opened: str, image, name, values: Sequence) -> list:
    """The values of all drawers' outputs from those of all their inputs, one after the other; what
    is not of the section (or part) `opened` stays as it is."""
    found, values = [], list(values)
    for drawer in drawers:
        own, values = values[: len(drawer.inputs)], values[len(drawer.inputs) :]
        found += drawer(image, name, *own) if drawer.section == opened else drawer.skipped
    return found


def nearest(layer: float, layers: int) -> int:
    """The layer 1..`layers` next to what the slider says."""
    return min(max(round(layer or 1), 1), layers)


def limited(value: float, top: int) -> dict:
    """An update of a slider, now at `value`, to 1..`top`.

    It moves the slider only where it must, as `renewed` does: a slide made meanwhile stays.
    """
    kept = nearest(value, top)
    return gr.update(maximum=top) if kept == value else gr.update(maximum=top, value=kept)
