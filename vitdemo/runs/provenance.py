"""Provenance of a run: device, package versions and commit."""

import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from vitdemo.installation import IS_INSTALLED

PACKAGES = ("torch", "torchvision", "timm", "numpy")


def package_versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def device_name(device: torch.device) -> str:
    """Return the name of a device, for example "NVIDIA H200" or "Intel Xeon (2 threads)"."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "mps":
        return f"Apple {platform.machine()} (MPS)"
    threads = torch.get_num_threads()
    return shorten_device_name(f"{cpu_name()} ({threads} threads)")


def shorten_device_name(name: str) -> str:
    """Shorten a device name.

    "Intel(R) Xeon(R) CPU @ 2.50GHz (1 threads)" becomes "Intel Xeon (1 thread)".
    """
    name = re.sub(r"\((R|TM)\)| (CPU|Processor)\b| @ [\d.]+ ?GHz", "", name)
    return name.replace("(1 threads)", "(1 thread)")


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        return next(x.split(":", 1)[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def git_commit() -> str | None:
    """Return the current commit, with "+" if tracked files have changes; None outside a clone."""
    if IS_INSTALLED:  # the environment may be in a clone of another project
        return None
    folder = Path(__file__).parent
    try:
        git = ["git", "-C", str(folder), "describe", "--always", "--dirty=+", "--abbrev=40"]
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def describe_version() -> str:
    """Return the short commit in a clone (see `git_commit`), or the installed version."""
    if commit := git_commit():
        return re.sub(r"([0-9a-f]{12})[0-9a-f]+", r"commit \1", commit)
    try:
        return f"vitdemo {version('vitdemo')}"
    except PackageNotFoundError:  # a copy of the files
        return "unknown version"
