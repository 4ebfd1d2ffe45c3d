"""API endpoints through `gradio_client`, and the command line of app.py."""

import base64
import io
import json
import struct
import sys

import httpx
import numpy as np
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image

from tests.support.factories import noise
from tests.support.loops import call_in_loop
from tests.support.serving import ROOT, free_port, run_server, serve
from vitdemo.analyses.class_attribution import compute_class_attribution
from vitdemo.cli import app
from vitdemo.data.image_files import crop_visible_square

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # in its websockets
IMAGE = noise(size=(80, 60))


@pytest.fixture(scope="module")
def page_url(shown_runs):
    """Address of a page over `shown_runs`, without a dataset."""
    with serve("--runs", str(shown_runs), "--data", str(shown_runs / "none")) as address:
        yield address


@pytest.fixture(scope="module")
def client(page_url):
    return Client(page_url, verbose=False)


@pytest.fixture
def photo(tmp_path):
    IMAGE.save(tmp_path / "photo.png")
    return handle_file(tmp_path / "photo.png")


def test_only_documented_endpoints_are_public_and_runs_are_listed(client):
    named = client.view_api(return_format="dict")["named_endpoints"]
    assert set(named) == {"/runs", "/classify", "/attention", "/maps", "/why", "/metrics"}
    accuracies = {run["name"]: run["test_accuracy"] for run in client.predict(api_name="/runs")}
    assert set(accuracies) == {"vit", "timm", "resnet"}  # the page reports the damaged run
    assert accuracies["vit"] == pytest.approx(0.975)


INVALID_FILES = ("cat.jpg", "http://localhost/cat.jpg", 5, ["cat.jpg"], {}, {"path": "cat.jpg"})


@pytest.mark.parametrize("endpoint", ["/classify", "/attention", "/maps", "/why"])
@pytest.mark.parametrize("value", [*INVALID_FILES, None])
def test_endpoint_error_explains_how_to_send_an_image(client, endpoint, value):
    arguments = {"/attention": ("vit", 1, "mean", 0.0), "/maps": ("vit",), "/why": ("vit", "", "")}
    with pytest.raises(AppError, match=r"Send the image as gradio_client\.handle_file\(path\)"):
        client.predict(value, *arguments.get(endpoint, ()), api_name=endpoint)


@pytest.mark.parametrize("path", ["/etc/hostname", 5])
def test_server_path_is_rejected_with_the_same_error(page_url, path):
    payload = {"data": [{"path": path, "meta": {"_type": "gradio.FileData"}}]}
    url = f"{page_url}gradio_api/call/classify"
    event_id = httpx.post(url, json=payload).json()["event_id"]
    response = httpx.get(f"{url}/{event_id}", timeout=60).text
    assert "event: error" in response and "image as gradio_client.handle_file(path)" in response


def test_concurrent_why_requests_return_maps_of_their_model_and_class(page_url, photo, shown):
    jobs = {}
    for name in ("vit", "timm", "resnet"):
        client = Client(page_url, verbose=False)
        for target, against in (("cat", "dog"), ("ship", "")):
            arguments = name, target, against
            jobs[arguments] = client.submit(photo, *arguments, api_name="/why")
    for (name, target, against), job in jobs.items():
        response, run, image = (
            job.result(timeout=300),
            shown.find_run(name),
            crop_visible_square(IMAGE),
        )
        maps = compute_class_attribution(
            shown, run, image, target=target, against=against or None
        ).maps
        assert response["class"] == (f"{target} and not {against}" if against else target)
        assert list(response["maps"]) == [attribution_map.method.name for attribution_map in maps]
        for attribution_map in maps:
            assert np.allclose(
                response["maps"][attribution_map.method.name], attribution_map.values, atol=1e-4
            )
    with pytest.raises(AppError, match="'vit' has no class 'unicorn'"):
        client.predict(photo, "vit", "unicorn", "", api_name="/why")


def test_no_endpoint_bypasses_the_queue(client, page_url):
    """Test both the named endpoints and the functions that only the page calls."""
    functions = [function for function in client.config["dependencies"] if function["backend_fn"]]
    assert len(functions) > 10
    for name, index in (("runs", None), *(("predict", function["id"]) for function in functions)):
        body = {"data": [], "fn_index": index}
        response = httpx.post(f"{page_url}gradio_api/run/{name}", json=body)
        assert response.status_code == 404 and "join the queue" in response.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vit", 9, "mean", 0.0), "Choose 1 to 3"),
        (("nope", 1, "mean", 0.0), "There is no run 'nope'"),
    ],
)
def test_invalid_arguments_return_an_error_message(client, photo, arguments, message):
    with pytest.raises(AppError, match=message):
        client.predict(photo, *arguments, api_name="/attention")


@pytest.mark.parametrize("name", ["text.png", "moving.gif", "page.svg"])
def test_file_that_is_no_image_is_rejected_with_a_message(client, tmp_path, name):
    (tmp_path / name).write_text("hello")
    with pytest.raises(AppError, match=f"'{name}' is not an image"):
        client.predict(handle_file(tmp_path / name), api_name="/classify")
    with pytest.raises(AppError, match="No image was sent"):
        client.predict(None, api_name="/classify")


def test_data_url_is_checked_like_an_uploaded_file(client, tmp_path):
    def classify(content: bytes) -> dict:
        url = "data:image/png;base64," + base64.b64encode(content).decode()
        image = {"path": None, "url": url, "meta": {"_type": "gradio.FileData"}}
        return client.predict(image, api_name="/classify")

    Image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    png = (tmp_path / "red.png").read_bytes()
    assert set(classify(png)) == {"vit", "timm", "resnet"}
    with pytest.raises(AppError, match="is not an image"):
        classify(png[:16] + struct.pack(">II", 100_000, 100_000) + png[24:])


def test_error_message_escapes_characters_outside_the_encoding(monkeypatch):
    streams = [io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True) for _ in range(2)]
    for name, stream in zip(("stdout", "stderr"), streams, strict=True):
        monkeypatch.setattr(sys, name, stream)
    assert app.main(["--device", "猫"]) == 2
    print("猫")
    assert [b"\\u732b" in stream.buffer.getvalue() for stream in streams] == [True, True]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # gradio's socket
def test_port_in_use_exits_with_an_error_message(page_url, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(app, "release_freed_memory", lambda: None)  # it would outlast this test
    monkeypatch.setattr(app, "is_local_only", lambda args: False)  # and no search for jobs
    port = page_url.rstrip("/").rsplit(":", 1)[1]
    options = ["--runs", str(tmp_path), "--data", str(tmp_path / "none"), "--device", "cpu"]
    assert call_in_loop(app.main, ["--port", port, *options]) == 2
    assert port in capsys.readouterr().err


@pytest.fixture(scope="module")
def fresh_page(tmp_path_factory):
    """Address of a page without runs in a new process, and its imported modules by stage."""
    folder, port = tmp_path_factory.mktemp("fresh"), free_port()
    command = [sys.executable, "-m", "tests.support.import_stages", str(folder / "stages.json")]
    command += ["--runs", str(folder / "no-runs"), "--data", str(folder / "no-data")]
    variables = {"GRADIO_SERVER_PORT": str(port), "PYTHONPATH": str(ROOT)}
    with run_server([*command, "--device", "cpu"], port, folder, variables, 300) as address:
        stages = json.loads((folder / "stages.json").read_text())
        yield address, {stage: set(modules) for stage, modules in stages.items()}
    assert [file.name for file in folder.iterdir()] == ["stages.json"]  # the page writes nothing


def test_training_imports_no_libraries_of_the_page(fresh_page):
    libraries = {"gradio", "captum", "matplotlib", "sklearn", "scipy", "pandas"}
    imported = fresh_page[1]["train"]
    assert "vitdemo.training" in imported and not libraries & imported


def test_libraries_of_later_tabs_are_loaded_after_the_start(fresh_page):
    stages, late = fresh_page[1], set(app.LATE_LIBRARIES)
    assert not late & stages["page"]
    assert late <= stages["late"]


def test_page_without_runs_responds_on_gradio_server_port(fresh_page):
    client = Client(fresh_page[0], verbose=False)
    assert client.predict(api_name="/runs") == []
    header = client.config["components"][0]["props"]["value"]
    assert "python train.py vit-small-cpu" in json.loads(header["text"])["problems"][0]
