"""Printing on any console."""

import sys


def escape_unprintable() -> None:
    """Let stdout and stderr write what their encoding lacks as an escape: "\\u732b".

    Windows gives a program whose output goes to a file the encoding of its code page. Without this,
    printing a path outside of it would end the program with a traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # None without a console; a notebook has its own stream
            stream.reconfigure(errors="backslashreplace")
