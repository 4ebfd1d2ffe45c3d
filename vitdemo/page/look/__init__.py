"""The Look tab: a picture, what each model answers, and sections that look into one model.

A new picture is one question: one event, one pass of each model, one answer for all of the tab.
What only reads the attention again is drawn by the browser and asks nobody.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import gradio as gr
from PIL import Image

from vitdemo.attention import FUSIONS, rollout_steps
from vitdemo.data import TestPicture
from vitdemo.errors import ImageError, VitdemoError
from vitdemo.explorer.side import Panel
from vitdemo.page.components.answers import Answered, Answers
from vitdemo.page.components.attention import LAYER, SET_LAYER, AttentionView, Drawn
from vitdemo.page.components.offers import Offers
from vitdemo.page.components.picture import Asked, Picture, Shown, asked
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.kit import (
    LIGHT_QUEUE,
    MODEL_QUEUE,
    LayerSlider,
    for_people,
    offer_download,
)
from vitdemo.page.look import hands, inside, permalink, picture, side, why
from vitdemo.page.look.opener import Opener
from vitdemo.page.look.shared import Shared, limited, nearest
from vitdemo.runs import Run
from vitdemo.traced import Traced
from vitdemo.workbench import Answer

WHAT = (
    "A Vision Transformer cuts the picture into **patches** and adds one **class token**, a place "
    "to collect what the answer is read from. In each **layer**, several **heads** decide how much "
    "each of these tokens takes from every other: that is **attention**. The wall shows all heads "
    "at once, a row for each layer; the large map shows the one you choose. Bright patches are "
    "those that the chosen token takes most from. **Attention rollout** multiplies the layers up: "
    "how much of each patch could have reached the token, if attention alone moved information "
    "(Abnar & Zuidema 2020). **Similar tokens** compares what the tokens hold after a layer. The "
    "share that stays with the class token stands below the map; a few bright patches in an empty "
    "background are often attention sinks, places where a model keeps something of the whole "
    "picture, which register tokens were made to take over (Darcet et al. 2024). Raw "
    "attention and rollout do not depend on the class and can mislead: *Why this class?* measures "
    "which map to believe."
)
FIRST_SECTION = "heads"
COMMON_DEPTH = 12  # layers of ViT-Tiny to ViT-Base
SEARCH = "(...values) => [window.location.search, ...values.slice(1)]"


def build(
    page: gr.Blocks,
    page_tabs: gr.Tabs,
    *,
    explained_runs: Callable[[], list[Run]],
    answers: Callable[[Image.Image], tuple[list[Answer], list[str]]],
    look: Callable[[str, Image.Image], Traced],
    layers: Callable[[str], int],
    first_source: Callable[[str], str],
    save_maps: Callable[[str, Image.Image, Path], str],
    side_by_side: Callable[..., tuple[list[Panel], list[str]]],
    test_picture: Callable[[int], TestPicture],
    test_size: Callable[[], int],
    hands_on: Mapping[str, Callable],
    inside_of: Mapping[str, Callable],
    why_this: Mapping[str, Callable],
) -> Opener:
    """Lay out and wire the tab, one of `page_tabs`; the callables are those of `Workbench`.

    `look`, `layers`, `first_source` and `save_maps` take a run's name; a model without attention
    has 0 layers. `hands_on`, `inside_of` and `why_this` have what these sections take beside.
    """
    kept = gr.State(None, time_to_live=picture.KEPT_SECONDS)
    with gr.Row(elem_id="look", equal_height=False):
        with gr.Column(elem_id="look-at", scale=0, min_width=260):
            given = Picture(elem_id="picture")
            offers = Offers(elem_id="offers")
            answered = Answers(elem_id="answers")
        with gr.Column(elem_id="look-into", min_width=300):
            shared = lay_out_choices(kept, explained_runs(), layers)
            with gr.Tabs(elem_id="sections", overflow_behavior="wrap") as sections:
                tabs = {}
                with gr.Tab("Attention", id=FIRST_SECTION) as tabs[FIRST_SECTION]:
                    view = AttentionView(elem_id="attention")
                    settings = lay_out_rollout(shared)
                with gr.Tab("Why this class?", id=why.SECTION) as tabs[why.SECTION]:
                    why.build(shared, **why_this)
                with gr.Tab("Hands on", id="hands") as tabs["hands"]:
                    hands.build(shared, look=look, **hands_on)
                with gr.Tab("Inside", id="inside") as tabs["inside"]:
                    inside.build(shared, look=look, **inside_of)
                with gr.Tab("Side by side", id="side") as tabs["side"]:
                    side.build(shared, runs=explained_runs, side_by_side=side_by_side)
            with gr.Row():
                copy = gr.Button("Copy a link to this view", size="sm", elem_id="copy-link")
                offer_download(
                    "Save all maps of this picture (.npz)",
                    "save-maps",
                    lambda folder, image, name: save_maps(name, chosen(image), folder),
                    [kept, shared.model],
                    MODEL_QUEUE,
                )
            with gr.Accordion("What is this?", open=False):
                gr.Markdown(WHAT)

    def draw_attention(image, name, *settings) -> Drawn | str | None:
        """What the attention view draws, or why it has nothing to draw."""
        if image is None or name is None:
            return None
        try:
            return replace(rolled(look(name, image), *settings), source=first_source(name))
        except VitdemoError as error:
            return str(error)

    def of_model(image, name, layer, rollout, section, values) -> list:
        """The part of an answer that is of the chosen model."""
        found = draw_attention(image, name, *rollout)
        depth = gr.update(interactive=False)
        if isinstance(found, Drawn):
            depth = limited(layer, found.look.layers) | {"interactive": True}
        return [found, depth, *shared.drawn(section, image, name, values)]

    def respond(wish: Asked, image, name, layer, *values) -> list:
        """All of the tab for the picture that is asked for; `image` is the one before."""
        rollout, section, values = values[:4], values[4], values[5:]
        try:
            shown = picture.opened(wish, test_picture)
        except VitdemoError as error:
            still = "" if image is None else " Still shown: the picture before."
            stays = [gr.skip()] * (4 + len(shared.outputs))
            return [f"That picture could not be shown. {error}{still}", *stays]
        image = picture.square_of(shown)
        # The chosen model first: its answer is then known from the same pass.
        chosen = of_model(image, name, layer, rollout, section, values)
        return [shown, image, Answered(*answers(image), shown.label), *chosen]

    @for_people
    def ask(event: gr.EventData, image, name, layer, *values):
        try:
            wish = asked(event)
        except ImageError as error:
            return [str(error), *[gr.skip()] * (4 + len(shared.outputs))]
        return respond(wish, image, name, layer, *values)

    @for_people
    def begin(search, name, layer, *values):
        wish = permalink.wish(search, [*picture.photos()])
        if wish is None:
            return [gr.skip()] * (5 + len(shared.outputs))
        found = respond(wish, None, name, layer, *values)
        if isinstance(found[0], str) and (first := next(iter(picture.photos()), None)):
            gr.Info(found[0])  # an address of a picture that is not here
            found = respond(Asked(first), None, name, layer, *values)
        return found

    @for_people
    def change_model(image, name, layer, *values):
        if image is None:
            return [gr.skip()] * (2 + len(shared.outputs))
        return of_model(image, name, layer, values[:4], values[4], values[5:])

    def restore(search):
        """What the page's address asks for; without one, the page as it starts."""
        found = permalink.parse(search)
        names = [run.name for run in explained_runs()]
        choice, _ = renewed_runs(explained_runs(), shared.model.value)
        if found.get("model") in names:
            choice["value"] = found["model"]
        values = {
            name: permalink.checked(component, found.get(name))
            for name, component in shared.linked.items()
            if name not in ("model", "section")
        }
        if depth := first_depth(
            choice.get("value", shared.model.value), layers, 0
        ):  # of another model than the page's
            layer = nearest(depth if values["layer"] is None else values["layer"], depth)
            values["layer"] = gr.update(maximum=depth, value=layer)
        values = [gr.skip() if value is None else value for value in values.values()]
        section = found.get("section") if found.get("section") in tabs else FIRST_SECTION
        return choice, section, gr.Tabs(selected=section), *values

    private = {"api_visibility": "private", "show_progress": "hidden"}
    state = [shared.model, shared.layer, *settings, shared.section, *shared.inputs]
    of_models = [view, shared.layer, *shared.outputs]
    everything = [given, kept, answered, *of_models]
    loaded = page.load(
        restore,
        inputs=shared.section,
        outputs=[shared.model, shared.section, sections, *linked_settings(shared)],
        js=permalink.READ,
        **private,
    )
    begun = loaded.success(
        begin, [shared.section, *state], everything, js=SEARCH, **private, **MODEL_QUEUE
    )
    begun.success(None, js=permalink.ARRIVE)
    last = {"trigger_mode": "always_last", **private}  # of many pictures, the last one wins
    for source in (given, offers):
        source.ask(ask, [kept, *state], everything, **last, **MODEL_QUEUE)
    shared.model.input(change_model, [kept, *state], of_models, **last, **MODEL_QUEUE)
    gr.on(
        [component.input for component in settings],  # `begin` reads those of an address
        draw_attention,
        [kept, shared.model, *settings],
        view,
        **last,
        **MODEL_QUEUE,
    )
    for event in (page.load, offers.others):
        event(
            lambda: picture.offered(test_picture, test_size),
            None,
            offers,
            **private,
            **LIGHT_QUEUE,
        )
    view.layer(None, None, shared.layer, js=LAYER, **private)
    shared.layer.change(None, shared.layer, None, js=SET_LAYER, **private)
    shared.wire_tabs(tabs)
    permalink.write_when_changed(shared.linked)
    copy.click(permalink.tell_copied, shared.section, js=permalink.COPY, api_visibility="private")

    def open_elsewhere(number: int, name: str | None, note: str, image, *values) -> list:
        """The whole tab for test picture `number`, its attention open; for other tabs."""
        current, layer, *rest = values
        rest[4] = FIRST_SECTION
        wish = Asked(f"{picture.TEST}{number}")
        found = respond(wish, image, name or current, layer, *rest)
        if isinstance(found[0], Shown) and note:
            found[0] = Shown(wish, found[0].whole, f"{found[0].words} {note}", found[0].label)
        return [gr.Tabs(selected=FIRST_SECTION), FIRST_SECTION, name or gr.skip(), *found]

    return Opener(
        page_tabs,
        open_elsewhere,
        [kept, *state],
        [sections, shared.section, shared.model, *everything],
        explained_runs,
        kept,
    )


def chosen(image: Image.Image | None) -> Image.Image:
    """Raises `ImageError` where no picture has been chosen, or its time is over."""
    if image is None:
        raise ImageError("Choose a picture first: none is kept.")
    return image


def rolled(look: Traced, fusion, discard, residual, first) -> Drawn:
    """`look` with the rollout that these settings ask for. Raises `VitdemoError`."""
    first = nearest(first, look.layers)
    words = [f"heads joined by {fusion}"] if fusion != "mean" else []
    words += [f"{100 * discard:.0f} % discarded"] if discard else []
    words += [] if residual else ["no residual"]
    try:
        steps = rollout_steps(
            look.attention[:, None],  # (L, 1, H, N, N)
            fusion=fusion,
            discard_ratio=discard or 0.0,
            residual=bool(residual),
            start_layer=first - 1,
            num_prefix_tokens=look.num_prefix_tokens,
        )[:, 0]  # (S, N, N)
    except ValueError as error:
        raise VitdemoError(str(error)) from error
    return Drawn(look, steps, first, f" ({', '.join(words)})" if words else "")


def lay_out_rollout(shared: Shared) -> list:
    """The settings of the rollout that the attention view shows, in the order of `rolled`."""
    with gr.Accordion("Settings of the rollout", open=False, elem_id="rollout-settings"), gr.Row():
        fusion = gr.Radio(
            list(FUSIONS),
            value="mean",
            label="Heads are joined by their",
            info="min keeps what all heads agree on, max what any of them sees",
            elem_id="fusion",
            min_width=220,
        )
        discard = gr.Slider(
            0,
            0.95,
            0,
            step=0.05,
            label="Discard ratio",
            info="share of the weakest patches left out in each layer",
            elem_id="discard",
            min_width=220,
        )
        first = LayerSlider(
            1, COMMON_DEPTH, 1, step=1, label="First layer", elem_id="first-layer", min_width=160
        )
        residual = gr.Checkbox(
            True,
            label="Residual",
            info="half of each token stays where it is, for the skip connection",
            elem_id="residual",
            min_width=160,
        )
    shared.linked |= {"fusion": fusion, "discard": discard, "residual": residual, "first": first}
    return [fusion, discard, residual, first]


def linked_settings(shared: Shared) -> list:
    """What the page's address holds beside the model and the section."""
    return [c for name, c in shared.linked.items() if name not in ("model", "section")]


def lay_out_choices(image: gr.State, runs: list[Run], layers: Callable[[str], int]) -> Shared:
    """The model and the layer, which all sections read."""
    with gr.Row(elem_id="look-choices"):
        model = RunChoice(grouped(runs), label="Model", elem_id="model", min_width=220)
        depth = first_depth(model.value, layers, COMMON_DEPTH)
        layer = LayerSlider(
            1, depth, depth, step=1, label="Layer", elem_id="layer", min_width=220, buttons=[]
        )
    section = gr.Textbox(FIRST_SECTION, visible="hidden", label="section")
    elsewhere = gr.Number(depth, visible="hidden", label="layer elsewhere")
    linked = {"model": model, "layer": layer, "section": section}
    return Shared(image, model, layer, elsewhere, section, linked)


def first_depth(name: str | None, layers: Callable[[str], int], other: int) -> int:
    """The number of layers to begin with: those of the run `name` where it has any, or `other`."""
    try:
        return (layers(name) if name else 0) or other
    except VitdemoError:  # whoever asks this model for more says why
        return other
