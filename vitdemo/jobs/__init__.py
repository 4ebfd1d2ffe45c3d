"""Queue of training runs started from the page; one run at a time, independent of the page.

Each job is a process of `vitdemo.cli.train`, with its output in `train.log` of the run folder. In
the same folder, `recipe.json` contains the recipe, and `job.json` records the request and the
process. These files are the queue, and a lock protects their changes. There is no other state, so a
restarted or second page has the same queue. The modules `state`, `options` and `cost` contain the
state, the settings and the cost of a job.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from filelock import FileLock

from vitdemo import data, runs
from vitdemo.errors import DataError, JobError, VitdemoError
from vitdemo.installation import PACKAGE, TRAIN_NAME
from vitdemo.jobs import processes
from vitdemo.jobs.cost import has_same_speed
from vitdemo.jobs.options import build_recipe
from vitdemo.jobs.state import (
    ACTIVE_STATES,
    FAILED,
    FINISH,
    LAUNCH_MARKER,
    LOG_FILE,
    PAUSE,
    PAUSED,
    QUEUED,
    STARTING,
    TRAINING,
    Job,
    read_job_state,
    write_job,
)
from vitdemo.runs.resume import get_resume_recipe
from vitdemo.runs.steps import read_steps
from vitdemo.training.recipes import Recipe
from vitdemo.training.stopping import FINISH_SIGNAL

LOCK_FILE = ".jobs.lock"
RECIPE_FILE = "recipe.json"
IMAGES_FOLDER = "pictures"  # folder of a job's own images, in its run folder
QUEUE_CHECK_SECONDS = 1.0  # interval at which the queue is checked
MIN_MINUTES = 0.001  # train.py then stops after one step; 0 means no limit
MIB = 2**20


@dataclass(frozen=True)
class JobLimits:
    """Limits of the training queue.

    `minutes` is the training time per job. `waiting` and `kept` are maximum numbers of jobs. `mib`
    is the maximum size of all jobs on the disk, and `free_mib` the minimum free space.
    """

    minutes: int = 60
    waiting: int = 5
    kept: int = 20
    mib: int = 2048
    free_mib: int = 1024

    @property
    def description(self) -> str:
        return (
            f"One run trains at a time, and up to {self.waiting} runs can wait. Each run ends "
            f"after {self.minutes} minutes of training. Up to {self.kept} runs or "
            f"{self.mib / 1024:g} GB are stored, including published models of Custom classes."
        )


class JobQueue:
    """Queue of training jobs in the folder `root`, on the dataset in `data_root`, on `device`.

    With `for_all`, every user of the page may train; otherwise only users on this computer.
    `command` starts the training program; only tests replace it.
    """

    def __init__(
        self,
        root: Path,
        data_root: Path | None = None,
        device: str = "auto",
        limits: JobLimits | None = None,
        for_all: bool = False,
        command: tuple[str, ...] = (sys.executable, "-m", "vitdemo.cli.train"),
    ):
        self.root = Path(root).resolve()
        self.data_root = Path(data_root or data.default_root()).resolve()
        self.device = device
        self.limits = limits or JobLimits()
        self.for_all = for_all
        self.command = command
        self._private_roots: set[Path] = set()  # folders of private jobs, until this process ends
        self._count = 0  # number of training images; 0 if not counted yet

    # --- queries -------------------------------------------------------------------------------

    def list_jobs(self) -> list[Job]:
        """Return all jobs that are visible to every user, newest first."""
        return _list_jobs(self.root)

    def _list_all_jobs(self) -> list[Job]:
        """Return all jobs, including private jobs, newest first."""
        return _list_jobs(self.root, *self._private_roots)

    def find_job(self, name: object) -> Job:
        """Return the job called `name`. Raises `JobError` if there is none."""
        for job in self.list_jobs():
            if job.name == name:
                return job
        raise JobError("This training run no longer exists. Reload the page.")

    def resolve_recipe(self, preset: object, values: Mapping[str, object]) -> Recipe:
        """Return a preset's recipe with `values`. Raises `VitdemoError` if they are invalid."""
        recipe = build_recipe(preset, values)
        has_enough = recipe.train_pictures < self.count_training_images(recipe)
        return recipe if has_enough else replace(recipe, train_pictures=0)

    def count_training_images(self, recipe: Recipe) -> int:
        """Return the number of images without validation images. Raises `DataError`."""
        try:
            source = data.open_dataset(self.data_root, download=False)
            self._count = self._count or len(source.load_labels("train"))
        except DataError as error:
            raise DataError(f"Training needs a dataset. {error}") from error
        return round(self._count * (1 - recipe.validation_share))

    def find_live_speed(self, recipe: Recipe) -> float | None:
        """Return the speed of the run in progress, in images/s, if `recipe` has the same speed."""
        for job in self.list_jobs():
            if job.state == TRAINING and job.images_per_second:
                with suppress(VitdemoError):
                    other = get_resume_recipe(job.path, None)
                    return job.images_per_second if has_same_speed(recipe, other) else None
        return None

    # --- actions -------------------------------------------------------------------------------

    def start(
        self,
        preset: object,
        values: Mapping[str, object],
        baseline: str | None = None,
        guess: float | None = None,
    ) -> Job:
        """Queue a training run, which starts immediately if no other run is in progress.

        `guess` is the user's expected gain of validation accuracy over the run `baseline`, in
        percentage points. Raises `VitdemoError` if the settings are invalid or the queue is full.
        """
        recipe = self.resolve_recipe(preset, values)
        record = {"preset": preset, "beside": baseline, "guess": guess}
        return self._enqueue(str(preset), recipe, record)

    def start_on_images(
        self,
        recipe: Recipe,
        weights: Path,
        write: Callable[[Path], None],
        private_root: Path | None = None,
    ) -> Job:
        """Queue a training run on images that `write(folder)` writes into train/ and test/.

        The images are stored in the run folder and deleted with it. A run folder in `private_root`
        is not listed: only its owner can find the job (`read_job_state`) and delete the run
        (`discard`). The run starts from the file `weights`. Raises `JobError` if the queue is full.
        """
        if private_root:
            self._private_roots.add(private_root)
        record = {"own_pictures": True, "weights": str(weights.resolve())}
        return self._enqueue(recipe.name, recipe, record, write, private_root)

    def register_run(
        self, stem: str, write_run: Callable[[Path], None], replaced: Job | None = None
    ) -> Job:
        """Register a run that `write_run(folder)` writes directly, without a training process.

        The run counts towards the limits and is deleted like other jobs. The job `replaced`, which
        the caller deletes afterwards, does not count. Raises `JobError` if the limit is reached.
        """
        with self.locked():
            self._check_room(replaced)
            record = {"process": None, "made": True}
            folder = self._create_job(self.root, stem, record)
        with _remove_on_error(folder):
            write_run(folder)
        return self.find_job(folder.name)

    def _enqueue(
        self,
        stem: str,
        recipe: Recipe,
        record: dict,
        write: Callable[[Path], None] | None = None,
        private_root: Path | None = None,
    ) -> Job:
        root = private_root or self.root
        if not processes.IS_SUPPORTED:
            raise JobError(
                f"Training from the page requires Linux or macOS. Use {TRAIN_NAME} on this system."
            )
        record = {"process": None, "request": None} | record
        with _create_staging(root) as staging:
            if write:  # no lock is needed, because the folder is not visible yet
                write(Path(staging) / IMAGES_FOLDER)
            (Path(staging) / RECIPE_FILE).write_text(json.dumps(asdict(recipe)), encoding="utf-8")
            with self.locked():
                self._check_waiting()
                self._check_room()
                folder = self._create_job(root, stem, record, *Path(staging).iterdir())
                self._start_next()
        return read_job_state(folder)

    def _create_job(self, root: Path, stem: str, record: dict, *files: Path) -> Path:
        folder = _new_folder(root, stem)
        with _remove_on_error(folder):
            for file in files:
                os.rename(file, folder / file.name)
            write_job(folder, {"at": time.time()} | record)
        return folder

    def pause(self, name: object) -> None:
        """End the process of a job after its current step; `resume` continues there."""
        with self.locked():
            job = self.find_job(name)
            if job.state not in (STARTING, TRAINING):
                raise JobError(f"{job.name} is {job.state} and cannot be paused. Reload the page.")
            write_job(job.path, job.record | {"request": PAUSE})
            processes.send_signal(job.record["process"], signal.SIGTERM)

    def resume(self, name: object) -> None:
        """Continue a paused job immediately, or queue a failed job again."""
        with self.locked():
            job = self.find_job(name)
            if job.state == PAUSED:
                self._launch(job)
            elif job.state == FAILED:
                self._check_waiting()
                changes = {"process": None, "request": None, "at": time.time()}
                write_job(job.path, job.record | changes)
                self._start_next()
            else:
                raise JobError(
                    f"{job.name} is {job.state} and cannot be continued. Reload the page."
                )

    def stop(self, name: object) -> None:
        """Stop a job after its current step, then save and evaluate the model.

        A job that is starting ends immediately. If it has no trained step, its folder is deleted.
        """
        with self.locked():
            job = self.find_job(name)
            if job.state == STARTING and not job.done:
                trash = self._end(job)
            else:
                trash = None
                self._finish(job)
        if trash:
            shutil.rmtree(trash, ignore_errors=True)

    def _finish(self, job: Job) -> None:
        """Let the process of a job with trained steps evaluate the model."""
        if job.state == STARTING:
            processes.kill_process(job.record["process"])  # it may not handle signals yet
            self._launch(job, FINISH)
        elif job.state == PAUSED and job.begun:
            self._launch(job, FINISH)
        elif job.state == TRAINING:
            write_job(job.path, job.record | {"request": FINISH})
            processes.send_signal(job.record["process"], FINISH_SIGNAL)
        else:
            raise JobError(
                f"{job.name} is {job.state} and has no model to evaluate. Wait for its first step, "
                "or delete it."
            )

    def delete(self, name: object, expected: dict | None = None) -> None:
        """End a job and delete its folder.

        Raises `JobError` if `expected` is not None and differs from the content of job.json.
        """
        with self.locked():
            job = self.find_job(name)
            if expected is not None and expected != job.record:
                raise JobError(f"{job.name} was replaced by a newer run. Reload the page.")
            trash = self._end(job)
        shutil.rmtree(trash, ignore_errors=True)

    def discard(self, folder: Path) -> None:
        """End the job in `folder`, if there is one, and delete the folder."""
        with self.locked():
            job = read_job_state(folder)
            trash = self._end(job) if job else folder
        shutil.rmtree(trash, ignore_errors=True)

    def _end(self, job: Job) -> Path:
        """End a job, start the next one, and return the hidden folder with the job's files."""
        if job.record.get("process"):
            processes.kill_process(job.record["process"])
        trash = job.path.parent / f".discarded-{job.name}-{time.time_ns()}"
        os.rename(job.path, trash)  # atomic, so a partly deleted run is never visible
        self._start_next()
        return trash

    def start_next(self) -> None:
        if any(job.state == QUEUED for job in self._list_all_jobs()):
            with self.locked():
                self._start_next()

    def start_watching(self) -> None:
        """Call `start_next` repeatedly in a background thread until this process ends."""

        def watch():
            while True:
                try:
                    self.start_next()
                except OSError as error:  # for example, a full disk, which may have space later
                    print(f"cannot start the next training run: {error}", file=sys.stderr)
                time.sleep(QUEUE_CHECK_SECONDS)

        threading.Thread(target=watch, name="jobs", daemon=True).start()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, so that no other thread or page can change a job."""
        self.root.mkdir(parents=True, exist_ok=True)
        with FileLock(self.root / LOCK_FILE):
            yield

    def _start_next(self) -> None:
        jobs = self._list_all_jobs()
        if any(job.state in ACTIVE_STATES for job in jobs):
            return
        waiting = [job for job in jobs if job.state == QUEUED]
        if waiting:
            self._launch(waiting[-1])  # the oldest

    def _launch(self, job: Job, request: str | None = None) -> None:
        """Start or continue the training of a job. The request `FINISH` only ends the run."""
        folder = job.path / IMAGES_FOLDER if job.record.get("own_pictures") else self.data_root
        arguments = ["--out", str(job.path), "--data", str(folder), "--device", self.device]
        if (job.path / runs.CONFIG_FILE).exists():
            arguments += ["--resume"]
        else:
            arguments += ["--config", str(job.path / RECIPE_FILE)]
            arguments += ["--weights", w] if (w := job.record.get("weights")) else []
        trained = steps[-1]["seconds"] if (steps := read_steps(job.path)) else 0.0
        ends = 60 * self.limits.minutes  # training time in seconds
        left = 0.0 if request == FINISH else ends - trained
        arguments += ["--keep-after", f"{max(left / 60, MIN_MINUTES):.4f}"]
        with open(job.path / LOG_FILE, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"{LAUNCH_MARKER} {' '.join(arguments)}\n")
        launched = time.time()
        process = processes.launch_process(
            [*self.command, *arguments], PACKAGE.parent, job.path / LOG_FILE
        )
        changes = {"process": process, "launched": launched, "request": request, "ends": ends}
        write_job(job.path, job.record | changes)

    def _check_waiting(self) -> None:
        limit = self.limits.waiting
        if sum(job.state == QUEUED for job in self._list_all_jobs()) >= limit:
            raise JobError(
                f"The queue is full: {limit} training runs are waiting. Try again when one of them "
                "has started."
            )

    def _check_room(self, replaced: Job | None = None) -> None:
        """Raise `JobError` if one more run exceeds a limit; the job `replaced` does not count."""
        ignored = replaced.record if replaced else None
        jobs = [job for job in self._list_all_jobs() if job.record != ignored]
        limits = self.limits
        if len(jobs) >= limits.kept:
            raise JobError(
                f"The limit of {limits.kept} stored training runs is reached. Delete one of them."
            )
        used_bytes = sum(_file_size(path) for job in jobs for path in job.path.rglob("*"))
        if used_bytes > limits.mib * MIB:
            raise JobError(
                f"The training runs take {used_bytes / MIB:,.0f} MB, more than the limit of "
                f"{limits.mib:,} MB. Delete one of them."
            )
        if shutil.disk_usage(self.root).free < limits.free_mib * MIB:
            raise JobError(
                f"The disk has less than {limits.free_mib:,} MB of free space. Delete some files."
            )


def _list_jobs(*roots: Path) -> list[Job]:
    folders = (entry for root in roots for entry in root.glob("[!.]*") if entry.is_dir())
    jobs = [job for folder in folders if (job := read_job_state(folder))]
    return sorted(jobs, key=lambda job: (-job.record.get("at", 0), job.name))


def _create_staging(root: Path) -> tempfile.TemporaryDirectory:
    """Create a temporary folder in `root`. Raises `JobError` if `root` cannot be written."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=".pictures-", dir=root)
    except OSError as error:
        raise JobError(
            f"Runs cannot be written to '{root}' ({error.strerror}). Start the page in another "
            "folder, or with --runs DIR."
        ) from error


def _new_folder(root: Path, stem: str) -> Path:
    for number in range(1, 10_000):
        try:
            (root / f"{stem}-{number}").mkdir()
        except FileExistsError:
            continue
        return root / f"{stem}-{number}"
    raise JobError(f"There are too many runs named {stem} in '{root}'. Delete some runs.")


@contextmanager
def _remove_on_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


JOB_ACTIONS: dict[str, Callable[[JobQueue, object], None]] = {
    "pause": JobQueue.pause,
    "resume": JobQueue.resume,
    "stop": JobQueue.stop,
    "discard": JobQueue.delete,
}


def _file_size(path: Path) -> int:
    """Return the size of a file in bytes; 0 for a folder or a deleted file."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
