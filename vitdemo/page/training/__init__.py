"""The tab Train: form for a new training run, and training curves of the chosen runs."""

from functools import partial
from pathlib import Path

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.jobs import JobQueue
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.feature import Payload
from vitdemo.page.kit import LIGHT_QUEUE, Controls, add_download_button
from vitdemo.page.training import (
    curves,
    image_across_epochs,
    results,
    run_choice,
    train_model,
    upload,
)
from vitdemo.page.view_state import ViewState
from vitdemo.report import get_report_name, render_report

CURVES_TITLE = "Training progress"
SAVE_REPORT_LABEL = "Save report (HTML)"


def build(
    context: AppContext,
    controls: Controls,
    jobs: JobQueue | None,
    *,
    local_only: bool,
) -> None:
    """Lay out the tab, and add its controls to `controls`.

    With `jobs`, users can start training runs in the tab. `local_only` means that the page is bound
    to localhost; then runs can be uploaded to the Hub.
    """
    train_model.build(context, controls, jobs)
    add_view("no_model", elem_id="no-runs")
    gr.Markdown(f"## {CURVES_TITLE}", elem_id="training-title")
    run_choice.build(context, controls)
    curves.build(controls)
    if jobs is not None:
        image_across_epochs.build(controls)
    add_view(results.VIEW, elem_id="learning")

    def write_report(folder: Path, selected: list[str]) -> str:
        found = context.list_runs()[0]
        shown = run_choice.choose_runs(found, ViewState(None, "", {keys.CURVE_RUNS.name: selected}))
        text = render_report(shown, order=[run.name for run in found])
        path = folder / get_report_name(shown)
        path.write_text(text, encoding="utf-8")
        return str(path)

    chosen = controls[keys.CURVE_RUNS.name]
    with gr.Row(elem_classes="vd-filters"):
        add_download_button(SAVE_REPORT_LABEL, "report", write_report, [chosen], LIGHT_QUEUE)
    if local_only:
        upload.build(context)


def make_payloads(jobs: JobQueue | None) -> dict[str, Payload]:
    """Return the payload functions of the tab; without `jobs`, the page cannot train."""
    payloads = {
        run_choice.VIEW: partial(run_choice.payload, jobs),
        curves.VIEW: curves.payload,
        results.VIEW: results.payload,
    }
    if jobs is None:
        return payloads
    return payloads | {
        train_model.JOBS_VIEW: partial(train_model.jobs_payload, jobs),
        train_model.LIVE_VIEW: partial(train_model.live_payload, jobs),
        image_across_epochs.VIEW: partial(image_across_epochs.payload, jobs),
    }
