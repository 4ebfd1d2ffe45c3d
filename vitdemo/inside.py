"""What the page shows of a model's inside: what each layer would say, heads switched off, how far
heads look, what was learnt of positions and pixels, and attention as it came about in training.

Layers and heads count from 0 here, as they do in `vitdemo.attention`; the page counts from 1.
Letters: L layers, H heads, P patches, C classes, K filters, p side of a filter, N pictures.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo import attention, runs, timm_models
from vitdemo.attention import ablation, embeddings, lens, statistics
from vitdemo.attention.ablation import Head, Means
from vitdemo.data import Pictures
from vitdemo.errors import DataError, RunError, VitdemoError
from vitdemo.metrics.learning import record_of_weights
from vitdemo.metrics.paired import McNemar, mcnemar
from vitdemo.models import CONVOLUTIONAL, is_vision_transformer
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

DISTANCE_PICTURES = 32
ACCURACY_PICTURES = 1000
MEAN_PICTURES = 32  # over which the mean of what a head hands on is taken
INSTEAD = ("mean", "zero")  # what a head that is off hands on
BATCH = 50  # pictures whose attention is in memory at a time
MOST_EPOCHS = 12  # shown at once: the first, the last, and those evenly between


@dataclass(frozen=True, eq=False)
class Lens:
    """Probabilities before the first block (index 0) and after each of the L.

    `answers` (L+1, C) of what the answer is read from, `patches` (L+1, P, C) of each patch on
    `grid`; `seen` (S, S, 3) uint8.
    """

    run: Run
    seen: np.ndarray
    grid: tuple[int, int]
    answers: np.ndarray
    patches: np.ndarray


@dataclass(frozen=True, eq=False)
class Effects:
    """What the model answers to one picture, `logits` (C,), and `without` (L, H, C) each one head.

    A head that is off hands on its mean over `pictures` test pictures, with 0 of them over the
    tokens of the picture, or with None nothing.
    """

    run: Run
    logits: np.ndarray
    without: np.ndarray
    pictures: int | None = None

    @property
    def target(self) -> int:
        """The predicted class with all heads on."""
        return int(self.logits.argmax())

    @property
    def logit_change(self) -> np.ndarray:
        """Of the target's logit, (L, H); negative where the head speaks for the class."""
        return self.without[..., self.target] - self.logits[self.target]

    @property
    def probability_change(self) -> np.ndarray:
        """Of the target's probability, (L, H)."""
        without = scipy.special.softmax(self.without, axis=-1)[..., self.target]
        return without - scipy.special.softmax(self.logits)[self.target]


@dataclass(frozen=True)
class Step:
    """`done` of `total` pictures; with the last one comes the `test` of the model without the
    heads (first) against the model with all of them (second)."""

    done: int
    total: int
    test: McNemar | None = None


@dataclass(frozen=True, eq=False)
class Distances:
    """How far each head of `run` looks, (L, H), as shares of the picture's side.

    `even` is the distance of a head that looks at every patch alike; over `pictures` pictures.
    """

    run: Run
    heads: np.ndarray
    even: float
    pictures: int


@dataclass(frozen=True, eq=False)
class Filters:
    """Of the convolution that reads the pixels: its `count` filters, the strongest first.

    `strongest` (K, 3, p, p) and their `norms` (K,); `principal` (R, 3, p, p) components and their
    `shares` (R,) of the variance. Colours in 0..1: mid-grey is a weight of 0.
    """

    count: int
    strongest: np.ndarray
    norms: np.ndarray
    principal: np.ndarray
    shares: np.ndarray


@dataclass(frozen=True, eq=False)
class EpochMap:
    """A run after `epoch`: what one layer's heads look at, on average, for the answer, (rows,
    columns); and the answer (C,). Without an epoch, the run as it is used."""

    epoch: int | None
    values: np.ndarray
    probabilities: np.ndarray


@torch.inference_mode()
def logit_lens(workbench: Workbench, run: Run, image: Image.Image) -> Lens:
    """Raises `RunError` for a model without attention, or one that answers with NaN."""
    look = workbench.look(run, image)
    found = lens.logit_lens(workbench.model(run), look.tokens[:, None])
    answers, patches = (numpy(x[:, 0]) for x in found)
    check_finite(run, answers[-1])
    return Lens(run, look.seen, look.grid, answers, patches)


@torch.inference_mode()
def head_effects(
    workbench: Workbench, run: Run, image: Image.Image, instead: str = "mean"
) -> Effects:
    """Every single head of `run` switched off in its turn. Raises `RunError` as `logit_lens`.

    `instead` is one of `INSTEAD`; the mean is over test pictures, or over the picture's own tokens
    where there are none that the run knows.
    """
    look = workbench.look(run, image)
    means, pictures = head_means(workbench, run, image, instead)
    without = ablation.logits_without_each(workbench.model(run), look.tokens[:, None], means)
    check_finite(run, numpy(look.logits))
    return Effects(run, numpy(look.logits), numpy(without[:, :, 0]), pictures)


@torch.inference_mode()
def answer_without(
    workbench: Workbench,
    run: Run,
    image: Image.Image,
    heads: Collection[Head],
    instead: str = "mean",
) -> np.ndarray:
    """Probabilities (C,) with `heads` switched off, as in `head_effects`. Raises `RunError`, and
    `ValueError` for a head that the model does not have."""
    model = workbench.model(run)
    check_attention(run, model)
    _, pixels = workbench.input(run.preprocessing, image)
    means, _ = head_means(workbench, run, image, instead)
    return scipy.special.softmax(numpy(ablation.logits_without(model, pixels, heads, means))[0])


@torch.inference_mode()
def head_means(
    workbench: Workbench, run: Run, image: Image.Image | None, instead: str = "mean"
) -> tuple[Means | None, int | None]:
    """What heads that are off hand on, and over how many pictures the mean is: see `Effects`.

    `image` is for want of test pictures.

    Raises `RunError` for something that is not in `INSTEAD`.
    """
    if instead not in INSTEAD:
        raise RunError(f"A head cannot hand on '{instead}': choose one of {', '.join(INSTEAD)}.")
    if instead == "zero":
        return None, None
    model = workbench.model(run)
    try:
        sample = workbench.sample(run, MEAN_PICTURES)
    except DataError:  # absent, or of other classes
        _, pixels = workbench.input(run.preprocessing, image)
        return ablation.mean_outputs(model, pixels, tokens=True), 0

    def means() -> Means:
        pixels = run.preprocessing(sample.images.to(workbench.device))
        return ablation.mean_outputs(model, pixels)

    key = (ablation.mean_outputs, run, workbench.source())
    return workbench.cache.get_or_make(key, means), len(sample)


def accuracy_without(
    workbench: Workbench,
    run: Run,
    heads: Collection[Head],
    instead: str = "mean",
    count: int = ACCURACY_PICTURES,
) -> Iterator[Step]:
    """A `Step` for each batch of test pictures; the last one has the test.

    Up to `count` pictures, each class in proportion, the same at every call; what the whole model
    answers to them is kept, and `instead` is as in `head_effects`. Raises `DataError` where they
    are absent, `RunError` without attention.
    """
    sample = workbench.sample(run, count)
    check_attention(run, workbench.model(run))
    total = len(sample)
    key = (_right_answers, run, workbench.source(), count)
    before = workbench.cache.get(key)
    work = total if before is not None else 2 * total
    if before is None:
        parts = []
        for part in _right_answers(workbench, run, sample, (), None):
            parts.append(part)
            yield Step(sum(map(len, parts)), work)
        before = workbench.cache.put(key, np.concatenate(parts))
    means, _ = head_means(workbench, run, None, instead)
    after = []
    for part in _right_answers(workbench, run, sample, heads, means):
        after.append(part)
        yield Step(work - total + sum(map(len, after)), work)
    yield Step(work, work, mcnemar(np.concatenate(after), before))


def distances(
    workbench: Workbench, image: Image.Image, count: int = DISTANCE_PICTURES
) -> tuple[list[Distances], list[str]]:
    """How far the heads of every Vision Transformer look, and a sentence for what went wrong.

    Over `count` test pictures; over `image` alone for a run whose data set is not here.
    """
    found, problems = [], []
    for run in workbench.explained_runs():
        try:
            if is_vision_transformer(workbench.model(run)):
                found.append(_distances(workbench, run, image, count))
        except VitdemoError as error:
            problems.append(str(error))
    return found, problems


def position_similarity(workbench: Workbench, run: Run) -> tuple[np.ndarray, tuple[int, int], str]:
    """Cosines (P, P) of the patches' position embeddings, their grid, and what they began with:
    "mimetic" (sines and cosines), "weights" of another training, or "random". Raises `RunError`."""
    model = workbench.model(run)
    if not is_vision_transformer(model):
        raise RunError(
            f"'{run.name}' is no Vision Transformer: its convolutions know where they are without "
            "a position embedding."
        )
    try:
        similarity = embeddings.position_similarity(model)
    except TypeError as error:
        raise RunError(f"'{run.name}': {error}") from error
    return numpy(similarity), tuple(model.patch_embed.grid_size), _position_start(run)


def _position_start(run: Run) -> str:
    if run.spec.options.get("init") == "mimetic":
        return "mimetic"
    pretrained = run.config.get("recipe", {}).get("pretrained") or run.name.startswith(
        timm_models.PREFIX
    )
    return "weights" if run.origin or pretrained else "random"


def first_filters(workbench: Workbench, run: Run, most: int = 64, components: int = 28) -> Filters:
    """What the first convolution of `run` looks for. Raises `RunError` where it reads no pixels."""
    try:
        weight = embeddings.filters(workbench.model(run)).float().cpu()  # (K, 3, p, p)
    except TypeError as error:
        raise RunError(f"'{run.name}': {error}") from error
    principal, shares = embeddings.principal_filters(weight)
    return Filters(
        len(weight),
        numpy(embeddings.as_colours(weight[:most])),
        numpy(weight[:most].flatten(1).norm(dim=1)),
        numpy(embeddings.as_colours(principal[:components])),
        numpy(shares[:components]),
    )


def across_epochs(
    workbench: Workbench, run: Run, image: Image.Image, layer: int
) -> Iterator[EpochMap]:
    """Attention of one picture in one layer, epoch by kept epoch; nothing where none was kept.

    At most `MOST_EPOCHS` of them, and the run as it is used unless that epoch is among them.
    Raises `RunError` for a model without attention, weights that cannot be loaded, or a layer that
    it does not have.
    """
    epochs = thinned(runs.kept_epochs(run), MOST_EPOCHS)
    if not epochs:
        return
    check_attention(run, workbench.model(run))
    _, pixels = workbench.input(run.preprocessing, image)
    for epoch in epochs:
        # Not kept in memory: twelve models of one run would push out what others look at.
        yield _epoch_map(runs.load_model(run, workbench.device, epoch), run, epoch, pixels, layer)
    used = record_of_weights(run)
    if not used or used["epoch"] not in epochs:
        yield _epoch_map(workbench.model(run), run, None, pixels, layer)


def with_epochs(workbench: Workbench) -> list[str]:
    """The runs whose attention `across_epochs` can follow."""
    vits = (run for run in workbench.explained_runs() if run.spec.family not in CONVOLUTIONAL)
    return [run.name for run in vits if runs.kept_epochs(run)]


def thinned(epochs: list[int], most: int) -> list[int]:
    """At most `most` of the epochs: the first, the last, and those evenly between."""
    places = np.linspace(0, len(epochs) - 1, min(most, len(epochs))).round().astype(int)
    return [epochs[place] for place in places]


def numpy(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()


def check_attention(run: Run, model: nn.Module) -> None:
    """Raises `RunError` for a model without attention."""
    if not is_vision_transformer(model):
        raise RunError(f"'{run.name}' is no Vision Transformer: it has no attention heads.")


def check_finite(run: Run, values: np.ndarray) -> None:
    """Raises `RunError` for an answer that is none."""
    if not np.isfinite(values).all():
        raise RunError(f"'{run.name}' answers with NaN: its training diverged.")


@torch.inference_mode()
def _epoch_map(
    model: nn.Module, run: Run, epoch: int | None, pixels: Tensor, layer: int
) -> EpochMap:
    if layer not in range(len(model.blocks)):
        raise RunError(f"'{run.name}' has no layer {layer + 1}: choose 1 to {len(model.blocks)}.")
    trace = attention.trace(model, pixels)
    rows = attention.answer_rows(model)
    maps = attention.answer_map(trace.attention[layer, 0], model.num_prefix_tokens, rows)  # (H, P)
    values = numpy(maps.mean(0)).reshape(model.patch_embed.grid_size)
    return EpochMap(epoch, values, scipy.special.softmax(numpy(trace.logits[0])))


def _right_answers(
    workbench: Workbench, run: Run, sample: Pictures, heads: Collection[Head], means: Means | None
) -> Iterator[np.ndarray]:
    """Which pictures are named rightly without `heads`, a batch (B,) bool at a time."""
    model = workbench.model(run)
    for images, labels in zip(sample.images.split(BATCH), sample.labels.split(BATCH), strict=True):
        with torch.inference_mode():  # not around a yield: it would leak into the caller
            pixels = run.preprocessing(images.to(workbench.device))
            predicted = ablation.logits_without(model, pixels, heads, means).argmax(1).cpu()
        yield (predicted == labels).numpy()


def _distances(workbench: Workbench, run: Run, image: Image.Image, count: int) -> Distances:
    model = workbench.model(run)
    grid = tuple(model.patch_embed.grid_size)
    P = grid[0] * grid[1]
    even = statistics.distance(torch.full((1, 1, P, P), 1 / P), grid, 0).item()
    try:
        sample = workbench.sample(run, count)
    except DataError:  # absent, or of other classes: one picture is better than none
        look = workbench.look(run, image)
        heads = statistics.distance(look.attention, grid, look.num_prefix_tokens)  # (L, H)
        return Distances(run, numpy(heads) / max(grid), even / max(grid), 1)
    key = (_sample_distances, run, workbench.source(), count)
    heads = workbench.cache.get_or_make(key, lambda: numpy(_sample_distances(model, run, sample)))
    return Distances(run, heads / max(grid), even / max(grid), len(sample))


@torch.inference_mode()
def _sample_distances(model: nn.Module, run: Run, sample: Pictures) -> Tensor:
    """Mean over the sample of each head's distance in patches, (L, H)."""
    device, total = next(model.parameters()).device, 0
    for images in sample.images.split(BATCH):
        traced = attention.trace(model, run.preprocessing(images.to(device))).attention
        far = statistics.distance(traced, model.patch_embed.grid_size, model.num_prefix_tokens)
        total = total + far.sum(dim=1)  # (L, B, H) -> (L, H)
    return total / len(sample)
