"""Printable handout of a lesson: one self-contained HTML page that fits on two sheets.

The students' handout has the figures and tasks on the first sheet, and the questions on the second.

    Path("handout.html").write_text(render_handout(lesson, context), encoding="utf-8")

Its figures show the available models. If the model of a figure is not available, the handout shows
a message instead of the figure.
"""

from collections.abc import Callable

from vitdemo import figures
from vitdemo.context import AppContext
from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.errors import LessonError, VitdemoError
from vitdemo.figures import charts, maps
from vitdemo.figures.matrix import plot_confusion_matrix
from vitdemo.lessons import Lesson
from vitdemo.lessons.facts import LESSON_IMAGE, MissingFact, find_run
from vitdemo.metrics import confusion_matrix
from vitdemo.metrics.calibration_report import compute_calibration_report
from vitdemo.metrics.error_selection import normalise_confusion
from vitdemo.metrics.recipe_ablation import compute_ablation, find_ablations
from vitdemo.report import TEMPLATES, SvgFigure, training_section

MAX_LAYERS_SHOWN = 6  # deeper models show every second or third layer


def render_handout(lesson: Lesson, context: AppContext, *, answers: bool = False) -> str:
    """Return the handout of `lesson`, in which facts are already replaced, as an HTML page.

    `answers` adds the answers, for the teacher. Raises `LessonError` for an unknown figure.
    """
    names = [*lesson.figures, *(lesson.answers if answers else ())]
    return TEMPLATES.get_template("handout.html").render(
        lesson=lesson,
        answers=answers,
        figures=[draw_figure(name, context) for name in names],
        tasks=[step for step in lesson.steps if step.task],
        questions=[step for step in lesson.steps if step.question],
    )


def draw_figure(name: str, context: AppContext) -> SvgFigure | str:
    """Draw the figure `name` or return an error text. Raises `LessonError` for an unknown name."""
    if name not in FIGURE_FUNCTIONS:
        raise LessonError(f"Unknown figure '{name}'. Use one of {', '.join(FIGURE_FUNCTIONS)}.")
    try:
        return FIGURE_FUNCTIONS[name](context)
    except MissingFact as error:
        return f"The figure '{name}' is not available. Required: {error}."
    except VitdemoError as error:
        return f"The figure '{name}' is not available. {error}"


def _svg(title: str, figure) -> SvgFigure:
    return SvgFigure(title, title, figures.figure_to_svg(figure))


def _trace_lesson_image(context: AppContext, role: str):
    return context.trace_image(
        find_run(context, role), crop_visible_square(load_image(LESSON_IMAGE))
    )


def _input(context: AppContext) -> SvgFigure:
    trace = _trace_lesson_image(context, "vit")
    return _svg(f"Input of {trace.run.name}", maps.plot_input(trace.input_image))


def _patches(context: AppContext) -> SvgFigure:
    trace = _trace_lesson_image(context, "vit")
    return _svg(
        f"Input patches of {trace.run.name}", maps.plot_patch_grid(trace.input_image, *trace.grid)
    )


def _heads(context: AppContext) -> SvgFigure:
    trace = _trace_lesson_image(context, "vit")
    step = -(-trace.num_layers // MAX_LAYERS_SHOWN)
    layers = range(1, trace.num_layers + 1, step)
    maps_by_title = {f"layer {layer}": trace.head_maps(layer) for layer in layers}
    title = f"Attention of the class token, {trace.run.name}"
    return _svg(title, maps.plot_head_grid(trace.input_image, maps_by_title))


def _rollout(context: AppContext) -> SvgFigure:
    trace = _trace_lesson_image(context, "tuned")
    last, middle = trace.num_layers, trace.num_layers // 2

    def rollout(layer: int):
        return trace.rollout_map(layer, fusion="mean", discard_ratio=0.0)

    panels = [
        ("input image", None),
        (f"mean of heads, layer {last}", trace.head_maps(last).mean(0)),
        (f"rollout to layer {middle}", rollout(middle)),
        (f"rollout to layer {last}", rollout(last)),
    ]
    return _svg(
        f"Attention and attention rollout, {trace.run.name}",
        maps.plot_map_row(trace.input_image, panels),
    )


def _distance(context: AppContext) -> SvgFigure:
    trace = _trace_lesson_image(context, "tuned")
    heads = trace.distances / trace.grid[0]  # (L, H), as fraction of the image side
    mean = float(heads.mean())
    title = f"Attention distance of the heads of {trace.run.name}; dashed: mean of all heads"
    return _svg(title, charts.plot_attention_distance(heads, mean, float(heads.max()) * 1.1))


def _matrix(context: AppContext) -> SvgFigure:
    run = find_run(context, "tested")
    counts = confusion_matrix(run.evaluation.probabilities, run.evaluation.labels)  # (C, C)
    title = f"Confusion matrix of {run.name} on the test set"
    texts = [[str(count) for count in row] for row in counts]
    return _svg(
        title, plot_confusion_matrix(normalise_confusion(counts), texts, run.classes, "", "images")
    )


def _reliability(context: AppContext) -> SvgFigure:
    report = compute_calibration_report(find_run(context, "tested"))
    title = f"Accuracy by confidence, {report.run}; grey: 95% range for a calibrated model"
    return _svg(title, charts.plot_reliability(report.reliability, report.chance.band))


def _gains(context: AppContext) -> SvgFigure:
    evaluated = context.evaluated_runs()
    groups = find_ablations(evaluated)
    if not groups:
        raise LessonError("Required: an ablation study.")
    baseline, names = next(iter(groups.items()))
    others = [run for run in evaluated if run.name in names and run.name != baseline]
    ablation = compute_ablation(context.find_run(baseline), others)
    return _svg(f"Effect of each change to {baseline}", charts.plot_gains(ablation))


def _curves(context: AppContext) -> SvgFigure:
    runs = [find_run(context, role) for role in ("vit", "conv")]
    plot = training_section(runs)["plots"][1]
    title = (
        f"Accuracy of {runs[0].name} (blue) and {runs[1].name} (orange); "
        "solid: validation, dashed: training"
    )
    return SvgFigure(title, plot.label, plot.svg)


FIGURE_FUNCTIONS: dict[str, Callable[[AppContext], SvgFigure]] = {
    "input": _input,
    "patches": _patches,
    "heads": _heads,
    "rollout": _rollout,
    "distance": _distance,
    "matrix": _matrix,
    "reliability": _reliability,
    "gains": _gains,
    "curves": _curves,
}
