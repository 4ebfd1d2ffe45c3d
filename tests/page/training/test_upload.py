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
from vitdemo.page.training import upload
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


def test_upload_reports_progress_and_the_address(context, monkeypatch):
    monkeypatch.setattr(upload, "current_request", lambda: request_from("127.0.0.1"))
    files = {}
    with serve_hub(monkeypatch, files):
        shown = list(upload.upload_run(context, "vit", " me/my-vit ", is_private=True))
    assert shown[0] == "Uploading me/my-vit …"
    assert "--model hf-hub:me/my-vit" in shown[1]
    assert set(files) == {"README.md", "config.json", "model.safetensors"}
    with pytest.raises(ModelError, match="Write USER/NAME"):
        list(upload.upload_run(context, "vit", "", is_private=True))
    for name in (None, "local:opened", "results"):
        with pytest.raises(ModelError, match="No run has weights"):
            list(upload.upload_run(context, name, "me/my-vit", is_private=True))


@pytest.mark.parametrize(
    "request_", [request_from("10.0.0.7"), request_from("127.0.0.1", **{"x-forwarded-for": "a"})]
)
def test_requests_from_other_computers_are_rejected(context, monkeypatch, request_):
    monkeypatch.setattr(upload, "current_request", lambda: request_)
    files = {}
    with serve_hub(monkeypatch, files), pytest.raises(JobError, match="only from the computer"):
        list(upload.upload_run(context, "vit", "me/my-vit", is_private=True))
    assert files == {}
