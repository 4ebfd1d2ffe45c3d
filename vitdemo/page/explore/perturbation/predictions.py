"""Predictions of all models before and after the changes, as a document."""

from contextlib import suppress

from vitdemo.analyses.perturbation import PredictionChange, predict_changes
from vitdemo.context import AppContext
from vitdemo.data.perturb.changes import ImageChanges
from vitdemo.errors import VitdemoError
from vitdemo.page.bridge import ViewState, document_payload
from vitdemo.page.components.article import DocumentBlock, Notice, ProbabilityChange, Text
from vitdemo.page.explore.perturbation.image import load_images, parse_changes

VIEW = "changed_predictions"


def payload(context: AppContext, state: ViewState) -> list:
    """Return the document of the predictions. Raises `VitdemoError`."""
    changes = parse_changes(context, state)
    before, after = load_images(context, state, changes)
    with suppress(VitdemoError):  # the predictions then reuse the passes of the attention maps
        for image in (before, after):
            context.trace_image(context.find_run(state.model), image)
    found, problems = predict_changes(context, before, after)
    return document_payload(prediction_blocks(found, problems, changes, before.width))


def prediction_blocks(
    found: list[PredictionChange], problems: list[str], changes: ImageChanges, side: int
) -> list[DocumentBlock]:
    """Return the number of unchanged predictions, and a card with the predictions of each model.

    `side` is the side of the changed image in pixels.
    """
    notices = [Notice(problem) for problem in problems]
    size = f"Predictions for the image at this size, {side} × {side} pixels"
    if changes.is_identity:
        words = "The image is unchanged. Change it to see which predictions change."
        cards = [prediction_card(each, "") for each in found]
        return [Text(f"**{words}**", told=True), Text(f"{size}.", quiet=True), *cards, *notices]
    kept = sum(each.class_before == each.class_after for each in found)
    models = "model keeps its" if len(found) == 1 else "models keep their"
    return [
        Text(f"**{kept} of {len(found)} {models} prediction.**", told=True),
        Text(f"{size}. Thin bars: original image. Thick bars: changed image.", quiet=True),
        *(prediction_card(each, "still ") for each in found),
        *notices,
    ]


def prediction_card(change: PredictionChange, still: str) -> ProbabilityChange:
    kept = change.class_before == change.class_after
    verdict = (
        f"{still}{change.class_before}"
        if kept
        else f"{change.class_before} → **{change.class_after}**"
    )
    rows = [
        (change.run.classes[i], float(change.before[i]), float(change.after[i]))
        for i in change.top_classes()
    ]
    return ProbabilityChange(f"{change.run.name}: {verdict}", rows)
