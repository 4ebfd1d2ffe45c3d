"""The classifier of custom classes: train, save, publish and unpublish it."""

import re

from vitdemo.context import AppContext
from vitdemo.custom_classes import LinearProbe, ReportProgress, fit_linear_probe, write_probe_run
from vitdemo.errors import JobError, RunError
from vitdemo.installation import APP_NAME
from vitdemo.jobs import JobQueue
from vitdemo.jobs.state import Job
from vitdemo.models import get_family
from vitdemo.page import state_keys as keys
from vitdemo.page.components.run_choice import choose_run
from vitdemo.page.custom_classes.packing import pack_folder
from vitdemo.page.custom_classes.session import MODELS_VIEW, CustomClassesSession
from vitdemo.page.feature import Report
from vitdemo.page.gradio_patches import current_request
from vitdemo.page.kit import check_training_allowed
from vitdemo.page.view_state import ViewState
from vitdemo.runs import Run

NO_BACKBONE_MESSAGE = (
    "There is no Vision Transformer to start from. Add one in Explore, under 'More models'."
)
MODEL_PUBLISHED_MESSAGE = (
    "'{name}' was published: all users of this page now see it in every tab. To remove the model, "
    "press 'Unpublish' here, or 'Delete' in the tab Train, under 'Runs started on this page'."
)
MODEL_REPLACED_MESSAGE = " The previously published model '{name}' was deleted."
MODEL_UNPUBLISHED_MESSAGE = "'{name}' is no longer published."
ALREADY_DELETED_MESSAGE = "'{name}' was already deleted in the tab Train."
NOT_PUBLISHED_MESSAGE = "You have not published a model. Press 'Publish to all users' first."
NO_TRAINING_MESSAGE = (
    f"Training from this page is disabled. Start {APP_NAME} with --allow-training."
)
RUN_NAME_PREFIX = "own-"


def train(
    context: AppContext, state: ViewState, report: Report, session: CustomClassesSession
) -> None:
    """Train the classifier. If it raises `VitdemoError`, the previous classifier is kept."""
    backbone = find_backbone(context, state)
    found = fit_linear_probe(
        context, backbone, session.collection, report=report_fraction(report, 1)
    )
    session.delete_classifier()
    folder = context.sessions.make_folder() / make_run_name(found)
    write_probe_run(context, found, folder)
    session.probe, session.probe_folder, session.notice = found, folder, ""
    session.prediction = None


def save(
    context: AppContext, state: ViewState, report: Report, session: CustomClassesSession
) -> dict:
    """Return the classifier's run folder as a zip file. Raises `DataError` if none is trained."""
    probe = session.require_probe()
    return pack_folder(make_run_name(probe), lambda folder: write_probe_run(context, probe, folder))


def make_run_name(probe: LinearProbe) -> str:
    """Make a folder name from the first class names, with only a to z, digits and hyphens."""
    words = [re.sub("[^a-z0-9]+", "", name.lower())[:12] for name in probe.classes[:3]]
    return RUN_NAME_PREFIX + ("-".join(word for word in words if word) or "classes")


def publish(context: AppContext, session: CustomClassesSession, jobs: JobQueue | None) -> list[str]:
    """Publish the classifier to all users; an earlier published classifier is replaced."""
    found, before = session.require_probe(), session.published_job
    jobs = require_training(jobs)
    session.published_job = jobs.register_run(
        make_run_name(found), lambda folder: write_probe_run(context, found, folder), before
    )
    session.published_probe = found
    session.notice = MODEL_PUBLISHED_MESSAGE.format(name=session.published_job.name)
    if before and delete_published(jobs, before):
        session.notice += MODEL_REPLACED_MESSAGE.format(name=before.name)
    return [MODELS_VIEW]


def unpublish(session: CustomClassesSession, jobs: JobQueue | None) -> list[str]:
    """Delete the published classifier. Raises `JobError` if no classifier is published."""
    jobs, published = require_training(jobs), session.published_job
    if published is None:
        raise JobError(NOT_PUBLISHED_MESSAGE)
    session.published_job = session.published_probe = None
    is_deleted = delete_published(jobs, published)
    message = MODEL_UNPUBLISHED_MESSAGE if is_deleted else ALREADY_DELETED_MESSAGE
    session.notice = message.format(name=published.name)
    return [MODELS_VIEW]


def delete_published(jobs: JobQueue, published: Job) -> bool:
    """Delete a published run; return False if a user already deleted it in the tab Train."""
    try:
        jobs.delete(published.name, published.record)
    except JobError:
        return False
    return True


def list_backbones(context: AppContext) -> list[Run]:
    """Return the runs that can be a backbone (Vision Transformers), highest accuracy first."""
    return [run for run in context.explainable_runs() if get_family(run.spec).has_attention]


def find_backbone(context: AppContext, state: ViewState) -> Run:
    """Return the chosen backbone. Raises `RunError` if there is none."""
    name = choose_run(list_backbones(context), state[keys.BACKBONE])
    if not name:
        raise RunError(NO_BACKBONE_MESSAGE)
    return context.find_run(name)


def may_train(jobs: JobQueue | None) -> bool:
    try:
        require_training(jobs)
    except JobError:
        return False
    return True


def require_training(jobs: JobQueue | None) -> JobQueue:
    """Return `jobs`. Raises `JobError` if the current user may not start training runs."""
    if jobs is None:
        raise JobError(NO_TRAINING_MESSAGE)
    check_training_allowed(jobs, current_request())
    return jobs


def report_fraction(report: Report, parts: int) -> ReportProgress:
    """Return a callback that reports `parts` times the fraction in percent, at most 100."""
    return lambda fraction, text: report(min(round(100 * parts * fraction), 100), 100, text)
