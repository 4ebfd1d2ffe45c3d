"""Start `app.py` as a person does, in a process of its own, and wait until it answers."""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).parents[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serve(
    *arguments: str,
    cwd: Path = ROOT,
    by_variable: bool = False,
    seconds: float = 120,
    variables: dict[str, str] | None = None,
) -> Iterator[str]:
    """The address of a page started with `arguments` in `cwd`; the process ends with the block.

    `by_variable` gives the port as gradio's own GRADIO_SERVER_PORT in place of `--port`.
    """
    port = free_port()
    command = [sys.executable, str(ROOT / "app.py"), "--device", "cpu", *arguments]
    command += [] if by_variable else ["--port", str(port)]
    variables = (variables or {}) | ({"GRADIO_SERVER_PORT": str(port)} if by_variable else {})
    with started(command, port, cwd, variables, seconds) as address:
        yield address


@contextmanager
def slowed(address: str, stream_seconds: float) -> Iterator[str]:
    """The same page with its stream of answers so much later than everything else."""
    port = free_port()
    script = Path(__file__).with_name("slow_stream.py")
    command = [sys.executable, str(script), address, str(port), str(stream_seconds)]
    with started(command, port, ROOT, {}, 120) as other:
        yield other


@contextmanager
def started(
    command: list[str], port: int, cwd: Path, variables: dict[str, str], seconds: float
) -> Iterator[str]:
    """The address that `command` answers on, within `seconds`; it ends with the block."""
    # A proxy of the machine must not stand between a test and its own page.
    environment = os.environ | {"NO_PROXY": "127.0.0.1,localhost", "HF_HUB_OFFLINE": "1"}
    environment |= variables
    with tempfile.TemporaryFile() as log:  # a pipe that nobody reads would stop the page
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}/"
            _wait(address, process, seconds, log)
            yield address
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait(address: str, process: subprocess.Popen, seconds: float, log: BinaryIO) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            log.seek(0)
            raise RuntimeError(f"The server left: {log.read().decode()}")
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.2)
    raise RuntimeError(f"The server did not answer within {seconds} s")
