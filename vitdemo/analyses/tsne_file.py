"""t-SNE maps of the included runs, stored in `tsne.npz` of the run folder.

The file is valid only for the same weights and the same sample of test images. `benchmarks/tsne.py`
writes it. Letters: N test images.
"""

import hashlib

import numpy as np

from vitdemo.analyses.features import PIXEL_SPACE, EmbeddingPlane, ImageSample
from vitdemo.runs import WEIGHTS_FILE, Run, write_atomically

TSNE_FILE = "tsne.npz"


def write_planes(run: Run, planes: list[EmbeddingPlane]) -> None:
    """Write the planes of raw pixels and of the features of `run`, with float16 places."""
    numbers = [[plane.dimension, plane.distance_ratio, plane.purity] for plane in planes]
    arrays = {
        "places": np.stack([plane.places for plane in planes]).astype(np.float16),  # (2, N, 2)
        "numbers": np.array(numbers),  # (2, 3)
        "stamp": np.array(compute_stamp(run, planes[0].sample)),
    }
    write_atomically(run.path / TSNE_FILE, lambda file: np.savez_compressed(file, **arrays))


def read_planes(run: Run, sample: ImageSample) -> list[EmbeddingPlane] | None:
    """Return the stored planes of `sample`, or None if they are missing, damaged or outdated."""
    try:
        with open(run.path / TSNE_FILE, "rb") as stream, np.load(stream) as archive:
            places, numbers = archive["places"].astype(np.float64), archive["numbers"]
            stamp = str(archive["stamp"])
    except Exception:  # zipfile, zlib and numpy have no common error class
        return None
    if stamp != compute_stamp(run, sample):
        return None
    return [
        EmbeddingPlane(name, sample, int(dimension), float(ratio), float(purity), points)
        for name, (dimension, ratio, purity), points in zip(
            (PIXEL_SPACE, run.name), numbers, places, strict=True
        )
    ]


def compute_stamp(run: Run, sample: ImageSample) -> str:
    """Return a hash of the weights of `run` and of the images, labels and places of `sample`."""
    digest = hashlib.blake2b((run.path / WEIGHTS_FILE).read_bytes(), digest_size=8)
    for values in (sample.indices, sample.labels, sample.thumbnails):
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
