"""The Explore tab: an image, the models' predictions, and sections that explain one model.

A new image causes one event: each model runs once, and one response updates the whole tab. If a
view needs only the attention matrices, the browser draws it without a request to the server.
"""

import gradio as gr
from PIL import Image

from vitdemo.analyses.export import save_maps
from vitdemo.context import AppContext
from vitdemo.errors import ImageError
from vitdemo.page.bridge import Task
from vitdemo.page.explore import (
    attention_maps,
    class_attribution,
    image_input,
    inside,
    permalink,
    perturbation,
    predictions,
    side_by_side,
)
from vitdemo.page.explore.more_models import MoreModelsPanel
from vitdemo.page.explore.tab import CLASS_MAPS_SECTION, DEFAULT_SECTION, ExploreTab
from vitdemo.page.kit import MODEL_QUEUE, NO_API, add_download_button

ABOUT_ATTENTION_MAPS = (
    "A Vision Transformer cuts the image into **patches**, and most models add a **class token**, "
    "from which the class is predicted. In each **layer**, several **attention heads** compute "
    "how much each token attends to every other. The grid shows all heads, one row per layer. The "
    "large map shows the head you choose. Bright patches have large attention weights. The weight "
    "of the class token is written below the map.\n\n"
    "A map of one layer shows what the token reads in this layer only. **Norm-weighted "
    "attention** shows how much of each token is passed on: the norm of weight times transformed "
    "value (Kobayashi et al. 2020). **Attention rollout** multiplies the attention of all layers "
    "(Abnar & Zuidema 2020). **Similar tokens** compares the tokens after a layer. If the maps "
    "were tested, the view starts with the most faithful map and layer.\n\n"
    "A few patches with most of the attention are often **attention sinks**, which pass on less "
    "than their weight suggests (Xiao et al. 2024). Large models may also have **artefact "
    "tokens**, with a very large norm and information about the whole image (Darcet et al. 2024). "
    "Raw attention and rollout do not depend on the class and can mislead. *Why this class?* "
    "measures how faithful each map is."
)
VIEWS = (image_input, attention_maps, predictions, class_attribution, side_by_side)
# View -> payload function. Predictions come after the attention, whose forward pass they reuse.
PAYLOADS = {view.VIEW: view.payload for view in VIEWS} | perturbation.PAYLOADS | inside.PAYLOADS
TASKS: dict[str, Task] = {**class_attribution.TASKS, **inside.TASKS}
# Section id: title and layout function.
SECTIONS = {
    DEFAULT_SECTION: ("Attention", attention_maps.build),
    CLASS_MAPS_SECTION: ("Why this class?", class_attribution.build),
    "hands": ("Change the image", perturbation.build),
    "inside": ("Inside the model", inside.build),
    "side": ("Side by side", side_by_side.build),
}


def build(page: gr.Blocks, context: AppContext, *, local_only: bool) -> ExploreTab:
    """Lay out the tab, and connect its events; see `build_page`."""
    with gr.Row(elem_id="look", equal_height=False):
        with gr.Column(elem_id="look-at", scale=0, min_width=260):
            look = ExploreTab(context)
            more = MoreModelsPanel(look, local_only=local_only)
        with gr.Column(elem_id="look-into", min_width=300):
            look.lay_out_choices()
            with gr.Tabs(elem_id="sections", overflow_behavior="wrap") as look.sections:
                for name, (title, lay_out) in SECTIONS.items():
                    with gr.Tab(title, id=name):
                        lay_out(look)
            with gr.Row():
                copy = gr.Button("Copy a link to this view", size="sm", elem_id="copy-link")
                add_download_button(
                    "Download all maps (.npz)",
                    "save-maps",
                    lambda folder, image, name: save_maps(
                        context, name, require_image(image), folder
                    ),
                    [look.image, look.model],
                    MODEL_QUEUE,
                )
            with gr.Accordion("About these maps", open=False):
                gr.Markdown(ABOUT_ATTENTION_MAPS)
    look.connect_events(page)
    more.wire()
    copy.click(permalink.report_copy, copy, js=permalink.JS_COPY_LINK, **NO_API)
    return look


def require_image(image: Image.Image | None) -> Image.Image:
    """Return `image`. Raises `ImageError` if it is None: not chosen yet, or expired."""
    if image is None:
        raise ImageError("No image is chosen. Choose an image first.")
    return image
