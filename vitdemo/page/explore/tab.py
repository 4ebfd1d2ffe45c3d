"""State and event handlers of the Explore tab: the image, the model, the layer and the sections."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from html import escape

import gradio as gr
from gradio.components import Component
from PIL import Image
from torch import Tensor

from vitdemo.analyses.class_maps import choose_first_map
from vitdemo.cache import make_key
from vitdemo.context import AppContext
from vitdemo.errors import ImageError, RunError, VitdemoError
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.page import image_sources
from vitdemo.page.components.answers import ImagePredictions, PredictionCards
from vitdemo.page.components.attention import (
    JS_CHOSEN_LAYER,
    JS_INITIAL_LAYER,
    JS_INPUTS_WITH_NORMS,
    JS_REQUEST_NORMS,
    JS_SET_LAYER,
    AttentionData,
    AttentionView,
)
from vitdemo.page.components.offers import ExampleImages, Examples
from vitdemo.page.components.picture import (
    ImageInput,
    ImageRequest,
    LoadedImage,
    parse_image_request,
)
from vitdemo.page.components.run_choice import RunChoice, group_runs, update_run_choices
from vitdemo.page.explore import permalink, rollout
from vitdemo.page.kit import (
    LIGHT_QUEUE,
    MODEL_EVENT,
    MODEL_QUEUE,
    NO_PROGRESS,
    UncheckedSlider,
    clamp_layer,
    clamp_slider,
    show_user_errors,
)
from vitdemo.page.sections import LazySections

DEFAULT_SECTION, CLASS_MAPS_SECTION = "heads", "why"
COMMON_DEPTH = 12  # layers of ViT-Tiny to ViT-Base
# INITIAL is the query of the page's URL. VISITED is the query of a view that a script opened: the
# URL may differ, because the browser adds pending changes of the user.
JS_INITIAL_QUERY, JS_VISITED_QUERY = "window.location.search", "vitdemo.visited"
# The browser draws another layer without a request, unless an open section needs the model.
JS_COUNT_LAYER_MOVE = (
    "(moves, ...open) => [WHERE.every((name, i) => name === open[i]) ? moves + 1 : moves]"
)
# Draw again if the user chose another model while the image was processed.
JS_COUNT_STALE_MODEL = """(view, model, times) => {
  const run = vitdemo.received({ value: view })?.run;
  return [run && run !== model ? times + 1 : times];
}"""
# Move the keyboard focus to the open tab. If the map is below the window, as on a phone, scroll.
JS_FOCUS_IMAGE = """() => requestAnimationFrame(() => {
  window.scrollTo(0, 0);
  const map = document.querySelector("#sections");
  if (map.getBoundingClientRect().top > window.innerHeight) map.scrollIntoView();
  document.querySelector('#tabs [role=tab]').focus({ preventScroll: true });
})"""
NO_WEIGHTS_MESSAGE = (
    "The weights of {name} are not available. The results below are of other models."
)


class ExploreTab(LazySections):
    """The Explore tab: image, model, layer and event handlers; `add` adds a section.

    Sections read `context`, `image` (the RGB square for all models), `model` (the name of the
    chosen run) and `layer` (1..L, clamped to the model's depth). The initial layer is the layer of
    the most faithful map.

    Sections add the components that the URL stores to `url_params`. The components in
    `reset_on_load` are stored in the URL in another form; a lesson that opens a view resets them.
    """

    def __init__(self, context: AppContext, page_tabs: gr.Tabs):
        """Lay out the column of the image; `lay_out_choices` fills the other column."""
        self.context, self.page_tabs = context, page_tabs
        self.image = gr.State(None, time_to_live=image_sources.IMAGE_LIFETIME)
        self.section = gr.Textbox(DEFAULT_SECTION, visible="hidden", label="section")
        self.layer_moves: dict[tuple[str, ...], gr.Number] = {}  # place -> number of layer changes
        self.stale_predictions = gr.Number(
            0, visible="hidden", label="predictions of an earlier model"
        )
        self.image_input = ImageInput(elem_id="picture")
        self.example_images = ExampleImages(elem_id="offers")
        self.predictions_view = PredictionCards(elem_id="answers")
        self.predicting_models = gr.State(
            time_to_live=image_sources.IMAGE_LIFETIME
        )  # key of the runs with predictions
        self.model_changes = gr.Number(0, visible="hidden", label="changes of the available models")
        self.tabs: dict[str, gr.Tab] = {}  # section id -> tab

    def lay_out_choices(self) -> None:
        """Lay out the menu of models and the slider of layers."""
        with gr.Row(elem_id="look-choices"):
            runs = group_runs(self.context.explainable_runs())
            self.model = RunChoice(runs, label="Model", elem_id="model", min_width=220)
            depth = self.count_layers(self.model.value) or COMMON_DEPTH
            layer = self.initial_layer(self.model.value) or depth
            self.layer = UncheckedSlider(
                1, depth, layer, step=1, label="Layer", elem_id="layer", min_width=220, buttons=[]
            )
            self.layer_is_chosen = gr.Checkbox(False, visible="hidden", label="layer is chosen")
        super().__init__([self.section], [self.image, self.model])
        self.url_params = {"model": self.model, "layer": self.layer, "section": self.section}
        self.reset_on_load: list[Component] = []
        self.controls: dict[str, Component] = {}  # controls of bridged views, by state key

    def lay_out_attention(self) -> None:
        """Lay out the attention section, which is open initially; the browser draws it."""
        self.attention_view = AttentionView(elem_id="attention")
        of_rollout = rollout.lay_out_rollout_settings()
        names = ("fusion", "discard", "residual", "first")
        self.url_params |= dict(zip(names, of_rollout, strict=True))
        self.norms_requested = gr.Checkbox(
            False, visible="hidden", label="norm-weighted attention requested"
        )
        self.attention_settings = [*of_rollout, self.norms_requested]

    def change_event(self, component: Component, where: Sequence[str]) -> Callable:
        if component is not self.layer:
            return super().change_event(component, where)
        key = tuple(where)
        if key not in self.layer_moves:
            self.layer_moves[key] = gr.Number(0, visible="hidden", label="moves of the layer")
        return self.layer_moves[key].change

    def count_layers(self, name: str | None) -> int:
        """Return the number of attention layers of the run `name`; 0 if it has none."""
        try:
            return self.context.count_layers(self.context.find_run(name)) if name else 0
        except VitdemoError:  # not reported here: other handlers that load this model report it
            return 0

    def initial_layer(self, name: str | None) -> int:
        """Return the initial layer of the run `name`; 0 if it has no attention."""
        return (
            choose_first_map(self.context, self.context.find_run(name))[1]
            if self.count_layers(name)
            else 0
        )

    def load_trace(self, name: str, image: Image.Image) -> ImageTrace:
        """Return the trace of `image` through the run `name`. Raises `RunError`."""
        return self.context.trace_image(self.context.find_run(name), image)

    @property
    def inputs(self) -> list[Component]:
        """Inputs of every event that updates the tab, in the order of `render_model`."""
        return [
            self.layer_is_chosen,
            self.layer,
            *self.attention_settings,
            *self.section_inputs(self.section_list),
        ]

    @property
    def image_index(self) -> int:
        """Index of the image in `inputs`."""
        return 2 + len(self.attention_settings)

    @property
    def model_outputs(self) -> list[Component]:
        return [self.attention_view, self.layer, *self.section_outputs(self.section_list)]

    @property
    def all_outputs(self) -> list[Component]:
        return [
            self.image_input,
            self.image,
            self.predictions_view,
            self.predicting_models,
            *self.model_outputs,
        ]

    def render_model(self, image, chosen, layer, *values) -> list:
        """Return the values of `model_outputs`, given the image and the values of `inputs`."""
        settings, (_, name, *rest) = split_at(values, len(self.attention_settings))
        found = self.render_attention(image, name, *settings)
        depth = gr.update(interactive=False)
        if isinstance(found, AttentionData):
            depth = clamp_slider(layer, found.trace.num_layers) | {"interactive": True}
            if not chosen:  # as `JS_INITIAL_LAYER` does in the browser
                places = zip(
                    self.section_inputs(self.section_list)[len(self.common_inputs) :],
                    rest,
                    strict=True,
                )
                rest = [found.layer if c is self.layer else value for c, value in places]
        return [found, depth, *self.render_open(self.section_list, [image, name, *rest])]

    def render_attention(self, image, name, *settings) -> AttentionData | str | None:
        """Return the data of the attention view, or an error message. None: no image or model."""
        if image is None or name is None:
            return None
        *of_rollout, norms = settings
        try:
            source, layer = choose_first_map(self.context, self.context.find_run(name))
            drawn = rollout.compute_rollout(self.load_trace(name, image), *of_rollout)
            products = self.load_value_products(drawn.trace) if norms else None
            return replace(drawn, source=source, layer=layer, products=products)
        except VitdemoError as error:
            return str(error)

    def load_value_products(self, look: ImageTrace) -> Tensor | str:
        """Return the value products for norm-weighted attention, or an error message."""
        try:
            return self.context.value_products(look)
        except RunError as error:
            return str(error)

    def render_image(self, request: ImageRequest, *values) -> list:
        """Return the values of `all_outputs` for the requested image."""
        try:
            shown = image_sources.load_requested_image(request, self.context.load_test_image)
        except VitdemoError as error:
            before = values[self.image_index]
            still = "" if before is None else " The previous image is still shown."
            return self.show_image_error(f"The image could not be shown. {error}{still}")
        image = image_sources.crop_to_square(shown)
        # The chosen model runs first, so that its trace and prediction need one forward pass.
        chosen = self.render_model(image, *values)
        return [shown, image, *self.predict_all(image, shown.label), *chosen]

    @show_user_errors
    def rerun_all_models(self, *values) -> list:
        """Return the values of `all_outputs` for the same image after a change of the models."""
        image = values[self.image_index]
        if image is None:
            return [gr.skip()] * len(self.all_outputs)
        chosen = self.render_model(image, *values)
        answered = self.predict_all(image, image.info.get(image_sources.TRUE_CLASS_KEY))
        return [gr.skip(), gr.skip(), *answered, *chosen]

    def predict_all(
        self, image: Image.Image, label: str | None
    ) -> tuple[ImagePredictions, Hashable]:
        """Return the predictions of all classifiers for the image, and the key of their runs."""
        asked = self.context.classifier_runs()
        return ImagePredictions(*self.context.predict_all(image, asked), label), make_key(asked)

    def show_image_error(self, sentence: str) -> list:
        """Show `sentence` instead of the image; leave all other outputs unchanged."""
        return [sentence, *[gr.skip()] * (len(self.all_outputs) - 1)]

    @show_user_errors
    def handle_image_request(self, event: gr.EventData, *values) -> list:
        """Return the values of `all_outputs` for an image that the user chose."""
        try:
            wish = parse_image_request(event)
        except ImageError as error:
            return self.show_image_error(str(error))
        return self.render_image(wish, *values)

    @show_user_errors
    def load_initial_view(self, search: str, *values) -> list:
        """Return the values of `all_outputs` for the image in the URL, or for the first photo."""
        photos = [*image_sources.list_photos()]
        wish = permalink.image_from_query(search, photos)
        if wish is None:
            return [gr.skip()] * len(self.all_outputs)
        found = self.render_image(wish, *values)
        if isinstance(found[0], str) and photos:
            gr.Info(escape(found[0], quote=False))  # the image in the URL does not exist
            found = self.render_image(ImageRequest(photos[0]), *values)
        return found

    @show_user_errors
    def change_model(self, *values) -> list:
        image = values[self.image_index]
        if image is None:
            return [gr.skip()] * len(self.model_outputs)
        return self.render_model(image, *values)

    @show_user_errors
    def load_query(self, search: str, *values) -> list:
        """Load the view in the URL; without an image in the URL, keep the current image."""
        if values[self.image_index] is None or "picture" in permalink.parse_query(search):
            return self.load_initial_view(search, *values)
        still = [gr.skip()] * (len(self.all_outputs) - len(self.model_outputs))
        return [*still, *self.change_model(*values)]

    def restore_from_query(self, search: str, *, reset: bool = False) -> tuple:
        """Return the values of the controls that the page's URL contains.

        A control that is not in the URL stays unchanged, or is reset if `reset`.
        """
        found, runs = permalink.parse_query(search), self.context.explainable_runs()
        model, _ = update_run_choices(runs, self.model.value)
        if found.get("model") in [run.name for run in runs]:
            model["value"] = found["model"]
        elif reset:
            model["value"] = self.model.value
        values = {
            name: permalink.parse_value(component, found.get(name))
            for name, component in self.url_params.items()
            if name not in ("model", "section")
        }
        if reset:
            starts = {name: self.url_params[name].value for name in values if name != "layer"}
            values |= {name: start for name, start in starts.items() if values[name] is None}
        name, chosen = model.get("value", self.model.value), False
        if depth := self.count_layers(name):  # the model has layers
            first = self.initial_layer(name)
            layer = clamp_layer(first if values["layer"] is None else values["layer"], depth)
            chosen = layer != first
            values["layer"] = gr.update(maximum=depth, value=layer)
        values = [gr.skip() if value is None else value for value in values.values()]
        section = found.get("section") if found.get("section") in self.tabs else DEFAULT_SECTION
        by_hand = [None if reset else gr.skip()] * len(self.reset_on_load)
        return model, section, gr.Tabs(selected=section), chosen, *values, *by_hand

    def connect_events(self, page: gr.Blocks) -> None:
        """Connect the events; call this once, after all components were created."""
        self.wire(self.tabs)
        sources = [
            self.image_input.ask,
            self.example_images.ask,
        ]  # one event for all sources, so that the latest request wins
        gr.on(sources, self.handle_image_request, self.inputs, self.all_outputs, **MODEL_EVENT)
        seen = [self.attention_view, self.model, self.stale_predictions]
        self.attention_view.change(
            None, seen, self.stale_predictions, js=JS_COUNT_STALE_MODEL, **NO_PROGRESS
        )
        chosen = [self.model.input, self.stale_predictions.change]
        gr.on(chosen, self.change_model, self.inputs, self.model_outputs, **MODEL_EVENT)
        settings = [component.input for component in self.attention_settings]
        gr.on(
            settings,
            self.render_attention,
            [*self.common_inputs, *self.attention_settings],
            self.attention_view,
            **MODEL_EVENT,
        )
        self.attention_view.norms(
            None, None, self.norms_requested, js=JS_REQUEST_NORMS, **NO_PROGRESS
        )
        asked = [*self.common_inputs, *self.attention_settings]
        self.attention_view.norms(
            show_user_errors(self.render_attention),
            asked,
            self.attention_view,
            js=JS_INPUTS_WITH_NORMS,
            **MODEL_EVENT,
        )
        self.set_layer_on(self.attention_view.layer)
        begins = [self.layer, self.layer_is_chosen]
        self.attention_view.begins(None, begins, self.layer, js=JS_INITIAL_LAYER, **NO_PROGRESS)
        self.layer.input(None, None, self.layer_is_chosen, js="() => [true]", **NO_PROGRESS)
        self.layer.change(None, self.layer, None, js=JS_SET_LAYER, **NO_PROGRESS)
        for where, moves in self.layer_moves.items():
            moved = JS_COUNT_LAYER_MOVE.replace("WHERE", str(list(where)))
            self.layer.input(None, [moves, *self.choosers], moves, js=moved, **NO_PROGRESS)
        begun = self.restore_and_render_on(
            JS_INITIAL_QUERY, page.load, self.restore_from_query, self.load_initial_view
        )
        begun.success(None, js=permalink.JS_SCROLL_TO_SECTION)
        for event in (page.load, self.example_images.others):
            event(self.load_examples, None, self.example_images, **NO_PROGRESS, **LIGHT_QUEUE)
        permalink.write_url_on_change(self.url_params)

    def set_layer_on(self, listen: Callable) -> None:
        """Set the layer slider when the user chooses a layer in a view, on the event `listen`."""
        listen(None, None, [self.layer, self.layer_is_chosen], js=JS_CHOSEN_LAYER, **NO_PROGRESS)

    def rerun_on(self, listen: Callable) -> None:
        """Run all models on the same image again, on the event `listen`."""
        listen(self.rerun_all_models, self.inputs, self.all_outputs, **MODEL_EVENT)

    def load_view_on(self, listen: Callable) -> None:
        """Show the view that a script opens, on the event `listen`."""
        self.restore_and_render_on(
            JS_VISITED_QUERY, listen, partial(self.restore_from_query, reset=True), self.load_query
        )

    def restore_and_render_on(
        self, search: str, listen: Callable, restore: Callable, answer: Callable
    ):
        """Restore the view in the URL query `search`, a JavaScript expression, and draw it."""
        linked = [c for name, c in self.url_params.items() if name not in ("model", "section")]
        restored = [self.model, self.section, self.sections, self.layer_is_chosen]
        restored += [*linked, *self.reset_on_load]
        asking = [self.section, *self.inputs]
        first = f"(...values) => [{search}, ...values.slice(1)]"
        last = {
            "trigger_mode": "always_last",
            **NO_PROGRESS,
        }  # handle only the last of several quick navigations
        read = listen(restore, self.section, restored, js=first, **last)
        return read.success(answer, asking, self.all_outputs, js=first, **MODEL_EVENT)

    def update_models(self, name: str | None, answering: Hashable, others: int) -> tuple:
        """Return an update of the menu of models, and the counter `others` of changes.

        The counter increases if the page shows predictions of models that have changed.
        """
        update, _ = update_run_choices(self.context.explainable_runs(), name)
        changed = answering is not None and answering != make_key(self.context.classifier_runs())
        return update, others + 1 if changed else gr.skip()

    def load_examples(self) -> Examples:
        """Return the example photos and random test images."""
        return image_sources.load_example_images(
            self.context.load_test_image, self.context.count_test_images
        )

    def open_test_image_on(
        self, listen: Callable, chosen: Callable, inputs: list[Component]
    ) -> None:
        """Open a test image in this tab, on the event `listen` of another tab.

        `chosen(*inputs, event)` returns the index of the test image and the name of the run to
        explain. The attention section opens, or *Why this class?* for a model without attention.
        If the run has no weights, a text below the image reports this.
        """

        @show_user_errors
        def show(event: gr.EventData, *values):
            own, asked_of = split_at(values, len(inputs))
            return self.open_test_image(*chosen(*own, event), *asked_of)

        tabs = [self.page_tabs, self.sections, self.section, self.model]
        shown = listen(
            show,
            [*inputs, *self.inputs],
            [*tabs, *self.all_outputs],
            **NO_PROGRESS,
            **MODEL_QUEUE,
        )
        shown.success(None, js=JS_FOCUS_IMAGE)

    def open_test_image(self, number: int, name: str | None, *values) -> list:
        """Return the tab's values for a test image, with run `name` as model if it has weights."""
        known = name in [run.name for run in self.context.explainable_runs()]
        before, (image, current, _, *rest) = split_at(values, self.image_index)
        model = name if known else current
        wish = ImageRequest(f"{image_sources.TEST_PREFIX}{number}")
        section = (
            DEFAULT_SECTION if self.count_layers(model) else CLASS_MAPS_SECTION
        )  # for a model without attention
        found = self.render_image(wish, *before, image, model, section, *rest)
        if isinstance(found[0], LoadedImage) and name and not known:
            found[0] = replace(
                found[0], words=f"{found[0].words} {NO_WEIGHTS_MESSAGE.format(name=name)}"
            )
        selected = gr.Tabs(selected="look"), gr.Tabs(selected=section)
        return [*selected, section, name if known else gr.skip(), *found]


def split_at(values: Sequence, count: int) -> tuple[Sequence, Sequence]:
    """Split `values` into the first `count` and the rest."""
    return values[:count], values[count:]
