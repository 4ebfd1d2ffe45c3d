"""Position embeddings: similarity between a chosen patch and all others, and an overview.

A handler returns a `PositionData`, or a message if there is nothing to draw. One file of the format
of `vitdemo.page.components.matrix_file` contains all similarities; the script draws the chosen
patch. The payload:

    {"run": str, "grid": [rows, columns], "limit": float, "words": str, "similarity": file}
"""

from dataclasses import dataclass

import numpy as np
import torch

from vitdemo.page.components import View, serve_numbers


@dataclass(frozen=True, eq=False)
class PositionData:
    """Cosines (P, P) of a run's position embeddings on its grid, and the caption `words`."""

    run: str
    similarity: np.ndarray
    grid: tuple[int, int]
    words: str

    @property
    def limit(self) -> float:
        """Largest absolute cosine of two different patches: the end of the colour scale."""
        others = self.similarity[~np.eye(len(self.similarity), dtype=bool)]
        return float(np.abs(others).max()) if others.size else 1.0


class PositionView(View):
    """View of position embeddings, see the module."""

    def to_payload(self, value: PositionData) -> dict:
        return {
            "run": value.run,
            "grid": list(value.grid),
            "limit": value.limit,
            "words": value.words,
            "similarity": serve_numbers(self, torch.from_numpy(value.similarity)[None, None]),
        }
