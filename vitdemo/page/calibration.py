"""The Calibration tab: confidence compared with accuracy."""

import gradio as gr
import numpy as np

from vitdemo import figures
from vitdemo.errors import VitdemoError
from vitdemo.figures import charts
from vitdemo.metrics import DASH, percent, signed
from vitdemo.metrics.calibrated_runs import Calibration, TemperatureScaled, calibration
from vitdemo.metrics.calibration import (
    TEMPERATURES,
    Chance,
    Reliability,
    Side,
    rest_words,
    two_sides,
)
from vitdemo.page.components.article import Article, Figure, Line, Notice, Piece, Plots, Text
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.components.table import Cell, Row, Table
from vitdemo.page.kit import QUIET
from vitdemo.page.metrics import NOTHING
from vitdemo.workbench import Workbench

INTRO = (
    "The **confidence** of a prediction is the probability that the model gives to the predicted "
    "class. A model is **calibrated** if, for every confidence, its accuracy is the same: of all "
    "predictions with a confidence of 80%, 80% are correct."
)
WORDS = {
    "Calibration error": "The expected calibration error (ECE): the gap between confidence and "
    "accuracy in each of 15 bins, averaged over all predictions, in percentage points.",
    "Expected by chance": "Even a perfectly calibrated model has a calibration error above 0 on a "
    "test set of limited size. In 95% of test sets of this size its error stays below this value, "
    "which depends on the probabilities: it is computed separately after temperature scaling.",
    "Loss": "The mean of −log(probability of the true class), in nats. Training minimises it.",
    "Temperature": "All logits of the model are divided by this one number before the softmax. "
    "Above 1 it lowers the confidence, below 1 it raises it; no prediction changes.",
}


def build(tab: gr.Tab, workbench: Workbench) -> None:
    """Build the tab; its content is computed when the tab opens."""
    gr.Markdown(INTRO)
    model = RunChoice(grouped(workbench.evaluated_runs()), elem_id="calibration-model")
    view = Article(elem_id="calibration")

    def draw(name):
        update, name = renewed_runs(workbench.evaluated_runs(), name)
        if name is None:
            return update, [Notice(NOTHING)]
        try:
            run = workbench.run(name)
            return update, pieces(workbench.cache.of(calibration, run), str(run.path))
        except VitdemoError as error:
            return update, [Notice(str(error))]

    gr.on([tab.select, model.input], draw, inputs=model, outputs=[model, view], **QUIET)


def pieces(found: Calibration, path: str) -> list[Piece]:
    """Return the verdict, both figures and their table; `path` is the run's folder."""
    return [Text(verdict(found)), temperature(found, path), plots(found), bins_table(found)]


def verdict(found: Calibration) -> str:
    """State the calibration error, whether it exceeds chance, and its direction."""
    confidence, accuracy = 100 * found.mean_confidence, 100 * found.accuracy
    error = 100 * found.before.error
    if found.before.error <= found.chance.error:
        words = "This difference is within chance."
    elif two_sides(found.before) or 2 * abs(confidence - accuracy) < error:
        words = "The model is **overconfident in some predictions and underconfident in others**."
    else:
        kind = "overconfident" if confidence > accuracy else "underconfident"
        words = f"The model is **{kind}**."
    return (
        f"The mean confidence of {found.run} is {confidence:.1f}%, and {accuracy:.1f}% of its "
        f"predictions are correct. Its calibration error is **{error:.2f} percentage points**. "
        f"{chance_words(found.chance)} {words} Its loss is {found.loss:.3f} nats."
        f"{sides_words(found.before)}{smoothing_words(found)}"
    )


def chance_words(found: Chance, which: str = "these") -> str:
    """State the calibration error expected by chance with `which` probabilities."""
    return (
        f"In 95% of test sets of this size, a perfectly calibrated model with {which} "
        f"probabilities would stay below {100 * found.error:.2f} points."
    )


def sides_words(found: Reliability) -> str:
    """Describe overconfident and underconfident predictions if the model has both."""
    sides = two_sides(found)
    if sides is None:
        return ""
    low, high = sides
    return f" Below {percent(high.low)}% confidence {side_words(low)}; above it {side_words(high)}."


def side_words(side: Side) -> str:
    kind = "overconfident" if side.gap < 0 else "underconfident"
    return (
        f"its {side.count:,} predictions are **{kind}** (mean confidence "
        f"{percent(side.confidence)}%, {percent(side.accuracy)}% correct)"
    )


def smoothing_words(found: Calibration) -> str:
    """State the label smoothing of an underconfident model, and the effect of the temperature."""
    if found.target == 1 or found.mean_confidence >= found.accuracy:
        return ""
    words = (
        " It was trained with label smoothing: the target probability of the true class was "
        f"{found.target:.2f}."
    )
    scaled = found.scaled
    if scaled and scaled.temperature < 1 and scaled.reliability.error < found.before.error:
        words += " A temperature below 1 reduces its underconfidence."
    return words


def temperature(found: Calibration, path: str) -> Text | Notice:
    """State the calibration after temperature scaling, or how to obtain a temperature."""
    if found.scaled is None:
        return Notice(
            f"No temperature can be fitted, because '{found.run}' has no predictions for "
            f"validation images. To compute them, run `python train.py evaluate {path}` (needs the "
            "dataset). The test set must not be used to fit a temperature, because the test "
            "results would then look too good."
        )
    scaled = found.scaled
    return Text(
        f"With a **temperature of {scaled.temperature:.3f}**, fitted on the "
        f"{scaled.validation_pictures:,} validation images (not on the test set), the "
        f"calibration error on the test set changes from {100 * found.before.error:.2f} to "
        f"**{100 * scaled.reliability.error:.2f} points**. "
        f"{chance_words(scaled.chance, 'the scaled')} {scaled_verdict(scaled)} "
        f"The loss changes from {found.loss:.3f} to {scaled.loss:.3f} nats. "
        f"{temperature_words(scaled)} {rest_words(scaled.reliability)}"
    )


def scaled_verdict(scaled: TemperatureScaled) -> str:
    """Compare the error after scaling with the error expected by chance after scaling."""
    if scaled.reliability.error <= scaled.chance.error:
        return "The remaining difference is within chance."
    return "The scaled model is still **not perfectly calibrated**."


def temperature_words(scaled: TemperatureScaled) -> str:
    low, high = TEMPERATURES
    if not 1.01 * low < scaled.temperature < 0.99 * high:
        return f"This temperature is at the end of the search range ({low:g} to {high:g})."
    direction = "lowers" if scaled.temperature > 1 else "raises"
    return (
        f"The temperature {direction} the model's confidence and changes none of its predictions."
    )


def plots(found: Calibration) -> Plots:
    before, scaled = found.before, found.scaled
    lines = [Line("unscaled", charts.RIGHT)]
    if scaled:
        lines.append(Line("temperature-scaled", charts.BETTER, dashed=True))
    dots = (
        "dotted: perfect calibration; wide bars: 95% range expected by chance for each line; "
        "larger dots: more predictions"
    )
    diagram = charts.reliability_plot(
        before,
        found.chance.band,
        *((scaled.reliability, scaled.chance.band) if scaled else ()),
    )
    right = Line("correct predictions", charts.RIGHT)
    wrong = Line("incorrect predictions", charts.WRONG)
    return Plots(
        [
            plot("Reliability diagram", [*lines, Line(dots)], figures.svg(diagram), found.run),
            plot(
                "Confidence of correct and incorrect predictions",
                [right, wrong, Line("each of the two groups adds up to 100%")],
                figures.svg(charts.confidence_plot(before.edges, before.right, before.wrong)),
                found.run,
            ),
        ]
    )


def plot(title: str, lines: list[Line], svg: str, run: str) -> Figure:
    label = f"{title} of {run}; the table below has the values"
    return Figure(title, label, svg, lines)


def bins_table(found: Calibration) -> Table:
    """Return a table of the non-empty bins before and after temperature scaling."""
    columns = ["Confidence", "Predictions", "Correct", "Incorrect", "Mean confidence, %"]
    columns += ["Accuracy, %", "Expected by chance, %", "Gap, points"]
    scaled = found.scaled.reliability if found.scaled else None
    if scaled:
        columns += ["Scaled: predictions", "Scaled: accuracy, %", "Scaled: expected by chance, %"]
    rows = []
    for b in range(len(found.before.count)):
        if found.before.count[b] or (scaled is not None and scaled.count[b]):
            row = bin_row(found, b)
            if scaled is not None:
                row += [f"{scaled.count[b]:,}", percent_cell(scaled.accuracy[b])]
                row.append(chance_cell(found.scaled.chance, b))
            rows.append(row)
    return Table(columns, rows, file=f"{found.run}-calibration", words=WORDS)


def bin_row(found: Calibration, b: int) -> Row:
    before = found.before
    gap = 100 * (before.accuracy[b] - before.confidence[b])
    return [
        f"{100 * before.edges[b]:.0f} to {100 * before.edges[b + 1]:.0f}%",
        f"{before.count[b]:,}",
        f"{before.right[b]:,}",
        f"{before.wrong[b]:,}",
        percent_cell(before.confidence[b]),
        percent_cell(before.accuracy[b]),
        chance_cell(found.chance, b),
        Cell(signed(gap), gap),
    ]


def chance_cell(found: Chance, b: int) -> Cell:
    """Return a cell with the 95% range of accuracy of a perfectly calibrated model in bin `b`."""
    band = 100 * found.band[:, b]
    words = DASH if np.isnan(band[0]) else f"{band[0]:.1f} to {band[1]:.1f}"
    return Cell(words, interval=band)


def percent_cell(share: float) -> Cell:
    return Cell(percent(share), 100 * share)
