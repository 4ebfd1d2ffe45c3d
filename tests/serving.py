"""Start `app.py` in a process of its own, and wait until it answers."""

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

ROOT = Path(__file__).parents[1]
# A proxy of the machine must not stand between a test and its own page.
ENVIRONMENT = {"NO_PROXY": "127.0.0.1,localhost", "HF_HUB_OFFLINE": "1"}


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

    With `variables` of its environment, or where `by_variable` gives the port as gradio's own
    GRADIO_SERVER_PORT in place of `--port`, it is started as a person does. All others are forked
    from a process that has imported `app` already, which saves five seconds of a core each.
    """
    port = free_port()
    options = ["--device", "cpu", *arguments]
    options += [] if by_variable else ["--port", str(port)]
    variables = (variables or {}) | ({"GRADIO_SERVER_PORT": str(port)} if by_variable else {})
    if variables:
        command = [sys.executable, str(ROOT / "app.py"), *options]
        with started(command, port, cwd, variables, seconds) as address:
            yield address
    else:
        with forked(options, port, cwd, seconds) as address:
            yield address


@contextmanager
def forked(options: list[str], port: int, cwd: Path, seconds: float) -> Iterator[str]:
    """The address that `app.main(options)` answers on, within `seconds`."""
    with tempfile.NamedTemporaryFile() as log:
        process = fork("app", options, Path(log.name), cwd)
        try:
            yield _wait(port, lambda: process.exitcode, seconds, log)
        finally:
            process.terminate()
            process.join(timeout=30)
        no_failure(log)


def fork(
    program: str,
    options: list[str],
    log: Path,
    cwd: Path = ROOT,
    variables: dict[str, str] | None = None,
) -> multiprocessing.Process:
    """`PROGRAM.main(options)`, under way in a process of its own that prints into `log`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["app"])
    # Python before 3.11.10 does not tell it where this process finds its modules.
    with patch.dict(os.environ, ENVIRONMENT | {"PYTHONPATH": str(ROOT)}):
        forkserver.ensure_running()
    arguments = (program, options, str(log), str(cwd), variables or {})
    process = context.Process(target=_main, args=arguments)
    process.start()
    return process


def _main(program: str, options: list[str], log: str, cwd: str, variables: dict[str, str]) -> None:
    os.environ |= variables
    os.chdir(cwd)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.exit(importlib.import_module(program).main(options))


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
    environment = os.environ | ENVIRONMENT | variables
    with tempfile.TemporaryFile() as log:  # a pipe that nobody reads would stop the page
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=log, stderr=log)
        try:
            yield _wait(port, process.poll, seconds, log)
        finally:
            process.terminate()
            process.wait(timeout=30)
        no_failure(log)


def no_failure(log: BinaryIO) -> None:
    """Raises `AssertionError` where `log` tells of an error that nobody caught: the page goes on
    after one, and shows nothing of it but what it lacks."""
    log.seek(0)
    told = log.read().decode(errors="replace")
    assert "Traceback" not in told, f"The server failed: {told[told.index('Traceback') :][:5000]}"


def _wait(port: int, ended: Callable[[], int | None], seconds: float, log: BinaryIO) -> str:
    """The address of what answers on `port`. Raises `RuntimeError` where nothing does."""
    address = f"http://127.0.0.1:{port}/"
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ended() is not None:
            log.seek(0)
            raise RuntimeError(f"The server left: {log.read().decode()}")
        try:
            with urllib.request.urlopen(address, timeout=5):
                return address
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.2)
    raise RuntimeError(f"The server did not answer within {seconds} s")
