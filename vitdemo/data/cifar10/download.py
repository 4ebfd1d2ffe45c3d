"""Download of CIFAR-10 into a folder, with a lock and a second source."""

import shutil
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

from vitdemo.data import cifar10
from vitdemo.data.downloads import OnBytes
from vitdemo.errors import DataError, Stopped, short_reason

DOWNLOAD_LOCK_FILE = ".cifar10.lock"  # file in the root that prevents concurrent downloads
NO_NETWORK_MESSAGE = (
    "CIFAR-10 could not be downloaded, because its servers cannot be reached. Check the network."
)
# Exceptions by name, because versions of huggingface_hub use requests, httpx or httpx2.
NETWORK_ERRORS = {
    *("ConnectError", "ConnectionError", "TimeoutException", "Timeout", "OfflineModeIsEnabled")
}


def download_cifar10(root: Path, on_bytes: OnBytes | None) -> None:
    """Download CIFAR-10 into `root`, while other processes wait."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        alone = FileLock(root / DOWNLOAD_LOCK_FILE).acquire()
    except OSError as error:
        raise DataError(
            f"'{root}' cannot be written to ({short_reason(error)}). Set --data to another folder."
        ) from error
    with alone:
        if cifar10.find_folder(root) is None:
            _download_with_fallback(root, on_bytes)
    with suppress(OSError):  # On Windows, a waiting process may still have the file open.
        (root / DOWNLOAD_LOCK_FILE).unlink()


def _download_with_fallback(root: Path, on_bytes: OnBytes | None) -> None:
    """Download CIFAR-10 from the Hugging Face Hub. If this fails, use the slow official site."""
    try:
        cifar10.fetch_from_hub(root, on_bytes)
    except (DataError, Stopped):
        raise
    except Exception as unreached:  # an error of httpx, huggingface_hub or the disk
        try:
            cifar10.fetch_from_official_site(root, on_bytes)
        except Stopped:
            raise
        except Exception as error:  # an error of httpx or tarfile
            for folder in (root / cifar10.PARTIAL_FOLDER, root):
                _remove_if_empty(folder)
            if _is_network_error(unreached) and _is_network_error(error):
                raise DataError(NO_NETWORK_MESSAGE) from error
            raise DataError(
                f"CIFAR-10 could not be downloaded into '{root}', neither from the Hugging Face "
                f"Hub ({short_reason(unreached)}) nor from its own site ({short_reason(error)}). "
                "Check the network, or set --data to a folder with CIFAR-10 or with "
                "train/<class>/ and test/<class>/ images."
            ) from error


def _is_network_error(error: Exception) -> bool:
    return not NETWORK_ERRORS.isdisjoint(kind.__name__ for kind in type(error).__mro__)


def _remove_if_empty(folder: Path) -> None:
    if not any(file.is_file() and file.stat().st_size for file in folder.rglob("*")):
        # On Windows, an open lock file in the folder cannot be removed.
        shutil.rmtree(folder, ignore_errors=True)
