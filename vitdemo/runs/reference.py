"""Similarity of an image to a run's training images, stored in `reference_features.npz`.

A classifier predicts one of its classes for any image, often with high confidence. The similarity
score uses the penultimate features: it is the mean cosine to the nearest stored training images. A
similar score is in Sun et al. 2022, "Out-of-distribution detection with deep nearest neighbors",
https://arxiv.org/abs/2204.06507. The scores of validation images show the usual range.

    reference = read_reference(run)
    reference.percentile(features)  # 0.4: less similar than 99.6% of the validation images

Letters: N images, R reference images, V validation images, D feature dimension.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vitdemo import models
from vitdemo.data import LabelledImages, sample_stratified
from vitdemo.errors import RunError
from vitdemo.runs.files import REFERENCE, write_atomically
from vitdemo.runs.run import Run
from vitdemo.runs.weights import load_model

NUM_NEIGHBOURS = 10
NUM_REFERENCE_IMAGES = 800  # float16 features of dimension 192 take 0.3 MB
MAX_VALIDATION = 2_000
MIN_VALIDATION = 100  # at least one image per percentile
# Percentiles of validation scores. Below the first, the page describes an image as rather unlike
# the training images; below the second, as unlike. See docs/results.md.
RATHER_UNLIKE_PERCENTILE, UNLIKE_PERCENTILE = 5.0, 1.0
REFERENCE_BATCH_SIZE = 250


@dataclass(frozen=True, eq=False)
class ReferenceFeatures:
    """Reference for similarity scores: features of training images, scores of validation images.

    `features` (R, D) float16 have unit length, `validation_scores` (V,) float32 are sorted.
    """

    features: np.ndarray
    validation_scores: np.ndarray

    def score(self, features: Tensor) -> Tensor:
        """Return similarity scores (N,) of `features` (N, D): mean cosine to nearest references."""
        references = torch.from_numpy(self.features).float()  # (R, D)
        cosines = _normalise(features) @ references.T  # (N, R)
        return cosines.topk(min(NUM_NEIGHBOURS, len(references)), dim=1).values.mean(1)  # (N,)

    def percentile(self, features: Tensor) -> Tensor:
        """Return the percentage () of validation images with a lower score than `features` (D,)."""
        lower = torch.from_numpy(self.validation_scores) < self.score(features[None])
        return 100 * lower.float().mean()


def _normalise(features: Tensor) -> Tensor:
    """Return `features` (N, D) with unit length, as float32."""
    return F.normalize(features.float(), dim=1, eps=torch.finfo(torch.float32).tiny)


def build_reference(train: Tensor, validation: Tensor) -> ReferenceFeatures:
    """Build the reference from features of training (R, D) and validation images (V, D).

    The validation scores are computed with the rounded features, which are stored.
    """
    reference = ReferenceFeatures(_normalise(train).half().numpy(), np.empty(0, np.float32))
    return ReferenceFeatures(reference.features, reference.score(validation).sort().values.numpy())


def compute_reference(
    run: Run, train: LabelledImages, validation: LabelledImages, device: torch.device
) -> ReferenceFeatures | None:
    """Compute the reference of `run` from a stratified sample of its images.

    Returns None if there are too few images. Raises `RunError` if the features are NaN.
    """
    if len(validation) < MIN_VALIDATION or len(train) < NUM_NEIGHBOURS:
        return None
    model = load_model(run, device)
    features = [
        _compute_features(model, run, _sample_images(samples, max_images), device)
        for samples, max_images in ((train, NUM_REFERENCE_IMAGES), (validation, MAX_VALIDATION))
    ]
    if not all(rows.isfinite().all() for rows in features):
        raise RunError(
            f"The features of '{run.name}' are NaN, because its training diverged. Repeat the run."
        )
    return build_reference(*features)


def _sample_images(samples: LabelledImages, max_images: int) -> Tensor:
    indices = torch.from_numpy(sample_stratified(samples.labels.cpu().numpy(), max_images))
    return samples.images[indices.to(samples.images.device)]


@torch.inference_mode()
def _compute_features(
    model: torch.nn.Module, run: Run, images: Tensor, device: torch.device
) -> Tensor:
    parts = [
        models.extract_features(model, run.preprocessing(part.to(device))).float().cpu()
        for part in images.split(REFERENCE_BATCH_SIZE)
    ]
    return torch.cat(parts)  # (N, D)


def write_reference(folder: Path, reference: ReferenceFeatures, fingerprint: str) -> None:
    """Write `reference_features.npz`, with the `fingerprint` of the training data."""
    arrays = {
        "features": reference.features,
        "validation_scores": reference.validation_scores,
        "fingerprint": np.array(fingerprint),
    }
    write_atomically(folder / REFERENCE, lambda file: np.savez(file, **arrays))


def read_reference(run: Run) -> ReferenceFeatures | None:
    """Return the reference of `run`, or None if it is missing, damaged or from other data."""
    try:
        with open(run.path / REFERENCE, "rb") as stream, np.load(stream) as archive:
            reference = ReferenceFeatures(archive["features"], archive["validation_scores"])
            fingerprint = str(archive["fingerprint"])
    except Exception:  # zipfile, zlib and numpy have no common error class
        return None
    expected = run.config.get("data", {}).get("fingerprint")
    fits = reference.features.ndim == 2 and reference.validation_scores.ndim == 1
    return reference if fits and fingerprint == expected else None
