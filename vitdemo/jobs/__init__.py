"""Trainings that the page starts: one trains, the rest wait, and none depends on the page.

Each is `python train.py ...` as a process of its own, with its output in `train.log` of its run
folder and `job.json` beside it, which says what was asked for and which process does it. The queue
is these files; whoever changes one holds the lock. Nothing else is kept, so a page that is started
anew, or a second one, sees the same. See `state` for what is true of a job, `options` for what may
be asked, `cost` for what it takes.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from vitdemo import data, runs
from vitdemo.errors import DataError, JobError
from vitdemo.jobs import processes
from vitdemo.jobs.options import arguments, preset_named, recipe_of
from vitdemo.jobs.state import (
    AT_WORK,
    EVALUATING,
    FAILED,
    LAUNCH,
    LOG,
    PAUSED,
    QUEUED,
    STARTING,
    TRAINING,
    Job,
    look,
    write_job,
)
from vitdemo.recipes import Recipe
from vitdemo.training.stopping import KEEP

ROOT = Path(__file__).parents[2]  # train.py lies there
LOCK = ".jobs.lock"
PICTURES = "pictures"  # of a training's own, in its run folder
SECONDS = 1.0  # between two looks for who is next
MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Of each training `minutes` of work; of all together how many wait, are kept, and take room
    on the disk, of which `free_mib` stay free."""

    minutes: int = 60
    waiting: int = 5
    kept: int = 20
    mib: int = 2048
    free_mib: int = 1024

    @property
    def words(self) -> str:
        return (
            f"One trains, up to {self.waiting} wait; each ends after {self.minutes} minutes of "
            f"work. {self.kept} of them, or {self.mib / 1024:g} GB, are kept, with those models of "
            "Your classes that are shown to everyone."
        )


class Jobs:
    """The trainings in the folder `root`, on the data set in `data_root`, on `device`.

    `for_all`: whoever reaches the page may train, and not this machine alone. `command` is what
    trains: `train.py`, but for tests.
    """

    def __init__(
        self,
        root: Path,
        data_root: Path | None = None,
        device: str = "auto",
        limits: Limits | None = None,
        for_all: bool = False,
        command: tuple[str, ...] = (sys.executable, str(ROOT / "train.py")),
    ):
        self.root = Path(root).resolve()
        self.data_root = Path(data_root or data.default_root()).resolve()
        self.device = device
        self.limits = limits or Limits()
        self.for_all = for_all
        self.command = command
        self._count = 0  # of training pictures, once they were counted

    # --- what is -------------------------------------------------------------------------------

    def all(self) -> list[Job]:
        """The newest first."""
        folders = [entry for entry in self.root.glob("[!.]*") if entry.is_dir()]
        found = [job for folder in folders if (job := look(folder))]
        return sorted(found, key=lambda job: (-job.asked.get("at", 0), job.name))

    def job(self, name: object) -> Job:
        """Raises `JobError`."""
        for job in self.all():
            if job.name == name:
                return job
        raise JobError("That training is no longer here.")

    def recipe(self, preset: object, values: Mapping[str, object]) -> Recipe:
        """What would be trained, on the pictures that are here. Raises `VitdemoError`."""
        recipe = recipe_of(preset, values)
        enough = recipe.train_pictures < self.pictures(recipe)
        return recipe if enough else replace(recipe, train_pictures=0)

    def pictures(self, recipe: Recipe) -> int:
        """The training pictures that are left beside the recipe's validation pictures.

        Raises `DataError` where there is no data set.
        """
        try:
            source = data.open_source(self.data_root, download=False)
            self._count = self._count or len(source.labels("train"))
        except DataError as error:
            raise DataError(f"There is nothing to train on. {error}") from error
        return round(self._count * (1 - recipe.validation_share))

    # --- what is done --------------------------------------------------------------------------

    def start(
        self,
        preset: object,
        values: Mapping[str, object],
        beside: str | None = None,
        guess: float | None = None,
    ) -> Job:
        """Queue a training, which begins at once where none is at work.

        `guess` is what somebody expects it to gain, in points of validation accuracy, beside the
        run `beside`. Raises `VitdemoError` with one sentence.
        """
        recipe = self.recipe(preset, values)
        preset_named(preset)
        asked = {"preset": preset, "beside": beside, "guess": guess}
        return self._queue(str(preset), arguments(recipe), asked)

    def start_on(self, stem: str, words: list[str], lay_down: Callable[[Path], None]) -> Job:
        """Queue a training of pictures of its own, which `lay_down(folder)` writes as train/ and
        test/; they lie in its run folder and go with it.

        `words` are what train.py is told, none of them a browser's. Raises `VitdemoError`.
        """
        return self._queue(stem, words, {"own_pictures": True}, lay_down)

    def keep(self, stem: str, make: Callable[[Path], None], instead: Job | None = None) -> Job:
        """A run that `make(folder)` writes without a training: it counts among those that are kept,
        and is discarded like one. One that is to go afterwards, `instead`, does not count.

        Raises `VitdemoError`.
        """
        with self.locked():
            self._check_room(instead)
            name = self._begin(stem, {"arguments": [], "process": None, "made": True})
        with _or_nothing(self.root / name):
            make(self.root / name)
        return self.job(name)

    def _queue(
        self,
        stem: str,
        words: list[str],
        asked: dict,
        lay_down: Callable[[Path], None] | None = None,
    ) -> Job:
        if not processes.ABLE:
            raise JobError("Trainings in the page need Linux or macOS: use train.py here.")
        asked = {"arguments": words, "process": None} | asked
        self.root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".pictures-", dir=self.root) as place:
            if lay_down:  # beforehand, where nobody waits for it or sees a part of it
                lay_down(Path(place) / PICTURES)
            with self.locked():
                self._check_waiting()
                self._check_room()
                name = self._begin(stem, asked, *Path(place).iterdir())
                self._advance()
        return self.job(name)

    def _begin(self, stem: str, asked: dict, *content: Path) -> str:
        """The name of a new folder, which is a job, with `content` in it."""
        name = self._new_folder(stem)
        with _or_nothing(self.root / name):
            for part in content:
                os.rename(part, self.root / name / part.name)
            write_job(self.root / name, {"at": time.time()} | asked)
        return name

    def pause(self, name: object) -> None:
        with self.locked():
            job = self.job(name)
            if job.state not in (STARTING, TRAINING, EVALUATING):
                raise JobError(f"{job.name} is {job.state}: there is nothing to pause.")
            processes.send(job.asked["process"], signal.SIGSTOP)

    def resume(self, name: object) -> None:
        """Let a paused one go on; one that was killed waits for its turn to go on."""
        with self.locked():
            job = self.job(name)
            if job.state == PAUSED:
                processes.send(job.asked["process"], signal.SIGCONT)
            elif job.state == FAILED:
                self._check_waiting()
                write_job(job.path, job.asked | {"process": None, "at": time.time()})
                self._advance()
            else:
                raise JobError(f"{job.name} is {job.state}: there is nothing to go on with.")

    def stop(self, name: object) -> None:
        """End it after its step, keep and test what it has learnt."""
        with self.locked():
            job = self.job(name)
            if job.state not in (TRAINING, PAUSED) or not job.begun:
                raise JobError(f"{job.name} is {job.state}: it has learnt nothing to keep yet.")
            write_job(job.path, job.asked | {"keeping": True})
            processes.send(job.asked["process"], KEEP)
            processes.send(job.asked["process"], signal.SIGCONT)

    def discard(self, name: object, asked: dict | None = None) -> None:
        """End it and take its folder away; with `asked` only if the job of this name is that one,
        and not a later one. Raises `JobError`."""
        with self.locked():
            job = self.job(name)
            if asked is not None and asked != job.asked:
                raise JobError(f"{job.name} is another one by now.")
            if job.asked.get("process"):
                processes.end(job.asked["process"])
            away = self.root / f".discarded-{job.name}-{time.time_ns()}"
            os.rename(job.path, away)  # at once, so that no half of a run is ever seen
            self._advance()
        shutil.rmtree(away, ignore_errors=True)

    def advance(self) -> None:
        """Begin the next one where none is at work."""
        if any(job.state == QUEUED for job in self.all()):
            with self.locked():
                self._advance()

    def watch(self) -> None:
        """`advance` from now on, as long as this process lives."""

        def keep_looking():
            while True:
                try:
                    self.advance()
                except OSError as error:  # a full disk: it may have room again later
                    print(f"trainings wait: {error}", file=sys.stderr)
                time.sleep(SECONDS)

        threading.Thread(target=keep_looking, name="jobs", daemon=True).start()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else changes a job meanwhile, of this page or another."""
        self.root.mkdir(parents=True, exist_ok=True)
        if not processes.ABLE:  # so nothing trains
            yield
            return
        import fcntl  # not on every system that can show the page

        with open(self.root / LOCK, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _advance(self) -> None:
        every = self.all()
        if any(job.state in AT_WORK for job in every):
            return
        waiting = [job for job in every if job.state == QUEUED]
        if waiting:
            self._launch(waiting[-1])  # the oldest

    def _launch(self, job: Job) -> None:
        pictures = job.path / PICTURES if job.asked.get("own_pictures") else self.data_root
        words = [*job.asked["arguments"], "--out", str(job.path), "--data", str(pictures)]
        words += ["--device", self.device, "--keep-after", str(self.limits.minutes)]
        words += ["--resume"] if (job.path / runs.CONFIG).exists() else []
        with open(job.path / LOG, "a", encoding="utf-8") as log:
            log.write(f"{LAUNCH} {' '.join(words)}\n")
        process, known = processes.launch([*self.command, *words], ROOT, job.path / LOG)
        told = {"process": known, "launched": time.time(), "keeping": False}
        write_job(job.path, job.asked | told)
        processes.release(process)

    def _check_waiting(self) -> None:
        """Raises `JobError` where one more would wait than may."""
        most = self.limits.waiting
        if sum(job.state == QUEUED for job in self.all()) >= most:
            raise JobError(f"{most} trainings wait already: start it when one has begun.")

    def _check_room(self, instead: Job | None = None) -> None:
        """Raises `JobError` where one more run would be one too many, but for `instead`."""
        left = instead.asked if instead else None
        every, limits = [job for job in self.all() if job.asked != left], self.limits
        if len(every) >= limits.kept:
            raise JobError(f"{limits.kept} trainings are kept already: discard one of them first.")
        taken = sum(_size(path) for job in every for path in job.path.rglob("*"))
        if taken > limits.mib * MIB:
            raise JobError(
                f"The trainings here take {taken / MIB:,.0f} MB of {limits.mib:,} MB: discard one "
                "of them first."
            )
        if shutil.disk_usage(self.root).free < limits.free_mib * MIB:
            raise JobError(f"The disk has less than {limits.free_mib:,} MB left: make room first.")

    def _new_folder(self, stem: str) -> str:
        """The name of a run folder that is made now, and was not there. Raises `JobError`."""
        for number in range(1, 10_000):
            name = f"{stem}-{number}"
            try:
                (self.root / name).mkdir()
            except FileExistsError:
                continue
            return name
        raise JobError(f"There are too many runs named {stem} in '{self.root}'.")


@contextmanager
def _or_nothing(folder: Path) -> Iterator[None]:
    """Where the block fails, nothing of `folder` stays."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


ACTIONS: dict[str, Callable[[Jobs, object], None]] = {
    "pause": Jobs.pause,
    "resume": Jobs.resume,
    "stop": Jobs.stop,
    "discard": Jobs.discard,
}


def _size(path: Path) -> int:
    """Bytes of a file; 0 of a folder, and of what its training has just taken away."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
