"""Numbers of runs that a lesson's text names, read when it is shown: `{vit.patches}`.

Before the dot stands a role (`ROLES`) or a run's name, behind it one of `FACTS`. What is not there
(no such run, no test answers) raises `MissingFact`, and the lesson says what it needs.
"""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from vitdemo.attention import statistics
from vitdemo.attention.norms import layer_norms
from vitdemo.attention.one_head import head_scale
from vitdemo.errors import LessonError, VitdemoError
from vitdemo.inputs import load_image, visible_square
from vitdemo.inside.attention_distance import distances_of
from vitdemo.metrics import accuracy, confusion, most_confused, percent, signed
from vitdemo.metrics.calibrated_runs import calibration
from vitdemo.metrics.intervals import mean_interval
from vitdemo.metrics.learning import listed, setting, whole
from vitdemo.metrics.recipe_ablation import Ablation, Gain, ablation_of, ablations
from vitdemo.metrics.tested_runs import sound_evaluation
from vitdemo.models import CONVOLUTIONAL, count_macs, count_parameters, prefix_token_names
from vitdemo.models.cost import pair_macs
from vitdemo.photos import OURS
from vitdemo.runs import Run, pretraining
from vitdemo.workbench import Workbench

PICTURE = OURS / "cat.jpg"  # of all lessons
NEAR, FAR = 0.5, 0.85  # of the distance of a head that looks at every patch alike
FEW = 3  # patches
NAMED = re.compile(r"\{([^{}\s.]+)\.([a-z_]+)\}")
ROLES = {
    "vit": "a plain Vision Transformer trained from scratch",
    "tuned": "a fine-tuned Vision Transformer of timm's",
    "conv": "a convolutional model",
    "tested": "a model with test answers",
}
Find = Callable[[str], Run]  # of a role or a run's name
Tell = Callable[[Workbench, Run, str], str]  # of a run, what stands for a fact by its name


class MissingFact(VitdemoError):
    """What a lesson needs and is not here, as the end of a sentence "it needs ..."."""


def check_names(text: str) -> None:
    """Raises `LessonError` where `text` names a fact that there cannot be."""
    left = NAMED.sub("", text)
    if "{" in left or "}" in left:
        raise LessonError(f"'{left.strip()[:60]}' has a brace: a fact is named as {{vit.patches}}.")
    for _, fact in NAMED.findall(text):
        if fact not in FACTS:
            raise LessonError(f"there is no fact '{fact}': there are {', '.join(FACTS)}.")


def filled(text: str, workbench: Workbench, find: Find, tell: Tell) -> str:
    """`text` with what `tell` says in the place of each fact, of the run that `find` finds for it.

    Raises `MissingFact`, as both do.
    """
    return NAMED.sub(lambda found: tell(workbench, find(found[1]), found[2]), text)


def fact(workbench: Workbench, of: str, name: str) -> str:
    """The fact `name` of a role or of a run. Raises `MissingFact`."""
    return looked_up(workbench, run_of(workbench, of), name)


def looked_up(workbench: Workbench, run: Run, name: str) -> str:
    """The fact `name` of `run`, which may take seconds at first. Raises `MissingFact`."""
    try:
        if name in OF_OTHERS:  # which may come meanwhile; who works it out keeps it
            return FACTS[name](workbench, run)
        return workbench.cache.get_or_make(
            (looked_up, run, name), lambda: FACTS[name](workbench, run)
        )
    except (VitdemoError, AttributeError) as error:
        raise MissingFact(f"'{name}' of {run.name}, which is not here") from error


def unread(workbench: Workbench, run: Run, name: str) -> str:
    """In the place of what is `looked_up`: takes no time."""
    return "…"


def run_of(workbench: Workbench, of: str) -> Run:
    """The run that plays the role `of`, or has that name. Raises `MissingFact`."""
    if of in ROLES:
        # What the tabs of test answers begin with; the best of its kind otherwise.
        tested = of == "tested"
        runs = workbench.evaluated_runs() if tested else workbench.explained_runs()
        found = next((run for run in runs if tested or role(run) == of), None)
        if found is None:
            raise MissingFact(ROLES[of] if tested else f"{ROLES[of]} with its weights")
        return found
    try:
        return workbench.run(of)
    except VitdemoError as error:
        raise MissingFact(f"the run '{of}'") from error


def role(run: Run) -> str:
    if run.spec.family in CONVOLUTIONAL:
        return "conv"
    if run.spec.family == "vit":  # one linear projection makes its tokens, as lessons say
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
    """True class, predicted class and count of the largest cell off the diagonal."""
    pairs = most_confused(confusion(probabilities, labels), 1)
    if not pairs:
        raise MissingFact(f"a mistake of '{run.name}'")
    return run.classes[pairs[0].true], run.classes[pairs[0].predicted], str(pairs[0].count)


def _confused_share(probabilities, labels, run: Run) -> str:
    """The share of all mistakes that the most frequent confusion has, in percent."""
    pairs = most_confused(confusion(probabilities, labels), 1)
    if not pairs:
        raise MissingFact(f"a mistake of '{run.name}'")
    return percent(pairs[0].count / _wrong(probabilities, labels))


def _even_share(classes: int) -> str:
    """The share of each confusion if all ordered pairs of classes were confused equally often."""
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
    """The lessons' picture, as the page shows it to models."""
    return visible_square(load_image(PICTURE))


def _far(workbench: Workbench, run: Run) -> np.ndarray:
    """How far each head looks beside one that looks everywhere alike, (L, H): on test pictures,
    or for want of them on the lessons' picture, as Inside draws it."""
    found = distances_of(workbench, run, _picture())
    return found.heads / found.even


def _near_layers(workbench: Workbench, run: Run) -> str:
    """The layers that have a head with a short distance, in words."""
    return _layer_words((_far(workbench, run) < NEAR).any(1))


def _far_layers(workbench: Workbench, run: Run) -> str:
    """The layers all of whose heads have a long distance, in words."""
    return _layer_words((_far(workbench, run) >= FAR).all(1))


def _layer_words(chosen: np.ndarray) -> str:
    """Layers (L,) bool as "in layer 9", "in layers 3, 4 and 5" or "in no layer"."""
    layers = [str(i) for i in np.flatnonzero(chosen) + 1]
    return f"in layer{'s' if layers[1:] else ''} {listed(layers)}" if layers else "in no layer"


def _largest_weight(workbench: Workbench, run: Run) -> str:
    """The largest weight of an attention row on the lessons' image, mean of all, in percent."""
    look = workbench.look(run, _picture())
    return percent(statistics.largest_weight(look.attention.float()).mean().item())


def _unscaled_weight(workbench: Workbench, run: Run) -> str:
    """`_largest_weight` if scores were not divided by the square root of the head's width."""
    look, model = workbench.look(run, _picture()), workbench.model(run)
    layers = [
        statistics.unscaled(weights.float(), head_scale(model, i))
        for i, weights in enumerate(look.attention)
    ]  # L of (H, N, N)
    means = [statistics.largest_weight(each).mean().item() for each in layers]
    return percent(sum(means) / len(means))


def _few_share(workbench: Workbench, run: Run) -> str:
    """Of what the last layer takes from the lessons' picture, the share of its first patches."""
    look = workbench.look(run, _picture())
    shares = np.sort(look.head_maps(look.layers).mean(0), axis=None)
    return percent(shares[-FEW:].sum() / shares.sum())


def _few_norm(workbench: Workbench, run: Run) -> str:
    """Return the share of the same patches in the norms of what the last layer passes on."""
    look = workbench.look(run, _picture())
    few = np.argsort(look.head_maps(look.layers).mean(0), axis=None)[-FEW:]
    received = layer_norms(look.attention[-1], workbench.value_products(look)[-1])  # (N, N)
    norms = look.answer_maps(received[None]).ravel()  # (P,)
    return percent(norms[few].sum() / norms.sum())


def _ablation(workbench: Workbench, run: Run) -> Ablation:
    """The first of `ablations` that `run` is in, as its base or not."""
    tested = workbench.evaluated_runs()
    for base, names in workbench.cache.of(ablations, tested).items():
        if run.name in names:
            others = [workbench.run(name) for name in names if name != base]
            return workbench.cache.of(ablation_of, workbench.run(base), others)
    raise MissingFact(f"an ablation with '{run.name}'")


def _gain(workbench: Workbench, run: Run) -> Gain:
    """The gain of `run` compared with the base of its ablation."""
    for gain in _ablation(workbench, run).gains:
        if gain.run == run.name:
            return gain
    raise MissingFact(f"a gain of '{run.name}', which others are compared with")


def _seed_gain(workbench: Workbench, run: Run) -> tuple[float, float, float]:
    """Mean gain of the run's ingredient over paired seeds, and its 95 % interval, in points."""
    paired = _ablation(workbench, run).seed_gains(_gain(workbench, run))
    if len(paired) < 2:
        raise MissingFact(f"another seed of '{run.name}'")
    mean, low, high = mean_interval(100 * np.array(paired))
    return mean, low, high


def _seed_threshold(workbench: Workbench, run: Run) -> str:
    """The gain with one seed that exceeds the variation between seeds, in points."""
    threshold = _ablation(workbench, run).seed_threshold
    if threshold is None:
        raise MissingFact(f"another seed of '{run.name}'")
    return f"{100 * threshold:.1f}"


def _learnt_from(workbench: Workbench, run: Run) -> str:
    """What it had beside the labels, in words."""
    found = "labels"
    if teacher := setting(run, "teacher"):
        found += f" and from what {Path(teacher).name} answers to the same pictures"
    if before := pretraining(run):
        found += f", after {len(before.history)} epochs without labels"
    return found if found != "labels" else "labels alone"


def _trained_on(workbench: Workbench, run: Run) -> str:
    return percent((run.record_of_weights or {})["train_accuracy"])


# Of the pictures of a data set, or of the runs beside it
OF_OTHERS = (
    *("near_layers", "far_layers", "gain", "gain_low", "gain_high"),
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
    # Of Vision Transformers
    "patch": _of_model(lambda model, run: model.patch_embed.patch_size[0]),
    "patch_numbers": _of_model(lambda model, run: 3 * model.patch_embed.patch_size[0] ** 2),
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
    "largest_weight": _largest_weight,  # of a row of attention, in percent
    "unscaled_weight": _unscaled_weight,
    "pair_share": _of_model(_pair_share),  # of all multiply-adds, in percent
    "few_share": _few_share,
    "few_norm": _few_norm,
    "even_share": _of_model(lambda model, run: percent(FEW / model.patch_embed.num_patches)),
    # Of tested runs; shares in percent
    "tests": _evaluated(lambda p, labels, run: f"{len(labels):,}"),
    "accuracy": _evaluated(lambda p, labels, run: percent(accuracy(p, labels))),
    "wrong": _evaluated(lambda p, labels, run: str(_wrong(p, labels))),
    "confused_true": _evaluated(lambda p, labels, run: _pair(p, labels, run)[0]),
    "confused_predicted": _evaluated(lambda p, labels, run: _pair(p, labels, run)[1]),
    "confused_count": _evaluated(lambda p, labels, run: _pair(p, labels, run)[2]),
    "confused_share": _evaluated(_confused_share),  # of all mistakes
    "even_confused_share": _evaluated(lambda p, labels, run: _even_share(len(run.classes))),
    "worst_class": _evaluated(lambda p, labels, run: run.classes[_recalls(p, labels).argmin()]),
    "worst_recall": _evaluated(lambda p, labels, run: percent(_recalls(p, labels).min())),
    "confidence": lambda workbench, run: percent(calibration(run).mean_confidence),
    "calibration_error": lambda workbench, run: percent(calibration(run).before.error),
    "train_accuracy": _trained_on,
    # Of runs of an ablation, in points beside its base
    "gain": lambda workbench, run: signed(100 * _gain(workbench, run).test.difference),
    "gain_low": lambda workbench, run: signed(100 * _gain(workbench, run).test.interval[0]),
    "gain_high": lambda workbench, run: signed(100 * _gain(workbench, run).test.interval[1]),
    # Of an ingredient over several seeds, and of a base: what one seed has to exceed
    "seed_gain": lambda workbench, run: signed(_seed_gain(workbench, run)[0]),
    "seed_gain_low": lambda workbench, run: signed(_seed_gain(workbench, run)[1]),
    "seed_gain_high": lambda workbench, run: signed(_seed_gain(workbench, run)[2]),
    "seed_threshold": _seed_threshold,
}
