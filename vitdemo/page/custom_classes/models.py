"""Available actions for the user's models, and the list of backbones.

The payload:

    {"missing": message about missing input for training, or "",
     "is_current": whether the classifier was trained on the current images, "can_save": bool,
     "can_save_images": bool, "can_publish": bool, "can_unpublish": bool, "can_fine_tune": bool,
     "refusal": reason why the backbone cannot be fine-tuned, or "", "notice": str,
     "tuned": {"text": str, "done": 0..1, "is_active": bool, "can_save": bool} or None}

`tuned` is the fine-tuned model that only this user sees.
"""

from collections.abc import Callable

from vitdemo.context import AppContext
from vitdemo.custom_classes import ImageCollection, check_collection
from vitdemo.errors import DataError
from vitdemo.jobs import JobQueue
from vitdemo.page import state_keys as keys
from vitdemo.page.components.run_choice import choose_run, describe_run_choices
from vitdemo.page.custom_classes.classifier import list_backbones, may_train
from vitdemo.page.custom_classes.fine_tuning import (
    describe_fine_tuned,
    explain_unsuitable_backbone,
    is_large_enough,
)
from vitdemo.page.custom_classes.session import CustomClassesSession
from vitdemo.page.feature import ViewData
from vitdemo.page.kit import NO_TRAINED_MODEL_MESSAGE
from vitdemo.page.view_state import ViewState, needs


def explain_missing(collection: ImageCollection, backbone: str) -> str:
    """Return a message about missing input for training a classifier; "" if it is complete."""
    if not backbone:
        return NO_TRAINED_MODEL_MESSAGE
    try:
        check_collection(collection)
    except DataError as error:
        return str(error)
    return ""


@needs(keys.BACKBONE)
def payload(
    find_session: Callable[[], CustomClassesSession],
    jobs: JobQueue | None,
    context: AppContext,
    state: ViewState,
) -> ViewData:
    """Return the available actions for the user's models, and the choices of backbones."""
    session, requested = find_session(), state[keys.BACKBONE]
    backbones = list_backbones(context)
    name = choose_run(backbones, requested)
    tuned = describe_fine_tuned(context, session)
    trains = may_train(jobs)
    is_ready = trains and is_large_enough(session.collection) and not (tuned and tuned["is_active"])
    data = {
        "missing": explain_missing(session.collection, name),
        "is_current": session.is_probe_current,
        "can_save": session.probe is not None,
        "can_save_images": len(session.collection) > 0,
        "can_publish": trains and session.probe is not session.published_probe,
        "can_unpublish": trains and session.published_job is not None,
        "can_fine_tune": is_ready,
        "refusal": explain_unsuitable_backbone(context, name) if is_ready and name else "",
        "notice": session.notice,
        "tuned": tuned,
    }
    return ViewData(data, {keys.BACKBONE.name: describe_run_choices(backbones, name, requested)})
