"""The part "Across epochs": attention of one layer to one image after each saved epoch."""

from vitdemo import runs
from vitdemo.film import Film, film, filmed
from vitdemo.inside.knockout import FINDING
from vitdemo.page.components.maps import MapRow, Maps, Panel, peak
from vitdemo.page.kit import nearest
from vitdemo.page.look.tab import Look
from vitdemo.workbench import Workbench

MOST_EPOCHS = 12  # maximum number of maps
WORDS = (
    "How much the class token attends to each patch in layer {layer} (mean of the heads), after "
    "each epoch whose weights were saved. " + FINDING + " A map that changes shows that the layer "
    "changed, not that the prediction improved: compare the predictions below the maps. Each map "
    "is scaled to its own maximum. Models without a class token show the average patch."
)
NONE_KEPT = (
    "For '{name}', only the final weights were saved{others}. To save the weights of some epochs "
    "in a new training run, use `python train.py RECIPE --keep 1,2,4,8`."
)


def build(look: Look) -> None:
    """Lay out and wire the part."""
    view = Maps(elem_id="epochs-inside")

    def draw(image, name, layer):
        found = look.traced(name, image)
        if not runs.kept_weights(found.run):
            return none_kept(name, with_epochs(look.workbench))
        shown = film(look.workbench, found.run, image, MOST_EPOCHS)
        return row(shown, nearest(layer, found.layers))

    look.add("inside/epochs", draw, [look.layer], [view])


def with_epochs(workbench: Workbench) -> list[str]:
    """Return the names of the runs with saved weights of several epochs."""
    found = (run for run in filmed(workbench) if run.has_weights)
    return [run.name for run in found if runs.kept_weights(run)]


def none_kept(name: str, others: list[str]) -> str:
    """Explain how to save weights of several epochs, and name `others` that have them."""
    words = f". Choose {' or '.join(others)} above, which has more" if others else ""
    return NONE_KEPT.format(name=name, others=words)


def row(found: Film, layer: int) -> MapRow:
    """Return one map of `layer` (from 1) per epoch."""
    panels = [panel(found, e, layer) for e in range(len(found.epochs))]
    return MapRow(panels, WORDS.format(layer=layer))


def panel(found: Film, e: int, layer: int) -> Panel:
    """Return the map of `layer` after epoch `found.epochs[e]`."""
    values = found.maps[e, layer - 1].reshape(found.grid)
    predicted, when = int(found.predicted[e]), f"Epoch {found.epochs[e]}"
    share = 100 * found.probabilities[e, predicted]
    answer = f"predicts {found.run.classes[predicted]}, {share:.1f}%"
    words = f"{found.run.name}, {when.lower()}: {answer}, maximum in {peak(values)}"
    return Panel(when, values, found.seen, words, lines=[answer])
