"""Imports of the fork server: `app`, and the libraries that it imports after its start."""

import gc
import importlib

import app  # noqa: F401
from vitdemo.cli.app import LATE_LIBRARIES

for library in LATE_LIBRARIES:
    importlib.import_module(library)
gc.freeze()  # a garbage collection would copy the shared memory of all imports into each fork
