"""The one exception tree: every error that a person can cause and mend.

A message is one sentence that names the bad value and the way out. `train.py` prints it and leaves
with exit code 2, the page shows it as a `gr.Error`; anything else is a fault of ours and keeps its
traceback.
"""


class VitdemoError(Exception):
    """Base of all errors with a message for people."""


class DataError(VitdemoError):
    """The data set is missing, unreadable or not what the call needs."""


class RecipeError(VitdemoError):
    """A recipe that does not exist, or fields that contradict each other."""


class RunError(VitdemoError):
    """A run folder that is missing, damaged or not the one to resume."""


class PretrainingError(RunError):
    """A run folder whose model was trained without labels, so there is nothing that it answers."""


class ModelError(VitdemoError):
    """A model that cannot be built, or whose weights cannot be had."""


class ImageError(VitdemoError):
    """An upload that is not a picture we can show."""


class JobError(VitdemoError):
    """A training that may not be started, or is not there to be paused, stopped or discarded."""


class LessonError(VitdemoError):
    """A lesson's file that cannot be read, with the line that is wrong."""


class Stopped(Exception):
    """A person has ended the work: raised from a progress callback, never shown."""
