"""The user's own test sets: menu of the Results tab, upload, evaluation, and both accuracies.

The payload of the view is

    {"name": the chosen test set or "", "summary": str, "pending": number of models to evaluate,
     "comparison": blocks, "problems": [str, ...], "is_local": bool, "system": [str, ...]}

`system` lists names of system files, which the browser does not upload. A test set belongs to its
user. On a local page, test sets belong to all users and remain until the page ends. The view state
contains the name of the chosen test set.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.custom_classes import MAX_CUSTOM_NAME_LENGTH, ImageCollection
from vitdemo.data.image_folders import SYSTEM_NAMES, format_some_names
from vitdemo.errors import DataError, RunError
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, document_payload
from vitdemo.page.components import are_uploads
from vitdemo.page.components.run_choice import RunChoice, describe_menu
from vitdemo.page.feature import Feature, PageSetup, Payload, Report, ViewData
from vitdemo.page.gradio_patches import session_value
from vitdemo.page.view_state import ViewState, needs
from vitdemo.report.comparison import test_set_blocks
from vitdemo.test_sets.context import TestSetContext, find_test_set
from vitdemo.test_sets.evaluation import (
    compare_test_sets,
    describe_independence,
    evaluate_models,
    list_pending_runs,
    list_testable_runs,
    make_test_set,
)
from vitdemo.test_sets.user_test_set import UserTestSet

VIEW = "test_set"
ADD, REMOVE, EVALUATE = "tests.add", "tests.remove", "tests.evaluate"
MAX_CLASSES, MAX_IMAGES = 100, 1000
MAX_TEST_SETS = 10  # maximum number per user
SESSION_LIFETIME = 3600  # seconds from the last use to the deletion
ORIGINAL_LABEL = "original test set"
NOT_EVALUATED_MESSAGE = (
    "No model has been evaluated on '{name}' yet. The results appear here after the evaluation."
)
NO_TEST_SET_WARNING = "There is no test set '{name}', so the original test set is shown."
DEFAULT_NAME = "My test set"


@dataclass
class TestSetSession:
    """Test sets of one user by id, and messages about the last upload."""

    __test__ = False  # pytest must not collect this class

    ids: list[str] = field(default_factory=list)
    problems: tuple[str, ...] = ()
    added: str = ""  # name of a test set that is chosen in the next payload
    removed: str = ""  # name of the last removed test set, which may still be in the view state


def build(setup: PageSetup) -> Feature:
    """Lay out the view and the menu of test sets, and add the menu to `controls`.

    On a page bound to localhost, each test set belongs to all users.
    """
    setup.controls.add(keys.TEST_SET, RunChoice, [], nobody=ORIGINAL_LABEL)

    def discard(session: TestSetSession) -> None:
        for test_set_id in session.ids:
            setup.context.test_sets.discard(test_set_id)

    session = gr.State(
        TestSetSession(),
        time_to_live=SESSION_LIFETIME,
        delete_callback=None if setup.local_only else discard,
    )
    add_view(VIEW, elem_id="test-set")
    return make_feature(lambda: session_value(session), for_all=setup.local_only)


def make_feature(session: Callable[[], TestSetSession], *, for_all: bool) -> Feature:
    """Return the functions of the view; `session` returns the value of the current user."""
    return Feature(
        payloads={VIEW: partial(payload, session, for_all)},
        tasks={EVALUATE: evaluate},
        actions={
            ADD: lambda context, state, fields: add(context, state, session(), fields, for_all),
            REMOVE: lambda context, state, fields: remove(context, state, session()),
        },
    )


def choose_context(context: AppContext, state: ViewState) -> AppContext:
    """Return the context of the chosen test set.

    Raises `RunError` if no model was evaluated on the test set, or if it no longer exists.
    """
    name = state[keys.TEST_SET]
    if not name:
        return context
    found = TestSetContext(context, find_test_set(context, name))
    if not found.evaluated_runs():
        raise RunError(NOT_EVALUATED_MESSAGE.format(name=name))
    return found


def on_chosen_test_set(feature: Feature) -> Feature:
    """Return `feature` with payloads for the context of the chosen test set."""
    payloads = {name: _on_chosen_test_set(each) for name, each in feature.payloads.items()}
    return replace(feature, payloads=payloads)


def _on_chosen_test_set(payload: Payload) -> Payload:

    @functools.wraps(payload)
    def compute(context: AppContext, state: ViewState) -> object:
        return payload(choose_context(context, state), state)

    return compute


@needs(keys.TEST_SET)
def payload(
    find_session: Callable[[], TestSetSession],
    for_all: bool,
    context: AppContext,
    state: ViewState,
) -> ViewData:
    """Return the chosen test set, and the menu of test sets; see the module docstring."""
    session = find_session()
    names = [tests.name for tests in context.test_sets.list()]
    wanted, session.added = session.added or state[keys.TEST_SET], ""
    name = wanted if wanted in names else ""
    tests = find_test_set(context, name) if name else None
    data = {
        "name": name,
        "summary": describe_test_set(tests) if tests else "",
        "pending": len(list_pending_runs(context, tests)) if tests else 0,
        "comparison": document_payload(test_set_blocks(compare_test_sets(context, tests), name))
        if tests
        else [],
        "problems": [*session.problems, *(describe_independence(tests) if tests else [])],
        "is_local": for_all,
        "system": sorted(SYSTEM_NAMES),
    }
    groups = [("Your test sets", names)] if names else []
    requested = "" if wanted == session.removed else wanted
    return ViewData(
        data, {keys.TEST_SET.name: describe_menu(groups, name, requested, NO_TEST_SET_WARNING)}
    )


def describe_test_set(tests: UserTestSet) -> str:
    """Describe the images of a test set: "48 images of 3 classes: cat, dog, frog."."""
    classes = tests.tested_classes
    images = "1 image" if len(tests) == 1 else f"{len(tests)} images"
    noun = "class" if len(classes) == 1 else "classes"
    return f"{images} of {len(classes)} {noun}: {format_some_names(classes)}."


def add(
    context: AppContext,
    state: ViewState,
    session: TestSetSession,
    fields: Mapping[str, object],
    for_all: bool,
) -> list[str]:
    """Add a test set from an upload. An action of the bridge. Raises `DataError`."""
    paths, folders = fields.get("paths"), fields.get("folders")
    if len(context.test_sets.list()) >= MAX_TEST_SETS:
        raise DataError(f"The limit is {MAX_TEST_SETS} test sets. Remove one first.")
    if not _is_text_list(paths) or not paths or not are_uploads(paths):
        raise DataError("The uploaded files were already deleted. Add them again.")
    collection = ImageCollection(max_classes=MAX_CLASSES, max_images=MAX_IMAGES)
    if folders is None:
        collection, problems = collection.with_zip(paths[0])
    elif _is_text_list(folders) and len(folders) == len(paths):
        collection, problems = collection.with_folders(zip(paths, folders, strict=True))
    else:
        raise DataError("The number of folders differs from the number of files. Add them again.")
    if not len(collection):
        raise DataError(" ".join(problems))
    tests = make_test_set(
        context,
        choose_name(fields.get("name"), [each.name for each in context.test_sets.list()]),
        [each.name for each in collection.classes],
        collection.list_squares(),
        collection.class_indices(),
        state.model,
    )
    context.test_sets.add(tests, for_all=for_all)
    session.ids.append(tests.id)
    session.problems, session.added = tuple(problems), tests.name
    return [VIEW]


def _is_text_list(value: object) -> bool:
    is_list = isinstance(value, list) and len(value) <= MAX_IMAGES
    return is_list and all(isinstance(each, str) for each in value)


def choose_name(wanted: object, used: Sequence[str]) -> str:
    """Return the wanted or a default name, with a number if the name is already used."""
    name = " ".join(wanted.split())[:MAX_CUSTOM_NAME_LENGTH] if isinstance(wanted, str) else ""
    name = name if name.isprintable() and name else DEFAULT_NAME
    numbered = (name if n == 1 else f"{name} ({n})" for n in range(1, MAX_TEST_SETS + 2))
    return next(each for each in numbered if each not in used)


def remove(context: AppContext, state: ViewState, session: TestSetSession) -> list[str]:
    """Remove the chosen test set. An action of the bridge. Raises `RunError`."""
    tests = find_test_set(context, state[keys.TEST_SET])
    context.test_sets.discard(tests.id)
    session.problems, session.removed = (), tests.name
    return [VIEW]


def evaluate(context: AppContext, state: ViewState, report: Report) -> None:
    """Evaluate all models that have the classes of the chosen test set. A task of the bridge.

    Raises `RunError` if the test set no longer exists or a model fails, and `Stopped` after a
    cancellation.
    """
    tests = find_test_set(context, state[keys.TEST_SET])
    if not list_testable_runs(context, tests):
        raise RunError(
            f"There is no longer a model with the classes of '{tests.name}'. Choose another test "
            "set."
        )
    with closing(evaluate_models(context, tests)) as steps:
        for step in steps:
            report(step.done, step.total, step.text)
