"""The part "Position embeddings": similarity of the learned position embeddings."""

from vitdemo.analyses.weights import compute_position_similarity
from vitdemo.page.components.positions import PositionData, PositionView
from vitdemo.page.explore.tab import ExploreTab

POSITIONS_CAPTION = (
    "Cosine similarity of the chosen patch's learned position embedding to the position embeddings "
    "of all patches; 1 for the patch itself. It does not depend on the image."
)
INITIALISATION_CAPTIONS = {
    "random": "The embeddings were initialised with random numbers, without information about "
    "positions. Similarity between neighbours, rows and columns was learned.",
    "mimetic": "The embeddings were initialised with sines and cosines (mimetic initialisation, "
    "Trockman & Kolter 2023). Neighbours were similar from the start, so not all of the similarity "
    "was learned.",
    "weights": "Training started from the weights of another model. The similarity comes from the "
    "training of the other model, or from its initialisation.",
}


def build(look: ExploreTab) -> None:
    """Lay out the part and connect its events; the browser draws the chosen patch."""
    view = PositionView(elem_id="positions")

    def draw(image, name):
        similarity, grid, start = compute_position_similarity(
            look.context, look.context.find_run(name)
        )
        return PositionData(
            name, similarity, grid, f"{POSITIONS_CAPTION} {INITIALISATION_CAPTIONS[start]}"
        )

    look.add("inside/positions", draw, [], [view])
