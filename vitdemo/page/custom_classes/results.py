"""Results of a trained classifier: cross-validated accuracy, confusion matrix and errors."""

import numpy as np

from vitdemo import metrics
from vitdemo.custom_classes import LinearProbe
from vitdemo.page.bridge import document_payload
from vitdemo.page.components.article import DocumentBlock, Heading, Notice, Text
from vitdemo.page.components.pictures import ImageItem, ImageRow, concatenate_images
from vitdemo.page.components.table import Cell, Table
from vitdemo.page.custom_classes.editor import CLASS_THUMBNAIL_SIDE, make_thumbnails
from vitdemo.page.custom_classes.session import CustomClassesSession

BACKGROUND_TEST_TITLE = "Object or background?"
BACKGROUND_TEST_HELP = (
    "A model can recognise the background instead of the object, if all images of a class share "
    "one background. **To test this,** open a photo of only the background in Explore. Compare the "
    "predicted class and the attention map with those for a photo of the object."
)
MODEL_ADDED_MESSAGE = "'{name}' was added to the models in every tab. Only you can see it."
NO_ERROR_MESSAGE = "All images were classified correctly."
MAX_MISTAKES = 24
SMALL_SAMPLE_SIZE = 100  # The page shows a warning if there are fewer independent images.


def payload(session: CustomClassesSession) -> list:
    """Return the document of the trained classifier, empty without one."""
    probe, folder = session.probe, session.probe_folder
    if probe is None or folder is None:
        return []
    told = Text(MODEL_ADDED_MESSAGE.format(name=folder.name), told=True)
    return document_payload([*cross_validation_blocks(probe), told])


def cross_validation_blocks(found: LinearProbe) -> list[DocumentBlock]:
    """Return the results of cross-validation: accuracy, confusion matrix and errors."""
    clue = [Heading(BACKGROUND_TEST_TITLE), Text(BACKGROUND_TEST_HELP)]
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
        f"cross-validation). The classifier was fitted in {found.seconds:.1f} s on the features of "
        f"{found.base.name}."
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
        return [Text(NO_ERROR_MESSAGE)]
    confidence = found.probabilities.max(1)
    shown = wrong[np.argsort(-confidence[wrong])][:MAX_MISTAKES]
    small = make_thumbnails([found.images[i] for i in shown])
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
        ImageRow(items, concatenate_images(small), width=2 * CLASS_THUMBNAIL_SIDE),
    ]
