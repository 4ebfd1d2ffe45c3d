"""The Calibration tab: whether a model is as often right as it is sure."""

import gradio as gr
import numpy as np

from vitdemo import figures
from vitdemo.errors import VitdemoError
from vitdemo.figures import charts
from vitdemo.metrics import DASH, percent, signed
from vitdemo.metrics.calibrated_runs import Calibration, TemperatureScaled, calibration
from vitdemo.metrics.calibration import TEMPERATURES, Reliability, Side, rest_words, two_sides
from vitdemo.page.components.article import Article, Figure, Line, Notice, Piece, Plots, Text
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.components.table import Cell, Row, Table
from vitdemo.page.kit import QUIET
from vitdemo.page.metrics import NOTHING
from vitdemo.workbench import Workbench

INTRO = (
    "Does a model know how sure it may be? Its **confidence** in an answer is the probability that "
    "it gives to it. If of all answers with a confidence of 80 % four in five are right, and so on "
    "for every other confidence, it is **calibrated**, and its probabilities can be believed."
)
WORDS = {
    "Calibration error": "The expected calibration error (ECE): the gap between confidence and "
    "share of right answers in each of 15 bins, averaged over all answers, in percentage points.",
    "What chance does": "Even a perfectly calibrated model shows a gap on a test set of limited "
    "size: this is how large it would be in 19 of 20 such test sets.",
    "Loss": "The mean of −log(probability of the true class), in nats: what training lowers; it "
    "punishes being surely wrong.",
    "Temperature": "All scores of the model are divided by this one number before they become "
    "probabilities. Above 1 it makes the model less sure, below 1 surer; no answer changes.",
}


def build(tab: gr.Tab, workbench: Workbench) -> None:
    """Lay out and wire the tab, which draws when it is opened."""
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
    """The verdict, both figures, their table; `path` is the run's folder."""
    return [Text(verdict(found)), temperature(found, path), plots(found), bins_table(found)]


def verdict(found: Calibration) -> str:
    sure, right = 100 * found.mean_confidence, 100 * found.accuracy
    error, luck = 100 * found.before.error, 100 * found.chance.error
    if error <= luck:
        words = ": chance alone could do that, and nothing speaks against its probabilities"
    elif two_sides(found.before) or 2 * abs(sure - right) < error:
        words = ", so it is **too sure of some answers and not sure enough of others**"
    elif sure > right:
        words = ", so it is **surer than it may be** (overconfident)"
    else:
        words = ", so it is **less sure than it may be** (underconfident)"
    return (
        f"{found.run} is {sure:.1f} % sure of its answers on average, and "
        f"{right:.1f} % of them are right. Its calibration error is **{error:.2f} points"
        f"**; a perfectly calibrated model would stay below {luck:.2f} points on as many "
        f"pictures{words}. Its loss is {found.loss:.3f} nats."
        f"{sides_words(found.before)}{smoothing_words(found)}"
    )


def sides_words(found: Reliability) -> str:
    """Which answers are too sure and which not sure enough, where there are both."""
    sides = two_sides(found)
    if sides is None:
        return ""
    low, high = sides
    return (
        f" Below {percent(high.low)} % confidence {side_words(low)}; above it {side_words(high)}."
    )


def side_words(side: Side) -> str:
    kind = "too sure" if side.gap < 0 else "not sure enough"
    return (
        f"its {side.count:,} answers are **{kind}** ({percent(side.confidence)} % "
        f"sure on average, {percent(side.accuracy)} % right)"
    )


def smoothing_words(found: Calibration) -> str:
    """Why a model that was trained with label smoothing is less sure than it may be."""
    if found.target == 1 or found.mean_confidence >= found.accuracy:
        return ""
    return (
        f" It was trained with label smoothing: its targets ended at {found.target:.2f}, never at "
        "1, so that it learnt to be less sure than it may be; a temperature below 1 undoes that."
    )


def temperature(found: Calibration, path: str) -> Text | Notice:
    """What one number mends; or how to get it."""
    if found.scaled is None:
        return Notice(
            f"No temperature: the files of '{found.run}' hold no answers on validation pictures, "
            "and one that is fitted on the test set would flatter it. "
            f"`python train.py evaluate {path}` adds them (it needs the data set)."
        )
    scaled = found.scaled
    return Text(
        f"With a **temperature of {scaled.temperature:.3f}**, fitted on the "
        f"{scaled.validation_pictures:,} validation pictures (never on the test set), the "
        f"calibration error on the test set goes from {100 * found.before.error:.2f} to "
        f"**{100 * scaled.reliability.error:.2f} points**, the loss from "
        f"{found.loss:.3f} to {scaled.loss:.3f} nats. {temperature_words(scaled)} "
        f"{rest_words(scaled.reliability)}"
    )


def temperature_words(scaled: TemperatureScaled) -> str:
    low, high = TEMPERATURES
    if not 1.01 * low < scaled.temperature < 0.99 * high:
        return f"The search ends there: it looks from {low:g} to {high:g}."
    direction = "less sure" if scaled.temperature > 1 else "surer"
    return f"It makes the model {direction} and changes none of its answers."


def plots(found: Calibration) -> Plots:
    before, scaled = found.before, found.scaled
    lines = [Line("as it is", charts.RIGHT)]
    if scaled:
        lines.append(Line("with the temperature", charts.BETTER, dashed=True))
    dots = (
        "dotted: as right as sure; grey: what chance allows a calibrated model; larger dots: more "
        "answers"
    )
    diagram = charts.reliability_plot(
        before, found.chance.band, scaled.reliability if scaled else None
    )
    right, wrong = Line("right answers", charts.RIGHT), Line("wrong answers", charts.WRONG)
    return Plots(
        [
            plot("Reliability diagram", [*lines, Line(dots)], figures.svg(diagram), found.run),
            plot(
                "Confidence of right and of wrong answers",
                [right, wrong, Line("each 100 % together")],
                figures.svg(charts.confidence_plot(before.edges, before.right, before.wrong)),
                found.run,
            ),
        ]
    )


def plot(title: str, lines: list[Line], svg: str, run: str) -> Figure:
    label = f"{title} of {run}; its numbers are in the table below"
    return Figure(title, label, svg, lines)


def bins_table(found: Calibration) -> Table:
    """One row a bin that holds answers."""
    columns = ["Confidence", "Answers", "Right", "Wrong", "Mean confidence, %", "Right, %"]
    columns += ["Chance allows, %", "Gap, points"]
    scaled = found.scaled.reliability if found.scaled else None
    if scaled:
        columns += ["Answers with the temperature", "Right of those, %"]
    rows = []
    for b in range(len(found.before.count)):
        if found.before.count[b] or (scaled is not None and scaled.count[b]):
            row = bin_row(found, b)
            if scaled is not None:
                row += [f"{scaled.count[b]:,}", percent_cell(scaled.accuracy[b])]
            rows.append(row)
    return Table(columns, rows, file=f"{found.run}-calibration", words=WORDS)


def bin_row(found: Calibration, b: int) -> Row:
    before, band = found.before, 100 * found.chance.band[:, b]
    gap = 100 * (before.accuracy[b] - before.confidence[b])
    unknown = np.isnan(band[0])
    return [
        f"{100 * before.edges[b]:.0f} to {100 * before.edges[b + 1]:.0f} %",
        f"{before.count[b]:,}",
        f"{before.right[b]:,}",
        f"{before.wrong[b]:,}",
        percent_cell(before.confidence[b]),
        percent_cell(before.accuracy[b]),
        Cell(DASH if unknown else f"{band[0]:.1f} to {band[1]:.1f}", interval=band),
        Cell(signed(gap), gap),
    ]


def percent_cell(share: float) -> Cell:
    return Cell(percent(share), 100 * share)
