"""The tab Train: form for a new training run, and training curves of the chosen runs."""

from functools import partial
from pathlib import Path

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.jobs import JobQueue
from vitdemo.page.bridge import add_view
from vitdemo.page.feature import Feature, PageSetup, merge_features
from vitdemo.page.kit import add_download_button
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


TAB_ID, TITLE = "training", "Train"


def write_report(context: AppContext, state: ViewState, folder: Path) -> Path:
    """Write the report of the chosen runs. Raises `RunError` if no run is chosen."""
    found = context.list_runs()[0]
    shown = run_choice.choose_runs(found, state)
    text = render_report(shown, order=[run.name for run in found])
    path = folder / get_report_name(shown)
    path.write_text(text, encoding="utf-8")
    return path


FEATURE = merge_features(
    [curves.FEATURE, results.FEATURE, Feature(downloads={"report": write_report})]
)


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
    with gr.Row(elem_classes="vd-filters"):
        add_download_button("Save report (HTML)", "report", "report")
        add_view("export_menu", elem_id="training-export")
    features = [FEATURE, make_feature(setup.jobs)]
    if setup.local_only:
        upload.build(setup)
        features.append(upload.FEATURE)
    return merge_features(features)


def make_feature(jobs: JobQueue | None) -> Feature:
    """Return the functions that depend on the training jobs of the page."""
    runs = Feature({run_choice.VIEW: partial(run_choice.payload, jobs)})
    if jobs is None:
        return runs
    images = Feature({image_across_epochs.VIEW: partial(image_across_epochs.payload, jobs)})
    return merge_features([runs, images, train_model.make_feature(jobs)])
