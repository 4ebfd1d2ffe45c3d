"""The part "Position embeddings": which places the model has learnt to hold for near each other."""

from vitdemo.inside.learned import position_similarity
from vitdemo.page.components.positions import Drawn, Positions
from vitdemo.page.look.tab import Look

WORDS = (
    "How alike the learned position embedding of the chosen patch is to that of every other "
    "(cosine, 1 for itself). It says nothing of any picture."
)
START = {
    "random": "This training began with random numbers, which know nothing of where patches lie: "
    "neighbours, rows and columns that resemble each other were learnt.",
    "mimetic": "This training began with mimetic initialisation, whose position embeddings are "
    "sines and cosines (Trockman & Kolter 2023): neighbours resembled each other from the start, "
    "so not all that is seen here was learned.",
    "weights": "This training began with the weights of another one: what resembles each other was "
    "learnt there, or was there from its start.",
}


def build(look: Look) -> None:
    """Lay out and wire the part; the browser draws whichever patch is chosen."""
    view = Positions(elem_id="positions")

    def draw(image, name):
        similarity, grid, start = position_similarity(look.workbench, look.workbench.run(name))
        return Drawn(name, similarity, grid, f"{WORDS} {START[start]}")

    look.add("inside/positions", draw, [], [view])
