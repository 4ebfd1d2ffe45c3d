"""The part "Attention distance": mean attention distance by layer, all Vision Transformers beside
each other.
"""

from vitdemo import figures
from vitdemo.figures.charts import distance_plot
from vitdemo.inside.attention_distance import Distances, distances
from vitdemo.page.components.article import Article, Figure, Folded, Notice, Piece, Plots, Text
from vitdemo.page.components.table import Table
from vitdemo.page.look.tab import Look
from vitdemo.runs import Run, pretraining

WORDS = (
    "Mean attention distance: how far from itself a patch attends on average, in percent of the "
    "image's side. A dot is a head, the line the mean of a layer, the dashed line a head that "
    "attends to all patches equally. A head with a short distance attends mostly to nearby patches "
    "or to the patch itself. That is not a convolution: its weights depend on the image. The "
    "distance does not show what a head looks for, nor whether the head matters. Only attention "
    "between patches counts; the weight that goes to the class token is left out. A patch that "
    "receives attention from everywhere (an **attention sink**) makes the distance long."
)


def build(look: Look) -> None:
    """Lay out and wire the part."""
    view = Article(elem_id="distances")

    def draw(image, name):
        return distance_pieces(*distances(look.workbench, image))

    look.add("inside/distance", draw, [], [view])


def distance_pieces(found: list[Distances], problems: list[str]) -> list[Piece]:
    """A plot for each model on one scale, then the numbers."""
    told = [Notice(problem) for problem in problems]
    if not found:
        nothing = "There is no Vision Transformer here: `python train.py vit-small-cpu` makes one."
        return told or [Notice(nothing)]
    top = 1.08 * max(max(d.heads.max(), d.even) for d in found)
    numbers = [piece for each in found for piece in table_of(each)]
    return [
        Text(WORDS, quiet=True),
        Plots([figure_of(each, top) for each in found]),
        Folded("Numbers: distance of each head, in percent of the side", numbers),
        *told,
    ]


def figure_of(found: Distances, top: float) -> Figure:
    first, last = 100 * found.heads[0].mean(), 100 * found.heads[-1].mean()
    L, H = found.heads.shape
    label = (
        f"{found.run.name}: mean attention distance of {H} heads in each of {L} layers; on average "
        f"{first:.0f} % of the side in the first layer, {last:.0f} % in the last"
    )
    svg = figures.svg(distance_plot(found.heads, found.even, top))
    words = f"{origin(found.run)}, {over(found)}"
    return Figure(found.run.name, label, svg, words=words)


def origin(run: Run) -> str:
    """Whether the run started from scratch, or from weights that others trained."""
    recipe = run.config["recipe"]
    if "pretrained" not in recipe:
        return str(recipe.get("summary", run.spec.family))
    if run.spec.family == "timm":
        return "pretrained" if recipe["pretrained"] else "from scratch"
    return "from scratch, first without labels" if pretraining(run) else "from scratch"


def over(found: Distances) -> str:
    if found.pictures == 1:
        return "over this picture alone, for want of test pictures that it knows"
    return f"over {found.pictures:,} test pictures"


def table_of(found: Distances) -> list[Piece]:
    header = ["layer", "mean", *(f"head {h + 1}" for h in range(found.heads.shape[1]))]
    rows = [
        [str(i), *(f"{100 * value:.1f}" for value in (heads.mean(), *heads))]
        for i, heads in enumerate(found.heads, start=1)
    ]
    return [
        Text(f"{found.run.name}, everywhere alike: {100 * found.even:.1f}"),
        Table(header, rows),
    ]
