"""Downloads from any URL or from the Hub, with progress, that can be stopped and continued.

`hf_hub_download` of huggingface_hub 1.0 and later cannot continue an incomplete download.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from filelock import FileLock

from vitdemo.errors import Stopped

TIMEOUT_SECONDS = 20  # maximum time without received bytes
CHUNK_BYTES = 2**20
PROGRESS_SECONDS = 0.5  # interval at which progress is reported

OnBytes = Callable[[int, int], None]  # (done, total) bytes of a file; may raise to stop


def download_file(
    url: str,
    file: Path,
    *,
    label: str,
    size: int | None = None,
    on_bytes: OnBytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Download `url` to `file`, or continue the download; an existing file is not changed.

    `size` is the size in bytes, for servers that do not send the size. `label` is the label of the
    progress bar in the terminal. `headers` are additional headers of the request. Raises httpx's
    exceptions without a network, and `OSError` if the connection ends early.
    """
    # Two processes must not write to the same partial file.
    with FileLock(f"{file}.lock"):
        if not file.exists():
            _download_unlocked(url, file, label, size, on_bytes, headers or {})


def _download_unlocked(
    url: str,
    file: Path,
    label: str,
    size: int | None,
    on_bytes: OnBytes | None,
    more_headers: Mapping[str, str],
) -> None:
    # Imported late, because an existing file needs no download.
    import httpx
    from tqdm.auto import tqdm

    part = file.with_name(f"{file.name}.part")
    done = part.stat().st_size if part.exists() else 0
    if done and done == size:  # The previous process ended before it renamed the file.
        os.replace(part, file)
        return
    # Without compression, a partial download is a prefix of the file.
    headers = dict(more_headers) | {"Accept-Encoding": "identity"}
    headers |= {"Range": f"bytes={done}-"} if done else {}
    stream = httpx.stream(
        "GET", url, headers=headers, follow_redirects=True, timeout=TIMEOUT_SECONDS
    )
    with stream as answer:
        if done and answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()  # The partial file is complete already, or belongs to another file.
            _download_unlocked(url, file, label, size, on_bytes, more_headers)
            return
        answer.raise_for_status()
        done = done if answer.status_code == httpx.codes.PARTIAL_CONTENT else 0
        total = size or done + int(answer.headers.get("Content-Length", 0))
        bar = tqdm(total=total, initial=done, unit="B", unit_scale=True, desc=label)
        with part.open("ab" if done else "wb") as written, bar as shown:
            for chunk in answer.iter_bytes(CHUNK_BYTES):
                written.write(chunk)
                shown.update(len(chunk))
                if on_bytes is not None:
                    on_bytes(written.tell(), total)
    if part.stat().st_size != total:
        raise OSError(f"the connection ended after {part.stat().st_size:,} of {total:,} B")
    os.replace(part, file)


def download_from_hub(
    repository: str,
    name: str,
    folder: Path,
    *,
    label: str,
    repo_type: str = "model",
    revision: str | None = None,
    on_bytes: OnBytes | None = None,
) -> Path:
    """Download the file `name` of a Hugging Face Hub repository into `folder`; see `download_file`.

    The name of the local file begins with a tag of the version, so each version has its own file.
    Without a network, this function also raises the exceptions of huggingface_hub.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.utils import build_hf_headers

    endpoint = os.environ.get("HF_ENDPOINT")
    url = hf_hub_url(repository, name, repo_type=repo_type, revision=revision, endpoint=endpoint)
    remote = get_hf_file_metadata(url, timeout=TIMEOUT_SECONDS)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{remote.etag}-{Path(name).name}"
    # A private repository needs the user's token, which no other server may receive.
    own = remote.location.startswith(f"{endpoint or constants.ENDPOINT}/")
    headers = build_hf_headers() if own else None
    options = {"label": label, "size": remote.size, "on_bytes": on_bytes, "headers": headers}
    download_file(remote.location, file, **options)
    return file


def run_with_progress(
    work: Callable[[OnBytes], object], is_stopped: Callable[[], bool]
) -> Iterator[tuple[int, int]]:
    """Run `work(on_bytes)` in a thread; yield (done, total) in bytes twice per second.

    The work ends when `is_stopped()` returns True or when the iterator is closed. Raises `Stopped`,
    and every exception of `work`.
    """
    now, errors, left = [(0, 0)], [], threading.Event()

    def on_bytes(done: int, total: int) -> None:
        now[0] = done, total
        if left.is_set() or is_stopped():
            raise Stopped

    def run() -> None:
        try:
            work(on_bytes)
        except BaseException as error:  # The iterator raises this exception again.
            errors.append(error)

    thread = threading.Thread(target=run, name="download", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            yield now[0]
            thread.join(PROGRESS_SECONDS)
            if is_stopped():  # The thread may still be waiting for bytes.
                raise Stopped
    finally:
        left.set()
    if errors:
        raise errors[0]
