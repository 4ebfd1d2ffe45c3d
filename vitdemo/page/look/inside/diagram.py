"""The part "The model": what it is built of, with true sizes, and where each part is explained."""

from collections.abc import Sequence

from vitdemo.inside.diagram import Part, diagram
from vitdemo.page.components.diagram import Box, Diagram, Drawn
from vitdemo.page.look.tab import Look

TITLES = {
    "patches": "Patch embedding",
    "stem": "Convolutional stem",
    "tokens": "Tokens and positions",
    "attention": "Multi-head self-attention",
    "mlp": "MLP",
    "norm": "Last norm",
    "head": "Classifier",
    "convolutions": "Convolutions",
    "linear": "Classifier",
    "layer": "Normalisation",
}
WORDS = {
    "patches": "{image} x {image} pixels, cut into {rows} x {columns} patches of {side} x {side}; "
    "each becomes a token of {width} numbers.",
    "stem": "{image} x {image} pixels become {rows} x {columns} tokens of {width} numbers, by "
    "convolutions whose fields of view overlap.",
    "tokens": "{before} and {patches} patches: {tokens} tokens, to which what was learnt of each "
    "position is added.",
    "attention": "{heads} heads of {size} numbers each: every one of the {tokens} tokens gathers "
    "from all others. Added to what came in.",
    "mlp": "Each token alone: {width} numbers to {hidden} and back. Added to what came in.",
    "norm": "Mean 0 and variance 1 over the {width} numbers of a token, then a learnt scale.",
    "head": "Reads {answer}: {width} numbers to {classes} classes.",
    # Of convolutional models, which are shown by their own layers
    "convolutions": "{layers} of filters of {side} x {side} places, slid over the picture: "
    "{before} channels to {after}{frozen} (`{name}`).",
    "linear": "{before} numbers, one of each channel, to {after} classes (`{name}`).",
    "layer": "Each channel's mean and variance (`{name}`).",
}
OPENS = {
    "patches": {"title": "Patch embedding", "part": "filters"},
    "stem": {"title": "Patch embedding", "part": "filters"},
    "tokens": {"title": "Position embeddings", "part": "positions"},
    "attention": {"title": "One head, number by number", "part": "one_head"},
    "mlp": {"title": "Residual stream", "part": "residual_stream"},
    "norm": {"title": "Logit lens", "part": "lens"},
    "head": {"title": "Why this class?", "section": "why"},
}
VIT = (
    "From the picture (top) to the answer (bottom), with the sizes of this very model. Bars are "
    "shares of all parameters and of all multiply-adds of one picture."
)
CONVOLUTIONAL = (
    "'{name}' is convolutional: it has no tokens and no attention. Its layers from the picture "
    "(top) to the answer, with their shares of parameters and multiply-adds."
)
REPEATED = "{times} blocks of these two, one behind the other, each with a norm before it:"


def build(look: Look) -> None:
    """Lay out and wire the part."""
    view = Diagram(elem_id="diagram")

    def draw(image, name):
        return drawn(name, diagram(look.workbench, look.workbench.run(name)))

    look.add("inside/diagram", draw, [], [view])


def drawn(name: str, parts: Sequence[Part]) -> Drawn:
    if any(part.kind == "convolutions" for part in parts):
        return Drawn([box(part) for part in parts], CONVOLUTIONAL.format(name=name))
    times = max(part.times for part in parts)
    return Drawn([box(part) for part in parts], VIT, REPEATED.format(times=times))


def box(part: Part) -> Box:
    sizes = dict(part.sizes)
    if "prefix" in sizes:
        before = ", ".join(sizes["prefix"]).capitalize()
        sizes["before"] = before or "No token of its own"
    if "count" in sizes:
        count = sizes["count"]
        sizes["layers"] = "A layer" if count == 1 else f"{count} layers"
        sizes["frozen"] = "; measured on pictures, not trained" if sizes["is_frozen"] else ""
    words = WORDS[part.kind].format(**sizes)
    opens = OPENS.get(part.kind)
    return Box(TITLES[part.kind], words, part.parameters, part.macs, part.times, opens)
