"""Freed memory that page and training processes return to the system."""

import os
import platform
from pathlib import Path

import pytest

from vitdemo.training.devices import trim_memory


def resident_megabytes() -> float:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only for glibc")
def test_trim_memory_returns_fragmented_memory_to_the_system():
    pairs = [(bytearray(50_000), bytearray(1_000)) for _ in range(2_000)]
    kept = [small for _, small in pairs]
    before = resident_megabytes()  # before freeing, because another thread may also trim
    del pairs  # 100 MB in gaps of 50 kB between small objects that remain
    assert trim_memory()
    assert before - resident_megabytes() > 80
    assert len(kept) == 2_000
