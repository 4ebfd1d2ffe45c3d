"""The tab Train: form of a new run, the run in progress, and curves of the chosen runs."""

from functools import partial
from pathlib import Path

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.jobs import JobQueue
from vitdemo.page import state_keys as keys
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

TAB_ID, TITLE = "training", "Train"


def write_report(context: AppContext, state: ViewState, folder: Path) -> Path:
    """Write the report of the chosen runs. Raises `RunError` if no run is chosen."""
    found = context.list_runs()[0]
    shown = run_choice.choose_runs(found, state)
    text = render_report(shown, others=found)
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
    with gr.Row(elem_id="training-columns", equal_height=False):
        train_model.build_form(setup)
        with gr.Column(elem_id="training-shown", min_width=300):
            train_model.build_live_run(setup)
            add_view("no_model", elem_id="no-runs")
            with gr.Column(elem_id="training-curves"):
                build_choices(setup)
                curves.build()
            with gr.Column(elem_id="training-film"):
                image_across_epochs.build(setup)
            train_model.build_other_runs(setup)
    add_view(results.VIEW, elem_id="learning")
    with gr.Row(elem_classes="vd-filters"):
        add_download_button("Save report (HTML)", "report", "report")
        add_view("export_menu", elem_id="training-export")
    features = [FEATURE, make_feature(setup.jobs)]
    if setup.local_only:
        upload.build(setup)
        features.append(upload.FEATURE)
    return merge_features(features)


def build_choices(setup: PageSetup) -> None:
    """Lay out the runs and the axes to choose from."""
    run_choice.build_status()
    with gr.Accordion("Runs and axes", open=False, elem_id="training-choices"):
        run_choice.build(setup)
        with gr.Row(elem_id="training-filters", elem_classes="vd-filters"):
            setup.controls.add(keys.SMOOTHING, gr.Slider, min_width=200)
            setup.controls.add(keys.CURVE_SCALE, gr.Radio, min_width=200)
            setup.controls.add(keys.CURVE_AXIS, gr.Radio, min_width=200)


def make_feature(jobs: JobQueue | None) -> Feature:
    """Return the functions that depend on the training jobs of the page."""
    modules = run_choice, image_across_epochs
    shown = Feature({each.VIEW: partial(each.payload, jobs) for each in modules})
    return shown if jobs is None else merge_features([shown, train_model.make_feature(jobs)])
