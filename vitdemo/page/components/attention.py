"""Attention of one image, drawn in the browser: a large map next to a grid of all heads.

    view = AttentionView(elem_id="attention")
    view.layer(None, None, [slider, chosen], js=LAYER)  # the user chose a layer in the grid
    view.begins(None, [slider, chosen], slider, js=BEGINS)  # a model starts at its own layer

A handler returns a `Drawn`, a message if there is nothing to draw, or None. The payload:

    {"run": str, "layers": L, "heads": H, "grid": [rows, columns], "source": "mean" | "rollout",
     "prefix": [names of the tokens before the patches],
     "answer": [first, stop | None],             # rows of the tokens that the classifier reads
     "layer": 1..L, the initial layer,
     "distances": (L, H), "entropies": (L, H),
     "seen": file, "attention": [file, ...], "rows": file | None,
     "rollout": {"first": 1..L, "words": str, "file": file}, "similar": file,
     "norms": None | {"heads": [file, ...], "rows": file | None, "all": file} | {"sentence": str}}

`attention` is one file (L, H, N, N), or above `MOST_BYTES` one file (1, H, N, N) per layer. Then
`rows` (L, H, n, N) arrives first, with the rows of the tokens that the classifier reads. `norms` is
the norm-weighted attention, with each row divided by its sum: `heads` and `rows` as for the
attention, and `all` (L, 1, N, N) of all heads together. It is computed when the user first chooses
the source (event `norms`), since few users do. `vitdemo.attention.packed` defines the file format.

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

from vitdemo.attention import norms
from vitdemo.attention.packed import pack
from vitdemo.page.components import Drawing, served, served_numbers, served_picture
from vitdemo.traced import Traced

MOST_BYTES = 3_000_000  # maximum bytes of attention in one file
HALF = 2  # bytes of a float16
SET_LAYER = "(layer) => document.dispatchEvent(new CustomEvent('vitdemo:layer', {detail: layer}))"
LAYER = "() => [window.vitdemo.layer, true]"  # true: the user chose the layer
WITH_NORMS = "() => [true]"  # norm-weighted attention is computed from now on
ASK_NORMS = "(...values) => [...values.slice(0, -1), true]"
BEGINS = "(layer, chosen) => [chosen ? layer : window.vitdemo.begins]"


@dataclass(frozen=True)
class Drawn:
    """Attention of one image, with its rollout for the settings that the user chose.

    `rollout` (S, N, N) is the rollout after each layer from `first` (1..L) on. `words` describe
    its settings; they are empty for the default ones. The view starts with `source` ("mean" or
    "rollout") at `layer` (None: the last one) and then keeps the user's choice. `products`
    (L, N, H, H) are those of `vitdemo.attention.norms`, the reason why the model has none, or None
    if they were not requested.
    """

    look: Traced
    rollout: Tensor
    first: int = 1
    words: str = ""
    source: str = "rollout"
    layer: int | None = None
    products: Tensor | str | None = None


class AttentionView(Drawing):
    """View of attention maps, see the module.

    Its events: `layer` (a layer was chosen in the grid), `begins` (a new image or model was
    drawn), `norms` (norm-weighted attention was chosen for the first time).
    """

    def drawn(self, value: Drawn) -> dict:
        look = value.look
        key = hashlib.blake2b(digest_size=12)
        for part in (look.run.path, look.run.stamp, look.seen.tobytes()):
            key.update(part if isinstance(part, bytes) else repr(part).encode())
        name = key.hexdigest()
        weights, rows = self._head_files(name, look.attention, look.answer_rows)
        return {
            "run": look.run.name,
            "layers": look.layers,
            "heads": look.attention.shape[1],
            "grid": list(look.grid),
            "source": value.source,
            "layer": value.layer or look.layers,
            "prefix": list(look.prefix_names),
            "answer": [look.answer_rows.start, look.answer_rows.stop],
            "distances": look.distances.round(4).tolist(),
            "entropies": look.entropies.round(4).tolist(),
            "seen": served_picture(self, look.seen),
            "attention": weights,
            "rows": rows,
            "norms": self._norms(f"{name}-norms", look, value.products),
            "rollout": {
                "first": value.first,
                "words": value.words,
                "file": served_numbers(self, value.rollout[:, None]),
            },
            "similar": self._file(f"{name}-similar.bin", lambda: pack(look.similarity[:, None])),
        }

    def _norms(self, name: str, look: Traced, products: Tensor | str | None) -> dict | None:
        if products is None:
            return None
        if isinstance(products, str):
            return {"sentence": products}
        heads = norms.norm_shares(norms.head_norms(look.attention, products))  # (L, H, N, N)
        files, rows = self._head_files(name, heads, look.answer_rows)

        def together() -> bytes:
            return pack(norms.norm_shares(norms.layer_norms(look.attention, products))[:, None])

        return {"heads": files, "rows": rows, "all": self._file(f"{name}-all.bin", together)}

    def _head_files(
        self, name: str, heads: Tensor, answer_rows: slice
    ) -> tuple[list[FileData], FileData | None]:
        """Serve `heads` (L, H, N, N) as files; if there are several, also the classifier's rows."""
        files = [
            self._file(f"{name}-{i}.bin", lambda layers=layers: pack(layers))
            for i, layers in enumerate(_in_files(heads))
        ]
        if len(files) == 1:
            return files, None
        rows = heads[:, :, answer_rows]  # (L, H, n, N)
        return files, self._file(f"{name}-rows.bin", lambda: pack(rows))

    def _file(self, name: str, content: Callable[[], bytes]) -> FileData:
        return served(self, "attention", name, content)


def _in_files(attention: Tensor) -> list[Tensor]:
    """Return (L, H, N, N) in one piece, or split into (1, H, N, N) per layer if it is large."""
    return [attention] if HALF * attention.numel() <= MOST_BYTES else list(attention.split(1))
