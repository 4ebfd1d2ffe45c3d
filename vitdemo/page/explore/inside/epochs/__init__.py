"""The part "Across epochs": attention of one layer to one image after each saved epoch."""

from vitdemo import runs
from vitdemo.analyses.knockout import KNOCKOUT_FINDING
from vitdemo.analyses.snapshots import Snapshots, load_snapshots, runs_with_snapshots
from vitdemo.context import AppContext
from vitdemo.documents import Details, DocumentBlock, Notice, PickList, Text
from vitdemo.documents.maps import MapPanel, MapRow, describe_peak
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import choose_layer, document_payload, load_square, load_trace
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "epochs"
MAX_EPOCHS_SHOWN = 12  # maximum number of maps, one per epoch
EPOCHS_CAPTION = "Attention in layer {layer}, mean of the heads, after each saved epoch."
ABOUT_EPOCHS = (
    f"{KNOCKOUT_FINDING} A map that changes shows that the layer changed, not that the prediction "
    "improved: compare the predictions below the maps. Each map is scaled to its own maximum. "
    "Models without a class token show the average patch."
)
NO_SAVED_EPOCHS_MESSAGE = "For '{name}', only the final weights were saved."
OTHER_MODEL_LABEL = "Show {name}"
KEEP_EPOCHS_TEXT = (
    "To save the weights of some epochs in a new training run, use "
    f"`{TRAIN_COMMAND} RECIPE --save-epochs 1,2,4,8`."
)


@needs(keys.IMAGE, keys.MODEL, keys.LAYER)
def payload(context: AppContext, state: ViewState) -> list:
    run = load_trace(context, state).run
    if not runs.list_saved_weights(run):
        return document_payload(missing_epochs_blocks(run.name, names_with_epochs(context)))
    image = load_square(context, state.image)
    snapshots = load_snapshots(context, run, image, MAX_EPOCHS_SHOWN)
    maps = epoch_map_row(snapshots, choose_layer(context, state, run))
    return document_payload([maps, Details("About", [Text(ABOUT_EPOCHS, quiet=True)])])


FEATURE = Feature({VIEW: payload})


def names_with_epochs(context: AppContext) -> list[str]:
    found = (run for run in runs_with_snapshots(context) if run.has_weights)
    return [run.name for run in found if runs.list_saved_weights(run)]


def missing_epochs_blocks(name: str, others: list[str]) -> list[DocumentBlock]:
    """Explain that `name` has no saved epochs, with a button for each of the runs `others`."""
    labels = {other: OTHER_MODEL_LABEL.format(name=other) for other in others}
    return [
        Notice(NO_SAVED_EPOCHS_MESSAGE.format(name=name)),
        *([PickList(labels)] if labels else []),
        Text(KEEP_EPOCHS_TEXT, quiet=True),
    ]


def epoch_map_row(snapshots: Snapshots, layer: int) -> MapRow:
    panels = [epoch_panel(snapshots, e, layer) for e in range(len(snapshots.epochs))]
    return MapRow(panels, EPOCHS_CAPTION.format(layer=layer))


def epoch_panel(snapshots: Snapshots, e: int, layer: int) -> MapPanel:
    values = snapshots.maps[e, layer - 1].reshape(snapshots.grid)
    predicted, when = int(snapshots.predicted[e]), f"Epoch {snapshots.epochs[e]}"
    share = 100 * snapshots.probabilities[e, predicted]
    answer = f"predicts {snapshots.run.classes[predicted]}, {share:.1f}%"
    words = f"{snapshots.run.name}, {when.lower()}: {answer}, maximum in {describe_peak(values)}"
    return MapPanel(when, values, snapshots.input_image, words, lines=[answer])
