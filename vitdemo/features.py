"""Test images as points: raw pixels and each model's features, in the plane, and neighbours.

The features are what a model's last layer answers from (`models.features`). Ratio and neighbours
are computed on them; t-SNE is only an image of them, whose distances and sizes mean little.

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
MOST = 2_000  # images in a plot
SIDE = 32  # of the raw pixels, and of the small images behind the points
FEWEST = 4  # below, t-SNE has nothing to lay out
BATCH = 50
# Share of the work that is done (None: unknown), and a word of what is being done. What it raises
# ends the work.
Report = Callable[[float | None, str], None]


@dataclass(frozen=True, eq=False)
class Sample:
    """The same seeded, stratified test images for every space.

    `indices` (N,) of the test set, `labels` (N,), `small` (N, S, S, 3) uint8.
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

    `ratio` is the mean distance of two images of different classes over that of two of the same
    class, `purity` the share of images whose nearest neighbour is of their own class.
    """

    name: str
    sample: Sample
    features: np.ndarray
    ratio: float
    purity: float


def nothing(share: float | None, words: str) -> None:
    """A `Report` to nobody."""


def sample(workbench: Workbench, most: int = MOST) -> Sample:
    """Raises `DataError` where the dataset is not there."""
    return workbench.cache.of(_sample, workbench.source(), most)


def _sample(found: data.Source, most: int) -> Sample:
    indices = stratified(found.labels("test").numpy(), most)  # (N,)
    pictures = found.load_some("test", torch.from_numpy(indices), SIDE)
    small = pictures.images.permute(0, 2, 3, 1).contiguous().numpy()  # (N, S, S, 3)
    return Sample(found, indices, pictures.labels.numpy(), small)


def space(
    workbench: Workbench, run: Run | None, *, most: int = MOST, report: Report = nothing
) -> Space:
    """The features of `run`'s model, or raw pixels without one; computed once.

    Raises `DataError` without the dataset, `RunError` for a model that cannot be loaded or
    answers with NaN.
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
    """What `run`'s last layer answers from, (N, D) float32, for `images` (N, 3, S, S) uint8.

    Raises `RunError` where it is no number.
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
    """Euclidean distances of all pairs, (N, D) -> (N, N)."""
    from sklearn.metrics import euclidean_distances  # scipy's cdist takes ten times as long

    points = np.asarray(features, np.float64)
    return euclidean_distances(points - points.mean(0))  # small numbers lose least in its squares


def distance_ratio(distances: np.ndarray, labels: np.ndarray) -> float:
    """Mean distance (N, N) between images of different classes over that within a class.

    Near 1 the mean distance does not tell classes apart, though they may be separable. NaN where
    all images are of one class, no class has two, or images of a class are all the same.
    """
    same = labels[:, None] == labels[None]  # (N, N)
    within = same & ~np.eye(len(labels), dtype=bool)
    if same.all() or not within.any():
        return float("nan")
    inside = distances[within].mean()
    return float(distances[~same].mean() / inside) if inside > 0 else float("nan")


def nearest_purity(distances: np.ndarray, labels: np.ndarray) -> float:
    """Share of images whose nearest other image (N, N) is of their own class; NaN for one."""
    from sklearn.neighbors import NearestNeighbors

    if len(labels) < 2:
        return float("nan")
    search = NearestNeighbors(n_neighbors=1, metric="precomputed").fit(distances)
    others = search.kneighbors(return_distance=False)[:, 0]  # each one's nearest but itself
    return float((labels[others] == labels).mean())


def plane(
    workbench: Workbench, run: Run | None, *, most: int = MOST, report: Report = nothing
) -> tuple[Space, np.ndarray]:
    """A space, and its t-SNE positions (N, 2) in 0..1; computed once. Raises as `space` does."""
    found = space(workbench, run, most=most, report=report)
    key = ("plane", found.sample.source, most, run)
    return found, workbench.cache.get_or_make(key, lambda: _laid_out(found, report))


def planes(
    workbench: Workbench, name: str | None, most: int, report: Report = nothing
) -> list[tuple[Space, np.ndarray]]:
    """The planes of raw pixels and, if it is named, of a run's features, on the same images.

    Whatever `report` raises ends the work: it is called a few times a second, from two threads.
    """
    if name is None:
        return [plane(workbench, None, most=most, report=report)]
    run = workbench.run(name)
    sample(workbench, most)  # once, for both
    with ThreadPoolExecutor(1) as worker:  # t-SNE has one core to itself; features take the others
        pixels = worker.submit(plane, workbench, None, most=most, report=report)
        learned = plane(workbench, run, most=most, report=report)
        return [pixels.result(), learned]


def _laid_out(found: Space, report: Report) -> np.ndarray:
    """t-SNE of a space. Raises `DataError` for fewer than `FEWEST` images, or all the same."""
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
    """The test images of the sample that are nearest to an RGB image, by cosine.

    In the features of the run `name`, or, without one, by raw pixels.
    Returns the sample, the places in it (K,), nearest first, and their cosines (K,).
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
    """The `count` rows of (N, D) with the largest cosine to `query` (D,): places, cosines."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=min(count, len(features)), metric="cosine").fit(features)
    distances, places = search.kneighbors(query[None])  # each (1, K)
    return places[0], 1 - distances[0]
