"""The section "Attention": a large map next to a grid of all heads, drawn in the browser.

The payload contains all layers and heads, so another head, layer, patch or direction needs no
request:

    {"run": str, "layers": L, "heads": H, "grid": [rows, columns], "source": "mean" | "rollout",
     "prefix": [names of the tokens before the patches],
     "answer": [first, stop | None],             # rows of the tokens that the classifier reads
     "layer": 1..L, the initial layer,
     "distances": (L, H), "entropies": (L, H),
     "seen": file, "attention": [file, ...], "rows": file | None,
     "rollout": {"first": 1..L, "words": str, "file": file}, "similar": file,
     "norms": None | {"heads": [file, ...], "rows": file | None, "all": file} | {"sentence": str}}

`attention` is one file (L, H, N, N), or above `MAX_ATTENTION_FILE_BYTES` one file (1, H, N, N) per
layer. Then `rows` (L, H, n, N) arrives first, with the rows of the tokens that the classifier
reads. `norms` is the norm-weighted attention, with each row divided by its sum. `norms.heads` and
`norms.rows` correspond to `attention` and `rows`, and `norms.all` (L, 1, N, N) combines all heads.
Few users choose norm-weighted attention, so it is computed at the first choice (option `norms`).
`vitdemo.page.components.matrix_file` defines the file format.

After each drawing the script dispatches `vitdemo:drawn` on `document`, with
`detail = {run, layer, head, token, direction, source, values}`. Layer and head count from 1.
`source` is "head", "mean", "rollout", "similar", "norm" (all heads) or "norm-head".
`token` is "3,5" (row, column), "t0", "both" or "mean". `values` is a Float32Array over the patches.
"""

import hashlib
from dataclasses import dataclass

import gradio as gr
from PIL.Image import Image
from torch import Tensor

from vitdemo.analyses.class_maps import choose_first_map
from vitdemo.context import AppContext
from vitdemo.errors import RunError, VitdemoError
from vitdemo.explain import norms
from vitdemo.explain.attention import FUSIONS, rollout_steps
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.page.bridge import CachedFile, ImageFile, ViewState, add_view, load_square
from vitdemo.page.components.matrix_file import pack_matrices
from vitdemo.page.explore.attention_maps import texts
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.runs import Run

VIEW = "attention"
MAX_ATTENTION_FILE_BYTES = 3_000_000  # maximum bytes of attention in one file
BYTES_PER_FLOAT16 = 2  # bytes of a float16
MAX_DISCARD_RATIO = 0.95


@dataclass(frozen=True)
class RolloutSettings:
    """Settings of attention rollout; `first_layer` (1..L) is the first layer that counts."""

    fusion: str = "mean"
    discard_ratio: float = 0.0
    residual: bool = True
    first_layer: int = 1

    def describe(self) -> str:
        """Describe the settings that are not defaults, as " (max of the heads)"; "" without any."""
        words = []
        if self.fusion != "mean":
            words.append(texts.ROLLOUT_FUSION.format(fusion=self.fusion))
        if self.discard_ratio:
            words.append(texts.ROLLOUT_DISCARD.format(percent=100 * self.discard_ratio))
        if not self.residual:
            words.append(texts.ROLLOUT_NO_RESIDUAL)
        return f" ({', '.join(words)})" if words else ""


def build(look: ExploreTab) -> None:
    """Lay out the view, which the browser draws with its settings, and the explanation."""
    add_view(VIEW, elem_id="attention")
    with gr.Accordion(texts.ABOUT_TITLE, open=False, elem_classes="vd-about"):
        gr.Markdown(texts.ABOUT)


def payload(context: AppContext, state: ViewState) -> dict:
    """Return the attention of the state's image, with the rollout for the state's settings."""
    run = context.find_run(state.model)
    return describe_attention(context, run, load_square(context, state.image), state)


def describe_attention(context: AppContext, run: Run, image: Image, state: ViewState) -> dict:
    """Return the payload of an RGB image and `run`, with the rollout for the state's settings."""
    source, layer = choose_first_map(context, run)
    trace = context.trace_image(run, image)
    settings = RolloutSettings(
        state.read_choice("fusion", FUSIONS, "mean"),
        state.read_number("discard", 0, MAX_DISCARD_RATIO, 0),
        state.read_flag("residual", True),
        round(state.read_number("first", 1, trace.num_layers, 1)),
    )
    data = to_payload(trace, settings)
    if state.read_flag("norms", False):
        data["norms"] = norms_payload(context, trace)
    return data | {"source": source, "layer": layer or trace.num_layers}


def to_payload(trace: ImageTrace, settings: RolloutSettings) -> dict:
    """Return the payload of `trace` without `source`, `layer` and norm-weighted attention."""
    name = file_prefix(trace)
    weights, rows = serve_heads(name, trace.attention, trace.classifier_rows)
    rollout = compute_rollout(trace, settings)
    return {
        "run": trace.run.name,
        "layers": trace.num_layers,
        "heads": trace.attention.shape[1],
        "grid": list(trace.grid),
        "prefix": list(trace.prefix_names),
        "answer": [trace.classifier_rows.start, trace.classifier_rows.stop],
        "distances": trace.distances.round(4).tolist(),
        "entropies": trace.entropies.round(4).tolist(),
        "seen": ImageFile(trace.input_image),
        "attention": weights,
        "rows": rows,
        "norms": None,
        "rollout": {
            "first": settings.first_layer,
            "words": settings.describe(),
            "file": CachedFile(
                f"{name}-{hashlib.blake2b(repr(settings).encode(), digest_size=6).hexdigest()}.bin",
                lambda: pack_matrices(rollout[:, None]),
            ),
        },
        "similar": CachedFile(
            f"{name}-similar.bin", lambda: pack_matrices(trace.token_similarity[:, None])
        ),
    }


def compute_rollout(trace: ImageTrace, settings: RolloutSettings) -> Tensor:
    """Return the rollout after each layer from the first one, (S, N, N). Raises `VitdemoError`."""
    try:
        return rollout_steps(
            trace.attention[:, None],  # (L, 1, H, N, N)
            fusion=settings.fusion,
            discard_ratio=settings.discard_ratio,
            residual=settings.residual,
            start_layer=settings.first_layer - 1,
            num_prefix_tokens=trace.num_prefix_tokens,
        )[:, 0]
    except ValueError as error:
        raise VitdemoError(str(error)) from error


def file_prefix(trace: ImageTrace) -> str:
    """Return a text that is different for every image, run and state of its weights."""
    key = hashlib.blake2b(digest_size=12)
    for part in (trace.run.path, trace.run.stamp, trace.input_image.tobytes()):
        key.update(part if isinstance(part, bytes) else repr(part).encode())
    return key.hexdigest()


def norms_payload(context: AppContext, trace: ImageTrace) -> dict:
    """Return the norm-weighted attention, or the reason why the model has none."""
    try:
        products = context.value_products(trace)
    except RunError as error:
        return {"sentence": str(error)}
    name = f"{file_prefix(trace)}-norms"
    heads = norms.norms_to_weights(norms.head_norms(trace.attention, products))  # (L, H, N, N)
    files, rows = serve_heads(name, heads, trace.classifier_rows)

    def pack_all_heads() -> bytes:
        summed = norms.summed_head_norms(trace.attention, products)
        return pack_matrices(norms.norms_to_weights(summed)[:, None])

    return {"heads": files, "rows": rows, "all": CachedFile(f"{name}-all.bin", pack_all_heads)}


def serve_heads(
    name: str, heads: Tensor, classifier_rows: slice
) -> tuple[list[CachedFile], CachedFile | None]:
    """Return files of `heads` (L, H, N, N); with several files, also one of `classifier_rows`."""
    is_small = BYTES_PER_FLOAT16 * heads.numel() <= MAX_ATTENTION_FILE_BYTES
    parts = [heads] if is_small else heads.split(1)
    files = [
        CachedFile(f"{name}-{i}.bin", lambda part=part: pack_matrices(part))
        for i, part in enumerate(parts)
    ]
    if is_small:
        return files, None
    rows = heads[:, :, classifier_rows]  # (L, H, n, N)
    return files, CachedFile(f"{name}-rows.bin", lambda: pack_matrices(rows))
