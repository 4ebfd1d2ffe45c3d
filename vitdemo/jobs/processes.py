"""Processes that outlive whoever started them: known by pid and start, so never taken for another.

Linux and macOS. A `mark` is what tells a process from all others that have, had or will have its
pid: the boot of the machine and the time of its start.
"""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TypedDict

ABLE = hasattr(signal, "SIGSTOP") and hasattr(os, "killpg")
NICENESS = 10  # of a training: the page comes first
SESSION_NICENESS = 5  # a third of another session's share, where both want all that there is
RELEASED = "--- released"  # a line of its output, before all that it says itself
# It waits for a word, so that nothing runs that was not written down: if whoever starts it dies
# before that, `read` meets the end of the file. A wish to keep what there is (see
# training.stopping) that comes before there is something must not kill it. Linux shares the cores
# between sessions first, whatever is nice within one, so its session is made nice as well.
WAIT = (
    f'trap "" USR1; (echo {SESSION_NICENESS} > /proc/self/autogroup) 2> /dev/null; '
    f'read -r _ && {{ echo "{RELEASED}"; exec nice -n {NICENESS} "$@"; }}'
)
# Threads that wait for one that has lost its core must not burn the others for long: beside two
# busy processes "first steps" else stands still. This is long enough to wait for threads that all
# run: alone it trains as fast as without (12.8 and 12.4 steps a second; two cores), while threads
# that sleep at once make 8.5.
WAITING = {"GOMP_SPINCOUNT": "20000"}
GONE, HELD, ALIVE = "gone", "held", "alive"
BOOT = Path("/proc/sys/kernel/random/boot_id")


class Known(TypedDict):
    pid: int
    mark: str


def launch(command: list[str], folder: Path, log: Path) -> tuple[subprocess.Popen, Known]:
    """Start `command` in `folder`, with its output at the end of `log`; it waits for `release`."""
    with open(log, "ab") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", WAIT, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=os.environ | WAITING,
            start_new_session=True,
        )
    mark, _ = _looked_up(process.pid)
    return process, {"pid": process.pid, "mark": mark}


def release(process: subprocess.Popen) -> None:
    process.stdin.write(b"\n")
    process.stdin.close()
    # Somebody must ask for its end, or it would stay as a zombie.
    threading.Thread(target=process.wait, daemon=True).start()


def state(known: Known) -> str:
    """`GONE`, `HELD` (SIGSTOP) or `ALIVE`."""
    mark, letter = _looked_up(known["pid"])
    if not mark or mark != known["mark"] or letter in "ZX":
        return GONE
    return HELD if letter in "Tt" else ALIVE


def send(known: Known, number: int) -> bool:
    """Send a signal, all of its group a SIGKILL; False where the process is gone."""
    if state(known) == GONE:
        return False
    try:
        (os.killpg if number == signal.SIGKILL else os.kill)(known["pid"], number)
    except ProcessLookupError:
        return False
    return True


def end(known: Known, seconds: float = 10) -> None:
    """Kill it, and wait until it is gone."""
    until = time.monotonic() + seconds
    while send(known, signal.SIGKILL) and time.monotonic() < until:
        time.sleep(0.02)


def _looked_up(pid: int) -> tuple[str, str]:
    """(mark, letter of its state); ("", "X") where there is none."""
    if not BOOT.exists():
        return _by_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        fields = stat.rpartition(")")[2].split()  # the name before may hold anything
        return f"{BOOT.read_text().strip()} {fields[19]}", fields[0]
    except (OSError, IndexError):
        return "", "X"


def _by_ps(pid: int) -> tuple[str, str]:
    words = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True
    ).stdout.split()
    return (" ".join(words[1:]), words[0][0]) if words else ("", "X")
