"""Processes that continue after their parent has ended, identified by pid and start time.

Linux and macOS only. The `mark` of a process consists of the boot id and its start time. The mark
differs from the marks of all other processes that ever have the same pid.
"""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TypedDict

IS_SUPPORTED = hasattr(signal, "SIGSTOP") and hasattr(os, "killpg")
TRAINING_NICENESS = 10  # gives the page priority over a training process
SESSION_NICENESS = 5  # under full load, a third of the CPU time of another session
RELEASED_LINE = "--- released"  # first line of the output of a released process
# The shell waits for a line on stdin until the pid is recorded in job.json, so that no unrecorded
# process runs. If the parent dies before the release, `read` fails at the end of the file. SIGUSR1
# (stop and evaluate, see training.stopping) must not kill the process before train.py handles this
# signal. Linux first divides CPU time between sessions, so the niceness of the session is also set.
WAIT_SCRIPT = (
    f'trap "" USR1; (echo {SESSION_NICENESS} > /proc/self/autogroup) 2> /dev/null; '
    f'read -r _ && {{ echo "{RELEASED_LINE}"; exec nice -n {TRAINING_NICENESS} "$@"; }}'
)
# Limit how long waiting OpenMP threads spin. Without a limit, the preset "first-steps" hardly
# advances when other processes use the cores. On two idle cores, training takes 12.8 steps per
# second with the limit and 12.4 without it. With threads that sleep at once, training takes only
# 8.5 steps per second.
OPENMP_ENV = {"GOMP_SPINCOUNT": "20000"}
GONE, SUSPENDED, RUNNING = "gone", "held", "alive"
BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


class ProcessId(TypedDict):
    """Process number, and a mark that distinguishes it from later processes with this number."""

    pid: int
    mark: str


def launch_process(
    command: list[str], folder: Path, log: Path
) -> tuple[subprocess.Popen, ProcessId]:
    """Start `command` in `folder`, with output in `log`; it then waits for `release_process`."""
    with open(log, "ab") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", WAIT_SCRIPT, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=os.environ | OPENMP_ENV,
            start_new_session=True,
        )
    mark, _ = _process_status(process.pid)
    return process, {"pid": process.pid, "mark": mark}


def release_process(process: subprocess.Popen) -> None:
    process.stdin.write(b"\n")
    process.stdin.close()
    # Without a call of `wait`, the ended process would remain as a zombie.
    threading.Thread(target=process.wait, daemon=True).start()


def process_state(process_id: ProcessId) -> str:
    """Return the state of a process: `GONE`, `SUSPENDED` (by SIGSTOP) or `RUNNING`."""
    mark, letter = _process_status(process_id["pid"])
    if not mark or mark != process_id["mark"] or letter in "ZX":
        return GONE
    return SUSPENDED if letter in "Tt" else RUNNING


def send_signal(process_id: ProcessId, number: int) -> bool:
    """Send a signal to a process (SIGKILL: to its group); return False if the process has ended."""
    if process_state(process_id) == GONE:
        return False
    try:
        (os.killpg if number == signal.SIGKILL else os.kill)(process_id["pid"], number)
    except ProcessLookupError:
        return False
    return True


def kill_process(process_id: ProcessId, seconds: float = 10) -> None:
    """Kill a process and wait up to `seconds` until it has ended."""
    deadline = time.monotonic() + seconds
    while send_signal(process_id, signal.SIGKILL) and time.monotonic() < deadline:
        time.sleep(0.02)


def _process_status(pid: int) -> tuple[str, str]:
    """Return (mark, state letter) of a process, or ("", "X") if it does not exist."""
    if not BOOT_ID_FILE.exists():
        return _status_from_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        fields = stat.rpartition(")")[2].split()  # the process name before ")" is arbitrary
        return f"{BOOT_ID_FILE.read_text().strip()} {fields[19]}", fields[0]
    except (OSError, IndexError):
        return "", "X"


def _status_from_ps(pid: int) -> tuple[str, str]:
    fields = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True
    ).stdout.split()
    return (" ".join(fields[1:]), fields[0][0]) if fields else ("", "X")
