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
    "How far from itself a patch looks on average, as a share of the picture's side: a dot is a "
    "head, the line the mean of a layer, the dashed line a head that looks everywhere alike. A "
    "short distance means that a head works like a small convolution; it does not say what the "
    "head looks for, nor whether it matters. A share of attention that goes to the class token or "
    "to one patch from everywhere is often an **attention sink**: a place to put attention that is "
    "not needed (Xiao et al. 2024), which larger models make of background patches unless they "
    "have **register tokens** for it (Darcet et al. 2024)."
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
