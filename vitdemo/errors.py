"""Exceptions for errors that users can cause and fix.

A message names the bad value and the remedy. `train.py` prints it and exits with code 2; the page
shows it as a `gr.Error`. Every other exception is a bug and keeps its traceback.
"""


class VitdemoError(Exception):
    """Base of all errors with a message for users."""


class DataError(VitdemoError):
    """The dataset is missing, unreadable or unsuitable for the call."""


class RecipeError(VitdemoError):
    """The recipe does not exist, or its fields contradict each other."""


class RunError(VitdemoError):
    """The run folder is missing, damaged or belongs to another run."""


class PretrainingError(RunError):
    """The run is self-supervised pretraining, so its model predicts no classes."""


class ModelError(VitdemoError):
    """The model cannot be built, or its weights cannot be loaded."""


class ImageError(VitdemoError):
    """The file is not an image that can be shown."""


class JobError(VitdemoError):
    """The training run cannot be started, or no longer exists."""


class LessonError(VitdemoError):
    """The lesson file cannot be read; the message names the line."""


class Stopped(Exception):
    """The user stopped the work; raised from a progress callback and never shown."""
