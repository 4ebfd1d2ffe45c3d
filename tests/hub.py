"""A server here that speaks as much of the Hugging Face Hub's protocol as a download needs."""

import hashlib
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RESOLVE_PATH = "resolve/main/"


class HubHandler(BaseHTTPRequestHandler):
    """Files by name, with ETag and ranges as the Hub gives them; `limit` ends an answer early, and
    it pauses after each MiB until it is to hurry."""

    files: dict[str, bytes]
    asked: list[str]
    limit: int | None = None
    pause = 0.0
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
        self.asked.append(f"{self.command} {start}")
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
            for at in range(start, min(end, len(content)), 2**20):
                self.wfile.write(content[at : min(at + 2**20, end)])
                self.hurry.wait(self.pause)

    def log_message(self, *words):
        pass


@contextmanager
def serve_hub(monkeypatch, files: dict[str, bytes], **options):
    """A Hub with these files; gives the list of what it is asked for."""
    asked = []
    handler = type("Handler", (HubHandler,), {"files": files, "asked": asked, **options})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()
