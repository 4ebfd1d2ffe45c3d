"""Values of runs in the text of a lesson, as `{vit.patches}`, read when the lesson is shown.

The dot separates a role (`ROLES`) or a run's name from a key of `FACTS`. If the run or its test
predictions are missing, `MissingFact` says what the lesson requires.
"""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from vitdemo.attention import statistics
from vitdemo.attention.norms import layer_norms
from vitdemo.attention.one_head import head_scale
from vitdemo.errors import LessonError, VitdemoError
from vitdemo.inputs import load_image, square_crop, visible_square
from vitdemo.inside.attention_distance import distances_of
from vitdemo.inside.head_ablation import head_effects
from vitdemo.inside.logit_lens import logit_lens
from vitdemo.metrics import accuracy, confusion, most_confused, percent, signed
from vitdemo.metrics.calibrated_runs import calibration
from vitdemo.metrics.intervals import mean_interval
from vitdemo.metrics.learning import listed, setting, whole
from vitdemo.metrics.recipe_ablation import Ablation, Gain, ablation_of, ablations
from vitdemo.metrics.tested_runs import sound_evaluation
from vitdemo.models import (
    CONVOLUTIONAL,
    count_macs,
    count_parameters,
    patch_side,
    prefix_token_names,
)
from vitdemo.models.cost import pair_macs
from vitdemo.perturb.changes import Changes, Removed, change
from vitdemo.photos import OURS
from vitdemo.runs import Run, pretraining
from vitdemo.workbench import Workbench

PICTURE = OURS / "cat.jpg"  # image used by all lessons
NEAR, FAR = 0.5, 0.85  # relative to the attention distance of a head with uniform attention
FEW = 3  # number of patches for `few_share`
CANVAS_SIDE = 224  # side of the image in "Change the image" with the included models, in pixels
PIECES = 8  # rows and columns of the pieces that are shuffled or removed
SHUFFLE_DRAWS, REMOVAL_DRAWS = 8, 20  # random draws
NAMED = re.compile(r"\{([^{}\s.]+)\.([a-z_]+)\}")
ROLES = {
    "vit": "a plain Vision Transformer trained from scratch",
    "tuned": "a fine-tuned Vision Transformer from timm",
    "conv": "a convolutional network",
    "tested": "a model with test predictions",
}
Find = Callable[[str], Run]  # role or run name -> run
Tell = Callable[[Workbench, Run, str], str]  # run and name of a fact -> text


class MissingFact(VitdemoError):
    """A requirement of a lesson that is not met; the message is a noun phrase."""


def check_names(text: str) -> None:
    """Raise `LessonError` if `text` contains an unknown fact."""
    left = NAMED.sub("", text)
    if "{" in left or "}" in left:
        raise LessonError(
            f"'{left.strip()[:60]}' contains a brace. Write facts as {{vit.patches}}."
        )
    for _, fact in NAMED.findall(text):
        if fact not in FACTS:
            raise LessonError(f"unknown fact '{fact}'. The facts are {', '.join(FACTS)}.")


def filled(text: str, workbench: Workbench, find: Find, tell: Tell) -> str:
    """Replace each fact in `text` by the result of `tell` for the run returned by `find`.

    Raises `MissingFact`.
    """
    return NAMED.sub(lambda found: tell(workbench, find(found[1]), found[2]), text)


def fact(workbench: Workbench, of: str, name: str) -> str:
    """Return the fact `name` of a role or run. Raises `MissingFact`."""
    return looked_up(workbench, run_of(workbench, of), name)


def looked_up(workbench: Workbench, run: Run, name: str) -> str:
    """Return the fact `name` of `run`, cached since it may take seconds. Raises `MissingFact`."""
    try:
        if name in OF_OTHERS:  # not cached here, since the other runs may change
            return FACTS[name](workbench, run)
        return workbench.cache.get_or_make(
            (looked_up, run, name), lambda: FACTS[name](workbench, run)
        )
    except (VitdemoError, AttributeError) as error:
        raise MissingFact(f"the fact '{name}' of {run.name}") from error


def unread(workbench: Workbench, run: Run, name: str) -> str:
    """Return a placeholder instead of a fact, without delay."""
    return "…"


def run_of(workbench: Workbench, of: str) -> Run:
    """Return the run with the role or name `of`. Raises `MissingFact` if there is none."""
    if of in ROLES:
        # The default run of the test result tabs for "tested", otherwise the best of its kind.
        tested = of == "tested"
        runs = workbench.evaluated_runs() if tested else workbench.explained_runs()
        found = next((run for run in runs if tested or role(run) == of), None)
        if found is None:
            raise MissingFact(ROLES[of] if tested else f"{ROLES[of]}, with weights")
        return found
    try:
        return workbench.run(of)
    except VitdemoError as error:
        raise MissingFact(f"the run '{of}'") from error


def role(run: Run) -> str:
    if run.spec.family in CONVOLUTIONAL:
        return "conv"
    if run.spec.family == "vit":  # the lessons assume one linear projection
        return "vit" if run.spec.options.get("stem", "patch") == "patch" else ""
    return "tuned" if run.has_evaluation or run.history else ""


def _evaluated(read: Callable[[np.ndarray, np.ndarray, Run], str]):
    def of(workbench: Workbench, run: Run) -> str:
        found = sound_evaluation(run)
        return read(found.probabilities, found.labels, run)

    return of


def _wrong(probabilities, labels) -> int:
    return int((probabilities.argmax(1) != labels).sum())


def _pair(probabilities, labels, run: Run) -> tuple[str, str, str]:
    """Return true class, predicted class and count of the largest off-diagonal cell."""
    pairs = most_confused(confusion(probabilities, labels), 1)
    if not pairs:
        raise MissingFact(f"an error of '{run.name}' on the test set")
    return run.classes[pairs[0].true], run.classes[pairs[0].predicted], str(pairs[0].count)


def _confused_cell(probabilities, labels, run: Run) -> str:
    """Return row and column, from 0, of the largest off-diagonal cell."""
    true, predicted, _ = _pair(probabilities, labels, run)
    return f"{run.classes.index(true)}-{run.classes.index(predicted)}"


def _confused_share(probabilities, labels, run: Run) -> str:
    """Return the most frequent confusion as a percentage of all errors."""
    *_, count = _pair(probabilities, labels, run)
    return percent(int(count) / _wrong(probabilities, labels))


def _even_share(classes: int) -> str:
    """Return the percentage of each ordered pair of classes if errors were spread evenly."""
    return percent(1 / (classes * (classes - 1)))


def _recalls(probabilities, labels) -> np.ndarray:
    matrix = confusion(probabilities, labels)
    return np.diag(matrix) / np.maximum(matrix.sum(1), 1)


def _of_model(read: Callable) -> Callable[[Workbench, Run], str]:
    return lambda workbench, run: str(read(workbench.model(run), run))


def _tokens(model, run: Run) -> int:
    return len(prefix_token_names(model)) + model.patch_embed.num_patches


def _pair_share(model, run: Run) -> str:
    pairs = pair_macs(_tokens(model, run), model.embed_dim, len(model.blocks))
    return percent(pairs / count_macs(model, run.spec.image_size))


def _picture() -> Image.Image:
    """Return the image of the lessons, cropped as on the page."""
    return visible_square(load_image(PICTURE))


def _far(workbench: Workbench, run: Run) -> np.ndarray:
    """Return each head's attention distance relative to uniform attention, (L, H).

    It is measured on test images, or on the lessons' image if there is no dataset.
    """
    found = distances_of(workbench, run, _picture())
    return found.heads / found.even


def _near_layers(workbench: Workbench, run: Run) -> str:
    """Name the layers that have a head with a short attention distance."""
    return _layer_words((_far(workbench, run) < NEAR).any(1))


def _far_layers(workbench: Workbench, run: Run) -> str:
    """Name the layers in which all heads have a long attention distance."""
    return _layer_words((_far(workbench, run) >= FAR).all(1))


def _layer_words(chosen: np.ndarray) -> str:
    """Format layers (L,) bool as "in layer 9", "in layers 3, 4 and 5" or "in no layer"."""
    layers = [str(i) for i in np.flatnonzero(chosen) + 1]
    return f"in layer{'s' if layers[1:] else ''} {listed(layers)}" if layers else "in no layer"


def _largest_weight(workbench: Workbench, run: Run) -> str:
    """Return the mean over all rows of the largest attention weight, in percent."""
    look = workbench.look(run, _picture())
    return percent(statistics.largest_weight(look.attention.float()).mean().item())


def _unscaled_weight(workbench: Workbench, run: Run) -> str:
    """Return `_largest_weight` for scores without the division by the square root."""
    look, model = workbench.look(run, _picture()), workbench.model(run)
    layers = [
        statistics.unscaled(weights.float(), head_scale(model, i))
        for i, weights in enumerate(look.attention)
    ]  # L of (H, N, N)
    means = [statistics.largest_weight(each).mean().item() for each in layers]
    return percent(sum(means) / len(means))


def _self_share(workbench: Workbench, run: Run) -> str:
    """Return the class token's attention to itself in head 1 of layer 1, in percent."""
    return percent(workbench.look(run, _picture()).attention[0, 0, 0, 0].item())


def _few_share(workbench: Workbench, run: Run) -> str:
    """Return the fraction of last-layer attention that the `FEW` most attended patches receive."""
    look = workbench.look(run, _picture())
    shares = np.sort(look.head_maps(look.layers).mean(0), axis=None)
    return percent(shares[-FEW:].sum() / shares.sum())


def _few_norm(workbench: Workbench, run: Run) -> str:
    """Return the same patches' percentage of the norms of all patches in the last layer."""
    look = workbench.look(run, _picture())
    few = np.argsort(look.head_maps(look.layers).mean(0), axis=None)[-FEW:]
    received = layer_norms(look.attention[-1], workbench.value_products(look)[-1])  # (N, N)
    norms = look.answer_maps(received[None]).ravel()  # (P,)
    return percent(norms[few].sum() / norms.sum())


def lesson_canvas() -> Image.Image:
    """Return the lessons' image in the size in which the page changes it."""
    return square_crop(_picture(), CANVAS_SIDE)


def _probabilities(workbench: Workbench, run: Run, changes: Changes) -> np.ndarray:
    """Return the probabilities (C,) for the lessons' image after `changes`."""
    return workbench.answer(run, change(lesson_canvas(), changes)).probabilities


def _photo_class(workbench: Workbench, run: Run) -> int:
    return int(_probabilities(workbench, run, Changes()).argmax())


def _class_probability(workbench: Workbench, run: Run, changes: Changes) -> float:
    """Return the probability, after `changes`, of the class that is predicted without them."""
    return float(_probabilities(workbench, run, changes)[_photo_class(workbench, run)])


def _shuffled_same(workbench: Workbench, run: Run) -> str:
    """Return how many shuffles of the image, with seeds 0 to 7, leave the prediction the same."""
    own = _photo_class(workbench, run)
    shuffles = (Changes(pieces=PIECES, seed=seed) for seed in range(SHUFFLE_DRAWS))
    return str(sum(_probabilities(workbench, run, each).argmax() == own for each in shuffles))


def _removal_results(workbench: Workbench, run: Run, few: bool) -> np.ndarray:
    """Return confidences without the most attended patches, and without random ones.

    The first result is without the most attended patches, the others are `REMOVAL_DRAWS` draws.
    With `few`, `FEW` of the model's own patches are removed, ranked by the mean of the heads in
    the last layer. Otherwise, half of 8 x 8 patches are removed, ranked by rollout.
    """
    look = workbench.look(run, lesson_canvas())
    values = look.rollout_map(look.layers, fusion="mean", discard_ratio=0.0)
    grid = look.grid if few else (PIECES, PIECES)
    values = look.head_maps(look.layers).mean(0) if few else values
    values = F.adaptive_avg_pool2d(torch.from_numpy(values)[None], grid).flatten().numpy()
    draws = (np.random.default_rng(seed).permutation(values.size) for seed in range(REMOVAL_DRAWS))
    orders = [np.argsort(-values, kind="stable"), *draws]
    count = FEW if few else values.size // 2
    removed = (Removed(grid, tuple(order[:count].tolist())) for order in orders)
    return np.array([_class_probability(workbench, run, Changes(removed=each)) for each in removed])


def _removal_fact(read: Callable[[np.ndarray], str], few: bool = False):
    """Return a fact that `read` makes of the result of `_removal_results`."""
    return lambda workbench, run: read(workbench.cache.of(_removal_results, workbench, run, few))


def _count_below(found: np.ndarray) -> str:
    return str((found[1:] < found[0]).sum())


def _settled_layer(workbench: Workbench, run: Run) -> str:
    """Return the first layer from which on the logit lens predicts the final class."""
    predicted = logit_lens(workbench, run, _picture()).answers.argmax(1)  # (L+1,)
    others = np.flatnonzero(predicted != predicted[-1])
    return str(others[-1] + 1 if len(others) else 0)


def _strongest_head(workbench: Workbench, run: Run) -> str:
    """Return the head without which the logit of the predicted class drops most, as "9.1"."""
    change = head_effects(workbench, run, _picture()).logit_change
    layer, head = np.unravel_index(change.argmin(), change.shape)
    return f"{layer + 1}.{head + 1}"


def _ablation(workbench: Workbench, run: Run) -> Ablation:
    """Return the first ablation that contains `run`."""
    tested = workbench.evaluated_runs()
    for base, names in workbench.cache.of(ablations, tested).items():
        if run.name in names:
            others = [workbench.run(name) for name in names if name != base]
            return workbench.cache.of(ablation_of, workbench.run(base), others)
    raise MissingFact(f"an ablation with '{run.name}'")


def _gain(workbench: Workbench, run: Run) -> Gain:
    """Return the gain of `run` over the baseline of its ablation."""
    for gain in _ablation(workbench, run).gains:
        if gain.run == run.name:
            return gain
    raise MissingFact(f"a gain of '{run.name}', which is the baseline of its ablation")


def _seed_gain(workbench: Workbench, run: Run) -> tuple[float, float, float]:
    """Return the mean gain over paired seeds and its 95% confidence interval, in points."""
    paired = _ablation(workbench, run).seed_gains(_gain(workbench, run))
    if len(paired) < 2:
        raise MissingFact(f"another seed of '{run.name}'")
    mean, low, high = mean_interval(100 * np.array(paired))
    return mean, low, high


def _seed_threshold(workbench: Workbench, run: Run) -> str:
    """Return the smallest gain of one seed that exceeds the variation between seeds."""
    threshold = _ablation(workbench, run).seed_threshold
    if threshold is None:
        raise MissingFact(f"another seed of '{run.name}'")
    return f"{100 * threshold:.1f}"


def _learnt_from(workbench: Workbench, run: Run) -> str:
    """Name the training signals of `run`: labels, a teacher model, self-supervised pretraining."""
    found = "labels"
    if teacher := setting(run, "teacher"):
        found += f" and the predictions of the teacher model {Path(teacher).name}"
    if before := pretraining(run):
        found += f", after {len(before.history)} epochs of self-supervised pretraining"
    return found if found != "labels" else "labels only"


def _trained_on(workbench: Workbench, run: Run) -> str:
    return percent((run.record_of_weights or {})["train_accuracy"])


# Facts that also depend on the dataset or on other runs
OF_OTHERS = (
    *("near_layers", "far_layers", "strongest_head", "gain", "gain_low", "gain_high"),
    *("seed_gain", "seed_gain_low", "seed_gain_high", "seed_threshold"),
)
FACTS: dict[str, Callable[[Workbench, Run], str]] = {
    "name": lambda workbench, run: run.name,
    "image": lambda workbench, run: str(run.spec.image_size),
    "classes": lambda workbench, run: str(len(run.classes)),
    "epochs": lambda workbench, run: str(len(whole(run).history)),
    "learnt_from": _learnt_from,
    "parameters": _of_model(lambda model, run: f"{count_parameters(model) / 1e6:.1f}"),  # millions
    "macs": _of_model(lambda model, run: f"{count_macs(model, run.spec.image_size) / 1e6:.0f}"),
    # Facts of Vision Transformers
    "patch": _of_model(lambda model, run: patch_side(model)),
    "patch_numbers": _of_model(lambda model, run: 3 * patch_side(model) ** 2),
    "rows": _of_model(lambda model, run: model.patch_embed.grid_size[0]),
    "patches": _of_model(lambda model, run: model.patch_embed.num_patches),
    "tokens": _of_model(_tokens),
    "pairs": _of_model(lambda model, run: _tokens(model, run) ** 2),
    "width": _of_model(lambda model, run: model.embed_dim),
    "layers": _of_model(lambda model, run: len(model.blocks)),
    "heads": _of_model(lambda model, run: model.blocks[0].attn.num_heads),
    "all_heads": _of_model(lambda model, run: len(model.blocks) * model.blocks[0].attn.num_heads),
    "head_width": _of_model(lambda model, run: model.blocks[0].attn.head_dim),
    "hidden": _of_model(lambda model, run: model.blocks[0].mlp.fc2.in_features),
    "near_layers": _near_layers,
    "far_layers": _far_layers,
    "largest_weight": _largest_weight,  # percent of an attention row
    "unscaled_weight": _unscaled_weight,
    "pair_share": _of_model(_pair_share),  # percent of all multiply-adds
    "few_share": _few_share,
    "few_norm": _few_norm,
    "even_share": _of_model(lambda model, run: percent(FEW / model.patch_embed.num_patches)),
    "self_share": _self_share,
    "strongest_head": _strongest_head,  # layer and head from 1, as "9.1"
    "settled_layer": _settled_layer,
    # Facts of experiments on the lessons' image; probabilities in percent
    "photo_class": lambda workbench, run: run.classes[_photo_class(workbench, run)],
    "photo_confidence": lambda workbench, run: percent(
        _class_probability(workbench, run, Changes())
    ),
    "shuffled_same": _shuffled_same,
    "attended_confidence": _removal_fact(lambda found: percent(found[0])),  # half of 8 x 8 removed
    "random_low": _removal_fact(lambda found: percent(found[1:].min())),
    "random_high": _removal_fact(lambda found: percent(found[1:].max())),
    "random_below": _removal_fact(_count_below),  # draws below `attended_confidence`
    "few_confidence": _removal_fact(lambda found: percent(found[0]), few=True),
    "few_low": _removal_fact(lambda found: percent(found[1:].min()), few=True),
    "few_high": _removal_fact(lambda found: percent(found[1:].max()), few=True),
    "few_below": _removal_fact(_count_below, few=True),
    # Facts of tested runs; fractions in percent
    "tests": _evaluated(lambda p, labels, run: f"{len(labels):,}"),
    "accuracy": _evaluated(lambda p, labels, run: percent(accuracy(p, labels))),
    "wrong": _evaluated(lambda p, labels, run: str(_wrong(p, labels))),
    "confused_true": _evaluated(lambda p, labels, run: _pair(p, labels, run)[0]),
    "confused_predicted": _evaluated(lambda p, labels, run: _pair(p, labels, run)[1]),
    "confused_cell": _evaluated(_confused_cell),  # row and column of the matrix, as "3-5"
    "confused_count": _evaluated(lambda p, labels, run: _pair(p, labels, run)[2]),
    "confused_share": _evaluated(_confused_share),  # percent of all errors
    "even_confused_share": _evaluated(lambda p, labels, run: _even_share(len(run.classes))),
    "worst_class": _evaluated(lambda p, labels, run: run.classes[_recalls(p, labels).argmin()]),
    "worst_recall": _evaluated(lambda p, labels, run: percent(_recalls(p, labels).min())),
    "confidence": lambda workbench, run: percent(calibration(run).mean_confidence),
    "calibration_error": lambda workbench, run: percent(calibration(run).before.error),
    "train_accuracy": _trained_on,
    # Facts of ablation runs: gain over the baseline in percentage points
    "gain": lambda workbench, run: signed(100 * _gain(workbench, run).test.difference),
    "gain_low": lambda workbench, run: signed(100 * _gain(workbench, run).test.interval[0]),
    "gain_high": lambda workbench, run: signed(100 * _gain(workbench, run).test.interval[1]),
    # Facts of a change over several seeds, and the threshold for a gain with one seed
    "seed_gain": lambda workbench, run: signed(_seed_gain(workbench, run)[0]),
    "seed_gain_low": lambda workbench, run: signed(_seed_gain(workbench, run)[1]),
    "seed_gain_high": lambda workbench, run: signed(_seed_gain(workbench, run)[2]),
    "seed_threshold": _seed_threshold,
}
