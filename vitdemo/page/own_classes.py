"""The tab "Custom classes": a classifier for the user's own images, trained in seconds.

The collected images belong to the session and are deleted with it, or one hour after the last use.
Only this user sees the model in the tabs and can download it as a zip. If the page allows training,
the user can also publish it to all users.
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
from vitdemo.errors import DataError, JobError, Stopped, VitdemoError
from vitdemo.inputs import visible_square
from vitdemo.jobs import Jobs
from vitdemo.jobs.state import Job
from vitdemo.own_classes import (
    MOST_CLASSES,
    MOST_PICTURES,
    Collection,
    Learnt,
    choose_test_images,
    lay_down,
    learn,
    write,
)
from vitdemo.page.components.article import Article, Heading, Notice, Piece, Text
from vitdemo.page.components.own_classes import SIDE, Drawn, OwnClasses, small, wish
from vitdemo.page.components.pictures import Item, Pictures, strip
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.components.table import Cell, Table
from vitdemo.page.kit import (
    HIDDEN,
    LONG_QUEUE,
    PRIVATE,
    QUIET,
    TURNS,
    Stops,
    offer_download,
)
from vitdemo.page.training.here import check_who
from vitdemo.recipes import get_recipe
from vitdemo.runs import OWN_CLASSES, WEIGHTS
from vitdemo.workbench import Workbench

KEPT_SECONDS = 3600
PREFIX = "own-"
EXAMPLE_CLASSES, EXAMPLE_PICTURES = 3, 20
MISTAKES = 24
FEW = 100  # The page shows a warning below this number of independent images.
INTRO = (
    f"Train a classifier for 2 to {MOST_CLASSES} classes of your own. Twenty images per class are "
    "enough to start. A trained Vision Transformer, the backbone, stays unchanged: only a new "
    "classifier is fitted on its features, in seconds. Your images and your model are deleted from "
    "this server when you leave or reload the page, or one hour after the last use. Other users "
    "cannot see them unless you publish the model or fine-tune the whole model."
)
CLUE = (
    "A model can recognise the background instead of the object, if all images of a class share "
    "one background. **To test this,** open a photo of only the background in Explore. Compare the "
    "predicted class and the attention map with those for a photo of the object."
)
EMPTY = Collection()
OWN = "'{name}' was added to the models in every tab. Only you can see it."
SHARED = (
    "'{name}' was published: all users of this page now see it in every tab. To remove it, press "
    "'Unpublish' here, or 'Delete' in Training progress, under 'Train a model'."
)
QUEUED = (
    "'{name}' is queued. All users of this page see this training run and its results in Training "
    "progress, under 'Train a model'. The run folder contains your images until the run is deleted "
    "there."
)
STOPPED = "Training was stopped. No new classifier was saved."


@dataclass
class Kept:
    """The state of one user: collection, trained classifier and published model.

    `before` is the collection before the last change, `own` the run folder that only this user
    sees, and `shared` the published run. Handlers modify this object in place. A handler that
    finishes late therefore does not overwrite changes made in the meantime.
    """

    collection: Collection = EMPTY
    before: Collection | None = None
    learnt: Learnt | None = None
    own: Path | None = None
    shared: Job | None = None

    def forget(self) -> None:
        """Delete the run folder that only this user sees."""
        if self.own:
            shutil.rmtree(self.own, ignore_errors=True)


def build(tab: gr.Tab, workbench: Workbench, jobs: Jobs | None = None) -> None:
    """Create the tab and connect its events; with `jobs`, a user may publish a model."""
    gr.Markdown(INTRO)
    kept = gr.State(Kept(), time_to_live=KEPT_SECONDS, delete_callback=Kept.forget)
    view = OwnClasses(elem_id="own-classes")
    with gr.Row():
        with gr.Column(min_width=260):
            runs = grouped(transformers(workbench))
            model = RunChoice(runs, label="Backbone", elem_id="own-model")
        train = gr.Button("Train classifier", variant="primary", elem_id="own-train")
        stop = gr.Button("Stop", elem_id="own-stop", min_width=100)
    result = Article(elem_id="own-result")

    def save(folder, kept: Kept) -> str:
        name = run_name(needed(kept))
        with tempfile.TemporaryDirectory() as place:
            write(workbench, needed(kept), Path(place) / name)
            return shutil.make_archive(str(folder / name), "zip", place)

    with gr.Row():
        offer_download("Save the model (.zip)", "own-save", save, [kept], LONG_QUEUE)
        show = gr.Button("Publish to all users", size="sm", visible=jobs is not None)
        hide = gr.Button("Unpublish", size="sm", visible=jobs is not None)
        whole = gr.Button("Fine-tune the whole model", size="sm", visible=jobs is not None)
    told = Article(elem_id="own-told")

    def drawn(kept: Kept, words: str = "", problems=()) -> Drawn:
        return Drawn(kept.collection, words, tuple(problems), kept.before is not None)

    def ask(event: gr.EventData, kept: Kept) -> tuple:
        """Change the collection, and clear the message about the previous one."""
        try:
            problems = follow(workbench, kept, event)
        except VitdemoError as error:
            return kept, drawn(kept, str(error)), []
        return kept, drawn(kept, summary(kept.collection), problems), []

    def train_them(kept: Kept, name, progress=gr.Progress()):  # noqa: B008, required by gradio
        raise_if_stopped = stops.watch()

        def report(share, words):
            raise_if_stopped()
            progress(share, desc=words)

        try:
            found = learn(workbench, workbench.run(name), kept.collection, report=report)
            kept.forget()
            own = workbench.own_root() / run_name(found)
            write(workbench, found, own)
        except Stopped:
            return kept, gr.skip(), STOPPED
        except VitdemoError as error:
            return kept, gr.skip(), str(error)
        kept.learnt, kept.own = found, own
        told = Text(OWN.format(name=own.name), told=True)
        return kept, [*pieces(found), told], []

    def share(request: gr.Request, kept: Kept) -> tuple:
        check_who(jobs, request)
        found = needed(kept)
        before = kept.shared
        kept.shared = jobs.keep(
            run_name(found), lambda folder: write(workbench, found, folder), before
        )
        words = SHARED.format(name=kept.shared.name)
        if before and remove(before):
            words += f" It replaces '{before.name}'."
        return kept, words

    def remove(shown: Job) -> bool:
        """Delete a published run; return False if it was already deleted in Train a model."""
        try:
            jobs.discard(shown.name, shown.asked)
        except JobError:
            return False
        return True

    def train_whole(request: gr.Request, kept: Kept, name) -> tuple:
        check_who(jobs, request)
        base, collection = workbench.run(name), kept.collection
        # The job may start late, and the user's own run can be deleted before that.
        stays = (base.path / WEIGHTS).is_file() and base.path != kept.own
        if base.spec != get_recipe(OWN_CLASSES).model or not stays:
            raise JobError(
                "Only DeiT-Tiny models of a stored run can be fine-tuned here. Choose such a "
                f"backbone instead of '{base.name}'."
            )
        words = [OWN_CLASSES, "--weights", str((base.path / WEIGHTS).resolve())]
        tested = choose_test_images(workbench, base, collection)
        job = jobs.start_on(OWN_CLASSES, words, lambda folder: lay_down(collection, tested, folder))
        return kept, QUEUED.format(name=job.name)

    def take_back(kept: Kept) -> tuple:
        if not kept.shared:
            raise JobError("You have not published a model. Press 'Publish to all users' first.")
        shown, kept.shared = kept.shared, None
        if not remove(shown):
            raise JobError(f"'{shown.name}' was already deleted in Training progress.")
        return kept, f"'{shown.name}' is no longer published."

    def renew(name):
        return renewed_runs(transformers(workbench), name)[0]

    stops = Stops()
    tab.select(renew, model, model, **QUIET)
    view.ask(ask, kept, [kept, view, told], trigger_mode="multiple", **PRIVATE, **TURNS)
    stops.button(train, train_them, [kept, model], [kept, result, told], show_progress_on=result)
    stop.click(stops.stop, **QUIET)
    if jobs is not None:
        for button, work, asked in (
            (show, share, [kept]),
            (hide, take_back, [kept]),
            (whole, train_whole, [kept, model]),
        ):
            button.click(told_in_place(work), asked, [kept, told], **HIDDEN, **TURNS)


def told_in_place(handler: Callable[..., tuple]) -> Callable[..., tuple]:
    """Wrap a handler to show a `VitdemoError` in its second output and leave the first one."""

    @functools.wraps(handler)
    def wrapped(*values):
        try:
            return handler(*values)
        except VitdemoError as error:
            return gr.skip(), str(error)

    return wrapped


def transformers(workbench: Workbench) -> list:
    """Return the Vision Transformers that can be a backbone, highest accuracy first."""
    return [run for run in workbench.explained_runs() if run.spec.family in ("vit", "timm")]


def follow(workbench: Workbench, kept: Kept, event: gr.EventData) -> list[str]:
    """Apply a browser request to the collection; return a message for each skipped image.

    Raises `VitdemoError` if the request cannot be carried out.
    """
    now = kept.collection
    asked, problems = wish(event, now), []
    if asked.what == "undo":
        if kept.before is None:
            raise DataError("There is no step to undo.")
        kept.collection, kept.before = kept.before, None
        return []
    if asked.what == "class":
        changed = now.with_class(asked.name)
    elif asked.what == "pictures":
        changed, problems = now.with_files(asked.index, asked.paths)
    elif asked.what == "folder":
        changed, problems = now.with_folders(zip(asked.paths, asked.names, strict=True))
    elif asked.what == "zip":
        if not asked.paths:
            raise DataError("No file was sent. Choose a zip file.")
        changed, problems = now.with_zip(asked.paths[0])
    elif asked.what == "tests":
        changed = from_tests(workbench, now)
    else:
        changed = now.without(asked.index, asked.picture)
    kept.collection, kept.before = changed, now
    return problems


def from_tests(workbench: Workbench, collection: Collection) -> Collection:
    """Add test images of the first classes as an example.

    There are `EXAMPLE_PICTURES` images for each of `EXAMPLE_CLASSES` classes. Raises `DataError` if
    there is no dataset.
    """
    source = workbench.source()
    labels = source.labels("test").numpy()
    for c, name in enumerate(source.classes[:EXAMPLE_CLASSES]):
        if name.casefold() not in (each.name.casefold() for each in collection.classes):
            collection = collection.with_class(name)
        index = [each.name.casefold() for each in collection.classes].index(name.casefold())
        chosen = data.stratified(np.zeros(int((labels == c).sum()), int), EXAMPLE_PICTURES)
        for i in np.flatnonzero(labels == c)[chosen]:
            try:
                picture = visible_square(workbench.test_picture(int(i)).image)
                collection = collection.with_picture(index, picture, f"test image {i}")
            except DataError:  # The collection already contains this image.
                continue
    return collection


def needed(kept: Kept) -> Learnt:
    """Return the trained classifier. Raises `DataError` if there is none."""
    if kept.learnt is None:
        raise DataError("No classifier has been trained yet. Press 'Train classifier' first.")
    return kept.learnt


def run_name(found: Learnt) -> str:
    """Return a folder name from the first class names, with only a to z, digits and hyphens."""
    words = [re.sub("[^a-z0-9]+", "", name.lower())[:12] for name in found.classes[:3]]
    return PREFIX + ("-".join(word for word in words if word) or "classes")


def summary(collection: Collection) -> str:
    """Return the numbers of classes and images in words; "" without classes."""
    if not collection.classes:
        return ""
    many = len(collection.classes)
    noun = "class" if many == 1 else "classes"
    return f"{many} {noun}, {len(collection)} of at most {MOST_PICTURES} images."


def pieces(found: Learnt) -> list[Piece]:
    """Return the results of cross-validation: accuracy, confusion matrix and errors."""
    clue = [Heading("Object or background?"), Text(CLUE)]
    if not found.is_tested:
        return [Text(untested_words(found), told=True), *clue]
    told = [Text(accuracy_words(found), told=True)]
    if found.effective_size < FEW:
        told.append(Notice(few_words(found)))
    return [*told, *tables(found), *mistakes(found), *clue]


def accuracy_words(found: Learnt) -> str:
    """Return the cross-validated accuracy and its confidence interval as text."""
    low, high = (100 * end for end in found.interval)
    return (
        f"The accuracy is **{100 * found.accuracy:.1f}%** on {len(found.labels)} images, "
        f"95% confidence interval {low:.0f} to {high:.0f}%. Each image was predicted by a model "
        f"that was fitted without it and without near-identical images ({found.folds}-fold "
        f"cross-validation). Fitted in {found.seconds:.1f} s on the features of {found.base.name}."
    )


def few_words(found: Learnt) -> str:
    """Return a warning about the small number of independent images."""
    count, low, high = found.group_count, *(100 * end for end in found.interval)
    if count < len(found.labels):
        start = (
            f"The {len(found.labels)} images form only {count} groups of near-identical images, "
            "and each group counts as one image in the interval. "
        )
    else:
        start = f"There are only {count} images. "
    return (
        f"{start}The interval is {high - low:.0f} percentage points wide. It is valid for "
        "similar images, but not for other rooms, days or cameras. Frames of one burst are "
        "near-identical. Take each image from another angle, in another place or at another time."
    )


def untested_words(found: Learnt) -> str:
    """Explain why no accuracy was measured, and how to measure one."""
    names = ", ".join(f"'{name}'" for name in found.single_group_classes())
    return (
        "**The accuracy was not measured.** All images are near-identical within the classes "
        f"{names}, so no independent image is left for testing. Add images from another angle, "
        f"place or time. The classifier was fitted on all {len(found.labels)} images in "
        f"{found.seconds:.1f} s, on the features of {found.base.name}."
    )


def tables(found: Learnt) -> list[Piece]:
    """Return the confusion matrix and the per-class metrics."""
    classes = found.classes
    matrix = metrics.confusion(found.probabilities, found.labels)  # (C, C)
    each = metrics.per_class(found.probabilities, found.labels)
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


def mistakes(found: Learnt) -> list[Piece]:
    """Return the misclassified images, highest confidence first."""
    wrong = np.flatnonzero(found.predicted != found.labels)
    if not len(wrong):
        return [Text("All images were classified correctly.")]
    confidence = found.probabilities.max(1)
    shown = wrong[np.argsort(-confidence[wrong])][:MISTAKES]
    all_small = np.concatenate([small(own) for own in found.collection.classes])
    names = found.classes
    items = [
        Item(
            f"{names[found.labels[i]]}, predicted as {names[found.predicted[i]]}",
            f"predicted {names[found.predicted[i]]}",
            f"{100 * confidence[i]:.0f}%; true class {names[found.labels[i]]}",
        )
        for i in shown
    ]
    title = f"{len(wrong)} misclassified image{'s' if len(wrong) > 1 else ''}"
    return [Heading(title), Pictures(items, strip(all_small[shown]), width=2 * SIDE)]
