"""The page through `gradio_client`, as a script would use it; and app.py's command line."""

import base64
import gc
import json
import struct
from urllib.request import Request, urlopen

import numpy as np
import pytest
import torch
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image

import app
from tests.making import CLASSES
from tests.serving import serve
from vitdemo.class_maps import maps
from vitdemo.inputs import visible_square
from vitdemo.workbench import Workbench

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the client's websockets


@pytest.fixture(scope="module")
def client(page_url):
    return Client(page_url, verbose=False)


@pytest.fixture(scope="module")
def alone(shown_runs):
    return Workbench([shown_runs], None, torch.device("cpu"))


@pytest.fixture(scope="module")
def image():
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture
def photo(tmp_path, image):
    image.save(tmp_path / "photo.png")
    return handle_file(tmp_path / "photo.png")


def test_named_endpoints_alone_are_public_and_runs_are_listed(client):
    named = client.view_api(return_format="dict")["named_endpoints"]
    assert set(named) == {"/runs", "/classify", "/attention", "/maps", "/why", "/metrics"}
    found = {run["name"]: run["test_accuracy"] for run in client.predict(api_name="/runs")}
    assert set(found) == {"vit", "timm", "resnet"}  # the damaged one is named on the page
    assert found["vit"] == pytest.approx(0.975)


def test_classify_gives_every_models_probabilities(client, photo, alone, image):
    answer = client.predict(photo, api_name="/classify")
    assert set(answer) == {"vit", "timm", "resnet"}
    assert list(answer["vit"]) == list(CLASSES)
    wanted = alone.answer(alone.run("vit"), image).probabilities
    assert list(answer["vit"].values()) == pytest.approx(wanted.tolist(), abs=1e-5)


def test_why_gives_several_at_once_the_maps_of_their_model_and_class(page_url, photo, alone, image):
    jobs = {}
    for name in ("vit", "timm", "resnet"):
        client = Client(page_url, verbose=False)
        for target, against in (("cat", "dog"), ("ship", "")):
            asked = name, target, against
            jobs[asked] = client.submit(photo, *asked, api_name="/why")
    for (name, target, against), job in jobs.items():
        found, run, square = job.result(timeout=120), alone.run(name), visible_square(image)
        wanted = maps(alone, run, square, target=target, against=against or None).maps
        assert found["class"] == (f"{target} and not {against}" if against else target)
        assert list(found["maps"]) == [drawn.method.name for drawn in wanted]
        for drawn in wanted:
            assert np.allclose(found["maps"][drawn.method.name], drawn.values, atol=1e-4)
    with pytest.raises(AppError, match="'vit' has no class 'unicorn'"):
        client.predict(photo, "vit", "unicorn", "", api_name="/why")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("vit", 9, "mean", 0.0), "choose 1 to 3"),
        (("nope", 1, "mean", 0.0), "There is no run 'nope'"),
        (("resnet", 1, "mean", 0.0), "no Vision Transformer"),
    ],
)
def test_bad_requests_are_told_in_words(client, photo, arguments, words):
    with pytest.raises(AppError, match=words):
        client.predict(photo, *arguments, api_name="/attention")


def test_no_picture_is_told_in_words(client):
    with pytest.raises(AppError, match="No picture was sent"):
        client.predict(None, api_name="/classify")


@pytest.mark.parametrize("name", ["text.png", "empty.jpg", "page.svg", "moving.gif"])
def test_what_is_no_picture_is_refused_in_a_sentence(client, tmp_path, name):
    content = {"empty.jpg": b"", "moving.gif": b"GIF89a", "page.svg": b"<svg></svg>"}
    (tmp_path / name).write_bytes(content.get(name, b"hello"))
    with pytest.raises(AppError, match=name.replace(".", r"\.")):
        client.predict(handle_file(tmp_path / name), api_name="/classify")


def classify_data_url(page_url, content: bytes) -> str:
    """What `/classify` streams back for a picture that is sent as a data URL."""
    url = "data:image/png;base64," + base64.b64encode(content).decode()
    picture = {"path": None, "url": url, "meta": {"_type": "gradio.FileData"}}
    endpoint = f"{page_url}gradio_api/call/classify"
    headers = {"Content-Type": "application/json"}
    body = json.dumps({"data": [picture]}).encode()
    with urlopen(Request(endpoint, body, headers), timeout=60) as reply:
        event = json.load(reply)["event_id"]
    with urlopen(f"{endpoint}/{event}", timeout=60) as stream:
        return stream.read().decode()


def test_a_data_url_passes_the_same_check(page_url, tmp_path):
    Image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    good = (tmp_path / "red.png").read_bytes()
    assert "event: complete" in classify_data_url(page_url, good)
    huge = good[:16] + struct.pack(">II", 100_000, 100_000) + good[24:]
    refused = classify_data_url(page_url, huge)
    assert "event: error" in refused
    assert "complete" not in refused


def test_unknown_device_ends_with_a_sentence(capsys):
    assert app.main(["--device", "abacus"]) == 2
    assert "choose auto, cuda, mps or cpu" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_taken_port_ends_with_a_sentence(page_url, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(app, "give_back_memory", lambda: None)  # which would go on for all tests
    monkeypatch.setattr(app, "serves_this_machine_alone", lambda args: False)  # nor look for jobs
    port = page_url.rstrip("/").rsplit(":", 1)[1]
    here = ["--runs", str(tmp_path), "--data", str(tmp_path / "none"), "--device", "cpu"]
    assert app.main(["--port", port, *here]) == 2
    assert port in capsys.readouterr().err
    gc.collect()  # event loops that gradio made and left open, while this test is there to bear it


def test_the_empty_page_answers_on_gradios_own_port_variable(tmp_path):
    nothing = ("--runs", str(tmp_path / "no-runs"), "--data", str(tmp_path / "no-data"))
    with serve(*nothing, by_variable=True) as address:
        client = Client(address, verbose=False)
        assert client.predict(api_name="/runs") == []
        header = client.config["components"][0]["props"]["value"]
    assert "python train.py vit-small-cpu" in header["problems"][0]
