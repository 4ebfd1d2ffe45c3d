"""Start `app.py` as a person does, in a process of its own, and wait until it answers."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serve(*arguments: str, seconds: float = 120) -> Iterator[str]:
    """The address of a page started with `arguments`; the process ends with the block."""
    port = free_port()
    command = [sys.executable, "app.py", "--port", str(port), "--device", "cpu", *arguments]
    # A proxy of the machine must not stand between a test and its own page.
    environment = os.environ | {"NO_PROXY": "127.0.0.1,localhost", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        address = f"http://127.0.0.1:{port}/"
        _wait(address, process, seconds)
        yield address
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _wait(address: str, process: subprocess.Popen, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"app.py left: {process.stdout.read().decode()}")
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.2)
    raise RuntimeError(f"app.py did not answer within {seconds} s")
