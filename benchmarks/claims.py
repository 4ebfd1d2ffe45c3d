"""Measure what lessons, docs and help texts state: one function per claim.

    python benchmarks/claims.py [--only NAME ...] [--images 100] [--data DIR] [--runs DIR]

Prints a Markdown table of claim, subject and value. The first line of a function's docstring is the
claim; the next paragraph says where it is stated. Claims about test results, costs and training
curves only need the included runs. Claims about attention also need CIFAR-10. They use a
stratified, seeded sample of test images. `near_duplicates.py`, `sinks.py` and `faithfulness.py`
measure their own claims.

Letters: B batch, L layers, H heads, N tokens, C classes.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import scipy
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.command import make_parser, run_program  # noqa: E402
from benchmarks.faithfulness import draw_test_images, draw_validation_images  # noqa: E402
from vitdemo import data, runs  # noqa: E402
from vitdemo.analyses.class_attribution import choose_first_map, load_summaries  # noqa: E402
from vitdemo.analyses.head_ablation import predict_without_heads  # noqa: E402
from vitdemo.analyses.knockout import predict_with_knockout  # noqa: E402
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.data.perturb.changes import ImageChanges, apply_changes  # noqa: E402
from vitdemo.errors import VitdemoError  # noqa: E402
from vitdemo.explain import (  # noqa: E402
    attention,
    attributions,
    faithfulness,
    forward_pass,
    head_ablation,
    logit_lens,
    statistics,
)
from vitdemo.explain.embeddings import position_embedding_similarity  # noqa: E402
from vitdemo.explain.faithfulness import EDGE_BASELINE  # noqa: E402
from vitdemo.explain.qkv import head_scale  # noqa: E402
from vitdemo.lessons import facts  # noqa: E402
from vitdemo.metrics import confusion_matrix  # noqa: E402
from vitdemo.metrics.calibration_report import compute_calibration_report  # noqa: E402
from vitdemo.metrics.classification_report import compare_runs, compute_classification_report  # noqa: E402
from vitdemo.metrics.intervals import difference_margin_of_error, margin_of_error, mean_interval  # noqa: E402
from vitdemo.metrics.recipe_ablation import compute_ablation, find_ablations  # noqa: E402
from vitdemo.metrics.training_progress import (  # noqa: E402
    final_validation_accuracy,
    generalisation_gap,
    recipe_field,
    uses_mixing,
)
from vitdemo.models import has_attention  # noqa: E402
from vitdemo.models.cost import compute_vit_cost  # noqa: E402
from vitdemo.runs import Run  # noqa: E402

ATTENTION_BATCH_SIZE = 20  # number of images whose attention is in memory at a time
HEAD_MEAN_IMAGES = 32  # number of images for the mean output of a head
TIE_SEEDS = 8  # random orders of tied patches
NUM_RANDOM_HEAD_SETS = 20  # number of random sets of heads
ClaimRows = list[tuple[str, str]]  # (subject, value)


@dataclass(frozen=True)
class ClaimInputs:
    """Inputs of all claims: runs to measure, and source of test images."""

    runs: list[Run]
    source: data.ImageDataset | None
    num_images: int
    context: AppContext | None = None  # models and caches, needed for the facts of lessons

    @property
    def evaluated_runs(self) -> list[Run]:
        return [run for run in self.runs if run.has_evaluation]

    def load_transformers(self) -> list[tuple[Run, nn.Module]]:
        """Load the Vision Transformers whose weights are available."""
        found = [(run, runs.load_model(run)) for run in self.runs if run.has_weights]
        return [(run, model) for run, model in found if has_attention(model)]

    def load_batches(self, run: Run, extra: int = 0) -> tuple[list[Tensor], Tensor]:
        """Return batches of inputs (B, 3, S, S) and all labels (N,).

        With `extra`, the last batch contains `extra` more images, whose labels are not returned.
        """
        if self.source is None:
            raise VitdemoError("the test images are not available")
        found = draw_test_images(self.source, self.num_images + extra, run.spec.image_size)
        pixels = run.preprocessing(found.images)
        parts = [
            *pixels[: self.num_images].split(ATTENTION_BATCH_SIZE),
            *([pixels[self.num_images :]] if extra else []),
        ]
        return parts, found.labels[: self.num_images]

    def load_validation_images(self, run: Run, skipped: int = 0) -> Tensor:
        """Return validation images (N, 3, S, S) uint8 of `run` after the first `skipped` images."""
        if self.source is None:
            raise VitdemoError("the validation images are not available")
        count = skipped + self.num_images
        return draw_validation_images(run, self.source, count).images[skipped:]


def largest_weights(subjects: ClaimInputs) -> ClaimRows:
    """Without the division by sqrt(D/H), the largest weight of a row is 0.6 to 0.9 on average.

    Lesson 2, "Why scale the score?".
    """
    rows = []
    for run, model in subjects.load_transformers():
        with_scale, without = [], []
        for images in subjects.load_batches(run)[0]:
            for i, weights in enumerate(forward_pass.trace(model, images).attention):
                unscaled = statistics.softmax_without_scale(weights.float(), head_scale(model, i))
                with_scale.append(statistics.largest_weight(weights.float()).mean())
                without.append(statistics.largest_weight(unscaled).mean())
        means = [float(torch.stack(each).mean()) for each in (with_scale, without)]
        rows.append((run.name, f"{means[0]:.3f} with the division, {means[1]:.3f} without"))
    return rows


def class_token_shares(subjects: ClaimInputs) -> ClaimRows:
    """In some heads, the class token attends mostly to itself, in other heads hardly at all.

    Lesson 2, "Attention to the class token".
    """
    rows = []
    for run, model in subjects.load_transformers():
        kept = [
            forward_pass.trace(model, images).attention[..., 0, 0].float()
            for images in subjects.load_batches(run)[0]
        ]  # each (L, B, H)
        shares = torch.cat(kept, 1).mean(1)  # (L, H)
        words = f"{shares.min():.3f} to {shares.max():.3f}, first layer {shares[0].max():.3f}"
        rows.append((run.name, words))
    return rows


def layer_distances(subjects: ClaimInputs) -> ClaimRows:
    """Heads below half the uniform distance, and how a layer's mean varies between images.

    Lesson 3, "What do you see?".
    """
    rows = []
    for run, model in subjects.load_transformers():
        grid, prefix = tuple(model.patch_embed.grid_size), model.num_prefix_tokens
        P = grid[0] * grid[1]
        even = statistics.mean_attention_distance(torch.full((1, 1, P, P), 1 / P), grid, 0).item()
        found = torch.cat(
            [
                statistics.mean_attention_distance(
                    forward_pass.trace(model, images).attention.float(), grid, prefix
                )
                for images in subjects.load_batches(run)[0]
            ],
            1,
        )  # (L, B, H)
        share, layers = found.mean(1) / even, found.mean(2)  # (L, H), (L, B)
        near = [i for i, heads in enumerate(share, 1) if (heads < 0.5).any()]
        far = [i for i, heads in enumerate(share, 1) if (heads >= 0.85).all()]
        varies = float((layers.std(1) / layers.mean(1)).max())
        rows.append((run.name, f"near {near}, far {far}, varies by at most {varies:.1%}"))
    return rows


def heads_off(subjects: ClaimInputs) -> ClaimRows:
    """One head off rarely changes the prediction, and the effect of many heads depends on the draw.

    Lesson 3, "Several heads". Mean over random sets of heads, with a 95% interval of this mean, and
    the range of single sets. The interval is over sets of heads, on the same images.
    """
    rows = []
    for run, model in subjects.load_transformers():
        (*parts, others), labels = subjects.load_batches(run, extra=HEAD_MEAN_IMAGES)
        means = head_ablation.compute_head_means(model, others)
        single, base = [], []
        for images in parts:
            trace = forward_pass.trace(model, images)
            base.append(trace.logits)
            single.append(head_ablation.ablate_each_head(model, trace.tokens, means))
        before, each = torch.cat(base), torch.cat(single, 2)  # (B, C), (L, H, B, C)
        own, row = before.argmax(1), torch.arange(len(before))
        change = (each[..., row, own] - before[row, own]).mean(-1)  # (L, H)
        changed = (each.argmax(-1) != own).float().mean()
        accuracy = (own == labels).float().mean().item()
        words = f"accuracy {accuracy:.1%}; one head off changes {changed:.1%} of predictions"
        rows.append((f"{run.name}, {len(labels)} images", words))
        heads = [(i, j) for i in range(change.shape[0]) for j in range(change.shape[1])]
        random = np.random.default_rng(0)
        for count in (len(heads) // 9, len(heads) // 3, len(heads) // 2):
            results = []
            for _ in range(NUM_RANDOM_HEAD_SETS):
                off = [heads[i] for i in random.permutation(len(heads))[:count]]
                logits = torch.cat(
                    [head_ablation.ablate_heads(model, x, off, means) for x in parts]
                )
                right = (logits.argmax(1) == labels).float().mean().item()
                joint = (logits[row, own] - before[row, own]).mean().item()
                added = sum(change[head].item() for head in off)
                results.append((100 * (right - accuracy), joint, added))
            points, *logit = np.array(results).T
            words = describe_draws(points) + "; logit {:+.2f}, sum of single effects {:+.2f}"
            words = words.format(*np.mean(logit, 1))
            rows.append((f"{run.name}, {count} of {len(heads)} heads off", words))
    return rows


def describe_draws(points: np.ndarray) -> str:
    """Format the mean of `points` (N,) with its 95% interval, and the range of single draws."""
    mean, low, high = mean_interval(points)
    single = f"single draws {points.min():+.1f} to {points.max():+.1f}"
    return f"{mean:+.1f} points ({low:+.1f} to {high:+.1f}; {len(points)} draws, {single})"


def first_maps(subjects: ClaimInputs) -> ClaimRows:
    """The first attention map scores about as high as the edge map, on new validation images.

    Explore; docs/attention.md. The images are not those on which the first map was chosen. The
    score is the mean over the replacements, and intervals are paired.
    """
    rows = []
    for run, model in subjects.load_transformers():
        summaries = load_summaries(subjects.context, run).values()
        measured = max((each.pictures for each in summaries), default=0)
        images = subjects.load_validation_images(run, measured)
        chosen, grid = choose_first_map(subjects.context, run), model.patch_embed.grid_size
        scores = []
        for image in run.preprocessing(images).split(1):
            maps = {
                "first": compute_attention_map(model, image, *chosen),
                EDGE_BASELINE: faithfulness.edge_map(image, tuple(grid)),
            }
            scores.append(compute_mean_scores(model, image, maps))
        first, edge, centre = np.array(scores).T  # each (N,)
        name = f"{run.name}, {chosen[0]} of layer {chosen[1]}, {len(scores)} images"
        for title, other in (("the edge map", edge), ("centre first", centre)):
            mean, low, high = mean_interval(first - other)
            rows.append((name, f"{mean:+.3f} ({low:+.3f} to {high:+.3f}) compared with {title}"))
    return rows


def tied_patches(subjects: ClaimInputs) -> ClaimRows:
    """The score of Grad-CAM depends on the order of tied patches, unless they are ranked.

    docs/attention.md. `TIE_SEEDS` random orders of the ties of each image, compared with the
    values before negative values are set to 0.
    """
    rows = []
    for run, model in subjects.load_transformers():
        images = subjects.load_validation_images(run)
        results = []
        for image in run.preprocessing(images).split(1):
            target = int(model(image).argmax())
            shown = attributions.attribute("grad_cam", model, image, target)
            ranked = attributions.compute_ranking_values("grad_cam", model, image, shown, target)
            settings = {"fill": "drop", "steps": faithfulness.CURVE_STEPS, "random_orders": 0}
            if "drop" not in faithfulness.supported_fills(model):
                settings["fill"] = "mean"
            scores = [
                faithfulness.measure_perturbation_curves(
                    model, image, target, {"own": values[0]}, seed=seed, **settings
                ).scores["own"]
                for values, seeds in ((shown, range(TIE_SEEDS)), (ranked, [0]))
                for seed in seeds
            ]
            ties, deviation = float((shown == 0).float().mean()), np.std(scores[:-1], ddof=1)
            results.append((ties, deviation, scores[-1] - np.mean(scores[:-1])))
        ties, deviation, _ = np.mean(results, 0)
        mean, low, high = mean_interval(np.array(results)[:, 2])
        words = f"{ties:.0%} of patches are 0; standard deviation over orders {deviation:.3f}; "
        words += (
            f"ranked by all values, the score changes by {mean:+.3f} ({low:+.3f} to {high:+.3f})"
        )
        rows.append((f"{run.name}, {len(images)} images", words))
    return rows


def compute_attention_map(model: nn.Module, image: Tensor, kind: str, layer: int) -> Tensor:
    """Return the map (rows, columns) of a `kind` and `layer` that `choose_first_map` returned."""
    weights = forward_pass.trace(model, image).attention.float()[:layer]  # (layer, 1, H, N, N)
    matrix = attention.rollout(weights) if kind == "rollout" else weights[-1].mean(1)  # (1, N, N)
    rows = forward_pass.classifier_rows(model)
    own = attention.classifier_map(matrix, model.num_prefix_tokens, rows)[0]  # (P,)
    return own.view(model.patch_embed.grid_size)


def compute_mean_scores(model: nn.Module, image: Tensor, maps: dict[str, Tensor]) -> list[float]:
    """Return the score of each map and of centre first, averaged over the replacements."""
    target, found = int(model(image).argmax()), []
    for fill in faithfulness.supported_fills(model):
        settings = {"fill": fill, "steps": faithfulness.CURVE_STEPS, "random_orders": 0}
        curves = faithfulness.measure_perturbation_curves(model, image, target, maps, **settings)
        found.append([*curves.scores.values()])
    return np.mean(found, 0).tolist()


def lens_accuracy(subjects: ClaimInputs) -> ClaimRows:
    """The logit lens predicts poorly in early layers, and its accuracy does not always rise.

    Lesson 4, "After each layer"; Inside the model, "Logit lens".
    """
    rows = []
    for run, model in subjects.load_transformers():
        parts, labels = subjects.load_batches(run)
        read = [
            logit_lens.apply_logit_lens(model, forward_pass.trace(model, x).tokens)[0]
            for x in parts
        ]
        right = (torch.cat(read, 1).argmax(-1) == labels).float().mean(1)  # (L+1,)
        rows.append((run.name, " ".join(f"{100 * each:.0f}" for each in right)))
    return rows


def position_neighbours(subjects: ClaimInputs) -> ClaimRows:
    """The most similar position embedding belongs to an adjacent patch.

    Lesson 1, "Position embeddings".
    """
    rows = []
    for run, model in subjects.load_transformers():
        likeness = position_embedding_similarity(model).fill_diagonal_(-2)
        side = model.patch_embed.grid_size[1]
        places = torch.arange(len(likeness))
        nearest = likeness.argmax(1)
        apart = torch.maximum(
            (places // side - nearest // side).abs(), (places % side - nearest % side).abs()
        )
        rows.append((run.name, f"{(apart == 1).float().mean():.0%} of patches"))
    return rows


def seeds(subjects: ClaimInputs) -> ClaimRows:
    """Gains that exceed the variation between seeds, and gains of changes over paired seeds.

    Lesson 7; docs/results.md; Compare models.
    """
    by_name = {run.name: run for run in subjects.evaluated_runs}
    rows = []
    for base, names in find_ablations(subjects.evaluated_runs).items():
        found = compute_ablation(by_name[base], [by_name[name] for name in names if name != base])
        if found.seed_threshold is None:
            continue
        spread = 100 * np.std(found.seed_accuracies, ddof=1)
        words = f"standard deviation {spread:.2f}, a gain with one seed has to exceed"
        rows.append((base, f"{words} {100 * found.seed_threshold:.1f} points"))
        for gain in found.single_changes:
            paired = found.paired_seed_gains(gain)
            if len(paired) > 1:
                mean, low, high = mean_interval(100 * np.array(paired))
                words = f"{mean:+.2f} points ({low:+.2f} to {high:+.2f}) over {len(paired)} seeds"
            else:
                words = f"{100 * gain.test.difference:+.2f} points, one seed"
            exceeds = "yes" if found.exceeds_seed_variation(gain) else "no"
            rows.append((f"{base}: {gain.description}", f"{words}; exceeds the seeds: {exceeds}"))
    return rows


def differences(subjects: ClaimInputs) -> ClaimRows:
    """An unpaired difference has a sqrt(2) times larger margin of error than a single value.

    Per-class metrics.
    """
    rows = []
    for run in subjects.evaluated_runs:
        table = compute_classification_report(run)
        recalls = zip(table.columns["recall"], map(int, table.support), strict=True)
        counts = [(round(recall * n), n) for recall, n in recalls]
        one, two = (
            np.median([f(*c) for c in counts])
            for f in (margin_of_error, difference_margin_of_error)
        )
        words = f"recall of a class ±{100 * one:.1f}, difference of two ±{100 * two:.1f} points"
        rows.append((run.name, words))
    ratios = []
    for pair in combinations(subjects.evaluated_runs, 2):
        test = compare_runs(*pair).overall
        accuracies = test.first_accuracy, test.second_accuracy
        each = [margin_of_error(round(a * test.n), test.n) for a in accuracies]
        ratios.append(np.diff(test.interval)[0] / 2 / np.hypot(*each))
    if not ratios:
        return rows
    words = f"{min(ratios):.2f} to {max(ratios):.2f}, median {np.median(ratios):.2f}"
    return [*rows, ("width of the paired interval / width of the unpaired one", words)]


def confidence(subjects: ClaimInputs) -> ClaimRows:
    """Runs with label smoothing or mixing are underconfident; a temperature reduces the error.

    Lesson 6, "How confident is the model?"; Calibration.
    """
    rows = []
    for run in subjects.evaluated_runs:
        found = compute_calibration_report(run)
        kinds = {"smoothing": recipe_field(run, "label_smoothing"), "mixing": uses_mixing(run)}
        kind = " and ".join(name for name, on in kinds.items() if on) or "neither"
        after = f"{found.scaled.reliability.calibration_error:.2%}" if found.scaled else "–"
        words = f"confidence {found.mean_confidence:.1%}, accuracy {found.accuracy:.1%}"
        rows.append(
            (
                f"{run.name} ({kind})",
                f"{words}, ECE {found.reliability.calibration_error:.2%} to {after}",
            )
        )
    return rows


def uneven_confusions(subjects: ClaimInputs) -> ClaimRows:
    """Confusions are not spread evenly over pairs of classes.

    Lesson 6, "Guess first".
    """
    rows = []
    for run in subjects.evaluated_runs:
        counts = confusion_matrix(run.evaluation.probabilities, run.evaluation.labels)
        wrong = counts[~np.eye(len(counts), dtype=bool)]
        p = scipy.stats.chisquare(wrong).pvalue
        rows.append((run.name, f"largest {wrong.max() / wrong.sum():.1%}, p = {p:.1g}"))
    return rows


def lesson_photo(subjects: ClaimInputs) -> ClaimRows:
    """On the lessons' photo, one random removal is not a reliable test, because results vary.

    Facts of lessons 1, 3, 4, 5, 8 and 9: half of an 8 x 8 grid, or a few model patches, removed.
    """
    names = ("photo_class", "photo_confidence", "shuffled_same", "strongest_head", "settled_layer")
    removed = [f"{kind}_{end}" for kind in ("random", "few") for end in ("low", "high", "below")]
    rows = []
    for run in (run for run in subjects.runs if run.has_weights):
        for name in (*names, "attended_confidence", "few_confidence", *removed):
            try:
                rows.append((f"{run.name}, {name}", facts.lookup_fact(subjects.context, run, name)))
            except VitdemoError:
                continue  # a convolutional network has no attention
    return rows


def lesson_steps(subjects: ClaimInputs) -> ClaimRows:
    """On the lessons' photo, the model needs neither its early layers nor the last layer's heads.

    Lessons 3 ("Several heads"), 4 (rollout, knock-out) and 8 ("Smaller pieces").
    """
    image, rows = facts.lesson_canvas(), []
    for run in (run for run in subjects.runs if run.has_weights):
        answers = [
            subjects.context.predict(run, apply_changes(image, ImageChanges(pieces=16, seed=seed)))
            for seed in range(facts.SHUFFLE_DRAWS)
        ]
        kinds = [run.classes[each.probabilities.argmax()] for each in answers]
        rows.append((f"{run.name}, 16 x 16 pieces shuffled", " ".join(kinds)))
    for run, model in subjects.load_transformers():
        look = subjects.context.trace_image(run, image)
        L, H = len(model.blocks), count_heads(model)
        last = predict_without_heads(subjects.context, run, image, [(L - 1, i) for i in range(H)])
        rows.append((f"{run.name}, heads of the last layer off", format_prediction(run, last)))
        for count in (L - 1, L):
            blocked = predict_with_knockout(subjects.context, run, image, range(count)).after
            text = format_prediction(run, blocked)
            rows.append((f"{run.name}, layers 1 to {count} blocked", text))
        maps = [look.rollout_map(i, fusion="mean", discard_ratio=0.0) for i in range(1, L + 1)]
        like = [scipy.stats.spearmanr(each.ravel(), maps[-1].ravel()).statistic for each in maps]
        values = " ".join(f"{x:.2f}" for x in like)
        rows.append((f"{run.name}, correlation with the full rollout", values))
        entropies = " ".join(f"{each:.1f}" for each in look.entropies[-1])
        rows.append((f"{run.name}, entropies of the last layer, bits", entropies))
    return rows


def count_heads(model: nn.Module) -> int:
    return model.blocks[0].attn.num_heads


def format_prediction(run: Run, probabilities: np.ndarray) -> str:
    """Return the most probable class and its probability."""
    return f"{run.classes[probabilities.argmax()]} {probabilities.max():.1%}"


def training_curves(subjects: ClaimInputs) -> ClaimRows:
    """Epochs in which training accuracy is below validation accuracy, and final accuracies.

    Lesson 7, "Training curves" and "Runs that fail".
    """
    rows = []
    for run in subjects.runs:
        below = [i for i, points in enumerate(generalisation_gap(run), 1) if points < 0]
        last = run.history[-1] if run.history else None
        if last and np.isfinite(last["val_accuracy"]):
            counts = (
                f"{len(below)} of {len(run.history)} epochs below, last {max(below, default=0)}"
            )
            final = final_validation_accuracy(run)
            accuracies = f"{last['train_accuracy']:.1%} training, {final:.2%} validation"
            rows.append((run.name, f"{counts}; {accuracies}"))
    return rows


def costs(_: ClaimInputs) -> ClaimRows:
    """Effect of doubling the width, the image side or the patch side on the cost.

    Lesson 7, questions; lesson 8, question 2.
    """
    base = compute_vit_cost(32, 4, 128, 6, 4)
    changed = {
        "width 256": compute_vit_cost(32, 4, 256, 6, 4),
        "image side 64": compute_vit_cost(64, 4, 128, 6, 4),
        "patch side 8": compute_vit_cost(32, 8, 128, 6, 4),
    }
    return [
        (
            name,
            f"multiply-adds x {each.macs / base.macs:.2f}, pairs x "
            f"{each.attention_matrix_macs / base.attention_matrix_macs:.2f}, parameters x "
            f"{each.parameters / base.parameters:.2f}",
        )
        for name, each in changed.items()
    ]


CLAIMS: tuple[Callable[[ClaimInputs], ClaimRows], ...] = (
    *(largest_weights, class_token_shares, layer_distances, heads_off, first_maps, tied_patches),
    *(lens_accuracy,),
    *(position_neighbours, seeds, differences, confidence, uneven_confusions, lesson_photo),
    *(lesson_steps, training_curves, costs),
)


def main() -> None:
    names = [claim.__name__ for claim in CLAIMS]
    parser = make_parser(__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME",
        help=f"claims to measure (default: all): {', '.join(names)}",
    )  # fmt: skip
    parser.add_argument("--images", type=int, default=100, help="number of test images per model")
    args = parser.parse_args()
    try:
        source = data.open_dataset(args.data, download=False)
    except VitdemoError as error:
        print(error, file=sys.stderr)
        source = None
    context = AppContext([args.runs], args.data, torch.device("cpu"))
    subjects = ClaimInputs(runs.find_runs(args.runs)[0], source, args.images, context)
    print("| claim | subject | value |\n|---|---|---|")
    for claim in CLAIMS:
        if claim.__name__ in args.only:
            print_claim(claim, subjects)


@torch.inference_mode()
def print_claim(claim: Callable[[ClaimInputs], ClaimRows], subjects: ClaimInputs) -> None:
    """Print the rows of a claim, or the reason why it was not measured."""
    try:
        rows = claim(subjects) or [("–", "not measured: no suitable run")]
    except VitdemoError as error:
        rows = [("–", f"not measured: {error}")]
    print(f"| **{claim.__doc__.splitlines()[0]}** | | |")
    for subject, value in rows:
        print(f"| {claim.__name__} | {subject} | {value} |", flush=True)


if __name__ == "__main__":
    run_program(main)
