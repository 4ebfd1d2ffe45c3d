"""Feature spaces of test images: t-SNE, distances between classes, and nearest neighbours.

Features are the input of a model's classifier (`models.features`), or raw pixels. Distance ratio,
purity and neighbours are computed from features. Distances in a t-SNE plot are not meaningful.

Letters: N images, D width of a feature, C classes.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitdemo import data, models
from vitdemo.data import stratified
from vitdemo.errors import DataError, RunError
from vitdemo.inputs import square_crop, to_uint8
from vitdemo.runs import Run
from vitdemo.tsne import tsne_apart
from vitdemo.workbench import Workbench

PIXELS = "Raw pixels"
MOST = 2_000  # maximum number of images in a plot
SIDE = 32  # side of the raw-pixel images and of the thumbnails, in pixels
FEWEST = 4  # minimum number of images for t-SNE
BATCH = 50  # images per forward pass
# Called with the finished fraction (None: unknown) and a description. An exception in it stops the
# computation.
Report = Callable[[float | None, str], None]


@dataclass(frozen=True, eq=False)
class Sample:
    """A stratified sample of test images with a fixed seed, the same for every space.

    `indices` (N,) are indices in the test set, `labels` (N,) are classes, and `small`
    (N, S, S, 3) uint8 are thumbnails.
    """

    source: data.Source
    indices: np.ndarray
    labels: np.ndarray
    small: np.ndarray

    def __len__(self) -> int:
        return len(self.indices)


@dataclass(frozen=True, eq=False)
class Space:
    """The sample in one feature space: `features` (N, D) float32.

    `ratio` is the mean distance between classes divided by the mean distance within classes.
    `purity` is the fraction of images whose nearest neighbour has the same class.
    """

    name: str
    sample: Sample
    features: np.ndarray
    ratio: float
    purity: float


def nothing(share: float | None, words: str) -> None:
    """Ignore all progress reports."""


def sample(workbench: Workbench, most: int = MOST) -> Sample:
    """Return the sample of at most `most` images. Raises `DataError` without the dataset."""
    return workbench.cache.of(_sample, workbench.source(), most)


def _sample(found: data.Source, most: int) -> Sample:
    indices = stratified(found.labels("test").numpy(), most)  # (N,)
    pictures = found.load_some("test", torch.from_numpy(indices), SIDE)
    small = pictures.images.permute(0, 2, 3, 1).contiguous().numpy()  # (N, S, S, 3)
    return Sample(found, indices, pictures.labels.numpy(), small)


def space(
    workbench: Workbench, run: Run | None, *, most: int = MOST, report: Report = nothing
) -> Space:
    """Compute the features of `run`'s model, or raw pixels without a run; the result is cached.

    Raises `DataError` without the dataset. Raises `RunError` for a model that cannot be loaded or
    whose features are not finite.
    """
    found = sample(workbench, most)
    return workbench.cache.get_or_make(
        ("space", found.source, most, run),
        lambda: _space(workbench, run, found, report),
    )


def _space(workbench: Workbench, run: Run | None, found: Sample, report: Report) -> Space:
    if run is None:
        features = found.small.reshape(len(found), -1).astype(np.float32) / 255  # (N, D)
    else:
        chosen = torch.from_numpy(found.indices)
        pictures = found.source.load_some("test", chosen, run.spec.image_size).images
        features = model_features(workbench, run, pictures, report)
    distances = pair_distances(features)
    return Space(
        run.name if run else PIXELS,
        found,
        features,
        distance_ratio(distances, found.labels),
        nearest_purity(distances, found.labels),
    )


def model_features(workbench: Workbench, run: Run, images: Tensor, report: Report) -> np.ndarray:
    """Compute the features (N, D) float32 of `run`'s model for `images` (N, 3, S, S) uint8.

    Raises `RunError` if a feature is not finite.
    """
    model, parts = workbench.model(run), []
    for batch in images.split(BATCH):
        done = BATCH * len(parts)
        report(done / len(images), f"{run.name}: features of {done:,} of {len(images):,} images")
        parts.append(_features(model, run.preprocessing(batch.to(workbench.device))))
    features = np.concatenate(parts)  # (N, D)
    if not np.isfinite(features).all():
        raise RunError(f"The features of '{run.name}' are not finite: its training diverged.")
    return features


@torch.inference_mode()
def _features(model: torch.nn.Module, pixels: Tensor) -> np.ndarray:
    return models.features(model, pixels).float().cpu().numpy()  # (B, D)


def pair_distances(features: np.ndarray) -> np.ndarray:
    """Compute the Euclidean distances (N, N) of all pairs of `features` (N, D)."""
    from sklearn.metrics import euclidean_distances  # ten times as fast as scipy's cdist

    points = np.asarray(features, np.float64)
    return euclidean_distances(points - points.mean(0))  # centred for numerical precision


def distance_ratio(distances: np.ndarray, labels: np.ndarray) -> float:
    """Compute the mean distance between classes divided by the mean distance within classes.

    `distances` are (N, N), `labels` (N,). At a ratio near 1, the mean distance does not distinguish
    classes, but the classes may still be separable. The result is NaN if there is only one class,
    if no class has two images, or if all images of each class are equal.
    """
    same = labels[:, None] == labels[None]  # (N, N)
    within = same & ~np.eye(len(labels), dtype=bool)
    if same.all() or not within.any():
        return float("nan")
    inside = distances[within].mean()
    return float(distances[~same].mean() / inside) if inside > 0 else float("nan")


def nearest_purity(distances: np.ndarray, labels: np.ndarray) -> float:
    """Compute the fraction of images whose nearest neighbour has the same class.

    `distances` are (N, N). The result is NaN for a single image.
    """
    from sklearn.neighbors import NearestNeighbors

    if len(labels) < 2:
        return float("nan")
    search = NearestNeighbors(n_neighbors=1, metric="precomputed").fit(distances)
    others = search.kneighbors(return_distance=False)[:, 0]  # excludes the image itself
    return float((labels[others] == labels).mean())


def plane(
    workbench: Workbench, run: Run | None, *, most: int = MOST, report: Report = nothing
) -> tuple[Space, np.ndarray]:
    """Return a space and its t-SNE positions (N, 2) in 0..1, both cached. Raises as `space`."""
    found = space(workbench, run, most=most, report=report)
    key = ("plane", found.sample.source, most, run)
    return found, workbench.cache.get_or_make(key, lambda: _laid_out(found, report))


def planes(
    workbench: Workbench, name: str | None, most: int, report: Report = nothing
) -> list[tuple[Space, np.ndarray]]:
    """Compute the planes of raw pixels and, with a `name`, of this run's features.

    Both use the same images. `report` is called a few times per second from two threads. An
    exception in it stops the computation.
    """
    if name is None:
        return [plane(workbench, None, most=most, report=report)]
    run = workbench.run(name)
    sample(workbench, most)  # cached here, so that the two threads do not both compute it
    with ThreadPoolExecutor(1) as worker:  # t-SNE uses one core, so features can use the others
        pixels = worker.submit(plane, workbench, None, most=most, report=report)
        learned = plane(workbench, run, most=most, report=report)
        return [pixels.result(), learned]


def _laid_out(found: Space, report: Report) -> np.ndarray:
    """Compute t-SNE. Raises `DataError` for fewer than `FEWEST` images or equal features."""
    features = found.features
    if len(features) < FEWEST:
        raise DataError(
            f"t-SNE needs at least {FEWEST} test images, but there are {len(features)}."
        )
    if np.ptp(features, axis=0).max() == 0:
        raise DataError("t-SNE cannot be computed: all images have the same features.")
    return tsne_apart(features, lambda: report(None, f"{found.name}: t-SNE"))


def neighbours(
    workbench: Workbench,
    name: str | None,
    image: Image.Image,
    *,
    count: int = 8,
    most: int = MOST,
    report: Report = nothing,
) -> tuple[Sample, np.ndarray, np.ndarray]:
    """Find the test images of the sample with the highest cosine similarity to an RGB image.

    Uses the features of the run `name`, or raw pixels without a name. Returns the sample, indices
    in the sample (K,), nearest first, and the cosine similarities (K,).
    """
    run = workbench.run(name) if name else None
    found = space(workbench, run, most=most, report=report)
    if run is None:
        small = to_uint8(square_crop(image, SIDE)).transpose(1, 2, 0)  # (S, S, 3)
        query = small.reshape(-1).astype(np.float32) / 255  # (D,)
    else:
        _, pixels = workbench.input(run.preprocessing, image)
        query = _features(workbench.model(run), pixels)[0]  # (D,)
    places, cosines = nearest(found.features, query, count)
    return found.sample, places, cosines


def nearest(features: np.ndarray, query: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indices and cosines of the `count` rows of (N, D) nearest to `query` (D,)."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=min(count, len(features)), metric="cosine").fit(features)
    distances, places = search.kneighbors(query[None])  # each (1, K)
    return places[0], 1 - distances[0]
