"""The components of the Look tab, in reading order."""

from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from vitdemo.attention import FUSIONS
from vitdemo.runs import Run
from vitdemo.ui.components import LayerSlider, PathImage, run_radio

# gradio's own pictures: examples that need no network.
EXAMPLES_FOLDER = Path(gr.__file__).parent / "media_assets" / "images"
EXAMPLES = ("lion.jpg", "cheetah1.jpg", "bus.png", "tower.jpg", "groot.jpeg")
KEPT_SECONDS = 6 * 3600  # after it was chosen; a lesson is shorter
OVERLAY, RAW = "Overlay", "Raw"

INTRO = (
    "What each model says of one picture, and where its attention goes. "
    "Drop a picture, take one with the camera, or choose one below."
)
CAVEAT = (
    "A Vision Transformer cuts the picture into **patches** and adds one **class token**, a place "
    "to collect what the answer is read from. In each **layer**, several **heads** decide how much "
    "each of these takes from every other: that is attention. Bright patches are those that the "
    "class token takes most from (the rest of its 100 % stays with itself). Attention does not "
    "depend on the class and can mislead: it shows where a model mixes information, not why it "
    "chose a class."
)


@dataclass(frozen=True)
class Parts:
    """The components that events connect."""

    picture: gr.State  # what models can see of this user's picture: an RGB square
    offered: gr.State  # numbers of the test pictures on offer
    upload: PathImage
    note: gr.HTML
    photos: gr.Gallery
    tests: gr.Gallery
    tests_notice: gr.HTML
    others: gr.Button
    answers: gr.HTML
    model: gr.Radio
    layer: gr.Slider
    fusion: gr.Radio
    discard_ratio: gr.Slider
    view: gr.Radio
    opacity: gr.Slider
    one_scale: gr.Checkbox
    heads: gr.HTML
    summary: gr.HTML

    @property
    def settings(self) -> list:
        """Inputs of every drawing, after the picture."""
        return [
            self.model,
            self.layer,
            self.fusion,
            self.discard_ratio,
            self.view,
            self.opacity,
            self.one_scale,
        ]


def lay_out(runs: list[Run]) -> Parts:
    """Components in reading order: the picture and the answers, then the maps of one model."""
    files = example_files()
    picture = gr.State(None, time_to_live=KEPT_SECONDS)
    offered = gr.State([], time_to_live=KEPT_SECONDS)
    gr.Markdown(INTRO)
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            upload = PathImage(
                value=files[0] if files else None,
                type="filepath",
                image_mode=None,
                format="png",  # lossless: a test picture must reach the model as it is
                sources=["upload", "clipboard", "webcam"],
                label="Your picture",
                height=300,
                elem_id="upload",
            )
            note = gr.HTML("", elem_id="note", apply_default_css=False)
            photos = _gallery(
                [(file, Path(file).stem.rstrip("1")) for file in files], 5, "Photos", bool(files)
            )
        with gr.Column(scale=3, min_width=300):
            answers = gr.HTML(elem_id="answers", apply_default_css=False)
            tests = _gallery([], 6, "Pictures of the test set", False)
            tests_notice = gr.HTML(elem_id="tests-notice", apply_default_css=False)
            others = gr.Button("Other pictures", size="sm", visible=False)
    gr.Markdown(f"### Where it looks\n{CAVEAT}")
    with gr.Row():
        model = run_radio(runs, elem_id="model")
        layer = LayerSlider(
            1,
            12,
            12,
            step=1,
            label="Layer",
            elem_id="layer",
            min_width=300,
            info="1 is the first; the last one is right before the answer",
        )
    with gr.Row():
        view = gr.Radio([OVERLAY, RAW], value=OVERLAY, label="View", min_width=300)
        opacity = gr.Slider(0, 1, 0.6, step=0.05, label="Opacity of the overlay", min_width=300)
        one_scale = gr.Checkbox(
            False,
            label="One colour scale for all heads",
            info="off: each map is scaled to its own maximum",
            min_width=300,
        )
    heads = gr.HTML(elem_id="heads", apply_default_css=False)
    with gr.Row():
        fusion = gr.Radio(
            list(FUSIONS),
            value="mean",
            label="Rollout: heads joined by their",
            min_width=300,
            info="rollout multiplies the attention of all layers up to the chosen one",
        )
        discard_ratio = gr.Slider(
            0,
            0.95,
            0,
            step=0.05,
            label="Rollout: share of weakest patches discarded",
            info="in each layer, before multiplying: takes away noise, and detail",
            min_width=300,
        )
    summary = gr.HTML(elem_id="rollout", apply_default_css=False)
    return Parts(
        picture, offered, upload, note, photos, tests, tests_notice, others, answers, model, layer,
        fusion, discard_ratio, view, opacity, one_scale, heads, summary,
    )  # fmt: skip


def _gallery(items: list, columns: int, label: str, visible: bool) -> gr.Gallery:
    return gr.Gallery(
        items,
        label=label,
        columns=columns,
        height=None,
        allow_preview=False,
        interactive=False,
        object_fit="cover",
        elem_classes="vd-gallery",
        buttons=[],
        visible=visible,
    )


def example_files() -> list[str]:
    """Paths of the example photos that this version of gradio has."""
    files = (EXAMPLES_FOLDER / name for name in EXAMPLES)
    return [str(file) for file in files if file.is_file()]
