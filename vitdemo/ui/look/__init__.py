"""The Look tab: a picture, what each model says of it, and sections that look into one model."""

from collections.abc import Callable, Mapping
from pathlib import Path

import gradio as gr
from PIL import Image

from vitdemo.errors import ImageError, VitdemoError
from vitdemo.explorer import Answer, Look, TestPicture
from vitdemo.explorer.side import Panel
from vitdemo.runs import Run
from vitdemo.ui.kit import (
    MODEL_QUEUE,
    LayerSlider,
    for_people,
    offer_download,
    renewed,
    run_radio,
)
from vitdemo.ui.look import hands, heads, inside, permalink, picture, rollout, side, why
from vitdemo.ui.look.opener import Opener
from vitdemo.ui.look.shared import Shared, limited, nearest

CAVEAT = (
    "A Vision Transformer cuts the picture into **patches** and adds one **class token**, a place "
    "to collect what the answer is read from. In each **layer**, several **heads** decide how much "
    "each of these takes from every other: that is attention. Bright patches are those that the "
    "class token takes most from (the rest of its 100 % goes to tokens that are no patch, such as "
    "itself). Attention does not depend on the class and can mislead: it shows where a model mixes "
    "information, not why it chose a class."
)
FIRST_SECTION = "heads"
COMMON_DEPTH = 12  # layers of ViT-Tiny to ViT-Base


def build(
    page: gr.Blocks,
    page_tabs: gr.Tabs,
    *,
    explained_runs: Callable[[], list[Run]],
    answers: Callable[[Image.Image], tuple[list[Answer], list[str]]],
    look: Callable[[str, Image.Image], Look],
    layers: Callable[[str], int],
    save_maps: Callable[[str, Image.Image, Path], str],
    side_by_side: Callable[..., tuple[list[Panel], list[str]]],
    test_picture: Callable[[int], TestPicture],
    test_size: Callable[[], int],
    hands_on: Mapping[str, Callable],
    inside_of: Mapping[str, Callable],
    why_this: Mapping[str, Callable],
) -> Opener:
    """Lay out and wire the tab, one of `page_tabs`; the callables are those of `Explorer`.

    `look`, `layers` and `save_maps` take a run's name; a model without attention has 0 layers.
    `hands_on`, `inside_of` and `why_this` have what these sections take beside.
    """
    parts = picture.lay_out()
    gr.Markdown(f"### Where it looks\n{CAVEAT}")
    shared = lay_out_choices(parts.picture, explained_runs(), layers)
    with gr.Tabs(elem_id="sections") as sections:
        tabs = {}
        with gr.Tab("Heads and patches", id="heads") as tabs["heads"]:
            heads.build(shared, look=look)
        with gr.Tab("Rollout", id="rollout") as tabs["rollout"]:
            rollout.build(shared, look=look)
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
            [shared.picture, shared.model],
            MODEL_QUEUE,
        )

    @for_people
    def settle(name, layer):
        depth = layers(name) if name else 0
        if not depth:  # nothing of a layer to choose
            return gr.update(interactive=False)
        return limited(layer, depth) | {"interactive": True}

    def restore(search):
        """What the page's address asks for; without one, the page as it starts."""
        asked = permalink.parse(search)
        names = [run.name for run in explained_runs()]
        radio, _ = renewed(names, shared.model.value)
        if asked.get("model") in names:
            radio["value"] = asked["model"]
        values = {
            name: permalink.checked(component, asked.get(name))
            for name, component in shared.linked.items()
            if name not in ("model", "section")
        }
        if depth := first_depth(radio.get("value"), layers, 0):  # of another model than the page's
            layer = nearest(depth if values["layer"] is None else values["layer"], depth)
            values["layer"] = gr.update(maximum=depth, value=layer)
        values = [gr.skip() if value is None else value for value in values.values()]
        section = asked.get("section") if asked.get("section") in tabs else FIRST_SECTION
        opened = picture.named(asked.get("picture"), test_picture)
        return radio, section, gr.Tabs(selected=section), *opened, *values

    settings = [c for name, c in shared.linked.items() if name not in ("model", "section")]
    loaded = page.load(
        restore,
        inputs=shared.section,
        outputs=[shared.model, shared.section, sections, parts.upload, parts.note, *settings],
        js=permalink.READ,
        api_visibility="private",
    )
    answered = picture.wire(
        loaded, parts, answers=answers, test_picture=test_picture, test_size=test_size
    )
    settling = {
        "fn": settle,
        "inputs": [shared.model, shared.layer],
        "outputs": shared.layer,
        "api_visibility": "private",
        **MODEL_QUEUE,
    }
    settled = [event.success(**settling, trigger_mode="multiple") for event in answered]
    settled.append(shared.model.input(**settling, trigger_mode="always_last"))
    shared.wire(tabs, settled)
    shared.wire_restored(loaded)
    permalink.write_when_changed(shared.linked, [parts.note.change])
    copy.click(permalink.tell_copied, shared.section, js=permalink.COPY, api_visibility="private")
    return Opener(
        page_tabs,
        parts.upload,
        parts.note,
        shared.model,
        explained_runs,
        test_picture,
        shared.picture,
    )


def chosen(image: Image.Image | None) -> Image.Image:
    """Raises `ImageError` where no picture has been chosen, or its time is over."""
    if image is None:
        raise ImageError("Choose a picture first: none is kept.")
    return image


def lay_out_choices(image: gr.State, runs: list[Run], layers: Callable[[str], int]) -> Shared:
    """The model and the layer, which all sections read."""
    with gr.Row():
        model = run_radio(runs, elem_id="model")
        depth = first_depth(model.value, layers, COMMON_DEPTH)
        layer = LayerSlider(
            1,
            depth,
            depth,
            step=1,
            label="Layer",
            elem_id="layer",
            min_width=300,
            info="1 is the first; the last one is right before the answer",
        )
    section = gr.Textbox(FIRST_SECTION, visible="hidden", label="section")
    linked = {"model": model, "layer": layer, "section": section}
    return Shared(image, model, layer, section, linked)


def first_depth(name: str | None, layers: Callable[[str], int], other: int) -> int:
    """The number of layers to begin with: those of the run `name` where it has any, or `other`."""
    try:
        return (layers(name) if name else 0) or other
    except VitdemoError:  # whoever asks this model for more says why
        return other
