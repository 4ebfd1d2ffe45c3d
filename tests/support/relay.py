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
        self._sockets: list[socket.socket] = []  # the listener, and both ends of each connection
        self._lock = threading.Lock()

    def start(self, server: str) -> None:
        """Accept connections, and pass them on to the address `server`."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self._sockets = [listener]
        arguments = (listener, urlsplit(server).port)
        threading.Thread(target=self._accept, args=arguments, daemon=True).start()

    def stop(self) -> None:
        """End all connections, and refuse new ones."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listener: socket.socket, port: int) -> None:
        with suppress(OSError):  # the listener or the server was closed
            while True:
                client = self._keep(listener, listener.accept()[0])
                server = self._keep(listener, socket.create_connection(("127.0.0.1", port)))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=_copy, args=pair, daemon=True).start()

    def _keep(self, listener: socket.socket, end: socket.socket) -> socket.socket:
        """Remember one end of a connection. Closes it and raises `OSError` after `stop`."""
        with self._lock:
            if listener in self._sockets:
                self._sockets.append(end)
                return end
        end.close()
        raise OSError("the relay was stopped")


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(BUFFER_BYTES):
            target.sendall(content)
        target.shutdown(socket.SHUT_WR)
