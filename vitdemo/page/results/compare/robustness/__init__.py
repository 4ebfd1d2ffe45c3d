"""Robustness: accuracy of models on images with changes of increasing strength.

A task measures the accuracies. The payload is drawn by `createLinePlots` in line_plots.js, with
the curves that are cached for the chosen models, changes and number of images.
"""

from collections.abc import Sequence

import gradio as gr

from vitdemo.analyses.model_rows import list_trained_runs
from vitdemo.analyses.robustness import find_curves, measure_robustness
from vitdemo.context import AppContext
from vitdemo.data.perturb import PERTURBATIONS, Perturbation
from vitdemo.errors import RunError, VitdemoError
from vitdemo.figures.curves import LineStyle, choose_line_styles
from vitdemo.metrics.intervals import difference_margin_of_error, margin_of_error
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.components.run_choice import group_runs
from vitdemo.page.components.run_list import RunList
from vitdemo.page.feature import Feature, PageSetup, Report, ViewData
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run, number_runs

VIEW = "robustness"
ROBUSTNESS_INTRO = (
    "Robustness is the accuracy on test images that are degraded step by step, with the same "
    "images and changes for all models. Shuffling patches keeps fine texture but removes the "
    "overall shape. Blur keeps coarse shapes but removes fine texture."
)
NO_CHOICE_MESSAGE = "Choose at least one model and one change above."
TITLE_ID = "robustness-title"
CPU_IMAGE_COUNT = 200  # initial number of test images on a CPU, to save time
RobustnessCurves = dict[str, dict[str, list[float]]]  # change -> run name -> accuracies


def build(setup: PageSetup) -> None:
    found = [run for run in setup.context.list_runs()[0] if run.has_weights]
    gr.Markdown("## Robustness to image changes", elem_id=TITLE_ID)
    with gr.Row():
        with gr.Column(min_width=300):
            names = [run.name for run in found]
            setup.controls.add(keys.ROBUSTNESS_MODELS, RunList, group_runs(found), names)
        setup.controls.add(keys.ROBUSTNESS_CHANGES, gr.CheckboxGroup, min_width=300)
        key = keys.ROBUSTNESS_IMAGES
        start = CPU_IMAGE_COUNT if setup.context.device.type == "cpu" else key.start
        setup.controls.add(key, gr.Slider, value=start, min_width=220)
    add_view(VIEW, elem_id="robustness")


@needs(keys.ROBUSTNESS_MODELS, keys.ROBUSTNESS_CHANGES, keys.ROBUSTNESS_IMAGES)
def payload(context: AppContext, state: ViewState) -> ViewData:
    """Return the measured curves of the chosen models, and the models to choose from.

    Raises `DataError` without a dataset.
    """
    context.open_dataset()
    found, chosen = list_trained_runs(context), state[keys.ROBUSTNESS_MODELS]
    trained = [run.name for run in found]
    kept = [name for name in chosen if name in trained]
    names = kept if kept or not chosen else trained
    runs = [run for run in found if run.name in names]
    return ViewData(
        plot_measured_curves(context, runs, read_changes(state), read_count(state)),
        {keys.ROBUSTNESS_MODELS.name: {"props": {"groups": group_runs(found)}, "value": names}},
    )


def measure(context: AppContext, state: ViewState, report: Report) -> list[str]:
    """Measure the chosen models, and return a message for each failure. A task of the bridge.

    Raises `RunError` without a model or a change, and `Stopped` after a cancellation.
    """
    names, changes = state[keys.ROBUSTNESS_MODELS], read_changes(state)
    runs, problems = [run for run in list_trained_runs(context) if run.name in names], []
    if not runs or not changes:
        raise RunError(NO_CHOICE_MESSAGE)
    total = len(runs) * sum(len(PERTURBATIONS[change].strengths) for change in changes)
    for number, run in enumerate(runs):
        # The first step of a large model can take a minute. The page then shows the model's name.
        done = number * total // len(runs)
        report(done, total, f"{run.name}: {PERTURBATIONS[changes[0]].title}")
        try:
            for step in measure_robustness(context, run, changes, read_count(state)):
                text = f"{run.name}: {PERTURBATIONS[step.change].title}"
                report(done + step.done, total, text)
        except VitdemoError as error:
            problems.append(str(error))
    return list(dict.fromkeys(problems))


FEATURE = Feature({VIEW: payload}, {f"{VIEW}.measure": measure})


def read_changes(state: ViewState) -> list[str]:
    """Return the chosen changes in the order of the checkboxes."""
    chosen = state[keys.ROBUSTNESS_CHANGES]
    return [name for name in PERTURBATIONS if name in chosen]


def read_count(state: ViewState) -> int:
    return round(state[keys.ROBUSTNESS_IMAGES])


def plot_measured_curves(
    context: AppContext, runs: Sequence[Run], changes: Sequence[str], count: int
) -> dict:
    """Return a plot and a table for each change with a measured curve."""
    curves = find_curves(context, runs, changes, count)
    curves = {change: found for change, found in curves.items() if found}
    if not curves:
        return {}
    measured = [run for run in runs if any(run.name in found for found in curves.values())]
    count = len(context.sample_test_images(measured[0], count))
    names = [run.name for run in runs]
    styles = choose_line_styles(names, number_runs(context.list_runs_and_models()[0]))
    return {
        "legend": [
            {"name": n, "colour": own.colour, "sign": own.symbol} for n, own in styles.items()
        ],
        "plots": [change_plot(change, found, styles, count) for change, found in curves.items()],
        "csv": {"name": "vitdemo-robustness.csv", "rows": csv_rows(curves)},
    }


def change_plot(
    change: str, changes: dict[str, list[float]], styles: dict[str, LineStyle], count: int
) -> dict:
    """Return the plot of one perturbation, with description, table and margin of error."""
    about = PERTURBATIONS[change]
    steps = [f"{strength:g}" for strength in about.strengths]
    lines = [
        {
            "run": run,
            "x": list(range(len(points))),
            "y": [100 * share for share in points],
            "colour": styles[run].colour,
            "sign": styles[run].symbol,
            "points": True,
        }
        for run, points in changes.items()
    ]
    rows = [[run, *(f"{100 * share:.1f}" for share in points)] for run, points in changes.items()]
    label = (
        f"Accuracy of {', '.join(changes)} against {about.title.lower()}; the table below "
        "contains the values"
    )
    return {
        "title": about.title,
        "label": label,
        "sentence": about.description,
        "unit": "accuracy, %",
        "x": axis_title(about),
        "steps": steps,
        "range": [0, 100],
        "lines": lines,
        "table": {"head": [axis_title(about), *steps], "rows": rows},
        "note": margin_of_error_note(changes, count),
    }


def axis_title(about: Perturbation) -> str:
    return f"{about.title}, {about.unit}"


def margin_of_error_note(changes: dict[str, list[float]], count: int) -> str:
    """Describe the largest margin of error of a point, and of a difference between two points."""
    share = min(
        (share for points in changes.values() for share in points), key=lambda s: abs(s - 0.5)
    )
    right = round(share * count)
    width, apart = (
        100 * width(right, count) for width in (margin_of_error, difference_margin_of_error)
    )
    return (
        f"Accuracy in percent on {count:,} test images. The margin of error (95%) is at most "
        f"±{width:.1f} percentage points for one accuracy, and ±{apart:.1f} for the difference "
        "between two accuracies."
    )


def csv_rows(results: RobustnessCurves) -> list[list]:
    rows = [
        [change, strength, run, f"{share:.6f}"]
        for change, found in results.items()
        for run, points in found.items()
        for strength, share in zip(PERTURBATIONS[change].strengths, points, strict=True)
    ]
    return [["change", "strength", "model", "accuracy"], *rows]
