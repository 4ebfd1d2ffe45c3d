"""Position embeddings: how alike that of a chosen patch is to all others, and all maps at once.

A handler returns a `Drawn`, or a sentence that says why there is none. All similarities travel in
one file, of the format of `vitdemo.attention.packed`; the script draws the patch that is chosen.
The value that reaches it:

    {"run": str, "grid": [rows, columns], "limit": float, "words": str, "similarity": file}
"""

from dataclasses import dataclass

import numpy as np
import torch

from vitdemo.page.components import Drawing, served_numbers


@dataclass(frozen=True, eq=False)
class Drawn:
    """Cosines (P, P) of the patches of `run` on their grid, and `words` above them."""

    run: str
    similarity: np.ndarray
    grid: tuple[int, int]
    words: str

    @property
    def limit(self) -> float:
        """The largest cosine of two different patches, either sign: the end of the colours."""
        others = self.similarity[~np.eye(len(self.similarity), dtype=bool)]
        return float(np.abs(others).max()) if others.size else 1.0


class Positions(Drawing):
    """See the module."""

    def drawn(self, value: Drawn) -> dict:
        return {
            "run": value.run,
            "grid": list(value.grid),
            "limit": value.limit,
            "words": value.words,
            "similarity": served_numbers(self, torch.from_numpy(value.similarity)[None, None]),
        }
