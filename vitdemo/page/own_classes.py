"""The tab "Custom classes": a classifier for the user's own images, trained in seconds.

The images are deleted at the end of the session, or one hour after the last use. Only this user
sees the model in the tabs and can download it as a zip file. If the page allows training, the user
can also publish the model to all users.
"""

import functools
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
import numpy as np

from vitdemo import data, metrics
from vitdemo.context import AppContext
from vitdemo.custom_classes import (
    MAX_CUSTOM_CLASSES,
    MAX_CUSTOM_IMAGES,
    ImageCollection,
    LinearProbe,
    choose_test_images,
    export_image_folder,
    fit_linear_probe,
    write_probe_run,
)
from vitdemo.data.image_files import crop_visible_square
from vitdemo.errors import DataError, JobError, Stopped, VitdemoError
from vitdemo.jobs import JobQueue
from vitdemo.jobs.state import Job
from vitdemo.page.components.article import Document, DocumentBlock, Heading, Notice, Text
from vitdemo.page.components.own_classes import (
    CLASS_THUMBNAIL_SIDE,
    ClassEditor,
    ClassEditorPayload,
    make_class_thumbnails,
    parse_edit_action,
)
from vitdemo.page.components.pictures import ImageItem, ImageRow, concatenate_images
from vitdemo.page.components.run_choice import RunChoice, group_runs, update_run_choices
from vitdemo.page.components.table import Cell, Table
from vitdemo.page.kit import (
    LONG_QUEUE,
    NO_API,
    NO_PROGRESS,
    REFRESH_EVENT,
    SERIAL_QUEUE,
    Cancellation,
    add_download_button,
)
from vitdemo.page.training.here import check_training_allowed
from vitdemo.runs import CUSTOM_CLASSES_RECIPE, WEIGHTS_FILE
from vitdemo.training.recipes import get_recipe

CUSTOM_CLASSES_LIFETIME = 3600
RUN_NAME_PREFIX = "own-"
EXAMPLE_CLASSES, EXAMPLE_IMAGES_PER_CLASS = 3, 20
MAX_MISTAKES = 24
SMALL_SAMPLE_SIZE = 100  # The page shows a warning if there are fewer independent images.
CUSTOM_CLASSES_INTRO = (
    f"Train a classifier for 2 to {MAX_CUSTOM_CLASSES} classes of your own. Twenty images per "
    "class are "
    "enough to start. A trained Vision Transformer, the backbone, stays unchanged: only a new "
    "classifier is fitted on its features, in seconds. Your images and your model are deleted from "
    "this server when you leave or reload the page, or one hour after the last use. Other users "
    "cannot see them unless you publish the model or fine-tune the whole model."
)
BACKGROUND_TEST_HELP = (
    "A model can recognise the background instead of the object, if all images of a class share "
    "one background. **To test this,** open a photo of only the background in Explore. Compare the "
    "predicted class and the attention map with those for a photo of the object."
)
EMPTY_COLLECTION = ImageCollection()
MODEL_ADDED_MESSAGE = "'{name}' was added to the models in every tab. Only you can see it."
MODEL_PUBLISHED_MESSAGE = (
    "'{name}' was published: all users of this page now see it in every tab. To remove it, press "
    "'Unpublish' here, or 'Delete' in Training progress, under 'Train a model'."
)
RUN_QUEUED_MESSAGE = (
    "'{name}' is queued. All users of this page see this training run and its results in Training "
    "progress, under 'Train a model'. The run folder contains your images until the run is deleted "
    "there."
)
TRAINING_STOPPED_MESSAGE = "Training was stopped. No new classifier was saved."


@dataclass
class CustomClassesState:
    """State of one user: collected images, trained classifier and published model.

    `previous_collection` is the collection before the last change, `private_folder` the run folder
    that only this user sees, and `published_job` the published run. Handlers modify this object in
    place, so that a slow handler does not overwrite the changes of a later handler.
    """

    collection: ImageCollection = EMPTY_COLLECTION
    previous_collection: ImageCollection | None = None
    probe: LinearProbe | None = None
    private_folder: Path | None = None
    published_job: Job | None = None

    def delete_private_run(self) -> None:
        """Delete the run folder that only this user sees."""
        if self.private_folder:
            shutil.rmtree(self.private_folder, ignore_errors=True)


def build(tab: gr.Tab, context: AppContext, jobs: JobQueue | None = None) -> None:
    """Lay out the tab and connect its events; with `jobs`, users may publish a model."""
    gr.Markdown(CUSTOM_CLASSES_INTRO)
    kept = gr.State(
        CustomClassesState(),
        time_to_live=CUSTOM_CLASSES_LIFETIME,
        delete_callback=CustomClassesState.delete_private_run,
    )
    view = ClassEditor(elem_id="own-classes")
    with gr.Row():
        with gr.Column(min_width=260):
            runs = group_runs(list_backbones(context))
            model = RunChoice(runs, label="Backbone", elem_id="own-model")
        train = gr.Button("Train classifier", variant="primary", elem_id="own-train")
        stop = gr.Button("Stop", elem_id="own-stop", min_width=100)
    result = Document(elem_id="own-result")

    def save(folder, kept: CustomClassesState) -> str:
        name = make_run_name(require_probe(kept))
        with tempfile.TemporaryDirectory() as place:
            write_probe_run(context, require_probe(kept), Path(place) / name)
            return shutil.make_archive(str(folder / name), "zip", place)

    with gr.Row():
        add_download_button("Save the model (.zip)", "own-save", save, [kept], LONG_QUEUE)
        show = gr.Button("Publish to all users", size="sm", visible=jobs is not None)
        hide = gr.Button("Unpublish", size="sm", visible=jobs is not None)
        whole = gr.Button("Fine-tune the whole model", size="sm", visible=jobs is not None)
    told = Document(elem_id="own-told")

    def drawn(kept: CustomClassesState, words: str = "", problems=()) -> ClassEditorPayload:
        return ClassEditorPayload(
            kept.collection, words, tuple(problems), kept.previous_collection is not None
        )

    def ask(event: gr.EventData, kept: CustomClassesState) -> tuple:
        """Apply a browser request to the collection, and clear the old message."""
        try:
            problems = apply_edit_action(context, kept, event)
        except VitdemoError as error:
            return kept, drawn(kept, str(error)), []
        return kept, drawn(kept, describe_collection(kept.collection), problems), []

    def train_them(kept: CustomClassesState, name, progress=gr.Progress()):  # noqa: B008, required by gradio
        raise_if_stopped = stops.make_check()

        def report(share, words):
            raise_if_stopped()
            progress(share, desc=words)

        try:
            found = fit_linear_probe(
                context, context.find_run(name), kept.collection, report=report
            )
            kept.delete_private_run()
            own = context.private_root() / make_run_name(found)
            write_probe_run(context, found, own)
        except Stopped:
            return kept, gr.skip(), TRAINING_STOPPED_MESSAGE
        except VitdemoError as error:
            return kept, gr.skip(), str(error)
        kept.probe, kept.private_folder = found, own
        told = Text(MODEL_ADDED_MESSAGE.format(name=own.name), told=True)
        return kept, [*cross_validation_blocks(found), told], []

    def share(request: gr.Request, kept: CustomClassesState) -> tuple:
        check_training_allowed(jobs, request)
        found = require_probe(kept)
        before = kept.published_job
        kept.published_job = jobs.register_run(
            make_run_name(found), lambda folder: write_probe_run(context, found, folder), before
        )
        words = MODEL_PUBLISHED_MESSAGE.format(name=kept.published_job.name)
        if before and remove(before):
            words += f" It replaces '{before.name}'."
        return kept, words

    def remove(shown: Job) -> bool:
        """Delete a published run; return False if the user already deleted it in Train a model."""
        try:
            jobs.delete(shown.name, shown.record)
        except JobError:
            return False
        return True

    def train_whole(request: gr.Request, kept: CustomClassesState, name) -> tuple:
        check_training_allowed(jobs, request)
        base, collection = context.find_run(name), kept.collection
        # The job may start late, and the user's own run can be deleted before that.
        stays = (base.path / WEIGHTS_FILE).is_file() and base.path != kept.private_folder
        if base.spec != get_recipe(CUSTOM_CLASSES_RECIPE).model or not stays:
            raise JobError(
                "Only DeiT-Tiny models of a stored run can be fine-tuned here. Choose such a "
                f"backbone instead of '{base.name}'."
            )
        words = [CUSTOM_CLASSES_RECIPE, "--weights", str((base.path / WEIGHTS_FILE).resolve())]
        tested = choose_test_images(context, base, collection)
        job = jobs.start_on_images(
            CUSTOM_CLASSES_RECIPE,
            words,
            lambda folder: export_image_folder(collection, tested, folder),
        )
        return kept, RUN_QUEUED_MESSAGE.format(name=job.name)

    def take_back(kept: CustomClassesState) -> tuple:
        if not kept.published_job:
            raise JobError("You have not published a model. Press 'Publish to all users' first.")
        shown, kept.published_job = kept.published_job, None
        if not remove(shown):
            raise JobError(f"'{shown.name}' was already deleted in Training progress.")
        return kept, f"'{shown.name}' is no longer published."

    def renew(name):
        return update_run_choices(list_backbones(context), name)[0]

    stops = Cancellation()
    tab.select(renew, model, model, **REFRESH_EVENT)
    view.ask(ask, kept, [kept, view, told], trigger_mode="multiple", **NO_API, **SERIAL_QUEUE)
    stops.start_on_click(
        train, train_them, [kept, model], [kept, result, told], show_progress_on=result
    )
    stop.click(stops.stop, **REFRESH_EVENT)
    if jobs is not None:
        for button, work, asked in (
            (show, share, [kept]),
            (hide, take_back, [kept]),
            (whole, train_whole, [kept, model]),
        ):
            button.click(
                route_errors_to_output(work), asked, [kept, told], **NO_PROGRESS, **SERIAL_QUEUE
            )


def route_errors_to_output(handler: Callable[..., tuple]) -> Callable[..., tuple]:
    """Wrap a handler to show a `VitdemoError` in the second output; the first stays unchanged."""

    @functools.wraps(handler)
    def wrapped(*values):
        try:
            return handler(*values)
        except VitdemoError as error:
            return gr.skip(), str(error)

    return wrapped


def list_backbones(context: AppContext) -> list:
    """Return the runs of Vision Transformers, which can be a backbone, highest accuracy first."""
    return [run for run in context.explainable_runs() if run.spec.family in ("vit", "timm")]


def apply_edit_action(
    context: AppContext, state: CustomClassesState, event: gr.EventData
) -> list[str]:
    """Apply a browser request to the user's images; return a message per skipped image.

    Raises `VitdemoError` for a request that is invalid or cannot be carried out.
    """
    now = state.collection
    asked, problems = parse_edit_action(event, now), []
    if asked.action == "undo":
        if state.previous_collection is None:
            raise DataError("There is no step to undo.")
        state.collection, state.previous_collection = state.previous_collection, None
        return []
    if asked.action == "class":
        changed = now.with_class(asked.class_name)
    elif asked.action == "pictures":
        changed, problems = now.with_files(asked.class_index, asked.paths)
    elif asked.action == "folder":
        changed, problems = now.with_folders(zip(asked.paths, asked.folders, strict=True))
    elif asked.action == "zip":
        if not asked.paths:
            raise DataError("No file was sent. Choose a zip file.")
        changed, problems = now.with_zip(asked.paths[0])
    elif asked.action == "tests":
        changed = add_test_images(context, now)
    else:
        changed = now.without(asked.class_index, asked.image_index)
    state.collection, state.previous_collection = changed, now
    return problems


def add_test_images(context: AppContext, collection: ImageCollection) -> ImageCollection:
    """Add test images of the first `EXAMPLE_CLASSES` classes as example classes.

    Each class gets `EXAMPLE_IMAGES_PER_CLASS` images. Raises `DataError` without a dataset.
    """
    source = context.open_dataset()
    labels = source.load_labels("test").numpy()
    for c, name in enumerate(source.classes[:EXAMPLE_CLASSES]):
        if name.casefold() not in (each.name.casefold() for each in collection.classes):
            collection = collection.with_class(name)
        index = [each.name.casefold() for each in collection.classes].index(name.casefold())
        chosen = data.sample_stratified(
            np.zeros(int((labels == c).sum()), int), EXAMPLE_IMAGES_PER_CLASS
        )
        for i in np.flatnonzero(labels == c)[chosen]:
            try:
                picture = crop_visible_square(context.load_test_image(int(i)).image)
                collection = collection.with_image(index, picture, f"test image {i}")
            except DataError:  # The collection already contains this image.
                continue
    return collection


def require_probe(state: CustomClassesState) -> LinearProbe:
    """Return the user's trained classifier. Raises `DataError` if there is none."""
    if state.probe is None:
        raise DataError("No classifier has been trained yet. Press 'Train classifier' first.")
    return state.probe


def make_run_name(found: LinearProbe) -> str:
    """Make a folder name of the first class names, with only a to z, digits and hyphens."""
    words = [re.sub("[^a-z0-9]+", "", name.lower())[:12] for name in found.classes[:3]]
    return RUN_NAME_PREFIX + ("-".join(word for word in words if word) or "classes")


def describe_collection(collection: ImageCollection) -> str:
    """Describe the numbers of classes and images, "" without classes."""
    if not collection.classes:
        return ""
    many = len(collection.classes)
    noun = "class" if many == 1 else "classes"
    return f"{many} {noun}, {len(collection)} of at most {MAX_CUSTOM_IMAGES} images."


def cross_validation_blocks(found: LinearProbe) -> list[DocumentBlock]:
    """Return the results of cross-validation: accuracy, confusion matrix and errors."""
    clue = [Heading("Object or background?"), Text(BACKGROUND_TEST_HELP)]
    if not found.is_tested:
        return [Text(explain_untested(found), told=True), *clue]
    told = [Text(describe_cross_validation(found), told=True)]
    if found.effective_size < SMALL_SAMPLE_SIZE:
        told.append(Notice(describe_small_sample(found)))
    return [*told, *cross_validation_tables(found), *mistake_blocks(found), *clue]


def describe_cross_validation(found: LinearProbe) -> str:
    """Describe the cross-validated accuracy with confidence interval."""
    low, high = (100 * end for end in found.interval)
    return (
        f"The accuracy is **{100 * found.accuracy:.1f}%** on {len(found.labels)} images, "
        f"95% confidence interval {low:.0f} to {high:.0f}%. Each image was predicted by a model "
        f"that was fitted without it and without near-identical images ({found.folds}-fold "
        f"cross-validation). Fitted in {found.seconds:.1f} s on the features of {found.base.name}."
    )


def describe_small_sample(found: LinearProbe) -> str:
    """Return a warning about the small number of independent images."""
    count, low, high = found.num_groups, *(100 * end for end in found.interval)
    if count < len(found.labels):
        start = (
            f"The {len(found.labels)} images form only {count} groups of near-identical images, "
            "and each group counts as one image in the interval. "
        )
    else:
        start = f"There are only {count} images. "
    return (
        f"{start}The interval is {high - low:.0f} percentage points wide. It is valid for "
        "similar images, but not for other rooms, days or cameras. Photos of one burst are "
        "near-identical. Take each image from another angle, in another place or at another time."
    )


def explain_untested(found: LinearProbe) -> str:
    """Explain why no accuracy was measured, and how to measure one."""
    names = ", ".join(f"'{name}'" for name in found.single_group_classes())
    return (
        "**The accuracy was not measured.** All images are near-identical within the classes "
        f"{names}, so no independent image is left for testing. Add images from another angle, "
        f"place or time. The classifier was fitted on all {len(found.labels)} images in "
        f"{found.seconds:.1f} s, on the features of {found.base.name}."
    )


def cross_validation_tables(found: LinearProbe) -> list[DocumentBlock]:
    """Return the cross-validated confusion matrix and per-class metrics as tables."""
    classes = found.classes
    matrix = metrics.confusion_matrix(found.probabilities, found.labels)  # (C, C)
    each = metrics.compute_class_metrics(found.probabilities, found.labels)
    cells = [
        [name, *(Cell(str(count), strong=i == j) for j, count in enumerate(row))]
        for i, (name, row) in enumerate(zip(classes, matrix.tolist(), strict=True))
    ]
    shares = [
        [name, *(f"{100 * value:.1f}" for value in values), str(int(support))]
        for name, *values, support in zip(
            classes, each.precision, each.recall, each.f1, matrix.sum(1), strict=True
        )
    ]
    return [
        Heading("Confusion matrix"),
        Table(["true class \\ predicted class", *classes], cells, file="own-confusion"),
        Heading("Per-class metrics"),
        Table(
            ["class", "precision, %", "recall, %", "F1, %", "images"], shares, file="own-metrics"
        ),
    ]


def mistake_blocks(found: LinearProbe) -> list[DocumentBlock]:
    """Return the misclassified images, highest confidence first."""
    wrong = np.flatnonzero(found.predicted != found.labels)
    if not len(wrong):
        return [Text("All images were classified correctly.")]
    confidence = found.probabilities.max(1)
    shown = wrong[np.argsort(-confidence[wrong])][:MAX_MISTAKES]
    all_small = np.concatenate([make_class_thumbnails(own) for own in found.collection.classes])
    names = found.classes
    items = [
        ImageItem(
            f"{names[found.labels[i]]}, predicted as {names[found.predicted[i]]}",
            f"predicted {names[found.predicted[i]]}",
            f"{100 * confidence[i]:.0f}%; true class {names[found.labels[i]]}",
        )
        for i in shown
    ]
    title = f"{len(wrong)} misclassified image{'s' if len(wrong) > 1 else ''}"
    return [
        Heading(title),
        ImageRow(items, concatenate_images(all_small[shown]), width=2 * CLASS_THUMBNAIL_SIDE),
    ]
