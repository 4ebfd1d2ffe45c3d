"""The part "Attention distance": mean attention distance by layer for all Vision Transformers."""

from vitdemo import figures
from vitdemo.analyses.attention_distance import AttentionDistances, compute_all_distances
from vitdemo.context import AppContext
from vitdemo.documents import (
    Details,
    DocumentBlock,
    Figure,
    Notice,
    Plots,
    Text,
)
from vitdemo.documents.table import Table
from vitdemo.figures.charts import plot_attention_distance
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.models import get_family
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import document_payload, load_square
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run, find_pretraining

VIEW = "attention_distance"
DISTANCE_CAPTION = (
    "Mean distance between a patch and the patches it attends to. Each dot is a head, and the "
    "line shows the mean of each layer."
)
ABOUT_DISTANCE = (
    "**Attention distance** is in percent of the image's side. The dashed line is the distance "
    "for uniform attention to all patches. The distance does not show which content a head "
    "responds to, or whether the head is important."
)


@needs(keys.IMAGE)
def payload(context: AppContext, state: ViewState) -> list:
    distances = compute_all_distances(context, load_square(context, state.image))
    return document_payload(distance_blocks(*distances))


FEATURE = Feature({VIEW: payload})


def distance_blocks(results: list[AttentionDistances], problems: list[str]) -> list[DocumentBlock]:
    """Return a plot per model, all with the same scale, and a table per model."""
    told = [Notice(problem) for problem in problems]
    if not results:
        nothing = f"No Vision Transformer is available. Train one: `{TRAIN_COMMAND} vit-small-cpu`."
        return told or [Notice(nothing)]
    top = 1.08 * max(max(d.heads.max(), d.uniform) for d in results)
    numbers = [piece for each in results for piece in distance_table(each)]
    return [
        Text(DISTANCE_CAPTION, quiet=True),
        Plots([distance_figure(each, top) for each in results]),
        Details("Attention distance of each head, in percent of the image's side", numbers),
        Details("About", [Text(ABOUT_DISTANCE, quiet=True)]),
        *told,
    ]


def distance_figure(distances: AttentionDistances, top: float) -> Figure:
    first, last = 100 * distances.heads[0].mean(), 100 * distances.heads[-1].mean()
    L, H = distances.heads.shape
    label = (
        f"{distances.run.name}: mean attention distance of {H} heads in each of {L} layers; on "
        f"average {first:.0f}% of the side in the first layer, {last:.0f}% in the last"
    )
    # All distances are 0 in a model with a single patch.
    svg = figures.figure_to_svg(
        plot_attention_distance(distances.heads, distances.uniform, top or 1.0)
    )
    words = f"{describe_origin(distances.run)}, {describe_sample(distances)}"
    return Figure(distances.run.name, label, svg, caption=words)


def describe_origin(run: Run) -> str:
    """Describe the start of training: from scratch, pretrained, or the recipe's summary."""
    recipe = run.config["recipe"]
    if "pretrained" not in recipe:
        return str(recipe.get("summary", run.spec.family))
    if get_family(run.spec).is_third_party:
        return "pretrained" if recipe["pretrained"] else "from scratch"
    return f"from scratch{', with self-supervised pretraining' if find_pretraining(run) else ''}"


def describe_sample(distances: AttentionDistances) -> str:
    if distances.num_images == 1:
        return "over this image only, because the model's test set is not available"
    return f"over {distances.num_images:,} test images"


def distance_table(distances: AttentionDistances) -> list[DocumentBlock]:
    header = ["layer", "mean", *(f"head {h + 1}" for h in range(distances.heads.shape[1]))]
    rows = [
        [str(i), *(f"{100 * value:.1f}" for value in (heads.mean(), *heads))]
        for i, heads in enumerate(distances.heads, start=1)
    ]
    return [
        Text(f"{distances.run.name}, uniform attention: {100 * distances.uniform:.1f}"),
        Table(header, rows),
    ]
