"""The section "Side by side" of Look: several models on one picture, under the same controls."""

from collections.abc import Callable, Sequence

import gradio as gr

from vitdemo import figures
from vitdemo.evaluation import top_k
from vitdemo.explorer.side import KINDS, Panel, one_of_each_family
from vitdemo.runs import Run
from vitdemo.ui import html
from vitdemo.ui.look.drawing import display_side
from vitdemo.ui.look.shared import Shared

OWN_ANSWER = "what each model itself says"
INTRO = (
    "The same picture through several models, at the same share of their depth: 100 % is the last "
    "layer of each. A convolutional model has no attention; it is shown with Grad-CAM, which "
    "depends on the class. Each map is scaled to its own maximum, so colours compare places within "
    "a map, not models with each other."
)
SIDE = 384  # of each map, in pixels


def build(
    shared: Shared,
    *,
    runs: Callable[[], list[Run]],
    side_by_side: Callable[..., tuple[list[Panel], list[str]]],
) -> None:
    """Lay out and wire the section; `side_by_side(names, image, depth=, kind=, target=)`."""
    found = runs()
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
    view = gr.HTML(elem_id="side-by-side", apply_default_css=False)

    def draw(image, _, names, kind, depth, target):
        known = [run.name for run in runs()]
        panels, problems = side_by_side(
            [name for name in known if name in names],
            image,
            depth=depth / 100,
            kind=kind,
            target=None if target == OWN_ANSWER else target,
        )
        return panels_html(panels, problems)

    shared.linked |= {"map": kind, "depth": depth, "class": target}
    settings = [chosen, kind, depth, target]
    shared.when_drawn("side", draw, settings, [view])
    shared.when_changed("side", draw, settings, [view])


def class_names(runs: Sequence[Run]) -> list[str]:
    """Every class that one of the runs knows, once, in the order of the runs."""
    return list(dict.fromkeys(name for run in runs for name in run.classes))


def panels_html(panels: list[Panel], problems: list[str]) -> str:
    """A column for each model, and a line for each that has none."""
    if not panels and not problems:
        return html.notice("Choose a model above.")
    return f'<div class="vd-side">{"".join(map(panel_html, panels))}</div>' + html.notices(problems)


def panel_html(panel: Panel) -> str:
    answer, values = panel.answer, panel.values
    side = display_side(len(answer.seen), SIDE)
    indices, shares = top_k(answer.probabilities, 3)
    bars = html.probability_bars([answer.run.classes[i] for i in indices], shares)
    picture = figures.overlay(answer.seen, values, side, opacity=0.6)
    figure = html.figure(
        picture,
        f"{answer.run.name}: {panel.title}",
        panel.title,
        panel.caption,
        html.number_grid(values / max(values.sum(), 1e-12), "Shares of the map, in percent"),
    )
    return f"<section><h3>{html.escape(answer.run.name)}</h3>{bars}{figure}</section>"
