"""Facts in lessons: placeholders such as `{vit.patches}`, replaced by values of a run.

The first part is a role (a key of `RUN_ROLES`) or the name of a run. The second part is a key of
`FACTS`. If the run or its test predictions are missing, `MissingFact` contains the requirement.
"""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from vitdemo.analyses.activation_patching import (
    choose_other_photo,
    load_image_pair,
    patch_image,
)
from vitdemo.analyses.attention_distance import compute_distances
from vitdemo.analyses.ground_truth import ShareSummary, read_shares
from vitdemo.analyses.head_ablation import compute_head_effects
from vitdemo.analyses.perturbation import compute_ranking_maps, rank_patches
from vitdemo.context import AppContext
from vitdemo.data.image_files import crop_and_resize, crop_visible_square, load_image
from vitdemo.data.perturb.changes import ImageChanges, RemovedPatches, apply_changes
from vitdemo.data.photos import OURS
from vitdemo.errors import LessonError, RunError, VitdemoError
from vitdemo.explain import statistics
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.logit_lens import compute_logit_lens
from vitdemo.explain.norms import summed_head_norms
from vitdemo.explain.qkv import compute_layer_qkv, head_scale
from vitdemo.metrics import (
    ConfusedPair,
    confusion_matrix,
    format_signed,
    most_confused_pairs,
    percent_text,
)
from vitdemo.metrics.calibration_report import compute_calibration_report
from vitdemo.metrics.classification_report import validated_evaluation
from vitdemo.metrics.intervals import mean_interval
from vitdemo.metrics.recipe_ablation import (
    AblationGain,
    RecipeAblation,
    compute_ablation,
    find_ablations,
)
from vitdemo.metrics.training_progress import join_words, recipe_field, with_lineage_history
from vitdemo.models import count_macs, count_parameters, get_family, patch_side, prefix_token_names
from vitdemo.models.cost import count_attention_matrix_macs
from vitdemo.runs import Run, find_pretraining

LESSON_IMAGE = OURS / "cat.jpg"  # photo on which the numbers in the lessons are measured
# Thresholds, relative to the attention distance of a head with uniform attention.
SHORT_DISTANCE, LONG_DISTANCE = 0.5, 0.85
SOFTMAX_LAYER = 3  # layer, counted from 1: the lesson computes a softmax of its first head
FEW_PATCHES = 3  # number of most attended patches in the facts `few_...`
CANVAS_SIDE = 224  # image side in pixels in "Fool the model", for the included models
PIECES = 8  # rows and columns of the pieces that are shuffled or removed
SHUFFLE_DRAWS, REMOVAL_DRAWS = 8, 20  # number of random shuffles and removals
FACT_PATTERN = re.compile(r"\{([^{}\s.]+)\.([a-z_]+)\}")
RUN_ROLES = {
    "vit": "a plain Vision Transformer trained from scratch",
    "tuned": "a fine-tuned Vision Transformer from timm",
    "conv": "a convolutional network",
    "tested": "a model with test predictions",
}
FindRun = Callable[[str], Run]  # role or name of a run -> run
ReadFact = Callable[[AppContext, Run, str], str]  # run and name of a fact -> value as text


class MissingFact(VitdemoError):
    """Error for a fact that is not available; the message is the missing requirement."""


def check_fact_names(text: str) -> None:
    """Raise `LessonError` if `text` contains an unknown fact."""
    rest = FACT_PATTERN.sub("", text)
    if "{" in rest or "}" in rest:
        raise LessonError(
            f"'{rest.strip()[:60]}' contains a brace. Write a fact like {{vit.patches}}."
        )
    for _, fact in FACT_PATTERN.findall(text):
        if fact not in FACTS:
            raise LessonError(f"unknown fact '{fact}'. Use one of {', '.join(FACTS)}.")


def substitute_facts(text: str, context: AppContext, find: FindRun, read: ReadFact) -> str:
    """Replace each fact in `text` by the value that `read` returns for the run from `find`.

    Raises `MissingFact` if a value is not available.
    """
    return FACT_PATTERN.sub(lambda match: read(context, find(match[1]), match[2]), text)


def lookup_fact(context: AppContext, run: Run, name: str) -> str:
    """Return the fact `name` of `run`; most values are cached. Raises `MissingFact`."""
    try:
        if name in UNCACHED_FACTS:  # the value also depends on other runs
            return FACTS[name](context, run)
        return context.cache.get_or_compute(
            (lookup_fact, run, name), lambda: FACTS[name](context, run)
        )
    except (VitdemoError, AttributeError) as error:
        raise MissingFact(f"the fact '{name}' of {run.name}") from error


def fact_placeholder(context: AppContext, run: Run, name: str) -> str:
    """Return "…" instead of a fact, for lessons that are shown before the facts are computed."""
    return "…"


def find_run(context: AppContext, role: str) -> Run:
    """Return the run with this role or name. Raises `MissingFact` if no such run exists."""
    if role in RUN_ROLES:
        # "tested" is the default run of the Results tab. Other roles are the best run of a kind.
        is_tested = role == "tested"
        runs = context.evaluated_runs() if is_tested else context.explainable_runs()
        match = next((run for run in runs if is_tested or run_role(run) == role), None)
        if match is None:
            raise MissingFact(RUN_ROLES[role] if is_tested else f"{RUN_ROLES[role]}, with weights")
        return match
    try:
        return context.find_run(role)
    except VitdemoError as error:
        raise MissingFact(f"the run '{role}'") from error


def run_role(run: Run) -> str:
    family = get_family(run.spec)
    if not family.has_attention:
        return "conv"
    if not family.is_third_party:  # lessons explain only linear patch embeddings
        return "vit" if run.spec.options.get("stem", "patch") == "patch" else ""
    return "tuned" if run.has_evaluation or run.history else ""


def _test_fact(read: Callable[[np.ndarray, Run], object]) -> Callable[[AppContext, Run], str]:
    """Make a fact from `read`, a function of the confusion matrix (C, C) of the test set."""

    def fact(context: AppContext, run: Run) -> str:
        evaluation = validated_evaluation(run)
        return str(read(confusion_matrix(evaluation.probabilities, evaluation.labels), run))

    return fact


def _truth_fact(read: Callable[[ShareSummary], str]) -> Callable[[AppContext, Run], str]:
    """Make a fact from `read`, a function of the mean shares of a ground truth model."""

    def fact(context: AppContext, run: Run) -> str:
        if (found := read_shares(run.path)) is None:
            raise MissingFact(f"the shares of '{run.name}'")
        return read(found)

    return fact


def _mean_share(found: ShareSummary, method: str) -> str:
    return percent_text(found.shares[method].mean)


def _count_errors(matrix: np.ndarray) -> int:
    return matrix.sum() - matrix.trace()


def _most_confused(matrix: np.ndarray, run: Run) -> ConfusedPair:
    pairs = most_confused_pairs(matrix, 1)
    if not pairs:
        raise MissingFact(f"an incorrect test prediction of '{run.name}'")
    return pairs[0]


def _confused_cell(matrix: np.ndarray, run: Run) -> str:
    """Return the cell of the most frequent confusion as "row-column", counted from 0."""
    pair = _most_confused(matrix, run)
    return f"{pair.true}-{pair.predicted}"


def _even_confused_share(matrix: np.ndarray, run: Run) -> str:
    """Return the expected percentage of all errors per ordered pair of classes, if uniform."""
    C = len(matrix)
    if C < 2:
        raise MissingFact(f"a second class of '{run.name}'")
    return percent_text(1 / (C * (C - 1)))


def _class_recalls(matrix: np.ndarray) -> np.ndarray:
    return np.diag(matrix) / np.maximum(matrix.sum(1), 1)


def _model_fact(read: Callable) -> Callable[[AppContext, Run], str]:
    return lambda context, run: str(read(context.load_model(run), run))


def _token_count(model, run: Run) -> int:
    return len(prefix_token_names(model)) + model.patch_embed.num_patches


def _pair_share(model, run: Run) -> str:
    sizes = _token_count(model, run), model.embed_dim, len(model.blocks)
    pairs = count_attention_matrix_macs(*sizes)
    return percent_text(pairs / count_macs(model, run.spec.image_size))


def load_photo() -> Image.Image:
    """Return the lessons' photo, cropped to a square as on the page."""
    return crop_visible_square(load_image(LESSON_IMAGE))


def trace_photo(context: AppContext, run: Run) -> ImageTrace:
    return context.trace_image(run, load_photo())


def _relative_distances(context: AppContext, run: Run) -> np.ndarray:
    """Return each head's attention distance relative to uniform attention, (L, H).

    The distances are measured on test images, or on the lessons' photo if there is no dataset.
    """
    distances = compute_distances(context, run, load_photo())
    return distances.heads / distances.uniform


def _uniform_distance(context: AppContext, run: Run) -> str:
    """Return the attention distance of a head with uniform attention, in patches."""
    rows = max(context.load_model(run).patch_embed.grid_size)
    return f"{compute_distances(context, run, load_photo()).uniform * rows:.1f}"


def _format_layers(chosen: np.ndarray) -> str:
    """Format a mask of layers (L,) as "in layer 9", "in layers 3 and 4" or "in no layer"."""
    layers = [str(i) for i in np.flatnonzero(chosen) + 1]
    return f"in layer{'s' if layers[1:] else ''} {join_words(layers)}" if layers else "in no layer"


def _largest_weight(context: AppContext, run: Run) -> str:
    """Return the largest attention weight of a row in percent, averaged over all rows."""
    trace = trace_photo(context, run)
    return percent_text(statistics.largest_weight(trace.attention.float()).mean().item())


def _unscaled_weight(context: AppContext, run: Run) -> str:
    """Return `_largest_weight` for attention scores that are not scaled by 1/√d."""
    model, means = context.load_model(run), []
    for layer, weights in enumerate(trace_photo(context, run).attention):
        unscaled = statistics.softmax_without_scale(weights.float(), head_scale(model, layer))
        means.append(statistics.largest_weight(unscaled).mean().item())
    return percent_text(sum(means) / len(means))


def _softmax_example(context: AppContext, run: Run) -> tuple[float, float]:
    """Return e^score of one key and the sum of e^score over all keys, as shown in "One head".

    Both the query and the key are the class token, in head 1.
    """
    trace = trace_photo(context, run)
    if not trace.prefix_names:
        raise MissingFact(f"a class token of '{run.name}'")
    layer = min(SOFTMAX_LAYER, trace.num_layers)
    model = context.load_model(run)
    queries, keys, _ = compute_layer_qkv(model, trace.tokens, layer)  # (H, N, D/H)
    powers = (head_scale(model, layer - 1) * keys[0] @ queries[0, 0]).exp()  # (N,)
    return powers[0].item(), powers.sum().item()


def _softmax_fact(read: Callable[[float, float], str]) -> Callable[[AppContext, Run], str]:
    """Make a fact from `read`, a function of the terms from `_softmax_example`."""
    return lambda context, run: read(*context.cache.call(_softmax_example, context, run))


def _few_share(context: AppContext, run: Run) -> str:
    """Return the percentage of last-layer attention on the `FEW_PATCHES` most attended patches."""
    trace = trace_photo(context, run)
    weights = np.sort(trace.head_maps(trace.num_layers).mean(0), axis=None)
    return percent_text(weights[-FEW_PATCHES:].sum() / weights.sum())


def _few_norm(context: AppContext, run: Run) -> str:
    """Return the percentage of the summed patch norms that belongs to the most attended patches."""
    trace = trace_photo(context, run)
    top_patches = np.argsort(trace.head_maps(trace.num_layers).mean(0), axis=None)[-FEW_PATCHES:]
    received = summed_head_norms(trace.attention[-1], context.value_products(trace)[-1])  # (N, N)
    norms = trace.classifier_maps(received[None]).ravel()  # (P,)
    return percent_text(norms[top_patches].sum() / norms.sum())


def lesson_canvas() -> Image.Image:
    """Return the lessons' photo at the size that "Fool the model" uses."""
    return crop_and_resize(load_photo(), CANVAS_SIDE)


def _probabilities(context: AppContext, run: Run, changes: ImageChanges) -> np.ndarray:
    """Return the page's class probabilities (C,) for the lessons' photo after `changes`."""
    changed = load_photo() if changes.is_identity else apply_changes(lesson_canvas(), changes)
    return context.predict(run, changed).probabilities


def _photo_class(context: AppContext, run: Run) -> int:
    return int(_probabilities(context, run, ImageChanges()).argmax())


def _class_probability(context: AppContext, run: Run, changes: ImageChanges) -> float:
    """Return the probability after `changes` of the class predicted for the unchanged photo."""
    return float(_probabilities(context, run, changes)[_photo_class(context, run)])


def _shuffled_same(context: AppContext, run: Run) -> str:
    """Return the number of shuffles (seeds 0 to 7) that do not change the predicted class."""
    original = _photo_class(context, run)
    shuffles = (ImageChanges(pieces=PIECES, seed=seed) for seed in range(SHUFFLE_DRAWS))
    classes = [int(_probabilities(context, run, change).argmax()) for change in shuffles]
    return str(classes.count(original))


def _removal_results(context: AppContext, run: Run, few: bool) -> np.ndarray:
    """Return the predicted class's probability after removing patches, (1 + `REMOVAL_DRAWS`,).

    For element 0, the most attended patches are removed; for other elements, random patches. With
    `few`, `FEW_PATCHES` of the model's patches are removed, ranked by the mean of the heads in the
    last layer. Otherwise, half of 8 x 8 squares are removed, ranked by rollout.
    """
    trace = trace_photo(context, run)
    grid = trace.grid if few else (PIECES, PIECES)
    attended = rank_patches(compute_ranking_maps(trace)["mean" if few else "rollout"], grid)[-1]
    P = len(attended)
    draws = (np.random.default_rng(seed).permutation(P) for seed in range(REMOVAL_DRAWS))
    count = FEW_PATCHES if few else P // 2
    removed = (RemovedPatches(grid, tuple(order[:count].tolist())) for order in (attended, *draws))
    return np.array(
        [_class_probability(context, run, ImageChanges(removed=patches)) for patches in removed]
    )


def _removal_fact(read: Callable[[np.ndarray], str], few: bool = False):
    """Make a fact from `read`, a function of the result of `_removal_results`."""
    return lambda context, run: read(context.cache.call(_removal_results, context, run, few))


def _count_below(confidences: np.ndarray) -> str:
    return str((confidences[1:] < confidences[0]).sum())


def _settled_layer(context: AppContext, run: Run) -> str:
    """Return the first layer after which the logit lens always predicts the final class."""
    trace = trace_photo(context, run)
    lens = compute_logit_lens(context.load_model(run), trace)
    predicted = lens.predictions.argmax(1)  # (L+1,)
    other_layers = np.flatnonzero(predicted != predicted[-1])
    return str(other_layers[-1] + 1 if len(other_layers) else 0)


def _patched_layer(context: AppContext, run: Run) -> str:
    """Return the first layer from which on another image's class token changes the prediction.

    The other image is the one that the page shows first in *Activation patching*.
    """
    photo = load_photo()
    other = crop_visible_square(load_image(choose_other_photo(context, run, photo)))
    pair = load_image_pair(context, run, photo, other)
    layers = range(pair.first.num_layers + 1)
    found = [patch_image(context, pair, layer, [0]).probabilities.argmax() for layer in layers]
    unchanged = np.flatnonzero(np.array(found) == pair.predicted[0])
    if len(unchanged) == len(layers):
        raise RunError(f"The class token does not change the prediction of '{run.name}'.")
    return str(unchanged[-1] + 1)


def _strongest_head(context: AppContext, run: Run) -> str:
    """Return the head whose ablation lowers the predicted class's logit most, such as "9.1"."""
    changes = compute_head_effects(context, run, load_photo()).logit_change
    layer, head = np.unravel_index(changes.argmin(), changes.shape)
    return f"{layer + 1}.{head + 1}"


def _ablation(context: AppContext, run: Run) -> RecipeAblation:
    """Return the first ablation study that contains `run`."""
    evaluated = context.evaluated_runs()
    for baseline, names in find_ablations(evaluated).items():
        if run.name in names:
            others = [context.find_run(name) for name in names if name != baseline]
            return context.cache.call(compute_ablation, context.find_run(baseline), others)
    raise MissingFact(f"an ablation study with the run '{run.name}'")


def _gain(context: AppContext, run: Run) -> AblationGain:
    """Return the accuracy gain of `run` over the baseline of its ablation study."""
    for gain in _ablation(context, run).gains:
        if gain.run == run.name:
            return gain
    raise MissingFact(f"an ablation study in which '{run.name}' is not the baseline")


def _seed_gain(context: AppContext, run: Run) -> tuple[float, float, float]:
    """Return the mean gain over seeds and the ends of its 95% interval, in percentage points."""
    paired = _ablation(context, run).paired_seed_gains(_gain(context, run))
    if len(paired) < 2:
        raise MissingFact(f"another run of the recipe of '{run.name}' with a different seed")
    mean, low, high = mean_interval(100 * np.array(paired))
    return mean, low, high


def _seed_threshold(context: AppContext, run: Run) -> str:
    """Return the smallest significant gain of a run with one seed, in percentage points."""
    threshold = _ablation(context, run).seed_threshold
    if threshold is None:
        raise MissingFact(f"another run of the recipe of '{run.name}' with a different seed")
    return f"{100 * threshold:.1f}"


def _train_accuracy(context: AppContext, run: Run) -> str:
    """Return the training accuracy in percent at the epoch of the saved weights."""
    record = run.weights_record
    if record is None or "train_accuracy" not in record:
        raise MissingFact(f"the training accuracy of '{run.name}'")
    return percent_text(record["train_accuracy"])


def _training_signals(context: AppContext, run: Run) -> str:
    """Return the training signals of `run`: labels, teacher, self-supervised pretraining."""
    signals = "labels"
    if teacher := recipe_field(run, "teacher"):
        signals += f" and the predictions of the teacher model {Path(teacher).name}"
    if pretraining := find_pretraining(run):
        signals += f", after {len(pretraining.history)} epochs of self-supervised pretraining"
    return signals if signals != "labels" else "labels only"


# Facts that depend on the dataset or on other runs, not only on the run itself
UNCACHED_FACTS = (
    *("near_layers", "far_layers", "strongest_head", "gain", "gain_low", "gain_high"),
    *("seed_gain", "seed_gain_low", "seed_gain_high", "seed_threshold"),
)
FACTS: dict[str, Callable[[AppContext, Run], str]] = {
    "name": lambda context, run: run.name,
    "image": lambda context, run: str(run.spec.image_size),
    "classes": lambda context, run: str(len(run.classes)),
    "epochs": lambda context, run: str(len(with_lineage_history(run).history)),
    "learnt_from": _training_signals,
    # Millions of parameters and of multiply-adds
    "parameters": _model_fact(lambda model, run: f"{count_parameters(model) / 1e6:.1f}"),
    "macs": _model_fact(lambda model, run: f"{count_macs(model, run.spec.image_size) / 1e6:.0f}"),
    # Facts of Vision Transformers
    "patch": _model_fact(lambda model, run: patch_side(model)),
    "patch_numbers": _model_fact(lambda model, run: 3 * patch_side(model) ** 2),
    "rows": _model_fact(lambda model, run: model.patch_embed.grid_size[0]),
    "patches": _model_fact(lambda model, run: model.patch_embed.num_patches),
    "tokens": _model_fact(_token_count),
    "pairs": _model_fact(lambda model, run: _token_count(model, run) ** 2),
    "width": _model_fact(lambda model, run: model.embed_dim),
    "layers": _model_fact(lambda model, run: len(model.blocks)),
    "heads": _model_fact(lambda model, run: model.blocks[0].attn.num_heads),
    "all_heads": _model_fact(lambda model, run: len(model.blocks) * model.blocks[0].attn.num_heads),
    "head_width": _model_fact(lambda model, run: model.blocks[0].attn.head_dim),
    "hidden": _model_fact(lambda model, run: model.blocks[0].mlp.fc2.in_features),
    # Layers with at least one head of short attention distance; layers with only long distances
    "near_layers": lambda context, run: _format_layers(
        (_relative_distances(context, run) < SHORT_DISTANCE).any(1)
    ),
    "far_layers": lambda context, run: _format_layers(
        (_relative_distances(context, run) >= LONG_DISTANCE).all(1)
    ),
    "uniform_distance": _uniform_distance,
    "largest_weight": _largest_weight,  # percent
    "unscaled_weight": _unscaled_weight,
    "softmax_power": _softmax_fact(lambda power, total: f"{power:.4g}"),
    "softmax_total": _softmax_fact(lambda power, total: f"{total:.4g}"),
    "softmax_weight": _softmax_fact(lambda power, total: percent_text(power / total)),
    "pair_share": _model_fact(_pair_share),  # attention matrix products, in percent of the MACs
    "few_share": _few_share,
    "few_norm": _few_norm,
    "even_share": _model_fact(
        lambda model, run: percent_text(FEW_PATCHES / model.patch_embed.num_patches)
    ),
    # The class token's attention to itself in head 1 of layer 1
    "self_share": lambda context, run: percent_text(
        trace_photo(context, run).attention[0, 0, 0, 0].item()
    ),
    "strongest_head": _strongest_head,  # layer and head from 1, such as "9.1"
    "settled_layer": _settled_layer,
    "patched_layer": _patched_layer,
    # Facts of experiments on the lessons' photo; probabilities in percent
    "photo_class": lambda context, run: run.classes[_photo_class(context, run)],
    "photo_confidence": lambda context, run: percent_text(
        _class_probability(context, run, ImageChanges())
    ),
    "shuffled_same": _shuffled_same,
    # Probabilities after half of 8 x 8 squares are removed
    "attended_confidence": _removal_fact(lambda values: percent_text(values[0])),
    "random_low": _removal_fact(lambda values: percent_text(values[1:].min())),
    "random_high": _removal_fact(lambda values: percent_text(values[1:].max())),
    "random_below": _removal_fact(_count_below),  # count of draws below `attended_confidence`
    "few_confidence": _removal_fact(lambda values: percent_text(values[0]), few=True),
    "few_low": _removal_fact(lambda values: percent_text(values[1:].min()), few=True),
    "few_high": _removal_fact(lambda values: percent_text(values[1:].max()), few=True),
    "few_below": _removal_fact(_count_below, few=True),
    # Facts of tested runs; fractions in percent
    "tests": _test_fact(lambda matrix, run: f"{matrix.sum():,}"),
    "accuracy": _test_fact(lambda matrix, run: percent_text(matrix.trace() / matrix.sum())),
    "wrong": _test_fact(lambda matrix, run: _count_errors(matrix)),
    "confused_true": _test_fact(lambda matrix, run: run.classes[_most_confused(matrix, run).true]),
    "confused_predicted": _test_fact(
        lambda matrix, run: run.classes[_most_confused(matrix, run).predicted]
    ),
    "confused_cell": _test_fact(_confused_cell),  # row and column of the matrix, such as "3-5"
    "confused_count": _test_fact(lambda matrix, run: _most_confused(matrix, run).count),
    # Percentage of errors in the most frequent confusion, and expected percentage in each ordered
    # pair of classes for uniform errors
    "confused_share": _test_fact(
        lambda matrix, run: percent_text(_most_confused(matrix, run).count / _count_errors(matrix))
    ),
    "even_confused_share": _test_fact(_even_confused_share),
    "worst_class": _test_fact(lambda matrix, run: run.classes[_class_recalls(matrix).argmin()]),
    "worst_recall": _test_fact(lambda matrix, run: percent_text(_class_recalls(matrix).min())),
    "confidence": lambda context, run: percent_text(
        compute_calibration_report(run).mean_confidence
    ),
    "calibration_error": lambda context, run: percent_text(
        compute_calibration_report(run).reliability.calibration_error
    ),
    "train_accuracy": _train_accuracy,
    # Facts of ground truth models, over the measured images; fractions in percent
    "truth_images": _truth_fact(lambda found: str(found.images)),
    "truth_unmarked": _truth_fact(lambda found: percent_text(found.unmarked_accuracy)),
    "truth_chance": _truth_fact(lambda found: percent_text(found.chance)),
    "truth_gradients": _truth_fact(lambda found: _mean_share(found, "integrated_gradients")),
    "truth_attnlrp": _truth_fact(lambda found: _mean_share(found, "attnlrp")),
    "truth_occlusion": _truth_fact(lambda found: _mean_share(found, "occlusion")),
    "truth_grad_cam": _truth_fact(lambda found: _mean_share(found, "grad_cam")),
    "truth_relevance": _truth_fact(lambda found: _mean_share(found, "relevance")),
    "truth_rollout": _truth_fact(lambda found: _mean_share(found, "rollout")),
    "truth_attention": _truth_fact(lambda found: _mean_share(found, "attention")),
    # Facts of runs in an ablation study: gain over the baseline, in percentage points
    "gain": lambda context, run: format_signed(100 * _gain(context, run).test.difference),
    "gain_low": lambda context, run: format_signed(100 * _gain(context, run).test.interval[0]),
    "gain_high": lambda context, run: format_signed(100 * _gain(context, run).test.interval[1]),
    # Mean gain over several seeds, and the smallest significant gain with one seed
    "seed_gain": lambda context, run: format_signed(_seed_gain(context, run)[0]),
    "seed_gain_low": lambda context, run: format_signed(_seed_gain(context, run)[1]),
    "seed_gain_high": lambda context, run: format_signed(_seed_gain(context, run)[2]),
    "seed_threshold": _seed_threshold,
}
