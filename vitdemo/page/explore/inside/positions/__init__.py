"""The part "Position embeddings": similarity of a chosen patch to all others, and an overview.

The payload does not depend on the image. `limit` is the end of the colour scale:

    {"run": str, "grid": [rows, columns], "limit": float, "caption": str, "about": str,
     "similarity": file (P, P)}
"""

import numpy as np

from vitdemo.analyses.weights import compute_position_similarity
from vitdemo.context import AppContext
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import NumbersFile
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "position_embeddings"
POSITIONS_CAPTION = (
    "Cosine similarity between the chosen patch's position embedding and the position embeddings "
    "of all patches."
)
ABOUT_POSITIONS = "The similarity does not depend on the image, and is 1 for the patch itself."
INITIALISATION_CAPTIONS = {
    "random": "The embeddings were initialised with random numbers, without information about "
    "positions. Similarity between neighbours, rows and columns was learned.",
    "mimetic": "The embeddings were initialised with sines and cosines (mimetic initialisation, "
    "Trockman & Kolter 2023). Neighbours were similar from the start, so not all of the similarity "
    "was learned.",
    "weights": "Training started from the weights of another model. The similarity comes from the "
    "training of the other model, or from its initialisation.",
}


@needs(keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    run = context.find_run(state.model)
    similarity, grid, start = compute_position_similarity(context, run)
    return {
        "run": run.name,
        "grid": list(grid),
        "limit": find_largest_cosine(similarity),
        "caption": POSITIONS_CAPTION,
        "about": f"{ABOUT_POSITIONS} {INITIALISATION_CAPTIONS[start]}",
        "similarity": NumbersFile(similarity),
    }


FEATURE = Feature({VIEW: payload})


def find_largest_cosine(similarity: np.ndarray) -> float:
    """Return the largest absolute off-diagonal cosine of `similarity` (P, P); 1 if P is 1."""
    others = similarity[~np.eye(len(similarity), dtype=bool)]
    return float(np.abs(others).max()) if others.size else 1.0
