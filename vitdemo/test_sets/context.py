"""The context of a user's test set: its runs have evaluations on these images.

    view = TestSetContext(context, find_test_set(context, "Group 2"))
    view.find_run("vit").evaluation.probabilities  # (N, C)
    view.find_run("vit" + ORIGINAL_SUFFIX).evaluation  # original test images of the same classes

Letters: N images, C classes.
"""

from dataclasses import dataclass, fields, replace

import numpy as np
from torch import nn

from vitdemo.context import AppContext
from vitdemo.data import TestImage
from vitdemo.errors import RunError
from vitdemo.runs import Evaluation, Run
from vitdemo.test_sets.user_test_set import UserTestSet

ORIGINAL_SUFFIX = " (original test set)"  # suffix of a run's name, see `TestSetContext.find_run`


@dataclass(frozen=True)
class RunOnTestSet(Run):
    """A run with an evaluation on a user's test set. `original` is the unchanged run."""

    original: Run
    tests: UserTestSet

    @classmethod
    def create(cls, run: Run, tests: UserTestSet) -> "RunOnTestSet":
        values = {field.name: getattr(run, field.name) for field in fields(Run)}
        is_evaluated = tests.find_evaluation(run) is not None
        # differs from the stamp of the original
        stamp = (*run.stamp, cls.__name__, tests.id, is_evaluated)
        return cls(**values | {"stamp": stamp}, original=run, tests=tests)

    @property
    def has_folder(self) -> bool:
        return self.original.has_folder

    @property
    def has_weights(self) -> bool:
        return self.original.has_weights

    @property
    def has_evaluation(self) -> bool:
        return self.tests.find_evaluation(self.original) is not None

    @property
    def is_cross_validated(self) -> bool:
        """False, because the model was not trained on the test set."""
        return False

    @property
    def evaluation(self) -> Evaluation:
        """Predictions for the user's test set. Raises `RunError` if there are none."""
        if (found := self.tests.find_evaluation(self.original)) is None:
            raise RunError(
                f"'{self.name}' was not evaluated on the test set '{self.tests.name}'. The results "
                "appear here after the evaluation."
            )
        return found


@dataclass(frozen=True)
class RunOnSameClasses(RunOnTestSet):
    """A run with its own evaluation, limited to the classes that have images in `tests`.

    The accuracy on a few classes is not comparable with the accuracy on all classes.
    """

    @property
    def has_evaluation(self) -> bool:
        return self.original.has_evaluation

    @property
    def is_cross_validated(self) -> bool:
        return self.original.is_cross_validated

    @property
    def evaluation(self) -> Evaluation:
        """Predictions for the original test images. Raises `RunError` without such images."""
        own = self.original.evaluation
        chosen = np.isin(own.labels, self.tests.labels)  # (N,)
        if not chosen.any():
            raise RunError(
                f"The original test set of '{self.original.name}' has no images of these classes. "
                "Choose another model."
            )
        return replace(own, probabilities=own.probabilities[chosen], labels=own.labels[chosen])


class TestSetContext(AppContext):
    """A context whose runs are evaluated on `tests`, with the models and caches of `original`."""

    __test__ = False  # pytest must not collect this class

    def __init__(self, original: AppContext, tests: UserTestSet):
        vars(self).update(vars(original))
        self.tests = tests

    def list_runs(self) -> tuple[list[Run], list[str]]:
        return self._evaluate_runs(*super().list_runs())

    def list_runs_and_models(self) -> tuple[list[Run], list[str]]:
        return self._evaluate_runs(*super().list_runs_and_models())

    def _evaluate_runs(self, runs: list[Run], problems: list[str]) -> tuple[list[Run], list[str]]:
        return [RunOnTestSet.create(run, self.tests) for run in runs], problems

    def find_run(self, name: str) -> Run:
        """Return the run or timm model `name`. Raises `RunError` if the name is unknown.

        A name with `ORIGINAL_SUFFIX` gives the run with its original evaluation, restricted to the
        classes of the test set.
        """
        run = super().find_run(name.removesuffix(ORIGINAL_SUFFIX))
        if not name.endswith(ORIGINAL_SUFFIX):
            return run
        return replace(RunOnSameClasses.create(run.original, self.tests), name=name)

    def load_model(self, run: Run) -> nn.Module:
        return super().load_model(run.original if isinstance(run, RunOnTestSet) else run)

    def test_set(self) -> UserTestSet:
        return self.tests


def find_test_set(context: AppContext, wanted: str) -> UserTestSet:
    """Return the user's test set with this id or name. Raises `RunError` if there is none."""
    for tests in context.test_sets.list():
        if wanted in (tests.id, tests.name):
            return tests
    raise RunError(f"The test set '{wanted}' no longer exists. Choose another one.")


def load_test_image(context: AppContext, index: int, test_set_id: str = "") -> TestImage:
    """Return an image of the dataset or of a user's test set. Raises `VitdemoError`."""
    if test_set_id:
        return find_test_set(context, test_set_id)[index]
    return context.load_test_image(index)
