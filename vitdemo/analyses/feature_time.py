"""Time of t-SNE maps on this machine, estimated from a small part of the computation.

The time depends on the machine and on its other work. A thread therefore measures one batch of
features and a small t-SNE before the user starts the task.
"""

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from vitdemo.analyses.features import (
    FEATURE_BATCH_SIZE,
    compute_features,
    ignore_progress,
    load_sample,
)
from vitdemo.analyses.tsne import ITERATIONS, reduce_to_plane
from vitdemo.context import AppContext
from vitdemo.runs import Run

PROBE_POINTS, PROBE_ITERATIONS = 300, 250  # scikit-learn needs 250 iterations
PROBE_DIMENSIONS = 50
_WORKER = ThreadPoolExecutor(1, thread_name_prefix="feature-time")


@dataclass(frozen=True)
class FeatureSpeed:
    """Measured time of one image's features and of a t-SNE of `PROBE_POINTS` points, in seconds."""

    feature_seconds: float
    tsne_seconds: float

    def estimate_seconds(self, image_count: int) -> float:
        """Return the estimated time of the t-SNE maps of `image_count` images, in seconds.

        An iteration of Barnes-Hut t-SNE takes a time proportional to N log N (van der Maaten 2014).
        The maps of pixels and of features are computed at the same time, so only one is counted.
        """
        points = max(image_count, 2)
        work = points * math.log(points) / (PROBE_POINTS * math.log(PROBE_POINTS))
        tsne = self.tsne_seconds * work * ITERATIONS / PROBE_ITERATIONS
        return self.feature_seconds * image_count + tsne


def measure_in_background(context: AppContext, run: Run | None) -> FeatureSpeed | None:
    """Start the measurement for the features of `run`; return the result, or None if not finished.

    Raises the error of a measurement that failed, for example `RunError`.
    """
    found: Future[FeatureSpeed] = context.cache.get_or_compute(
        ("feature_time", run), lambda: _WORKER.submit(measure_speed, context, run)
    )
    return found.result() if found.done() else None


def measure_speed(context: AppContext, run: Run | None) -> FeatureSpeed:
    """Measure the time of one batch of features and of a small t-SNE. Raises `RunError`."""
    points = np.random.default_rng(0).normal(size=(PROBE_POINTS, PROBE_DIMENSIONS))
    tsne = measure_seconds(lambda: reduce_to_plane(points, max_iter=PROBE_ITERATIONS))
    return FeatureSpeed(_measure_features(context, run), tsne)


def _measure_features(context: AppContext, run: Run | None) -> float:
    """Return the time per image in seconds; 0 for raw pixels."""
    if run is None:
        return 0.0
    sample = load_sample(context, FEATURE_BATCH_SIZE)
    images = sample.load_inputs(run)
    seconds = measure_seconds(lambda: compute_features(context, run, images, ignore_progress))
    return seconds / len(images)


def measure_seconds(work: Callable[[], object]) -> float:
    """Return the wall-clock time of a second call of `work`; the first call loads libraries."""
    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
