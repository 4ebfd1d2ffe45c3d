"""A server of views without gradio in the process of the tests: see `vitdemo.site`."""

import json
import mimetypes
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlsplit

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.page import FEATURE, bridge, build_page
from vitdemo.page.components import NamedFile, serialise_payload
from vitdemo.page.modules import CACHE_HEADERS
from vitdemo.site.controls import list_controls
from vitdemo.site.document import FILES, VERSION, build_document
from vitdemo.site.states import list_images

FILES_URL = f"/files/{VERSION}"


class Site:
    """The views of one context: their documents, and the answers to their requests."""

    def __init__(self, page: gr.Blocks):
        self.places = bridge.list_places(page) | list_controls(page)
        self.description = page.bridge.description
        self.responder = page.bridge.responder
        self._runners: dict[str, bridge.TaskRunner] = {}  # by session
        self._recorded: dict[tuple, dict] = {}  # answers for views of `FEATURE`

    def build_document(self, ids: Sequence[str]) -> str:
        places = {each: self.places[each] for each in filter(None, ids)}
        image = next(iter(list_images()), None)
        settings = {"connection": "server", "places": places, "description": self.description}
        empty = {"tabs": {}, "components": {}}
        return build_document({**settings, "image": image, **empty}, files_url=FILES_URL)

    def runner_of(self, session: str) -> bridge.TaskRunner:
        """Return the runner of a document, since each document counts its tasks from 1."""
        if session not in self._runners:
            tasks = self.responder.runner.tasks
            self._runners[session] = bridge.TaskRunner(self.responder.context, tasks)
        return self._runners[session]

    def answer(self, request: dict) -> dict:
        """Return the answer to a request; the data of a view and its key are computed once.

        Data depend on the runs and on the keys in `needs`, which are the view's key.
        """
        stamp = request["state"].get("models")

        def key_of(view: str) -> tuple:
            return view, request["views"][view], stamp

        found = {
            view: self._recorded[key_of(view)]
            for view in request["views"]
            if key_of(view) in self._recorded
        }
        missing = {view: key for view, key in request["views"].items() if view not in found}
        answer = self.responder.answer(request | {"views": missing})
        if answer["models"] is None:  # the answer is for the models of `stamp`
            self._recorded |= {
                key_of(view): each
                for view, each in answer["views"].items()
                if view in FEATURE.payloads and "data" in each
            }
        return answer | {"views": {**answer["views"], **found}}


class ViewServer(ThreadingHTTPServer):
    """Serves the sites of several contexts by their numbers."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.sites: list[Site] = []
        self.files: dict[str, Callable[[], bytes]] = {}  # of payloads, by name
        self.errors: list[BaseException | None] = []

    def add(self, context: AppContext) -> str:
        """Serve the views of `context`, and return the address of the site."""
        self.sites.append(Site(build_page(context)))
        return f"http://127.0.0.1:{self.server_port}/{len(self.sites) - 1}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Note an error, unless the browser has left the document."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):
            self.errors.append(error)

    def serialise(self, value: object) -> bytes:
        """Return an answer as JSON of `{"text": str, "files": [{"url": str}, ...]}`."""

        def serve(file: NamedFile) -> dict:
            self.files[file.name] = file.make_content
            return {"url": f"/payload/{file.name}"}

        return json.dumps(serialise_payload(value, serve)).encode()


class Handler(BaseHTTPRequestHandler):
    """Answers GET for documents and files, and POST for the events of `vitdemo/site/server.js`."""

    protocol_version = "HTTP/1.1"  # connections are kept
    server: ViewServer

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""

    def send(self, content: bytes, kind: str | None = None, *, is_kept: bool = False) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind or "application/octet-stream")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (CACHE_HEADERS if is_kept else {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        kind = mimetypes.guess_type(path)[0]
        if path.startswith(FILES_URL):
            self.send(FILES[path.removeprefix(f"{FILES_URL}/")], kind, is_kept=True)
        elif path.startswith("/payload/"):
            self.send(self.server.files[path.removeprefix("/payload/")](), kind, is_kept=True)
        elif re.fullmatch(r"/\d+/.*/", path):  # "/number of the site/ids of elements/"
            _, number, ids, _ = path.split("/")
            site = self.server.sites[int(number)]
            self.send(site.build_document(ids.split("+")).encode(), "text/html")
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        path, query = urlsplit(self.path)[2:4]
        _, number, _, _, event = path.split("/")  # "/number/ids/answers/event"
        site = self.server.sites[int(number)]
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if event == "upload":
            path = save_upload(self.headers["name"], content)
            self.send(json.dumps({"path": path}).encode())
        elif event == "start":
            self.send_messages(site.runner_of(query).run(json.loads(content)))
        elif event == "cancel":
            site.runner_of(query).cancel(json.loads(content)["id"])
            self.send(b"{}")
        else:
            responder = site.responder
            handlers = {"ask": site.answer, "act": responder.act, "save": responder.save}
            self.send(self.server.serialise(handlers[event](json.loads(content))))

    def send_messages(self, messages: Iterator[dict]) -> None:
        """Send the messages of a task as lines, whose end closes the connection."""
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        with closing(messages):
            for message in messages:
                self.wfile.write(self.server.serialise(message) + b"\n")


def save_upload(name: str, content: bytes) -> str:
    """Save a file in gradio's folder of uploads, and return its path."""
    folder = gr.utils.get_upload_folder()
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(mkdtemp(dir=folder)) / Path(name).name
    path.write_bytes(content)
    return str(path)


@contextmanager
def serve_views() -> Iterator[ViewServer]:
    """Run a `ViewServer` until the end of the block."""
    with ViewServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
        assert not server.errors, server.errors
