"""What the processes of the page and of a training do with memory that they freed."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FREED = """
import os
from pathlib import Path
from vitdemo.training.devices import trim_memory

def resident():  # MB
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

def freed():  # 100 MB in holes of 50 kB between small things that stay
    pairs = [(bytearray(50_000), bytearray(1_000)) for _ in range(2_000)]
    return [small for _, small in pairs]

kept = freed()
before = resident()
assert trim_memory()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc alone")
def test_what_is_free_between_small_things_goes_back_to_the_system():
    told = subprocess.run([sys.executable, "-c", FREED], cwd=ROOT, capture_output=True, check=True)
    assert float(told.stdout) > 80
