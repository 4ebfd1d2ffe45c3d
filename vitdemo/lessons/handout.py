"""Printable handout of a lesson: one self-contained HTML page that fits on two sheets.

    Path("handout.html").write_text(handout(lesson, workbench), encoding="utf-8")

Its figures show the available models. If a requirement of a figure is missing, the handout says so
instead.
"""

from collections.abc import Callable

from vitdemo import figures
from vitdemo.errors import LessonError, VitdemoError
from vitdemo.figures import charts, maps
from vitdemo.figures.matrix import matrix_figure
from vitdemo.inputs import load_image, visible_square
from vitdemo.lessons import Lesson
from vitdemo.lessons.facts import PICTURE, MissingFact, run_of
from vitdemo.metrics import confusion
from vitdemo.metrics.calibrated_runs import calibration
from vitdemo.metrics.errors import cells
from vitdemo.metrics.recipe_ablation import ablation_of, ablations
from vitdemo.report import TEMPLATES, Drawn, learning
from vitdemo.workbench import Workbench

LAYERS_SHOWN = 6  # maximum; deep models show every second or third layer


def handout(lesson: Lesson, workbench: Workbench, *, answers: bool = False) -> str:
    """Return the HTML page of a `lesson` with filled-in facts; with `answers`, for the teacher.

    Raises `LessonError` for an unknown figure.
    """
    shown = [*lesson.figures, *(lesson.answers if answers else ())]
    return TEMPLATES.get_template("handout.html").render(
        lesson=lesson,
        answers=answers,
        figures=[drawn(name, workbench) for name in shown],
        tasks=[step for step in lesson.steps if step.task],
        questions=[step for step in lesson.steps if step.question],
    )


def drawn(name: str, workbench: Workbench) -> Drawn | str:
    """Draw the figure `name`, or return why it is not available. Raises `LessonError`."""
    if name not in FIGURES:
        raise LessonError(f"Unknown figure '{name}'. The figures are {', '.join(FIGURES)}.")
    try:
        return FIGURES[name](workbench)
    except MissingFact as error:
        return f"The figure '{name}' is not available. Required: {error}."
    except VitdemoError as error:
        return f"The figure '{name}' is not available. {error}"


def _svg(title: str, figure) -> Drawn:
    return Drawn(title, title, figures.svg(figure))


def _traced(workbench: Workbench, of: str):
    return workbench.look(run_of(workbench, of), visible_square(load_image(PICTURE)))


def _patches(workbench: Workbench) -> Drawn:
    found = _traced(workbench, "vit")
    return _svg(f"Input patches of {found.run.name}", maps.cut_figure(found.seen, *found.grid))


def _heads(workbench: Workbench) -> Drawn:
    found = _traced(workbench, "vit")
    step = -(-found.layers // LAYERS_SHOWN)
    layers = range(1, found.layers + 1, step)
    shown = {f"layer {layer}": found.head_maps(layer) for layer in layers}
    title = f"Attention of the class token, {found.run.name}"
    return _svg(title, maps.head_grid_figure(found.seen, shown))


def _rollout(workbench: Workbench) -> Drawn:
    found = _traced(workbench, "tuned")
    last, middle = found.layers, found.layers // 2

    def rolled(layer: int):
        return found.rollout_map(layer, fusion="mean", discard_ratio=0.0)

    row = [
        ("input image", None),
        (f"mean of heads, layer {last}", found.head_maps(last).mean(0)),
        (f"rollout to layer {middle}", rolled(middle)),
        (f"rollout to layer {last}", rolled(last)),
    ]
    return _svg(
        f"Attention and attention rollout, {found.run.name}", maps.row_figure(found.seen, row)
    )


def _distance(workbench: Workbench) -> Drawn:
    found = _traced(workbench, "tuned")
    heads = found.distances / found.grid[0]  # (L, H), as fractions of the image side
    even = float(heads.mean())
    title = f"Attention distance of the heads of {found.run.name}; dashed: mean of all heads"
    return _svg(title, charts.distance_plot(heads, even, float(heads.max()) * 1.1))


def _matrix(workbench: Workbench) -> Drawn:
    run = run_of(workbench, "tested")
    counts = confusion(run.evaluation.probabilities, run.evaluation.labels)  # (C, C)
    title = f"Confusion matrix of {run.name} on the test set"
    texts = [[str(count) for count in row] for row in counts]
    return _svg(title, matrix_figure(cells(counts), texts, run.classes, "", "images"))


def _reliability(workbench: Workbench) -> Drawn:
    found = calibration(run_of(workbench, "tested"))
    title = f"Accuracy by confidence, {found.run}; grey: 95% range for a calibrated model"
    return _svg(title, charts.reliability_plot(found.before, found.chance.band))


def _gains(workbench: Workbench) -> Drawn:
    tested = workbench.evaluated_runs()
    groups = ablations(tested)
    if not groups:
        raise LessonError("No ablation runs were found.")
    base, names = next(iter(groups.items()))
    others = [run for run in tested if run.name in names and run.name != base]
    found = ablation_of(workbench.run(base), others)
    return _svg(f"Effect of each change to {base}", charts.gain_plot(found))


def _curves(workbench: Workbench) -> Drawn:
    runs = [run_of(workbench, of) for of in ("vit", "conv")]
    plot = learning(runs)["plots"][1]
    return Drawn(f"Accuracy by epoch: {runs[0].name} and {runs[1].name}", plot.label, plot.svg)


FIGURES: dict[str, Callable[[Workbench], Drawn]] = {
    "patches": _patches,
    "heads": _heads,
    "rollout": _rollout,
    "distance": _distance,
    "matrix": _matrix,
    "reliability": _reliability,
    "gains": _gains,
    "curves": _curves,
}
