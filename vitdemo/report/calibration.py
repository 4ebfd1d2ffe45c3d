"""Calibration of a run: sentences, plots and table, for the page, the report and a handout."""

import numpy as np

from vitdemo import figures
from vitdemo.documents import Details, DocumentBlock, Figure, LegendEntry, Notice, Plots, Text
from vitdemo.documents.table import Cell, Row, Table
from vitdemo.figures import charts
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.metrics import DASH, format_signed, percent_text
from vitdemo.metrics.calibration import (
    TEMPERATURE_RANGE,
    ChanceCalibration,
    ConfidenceRange,
    ReliabilityDiagram,
    describe_worst_bin,
    split_by_overconfidence,
)
from vitdemo.metrics.calibration_report import CalibrationReport, ScaledCalibration
from vitdemo.metrics.prediction_sets import COVERAGE_PERCENT, PredictionSetReport

CALIBRATION_INTRO = (
    "The **confidence** of a prediction is the probability that the model gives to the predicted "
    "class. A model is **calibrated** if its accuracy equals its confidence at every level of "
    "confidence. For example, 80% of the predictions with a confidence of 80% are correct."
)
RELIABILITY_LEGEND = (
    "dotted: perfect calibration; wide bars: 95% range expected by chance for each line; larger "
    "dots: more predictions"
)
CALIBRATION_TERMS = {
    "Calibration error": "Expected calibration error (ECE) in percentage points: gap between "
    "confidence and accuracy in each of 15 bins, averaged over all "
    "predictions.",
    "Expected by chance": "A perfectly calibrated model has a calibration error below this value "
    "in 95% of test sets of this size. The value depends on the "
    "probabilities, so temperature scaling changes it.",
    "Loss": "Mean of −log(probability of the true class), in nats. Training minimises this loss.",
    "Temperature": "Number by which all logits are divided before the softmax. A temperature "
    "above 1 lowers the confidence, and a temperature below 1 raises it. Predictions do not "
    "change.",
}


def calibration_blocks(report: CalibrationReport) -> list[DocumentBlock]:
    """Return one sentence about each topic, two figures and a table."""
    return [
        Text(summarise_calibration(report)),
        *([Text(summarise_sets(report.sets))] if report.sets else []),
        Plots([reliability_figure(report), confidence_figure(report)]),
        Details("Table of all levels of confidence", [bins_table(report)]),
    ]


def explain_calibration(report: CalibrationReport, path: str) -> list[DocumentBlock]:
    """Describe the calibration in detail, before and after scaling; `path` is the run's folder."""
    about = [Text(describe_calibration(report)), temperature_block(report, path)]
    return [*about, *([Text(describe_sets(report.sets))] if report.sets else [])]


def summarise_calibration(report: CalibrationReport) -> str:
    """Describe the calibration error and its direction in one sentence."""
    error = f"**{100 * report.reliability.calibration_error:.2f} percentage points**"
    scaled = ""
    if report.scaled:
        scaled = f" ({100 * report.scaled.reliability.calibration_error:.2f} after temperature "
        scaled += "scaling)"
    if direction := name_direction(report):
        return f"{report.run} is **{direction}**: its calibration error is {error}{scaled}."
    return (
        f"{report.run} has a calibration error of {error}{scaled}, which is within the range "
        "expected by chance."
    )


def summarise_sets(sets: PredictionSetReport) -> str:
    """Describe coverage and mean size of the prediction sets on the test set."""
    low, high = sets.interval
    classes = "class" if f"{sets.mean_size:.2f}" == "1.00" else "classes"
    return (
        f"Its {COVERAGE_PERCENT}% prediction sets contain the true class of "
        f"**{percent_text(sets.coverage)}%** of the test images (95% confidence interval: "
        f"{percent_text(low)} to {percent_text(high)}%). They have {sets.mean_size:.2f} {classes} "
        "on average."
    )


def describe_sets(sets: PredictionSetReport) -> str:
    """Describe the method of the prediction sets, and their threshold."""
    return (
        "A **prediction set** contains the predicted class, and all classes with a probability of "
        f"at least {percent_text(sets.threshold)}%. The true class of {COVERAGE_PERCENT}% of the "
        f"{sets.num_calibration:,} validation images reaches this threshold "
        "(split conformal prediction with the score 1 − p; Sadinle et al. 2019; Angelopoulos & "
        f"Bates 2021). For images like the validation images, the set contains the true class with "
        f"a probability of at least {COVERAGE_PERCENT}%. This holds on average over images, but "
        "not for each class or image."
    )


def name_direction(report: CalibrationReport) -> str:
    """Return "overconfident", "underconfident" or both; "" if the error may be due to chance."""
    confidence, accuracy = 100 * report.mean_confidence, 100 * report.accuracy
    error = 100 * report.reliability.calibration_error
    if report.reliability.calibration_error <= report.chance.max_calibration_error:
        return ""
    if split_by_overconfidence(report.reliability) or 2 * abs(confidence - accuracy) < error:
        return "overconfident in some predictions and underconfident in others"
    return "overconfident" if confidence > accuracy else "underconfident"


def describe_calibration(report: CalibrationReport) -> str:
    confidence, accuracy = 100 * report.mean_confidence, 100 * report.accuracy
    error = 100 * report.reliability.calibration_error
    verdict = "This error is within the range expected by chance."
    if direction := name_direction(report):
        verdict = f"The model is **{direction}**."
    return (
        f"The mean confidence of {report.run} is {confidence:.1f}%, and {accuracy:.1f}% of its "
        f"predictions are correct. Its calibration error is **{error:.2f} percentage points**. "
        f"{describe_chance_error(report.chance)} {verdict} Its loss is {report.loss:.3f} nats."
        f"{describe_both_sides(report.reliability)}{describe_label_smoothing(report)}"
    )


def describe_chance_error(chance: ChanceCalibration, which: str = "these") -> str:
    """Describe the calibration error expected by chance; `which` specifies the probabilities."""
    return (
        f"In 95% of test sets of this size, a perfectly calibrated model with {which} "
        "probabilities has a calibration error below "
        f"{100 * chance.max_calibration_error:.2f} points."
    )


def describe_both_sides(diagram: ReliabilityDiagram) -> str:
    """Describe over- and underconfident predictions, or return "" unless the model has both."""
    sides = split_by_overconfidence(diagram)
    if sides is None:
        return ""
    low, high = sides
    limit = f"{percent_text(high.low)}% confidence"
    return f" Below {limit}, {describe_side(low)}; above, {describe_side(high)}."


def describe_side(side: ConfidenceRange) -> str:
    kind = "overconfident" if side.gap < 0 else "underconfident"
    return (
        f"its {side.count:,} predictions are **{kind}** (mean confidence "
        f"{percent_text(side.confidence)}%, {percent_text(side.accuracy)}% correct)"
    )


def describe_label_smoothing(report: CalibrationReport) -> str:
    """Describe the label smoothing of an underconfident model, or return "" for other models."""
    if report.true_class_target == 1 or report.mean_confidence >= report.accuracy:
        return ""
    sentence = (
        " The model was trained with label smoothing: the target probability of the true class was "
        f"{report.true_class_target:.2f}."
    )
    scaled = report.scaled
    if (
        scaled
        and scaled.temperature < 1
        and scaled.reliability.calibration_error < report.reliability.calibration_error
    ):
        sentence += " A temperature below 1 reduces the underconfidence."
    return sentence


def temperature_block(report: CalibrationReport, path: str) -> Text | Notice:
    """Describe the calibration after temperature scaling, or how to fit a temperature."""
    if report.scaled is None:
        return Notice(
            f"No temperature can be fitted, because '{report.run}' has no predictions for "
            f"validation images. To compute them, run `{TRAIN_COMMAND} evaluate {path}` (needs the "
            "dataset). The test set must not be used to fit a temperature, because the test "
            "results would then look too good."
        )
    scaled = report.scaled
    return Text(
        f"A **temperature of {scaled.temperature:.3f}** was fitted on the "
        f"{scaled.num_validation_images:,} validation images (not on the test set). "
        "With this temperature, the calibration error on the test set changes from "
        f"{100 * report.reliability.calibration_error:.2f} to "
        f"**{100 * scaled.reliability.calibration_error:.2f} points**. "
        f"{describe_chance_error(scaled.chance, 'the scaled')} {describe_scaled_error(scaled)} "
        f"The loss changes from {report.loss:.3f} to {scaled.loss:.3f} nats. "
        f"{describe_temperature(scaled)} {describe_worst_bin(scaled.reliability)}"
    )


def describe_scaled_error(scaled: ScaledCalibration) -> str:
    if scaled.reliability.calibration_error <= scaled.chance.max_calibration_error:
        return "The remaining error is within the range expected by chance."
    return "The scaled model is still **not perfectly calibrated**."


def describe_temperature(scaled: ScaledCalibration) -> str:
    low, high = TEMPERATURE_RANGE
    if not 1.01 * low < scaled.temperature < 0.99 * high:
        return f"This temperature is at the end of the search range ({low:g} to {high:g})."
    direction = "lowers" if scaled.temperature > 1 else "raises"
    return (
        f"The temperature {direction} the model's confidence and changes none of its predictions."
    )


def reliability_figure(report: CalibrationReport) -> Figure:
    scaled = report.scaled
    lines = [LegendEntry("unscaled", charts.CORRECT_COLOUR)]
    if scaled:
        lines.append(LegendEntry("temperature-scaled", charts.BETTER_COLOUR, dashed=True))
    diagram = charts.plot_reliability(
        report.reliability,
        report.chance.band,
        *((scaled.reliability, scaled.chance.band) if scaled else ()),
    )
    return make_figure(
        "Reliability diagram", [*lines, LegendEntry(RELIABILITY_LEGEND)], diagram, report
    )


def confidence_figure(report: CalibrationReport) -> Figure:
    before = report.reliability
    lines = [
        LegendEntry("correct predictions", charts.CORRECT_COLOUR),
        LegendEntry("incorrect predictions", charts.INCORRECT_COLOUR),
        LegendEntry("each of the two groups adds up to 100%"),
    ]
    histogram = charts.plot_confidence(before.edges, before.correct, before.incorrect)
    return make_figure("Confidence of correct and incorrect predictions", lines, histogram, report)


def make_figure(title: str, lines: list[LegendEntry], plot, report: CalibrationReport) -> Figure:
    title = f"{title} of {report.run}"
    label = f"{title}; the table below contains the values"
    return Figure(title, label, figures.figure_to_svg(plot), lines)


def bins_table(report: CalibrationReport) -> Table:
    """Return a table of the non-empty bins before and after temperature scaling."""
    columns = ["Confidence", "Predictions", "Correct", "Incorrect", "Mean confidence, %"]
    columns += ["Accuracy, %", "Expected by chance, %", "Gap, points"]
    scaled = report.scaled.reliability if report.scaled else None
    if scaled:
        columns += ["Scaled: predictions", "Scaled: accuracy, %", "Scaled: expected by chance, %"]
    rows = []
    for b in np.flatnonzero(report.reliability.count + (scaled.count if scaled else 0)):
        row = bin_row(report, b)
        if scaled:
            row += [f"{scaled.count[b]:,}", percent_cell(scaled.accuracy[b])]
            row.append(chance_cell(report.scaled.chance, b))
        rows.append(row)
    return Table(columns, rows, file=f"{report.run}-calibration", terms=CALIBRATION_TERMS)


def bin_row(report: CalibrationReport, b: int) -> Row:
    before = report.reliability
    gap = 100 * (before.accuracy[b] - before.confidence[b])
    return [
        f"{100 * before.edges[b]:.0f} to {100 * before.edges[b + 1]:.0f}%",
        f"{before.count[b]:,}",
        f"{before.correct[b]:,}",
        f"{before.incorrect[b]:,}",
        percent_cell(before.confidence[b]),
        percent_cell(before.accuracy[b]),
        chance_cell(report.chance, b),
        Cell(format_signed(gap), gap),
    ]


def chance_cell(chance: ChanceCalibration, b: int) -> Cell:
    """Return a cell with the 95% range of the accuracy in bin `b` expected by chance."""
    band = 100 * chance.band[:, b]
    text = DASH if np.isnan(band[0]) else f"{band[0]:.1f} to {band[1]:.1f}"
    return Cell(text, interval=band)


def percent_cell(share: float) -> Cell:
    return Cell(percent_text(share), 100 * share)
