"""Feature spaces of test images: t-SNE, distances between classes, and nearest neighbours.

Features are the input of a model's classifier head, or raw pixels. Distance ratio, purity and
neighbours are computed from features, because distances in a t-SNE plot are not meaningful.

Letters: N images, D feature dimension, C classes.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitdemo import data, models
from vitdemo.analyses.tsne import run_tsne_process
from vitdemo.context import AppContext
from vitdemo.data import sample_stratified
from vitdemo.data.image_files import crop_and_resize, to_uint8
from vitdemo.errors import DataError, RunError
from vitdemo.runs import Run

PIXEL_SPACE = "Raw pixels"
MAX_SAMPLE_SIZE = 2_000  # maximum number of images in a plot
SAMPLE_SIDE = 32  # side of the raw-pixel images and of the thumbnails, in pixels
MIN_TSNE_IMAGES = 4  # minimum number of images for t-SNE
FEATURE_BATCH_SIZE = 50  # images per forward pass
NUM_NEIGHBOURS = 8
# Callback with the finished fraction (None: unknown) and a description. An exception in the
# callback stops the computation.
ProgressReport = Callable[[float | None, str], None]


@dataclass(frozen=True, eq=False)
class ImageSample:
    """A stratified sample of test images with a fixed seed, the same for every feature space.

    `indices` (N,) are positions in the test set, `labels` (N,) are class indices, and `thumbnails`
    are (N, S, S, 3) uint8.
    """

    source: data.ImageDataset
    indices: np.ndarray
    labels: np.ndarray
    thumbnails: np.ndarray

    def __len__(self) -> int:
        return len(self.indices)

    def load_inputs(self, run: Run) -> Tensor:
        """Return the images at the input size of `run`'s model, (N, 3, S, S) uint8."""
        chosen = torch.from_numpy(self.indices)
        return self.source.load_subset("test", chosen, run.spec.image_size).images


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """A sample of test images with the features (N, D) float32 of one model, or raw pixels.

    `distance_ratio` is the mean distance between classes divided by the mean distance within
    classes. `purity` is the fraction of images whose nearest neighbour has the same class.
    """

    name: str
    sample: ImageSample
    features: np.ndarray
    distance_ratio: float
    purity: float


@dataclass(frozen=True, eq=False)
class EmbeddingPlane:
    """A sample of test images with the t-SNE `places` (N, 2), 0 to 1, of its features.

    The other fields describe the features, as in `FeatureSpace`; `dimension` is D.
    """

    name: str
    sample: ImageSample
    dimension: int
    distance_ratio: float
    purity: float
    places: np.ndarray


def ignore_progress(fraction: float | None, description: str) -> None:
    """Do nothing: the default `ProgressReport`."""


def load_sample(context: AppContext, max_images: int) -> ImageSample:
    """Return a sample of at most `max_images` test images. Raises `DataError` without a dataset."""
    return context.cache.call(_draw_sample, context.open_dataset(), max_images)


def _draw_sample(source: data.ImageDataset, max_images: int) -> ImageSample:
    indices = sample_stratified(source.load_labels("test").numpy(), max_images)  # (N,)
    pictures = source.load_subset("test", torch.from_numpy(indices), SAMPLE_SIDE)
    small = pictures.images.permute(0, 2, 3, 1).contiguous().numpy()  # (N, S, S, 3)
    return ImageSample(source, indices, pictures.labels.numpy(), small)


def load_feature_space(
    context: AppContext,
    run: Run | None,
    *,
    max_images: int = MAX_SAMPLE_SIZE,
    report: ProgressReport = ignore_progress,
) -> FeatureSpace:
    """Compute the features of `run`'s model, or raw pixels without a run; the result is cached.

    Raises `DataError` without a dataset. Raises `RunError` if the model cannot be loaded or its
    features are not finite.
    """
    compute = partial(
        _compute_feature_space, context, run, load_sample(context, max_images), report
    )
    return context.cache.get_or_compute(_cache_key(context, "space", run, max_images), compute)


def _cache_key(context: AppContext, kind: str, run: Run | None, max_images: int) -> tuple:
    return kind, context.open_dataset(), max_images, run


def has_feature_space(context: AppContext, run: Run | None) -> bool:
    """Return whether the result of `load_feature_space` is in the cache. Raises `DataError`."""
    return context.cache.get(_cache_key(context, "space", run, MAX_SAMPLE_SIZE)) is not None


def _compute_feature_space(
    context: AppContext, run: Run | None, sample: ImageSample, report: ProgressReport
) -> FeatureSpace:
    if run is None:
        name, features = PIXEL_SPACE, _flatten_pixels(sample.thumbnails)
    else:
        inputs = sample.load_inputs(run)
        name, features = run.name, compute_features(context, run, inputs, report)
    distances = pairwise_distances(features)
    ratio = distance_ratio(distances, sample.labels)
    return FeatureSpace(name, sample, features, ratio, nearest_purity(distances, sample.labels))


def _flatten_pixels(images: np.ndarray) -> np.ndarray:
    """Return the pixels of images (N, S, S, 3) uint8 as features (N, D), 0 to 1."""
    return images.reshape(len(images), -1).astype(np.float32) / 255


def compute_features(
    context: AppContext, run: Run, images: Tensor, report: ProgressReport
) -> np.ndarray:
    """Compute the features (N, D) float32 of `run`'s model for `images` (N, 3, S, S) uint8.

    Raises `RunError` if a feature is not finite.
    """
    model, parts = context.load_model(run), []
    for batch in images.split(FEATURE_BATCH_SIZE):
        done = FEATURE_BATCH_SIZE * len(parts)
        report(done / len(images), f"{run.name}: features of {done:,} of {len(images):,} images")
        parts.append(_extract_batch(model, run.preprocessing(batch.to(context.device))))
    features = np.concatenate(parts)  # (N, D)
    if not np.isfinite(features).all():
        raise RunError(f"The features of '{run.name}' are not finite. Choose another model.")
    return features


@torch.inference_mode()
def _extract_batch(model: torch.nn.Module, pixels: Tensor) -> np.ndarray:
    return models.extract_features(model, pixels).float().cpu().numpy()  # (B, D)


def pairwise_distances(features: np.ndarray) -> np.ndarray:
    """Compute the Euclidean distances (N, N) of all pairs of `features` (N, D)."""
    from sklearn.metrics import euclidean_distances  # `cdist` of scipy takes ten times as long

    points = np.asarray(features, np.float64)
    return euclidean_distances(points - points.mean(0))  # centring improves the precision


def distance_ratio(distances: np.ndarray, labels: np.ndarray) -> float:
    """Compute the mean distance between classes divided by the mean distance within classes.

    `distances` are (N, N), `labels` (N,). A ratio near 1 means that the mean distance does not
    distinguish classes, but the classes may still be separable. The result is NaN if there is only
    one class, if no class has two images, or if all images of each class are equal.
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


def load_plane(
    context: AppContext, run: Run | None, max_images: int, report: ProgressReport
) -> EmbeddingPlane:
    """Compute the t-SNE map of a feature space, see `load_feature_space`; the result is cached."""
    found = load_feature_space(context, run, max_images=max_images, report=report)
    key = _cache_key(context, "plane", run, max_images)
    return context.cache.get_or_compute(key, partial(_compute_plane, found, report))


def _compute_plane(space: FeatureSpace, report: ProgressReport) -> EmbeddingPlane:
    places, dimension = _compute_tsne(space, report), space.features.shape[1]
    found = space.name, space.sample, dimension, space.distance_ratio, space.purity
    return EmbeddingPlane(*found, places)


def load_planes(
    context: AppContext, run: Run | None, max_images: int, report: ProgressReport = ignore_progress
) -> list[EmbeddingPlane]:
    """Compute the t-SNE planes of raw pixels and, if `run` is given, of its model's features.

    Both planes show the same images. `report` is called a few times per second from two threads. An
    exception in `report` stops the computation.
    """
    if run is None:
        return [load_plane(context, None, max_images, report)]
    load_sample(context, max_images)  # both threads then find the sample in the cache
    with ThreadPoolExecutor(1) as worker:  # t-SNE uses one core, so features can use the others
        pixels = worker.submit(load_plane, context, None, max_images, report)
        learned = load_plane(context, run, max_images, report)
        return [pixels.result(), learned]


def find_cached_planes(
    context: AppContext, run: Run | None, max_images: int
) -> list[EmbeddingPlane] | None:
    """Return the result of `load_planes` if it is in the cache, else None."""
    spaces = (None, *([run] if run else []))
    found = [context.cache.get(_cache_key(context, "plane", each, max_images)) for each in spaces]
    return None if any(plane is None for plane in found) else found


def _compute_tsne(space: FeatureSpace, report: ProgressReport) -> np.ndarray:
    """Compute t-SNE positions (N, 2). Raises `DataError` for too few images or equal features."""
    features = space.features
    if len(features) < MIN_TSNE_IMAGES:
        raise DataError(
            f"t-SNE needs at least {MIN_TSNE_IMAGES} test images, not {len(features)}. Add images."
        )
    if np.ptp(features, axis=0).max() == 0:
        raise DataError("All images have the same features. Choose another model for t-SNE.")
    return run_tsne_process(features, lambda: report(None, f"{space.name}: t-SNE"))


def find_neighbours(
    context: AppContext, run: Run | None, image: Image.Image
) -> tuple[ImageSample, np.ndarray, np.ndarray]:
    """Find the `NUM_NEIGHBOURS` test images with the highest cosine similarity to an RGB image.

    Features are from the model of `run`, or raw pixels without a run. Returns the sample, the
    indices (K,) of the images in the sample, nearest first, and the cosine similarities (K,).
    """
    found = load_feature_space(context, run)
    if run is None:
        small = to_uint8(crop_and_resize(image, SAMPLE_SIDE)).transpose(1, 2, 0)  # (S, S, 3)
        query = _flatten_pixels(small[None])[0]  # (D,)
    else:
        _, pixels = context.prepare_input(run.preprocessing, image)
        query = _extract_batch(context.load_model(run), pixels)[0]  # (D,)
    places, cosines = find_nearest(found.features, query, NUM_NEIGHBOURS)
    return found.sample, places, cosines


def find_nearest(
    features: np.ndarray, query: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return indices and cosines of the `count` rows of `features` (N, D) nearest to `query`."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=min(count, len(features)), metric="cosine").fit(features)
    distances, places = search.kneighbors(query[None])  # each (1, K)
    return places[0], 1 - distances[0]
