"""The tab Train: form for a new training run, and training curves of the chosen runs."""

from functools import partial
from pathlib import Path

import gradio as gr

from vitdemo.jobs import JobQueue
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.feature import Feature, PageSetup, merge_features
from vitdemo.page.kit import LIGHT_QUEUE, add_download_button
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


TAB_ID, TITLE = "training", "Train"
FEATURE = merge_features([curves.FEATURE, results.FEATURE])


def build(setup: PageSetup) -> Feature:
    """Lay out the tab, and add its controls to `setup.controls`.

    With `jobs`, users can start training runs in the tab. `local_only` means that the page is bound
    to localhost; then runs can be uploaded to the Hub.
    """
    train_model.build(setup)
    add_view("no_model", elem_id="no-runs")
    gr.Markdown(f"## {CURVES_TITLE}", elem_id="training-title")
    run_choice.build(setup)
    curves.build(setup)
    if setup.jobs is not None:
        image_across_epochs.build(setup)
    add_view(results.VIEW, elem_id="learning")

    def write_report(folder: Path, selected: list[str]) -> str:
        found = setup.context.list_runs()[0]
        shown = run_choice.choose_runs(found, ViewState(None, "", {keys.CURVE_RUNS.name: selected}))
        text = render_report(shown, order=[run.name for run in found])
        path = folder / get_report_name(shown)
        path.write_text(text, encoding="utf-8")
        return str(path)

    chosen = setup.controls[keys.CURVE_RUNS.name]
    with gr.Row(elem_classes="vd-filters"):
        add_download_button(SAVE_REPORT_LABEL, "report", write_report, [chosen], LIGHT_QUEUE)
    if setup.local_only:
        upload.build(setup)
    return merge_features([FEATURE, make_feature(setup.jobs)])


def make_feature(jobs: JobQueue | None) -> Feature:
    """Return the functions that depend on the training jobs of the page."""
    payloads = {run_choice.VIEW: partial(run_choice.payload, jobs)}
    if jobs is not None:
        payloads |= {
            train_model.JOBS_VIEW: partial(train_model.jobs_payload, jobs),
            train_model.LIVE_VIEW: partial(train_model.live_payload, jobs),
            image_across_epochs.VIEW: partial(image_across_epochs.payload, jobs),
        }
    return Feature(payloads)
