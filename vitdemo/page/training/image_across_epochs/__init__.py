"""Animation of the attention to the current image across the epochs of a run.

The browser receives all epochs at once. Each map is sent row by row, and the classes are in the
order of their last probabilities. The payload is {"followed": str, "message": str} or:

    {"followed": name of the training run that the animation switched to last,
     "run", "seen": file, "grid": [rows, columns], "layers", "epochs": [...],
     "trained": completed epochs, a fraction after an early stop, "classes": [...],
     "shares": [[probability per class] per epoch], "predicted": [class per epoch],
     "label": the true class, or None if it is unknown or not a class of the model,
     "maps": [[[...] per layer] per epoch]}

Letters: E epochs, L layers, C classes.
"""

import gradio as gr

from vitdemo.analyses.knockout import KNOCKOUT_FINDING
from vitdemo.analyses.snapshots import (
    Snapshots,
    load_snapshots,
    runs_with_snapshots,
)
from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.jobs import JobQueue
from vitdemo.jobs.state import find_followed_job
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, add_view, load_square
from vitdemo.page.components.run_choice import RunChoice, choose_run, describe_run_choices
from vitdemo.page.feature import PageSetup, ViewData
from vitdemo.page.image_sources import TRUE_CLASS_KEY
from vitdemo.page.view_state import ViewState, needs

VIEW = "image_across_epochs"
TITLE = "Photo after each epoch"
NO_SNAPSHOTS_MESSAGE = (
    "Training runs started here save their weights after each epoch. After the first epoch, the "
    "animation shows the attention and prediction for the image in Explore. For other runs, use "
    f"`{TRAIN_COMMAND} RECIPE --save-epochs 1,2,4,8`."
)
ABOUT = (
    f"{KNOCKOUT_FINDING} A map that changes shows that the layer changed, not that the prediction "
    "improved. The maps are means over the heads, each scaled to its own maximum. Models without a "
    "class token show the average patch."
)
WAITING_MESSAGE = "The map of {name} appears after its first epoch."
MAX_CLASSES_SHOWN = 5  # number of classes shown
SHARE_DIGITS = 4  # decimals of a probability
MAP_DIGITS = 3  # significant digits of a map's values, enough for the colours


def build(setup: PageSetup) -> None:
    gr.Markdown(f"### {TITLE}")
    setup.controls.add(keys.ANIMATED_RUN, RunChoice, [], min_width=220)
    add_view(VIEW, elem_id="film")
    with gr.Accordion("About", open=False, elem_classes="vd-about"):
        gr.Markdown(ABOUT)


@needs(keys.IMAGE, keys.ANIMATED_RUN, unwatched=(keys.FOLLOWED_RUN,))
def payload(jobs: JobQueue | None, context: AppContext, state: ViewState) -> ViewData:
    """Return the animation of the chosen run, and the runs to choose from.

    The animation switches to each new training run of the page once, and waits for the first epoch
    of a run in progress.
    """
    runs = runs_with_snapshots(context)
    name, followed = state[keys.ANIMATED_RUN], state[keys.FOLLOWED_RUN]
    job = find_followed_job(jobs.list_jobs()) if jobs else None
    newest = job.name if job and job.name in [run.name for run in runs] else ""
    is_first = followed is None  # the browser has not shown an animation yet
    if newest and newest != followed and not (is_first and name):
        name = newest
    name = choose_run(runs, name)
    if job and job.is_unfinished and not newest:
        found = {"message": WAITING_MESSAGE.format(name=job.name)}
    else:
        found = animation_payload(context, state, name)
    data = {"followed": newest or (followed or ""), **found}
    menu = describe_run_choices(runs, name, state[keys.ANIMATED_RUN])
    return ViewData(data, {keys.ANIMATED_RUN.name: menu})


def animation_payload(context: AppContext, state: ViewState, name: str) -> dict:
    if not name:
        return {"message": NO_SNAPSHOTS_MESSAGE}
    try:
        image = load_square(context, state.image)
        snapshots = load_snapshots(context, context.find_run(name), image)
    except VitdemoError as error:
        return {"message": str(error)}
    return snapshots_to_payload(snapshots, image.info.get(TRUE_CLASS_KEY))


def snapshots_to_payload(snapshots: Snapshots, true_class: str | None) -> dict:
    classes = snapshots.run.classes
    order = list(snapshots.probabilities[-1].argsort()[::-1][:MAX_CLASSES_SHOWN])  # (E, C)
    label = true_class if true_class in classes else None
    if label is not None:
        truth = classes.index(label)
        order = order if truth in order else [*order[:-1], truth]
    return {
        "run": snapshots.run.name,
        "seen": ImageFile(snapshots.input_image),
        "grid": list(snapshots.grid),
        "layers": snapshots.maps.shape[1],  # (E, L, P)
        "epochs": list(snapshots.epochs),
        "trained": list(snapshots.trained),
        "classes": [classes[i] for i in order],
        "shares": [
            [round(float(row[i]), SHARE_DIGITS) for i in order] for row in snapshots.probabilities
        ],
        "predicted": [classes[i] for i in snapshots.predicted],
        "label": label,
        "maps": [
            [[float(f"{v:.{MAP_DIGITS}g}") for v in layer] for layer in epoch]
            for epoch in snapshots.maps
        ],
    }
