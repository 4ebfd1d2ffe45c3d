"""What an ingredient buys: the runs beside one of them, setting by setting."""

from collections.abc import Callable

import gradio as gr

from vitdemo import figures
from vitdemo.errors import VitdemoError
from vitdemo.explorer.compare import model_rows
from vitdemo.explorer.ingredients import Ablation, Gain, ablation_of, ablations, conclusion
from vitdemo.figures import charts
from vitdemo.metrics.paired import SIGNIFICANT, p_words
from vitdemo.page import html
from vitdemo.page.compare.export import exports
from vitdemo.page.components.run_choice import RunChoice, grouped
from vitdemo.page.kit import QUIET
from vitdemo.page.metrics.tables import explanations, signed
from vitdemo.predictions import predictions
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

INTRO = (
    "## What an ingredient buys: the ablation\nEach run beside one of them: what differs in their "
    "recipes, and how many more of the same test pictures come out right."
)
WORDS = {
    "Gain, points": "Test accuracy less that of the first row, in percentage points. Where one "
    "setting differs it is that setting's, with this seed; where several do, of all together.",
    "95 % interval": "Of the gain, by what other test pictures could have said; what another seed "
    "of the training would change is not in it.",
    "p (Holm)": "McNemar's test on the pictures that one of the two alone gets right, corrected "
    f"for the {{count}} comparisons shown here; below {SIGNIFICANT:g} it is more than chance "
    "explains.",
    "Validation gain": "The same on the validation pictures, in points: what an ingredient would "
    "be chosen by, and what the rows are ordered by. The test pictures choose nothing.",
    "What differs": "Every setting that decided the training and differs: as it is in the "
    "first row's run, then here.",
}
HEADER = ["Run", "Test accuracy (%)", *WORDS]
SIGNS = f"● better, ■ worse, ○ could be chance: p (Holm) is not below {SIGNIFICANT:g}."
NOTHING = "No run has been tested yet: nothing to compare."
ALONE = "No other run was tested on the same pictures."


def ablation(workbench: Workbench, name: str) -> Ablation:
    """All comparable runs beside `name`. Raises `RunError` without a sound evaluation of it."""
    base, group = workbench.run(name), predictions(workbench, name)
    others = [run for run in group.runs if run.name != name]
    return workbench.cache.of(ablation_of, base, others, group.left_out)


def bases(workbench: Workbench) -> list[Run]:
    """The tested runs in the order in which another may stand beside them.

    Bases of ablations come first, that of the largest before all; then the plainest run (the
    lowest accuracy).
    """
    found = {run.name: run for run in workbench.evaluated_runs()}
    groups = ablations(found.values())
    plainest = [found[row.name] for row in reversed(model_rows(workbench)) if row.tested]
    return sorted(plainest, key=lambda run: -len(groups.get(run.name, ())))


def build(
    tab: gr.Tab,
    *,
    tested: Callable[[], list[Run]],
    ablation: Callable[[str], Ablation],
) -> None:
    """Lay out and wire the section of `tab`.

    `tested` gives the runs that can be compared, the first one to begin with; `ablation` sets the
    others beside one of them.
    """
    gr.Markdown(INTRO)
    base = RunChoice(label="Beside", info="the run without the ingredient", elem_id="gains-base")
    table = gr.HTML(elem_id="gains", apply_default_css=False)

    def draw(name):
        found = tested()
        names = [run.name for run in found]
        if name not in names:
            name = names[0] if names else None
        update = gr.update(groups=grouped(found), value=name or "")
        return update, ablation_html(ablation, name)

    gr.on([tab.select, base.input], draw, inputs=base, outputs=[base, table], **QUIET)


def ablation_html(ablation: Callable[[str], Ablation], name: str | None) -> str:
    if name is None:
        return html.notice(NOTHING)
    try:
        found = ablation(name)
    except VitdemoError as error:
        return html.notice(str(error))
    if not found.gains:
        return html.notice(ALONE) + html.notices(found.left_out)
    near, told = found.near, "".join(f"<p>{html.escape(w)}</p>" for w in conclusion(found))
    words = {title: text.format(count=len(found.gains)) for title, text in WORDS.items()}
    first = [name, f"{100 * found.accuracy:.2f}", *["–"] * 5]
    texts = [first, *map(row, found.gains)]
    return (
        f"{told}{gains_figure(name, near) if near else ''}"
        f"{html.table(HEADER, texts)}<p>{exports(HEADER, texts, f'beside-{name}')}</p>"
        f"{explanations(words)}{html.notices(found.left_out)}"
    )


def gains_figure(name: str, near: list[Gain]) -> str:
    """What one ingredient or two bought; the numbers stand in the table below it."""
    label = f"Gain in test accuracy beside {name}, with its 95 % interval, by what differs"
    tests, clear = [gain.test for gain in near], [gain.is_clear for gain in near]
    figure = charts.gain_plot([gain.words for gain in near], tests, clear)
    return (
        '<div class="vd-plots"><figure '
        f'aria-label="{html.escape(f"{label}; its numbers are below")}">'
        f"<figcaption>{html.escape(label)}</figcaption>{figures.svg(figure)}"
        f'<p class="vd-quiet">{SIGNS}</p></figure></div>'
    )


def row(gain: Gain) -> list[str]:
    low, high = 100 * gain.test.interval
    return [
        gain.run,
        f"{100 * gain.test.first_accuracy:.2f}",
        signed(100 * gain.test.difference),
        f"{signed(low)} to {signed(high)}",
        p_words(gain.p).removeprefix("p = ").removeprefix("p "),
        "–" if gain.validation is None else signed(100 * gain.validation),
        gain.words or "nothing: the same recipe",
    ]
