"""What the processes of the page and of a training do with memory that they freed."""

import os
import platform
from pathlib import Path

import pytest

from vitdemo.training.devices import trim_memory


def resident_megabytes() -> float:
    """MB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc alone")
def test_trim_memory_returns_fragmented_memory_to_the_system():
    pairs = [(bytearray(50_000), bytearray(1_000)) for _ in range(2_000)]
    kept = [small for _, small in pairs]
    before = resident_megabytes()  # while all is there: a page's own trim may come in between
    del pairs  # 100 MB in holes of 50 kB between small things that stay
    assert trim_memory()
    assert before - resident_megabytes() > 80
    assert len(kept) == 2_000
