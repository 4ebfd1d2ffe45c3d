"""Printable handout of a lesson: one self-contained HTML page that fits on two sheets.

The first sheet of the students' handout contains figures and tasks. The second sheet contains the
questions.

    Path("handout.html").write_text(render_handout(lesson, context), encoding="utf-8")

The figures show the available models. A message replaces a figure whose model is not available.
"""

from collections.abc import Callable

from vitdemo import figures
from vitdemo.analyses.perturbation import compute_ranking_maps
from vitdemo.context import AppContext
from vitdemo.documents import Figure, Notice
from vitdemo.documents.html import TEMPLATES, render_blocks
from vitdemo.errors import LessonError, VitdemoError
from vitdemo.figures import charts, maps
from vitdemo.figures.curves import choose_line_styles
from vitdemo.lessons import Lesson
from vitdemo.lessons.facts import MissingFact, find_run, trace_photo
from vitdemo.metrics.calibration_report import compute_calibration_report
from vitdemo.metrics.recipe_ablation import compute_ablation, find_ablations
from vitdemo.report.ablation import gain_figure
from vitdemo.report.calibration import reliability_figure
from vitdemo.report.confusion import confusion_figure, count_cells
from vitdemo.report.training import PLOTS, curve_figures, legend_entries
from vitdemo.runs import number_runs

MAX_LAYERS_SHOWN = 6  # for deeper models, only every second or third layer is shown


def render_handout(lesson: Lesson, context: AppContext, *, answers: bool = False) -> str:
    """Return the handout of `lesson`, in which facts are already replaced, as an HTML page.

    `answers` adds the answers, for the teacher. Raises `LessonError` for an unknown figure.
    """
    names = [*lesson.figures, *(lesson.answers if answers else ())]
    return TEMPLATES.get_template("handout.html").render(
        lesson=lesson,
        answers=answers,
        figures=render_blocks([draw_figure(name, context) for name in names]),
        tasks=[step for step in lesson.steps if step.task],
        questions=[step for step in lesson.steps if step.question],
    )


def draw_figure(name: str, context: AppContext) -> Figure | Notice:
    """Draw the figure `name` or return a notice. Raises `LessonError` for an unknown name."""
    if name not in FIGURE_FUNCTIONS:
        raise LessonError(f"Unknown figure '{name}'. Use one of {', '.join(FIGURE_FUNCTIONS)}.")
    try:
        return FIGURE_FUNCTIONS[name](context)
    except MissingFact as error:
        return Notice(f"The figure '{name}' is not available. Required: {error}.")
    except VitdemoError as error:
        return Notice(f"The figure '{name}' is not available. {error}")


def _svg(title: str, figure) -> Figure:
    return Figure(title, title, figures.figure_to_svg(figure))


def _input(context: AppContext) -> Figure:
    trace = trace_photo(context, find_run(context, "vit"))
    return _svg(f"Input of {trace.run.name}", maps.plot_input(trace.input_image))


def _patches(context: AppContext) -> Figure:
    trace = trace_photo(context, find_run(context, "vit"))
    plot = maps.plot_patch_grid(trace.input_image, *trace.grid)
    return _svg(f"Input patches of {trace.run.name}", plot)


def _heads(context: AppContext) -> Figure:
    trace = trace_photo(context, find_run(context, "vit"))
    step = -(-trace.num_layers // MAX_LAYERS_SHOWN)
    layers = range(1, trace.num_layers + 1, step)
    maps_by_title = {f"layer {layer}": trace.head_maps(layer) for layer in layers}
    title = f"Attention of the class token, {trace.run.name}"
    return _svg(title, maps.plot_head_grid(trace.input_image, maps_by_title))


def _rollout(context: AppContext) -> Figure:
    trace = trace_photo(context, find_run(context, "tuned"))
    last, middle = trace.num_layers, trace.num_layers // 2
    rollout = compute_ranking_maps(trace)["rollout"]  # (L, rows, columns)
    panels = [
        ("input image", None),
        (f"mean of heads, layer {last}", trace.head_maps(last).mean(0)),
        (f"rollout to layer {middle}", rollout[middle - 1]),
        (f"rollout to layer {last}", rollout[last - 1]),
    ]
    plot = maps.plot_map_row(trace.input_image, panels)
    return _svg(f"Attention and attention rollout, {trace.run.name}", plot)


def _distance(context: AppContext) -> Figure:
    trace = trace_photo(context, find_run(context, "tuned"))
    heads = trace.distances / trace.grid[0]  # (L, H), as fraction of the image side
    mean = float(heads.mean())
    title = f"Attention distance of the heads of {trace.run.name}; dashed: mean of all heads"
    return _svg(title, charts.plot_attention_distance(heads, mean, float(heads.max()) * 1.1))


def _gains(context: AppContext) -> Figure:
    evaluated = context.evaluated_runs()
    groups = find_ablations(evaluated)
    if not groups:
        raise LessonError("Required: an ablation study.")
    baseline, names = next(iter(groups.items()))
    others = [run for run in evaluated if run.name in names and run.name != baseline]
    return gain_figure(compute_ablation(context.find_run(baseline), others))


def _curves(context: AppContext) -> Figure:
    runs = [find_run(context, role) for role in ("vit", "conv")]
    names = [run.name for run in runs]
    styles = choose_line_styles(names, number_runs(context.list_runs()[0]))
    lines = [entry for name, style in styles.items() for entry in legend_entries(style, name)]
    (figure,) = curve_figures(runs, styles, PLOTS[:1], lines)
    return figure


FIGURE_FUNCTIONS: dict[str, Callable[[AppContext], Figure]] = {
    "input": _input,
    "patches": _patches,
    "heads": _heads,
    "rollout": _rollout,
    "distance": _distance,
    "matrix": lambda context: confusion_figure(count_cells(find_run(context, "tested"))),
    "reliability": lambda context: reliability_figure(
        compute_calibration_report(find_run(context, "tested"))
    ),
    "gains": _gains,
    "curves": _curves,
}
