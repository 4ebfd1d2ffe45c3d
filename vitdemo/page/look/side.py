"""The section "Side by side" of Look: several models on one picture, under the same controls."""

from collections.abc import Sequence

import gradio as gr

from vitdemo.explorer.side import KINDS, Panel, one_of_each_family, side_by_side
from vitdemo.metrics import top_k
from vitdemo.page.components import maps
from vitdemo.page.components.maps import Maps, Row
from vitdemo.page.look.tab import Look
from vitdemo.runs import Run

OWN_ANSWER = "the predicted class of each"
INTRO = (
    "The same picture through several models, at the same share of their depth: 100 % is the last "
    "layer of each. A convolutional model has no attention; it is shown with Grad-CAM, which "
    "depends on the class. Each map is scaled to its own maximum, so colours compare places within "
    "a map, not models with each other."
)


def build(look: Look) -> None:
    """Lay out and wire the section."""
    found = look.workbench.explained_runs()
    gr.Markdown(INTRO)
    chosen = gr.CheckboxGroup(
        [run.name for run in found],
        value=[run.name for run in one_of_each_family(found)],
        label="Models",
        elem_id="side-models",
    )
    with gr.Row():
        kind = gr.Radio(
            [(title, name) for name, title in KINDS.items()],
            value="attention",
            label="Map",
            min_width=300,
        )
        depth = gr.Slider(0, 100, 100, step=5, label="Depth, % of the layers", min_width=300)
        target = gr.Dropdown(
            [OWN_ANSWER, *class_names(found)],
            value=OWN_ANSWER,
            label="Class, for relevance and Grad-CAM",
            filterable=True,
            min_width=300,
        )
    view = Maps(elem_id="side-by-side")

    def draw(image, _, names, kind, depth, target):
        known = [run.name for run in look.workbench.explained_runs()]
        panels, problems = side_by_side(
            look.workbench,
            [name for name in known if name in names],
            image,
            depth=depth / 100,
            kind=kind,
            target=None if target == OWN_ANSWER else target,
        )
        return row(panels, problems)

    look.linked |= {"map": kind, "depth": depth, "class": target}
    look.add("side", draw, [chosen, kind, depth, target], [view])


def class_names(runs: Sequence[Run]) -> list[str]:
    """Every class that one of the runs knows, once, in the order of the runs."""
    return list(dict.fromkeys(name for run in runs for name in run.classes))


def row(panels: list[Panel], problems: list[str]) -> Row | str:
    """A column for each model, and a sentence for each that has none."""
    if not panels:
        return " ".join(problems) or "Choose a model above."
    return Row([column(panel) for panel in panels], sentence=" ".join(problems))


def column(panel: Panel) -> maps.Panel:
    """What the model predicts above its map."""
    answer = panel.answer
    indices, shares = top_k(answer.probabilities, 3)
    likely = zip(indices, shares, strict=True)
    return maps.Panel(
        panel.title,
        panel.values,
        answer.seen,
        f"{answer.run.name}: {panel.title}",
        head=answer.run.name,
        lines=[", ".join(f"{answer.run.classes[i]} {100 * p:.1f} %" for i, p in likely)],
        caption=panel.caption,
    )
