"""The panel "Upload a model": a run becomes a repository of the Hugging Face Hub.

The panel uploads with the token of this computer's user. It therefore exists only on a page bound
to localhost, and accepts only requests from this computer.
"""

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.errors import JobError, ModelError
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.components.run_choice import RunChoice, choose_run, describe_run_choices
from vitdemo.page.feature import Feature, PageSetup, Report, ViewData
from vitdemo.page.gradio_patches import current_request
from vitdemo.page.kit import is_local_request
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "upload"
INTRO = (
    "Creates a repository on the [Hugging Face Hub](https://huggingface.co) with the weights, the "
    "labels and a model card. Log in first: `hf auth login`."
)
NO_RUN_MESSAGE = "No run has weights. Train a model first."
NOT_LOCAL_MESSAGE = "Models can be uploaded only from the computer that runs this page."


def build(setup: PageSetup) -> None:
    with gr.Accordion("Upload a model", open=False, elem_id="upload-model"):
        gr.Markdown(INTRO)
        setup.controls.add(keys.UPLOADED_RUN, RunChoice)
        setup.controls.add(keys.REPOSITORY, gr.Textbox, placeholder="USER/NAME", max_length=200)
        setup.controls.add(keys.IS_PRIVATE, gr.Checkbox)
        add_view(VIEW, elem_id="upload-status")


@needs(keys.UPLOADED_RUN)
def payload(context: AppContext, state: ViewState) -> ViewData:
    """Return the runs to choose from."""
    runs, wanted = list_uploadable_runs(context), state[keys.UPLOADED_RUN]
    choices = describe_run_choices(runs, choose_run(runs, wanted), wanted)
    return ViewData({}, {keys.UPLOADED_RUN.name: choices})


def list_uploadable_runs(context: AppContext) -> list[Run]:
    """Return the runs with weights and classes, without third-party models."""
    return [run for run in context.classifier_runs() if run.has_folder]


def upload_run(context: AppContext, state: ViewState, report: Report) -> dict:
    """Upload the chosen run; return the repository and its address. A task of the bridge.

    Raises `JobError` for requests from other computers, and `VitdemoError` if the upload fails.
    """
    if not is_local_request(current_request()):
        raise JobError(NOT_LOCAL_MESSAGE)
    # Imported here, because few sessions upload a model.
    from vitdemo.publishing.repository import check_repository_name, push_run

    repository, name = state[keys.REPOSITORY].strip(), state[keys.UPLOADED_RUN]
    check_repository_name(repository)
    run = next((run for run in list_uploadable_runs(context) if run.name == name), None)
    if run is None:
        raise ModelError(NO_RUN_MESSAGE)
    report(0, 0, f"Uploading {repository} …")
    address = push_run(run, repository, private=state[keys.IS_PRIVATE])
    return {"repository": repository, "address": address}


FEATURE = Feature({VIEW: payload}, {VIEW: upload_run})
