"""Classes, images and models of one user, which only this user sees until they are published."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from vitdemo.custom_classes import ImageCollection, LinearProbe, ProbePrediction
from vitdemo.errors import DataError
from vitdemo.jobs import JobQueue
from vitdemo.jobs.state import Job

NO_PROBE_MESSAGE = "No classifier has been trained yet. Press 'Train classifier' first."
EDITOR_VIEW, MODELS_VIEW = "custom_classes", "custom_classes_models"
RESULT_VIEW, TRIAL_VIEW = "custom_classes_result", "custom_classes_trial"
EMPTY_COLLECTION = ImageCollection()


@dataclass
class CustomClassesSession:
    """State of one user; actions and tasks modify it in place, so that no change is lost.

    `message` and `problems` are about the last change of the images, and `notice` is about the
    models. `previous_collection` is the collection before the last change. `probe_folder` is the
    run folder of the classifier. `tuned_folder` is the run folder of the fine-tuned model, which
    only this user sees. `published_job` is the published run of the classifier `published_probe`.
    `prediction` is the classifier's prediction for the last image under Try.
    """

    collection: ImageCollection = EMPTY_COLLECTION
    previous_collection: ImageCollection | None = None
    message: str = ""
    problems: tuple[str, ...] = ()
    notice: str = ""
    probe: LinearProbe | None = None
    probe_folder: Path | None = None
    tuned_folder: Path | None = None
    published_probe: LinearProbe | None = None
    published_job: Job | None = None
    prediction: ProbePrediction | None = None

    @property
    def is_probe_current(self) -> bool:
        """Return whether the classifier was trained on the current images."""
        return self.probe is not None and self.probe.collection is self.collection

    @property
    def has_probe_classes(self) -> bool:
        """Return whether the user's images still have all classes of the classifier."""
        names = {each.name for each in self.collection.classes}
        return self.probe is not None and names.issuperset(self.probe.classes)

    def require_probe(self) -> LinearProbe:
        """Return the trained classifier. Raises `DataError` if there is none."""
        if self.probe is None:
            raise DataError(NO_PROBE_MESSAGE)
        return self.probe

    def delete_classifier(self) -> None:
        if self.probe_folder:
            shutil.rmtree(self.probe_folder, ignore_errors=True)

    def delete_fine_tuned(self, jobs: JobQueue | None) -> None:
        """End the fine-tuning, and delete its run folder with the images."""
        if jobs and self.tuned_folder:
            jobs.discard(self.tuned_folder)
        self.tuned_folder = None

    def delete_all(self, jobs: JobQueue | None) -> None:
        """Delete all files of the user that were not published."""
        self.delete_classifier()
        self.delete_fine_tuned(jobs)
