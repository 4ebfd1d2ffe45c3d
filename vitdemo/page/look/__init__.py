"""The Look tab: a picture, what each model answers, and sections that look into one model.

A new picture is one question: one event, one pass of each model, one answer for all of the tab.
What only reads the attention again is drawn by the browser and asks nobody.
"""

import gradio as gr
from PIL import Image

from vitdemo.errors import ImageError
from vitdemo.export import save_maps
from vitdemo.page.kit import MODEL_QUEUE, PRIVATE, QUIET, offer_download
from vitdemo.page.look import class_maps, inside, permalink, perturb, side
from vitdemo.page.look.more_models import MoreModels
from vitdemo.page.look.tab import CLASS_MAPS, FIRST_SECTION, Look
from vitdemo.workbench import Workbench

WHAT = (
    "A Vision Transformer cuts the picture into **patches** and adds one **class token**, a place "
    "to collect what the answer is read from. In each **layer**, several **heads** decide how much "
    "each of these tokens takes from every other: that is **attention**. The wall shows all heads "
    "at once, a row for each layer; the large map shows the one you choose. Bright patches are "
    "those that the chosen token takes most from. **Attention rollout** multiplies the layers up: "
    "how much of each patch could have reached the token, if attention alone moved information "
    "(Abnar & Zuidema 2020). Where that was measured, the view begins with the map and the layer "
    "that were truest on test pictures. **Similar tokens** compares what the tokens hold after a "
    "layer. The share that stays with the class token stands below the map. A map of one layer "
    "shows what the token reads in this layer only. **Norm-weighted attention** shows how much of "
    "each token is passed on: the norm of weight times transformed value (Kobayashi et al. 2020). "
    "A few patches with most of the attention are often **attention sinks**, which pass on less "
    "than their weight suggests (Xiao et al. 2024). Large models may also have **artefact "
    "tokens**, with a very large norm and information about the whole image; register tokens were "
    "introduced to replace them (Darcet et al. 2024). Raw attention and rollout do not depend on "
    "the class and can mislead: *Why this class?* measures which map to believe."
)
# Id of a section: its title, and what lays it out.
SECTIONS = {
    FIRST_SECTION: ("Attention", Look.lay_out_attention),
    CLASS_MAPS: ("Why this class?", class_maps.build),
    "hands": ("Hands on", perturb.build),
    "inside": ("Inside", inside.build),
    "side": ("Side by side", side.build),
}


def build(
    page: gr.Blocks, tab: gr.Tab, page_tabs: gr.Tabs, workbench: Workbench, *, alone: bool
) -> Look:
    """Lay out and wire the `tab`, one of `page_tabs`; see `build_page`."""
    with gr.Row(elem_id="look", equal_height=False):
        with gr.Column(elem_id="look-at", scale=0, min_width=260):
            look = Look(workbench, page_tabs)
            more = MoreModels(look, alone=alone)
        with gr.Column(elem_id="look-into", min_width=300):
            look.lay_out_choices()
            with gr.Tabs(elem_id="sections", overflow_behavior="wrap") as look.sections:
                for name, (title, lay_out) in SECTIONS.items():
                    with gr.Tab(title, id=name) as look.tabs[name]:
                        lay_out(look)
            with gr.Row():
                copy = gr.Button("Copy a link to this view", size="sm", elem_id="copy-link")
                offer_download(
                    "Save all maps of this picture (.npz)",
                    "save-maps",
                    lambda folder, image, name: save_maps(workbench, name, chosen(image), folder),
                    look.always,
                    MODEL_QUEUE,
                )
            with gr.Accordion("What is this?", open=False):
                gr.Markdown(WHAT)
    look.connect_all(page)
    more.wire()
    shown = [look.model, look.answering, look.others]
    tab.select(look.renewed, shown, [look.model, look.others], **QUIET)
    look.answer_again_on(look.others.change)
    copy.click(permalink.tell_copied, look.section, js=permalink.COPY, **PRIVATE)
    return look


def chosen(image: Image.Image | None) -> Image.Image:
    """Raises `ImageError` where no picture has been chosen, or its time is over."""
    if image is None:
        raise ImageError("Choose a picture first: none is kept.")
    return image
