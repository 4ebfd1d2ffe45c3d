"""The panel "Upload a model": a run becomes a repository of the Hugging Face Hub.

The panel exists only on a page bound to localhost, and answers only requests from this computer,
because it uploads with the token of this computer's user.
"""

from collections.abc import Iterator

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.errors import JobError, ModelError, VitdemoError
from vitdemo.page.components.run_choice import RunChoice, update_run_choices
from vitdemo.page.feature import PageSetup
from vitdemo.page.gradio_patches import current_request
from vitdemo.page.kit import NO_PROGRESS, REFRESH_EVENT, is_local_request, show_user_errors
from vitdemo.runs import Run
from vitdemo.runs.timm_run import TimmRun

TITLE = "Upload a model"
INTRO = (
    "Creates a repository on the [Hugging Face Hub](https://huggingface.co) with the weights, the "
    "labels and a model card. Log in first: `hf auth login`."
)
MODEL_LABEL, NAME_LABEL, PRIVATE_LABEL = "Model to upload", "Repository", "Private repository"
BUTTON_LABEL = "Upload model"
DONE = "Uploaded: [{address}]({address}). To open it: `python app.py --model hf-hub:{repository}`"
NO_RUN_MESSAGE = "No run has weights. Train a model first."
NOT_LOCAL_MESSAGE = "Models can be uploaded only from the computer that runs this page."
MAX_NAME_LENGTH = 200
UPLOAD_QUEUE = {"concurrency_id": "uploads of models", "concurrency_limit": 1}


def build(setup: PageSetup) -> None:
    with gr.Accordion(TITLE, open=False, elem_id="upload-model") as panel:
        gr.Markdown(INTRO)
        model = RunChoice(label=MODEL_LABEL, elem_id="upload-run")
        name = gr.Textbox(
            label=NAME_LABEL,
            placeholder="USER/NAME",
            max_length=MAX_NAME_LENGTH,
            elem_id="upload-name",
        )
        private = gr.Checkbox(label=PRIVATE_LABEL, value=True, elem_id="upload-private")
        button = gr.Button(BUTTON_LABEL, size="sm", elem_id="upload-start")
        status = gr.Markdown(elem_id="upload-status")

    def refresh(chosen: str | None) -> dict:
        return update_run_choices(list_uploadable_runs(setup.context), chosen)[0]

    @show_user_errors
    def upload(chosen: str | None, repository: str, is_private: bool) -> Iterator[str]:
        try:
            yield from upload_run(setup.context, chosen, repository, is_private=bool(is_private))
        except VitdemoError:
            yield ""  # removes the progress next to the message
            raise

    panel.expand(refresh, model, model, **REFRESH_EVENT)
    inputs = [model, name, private]
    button.click(upload, inputs, status, **NO_PROGRESS, **UPLOAD_QUEUE)


def list_uploadable_runs(context: AppContext) -> list[Run]:
    """Return the runs with weights and classes, without third-party models."""
    return [run for run in context.classifier_runs() if not isinstance(run, TimmRun)]


def upload_run(
    context: AppContext, name: str | None, repository: str, *, is_private: bool
) -> Iterator[str]:
    """Upload the run `name` and yield the state as Markdown.

    Raises `JobError` for requests from other computers, and `VitdemoError` if the upload fails.
    """
    if not is_local_request(current_request()):
        raise JobError(NOT_LOCAL_MESSAGE)
    # Imported here, because few sessions upload a model.
    from vitdemo.publishing.repository import check_repository_name, push_run

    repository = (repository or "").strip()
    check_repository_name(repository)
    run = next((run for run in list_uploadable_runs(context) if run.name == name), None)
    if run is None:
        raise ModelError(NO_RUN_MESSAGE)
    yield f"Uploading {repository} …"
    address = push_run(run, repository, private=is_private)
    yield DONE.format(address=address, repository=repository)
