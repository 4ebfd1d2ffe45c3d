"""Results of a trained classifier: cross-validated accuracy, confusion matrix and errors.

The payload is {} without a classifier, {"told": message} if one of its classes was deleted, else

    {"told": message that the model was added, "about": [text, ...], "classes": [name, ...],
     "untested": reason why the accuracy was not measured, or ""}

and, if the accuracy was measured,

    {"accuracy": "95.0%", "sample": images and interval, "warning": text or "",
     "matrix": [[int, ...], ...], "metrics": [[text, ...], ...],
     "errors": [{"true": index, "predicted": index, "confidence": "87%"}, ...],
     "error_count": int, "sheet": image with the errors side by side, or None}
"""

import numpy as np

from vitdemo import metrics
from vitdemo.custom_classes import LinearProbe
from vitdemo.documents.images import concatenate_images
from vitdemo.page.bridge import ImageFile
from vitdemo.page.custom_classes.editor import make_thumbnails
from vitdemo.page.custom_classes.session import CustomClassesSession

BACKGROUND_TEST_HELP = (
    "**Object or background?** If all images of a class have the same background, a model can "
    "recognise the background instead of the object. To test this, show only the background to "
    "the camera under Try."
)
CROSS_VALIDATION_HELP = (
    "**Cross-validation.** Each image was predicted by a model that was fitted without this image "
    "and its near-identical images ({folds} folds). The classifier was fitted in {seconds:.1f} s "
    "on the features of {base}."
)
INTERVAL_HELP = (
    "**Interval.** The interval is valid for similar images, but not for other rooms, days or "
    "cameras. Photos of one burst are near-identical, and each group of near-identical images "
    "counts as one image. Take each image from another angle, in another place or at another time."
)
MODEL_ADDED_MESSAGE = "'{name}' was added to the models in every tab, but only you can see it."
CLASSES_DELETED_MESSAGE = (
    "Classes of '{name}' have been deleted, so its results are not shown. The model stays in the "
    "menus until you train again."
)
MAX_MISTAKES = 24
SMALL_SAMPLE_SIZE = 100  # The page shows a warning if there are fewer independent images.


def payload(session: CustomClassesSession) -> dict:
    probe, folder = session.probe, session.probe_folder
    if probe is None or folder is None:
        return {}
    if not session.has_probe_classes:
        return {"told": CLASSES_DELETED_MESSAGE.format(name=folder.name)}
    told = MODEL_ADDED_MESSAGE.format(name=folder.name)
    return {"told": told, "classes": probe.classes, **describe_test(probe)}


def describe_test(probe: LinearProbe) -> dict:
    if not probe.is_tested:
        return {"untested": explain_untested(probe), "about": [BACKGROUND_TEST_HELP]}
    small = probe.effective_size < SMALL_SAMPLE_SIZE
    matrix = metrics.confusion_matrix(probe.probabilities, probe.labels)  # (C, C)
    method = CROSS_VALIDATION_HELP.format(
        folds=probe.folds, seconds=probe.seconds, base=probe.base.name
    )
    return {
        "untested": "",
        "about": [method, INTERVAL_HELP, BACKGROUND_TEST_HELP],
        "accuracy": f"{100 * probe.accuracy:.1f}%",
        "sample": describe_sample(probe),
        "warning": describe_small_sample(probe) if small else "",
        "matrix": matrix.tolist(),
        "metrics": list_class_metrics(probe, matrix),
        **describe_errors(probe),
    }


def describe_sample(probe: LinearProbe) -> str:
    low, high = (100 * end for end in probe.interval)
    return (
        f"accuracy on {len(probe.labels)} images, 95% confidence interval {low:.0f} to {high:.0f}%"
    )


def describe_small_sample(probe: LinearProbe) -> str:
    count, low, high = probe.num_groups, *(100 * end for end in probe.interval)
    if count < len(probe.labels):
        start = f"The {len(probe.labels)} images form only {count} groups of near-identical images"
    else:
        start = f"There are only {count} images"
    return f"{start}, so the interval is {high - low:.0f} percentage points wide."


def explain_untested(probe: LinearProbe) -> str:
    names = ", ".join(f"'{name}'" for name in probe.single_group_classes())
    return (
        "**The accuracy was not measured.** All images are near-identical within the classes "
        f"{names}, so no independent image is left for testing. Add images from another angle, "
        f"place or time. The classifier was fitted on all {len(probe.labels)} images in "
        f"{probe.seconds:.1f} s, on the features of {probe.base.name}."
    )


def list_class_metrics(probe: LinearProbe, matrix: np.ndarray) -> list[list[str]]:
    """Return a row per class: name, precision, recall and F1 in percent, and images."""
    each = metrics.compute_class_metrics(probe.probabilities, probe.labels)
    rows = zip(probe.classes, each.precision, each.recall, each.f1, matrix.sum(1), strict=True)
    return [
        [name, *(f"{100 * value:.1f}" for value in values), str(int(support))]
        for name, *values, support in rows
    ]


def describe_errors(probe: LinearProbe) -> dict:
    """Return the misclassified images, highest confidence first."""
    wrong = np.flatnonzero(probe.predicted != probe.labels)
    confidence = probe.probabilities.max(1)
    shown = wrong[np.argsort(-confidence[wrong])][:MAX_MISTAKES]
    errors = [
        {
            "true": int(probe.labels[i]),
            "predicted": int(probe.predicted[i]),
            "confidence": f"{100 * confidence[i]:.0f}%",
        }
        for i in shown
    ]
    sheet = None
    if errors:
        thumbnails = make_thumbnails([probe.images[i] for i in shown])
        sheet = ImageFile(concatenate_images(thumbnails), exact=False)
    return {"error_count": len(wrong), "errors": errors, "sheet": sheet}
