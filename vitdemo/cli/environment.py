"""Preparation of the environment before gradio is imported.

The page must start on a computer that several users share. It must also start in schools and
companies, where a proxy is set for all programs.
"""

import argparse
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

LOCAL_ADDRESSES = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
TEMP_VARIABLE = "GRADIO_TEMP_DIR"
MAX_PORT = 65535
NUMBER_VARIABLES = ("GRADIO_SERVER_PORT", "GRADIO_NUM_PORTS")
SOCKS_NOTICE = (
    "The SOCKS proxy in {} is ignored, because the package socksio is missing. Install it with "
    "`pip install 'httpx[socks]'`."
)


def prepare_environment(program: str) -> list[str]:
    """Set the variables that gradio reads, and return notices.

    If this fails, prints one sentence and ends `program` with exit code 2.
    """
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    exclude_local_addresses()
    try:
        check_numbers()
        if not os.environ.get(TEMP_VARIABLE):
            os.environ[TEMP_VARIABLE] = str(create_temp_folder())
    except (OSError, ValueError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(2)
    return ignore_socks_proxies()


def exclude_local_addresses(*others: str) -> None:
    """Let requests to this computer bypass proxies: gradio calls its own address at the start."""
    for name in ("NO_PROXY", "no_proxy"):
        known = [each.strip() for each in os.environ.get(name, "").split(",") if each.strip()]
        os.environ[name] = ",".join(dict.fromkeys([*known, *LOCAL_ADDRESSES, *others]))


def ignore_socks_proxies() -> list[str]:
    """Unset SOCKS proxies if httpx does not support them, and return a notice about each proxy.

    Otherwise, the import of gradio would fail.
    """
    if importlib.util.find_spec("socksio") is not None:
        return []
    names = [n for n in os.environ if n.lower() in PROXY_VARIABLES]
    socks = [name for name in names if os.environ[name].strip().lower().startswith("socks")]
    for name in socks:
        del os.environ[name]
    return [SOCKS_NOTICE.format(name) for name in socks]


def check_numbers() -> None:
    """Raise `ValueError` for a port number that gradio cannot read."""
    for name in NUMBER_VARIABLES:
        text = os.environ.get(name)
        if text is not None and not _is_port(text):
            raise ValueError(f"{name} is '{text}', but it must be a number from 0 to {MAX_PORT}.")


def parse_port(text: str) -> int:
    """Return the port of a command's option. Raises `ArgumentTypeError`."""
    if not _is_port(text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a port: choose 0 to {MAX_PORT}")
    return int(text)


def _is_port(text: str) -> bool:
    return text.isdecimal() and int(text) <= MAX_PORT


def create_temp_folder() -> Path:
    """Return the current user's folder for uploads, since all users share gradio's default folder.

    Raises `OSError` if no folder can be created.
    """
    try:
        parent = Path(tempfile.gettempdir())
        user = os.getuid() if hasattr(os, "getuid") else "user"  # Windows has one folder per user
        folder = parent / f"gradio-{user}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            is_own = not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()
            if is_own and os.access(folder, os.W_OK | os.X_OK):
                return folder
        except OSError:  # for example, there is a file with this name
            pass
        return Path(tempfile.mkdtemp(prefix="gradio-"))
    except OSError as error:
        raise OSError(
            f"The temporary folder cannot be used ({error.strerror or error}). Set TMPDIR or "
            f"{TEMP_VARIABLE} to a folder of your own."
        ) from error
