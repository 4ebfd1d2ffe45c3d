"""How another tab opens a test picture in Look: the way from a number to the model's attention."""

from collections.abc import Callable
from dataclasses import dataclass

import gradio as gr
from gradio.components import Component

from vitdemo.page.kit import MODEL_QUEUE, for_people
from vitdemo.runs import Run

# The keyboard goes where the picture went; on a phone, where the map lies below, so does the page.
FOCUS = """() => requestAnimationFrame(() => {
  window.scrollTo(0, 0);
  const map = document.querySelector("#sections");
  if (map.getBoundingClientRect().top > window.innerHeight) map.scrollIntoView();
  document.querySelector('#tabs [role=tab]').focus({ preventScroll: true });
})"""
WITHOUT_WEIGHTS = "The weights of {name} are not here, so what follows is of the models that are."


@dataclass(frozen=True)
class Opener:
    """What answers for the whole of Look, see `look.build`."""

    tabs: gr.Tabs
    answer: Callable[..., list]  # (number, run name, note, *inputs) -> values of `outputs`
    inputs: list[Component]
    outputs: list[Component]
    explained_runs: Callable[[], list[Run]]
    picture: gr.State  # what models can see of this user's picture: an RGB square

    def connect(self, listen: Callable, chosen: Callable, inputs: list[Component]) -> None:
        """On the event `listen`, open the picture that `chosen(*inputs, event)` gives.

        It returns the picture's number and the name of the run to explain it with; where that run
        has no weights, the picture's words say so.
        """
        count = len(inputs)

        @for_people
        def show(event: gr.EventData, *values):
            number, name = chosen(*values[:count], event)
            known = name in [run.name for run in self.explained_runs()]
            note = WITHOUT_WEIGHTS.format(name=name) if name and not known else ""
            found = self.answer(number, name if known else None, note, *values[count:])
            return [gr.Tabs(selected="look"), *found]

        options = {"api_visibility": "private", "show_progress": "hidden"}
        everything = [*inputs, *self.inputs]
        shown = listen(show, everything, [self.tabs, *self.outputs], **options, **MODEL_QUEUE)
        shown.success(None, js=FOCUS)
