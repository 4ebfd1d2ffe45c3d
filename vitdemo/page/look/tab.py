"""What the Look tab holds and answers: the picture, the model, the layer, and its sections."""

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
# The address as the page opened with it; and the view that is visited, since what a person changed
# just before may write the address in between.
ADDRESS, VISITED = "window.location.search", "vitdemo.visited"
# The browser alone answers a change of layer, but for an open section that asks a model about it.
MOVED = "(moves, ...open) => [WHERE.every((name, i) => name === open[i]) ? moves + 1 : moves]"
# A model that was chosen while a picture was on its way is not the one that answered it.
BEHIND = "(view, model, times) => [view?.run && view.run !== model ? times + 1 : times]"
# The keyboard goes where the picture went; on a phone, where the map lies below, so does the page.
FOCUS = """() => requestAnimationFrame(() => {
  window.scrollTo(0, 0);
  const map = document.querySelector("#sections");
  if (map.getBoundingClientRect().top > window.innerHeight) map.scrollIntoView();
  document.querySelector('#tabs [role=tab]').focus({ preventScroll: true });
})"""
WITHOUT_WEIGHTS = "The weights of {name} are not here, so what follows is of the models that are."


class Look(Sections):
    """The tab's own components, and its answers; sections come in with `add`.

    Sections read `workbench`, `picture` (what models can see of this user's picture: an RGB
    square), `model` (the name of the chosen run) and `layer` (1..L of it; the nearest one counts,
    and until a person or an address chooses one, that whose map was measured truest), and put what
    the page's address is to hold into `linked`, and into `drawn_from` what a person changes by hand
    and an address holds in other words: it is emptied where a view is visited.
    """

    def __init__(self, workbench: Workbench, page_tabs: gr.Tabs):
        """Lay out the picture, in the column it stands in; `lay_out_choices` is the other one's."""
        self.workbench, self.page_tabs = workbench, page_tabs
        self.picture = gr.State(None, time_to_live=picture.KEPT_SECONDS)
        self.section = gr.Textbox(FIRST_SECTION, visible="hidden", label="section")
        self.moves: dict[tuple[str, ...], gr.Number] = {}  # of the layer, while a section is open
        self.behind = gr.Number(0, visible="hidden", label="answers of a model chosen before")
        self.given = Picture(elem_id="picture")
        self.offers = Offers(elem_id="offers")
        self.answered = Answers(elem_id="answers")
        self.answering = gr.State(time_to_live=picture.KEPT_SECONDS)  # those models
        self.others = gr.Number(0, visible="hidden", label="times that other models were there")
        self.tabs: dict[str, gr.Tab] = {}  # of the sections, by their ids

    def lay_out_choices(self) -> None:
        """The model and the layer."""
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
        """The section that is open at first, which the browser draws."""
        self.view = AttentionView(elem_id="attention")
        of_rollout = rollout.lay_out()
        names = ("fusion", "discard", "residual", "first")
        self.linked |= dict(zip(names, of_rollout, strict=True))
        self.norms = gr.Checkbox(False, visible="hidden", label="norm-weighted attention is wanted")
        self.settings = [*of_rollout, self.norms]

    def asked_by(self, component: Component, where: Sequence[str]) -> Callable:
        if component is not self.layer:
            return super().asked_by(component, where)
        key = tuple(where)
        if key not in self.moves:
            self.moves[key] = gr.Number(0, visible="hidden", label="moves of the layer")
        return self.moves[key].change

    def depth(self, name: str | None) -> int:
        """The number of layers with attention of the run `name`; 0 where it has none."""
        try:
            return self.workbench.layers(self.workbench.run(name)) if name else 0
        except VitdemoError:  # whoever asks this model for more says why
            return 0

    def first_layer(self, name: str | None) -> int:
        """The layer that the run `name` begins with; 0 where it has none."""
        return first_map(self.workbench, self.workbench.run(name))[1] if self.depth(name) else 0

    def traced(self, name: str, image: Image.Image) -> Traced:
        """The way of `image` through the run `name`. Raises `RunError`."""
        return self.workbench.look(self.workbench.run(name), image)

    @property
    def asking(self) -> list[Component]:
        """What a question takes the values of: see `answer_of_model`."""
        return [self.layer_is_chosen, self.layer, *self.settings, *self.inputs_of(self.all)]

    @property
    def image_at(self) -> int:
        """The place of the picture in `asking`."""
        return 2 + len(self.settings)

    @property
    def of_model(self) -> list[Component]:
        return [self.view, self.layer, *self.outputs_of(self.all)]

    @property
    def everything(self) -> list[Component]:
        return [self.given, self.picture, self.answered, self.answering, *self.of_model]

    def answer_of_model(self, image, chosen, layer, *values) -> list:
        """The values of `of_model` for `image`; `chosen`, `layer` and `values` are of `asking`."""
        settings, (_, name, *rest) = split(values, len(self.settings))
        found = self.view_of(image, name, *settings)
        depth = gr.update(interactive=False)
        if isinstance(found, Drawn):
            depth = limited(layer, found.look.layers) | {"interactive": True}
            if not chosen:  # the slider follows, unless it was moved meanwhile: see `BEGINS`
                places = zip(self.inputs_of(self.all)[len(self.always) :], rest, strict=True)
                rest = [found.layer if c is self.layer else value for c, value in places]
        return [found, depth, *self.drawn(self.all, [image, name, *rest])]

    def view_of(self, image, name, *settings) -> Drawn | str | None:
        """What the attention view draws, or why it has nothing to draw."""
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
        """Return what norm-weighted attention is computed from, or why this model has none."""
        try:
            return self.workbench.value_products(look)
        except RunError as error:
            return str(error)

    def answer(self, wish: Asked, *values) -> list:
        """The values of `everything` for the picture that is asked for."""
        try:
            shown = picture.opened(wish, self.workbench.test_picture)
        except VitdemoError as error:
            before = values[self.image_at]
            still = "" if before is None else " Still shown: the picture before."
            return self.refused(f"That picture could not be shown. {error}{still}")
        image = picture.square_of(shown)
        # The chosen model first: its answer is then known from the same pass.
        chosen = self.answer_of_model(image, *values)
        return [shown, image, *self.answers(image, shown.label), *chosen]

    @for_people
    def answer_again(self, *values) -> list:
        """The values of `everything` for the same picture: the models are others."""
        image = values[self.image_at]
        if image is None:
            return [gr.skip()] * len(self.everything)
        chosen = self.answer_of_model(image, *values)
        answered = self.answers(image, image.info.get(picture.TRUE_CLASS))
        return [gr.skip(), gr.skip(), *answered, *chosen]

    def answers(self, image: Image.Image, label: str | None) -> tuple[PictureAnswers, Hashable]:
        """The values of `answered` and `answering`."""
        asked = self.workbench.answering()
        return PictureAnswers(*self.workbench.answers(image, asked), label), as_key(asked)

    def refused(self, sentence: str) -> list:
        """The sentence in the picture's place; all else stays."""
        return [sentence, *[gr.skip()] * (len(self.everything) - 1)]

    @for_people
    def ask(self, event: gr.EventData, *values) -> list:
        """Answer a picture that a person chose."""
        try:
            wish = asked(event)
        except ImageError as error:
            return self.refused(str(error))
        return self.answer(wish, *values)

    @for_people
    def begin(self, search: str, *values) -> list:
        """Answer the picture that the page's address asks for, or else the first one."""
        photos = [*picture.photos()]
        wish = permalink.wish(search, photos)
        if wish is None:
            return [gr.skip()] * len(self.everything)
        found = self.answer(wish, *values)
        if isinstance(found[0], str) and photos:
            gr.Info(escape(found[0], quote=False))  # an address of a picture that is not here
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
        """Answer what the address now names, with the picture that is there where it names none."""
        if values[self.image_at] is None or "picture" in permalink.parse(search):
            return self.begin(search, *values)
        still = [gr.skip()] * (len(self.everything) - len(self.of_model))
        return [*still, *self.change_model(*values)]

    def restore(self, search: str, *, anew: bool = False) -> tuple:
        """What the page's address asks for. What it leaves out stays or, `anew`, is as the page
        starts."""
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
        if depth := self.depth(name):  # of another than at first
            first = self.first_layer(name)
            layer = nearest(first if values["layer"] is None else values["layer"], depth)
            chosen = layer != first
            values["layer"] = gr.update(maximum=depth, value=layer)
        values = [gr.skip() if value is None else value for value in values.values()]
        section = found.get("section") if found.get("section") in self.tabs else FIRST_SECTION
        by_hand = [None if anew else gr.skip()] * len(self.drawn_from)
        return model, section, gr.Tabs(selected=section), chosen, *values, *by_hand

    def connect_all(self, page: gr.Blocks) -> None:
        """Connect the events; called once, when all is laid out."""
        self.wire(self.tabs)
        sources = [self.given.ask, self.offers.ask]  # one event: the last wish is answered last
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
        """On the event `listen` the layer is the one that was chosen in a view."""
        listen(None, None, [self.layer, self.layer_is_chosen], js=LAYER, **HIDDEN)

    def answer_again_on(self, listen: Callable) -> None:
        """On the event `listen` ask all models of the same picture again."""
        listen(self.answer_again, self.asking, self.everything, **ASKED)

    def visit_on(self, listen: Callable) -> None:
        """On the event `listen` show the view that a script visits."""
        self.follow(VISITED, listen, partial(self.restore, anew=True), self.look_again)

    def follow(self, search: str, listen: Callable, restore: Callable, answer: Callable):
        """Restore and answer what `search`, read in the browser, asks for."""
        linked = [c for name, c in self.linked.items() if name not in ("model", "section")]
        restored = [self.model, self.section, self.sections, self.layer_is_chosen]
        restored += [*linked, *self.drawn_from]
        asking = [self.section, *self.asking]
        first = f"(...values) => [{search}, ...values.slice(1)]"
        last = {"trigger_mode": "always_last", **HIDDEN}  # of views in a hurry
        read = listen(restore, self.section, restored, js=first, **last)
        return read.success(answer, asking, self.everything, js=first, **ASKED)

    def renewed(self, name: str | None, answering: Hashable, others: int) -> tuple:
        """The models that there are by now; `others` goes up where they are not those whose answers
        are shown."""
        update, _ = renewed_runs(self.workbench.explained_runs(), name)
        changed = answering is not None and answering != as_key(self.workbench.answering())
        return update, others + 1 if changed else gr.skip()

    def offered(self) -> Offered:
        """Pictures to begin with."""
        return picture.offered(self.workbench.test_picture, self.workbench.test_size)

    def connect(self, listen: Callable, chosen: Callable, inputs: list[Component]) -> None:
        """On the event `listen` of another tab, open the test picture that `chosen(*inputs, event)`
        gives, with its attention, or what a model without attention has in its place.

        It returns the picture's number and the name of the run to explain it with; where that run
        has no weights, the picture's words say so.
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
        """The whole tab for test picture `number` and, where its weights are here, run `name`."""
        known = name in [run.name for run in self.workbench.explained_runs()]
        before, (image, current, _, *rest) = split(values, self.image_at)
        model = name if known else current
        wish = Asked(f"{picture.TEST}{number}")
        section = FIRST_SECTION if self.depth(model) else CLASS_MAPS  # of what has no attention
        found = self.answer(wish, *before, image, model, section, *rest)
        if isinstance(found[0], Shown) and name and not known:
            found[0] = replace(
                found[0], words=f"{found[0].words} {WITHOUT_WEIGHTS.format(name=name)}"
            )
        selected = gr.Tabs(selected="look"), gr.Tabs(selected=section)
        return [*selected, section, name if known else gr.skip(), *found]


def split(values: Sequence, count: int) -> tuple[Sequence, Sequence]:
    """The first `count`, and the rest."""
    return values[:count], values[count:]
