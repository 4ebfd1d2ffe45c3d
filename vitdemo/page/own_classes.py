"""The tab "Your classes": pictures of a person's own, and a model of them in seconds.

What a person collects lives in their session and goes with it, an hour after the last touch. The
model is theirs too: it is in every tab for them alone, a zip file, and, on request and where the
page may write runs, in every tab for everyone who opens the page.
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
FEW = 100  # independent images; below, the page warns
INTRO = (
    f"Teach a model classes of your own: 2 to {MOST_CLASSES} of them, twenty pictures each are "
    "enough to begin. The features of a trained Vision Transformer stay as they are, and a last "
    "layer for your classes is fitted on them, in seconds. Your pictures and your model stay on "
    "this server until you leave or reload the page, an hour after you last touched them at most; "
    "nobody else sees them unless you show them."
)
CLUE = (
    "Does it know the thing, or the table that it lies on? Where all pictures of a class share a "
    "background, that is the easier clue. **Try it:** show the model, in Look, a picture of the "
    "background alone, and see what its map rests on."
)
EMPTY = Collection()
OWN = "'{name}' is now among the models of every tab, for you alone."
SHARED = (
    "'{name}' is now in every tab, for everyone who opens this page, until it is taken back here, "
    "or discarded in Training progress, under Train here."
)
QUEUED = (
    "'{name}' is queued, with your pictures in its folder: everyone who opens this page sees it in "
    "Training progress, under Train here, where it is also discarded."
)
STOPPED = "Stopped: nothing was learnt."


@dataclass
class Kept:
    """Of one person: what is collected, the collection before, what was learnt, the run of it that
    they alone see, and what is shown to all.

    Each handler changes in place what it is about: what ends later then takes nothing back of what
    was done meanwhile.
    """

    collection: Collection = EMPTY
    before: Collection | None = None
    learnt: Learnt | None = None
    own: Path | None = None
    shared: Job | None = None

    def forget(self) -> None:
        """Remove the run that they alone see."""
        if self.own:
            shutil.rmtree(self.own, ignore_errors=True)


def build(tab: gr.Tab, workbench: Workbench, jobs: Jobs | None = None) -> None:
    """Lay out and wire the tab; with `jobs` a model may be shown in all tabs."""
    gr.Markdown(INTRO)
    kept = gr.State(Kept(), time_to_live=KEPT_SECONDS, delete_callback=Kept.forget)
    view = OwnClasses(elem_id="own-classes")
    with gr.Row():
        with gr.Column(min_width=260):
            runs = grouped(transformers(workbench))
            model = RunChoice(runs, label="Features of", elem_id="own-model")
        train = gr.Button("Learn these classes", variant="primary", elem_id="own-train")
        stop = gr.Button("Stop", elem_id="own-stop", min_width=100)
    result = Article(elem_id="own-result")

    def save(folder, kept: Kept) -> str:
        name = run_name(needed(kept))
        with tempfile.TemporaryDirectory() as place:
            write(workbench, needed(kept), Path(place) / name)
            return shutil.make_archive(str(folder / name), "zip", place)

    with gr.Row():
        offer_download("Save the model (.zip)", "own-save", save, [kept], LONG_QUEUE)
        show = gr.Button("Show it to everyone", size="sm", visible=jobs is not None)
        hide = gr.Button("Take it back", size="sm", visible=jobs is not None)
        whole = gr.Button("Train all of it", size="sm", visible=jobs is not None)
    told = Article(elem_id="own-told")

    def drawn(kept: Kept, words: str = "", problems=()) -> Drawn:
        return Drawn(kept.collection, words, tuple(problems), kept.before is not None)

    def ask(event: gr.EventData, kept: Kept) -> tuple:
        """What was told of the classes before is over, too."""
        try:
            problems = follow(workbench, kept, event)
        except VitdemoError as error:
            return kept, drawn(kept, str(error)), []
        return kept, drawn(kept, summary(kept.collection), problems), []

    def train_them(kept: Kept, name, progress=gr.Progress()):  # noqa: B008, gradio's way
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
            words += f" It is there in place of '{before.name}'."
        return kept, words

    def remove(shown: Job) -> bool:
        """Whether it was still there: it may have been discarded in Train here."""
        try:
            jobs.discard(shown.name, shown.asked)
        except JobError:
            return False
        return True

    def train_whole(request: gr.Request, kept: Kept, name) -> tuple:
        check_who(jobs, request)
        base, collection = workbench.run(name), kept.collection
        # Its weights have to be there when its turn comes: a run of one's own goes before.
        stays = (base.path / WEIGHTS).is_file() and base.path != kept.own
        if base.spec != get_recipe(OWN_CLASSES).model or not stays:
            raise JobError(f"All of '{base.name}' cannot be trained here: choose a DeiT-Tiny run.")
        words = [OWN_CLASSES, "--weights", str((base.path / WEIGHTS).resolve())]
        tested = choose_test_images(workbench, base, collection)
        job = jobs.start_on(OWN_CLASSES, words, lambda folder: lay_down(collection, tested, folder))
        return kept, QUEUED.format(name=job.name)

    def take_back(kept: Kept) -> tuple:
        if not kept.shared:
            raise JobError("None of your models is shown in the other tabs.")
        shown, kept.shared = kept.shared, None
        if not remove(shown):
            raise JobError(f"'{shown.name}' had been discarded in Train here already.")
        return kept, f"'{shown.name}' is in the other tabs no more."

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
    """A handler that says a `VitdemoError` in the last of its two outputs, and keeps the first."""

    @functools.wraps(handler)
    def wrapped(*values):
        try:
            return handler(*values)
        except VitdemoError as error:
            return gr.skip(), str(error)

    return wrapped


def transformers(workbench: Workbench) -> list:
    """The Vision Transformers whose features can be had, the best first."""
    return [run for run in workbench.explained_runs() if run.spec.family in ("vit", "timm")]


def follow(workbench: Workbench, kept: Kept, event: gr.EventData) -> list[str]:
    """Change what is collected as the browser asks; gives a sentence for each picture that was left
    out. Raises `VitdemoError`."""
    now = kept.collection
    asked, problems = wish(event, now), []
    if asked.what == "undo":
        if kept.before is None:
            raise DataError("There is nothing to take back.")
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
            raise DataError("No file was sent: choose one.")
        changed, problems = now.with_zip(asked.paths[0])
    elif asked.what == "tests":
        changed = from_tests(workbench, now)
    else:
        changed = now.without(asked.index, asked.picture)
    kept.collection, kept.before = changed, now
    return problems


def from_tests(workbench: Workbench, collection: Collection) -> Collection:
    """`EXAMPLE_PICTURES` test pictures of each of the first classes. Raises `DataError`."""
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
                collection = collection.with_picture(index, picture, f"test picture {i}")
            except DataError:  # it is here already
                continue
    return collection


def needed(kept: Kept) -> Learnt:
    """Raises `DataError` where nothing was learnt yet."""
    if kept.learnt is None:
        raise DataError("Nothing was learnt yet: press 'Learn these classes' first.")
    return kept.learnt


def run_name(found: Learnt) -> str:
    """A folder's name of the first classes' letters: nothing of them but a to z and digits."""
    words = [re.sub("[^a-z0-9]+", "", name.lower())[:12] for name in found.classes[:3]]
    return PREFIX + ("-".join(word for word in words if word) or "classes")


def summary(collection: Collection) -> str:
    if not collection.classes:
        return ""
    many = len(collection.classes)
    noun = "class" if many == 1 else "classes"
    return f"{many} {noun}, {len(collection)} of at most {MOST_PICTURES} pictures."


def pieces(found: Learnt) -> list[Piece]:
    """State the result of cross-validation with its limits, the confusion matrix, the errors."""
    clue = [Heading("What is it a model of?"), Text(CLUE)]
    if not found.is_tested:
        return [Text(untested_words(found), told=True), *clue]
    told = [Text(accuracy_words(found), told=True)]
    if found.effective_size < FEW:
        told.append(Notice(few_words(found)))
    return [*told, *tables(found), *mistakes(found), *clue]


def accuracy_words(found: Learnt) -> str:
    """State the accuracy in cross-validation and its interval."""
    low, high = (100 * end for end in found.interval)
    return (
        f"The accuracy is **{100 * found.accuracy:.1f}%** on {len(found.labels)} images, "
        f"95% confidence interval {low:.0f} to {high:.0f}%. Each image was predicted by a model "
        f"that was fitted without it and without near-identical images ({found.folds}-fold "
        f"cross-validation). Fitted in {found.seconds:.1f} s on the features of {found.base.name}."
    )


def few_words(found: Learnt) -> str:
    """Warn of few independent images."""
    count, low, high = found.group_count, *(100 * end for end in found.interval)
    if count < len(found.labels):
        start = (
            f"The {len(found.labels)} images form only {count} groups of near-identical images, "
            "and each group counts as one image in the interval. "
        )
    else:
        start = f"{count} images are few. "
    return (
        f"{start}The interval is {high - low:.0f} percentage points wide. It holds for images like "
        "these, not for other rooms, days and cameras. Frames of one burst are near-identical: "
        "take each image from another angle, in another place or at another time."
    )


def untested_words(found: Learnt) -> str:
    """State that no accuracy can be measured, and how to get one."""
    names = ", ".join(f"'{name}'" for name in found.single_group_classes())
    return (
        "**The accuracy was not measured**: within these classes all images are near-identical, "
        f"so no independent image is left to test on: {names}. Add images from another angle, "
        f"place or time. The model was fitted on all {len(found.labels)} images in "
        f"{found.seconds:.1f} s, on the features of {found.base.name}, and is available in every "
        "tab."
    )


def tables(found: Learnt) -> list[Piece]:
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
            ["class", "precision, %", "recall, %", "F1, %", "pictures"], shares, file="own-metrics"
        ),
    ]


def mistakes(found: Learnt) -> list[Piece]:
    """The wrong ones, those it was surest of first."""
    wrong = np.flatnonzero(found.predicted != found.labels)
    if not len(wrong):
        return [Text("None was wrong.")]
    sure = found.probabilities.max(1)
    shown = wrong[np.argsort(-sure[wrong])][:MISTAKES]
    all_small = np.concatenate([small(own) for own in found.collection.classes])
    names = found.classes
    items = [
        Item(
            f"A {names[found.labels[i]]} predicted as {names[found.predicted[i]]}",
            f"predicted {names[found.predicted[i]]}",
            f"{100 * sure[i]:.0f}%; true class {names[found.labels[i]]}",
        )
        for i in shown
    ]
    title = f"The {len(wrong)} it gets wrong" if len(wrong) > 1 else "The one it gets wrong"
    return [Heading(title), Pictures(items, strip(all_small[shown]), width=2 * SIDE)]
