"""Local server with the part of the Hub's protocol that downloads and uploads need."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RESOLVE_PATH = "resolve/main/"


class HubHandler(BaseHTTPRequestHandler):
    """Handler of files by name, with ETags and ranges as on the Hub; `limit` truncates a body.

    `refusal` is (status, error code) of all answers, for example of a gated repository. `missing`
    names repositories that do not exist.
    """

    files: dict[str, bytes]
    requests: list[str]
    refusal: tuple[int, str] | None = None
    missing: tuple[str, ...] = ()
    limit: int | None = None
    pause = 0.0  # seconds after each MiB, until `hurry` is set
    hurry = threading.Event()

    def do_HEAD(self):
        self.respond(body=False)

    def do_GET(self):
        self.respond(body=True)

    def respond(self, body: bool) -> None:
        content = self.files.get(self.path.partition(RESOLVE_PATH)[2])
        is_missing = self.path.startswith(tuple(f"/{name}/" for name in self.missing))
        if self.refusal or content is None or is_missing:
            self.refuse(*(self.refusal or (404, "EntryNotFound")))
            return
        start = int((self.headers.get("Range") or "bytes=0-")[6:].partition("-")[0])
        self.requests.append(f"{self.command} {start}")
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if body:
            end = len(content) if self.limit is None else start + self.limit
            for offset in range(start, min(end, len(content)), 2**20):
                self.wfile.write(content[offset : min(offset + 2**20, end)])
                self.hurry.wait(self.pause)

    def refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        """Accept a new repository, and a commit whose files come in the request."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.requests.append(f"POST {self.path}")
        if self.refusal:
            self.refuse(*self.refusal)
        elif "/preupload/" in self.path:
            names = [entry["path"] for entry in json.loads(body)["files"]]
            modes = {"uploadMode": "regular", "shouldIgnore": False}
            self.answer({"files": [{"path": name} | modes for name in names]})
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    value = line["value"]
                    self.files[value["path"]] = base64.b64decode(value["content"])
            repository = self.path.removeprefix("/api/models/").partition("/commit/")[0]
            commit = {"commitUrl": f"{self.address}/{repository}/commit/{40 * '0'}"}
            self.answer(commit | {"commitOid": 40 * "0"})
        elif self.path.endswith("/validate-yaml"):  # of the model card
            self.answer({"errors": [], "warnings": []})
        else:
            repository = json.loads(body)
            owner = repository.get("organization", "me")
            self.answer({"url": f"{self.address}/{owner}/{repository['name']}"})

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, content: dict) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@contextmanager
def serve_hub(monkeypatch, files: dict[str, bytes], **options):
    """Serve a Hub with these files and yield the list of its requests."""
    requests = []
    handler = type("Handler", (HubHandler,), {"files": files, "requests": requests, **options})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    try:
        yield requests
    finally:
        server.shutdown()
        server.server_close()
