"""Calculator of the cost of a Vision Transformer, compared with a baseline, for lesson 7.

The payload is a document: a table of the current cost. A task returns the measured latency.
"""

from collections.abc import Callable, Sequence

import gradio as gr

from vitdemo.analyses.latency import time_forward_passes
from vitdemo.context import AppContext
from vitdemo.documents import DocumentBlock, Text
from vitdemo.documents.table import Table
from vitdemo.errors import LessonError
from vitdemo.models import ModelSpec, build_model
from vitdemo.models.cost import NUM_CLASSES, VitCost, compute_vit_cost
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, document_payload
from vitdemo.page.feature import Feature, PageSetup, Report
from vitdemo.page.view_state import ViewState, needs

VIEW = "cost"
COST_TITLE = "## Cost of a Vision Transformer"
COST_HEADER = ["Cost per image", "Baseline", "Current", "Factor"]
COST_ROWS: Sequence[tuple[str, str, Callable[[VitCost], float]]] = (  # label, format and value
    ("Tokens", "{:,}", lambda cost: cost.tokens),
    ("Parameters, M", "{:.2f}", lambda cost: cost.parameters / 1e6),
    ("Multiply-adds, M", "{:,.0f}", lambda cost: cost.macs / 1e6),
    ("Attention matrix products, M", "{:,.1f}", lambda cost: cost.attention_matrix_macs / 1e6),
    ("Attention matrix products, %", "{:.1f}", lambda cost: 100 * cost.attention_matrix_fraction),
)
COST_HELP = (
    "Cost of a model with ten classes. Attention matrix products are queries times keys, and "
    "attention weights times values. The last row is their percentage of all multiply-adds."
)
NO_MULTIPLE_MESSAGE = (
    "The image side ({image}) is not a multiple of the patch side ({patch}). Change one of the "
    "two sides."
)
MANY_PATCHES_MESSAGE = (
    "{patches:,} patches are more than the limit of {limit:,}. Choose larger patches or a smaller "
    "image."
)
MANY_MACS_MESSAGE = (
    "The model needs {macs:.0f} G multiply-adds, more than the limit of {limit:.0f} G for a "
    "measurement. Choose smaller sizes."
)
PROGRESS_TEXT = "Measuring the latency"
LATENCY_TEXT = (
    "Latency for one image: **{milliseconds:.1f} ms** (median of {passes} passes; quartiles "
    "{low:.1f} and {high:.1f} ms; {device})."
)
MAX_TIMED_MACS = 20e9  # multiply-adds per image; the latency of larger models is not measured
MAX_PATCHES = 2_500
TIMED_SECONDS = 1.0


def build(setup: PageSetup) -> None:
    """Lay out the calculator, which its script hides, and add its controls to `setup.controls`."""
    with gr.Column(elem_id="cost-of"):
        gr.Markdown(COST_TITLE)
        with gr.Row():
            for key in keys.COST_SIZES.values():
                setup.controls.add(key, gr.Slider, min_width=160)
        add_view(VIEW, elem_id="cost-table")


@needs(*keys.COST_SIZES.values(), keys.COST_BASELINE)
def payload(context: AppContext, state: ViewState) -> list:
    baseline, sizes = read_baseline(state), read_sizes(state)
    return document_payload(cost_blocks(compute_vit_cost(*baseline), compute_vit_cost(*sizes)))


def measure(context: AppContext, state: ViewState, report: Report) -> list:
    """Measure the latency of the chosen model for one image. Raises `LessonError`."""
    report(0, 0, PROGRESS_TEXT)
    return document_payload([measure_model_latency(context, read_sizes(state))])


FEATURE = Feature({VIEW: payload}, {f"{VIEW}.measure": measure})


def read_sizes(state: ViewState) -> list[int]:
    """Return the chosen sizes. Raises `LessonError` for invalid combinations."""
    return validate_sizes([round(state[key]) for key in keys.COST_SIZES.values()])


def read_baseline(state: ViewState) -> list[int]:
    """Return the sizes of the baseline, or the initial sizes if the text is invalid."""
    texts = state[keys.COST_BASELINE].split(",")
    sizes = keys.COST_SIZES.values()
    try:
        values = [int(key.read(int(text))) for text, key in zip(texts, sizes, strict=True)]
        return validate_sizes(values)
    except (LessonError, ValueError):
        return [key.start for key in sizes]


def validate_sizes(sizes: Sequence[int]) -> Sequence[int]:
    """Return `sizes` unchanged. Raises `LessonError` for invalid combinations."""
    image, patch = sizes[:2]
    if image % patch:
        raise LessonError(NO_MULTIPLE_MESSAGE.format(image=image, patch=patch))
    if (patches := (image // patch) ** 2) > MAX_PATCHES:
        raise LessonError(MANY_PATCHES_MESSAGE.format(patches=patches, limit=MAX_PATCHES))
    return sizes


def cost_blocks(before: VitCost, now: VitCost) -> list[DocumentBlock]:
    """Return a table of two costs and their ratio, and an explanation of the table."""
    rows = []
    for label, form, compute in COST_ROWS:
        first, second = compute(before), compute(now)
        factor = "" if label.endswith("%") else f"× {second / first:.2f}"
        rows.append([label, form.format(first), form.format(second), factor])
    return [Table(COST_HEADER, rows, file="cost"), Text(COST_HELP, quiet=True)]


def measure_model_latency(context: AppContext, sizes: Sequence[int]) -> Text:
    """Measure the latency of a model for one image. Raises `LessonError` if it is too large."""
    image, patch, width, depth, heads = sizes
    macs = compute_vit_cost(*sizes).macs
    if macs > MAX_TIMED_MACS:
        message = MANY_MACS_MESSAGE.format(macs=macs / 1e9, limit=MAX_TIMED_MACS / 1e9)
        raise LessonError(message)
    options = {"patch_size": patch, "embed_dim": width, "depth": depth, "num_heads": heads}
    model = build_model(ModelSpec("vit", image, options=options), NUM_CLASSES)
    model = model.to(context.device).eval()
    found = time_forward_passes(model, image, 1, context.device, TIMED_SECONDS)
    return Text(LATENCY_TEXT.format(**vars(found)), told=True)
