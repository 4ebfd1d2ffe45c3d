"""Fine-tuning of the whole model on the images of custom classes, as a training run.

The state key `AUDIENCE` ("me" or "all") sets the visibility of the run. The key is not part of the
URL.
"""

import shutil
from pathlib import Path

from vitdemo.context import AppContext, read_test_accuracy
from vitdemo.custom_classes import (
    ImageCollection,
    check_for_fine_tuning,
    choose_test_images,
    export_image_folder,
)
from vitdemo.errors import DataError, JobError
from vitdemo.jobs import JobQueue
from vitdemo.jobs.state import FAILED, QUEUED, TRAINING, Job, read_job_state
from vitdemo.page import state_keys as keys
from vitdemo.page.custom_classes.classifier import (
    find_backbone,
    report_fraction,
    require_training,
)
from vitdemo.page.custom_classes.packing import pack_folder
from vitdemo.page.custom_classes.session import MODELS_VIEW, CustomClassesSession
from vitdemo.page.feature import Report
from vitdemo.page.view_state import ViewState
from vitdemo.runs import (
    CUSTOM_CLASSES_RECIPE,
    EVALUATION_FILE,
    HISTORY_FILE,
    REFERENCE,
    WEIGHTS_FILE,
    Run,
    read_config,
    write_config,
)
from vitdemo.training.recipes import get_recipe

RUN_QUEUED_MESSAGE = (
    "'{name}' is queued. All users of this page see this training run and its results in the tab "
    "Train. The run folder contains your images until the run is deleted there."
)
UNSUITABLE_BACKBONE_MESSAGE = (
    "Only DeiT-Tiny models with weights in a run folder can be fine-tuned here. Choose such a "
    "backbone instead of '{name}'."
)
STILL_TUNING_MESSAGE = "A model is being fine-tuned. Wait until the fine-tuning ends, or cancel it."
WRITING_IMAGES_TEXT = "Writing the images"
TUNED_MESSAGE = (
    "'{name}' was fine-tuned{accuracy}. The model was added to every tab, but only you can see it."
)
TUNING_FAILED_MESSAGE = "The fine-tuning failed. {reason}"
NO_TUNED_MESSAGE = "There is no fine-tuned model. Fine-tune a model for yourself first."
SAVED_FILES = (WEIGHTS_FILE, HISTORY_FILE, EVALUATION_FILE, REFERENCE)  # and config.json
SERVER_FIELDS = ("command",)  # fields of the configuration with paths of the server
STATE_TEXTS = {QUEUED: "waiting for other training runs", TRAINING: "epoch {epoch} of {epochs}"}


def is_large_enough(collection: ImageCollection) -> bool:
    try:
        check_for_fine_tuning(collection)
    except DataError:
        return False
    return True


def explain_unsuitable_backbone(context: AppContext, name: str) -> str:
    """Return the reason why a run cannot be fine-tuned, or "" if fine-tuning is possible.

    Private runs are unsuitable, because they can be deleted before the job starts.
    """
    run = context.find_run(name)
    is_stored = (run.path / WEIGHTS_FILE).is_file() and not is_private(context, run)
    if is_stored and run.spec == get_recipe(CUSTOM_CLASSES_RECIPE).model:
        return ""
    return UNSUITABLE_BACKBONE_MESSAGE.format(name=name)


def is_private(context: AppContext, run: Run) -> bool:
    return run.path.resolve().parent not in [root.resolve() for root in context.roots]


def fine_tune(
    context: AppContext,
    state: ViewState,
    report: Report,
    session: CustomClassesSession,
    jobs: JobQueue | None,
) -> None:
    """Queue the training of the whole model on the user's images. Raises `VitdemoError`.

    Only this user sees the run, unless `AUDIENCE` is `FOR_EVERYONE`.
    """
    jobs, backbone = require_training(jobs), find_backbone(context, state)
    if reason := explain_unsuitable_backbone(context, backbone.name):
        raise JobError(reason)
    if (before := read_fine_tuned(session)) and before.is_unfinished:
        raise JobError(STILL_TUNING_MESSAGE)
    collection, step = session.collection, report_fraction(report, 2)
    tested = choose_test_images(context, backbone, collection, report=step)
    report(99, 100, WRITING_IMAGES_TEXT)
    is_public = state[keys.AUDIENCE] == keys.FOR_EVERYONE
    job = jobs.start_on_images(
        get_recipe(CUSTOM_CLASSES_RECIPE),
        backbone.path / WEIGHTS_FILE,
        lambda folder: export_image_folder(collection, tested, folder),
        None if is_public else context.sessions.make_folder(),
    )
    session.notice = RUN_QUEUED_MESSAGE.format(name=job.name) if is_public else ""
    if not is_public:
        session.delete_fine_tuned(jobs)
        session.tuned_folder = job.path


def discard_fine_tuned(session: CustomClassesSession, jobs: JobQueue | None) -> list[str]:
    """Cancel the private fine-tuning, or delete the fine-tuned model. An action of the bridge."""
    session.delete_fine_tuned(jobs)
    session.notice = ""
    return [MODELS_VIEW]


def save(session: CustomClassesSession) -> dict:
    """Return the run folder of the private fine-tuned model as a zip file. A task of the bridge.

    Only the files of the results are packed: neither the images nor the command, which contains
    paths of the server. Raises `JobError` if there is no fine-tuned model.
    """
    folder = session.tuned_folder
    if folder is None or not is_finished(read_fine_tuned(session)):
        raise JobError(NO_TUNED_MESSAGE)

    def copy_run(place: Path) -> None:
        place.mkdir()
        for name in SAVED_FILES:
            if (folder / name).is_file():
                shutil.copy(folder / name, place)
        write_config(place, remove_server_fields(read_config(folder)))

    return pack_folder(folder.name, copy_run)


def remove_server_fields(config: dict) -> dict:
    """Remove `SERVER_FIELDS` from a configuration and from the configurations nested in it."""
    return {
        name: remove_server_fields(value) if isinstance(value, dict) else value
        for name, value in config.items()
        if name not in SERVER_FIELDS
    }


def is_finished(job: Job | None) -> bool:
    """Return whether the fine-tuning of `job` ended with a model."""
    is_over = job is not None and not job.is_unfinished and job.state != FAILED
    return is_over and (job.path / WEIGHTS_FILE).is_file()


def read_fine_tuned(session: CustomClassesSession) -> Job | None:
    return read_job_state(session.tuned_folder) if session.tuned_folder else None


def describe_fine_tuned(context: AppContext, session: CustomClassesSession) -> dict | None:
    """Return progress or result of the private fine-tuning; see the module `models`."""
    job = read_fine_tuned(session)
    if job is None:
        return None
    if job.is_unfinished:
        text = STATE_TEXTS.get(job.state, job.state)
        text = text.format(epoch=min(job.epoch + 1, job.epochs), epochs=job.epochs)
    elif job.state == FAILED:
        text = TUNING_FAILED_MESSAGE.format(reason=job.message)
    else:
        text = describe_result(context, job)
    return {
        "text": text,
        "done": job.done,
        "is_active": job.is_unfinished,
        "can_save": is_finished(job),
    }


def describe_result(context: AppContext, job: Job) -> str:
    """Describe the fine-tuned model under the name that the user sees in every tab."""
    found = [run for run in context.list_runs()[0] if run.path == job.path]
    accuracy = read_test_accuracy(found[0]) if found else None
    words = "" if accuracy is None else f", with {100 * accuracy:.1f}% test accuracy"
    return TUNED_MESSAGE.format(name=found[0].name if found else job.name, accuracy=words)
