"""State and event handlers of the Explore tab: the image, the model, the layer and the sections."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from html import escape

import gradio as gr
from gradio.components import Component
from PIL import Image
from torch import Tensor

from vitdemo.cache import as_key
from vitdemo.class_maps import first_map
from vitdemo.errors import ImageError, RunError, VitdemoError
from vitdemo.page.components.answers import Answers, PictureAnswers
from vitdemo.page.components.attention import (
    ASK_NORMS,
    BEGINS,
    LAYER,
    SET_LAYER,
    WITH_NORMS,
    AttentionView,
    Drawn,
)
from vitdemo.page.components.offers import Offered, Offers
from vitdemo.page.components.picture import Asked, Picture, Shown, asked
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.kit import (
    ASKED,
    HIDDEN,
    LIGHT_QUEUE,
    MODEL_QUEUE,
    LayerSlider,
    for_people,
    limited,
    nearest,
)
from vitdemo.page.look import permalink, picture, rollout
from vitdemo.page.sections import Sections
from vitdemo.traced import Traced
from vitdemo.workbench import Workbench

FIRST_SECTION, CLASS_MAPS = "heads", "why"
COMMON_DEPTH = 12  # layers of ViT-Tiny to ViT-Base
# ADDRESS is the page's URL when it opened. VISITED is the view that a script opened: the URL itself
# may have changed since, because the browser also writes pending changes of the user into it.
ADDRESS, VISITED = "window.location.search", "vitdemo.visited"
# The browser handles a change of layer without a request, unless an open section needs the model.
MOVED = "(moves, ...open) => [WHERE.every((name, i) => name === open[i]) ? moves + 1 : moves]"
# Run again if another model was chosen while the image was being processed.
BEHIND = "(view, model, times) => [view?.run && view.run !== model ? times + 1 : times]"
# Keyboard focus moves to the tab of the image. A phone scrolls down, because its map is below.
FOCUS = """() => requestAnimationFrame(() => {
  window.scrollTo(0, 0);
  const map = document.querySelector("#sections");
  if (map.getBoundingClientRect().top > window.innerHeight) map.scrollIntoView();
  document.querySelector('#tabs [role=tab]').focus({ preventScroll: true });
})"""
WITHOUT_WEIGHTS = "The weights of {name} are not available. The results below are of other models."


class Look(Sections):
    """The Explore tab: its own components and event handlers; sections are added with `add`.

    Sections read `workbench`, `picture` (the square that models can see, an RGB image), `model`
    (the name of the chosen run) and `layer`. The layer is in 1..L and clamped to the model's depth.
    Until a user or a URL chooses one, it is the layer of the most faithful map.

    Sections add the components that the URL stores to `linked`. `drawn_from` lists components that
    the user edits by hand and that the URL stores in another form: a visited view resets them.
    """

    def __init__(self, workbench: Workbench, page_tabs: gr.Tabs):
        """Lay out the image in its own column; `lay_out_choices` fills the other column."""
        self.workbench, self.page_tabs = workbench, page_tabs
        self.picture = gr.State(None, time_to_live=picture.KEPT_SECONDS)
        self.section = gr.Textbox(FIRST_SECTION, visible="hidden", label="section")
        self.moves: dict[tuple[str, ...], gr.Number] = {}  # layer changes, by open section
        self.behind = gr.Number(0, visible="hidden", label="predictions of an earlier model")
        self.given = Picture(elem_id="picture")
        self.offers = Offers(elem_id="offers")
        self.answered = Answers(elem_id="answers")
        self.answering = gr.State(time_to_live=picture.KEPT_SECONDS)  # models in `answered`
        self.others = gr.Number(0, visible="hidden", label="changes of the available models")
        self.tabs: dict[str, gr.Tab] = {}  # section tabs by id

    def lay_out_choices(self) -> None:
        """Lay out the choices of model and layer."""
        with gr.Row(elem_id="look-choices"):
            runs = grouped(self.workbench.explained_runs())
            self.model = RunChoice(runs, label="Model", elem_id="model", min_width=220)
            depth = self.depth(self.model.value) or COMMON_DEPTH
            layer = self.first_layer(self.model.value) or depth
            self.layer = LayerSlider(
                1, depth, layer, step=1, label="Layer", elem_id="layer", min_width=220, buttons=[]
            )
            self.layer_is_chosen = gr.Checkbox(False, visible="hidden", label="layer is chosen")
        super().__init__([self.section], [self.picture, self.model])
        self.linked = {"model": self.model, "layer": self.layer, "section": self.section}
        self.drawn_from: list[Component] = []

    def lay_out_attention(self) -> None:
        """Lay out the section that is open first; the browser draws it."""
        self.view = AttentionView(elem_id="attention")
        of_rollout = rollout.lay_out()
        names = ("fusion", "discard", "residual", "first")
        self.linked |= dict(zip(names, of_rollout, strict=True))
        self.norms = gr.Checkbox(False, visible="hidden", label="norm-weighted attention requested")
        self.settings = [*of_rollout, self.norms]

    def asked_by(self, component: Component, where: Sequence[str]) -> Callable:
        if component is not self.layer:
            return super().asked_by(component, where)
        key = tuple(where)
        if key not in self.moves:
            self.moves[key] = gr.Number(0, visible="hidden", label="moves of the layer")
        return self.moves[key].change

    def depth(self, name: str | None) -> int:
        """Return the number of attention layers of the run `name`; 0 if it has none."""
        try:
            return self.workbench.layers(self.workbench.run(name)) if name else 0
        except VitdemoError:  # other handlers that load this model report the reason
            return 0

    def first_layer(self, name: str | None) -> int:
        """Return the initial layer of the run `name`; 0 if it has no attention."""
        return first_map(self.workbench, self.workbench.run(name))[1] if self.depth(name) else 0

    def traced(self, name: str, image: Image.Image) -> Traced:
        """Return the trace of `image` through the run `name`. Raises `RunError`."""
        return self.workbench.look(self.workbench.run(name), image)

    @property
    def asking(self) -> list[Component]:
        """Inputs of every event that updates the tab: see `answer_of_model`."""
        return [self.layer_is_chosen, self.layer, *self.settings, *self.inputs_of(self.all)]

    @property
    def image_at(self) -> int:
        """Index of the image in `asking`."""
        return 2 + len(self.settings)

    @property
    def of_model(self) -> list[Component]:
        return [self.view, self.layer, *self.outputs_of(self.all)]

    @property
    def everything(self) -> list[Component]:
        return [self.given, self.picture, self.answered, self.answering, *self.of_model]

    def answer_of_model(self, image, chosen, layer, *values) -> list:
        """Return the values of `of_model` for `image`; the arguments are the values of `asking`."""
        settings, (_, name, *rest) = split(values, len(self.settings))
        found = self.view_of(image, name, *settings)
        depth = gr.update(interactive=False)
        if isinstance(found, Drawn):
            depth = limited(layer, found.look.layers) | {"interactive": True}
            if not chosen:  # `BEGINS` moves the slider in the browser unless the user moved it
                places = zip(self.inputs_of(self.all)[len(self.always) :], rest, strict=True)
                rest = [found.layer if c is self.layer else value for c, value in places]
        return [found, depth, *self.drawn(self.all, [image, name, *rest])]

    def view_of(self, image, name, *settings) -> Drawn | str | None:
        """Return the payload of the attention view, or the reason why there is none."""
        if image is None or name is None:
            return None
        *of_rollout, norms = settings
        try:
            source, layer = first_map(self.workbench, self.workbench.run(name))
            drawn = rollout.rolled(self.traced(name, image), *of_rollout)
            products = self.products(drawn.look) if norms else None
            return replace(drawn, source=source, layer=layer, products=products)
        except VitdemoError as error:
            return str(error)

    def products(self, look: Traced) -> Tensor | str:
        """Return the data for norm-weighted attention, or the reason why this model has none."""
        try:
            return self.workbench.value_products(look)
        except RunError as error:
            return str(error)

    def answer(self, wish: Asked, *values) -> list:
        """Return the values of `everything` for the requested image."""
        try:
            shown = picture.opened(wish, self.workbench.test_picture)
        except VitdemoError as error:
            before = values[self.image_at]
            still = "" if before is None else " The previous image is still shown."
            return self.refused(f"The image could not be shown. {error}{still}")
        image = picture.square_of(shown)
        # The chosen model runs first, so that its prediction comes from the same forward pass.
        chosen = self.answer_of_model(image, *values)
        return [shown, image, *self.answers(image, shown.label), *chosen]

    @for_people
    def answer_again(self, *values) -> list:
        """Return the values of `everything` for the same image after the models have changed."""
        image = values[self.image_at]
        if image is None:
            return [gr.skip()] * len(self.everything)
        chosen = self.answer_of_model(image, *values)
        answered = self.answers(image, image.info.get(picture.TRUE_CLASS))
        return [gr.skip(), gr.skip(), *answered, *chosen]

    def answers(self, image: Image.Image, label: str | None) -> tuple[PictureAnswers, Hashable]:
        """Return the values of `answered` and `answering`."""
        asked = self.workbench.answering()
        return PictureAnswers(*self.workbench.answers(image, asked), label), as_key(asked)

    def refused(self, sentence: str) -> list:
        """Return `sentence` instead of the image; all other outputs stay unchanged."""
        return [sentence, *[gr.skip()] * (len(self.everything) - 1)]

    @for_people
    def ask(self, event: gr.EventData, *values) -> list:
        """Predict an image that the user chose."""
        try:
            wish = asked(event)
        except ImageError as error:
            return self.refused(str(error))
        return self.answer(wish, *values)

    @for_people
    def begin(self, search: str, *values) -> list:
        """Predict the image in the page's URL, or else the first photo."""
        photos = [*picture.photos()]
        wish = permalink.wish(search, photos)
        if wish is None:
            return [gr.skip()] * len(self.everything)
        found = self.answer(wish, *values)
        if isinstance(found[0], str) and photos:
            gr.Info(escape(found[0], quote=False))  # the image in the URL does not exist
            found = self.answer(Asked(photos[0]), *values)
        return found

    @for_people
    def change_model(self, *values) -> list:
        image = values[self.image_at]
        if image is None:
            return [gr.skip()] * len(self.of_model)
        return self.answer_of_model(image, *values)

    @for_people
    def look_again(self, search: str, *values) -> list:
        """Load the view in the URL; if it names no image, keep the current one."""
        if values[self.image_at] is None or "picture" in permalink.parse(search):
            return self.begin(search, *values)
        still = [gr.skip()] * (len(self.everything) - len(self.of_model))
        return [*still, *self.change_model(*values)]

    def restore(self, search: str, *, anew: bool = False) -> tuple:
        """Return the values of the controls that the page's URL specifies.

        A value that is not in the URL stays unchanged; with `anew`, it is reset.
        """
        found, runs = permalink.parse(search), self.workbench.explained_runs()
        model, _ = renewed_runs(runs, self.model.value)
        if found.get("model") in [run.name for run in runs]:
            model["value"] = found["model"]
        elif anew:
            model["value"] = self.model.value
        values = {
            name: permalink.checked(component, found.get(name))
            for name, component in self.linked.items()
            if name not in ("model", "section")
        }
        if anew:
            starts = {name: self.linked[name].value for name in values if name != "layer"}
            values |= {name: start for name, start in starts.items() if values[name] is None}
        name, chosen = model.get("value", self.model.value), False
        if depth := self.depth(name):  # the model may differ from the initial one
            first = self.first_layer(name)
            layer = nearest(first if values["layer"] is None else values["layer"], depth)
            chosen = layer != first
            values["layer"] = gr.update(maximum=depth, value=layer)
        values = [gr.skip() if value is None else value for value in values.values()]
        section = found.get("section") if found.get("section") in self.tabs else FIRST_SECTION
        by_hand = [None if anew else gr.skip()] * len(self.drawn_from)
        return model, section, gr.Tabs(selected=section), chosen, *values, *by_hand

    def connect_all(self, page: gr.Blocks) -> None:
        """Connect the events; called once, after everything is laid out."""
        self.wire(self.tabs)
        sources = [self.given.ask, self.offers.ask]  # one event, so that the latest request wins
        gr.on(sources, self.ask, self.asking, self.everything, **ASKED)
        seen = [self.view, self.model, self.behind]
        self.view.change(None, seen, self.behind, js=BEHIND, **HIDDEN)
        chosen = [self.model.input, self.behind.change]
        gr.on(chosen, self.change_model, self.asking, self.of_model, **ASKED)
        settings = [component.input for component in self.settings]
        gr.on(settings, self.view_of, [*self.always, *self.settings], self.view, **ASKED)
        self.view.norms(None, None, self.norms, js=WITH_NORMS, **HIDDEN)
        asked = [*self.always, *self.settings]
        self.view.norms(for_people(self.view_of), asked, self.view, js=ASK_NORMS, **ASKED)
        self.choose_layer_on(self.view.layer)
        begins = [self.layer, self.layer_is_chosen]
        self.view.begins(None, begins, self.layer, js=BEGINS, **HIDDEN)
        self.layer.input(None, None, self.layer_is_chosen, js="() => [true]", **HIDDEN)
        self.layer.change(None, self.layer, None, js=SET_LAYER, **HIDDEN)
        for where, moves in self.moves.items():
            moved = MOVED.replace("WHERE", str(list(where)))
            self.layer.input(None, [moves, *self.choosers], moves, js=moved, **HIDDEN)
        begun = self.follow(ADDRESS, page.load, self.restore, self.begin)
        begun.success(None, js=permalink.ARRIVE)
        for event in (page.load, self.offers.others):
            event(self.offered, None, self.offers, **HIDDEN, **LIGHT_QUEUE)
        permalink.write_when_changed(self.linked)

    def choose_layer_on(self, listen: Callable) -> None:
        """On the event `listen`, set the layer to the one chosen in a view."""
        listen(None, None, [self.layer, self.layer_is_chosen], js=LAYER, **HIDDEN)

    def answer_again_on(self, listen: Callable) -> None:
        """On the event `listen`, run all models on the same image again."""
        listen(self.answer_again, self.asking, self.everything, **ASKED)

    def visit_on(self, listen: Callable) -> None:
        """On the event `listen`, show the view that a script opens."""
        self.follow(VISITED, listen, partial(self.restore, anew=True), self.look_again)

    def follow(self, search: str, listen: Callable, restore: Callable, answer: Callable):
        """Restore and predict the view in `search`, a JavaScript expression."""
        linked = [c for name, c in self.linked.items() if name not in ("model", "section")]
        restored = [self.model, self.section, self.sections, self.layer_is_chosen]
        restored += [*linked, *self.drawn_from]
        asking = [self.section, *self.asking]
        first = f"(...values) => [{search}, ...values.slice(1)]"
        last = {"trigger_mode": "always_last", **HIDDEN}  # keep only the last of quick navigations
        read = listen(restore, self.section, restored, js=first, **last)
        return read.success(answer, asking, self.everything, js=first, **ASKED)

    def renewed(self, name: str | None, answering: Hashable, others: int) -> tuple:
        """Return the models that are available now.

        `others` increases if they are not the models whose predictions are shown.
        """
        update, _ = renewed_runs(self.workbench.explained_runs(), name)
        changed = answering is not None and answering != as_key(self.workbench.answering())
        return update, others + 1 if changed else gr.skip()

    def offered(self) -> Offered:
        """Return the example images."""
        return picture.offered(self.workbench.test_picture, self.workbench.test_size)

    def connect(self, listen: Callable, chosen: Callable, inputs: list[Component]) -> None:
        """On the event `listen` of another tab, open a test image in this tab.

        `chosen(*inputs, event)` returns the index of the test image and the name of the run to
        explain. The attention section opens, or *Why this class?* for a model without attention.
        If the run has no weights, the text below the image says so.
        """

        @for_people
        def show(event: gr.EventData, *values):
            own, asked_of = split(values, len(inputs))
            return self.opened(*chosen(*own, event), *asked_of)

        tabs = [self.page_tabs, self.sections, self.section, self.model]
        shown = listen(
            show,
            [*inputs, *self.asking],
            [*tabs, *self.everything],
            **HIDDEN,
            **MODEL_QUEUE,
        )
        shown.success(None, js=FOCUS)

    def opened(self, number: int, name: str | None, *values) -> list:
        """Return the tab's values for test image `number` and run `name` if it has weights."""
        known = name in [run.name for run in self.workbench.explained_runs()]
        before, (image, current, _, *rest) = split(values, self.image_at)
        model = name if known else current
        wish = Asked(f"{picture.TEST}{number}")
        section = FIRST_SECTION if self.depth(model) else CLASS_MAPS  # if it has no attention
        found = self.answer(wish, *before, image, model, section, *rest)
        if isinstance(found[0], Shown) and name and not known:
            found[0] = replace(
                found[0], words=f"{found[0].words} {WITHOUT_WEIGHTS.format(name=name)}"
            )
        selected = gr.Tabs(selected="look"), gr.Tabs(selected=section)
        return [*selected, section, name if known else gr.skip(), *found]


def split(values: Sequence, count: int) -> tuple[Sequence, Sequence]:
    """Split `values` into the first `count` and the rest."""
    return values[:count], values[count:]
