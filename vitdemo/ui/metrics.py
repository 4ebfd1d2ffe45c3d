"""The Per-class metrics tab: how well a model knows each class of the test set."""

import math
from collections.abc import Callable

import gradio as gr

from vitdemo.errors import VitdemoError
from vitdemo.evaluation import ClassMetrics, accuracy, macro, per_class
from vitdemo.runs import Run
from vitdemo.ui import html
from vitdemo.ui.components import QUIET, fresh_radio, run_radio

CLASS_ORDER, WORST_FIRST = "Class order", "Worst F1 first"
INTRO = (
    "How well a model knows each class, on test pictures it has never seen. **Precision**: of all "
    "pictures that it calls *cat*, how many really are cats. **Recall**: of all cats, how many it "
    "calls *cat*. **F1**: both in one, and low if either is. **ROC-AUC**: how surely a cat gets a "
    "higher probability of *cat* than another picture does. **Support**: how many test pictures "
    "there are."
)
COLUMNS = ("precision", "recall", "f1", "roc_auc")
TITLES = ("Precision", "Recall", "F1", "ROC-AUC")
NOTHING = (
    "No run has been evaluated yet: a training does it at its end, and "
    "`python train.py evaluate runs/NAME` does it again."
)


def build(page: gr.Blocks, *, evaluated_runs: Callable[[], list[Run]]) -> None:
    """Lay out and wire the tab; `evaluated_runs` reads the run folders as they are now."""
    gr.Markdown(INTRO)
    with gr.Row():
        model = run_radio(evaluated_runs())
        order = gr.Radio(
            [CLASS_ORDER, WORST_FIRST], value=CLASS_ORDER, label="Order", min_width=300
        )
    view = gr.HTML(elem_id="per-class", apply_default_css=False)

    def show(name, order):
        run = next((run for run in evaluated_runs() if run.name == name), None)
        return metrics_html(run, order == WORST_FIRST)

    def open_page(name, order):
        update = fresh_radio(evaluated_runs(), name)
        return update, show(update["value"], order)

    page.load(open_page, inputs=[model, order], outputs=[model, view], **QUIET)
    gr.on([model.input, order.input], show, inputs=[model, order], outputs=view, **QUIET)


def metrics_html(run: Run | None, worst_first: bool) -> str:
    """The table with its bars, the macro mean, and the same numbers as CSV."""
    if run is None:
        return html.notice(NOTHING)
    try:
        metrics = per_class(run.evaluation.probabilities, run.evaluation.labels)
    except (VitdemoError, ValueError) as error:
        return html.notice(f"{run.name}: {error}")
    total = accuracy(run.evaluation.probabilities, run.evaluation.labels)
    rows = ordered(metrics, worst_first)
    link = html.csv_link(
        ("class", "support", *COLUMNS),
        [csv_row(run.classes[i], metrics, i) for i in rows],
        f"{run.name}-per-class.csv",
    )
    return (
        f"<p><strong>{100 * total:.2f} %</strong> of {int(metrics.support.sum()):,} test pictures "
        f"are named rightly by {html.escape(run.name)}. Bars start at 0.</p>"
        f'<div class="vd-scroll"><table class="vd-table"><thead><tr><th scope="col">Class</th>'
        f'<th scope="col">Support</th>{"".join(f"<th scope=col>{t}</th>" for t in TITLES)}</tr>'
        f"</thead><tbody>{''.join(class_row(run.classes[i], metrics, i) for i in rows)}</tbody>"
        f"<tfoot>{macro_row(metrics)}</tfoot></table></div><p>{link}</p>"
    )


def ordered(metrics: ClassMetrics, worst_first: bool) -> list[int]:
    """Class indices in order, or by F1 from the worst; classes without one come last."""
    indices = list(range(len(metrics.f1)))
    if not worst_first:
        return indices
    return sorted(indices, key=lambda i: (math.isnan(metrics.f1[i]), metrics.f1[i], i))


def csv_row(name: str, metrics: ClassMetrics, i: int) -> tuple:
    return (name, int(metrics.support[i]), *(f"{getattr(metrics, c)[i]:.6f}" for c in COLUMNS))


def class_row(name: str, metrics: ClassMetrics, i: int) -> str:
    cells = "".join(f"<td>{bar(getattr(metrics, column)[i])}</td>" for column in COLUMNS)
    support = f"<td>{int(metrics.support[i]):,}</td>"
    return f'<tr><th scope="row">{html.escape(name)}</th>{support}{cells}</tr>'


def macro_row(metrics: ClassMetrics) -> str:
    means = macro(metrics)
    cells = "".join(f"<td>{number(means[column])}</td>" for column in COLUMNS)
    return f'<tr><th scope="row">Mean of classes</th><td></td>{cells}</tr>'


def bar(value: float) -> str:
    width = 0.0 if math.isnan(value) else 100 * value
    return (
        f'<div class="vd-bar"><span class="vd-track"><i style="width: {width:.1f}%"></i></span>'
        f"<b>{number(value)}</b></div>"
    )


def number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"
