"""Relay between a browser and a server, which can be stopped and started like the server itself."""

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

from tests.support.serving import free_port

BUFFER_BYTES = 65536


class Relay:
    """Passes the connections to `address` on to the server that `start` names."""

    def __init__(self):
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}/"
        self._sockets: list[socket.socket] = []

    def start(self, server: str) -> None:
        """Accept connections, and pass them on to the address `server`."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self._sockets = [listener]
        arguments = (listener, urlsplit(server).port)
        threading.Thread(target=self._accept, args=arguments, daemon=True).start()

    def stop(self) -> None:
        """End all connections, and refuse new ones."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listener: socket.socket, port: int) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                client = listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", port))
                self._sockets += client, server
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=_copy, args=pair, daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(BUFFER_BYTES):
            target.sendall(content)
        target.shutdown(socket.SHUT_WR)
