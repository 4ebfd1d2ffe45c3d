"""`train.py` in a process group of its own, as the page starts it."""

import os

from vitdemo.cli import train


def main(options: list[str]) -> int:
    os.setpgid(0, 0)
    return train.main(options)
