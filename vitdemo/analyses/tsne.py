"""t-SNE in a separate process, because scikit-learn's t-SNE cannot be interrupted.

The script `python tsne.py features.npy places.npy` imports no other module of vitdemo. The process
therefore starts as fast as scikit-learn.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

NUM_COMPONENTS = 50  # number of principal components before t-SNE (van der Maaten & Hinton 2008)
PERPLEXITY = 30.0
ITERATIONS = 1000
POLL_SECONDS = 0.25  # seconds between two checks for the end of the process


def reduce_to_plane(features: np.ndarray, max_iter: int = ITERATIONS) -> np.ndarray:
    """Map features (N, D) to points (N, 2) with t-SNE (van der Maaten & Hinton 2008)."""
    from sklearn.decomposition import PCA  # a late import, because it takes 1.5 s
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    reduced = PCA(min(NUM_COMPONENTS, *features.shape), random_state=0).fit_transform(features)
    perplexity = min(PERPLEXITY, (len(features) - 1) / 3)
    # Waiting threads spin. If another process uses one of two cores, two threads take 7 times as
    # long as one.
    with threadpool_limits(1, user_api="openmp"):
        method = TSNE(perplexity=perplexity, init="pca", random_state=0, max_iter=max_iter)
        return method.fit_transform(reduced)


def compute_tsne(features: np.ndarray) -> np.ndarray:
    """Map features (N, D) to points (N, 2) in 0..1 with t-SNE."""
    found = reduce_to_plane(features)
    low, high = found.min(0), found.max(0)
    middle, reach = (low + high) / 2, max(float((high - low).max()), 1e-12)
    return ((found - middle) / reach + 0.5).clip(0, 1)  # (N, 2)


def run_tsne_process(features: np.ndarray, waiting: Callable[[], None]) -> np.ndarray:
    """Run `compute_tsne` in another process; return points (N, 2).

    `waiting` is called until the process ends. An exception in `waiting` stops the process.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "features.npy"), Path(folder, "places.npy")
        np.save(source, features)
        command = [sys.executable, __file__, str(source), str(target)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as work:
            try:
                while True:
                    try:
                        work.wait(POLL_SECONDS)
                        break
                    except subprocess.TimeoutExpired:
                        waiting()
            finally:
                work.kill()
            if work.returncode:
                raise RuntimeError(work.stderr.read().decode(errors="replace")[-1000:])
        return np.load(target)


if __name__ == "__main__":
    np.save(sys.argv[2], compute_tsne(np.load(sys.argv[1])))
