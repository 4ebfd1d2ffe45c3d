"""Console output in any encoding."""

import sys


def escape_unprintable() -> None:
    """Make stdout and stderr escape characters that their encoding lacks.

    On Windows, output to a file uses the system code page. Without this function, printing a path
    with characters outside the code page would raise an error.
    """
    for stream in (sys.stdout, sys.stderr):
        # There may be no console, and streams of notebooks lack this method.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
