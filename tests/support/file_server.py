"""A plain file server, which sends the files of an exported site."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class QuietHandler(SimpleHTTPRequestHandler):
    """Handler of files that prints no requests."""

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def serve_files(folder: Path, handler_class: type[QuietHandler] = QuietHandler) -> Iterator[str]:
    """Serve the files of `folder` until the block ends, and yield the address."""
    handler = partial(handler_class, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
