"""The panel "Upload a model" of the tab Train."""

from types import SimpleNamespace

import pytest
import torch

from tests.support.factories import CONVNET, VIT, make_run
from tests.support.foreign_checkpoints import write_checkpoint
from tests.support.hub import serve_hub
from vitdemo import runs
from vitdemo.context import AppContext
from vitdemo.errors import JobError, ModelError
from vitdemo.page import state_keys as keys
from vitdemo.page.training import upload
from vitdemo.page.view_state import ViewState
from vitdemo.runs.opened_model import open_model

CPU = torch.device("cpu")


@pytest.fixture
def context(tmp_path, monkeypatch) -> AppContext:
    """Return a context with two runs with weights, a run without weights, and an opened model."""
    monkeypatch.setenv("HF_TOKEN", "hf_for_tests")
    make_run(tmp_path / "runs" / "vit", VIT)
    make_run(tmp_path / "runs" / "conv", CONVNET)
    runs.weights_path(make_run(tmp_path / "runs" / "results").path).unlink()
    opened = open_model(f"local:{write_checkpoint(tmp_path / 'opened')}")
    return AppContext([tmp_path / "runs"], None, CPU, [opened])


def request_from(host: str, **headers: str) -> SimpleNamespace:
    return SimpleNamespace(
        client=SimpleNamespace(host=host), headers={"host": "localhost:7860", **headers}
    )


def upload_run(context, name: str, repository: str, report=lambda *_: None) -> dict:
    values = {keys.UPLOADED_RUN.name: name, keys.REPOSITORY.name: repository}
    return upload.upload_run(context, ViewState(None, "", values), report)


def test_upload_reports_progress_and_the_address(context, monkeypatch):
    monkeypatch.setattr(upload, "current_request", lambda: request_from("127.0.0.1"))
    files, reports = {}, []
    with serve_hub(monkeypatch, files):
        found = upload_run(context, "vit", " me/my-vit ", lambda *each: reports.append(each))
    assert reports == [(0, 0, "Uploading me/my-vit …")]
    assert found["repository"] == "me/my-vit" and found["address"].endswith("/me/my-vit")
    assert set(files) == {"README.md", "config.json", "model.safetensors"}
    with pytest.raises(ModelError, match="Write USER/NAME"):
        upload_run(context, "vit", "")
    for name in ("", "local:opened", "results"):
        with pytest.raises(ModelError, match="No run has weights"):
            upload_run(context, name, "me/my-vit")


def test_menu_has_the_runs_with_weights(context):
    chosen = upload.payload(context, ViewState(None, "")).controls[keys.UPLOADED_RUN.name]
    assert chosen["props"]["groups"] == [("Models", ["conv", "vit"])]
    assert chosen["value"] == "conv"


@pytest.mark.parametrize(
    "request_", [request_from("10.0.0.7"), request_from("127.0.0.1", **{"x-forwarded-for": "a"})]
)
def test_requests_from_other_computers_are_rejected(context, monkeypatch, request_):
    monkeypatch.setattr(upload, "current_request", lambda: request_)
    files = {}
    with serve_hub(monkeypatch, files), pytest.raises(JobError, match="only from the computer"):
        upload_run(context, "vit", "me/my-vit")
    assert files == {}
