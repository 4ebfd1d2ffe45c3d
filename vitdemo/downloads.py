"""Downloads that a person can watch, stop and go on with: of any address, and of the Hub's files.

(`hf_hub_download` of huggingface_hub 1.0 and later begins anew, whatever is there of a file.)
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock

from vitdemo.errors import Stopped

TIMEOUT = 20  # seconds without a byte
CHUNK = 2**20
SPEED_SECONDS = 1  # before a speed is told

OnBytes = Callable[[int, int], None]  # (done, total) of one file; may raise to end the download


def download(
    url: str, file: Path, *, words: str, size: int | None = None, on_bytes: OnBytes | None = None
) -> None:
    """Put what lies at `url` into `file`, unless it exists; a part that is there is gone on with.

    `size` in bytes, where the server does not tell; `words` stand before the terminal's progress
    bar. Raises what httpx raises without a network, and `OSError` where the connection ends early.
    """
    # One at a time, of all processes: two would write into one part.
    with FileLock(f"{file}.lock"):
        if not file.exists():
            _download(url, file, words, size, on_bytes)


def _download(url: str, file: Path, words: str, size: int | None, on_bytes: OnBytes | None) -> None:
    # Late: who has the file needs none of these.
    import httpx
    from tqdm.auto import tqdm

    part = file.with_name(f"{file.name}.part")
    done = part.stat().st_size if part.exists() else 0
    if done and done == size:  # whoever fetched it ended before it had its name
        os.replace(part, file)
        return
    # Not compressed on the way: a part is then a part of the file.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    stream = httpx.stream("GET", url, headers=headers, follow_redirects=True, timeout=TIMEOUT)
    with stream as answer:
        if done and answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()  # it is all there, or of something else
            _download(url, file, words, size, on_bytes)
            return
        answer.raise_for_status()
        done = done if answer.status_code == httpx.codes.PARTIAL_CONTENT else 0
        total = size or done + int(answer.headers.get("Content-Length", 0))
        bar = tqdm(total=total, initial=done, unit="B", unit_scale=True, desc=words)
        with part.open("ab" if done else "wb") as written, bar as shown:
            for chunk in answer.iter_bytes(CHUNK):
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
    words: str,
    repo_type: str = "model",
    on_bytes: OnBytes | None = None,
) -> Path:
    """The file `name` of a repository of the Hugging Face Hub, in `folder`: see `download`.

    The file's name begins with the tag of its version: another version is another file. Raises
    what huggingface_hub raises without a network, too.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    endpoint = os.environ.get("HF_ENDPOINT")
    url = hf_hub_url(repository, name, repo_type=repo_type, endpoint=endpoint)
    remote = get_hf_file_metadata(url, timeout=TIMEOUT)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{remote.etag}-{Path(name).name}"
    download(remote.location, file, words=words, size=remote.size, on_bytes=on_bytes)
    return file


def followed(
    work: Callable[[OnBytes], object], stopped: Callable[[], bool], every: float = 0.5
) -> Iterator[tuple[int, int]]:
    """Do `work(on_bytes)` in a thread of its own; gives (done, total) of its file now and then.

    It ends once `stopped()`, or when nobody asks for the next value any more. Raises `Stopped`, and
    what the work raises.
    """
    now, errors, left = [(0, 0)], [], threading.Event()

    def on_bytes(done: int, total: int) -> None:
        now[0] = done, total
        if left.is_set() or stopped():
            raise Stopped

    def run() -> None:
        try:
            work(on_bytes)
        except BaseException as error:  # told to who follows
            errors.append(error)

    thread = threading.Thread(target=run, name="download", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            yield now[0]
            thread.join(every)
            if stopped():  # at once, though the thread may be waiting for bytes
                raise Stopped
    finally:
        left.set()
    if errors:
        raise errors[0]


class Speed:
    """How fast a download is, in words: `told(done, total)` -> "62 of 170 MB, 8 MB/s, 13 s left".

    Each file is timed from the first bytes of it that are told.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.clock = clock
        self.total, self.first, self.begin = 0, 0, 0.0

    def told(self, done: int, total: int) -> str:
        if not done:
            return "connecting …"
        now = self.clock()
        if total != self.total or done < self.first:  # the next file
            self.total, self.first, self.begin = total, done, now
        if done >= total:
            return f"{total / 1e6:.0f} MB are here: checking …"
        words = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"
        seconds = now - self.begin
        if seconds < SPEED_SECONDS or done == self.first:
            return words
        speed = (done - self.first) / seconds
        left = (total - done) / speed
        rest = f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min"
        return f"{words}, {speed / 1e6:.1f} MB/s, {rest} left"
