"""Linear probes: the class information that the tokens contain after each layer of a model.

A probe is a linear classifier that is fitted on the tokens after one layer, while the model does
not change (Alain & Bengio 2016, https://arxiv.org/abs/1610.01644). Its accuracy shows how much
information about the class a linear classifier can read there. The logit lens shows how much of it
the model's own classifier head reads.

Two probes are fitted after each layer: on the tokens that the classifier reads, and on the mean of
the patches. The training images are a stratified sample of the dataset's training part, which most
models were trained on. The accuracies are measured on test images.

    probes = compute_probes(context, run)
    probes.accuracies["class token"]  # (L+1,), index 0: before the first layer

Letters: N images, L layers, D width, C classes.
"""

from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from vitdemo.analyses.features import load_sample
from vitdemo.context import AppContext
from vitdemo.data import sample_stratified
from vitdemo.errors import DataError, RunError
from vitdemo.explain.attributions import OnStep
from vitdemo.explain.checks import require_attention
from vitdemo.explain.forward_pass import (
    classifier_rows,
    classify_tokens,
    iter_tokens,
    reads_class_token,
    upcast,
)
from vitdemo.runs import (
    DAMAGED_VALUES,
    PROBES_FILE,
    Run,
    read_measurements,
    write_measurements,
)

MAX_TRAINING_IMAGES, MAX_TEST_IMAGES = 2_000, 1_000
PROBE_BATCH_SIZE = 25  # images per forward pass
RIDGE_STRENGTHS = 10.0 ** np.arange(-1, 6)  # chosen by leave-one-out errors of training images
LENS, PATCHES = "logit lens", "mean of the patches"


@dataclass(frozen=True)
class LayerProbes:
    """Accuracies (L+1,) on test images by name; index 0 is before the first layer.

    The names are "class token" (for models that read it), "mean of the patches", and "logit lens",
    if the model has the classes of the dataset.
    """

    training_images: int
    test_images: int
    accuracies: dict[str, list[float]]


def compute_probes(context: AppContext, run: Run, on_step: OnStep | None = None) -> LayerProbes:
    """Fit and test the probes of all layers; the result is cached.

    `on_step` is called as (done, total), in images; an exception in `on_step` stops the
    computation. Raises `DataError` without a dataset, and `RunError` for a model without attention
    or with tokens that are not finite.
    """
    require_attention(run, context.load_model(run))
    return context.cache.get_or_compute(
        _make_key(context, run), lambda: _compute(context, run, on_step)
    )


def find_probes(context: AppContext, run: Run) -> LayerProbes | None:
    """Return the stored or the cached result of `compute_probes`, or None.

    A stored result needs no dataset. Without one, raises `DataError` if the dataset is missing.
    """
    return context.cache.call(read_probes, run) or context.cache.get(_make_key(context, run))


def write_probes(run: Run, probes: LayerProbes) -> None:
    """Write the result to the run folder."""
    write_measurements(run.path, PROBES_FILE, asdict(probes))


def read_probes(run: Run) -> LayerProbes | None:
    """Return the stored result, or None if it is missing, damaged or of other weights."""
    if (found := read_measurements(run.path, PROBES_FILE)) is None:
        return None
    try:
        curves = {name: [float(each) for each in y] for name, y in found["accuracies"].items()}
        return LayerProbes(int(found["training_images"]), int(found["test_images"]), curves)
    except DAMAGED_VALUES:
        return None


def fit_probe(
    training: np.ndarray, training_labels: np.ndarray, test: np.ndarray, labels: np.ndarray
) -> float:
    """Return the accuracy on `test` (M, D) of a linear classifier that is fitted on (N, D).

    The classifier is a ridge regression on targets of -1 and 1 for each class, with standardised
    dimensions. Its strength has the lowest leave-one-out error among `RIDGE_STRENGTHS`.
    """
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(training)
    probe = RidgeClassifierCV(RIDGE_STRENGTHS).fit(scaler.transform(training), training_labels)
    return float((probe.predict(scaler.transform(test)) == labels).mean())


def _make_key(context: AppContext, run: Run) -> tuple:
    return compute_probes, context.open_dataset(), run


def _compute(context: AppContext, run: Run, on_step: OnStep | None) -> LayerProbes:
    source = context.open_dataset()
    labels = source.load_labels("train").numpy()
    chosen = torch.from_numpy(sample_stratified(labels, MAX_TRAINING_IMAGES))
    if len({*labels.tolist()}) < 2:
        raise DataError("Linear probes need at least two classes.")
    training = source.load_subset("train", chosen, run.spec.image_size)
    sample = load_sample(context, MAX_TEST_IMAGES)
    images = [training.images, sample.load_inputs(run)]
    total = sum(map(len, images))
    has_lens = source.classes == run.classes
    parts, done = [], 0
    for part in images:
        step = on_step and (lambda n, before=done: on_step(before + n, total))
        parts.append(_read_tokens(context, run, part, has_lens, step))
        done += len(part)
    (found, _), (tested, lens) = parts
    accuracies = {}
    for name, tokens in found.items():
        accuracies[name] = [
            fit_probe(own, training.labels.numpy(), other, sample.labels)
            for own, other in zip(tokens, tested[name], strict=True)
        ]
    if has_lens:
        accuracies[LENS] = (lens == sample.labels).mean(1).tolist()
    return LayerProbes(len(training), len(sample), accuracies)


@torch.inference_mode()
def _read_tokens(
    context: AppContext, run: Run, images: Tensor, has_lens: bool, on_step=None
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return tokens (L+1, N, D) by name, and the classes (L+1, N) that the logit lens predicts."""
    model = context.load_model(run)
    rows, prefix = classifier_rows(model), model.num_prefix_tokens
    means = {"class token": rows} if reads_class_token(model) else {}
    means[PATCHES] = slice(prefix, None)
    found: dict[str, list[Tensor]] = {name: [] for name in means}
    lens = []
    for i, batch in enumerate(images.split(PROBE_BATCH_SIZE)):
        if on_step:
            on_step(i * PROBE_BATCH_SIZE)
        with context.divide_cores():
            layers = [*iter_tokens(model, run.preprocessing(batch.to(context.device)))]
            for name, places in means.items():
                found[name].append(torch.stack([upcast(x[:, places].mean(1)) for x in layers]))
            if has_lens:
                lens.append(torch.stack([classify_tokens(model, x).argmax(1) for x in layers]))
    tokens = {name: torch.cat(each, dim=1).cpu().numpy() for name, each in found.items()}
    if not all(np.isfinite(each).all() for each in tokens.values()):
        raise RunError(f"The tokens of '{run.name}' are not finite. Choose another model.")
    return tokens, torch.cat(lens, dim=1).cpu().numpy() if lens else np.empty(0)
