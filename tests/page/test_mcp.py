"""API endpoints as tools of an MCP server (`app.py --mcp`)."""

import ast
import base64
import importlib.util
import inspect
import io
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import gradio as gr
import pytest
from gradio.utils import get_function_description, get_type_hints
from gradio_client import Client, handle_file

from tests.support.factories import noise
from tests.support.loops import call_in_loop, run_coroutine
from tests.support.serving import serve
from vitdemo.cli import app
from vitdemo.page.api import register_endpoints

ENDPOINTS = {"runs", "classify", "attention", "maps", "why", "metrics"}


@pytest.fixture
def launched(monkeypatch, tmp_path):
    """Return a function that runs app.py and returns its exit code and the options of `launch`."""
    options = {}
    page = SimpleNamespace(queue=lambda **_: None, launch=lambda **given: options.update(given))
    for name in ("release_freed_memory", "start_preloading"):
        monkeypatch.setattr(app, name, lambda: None)
    monkeypatch.setattr(app, "is_local_only", lambda args: False)
    monkeypatch.setattr(app, "build_page", lambda *given, **named: page)

    def run(*arguments: str) -> tuple[int, dict]:
        options.clear()
        return app.main(["--runs", str(tmp_path), "--device", "cpu", *arguments]), dict(options)

    return run


def test_mcp_server_is_started_only_on_request(launched, monkeypatch):
    module = ModuleType("mcp")
    module.__spec__ = ModuleSpec("mcp", loader=None)
    monkeypatch.setitem(sys.modules, "mcp", module)
    code, options = launched("--mcp")
    assert code == 0 and options["mcp_server"] is True
    code, options = launched()
    assert code == 0 and options["mcp_server"] is None  # gradio then reads GRADIO_MCP_SERVER


def test_missing_package_is_named(launched, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert launched("--mcp") == (2, {})
    message = "app.py: --mcp needs the package mcp: install it with `pip install 'gradio[mcp]'`"
    assert capsys.readouterr().err.startswith(message)
    assert launched()[0] == 0


def test_endpoints_describe_themselves_to_agents(shown):
    """Agents see the name, the docstring and the parameters of a function."""

    def build():
        with gr.Blocks() as page:
            register_endpoints(shown)
        return page

    page = call_in_loop(build)
    assert {function.api_name for function in page.fns.values()} == ENDPOINTS
    for function in page.fns.values():
        assert function.fn.__name__ == function.api_name
        description, parameters, _ = get_function_description(function.fn)
        assert len(description.split()) >= 15
        assert all(parameters.values()), (function.api_name, parameters)
        types = get_type_hints(function.fn)
        assert set(types) == {*inspect.signature(function.fn).parameters, "return"}


@pytest.fixture(scope="module")
def mcp_url(shown_runs, tmp_path_factory):
    """Address of a page over `shown_runs` with an MCP server."""
    if importlib.util.find_spec("mcp") is None:
        pytest.skip("the package mcp is not installed")
    missing = tmp_path_factory.mktemp("data") / "none"
    with serve("--runs", str(shown_runs), "--data", str(missing), "--mcp") as address:
        yield address


def use_tools(address: str, use):
    """Return the result of the coroutine `use(session)` with a session of the MCP client."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async def connect():
        async with (
            streamablehttp_client(f"{address}gradio_api/mcp/") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            return await use(session)

    return run_coroutine(connect())


def call_tool(address: str, name: str, **arguments) -> tuple[bool, str]:
    """Return whether a tool reports an error, and its text."""
    result = use_tools(address, lambda session: session.call_tool(name, arguments))
    return result.isError, result.content[0].text


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    noise(size=(80, 60)).save(path)
    return path


def encode_data_url(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode()


pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the MCP client and gradio
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_only_the_named_endpoints_are_tools(mcp_url):
    tools = use_tools(mcp_url, lambda session: session.list_tools()).tools
    assert {tool.name for tool in tools} == ENDPOINTS
    required = {tool.name: set(tool.inputSchema.get("required", ())) for tool in tools}
    assert required["why"] == required["attention"] == {"picture", "run"}
    client = Client(mcp_url, verbose=False)
    private = [f["api_name"] for f in client.config["dependencies"] if f["backend_fn"]]
    private = {name for name in private if name and name not in ENDPOINTS}
    assert private
    for name in sorted(private)[:3]:
        is_error, text = call_tool(mcp_url, name)
        assert is_error and "Unknown tool" in text


def test_tools_return_the_results_of_the_endpoints(mcp_url, photo):
    client = Client(mcp_url, verbose=False)
    image = encode_data_url(photo.read_bytes())
    for name, arguments in {
        "runs": {},
        "classify": {"picture": image},
        "attention": {"picture": image, "run": "vit", "layer": 2},
        "why": {"picture": image, "run": "vit", "target": "cat"},
        "metrics": {"run": "vit"},
    }.items():
        is_error, text = call_tool(mcp_url, name, **arguments)
        assert not is_error, text
        arguments |= {"picture": handle_file(photo)} if "picture" in arguments else {}
        assert ast.literal_eval(text) == client.predict(**arguments, api_name=f"/{name}")


def test_tool_writes_a_file_that_can_be_downloaded(mcp_url, photo):
    import httpx
    import numpy as np

    image = encode_data_url(photo.read_bytes())
    is_error, address = call_tool(mcp_url, "maps", picture=image, run="vit")
    assert not is_error
    with np.load(io.BytesIO(httpx.get(address).content)) as arrays:
        assert "README.txt" in arrays.files


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("metrics", {"run": "nope"}, "There is no run 'nope'"),
        ("attention", {"run": "vit", "layer": 9}, "Choose 1 to 3"),
        ("why", {"run": "vit", "target": "unicorn"}, "'vit' has no class 'unicorn'"),
        ("classify", {"picture": "/etc/hostname"}, "Invalid file data format"),
        ("classify", {"picture": "http://127.0.0.1:9/cat.jpg"}, "not a public address"),
        ("classify", {"picture": encode_data_url(b"no image")}, "is not an image"),
    ],
)
def test_invalid_arguments_return_the_reason(mcp_url, photo, name, arguments, message):
    if name in ("attention", "why"):
        arguments = arguments | {"picture": encode_data_url(photo.read_bytes())}
    is_error, text = call_tool(mcp_url, name, **arguments)
    assert is_error and message in text
