"""The part "Position embeddings": similarity of a chosen patch to all others, and an overview.

The payload does not depend on the image. `limit` is the end of the colour scale, and `start` is
"random", "mimetic" or "weights", as `compute_position_similarity` returns it:

    {"run": str, "grid": [rows, columns], "start": str, "limit": float, "similarity": file (P, P)}
"""

import numpy as np

from vitdemo.analyses.weights import compute_position_similarity
from vitdemo.context import AppContext
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import NumbersFile
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "position_embeddings"


@needs(keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    run = context.find_run(state.model)
    similarity, grid, start = compute_position_similarity(context, run)
    return {
        "run": run.name,
        "grid": list(grid),
        "start": start,
        "limit": find_largest_cosine(similarity),
        "similarity": NumbersFile(similarity),
    }


FEATURE = Feature({VIEW: payload})


def find_largest_cosine(similarity: np.ndarray) -> float:
    """Return the largest absolute off-diagonal cosine of `similarity` (P, P); 1 if P is 1."""
    others = similarity[~np.eye(len(similarity), dtype=bool)]
    return float(np.abs(others).max()) if others.size else 1.0
