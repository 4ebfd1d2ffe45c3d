"""The section "Attention": a large map next to a grid of all heads, drawn in the browser.

The payload contains all layers and heads, so another head, layer, patch or direction needs no
request:

    {"run": str, "layers": L, "heads": H, "grid": [rows, columns], "source": "mean" | "rollout",
     "prefix": [names of the tokens before the patches],
     "answer": [first, stop | None],             # rows of the tokens that the classifier reads
     "layer": 1..L, the initial layer,
     "distances": (L, H), "entropies": (L, H), "seen": file,
     "rollout": {"first": 1..L, "fusion": str, "discard": 0..1, "residual": bool},
     "sets": {"head": {"files": [file, ...], "rows": file}, "rollout": ..., "similar": ...},
     "norms": None | {"files": [file, ...], "rows": file, "all": file} | {"sentence": str},
     "prediction": None | {"class": str, "shares": (L+1,)}}

The files of a set contain (L, H, N, N) in one file, or above `MAX_ATTENTION_FILE_BYTES` (1, H, N,
N) per layer. Rollout and similarity have one map per layer. Before its first layer, the rollout is
the identity. `rows` (L, H, 1, N) is the mean of the
rows of the tokens that the classifier reads. The first map needs only these rows, so the browser
loads them first. `norms` is norm-weighted attention, with each row divided by its sum; `all` (L, 1,
N, N) combines all heads. Few users choose norm-weighted attention, so it is computed only when a
user chooses it (option `norms`). `prediction` is the predicted class, with its probability before
the first layer and after each layer (logit lens). It is None for a model without classes.
`vitdemo.page.components.matrix_file` defines the file format.

After each drawing the script dispatches `vitdemo:drawn` on `document`, with
`detail = {run, layer, head, token, direction, source, values}`. Layer and head count from 1.
`source` is "head", "mean", "rollout", "similar", "norm" (all heads) or "norm-head".
`token` is "3,5" (row, column), "t0", "both" or "mean". `values` is a Float32Array over the patches.
"""

import gradio as gr
import torch
from PIL.Image import Image
from torch import Tensor

from vitdemo.analyses.class_attribution import choose_first_map
from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.explain.checks import to_numpy
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import CachedFile, ImageFile, add_view, load_square, round_numbers
from vitdemo.page.components import hash_name
from vitdemo.page.components.matrix_file import pack_matrices
from vitdemo.page.explore.attention_maps.tensors import (
    GRAPH,
    PROBABILITY_DIGITS,
    ROLLOUT_SETTINGS,
    STATISTICS_DIGITS,
    RolloutSettings,
    average_classifier_rows,
    compute_matrices,
    follow_prediction,
    read_rollout_settings,
    weigh_heads,
    weigh_layers,
)
from vitdemo.page.feature import Feature, PageSetup
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "attention"
MAX_ATTENTION_FILE_BYTES = 3_000_000  # maximum bytes of attention in one file
BYTES_PER_FLOAT16 = 2  # bytes of a float16
ABOUT = (
    "A Vision Transformer cuts the image into **patches**, and most models add a **class token**, "
    "from which the class is predicted. In each **layer**, several **attention heads** compute "
    "how much each token attends to every other token. The grid shows all heads, one row per "
    "layer, and the large map shows the chosen head. Bright patches have large attention weights. "
    "The weight of the class token is written below the map.\n\nA map of one layer shows what the "
    "token reads in this layer only. **Norm-weighted attention** shows how much of each token is "
    "passed on: the norm of the attention weight times the transformed value (Kobayashi et al. "
    "2020). **Attention rollout** multiplies the attention of all layers (Abnar & Zuidema 2020). "
    "**Similar tokens** compares the tokens after a layer. If the maps were tested, the view "
    "starts with the map and layer that have the highest mean faithfulness score.\n\nA few "
    "patches with most of the attention may be **attention sinks**, which receive attention "
    "independently of their content (Xiao et al. 2024). Test the influence of these patches in "
    "*Fool the model*. Some models also have **high-norm artefacts**: tokens with a very large "
    "norm and information about the whole image (Darcet et al. 2024). Raw attention and rollout "
    "do not depend on the class and can mislead. *Why this class?* measures how faithful each map "
    "is."
)


def build(setup: PageSetup) -> None:
    add_view(VIEW, elem_id="attention")
    with gr.Accordion("About these maps", open=False, elem_classes="vd-about"):
        gr.Markdown(ABOUT)


@needs(keys.IMAGE, keys.MODEL, *ROLLOUT_SETTINGS, keys.WANTS_NORMS)
def payload(context: AppContext, state: ViewState) -> dict:
    """Return the attention of the state's image, with the rollout for the state's settings."""
    run = context.find_run(state.model)
    return describe_attention(context, run, load_square(context, state.image), state)


FEATURE = Feature({VIEW: payload}, graphs={VIEW: GRAPH})


def describe_attention(context: AppContext, run: Run, image: Image, state: ViewState) -> dict:
    """Return the payload of an RGB image and `run`, with the rollout for the state's settings."""
    source, layer = choose_first_map(context, run)
    trace = context.trace_image(run, image)
    data = to_payload(trace, read_rollout_settings(state, trace.num_layers))
    if state[keys.WANTS_NORMS]:
        data["norms"] = norms_payload(context, trace)
    data["prediction"] = describe_prediction(context, trace)
    return data | {"source": source, "layer": layer or trace.num_layers}


@torch.inference_mode()
def describe_prediction(context: AppContext, trace: ImageTrace) -> dict | None:
    """Return the predicted class and its probability after each layer, or None without classes."""
    classes = trace.run.classes
    if not classes:
        return None
    model = context.load_model(trace.run)
    predicted, shares = follow_prediction(model, trace)
    found = round_numbers(to_numpy(shares), PROBABILITY_DIGITS)
    return {"class": classes[int(predicted)], "shares": found}


def to_payload(trace: ImageTrace, settings: RolloutSettings) -> dict:
    """Return the payload of `trace` without `source`, `layer` and norm-weighted attention."""
    name = file_prefix(trace)
    suffixes = {"rollout": f"-{hash_name(repr(settings).encode())}", "similar": "-similar"}
    return {
        **describe_trace(trace, settings),
        "distances": round_numbers(trace.distances, STATISTICS_DIGITS),
        "entropies": round_numbers(trace.entropies, STATISTICS_DIGITS),
        "seen": ImageFile(trace.input_image),
        "sets": {
            source: serve_set(name + suffixes.get(source, ""), matrices, trace.classifier_rows)
            for source, matrices in compute_matrices(trace, settings).items()
        },
        "norms": None,
    }


def describe_trace(trace: ImageTrace, settings: RolloutSettings) -> dict:
    """Return the part of the payload that depends only on the run and the settings."""
    return {
        "run": trace.run.name,
        "layers": trace.num_layers,
        "heads": trace.attention.shape[1],
        "grid": list(trace.grid),
        "prefix": list(trace.prefix_names),
        "answer": [trace.classifier_rows.start, trace.classifier_rows.stop],
        "rollout": {
            "first": settings.first_layer,
            "fusion": settings.fusion,
            "discard": settings.discard_ratio,
            "residual": settings.residual,
        },
    }


def file_prefix(trace: ImageTrace) -> str:
    """Return a text that is different for every image, run and version of the weights."""
    return hash_name(repr((trace.run.path, trace.run.stamp)).encode() + trace.input_image.tobytes())


def norms_payload(context: AppContext, trace: ImageTrace) -> dict:
    """Return the norm-weighted attention, or the reason why the model has none."""
    try:
        products = context.value_products(trace)
    except RunError as error:
        return {"sentence": str(error)}
    name = f"{file_prefix(trace)}-norms"
    heads = weigh_heads(trace.attention, products)
    return {
        **serve_set(name, heads, trace.classifier_rows),
        "all": CachedFile(
            f"{name}-all.bin", lambda: pack_matrices(weigh_layers(trace.attention, products))
        ),
    }


def serve_set(name: str, heads: Tensor, classifier_rows: slice) -> dict:
    """Return files of `heads` (L, H, N, N), and a file of the mean over `classifier_rows`."""

    def make_file(suffix: str, matrices: Tensor) -> CachedFile:
        size = BYTES_PER_FLOAT16 * matrices.numel()
        return CachedFile(f"{name}-{suffix}.bin", lambda: pack_matrices(matrices), size)

    is_small = BYTES_PER_FLOAT16 * heads.numel() <= MAX_ATTENTION_FILE_BYTES
    parts = [heads] if is_small else heads.split(1)
    rows = average_classifier_rows(heads, classifier_rows)  # (L, H, 1, N)
    files = [make_file(str(i), part) for i, part in enumerate(parts)]
    return {"files": files, "rows": make_file("rows", rows)}
