"""Robustness section: accuracy of models on images with perturbations of rising strength."""

from collections.abc import Callable, Iterator

import gradio as gr

from vitdemo.analyses.robustness import DEFAULT_IMAGE_COUNT, measure_robustness
from vitdemo.context import AppContext
from vitdemo.data.perturb import PERTURBATIONS, Perturbation
from vitdemo.errors import Stopped, VitdemoError
from vitdemo.figures.curves import LineStyle, choose_line_styles
from vitdemo.metrics.intervals import difference_margin_of_error, margin_of_error
from vitdemo.page.compare.models import list_trained_runs
from vitdemo.page.components.curves import CurvesView
from vitdemo.page.components.run_choice import group_runs
from vitdemo.page.components.run_list import RunList
from vitdemo.page.kit import REFRESH_EVENT, Cancellation
from vitdemo.page.sections import LazySections
from vitdemo.runs import Run

ROBUSTNESS_INTRO = (
    "## Robustness to image changes\nAccuracy on test images that are degraded step by step, with "
    "the same images and changes for all models. Shuffled patches keep fine texture and lose the "
    "overall shape. Blur keeps coarse shapes and loses fine texture."
)
DEFAULT_CHANGES = ["noise", "blur"]
RobustnessResults = dict[str, dict[str, list[float]]]  # perturbation -> run -> accuracies


def build(sections: LazySections, context: AppContext) -> None:
    """Lay out the section and connect its events."""
    gr.Markdown(ROBUSTNESS_INTRO)
    with gr.Row():
        with gr.Column(min_width=300):
            names = RunList(label="Models", elem_id="robust-models")
        changes = gr.CheckboxGroup(
            [(change.title, name) for name, change in PERTURBATIONS.items()],
            value=DEFAULT_CHANGES,
            label="Changes",
            elem_id="robust-changes",
            min_width=300,
        )
        count = gr.Slider(
            100,
            DEFAULT_IMAGE_COUNT,
            DEFAULT_IMAGE_COUNT,
            step=100,
            label="Test images",
            info="more images narrow the intervals and increase the time",
            elem_id="robust-count",
            min_width=220,
        )
    with gr.Row():
        start = gr.Button("Measure robustness", size="sm", scale=0, min_width=200)
        stop = gr.Button("Stop", size="sm", scale=0, min_width=100)
    robust, stops = CurvesView(elem_id="robustness"), Cancellation()

    def offer(chosen):
        """Update the list of models, and keep the models in `chosen` ticked."""
        found = list_trained_runs(context)
        trained = [run.name for run in found]
        kept = [name for name in chosen if name in trained]
        value = {} if kept and kept == chosen else {"value": kept or trained}
        return gr.update(groups=group_runs(found), **value)

    def measure_all(names, changes, count, progress=gr.Progress()):  # noqa: B008
        raise_if_stopped = stops.make_check()
        runs = [run for run in list_trained_runs(context) if run.name in names]
        if not runs or not changes:
            yield {"problems": ["Choose at least one model and one change above."]}
            return
        count, problems = smallest_size(
            runs, lambda run: len(context.sample_test_images(run, int(count)))
        )
        if count:
            yield from measure_curves(context, runs, changes, count, progress, raise_if_stopped)
        else:
            yield {"problems": list(dict.fromkeys(problems))}

    sections.add("", offer, [names], [names], triggers=[])
    stops.start_on_click(
        start, measure_all, [names, changes, count], robust, show_progress_on=robust
    )
    stop.click(stops.stop, **REFRESH_EVENT)


def smallest_size(runs: list[Run], size: Callable[[Run], int]) -> tuple[int, list[str]]:
    """Return the smallest `size(run)`, or 0 if it fails for all runs, and the error messages."""
    sizes, problems = [], []
    for run in runs:
        try:
            sizes.append(size(run))
        except VitdemoError as error:
            problems.append(str(error))
    return min(sizes, default=0), problems


def measure_curves(
    context: AppContext,
    runs: list[Run],
    changes: list[str],
    count: int,
    progress: gr.Progress,
    raise_if_stopped: Callable[[], None],
) -> Iterator[dict]:
    """Measure the accuracy on `count` test images; yield all curves after each new one."""
    results: RobustnessResults = {change: {} for change in changes}
    problems: list[str] = []
    for number, run in enumerate(runs):
        try:
            for step in measure_robustness(context, run, changes, count):
                raise_if_stopped()
                points = results[step.change].setdefault(run.name, [])
                points.append(step.accuracy)
                done = number * step.total + step.done
                about = f"{run.name}: {PERTURBATIONS[step.change].title}"
                progress((done, len(runs) * step.total), desc=about, unit="points")
                if len(points) == strength_count(step.change):
                    yield render_robustness(results, runs, count, problems)
        except VitdemoError as error:
            problems.append(str(error))
            yield render_robustness(results, runs, count, problems)
        except Stopped:
            return


def render_robustness(
    results: RobustnessResults, runs: list[Run], count: int, problems: list[str]
) -> dict:
    """Return a plot and a table for each perturbation with at least one complete curve."""
    names = [run.name for run in runs]
    styles = choose_line_styles(names, names)
    whole = {
        change: {
            run: points for run, points in found.items() if len(points) == strength_count(change)
        }
        for change, found in results.items()
    }
    plots = [change_plot(change, found, styles, count) for change, found in whole.items() if found]
    legend = [{"name": n, "colour": own.colour, "sign": own.symbol} for n, own in styles.items()]
    return {
        "problems": problems,
        "legend": legend if plots else [],
        "plots": plots,
        "csv": {"name": "vitdemo-robustness.csv", "rows": csv_rows(whole)} if plots else None,
    }


def strength_count(change: str) -> int:
    return len(PERTURBATIONS[change].strengths)


def change_plot(
    change: str, found: dict[str, list[float]], styles: dict[str, LineStyle], count: int
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
        for run, points in found.items()
    ]
    rows = [[run, *(f"{100 * share:.1f}" for share in points)] for run, points in found.items()]
    label = f"Accuracy of {', '.join(found)} by {about.title.lower()}; values in the table below"
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
        "note": margin_of_error_note(found, count),
    }


def axis_title(about: Perturbation) -> str:
    return f"{about.title}, {about.unit}"


def margin_of_error_note(found: dict[str, list[float]], count: int) -> str:
    """Describe the largest margin of error of a point, and of a difference between two points."""
    share = min(
        (share for points in found.values() for share in points), key=lambda s: abs(s - 0.5)
    )
    right = round(share * count)
    width, apart = (
        100 * width(right, count) for width in (margin_of_error, difference_margin_of_error)
    )
    return (
        f"Accuracy in percent on {count:,} test images. The margin of error (95%) is at most "
        f"±{width:.1f} percentage points for a point and ±{apart:.1f} for a difference of two."
    )


def csv_rows(results: RobustnessResults) -> list[list]:
    """Return the accuracies as rows of the CSV file, header first."""
    rows = [
        [change, strength, run, f"{share:.6f}"]
        for change, found in results.items()
        for run, points in found.items()
        for strength, share in zip(PERTURBATIONS[change].strengths, points, strict=True)
    ]
    return [["change", "strength", "model", "accuracy"], *rows]
