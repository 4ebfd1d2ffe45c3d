"""Attention of one image, drawn in the browser: a large map next to a grid of all heads.

    view = AttentionView(elem_id="attention")
    view.layer(None, None, [slider, chosen], js=LAYER)  # the user chose a layer in the grid
    view.begins(None, [slider, chosen], slider, js=BEGINS)  # a new model has its initial layer

A handler returns `AttentionData`, a message if there is nothing to draw, or None. The payload:

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
Few users choose norm-weighted attention, so it is computed at the first choice (event `norms`).
`vitdemo.page.components.matrix_file` defines the file format.

After each drawing the script dispatches `vitdemo:drawn` on `document`, with
`detail = {run, layer, head, token, direction, source, values}`. Layer and head count from 1.
`source` is "head", "mean", "rollout", "similar", "norm" (all heads) or "norm-head".
`token` is "3,5" (row, column), "t0", "both" or "mean". `values` is a Float32Array over the patches.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from gradio.data_classes import FileData
from torch import Tensor

from vitdemo.explain import norms
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.page.components import View, serve_file, serve_image, serve_numbers
from vitdemo.page.components.matrix_file import pack_matrices

MAX_ATTENTION_FILE_BYTES = 3_000_000  # maximum bytes of attention in one file
BYTES_PER_FLOAT16 = 2  # bytes of a float16
JS_SET_LAYER = (
    "(layer) => document.dispatchEvent(new CustomEvent('vitdemo:layer', {detail: layer}))"
)
JS_CHOSEN_LAYER = "() => [window.vitdemo.layer, true]"  # `true`: the user chose this layer
JS_REQUEST_NORMS = "() => [true]"  # from now on, request norm-weighted attention
JS_INPUTS_WITH_NORMS = "(...values) => [...values.slice(0, -1), true]"
JS_INITIAL_LAYER = "(layer, chosen) => [chosen ? layer : window.vitdemo.begins]"


@dataclass(frozen=True)
class AttentionData:
    """Attention of one image, with the rollout for the user's settings.

    `rollout` (S, N, N) is the rollout after each of the S layers from `first_layer` (1..L) to L.
    `settings_text` describes settings that are not defaults. The view first shows `source` ("mean"
    or "rollout") at `layer` (None: the last layer). `products` (L, N, H, H) are the value products
    of `vitdemo.explain.norms`, or the reason why the model has none; None if not requested.
    """

    trace: ImageTrace
    rollout: Tensor
    first_layer: int = 1
    settings_text: str = ""
    source: str = "rollout"
    layer: int | None = None
    products: Tensor | str | None = None


class AttentionView(View):
    """Attention maps of one image: a large map next to a grid of all heads.

    Events: `layer` (the user chose a layer in the grid), `begins` (a new image or model was drawn),
    `norms` (the user chose norm-weighted attention for the first time).
    """

    def to_payload(self, value: AttentionData) -> dict:
        look = value.trace
        key = hashlib.blake2b(digest_size=12)
        for part in (look.run.path, look.run.stamp, look.input_image.tobytes()):
            key.update(part if isinstance(part, bytes) else repr(part).encode())
        name = key.hexdigest()
        weights, rows = self._serve_heads(name, look.attention, look.classifier_rows)
        return {
            "run": look.run.name,
            "layers": look.num_layers,
            "heads": look.attention.shape[1],
            "grid": list(look.grid),
            "source": value.source,
            "layer": value.layer or look.num_layers,
            "prefix": list(look.prefix_names),
            "answer": [look.classifier_rows.start, look.classifier_rows.stop],
            "distances": look.distances.round(4).tolist(),
            "entropies": look.entropies.round(4).tolist(),
            "seen": serve_image(self, look.input_image),
            "attention": weights,
            "rows": rows,
            "norms": self._norms_payload(f"{name}-norms", look, value.products),
            "rollout": {
                "first": value.first_layer,
                "words": value.settings_text,
                "file": serve_numbers(self, value.rollout[:, None]),
            },
            "similar": self._serve_attention_file(
                f"{name}-similar.bin", lambda: pack_matrices(look.token_similarity[:, None])
            ),
        }

    def _norms_payload(
        self, name: str, look: ImageTrace, products: Tensor | str | None
    ) -> dict | None:
        if products is None:
            return None
        if isinstance(products, str):
            return {"sentence": products}
        heads = norms.norms_to_weights(norms.head_norms(look.attention, products))  # (L, H, N, N)
        files, rows = self._serve_heads(name, heads, look.classifier_rows)

        def together() -> bytes:
            return pack_matrices(
                norms.norms_to_weights(norms.summed_head_norms(look.attention, products))[:, None]
            )

        return {
            "heads": files,
            "rows": rows,
            "all": self._serve_attention_file(f"{name}-all.bin", together),
        }

    def _serve_heads(
        self, name: str, heads: Tensor, answer_rows: slice
    ) -> tuple[list[FileData], FileData | None]:
        """Serve `heads` (L, H, N, N) as files; with several files, also serve `answer_rows`."""
        files = [
            self._serve_attention_file(
                f"{name}-{i}.bin", lambda layers=layers: pack_matrices(layers)
            )
            for i, layers in enumerate(_split_into_files(heads))
        ]
        if len(files) == 1:
            return files, None
        rows = heads[:, :, answer_rows]  # (L, H, n, N)
        return files, self._serve_attention_file(f"{name}-rows.bin", lambda: pack_matrices(rows))

    def _serve_attention_file(self, name: str, content: Callable[[], bytes]) -> FileData:
        return serve_file(self, "attention", name, content)


def _split_into_files(attention: Tensor) -> list[Tensor]:
    """Split `attention` (L, H, N, N) into one tensor per layer, (1, H, N, N), if it is large."""
    return (
        [attention]
        if BYTES_PER_FLOAT16 * attention.numel() <= MAX_ATTENTION_FILE_BYTES
        else list(attention.split(1))
    )
