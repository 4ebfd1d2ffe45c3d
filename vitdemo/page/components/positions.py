"""View of position embeddings: similarity of a chosen patch to all others, and an overview.

A handler returns `PositionData`, or a message if there is nothing to draw. The file `similarity`
contains all similarities, in the format of `vitdemo.page.components.matrix_file`. The payload:

    {"run": str, "grid": [rows, columns], "limit": float, "words": str, "similarity": file}
"""

from dataclasses import dataclass

import numpy as np
import torch

from vitdemo.page.components import View, serve_numbers


@dataclass(frozen=True, eq=False)
class PositionData:
    """Cosine similarity (P, P) of a run's position embeddings, and the caption `words`."""

    run: str
    similarity: np.ndarray
    grid: tuple[int, int]
    words: str

    @property
    def limit(self) -> float:
        """Largest absolute cosine between two different patches, the end of the colour scale."""
        others = self.similarity[~np.eye(len(self.similarity), dtype=bool)]
        return float(np.abs(others).max()) if others.size else 1.0


class PositionView(View):
    """View of the similarity of position embeddings."""

    def to_payload(self, value: PositionData) -> dict:
        return {
            "run": value.run,
            "grid": list(value.grid),
            "limit": value.limit,
            "words": value.words,
            "similarity": serve_numbers(self, torch.from_numpy(value.similarity)[None, None]),
        }
