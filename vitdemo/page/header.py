"""The page header: name, device, number of models, and warnings about damaged or missing runs.

The script `components/header.js` receives {"summary": str, "problems": [str]}.
"""

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.metrics import format_with_noun
from vitdemo.page.components import View
from vitdemo.page.kit import REFRESH_EVENT
from vitdemo.runs.provenance import device_name


class HeaderView(View):
    """Page header with name, device and problems."""


def build(page: gr.Blocks, context: AppContext) -> None:
    def show() -> dict:
        return header_content(context)

    view = HeaderView(show(), elem_id="header")
    page.load(show, outputs=view, **REFRESH_EVENT)


def header_content(context: AppContext) -> dict:
    """Return the payload of the header, with one sentence per damaged or missing run."""
    found, problems = context.list_runs_and_models()
    trained = sum(run.has_weights for run in found)
    tested = sum(run.has_evaluation for run in found if not run.has_weights)
    models = format_with_noun(trained, "trained model")
    if tested:
        models += f", results of {format_with_noun(tested, 'more run')}"
    if unfinished := len(found) - trained - tested:
        models += f", {format_with_noun(unfinished, 'unfinished run')}"
    if not found:
        places = " or ".join(f"'{root}'" for root in context.roots)
        way_out = (
            f"There are no runs in {places} yet. Train one with `{TRAIN_COMMAND} vit-small-cpu`, "
            "or pass the folder that contains your runs with --runs."
        )
        problems = [*problems, way_out]
    device = f"Runs on {context.device.type.upper()}, {device_name(context.device)}"
    return {"summary": f"{device} · {models}", "problems": problems}
