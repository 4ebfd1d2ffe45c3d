"""Start `app.py` in a separate process and wait until it responds."""

import importlib
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import BinaryIO
from unittest.mock import patch

ROOT = Path(__file__).parents[2]
# Tests connect to their page directly, even if the machine uses a proxy. A page gets one thread,
# since two processes run tests at the same time.
ENVIRONMENT = {"NO_PROXY": "127.0.0.1,localhost", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serve(
    *arguments: str,
    cwd: Path = ROOT,
    by_variable: bool = False,
    seconds: float = 300,
    variables: dict[str, str] | None = None,
    program: str = "app",
) -> Iterator[str]:
    """Start a page with `arguments` in `cwd` and yield its address; it ends with the block.

    With `by_variable`, the page is started as a user starts it, with GRADIO_SERVER_PORT instead of
    `--port`. Otherwise it is forked from a process that has already imported all libraries, which
    saves nine seconds of CPU time per page. Then another module, `program`, can start the page.

    The environment `variables` of a fork are set after these imports.
    """
    port = free_port()
    options = ["--device", "cpu", *arguments]
    if by_variable:
        command = [sys.executable, str(ROOT / "app.py"), *options]
        variables = (variables or {}) | {"GRADIO_SERVER_PORT": str(port)}
        with run_server(command, port, cwd, variables, seconds) as address:
            yield address
    else:
        options += ["--port", str(port)]
        with run_forked_app(options, port, cwd, seconds, program, variables) as address:
            yield address


@contextmanager
def run_forked_app(
    options: list[str],
    port: int,
    cwd: Path,
    seconds: float,
    program: str = "app",
    variables: dict[str, str] | None = None,
) -> Iterator[str]:
    """Run `program.main(options)` in a fork and yield its address within `seconds`."""
    with tempfile.NamedTemporaryFile() as log:
        process = start_fork(program, options, Path(log.name), cwd, variables)
        try:
            yield _wait_for_response(port, lambda: process.exitcode, seconds, log)
        finally:
            process.terminate()
            process.join(timeout=30)
        check_no_traceback(log)


def start_fork(
    program: str,
    options: list[str],
    log: Path,
    cwd: Path = ROOT,
    variables: dict[str, str] | None = None,
) -> multiprocessing.Process:
    """Start `PROGRAM.main(options)` in a separate process that prints into `log`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.preloaded"])
    # Python before 3.11.10 does not pass the module search path to the fork server.
    with patch.dict(os.environ, ENVIRONMENT | {"PYTHONPATH": str(ROOT)}):
        forkserver.ensure_running()
    arguments = (program, options, str(log), str(cwd), variables or {})
    process = context.Process(target=_run_program, args=arguments)
    process.start()
    return process


def _run_program(
    program: str, options: list[str], log: str, cwd: str, variables: dict[str, str]
) -> None:
    os.environ |= variables
    os.chdir(cwd)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.exit(importlib.import_module(program).main(options))


@contextmanager
def serve_delayed(address: str, stream_seconds: float) -> Iterator[str]:
    """Yield an address of the same page whose response stream is delayed by `stream_seconds`."""
    port = free_port()
    script = Path(__file__).with_name("slow_stream.py")
    command = [sys.executable, str(script), address, str(port), str(stream_seconds)]
    with run_server(command, port, ROOT, {}, 300) as delayed_address:
        yield delayed_address


@contextmanager
def run_server(
    command: list[str], port: int, cwd: Path, variables: dict[str, str], seconds: float
) -> Iterator[str]:
    """Start `command` and yield its address within `seconds`; the process ends with the block."""
    environment = os.environ | ENVIRONMENT | variables
    with tempfile.TemporaryFile() as log:  # a pipe that is never read would block the page
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=log, stderr=log)
        try:
            yield _wait_for_response(port, process.poll, seconds, log)
        finally:
            process.terminate()
            process.wait(timeout=30)
        check_no_traceback(log)


def check_no_traceback(log: BinaryIO) -> None:
    """Raise `AssertionError` if `log` has a traceback, because the page itself may not show it."""
    log.seek(0)
    text = log.read().decode(errors="replace")
    assert "Traceback" not in text, f"The server failed: {text[text.index('Traceback') :][:5000]}"


def _wait_for_response(
    port: int, ended: Callable[[], int | None], seconds: float, log: BinaryIO
) -> str:
    """Wait for a response on `port` and return its address. Raises `RuntimeError` on a timeout."""
    address = f"http://127.0.0.1:{port}/"
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if ended() is not None:
            log.seek(0)
            raise RuntimeError(f"The server ended: {log.read().decode()}")
        try:
            with urllib.request.urlopen(address, timeout=5):
                return address
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.2)
    raise RuntimeError(f"The server did not respond within {seconds} s")
