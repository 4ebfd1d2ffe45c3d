"""The part "Position embeddings": similarity of the learned position embeddings."""

from vitdemo.inside.learned import position_similarity
from vitdemo.page.components.positions import Drawn, Positions
from vitdemo.page.look.tab import Look

WORDS = (
    "Cosine similarity between the learned position embedding of the chosen patch and those of all "
    "patches; 1 for the patch itself. It does not depend on the image."
)
START = {
    "random": "The embeddings were initialised with random numbers, without information about "
    "positions. Similarity between neighbours, rows and columns was learned.",
    "mimetic": "The embeddings were initialised with sines and cosines (mimetic initialisation, "
    "Trockman & Kolter 2023). Neighbours were similar from the start, so not all of the similarity "
    "was learned.",
    "weights": "Training started from the weights of another model. The similarity was learned "
    "there, or it comes from the initialisation of that model.",
}


def build(look: Look) -> None:
    """Lay out and wire the part; the browser draws the chosen patch."""
    view = Positions(elem_id="positions")

    def draw(image, name):
        similarity, grid, start = position_similarity(look.workbench, look.workbench.run(name))
        return Drawn(name, similarity, grid, f"{WORDS} {START[start]}")

    look.add("inside/positions", draw, [], [view])
