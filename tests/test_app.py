"""The page through `gradio_client`, as a script would use it; and app.py's command line."""

import base64
import gc
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

import app
from tests.factories import noise
from tests.serving import serve
from vitdemo.analyses.class_maps import compute_class_maps
from vitdemo.data.image_files import crop_visible_square

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the client's websockets
IMAGE = noise(size=(80, 60))


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
    found = {run["name"]: run["test_accuracy"] for run in client.predict(api_name="/runs")}
    assert set(found) == {"vit", "timm", "resnet"}  # the damaged one is named on the page
    assert found["vit"] == pytest.approx(0.975)


INVALID_FILES = ("cat.jpg", "http://localhost/cat.jpg", 5, ["cat.jpg"], {}, {"path": "cat.jpg"})


@pytest.mark.parametrize("endpoint", ["/classify", "/attention", "/maps", "/why"])
@pytest.mark.parametrize("sent", [*INVALID_FILES, None])
def test_endpoint_error_explains_how_to_send_an_image(client, endpoint, sent):
    more = {"/attention": ("vit", 1, "mean", 0.0), "/maps": ("vit",), "/why": ("vit", "", "")}
    with pytest.raises(AppError, match=r"send gradio_client\.handle_file\(path\)"):
        client.predict(sent, *more.get(endpoint, ()), api_name=endpoint)


@pytest.mark.parametrize("path", ["/etc/hostname", 5])
def test_server_path_is_rejected_with_the_same_error(page_url, path):
    sent = {"data": [{"path": path, "meta": {"_type": "gradio.FileData"}}]}
    call = f"{page_url}gradio_api/call/classify"
    number = httpx.post(call, json=sent).json()["event_id"]
    told = httpx.get(f"{call}/{number}", timeout=60).text
    assert "event: error" in told and "send gradio_client.handle_file(path)" in told


def test_concurrent_why_requests_return_maps_of_their_model_and_class(page_url, photo, shown):
    jobs = {}
    for name in ("vit", "timm", "resnet"):
        client = Client(page_url, verbose=False)
        for target, against in (("cat", "dog"), ("ship", "")):
            asked = name, target, against
            jobs[asked] = client.submit(photo, *asked, api_name="/why")
    for (name, target, against), job in jobs.items():
        found, run, square = (
            job.result(timeout=120),
            shown.find_run(name),
            crop_visible_square(IMAGE),
        )
        wanted = compute_class_maps(shown, run, square, target=target, against=against or None).maps
        assert found["class"] == (f"{target} and not {against}" if against else target)
        assert list(found["maps"]) == [drawn.method.name for drawn in wanted]
        for drawn in wanted:
            assert np.allclose(found["maps"][drawn.method.name], drawn.values, atol=1e-4)
    with pytest.raises(AppError, match="'vit' has no class 'unicorn'"):
        client.predict(photo, "vit", "unicorn", "", api_name="/why")


def test_no_endpoint_bypasses_the_queue(client, page_url):
    """Neither what has a name, nor what only the page itself asks for."""
    functions = [each for each in client.config["dependencies"] if each["backend_fn"]]
    assert len(functions) > 50
    for name, number in (("runs", None), *(("predict", each["id"]) for each in functions)):
        body = {"data": [], "fn_index": number}
        told = httpx.post(f"{page_url}gradio_api/run/{name}", json=body)
        assert told.status_code == 404 and "join the queue" in told.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("vit", 9, "mean", 0.0), "Choose 1 to 3"),
        (("nope", 1, "mean", 0.0), "There is no run 'nope'"),
    ],
)
def test_invalid_arguments_return_an_error_message(client, photo, arguments, words):
    with pytest.raises(AppError, match=words):
        client.predict(photo, *arguments, api_name="/attention")


@pytest.mark.parametrize("name", ["text.png", "moving.gif", "page.svg"])
def test_file_that_is_no_image_is_rejected_with_a_message(client, tmp_path, name):
    (tmp_path / name).write_text("hello")
    with pytest.raises(AppError, match=f"'{name}' is not an image"):
        client.predict(handle_file(tmp_path / name), api_name="/classify")
    with pytest.raises(AppError, match="No image was sent"):
        client.predict(None, api_name="/classify")


def test_data_url_is_checked_like_an_uploaded_file(client, tmp_path):
    def classified(content: bytes) -> dict:
        url = "data:image/png;base64," + base64.b64encode(content).decode()
        picture = {"path": None, "url": url, "meta": {"_type": "gradio.FileData"}}
        return client.predict(picture, api_name="/classify")

    Image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    good = (tmp_path / "red.png").read_bytes()
    assert set(classified(good)) == {"vit", "timm", "resnet"}
    with pytest.raises(AppError, match="is not an image"):
        classified(good[:16] + struct.pack(">II", 100_000, 100_000) + good[24:])


def test_unknown_device_exits_with_an_error_message(capsys):
    assert app.main(["--device", "abacus"]) == 2
    assert "choose auto, cuda, mps or cpu" in capsys.readouterr().err


def test_console_escapes_characters_outside_its_encoding(monkeypatch):
    streams = [io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True) for _ in range(2)]
    for name, stream in zip(("stdout", "stderr"), streams, strict=True):
        monkeypatch.setattr(sys, name, stream)
    assert app.main(["--device", "猫"]) == 2
    print("猫")
    assert [b"\\u732b" in stream.buffer.getvalue() for stream in streams] == [True, True]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_port_in_use_exits_with_an_error_message(page_url, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        app, "release_freed_memory", lambda: None
    )  # which would go on for all tests
    monkeypatch.setattr(app, "is_local_only", lambda args: False)  # nor look for jobs
    port = page_url.rstrip("/").rsplit(":", 1)[1]
    here = ["--runs", str(tmp_path), "--data", str(tmp_path / "none"), "--device", "cpu"]
    assert app.main(["--port", port, *here]) == 2
    assert port in capsys.readouterr().err
    gc.collect()  # event loops that gradio made and left open, while this test is there to bear it


def test_page_without_runs_responds_on_gradio_server_port(tmp_path):
    nothing = ("--runs", str(tmp_path / "no-runs"), "--data", str(tmp_path / "no-data"))
    with serve(*nothing, by_variable=True) as address:
        client = Client(address, verbose=False)
        assert client.predict(api_name="/runs") == []
        header = client.config["components"][0]["props"]["value"]
    assert "python train.py vit-small-cpu" in json.loads(header["text"])["problems"][0]
