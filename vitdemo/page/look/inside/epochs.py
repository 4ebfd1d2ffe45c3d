"""The part "In training": the attention of a layer in one image, epoch by epoch."""

from vitdemo import runs
from vitdemo.film import Film, film, filmed
from vitdemo.inside.knockout import FINDING
from vitdemo.page.components.maps import MapRow, Maps, Panel, peak
from vitdemo.page.kit import nearest
from vitdemo.page.look.tab import Look
from vitdemo.workbench import Workbench

MOST_EPOCHS = 12  # shown at once
WORDS = (
    "How much the class token attends to each patch in layer {layer} (mean of the heads), after "
    "each epoch whose weights were saved. " + FINDING + " A map that changes shows that the layer "
    "changed, not that the prediction improved: compare the predictions below the maps. Each map "
    "is scaled to its own maximum. Models without a class token show the average patch."
)
NONE_KEPT = (
    "'{name}' kept no weights but its last{others}. `python train.py RECIPE --keep 1,2,4,8` keeps "
    "those of the epochs that it names, to be seen here."
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
    """The runs that can be shown so."""
    found = (run for run in filmed(workbench) if run.has_weights)
    return [run.name for run in found if runs.kept_weights(run)]


def none_kept(name: str, others: list[str]) -> str:
    """Which `others` have a strip, and how to keep the weights for one."""
    words = f"; choose {' or '.join(others)} above, which kept more" if others else ""
    return NONE_KEPT.format(name=name, others=words)


def row(found: Film, layer: int) -> MapRow:
    """A strip of maps of `layer`, from 1."""
    panels = [panel(found, e, layer) for e in range(len(found.epochs))]
    return MapRow(panels, WORDS.format(layer=layer))


def panel(found: Film, e: int, layer: int) -> Panel:
    """`e`, from 0, counts `found.epochs`."""
    values = found.maps[e, layer - 1].reshape(found.grid)
    predicted, when = int(found.predicted[e]), f"Epoch {found.epochs[e]}"
    share = 100 * found.probabilities[e, predicted]
    answer = f"predicts {found.run.classes[predicted]}, {share:.1f} %"
    words = f"{found.run.name}, {when.lower()}: {answer}, strongest in {peak(values)}"
    return Panel(when, values, found.seen, words, lines=[answer])
