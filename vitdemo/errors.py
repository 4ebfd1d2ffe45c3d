"""Exceptions for errors that users can cause and fix.

A message contains the bad value and the remedy. `train.py` prints the message and exits with code
2; the page shows it as a `gr.Error`. Every other exception is a bug and keeps its traceback.
"""


class VitdemoError(Exception):
    """Base of all errors with a message for users."""


class DataError(VitdemoError):
    """A dataset is missing, unreadable or unsuitable."""


class RecipeError(VitdemoError):
    """A recipe does not exist, or its fields contradict each other."""


class RunError(VitdemoError):
    """A run is missing, damaged or unsuitable for the request."""


class PretrainingError(RunError):
    """A run is self-supervised pretraining, so its model predicts no classes."""


class ModelError(VitdemoError):
    """A model cannot be built, or its weights cannot be loaded."""


class ImageError(VitdemoError):
    """A file cannot be read as an image."""


class JobError(VitdemoError):
    """A training run cannot be started, or no longer exists."""


class LessonError(VitdemoError):
    """Error for an unreadable lesson file; the message contains the line number."""


class SiteError(VitdemoError):
    """A static site cannot be written."""


class Stopped(Exception):
    """Exception in a progress callback when the user stops the work; it is never shown."""


def short_reason(error: Exception) -> str:
    """Return the first line of the message, or the name of the exception class if it is empty."""
    return (str(error).partition("\n")[0] or type(error).__name__)[:200]
