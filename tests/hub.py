"""Local server with the part of the Hugging Face Hub's protocol that a download needs."""

import hashlib
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RESOLVE_PATH = "resolve/main/"


class HubHandler(BaseHTTPRequestHandler):
    """Handler of files by name, with ETags and ranges as on the Hub; `limit` truncates a body."""

    files: dict[str, bytes]
    requests: list[str]
    limit: int | None = None
    pause = 0.0  # seconds after each MiB, until `hurry` is set
    hurry = threading.Event()

    def do_HEAD(self):
        self.respond(body=False)

    def do_GET(self):
        self.respond(body=True)

    def respond(self, body: bool) -> None:
        content = self.files.get(self.path.partition(RESOLVE_PATH)[2])
        if content is None:
            self.send_error(404)
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
