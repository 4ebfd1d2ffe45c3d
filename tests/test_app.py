"""The page through `gradio_client`, as a script would use it; and app.py's command line."""

import base64
import json
import struct
import subprocess
import sys
from urllib.request import Request, urlopen

import numpy as np
import pytest
import torch
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image

import app
from tests.making import CLASSES
from tests.serving import ROOT, serve
from vitdemo.class_maps import maps
from vitdemo.inputs import load_image, visible_square
from vitdemo.runs import read_run
from vitdemo.workbench import Workbench

CPU = torch.device("cpu")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the client's websockets


@pytest.fixture(scope="module")
def client(page_url):
    return Client(page_url, verbose=False)


@pytest.fixture
def photo(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return handle_file(tmp_path / "photo.png")


def test_only_named_endpoints_are_public(client):
    named = client.view_api(return_format="dict")["named_endpoints"]
    assert set(named) == {"/runs", "/classify", "/attention", "/maps", "/why", "/metrics"}


def test_runs_are_listed(client):
    found = {run["name"]: run for run in client.predict(api_name="/runs")}
    assert set(found) == {"vit", "timm", "resnet"}  # the damaged one is named on the page
    assert found["vit"]["test_accuracy"] == pytest.approx(0.975)


def test_classify_gives_every_models_probabilities(client, photo, shown_runs, tmp_path):
    answer = client.predict(photo, api_name="/classify")
    assert set(answer) == {"vit", "timm", "resnet"}
    assert list(answer["vit"]) == list(CLASSES)
    run = read_run(shown_runs / "vit")
    alone = Workbench([shown_runs], None, CPU).answer(run, load_image(tmp_path / "photo.png"))
    assert list(answer["vit"].values()) == pytest.approx(alone.probabilities.tolist(), abs=1e-5)


def test_attention_maps_have_the_models_shape(client, photo):
    maps = client.predict(photo, "vit", 2, "mean", 0.0, api_name="/attention")
    heads = np.array(maps["heads"])
    assert heads.shape == (2, 4, 4)
    assert np.allclose(heads.mean(0), maps["mean"])
    assert 0 < np.sum(maps["rollout"]) < 1  # the class token keeps a share of its own


def test_all_maps_come_as_one_file(client, photo):
    with np.load(client.predict(photo, "vit", api_name="/maps")) as maps:
        assert maps["attention"].shape == (3, 2, 17, 17)
        assert b"(3, 2, 17, 17)" in maps["README.txt"]


def test_why_gives_the_maps_of_a_class(client, photo, shown_runs, tmp_path):
    found = client.predict(photo, "vit", "cat", "dog", api_name="/why")
    workbench = Workbench([shown_runs], None, CPU)
    image = visible_square(load_image(tmp_path / "photo.png"))
    alone = maps(workbench, workbench.run("vit"), image, target="cat", against="dog")
    assert found["class"] == "cat and not dog"
    assert list(found["maps"]) == [m.method.name for m in alone.maps]
    for drawn in alone.maps:
        assert np.allclose(found["maps"][drawn.method.name], drawn.values, atol=1e-4)
    with pytest.raises(AppError, match="'vit' has no class 'unicorn'"):
        client.predict(photo, "vit", "unicorn", "", api_name="/why")


def test_two_clients_with_different_models_get_their_own_maps(page_url, photo):
    asked = {"vit": (4, 4), "timm": (4, 4), "resnet": (8, 8)}
    clients = {name: Client(page_url, verbose=False) for name in asked}
    jobs = {
        (name, seed): clients[name].submit(photo, name, target, "", api_name="/why")
        for seed, target in enumerate(("cat", "ship"))
        for name in asked
    }
    found = {key: job.result(timeout=120) for key, job in jobs.items()}
    for (name, seed), answer in found.items():
        assert answer["class"] == ("cat", "ship")[seed]
        assert np.array(answer["maps"]["occlusion"]).shape == asked[name]
        again = clients[name].predict(photo, name, answer["class"], "", api_name="/why")
        assert again == answer
    assert found["vit", 0]["maps"]["occlusion"] != found["timm", 0]["maps"]["occlusion"]


def test_metrics_are_those_of_the_evaluation(client):
    metrics = client.predict("vit", api_name="/metrics")
    assert metrics["classes"]["cat"]["recall"] == pytest.approx(0.75)
    assert metrics["classes"]["dog"]["precision"] == pytest.approx(20 / 25)
    low, high = metrics["classes"]["cat"]["recall_interval"]
    assert low < 0.75 < high
    assert metrics["accuracy"] == metrics["weighted"]["recall"] == pytest.approx(0.975)


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


def test_no_picture_is_told_in_words(client):
    with pytest.raises(AppError, match="No picture was sent"):
        client.predict(None, api_name="/classify")


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


def test_a_taken_port_ends_with_a_sentence(page_url):
    port = page_url.rstrip("/").rsplit(":", 1)[1]
    command = [sys.executable, "app.py", "--port", port, "--device", "cpu"]
    left = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert left.returncode == 2
    assert "Traceback" not in left.stderr
    assert port in left.stderr


def test_the_empty_page_answers_on_gradios_own_port_variable(tmp_path):
    nothing = ("--runs", str(tmp_path / "no-runs"), "--data", str(tmp_path / "no-data"))
    with serve(*nothing, by_variable=True) as address:
        client = Client(address, verbose=False)
        assert client.predict(api_name="/runs") == []
        header = client.config["components"][0]["props"]["value"]
    assert "python train.py vit-small-cpu" in header["problems"][0]
