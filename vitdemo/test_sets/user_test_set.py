"""A user's test set: labelled images of the models' classes, and evaluations on these images.

    tests = UserTestSet("Group 2", run.classes, squares, labels)
    tests.add_evaluation(run, probabilities, seconds_per_image)
    tests.find_evaluation(run).probabilities  # (N, C)

Letters: N images, C classes.
"""

import hashlib
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from vitdemo.data import ImageDataset, LabelledImages, TestSet
from vitdemo.errors import RunError
from vitdemo.runs import Evaluation, Run

MIN_SIDE = 96  # minimum side in pixels, for readable galleries


@dataclass(frozen=True)
class _ListedDataset(ImageDataset):
    """A test set of given files, each with the index of its class."""

    files: tuple[tuple[str, int], ...] = ()

    def list_files(self, part: str) -> list[tuple[str, int]]:
        return [*self.files] if part == "test" else []

    def list_notes(self) -> list[str]:
        return []


class UserTestSet(TestSet):
    """Square images with labels, in a temporary folder that is deleted with this object.

    `classes` are the C classes of the evaluated models. Not all of them need images. `id` is random
    and not guessable, so it also protects the images from other users. `groups` (N,) are the groups
    of near-identical images. `training_copies` and `test_copies` (N,) mark images that are also in
    the training set and in the original test set. The arrays are None until they are computed, or
    if they cannot be computed.
    """

    groups: np.ndarray | None = None
    training_copies: np.ndarray | None = None
    test_copies: np.ndarray | None = None

    def __init__(
        self,
        name: str,
        classes: tuple[str, ...],
        squares: Sequence[Image.Image],
        labels: Sequence[int],
    ):
        self.id, self.name = secrets.token_hex(8), name
        folder = Path(tempfile.mkdtemp(prefix="vitdemo-tests-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        digest = hashlib.blake2b("\0".join(classes).encode(), digest_size=8)
        files = []
        for i, (square, label) in enumerate(zip(squares, labels, strict=True)):
            path = folder / f"{i:05}.png"
            square.save(path)
            digest.update(int(label).to_bytes(4, "little") + square.tobytes())
            files.append((str(path), int(label)))
        super().__init__(_ListedDataset(name, folder, classes, files=tuple(files)))
        self.labels = np.array([label for _, label in files], dtype=np.int64)  # (N,)
        self.fingerprint = digest.hexdigest()
        self._evaluations: dict[tuple, Evaluation] = {}  # (path, stamp) of the run

    def load_crops(self, side: int) -> tuple[LabelledImages, str]:
        """Return the square crops of all images, and the fingerprint of this test set.

        The width is `side`, but at least `MIN_SIDE`. Unlike in a dataset, the fingerprint does not
        depend on `side`, so that models with different input sizes can be compared.
        """
        return super().load_crops(max(side, MIN_SIDE))[0], self.fingerprint

    @property
    def tested_classes(self) -> list[str]:
        return [self.classes[c] for c in np.unique(self.labels)]

    def find_evaluation(self, run: Run) -> Evaluation | None:
        """Return the evaluation of `run` on this test set; None before `add_evaluation`."""
        return self._evaluations.get((run.path, run.stamp))

    def add_evaluation(
        self, run: Run, probabilities: np.ndarray, seconds_per_image: float
    ) -> Evaluation:
        """Store the predictions (N, C) of `run`.

        The validation predictions of the run's own evaluation are kept for temperature scaling.
        Raises `RunError` for another number of images or classes.
        """
        if probabilities.shape != (len(self), len(self.classes)):
            raise RunError(
                f"'{run.name}' has {probabilities.shape[-1]} classes, but the test set "
                f"'{self.name}' has {len(self.classes)} classes. Choose another model."
            )
        own = None
        with suppress(RunError):  # the run has no valid evaluation of its own
            own = run.evaluation
        self._evaluations[run.path, run.stamp] = Evaluation(
            probabilities.astype(np.float32),
            self.labels,
            self.fingerprint,
            seconds_per_image,
            own.validation_probabilities if own else None,
            own.validation_labels if own else None,
        )
        return self._evaluations[run.path, run.stamp]
