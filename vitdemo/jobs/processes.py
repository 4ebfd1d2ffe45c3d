"""Training processes, which continue after their parent has ended.

A process is identified by its number and its start time, because numbers are reused.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

import psutil

from vitdemo.training.stopping import FINISH_SIGNAL

IS_SUPPORTED = FINISH_SIGNAL is not None
# Lower priority than the page: a quarter of the CPU time when both are busy. The process stays in
# the page's session, because Linux first divides the CPU time between sessions.
TRAINING_NICENESS = 5
# Limit how long waiting OpenMP threads spin. Without a limit, the preset "first-steps" hardly
# advances when other processes use the cores. On two idle cores, training runs at 12.8 steps per
# second with the limit and 12.4 without it. If waiting threads sleep immediately, training runs at
# only 8.5 steps per second.
OPENMP_ENV = {"GOMP_SPINCOUNT": "20000"}
# A separate process group, so that Ctrl-C in the page's terminal does not reach the process.
GROUP = {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}


class ProcessId(TypedDict):
    """Process number, and start time in seconds since 1970."""

    pid: int
    created: float


def launch_process(command: list[str], folder: Path, log: Path) -> ProcessId:
    """Start `command` in `folder`, with its output in the file `log`."""
    with open(log, "ab") as output:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=os.environ | OPENMP_ENV,
            **GROUP,
        )
    process = psutil.Process(started.pid)  # the process id stays valid until `wait` returns
    process.nice(min(19, process.nice() + TRAINING_NICENESS))
    identity = ProcessId(pid=process.pid, created=process.create_time())
    # Without a call of `wait`, the ended process would remain as a zombie.
    threading.Thread(target=started.wait, daemon=True).start()
    return identity


def is_alive(process_id: ProcessId) -> bool:
    return _find_process(process_id) is not None


def send_signal(process_id: ProcessId, number: int) -> None:
    if process := _find_process(process_id):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def kill_process(process_id: ProcessId) -> None:
    """Kill a process and its group, and wait up to ten seconds until it has ended."""
    if process := _find_process(process_id):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        psutil.wait_procs([process], timeout=10)


def _find_process(process_id: ProcessId) -> psutil.Process | None:
    """Return the process, or None if it has ended or the id has no start time (older versions)."""
    try:
        process = psutil.Process(process_id["pid"])
        is_same = process.create_time() == process_id.get("created")
        return process if is_same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None
