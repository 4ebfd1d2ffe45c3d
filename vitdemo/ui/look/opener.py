"""How another tab opens a test picture in Look: the way from a number to the model's attention."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import gradio as gr
from gradio.components import Component

from vitdemo.explorer import TestPicture
from vitdemo.runs import Run
from vitdemo.ui import html
from vitdemo.ui.kit import LIGHT_QUEUE, for_people
from vitdemo.ui.look import picture

# The keyboard goes where the picture went.
FOCUS = "() => requestAnimationFrame(() => document.querySelector('#tabs [role=tab]').focus())"
WITHOUT_WEIGHTS = " The weights of {name} are not here, so what follows is of the models that are."


@dataclass(frozen=True)
class Opener:
    """The components that a test picture goes into, and who knows of it."""

    tabs: gr.Tabs
    upload: gr.Image
    note: gr.HTML
    model: gr.Radio
    explained_runs: Callable[[], list[Run]]
    test_picture: Callable[[int], TestPicture]
    picture: gr.State  # what models can see of this user's picture: an RGB square

    def connect(self, listen: Callable, chosen: Callable, inputs: list[Component]) -> None:
        """On the event `listen`, open the picture that `chosen(*inputs)` gives.

        It returns the picture's number and the name of the run to explain it with; where that run
        has no weights, the picture's note says so. Its last parameter may be a `gr.EventData`.
        """

        @for_people
        @functools.wraps(chosen)
        def show(*args):
            number, name = chosen(*args)
            known = name in [run.name for run in self.explained_runs()]
            image, note = picture.opened(number, self.test_picture(number))
            if name and not known:
                note += WITHOUT_WEIGHTS.format(name=html.escape(name))
            return gr.Tabs(selected="look"), image, note, name if known else gr.skip()

        outputs = [self.tabs, self.upload, self.note, self.model]
        options = {"api_visibility": "private", "show_progress": "hidden"}
        shown = listen(show, inputs=inputs, outputs=outputs, **options, **LIGHT_QUEUE)
        shown.success(None, js=FOCUS)
