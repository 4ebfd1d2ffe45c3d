"""The part "Architecture": the model's parts with their sizes, linked to their explanations.

The payload does not depend on the image:

    {"words": str, "repeated": str, "parameters": int, "macs": int,
     "parts": [{"title", "description", "parameters", "macs", "repeats",
                "link": {"title", "part"} | {"title", "section"} | None}, ...]}

`link` names a part of "Inside the model" or a section of Explore. `parameters` and `macs` of a part
are sums over all `repeats` copies. `repeated` is the caption of the parts with several copies.
"""

from collections.abc import Sequence

from vitdemo.analyses.architecture import ModelPart, load_model_parts
from vitdemo.context import AppContext
from vitdemo.page.bridge import ViewState, add_view
from vitdemo.page.explore.tab import ExploreTab

VIEW = "architecture"
PART_TITLES = {
    "patches": "Patch embedding",
    "stem": "Convolutional stem",
    "tokens": "Tokens and positions",
    "attention": "Multi-head self-attention",
    "mlp": "MLP",
    "norm": "Final LayerNorm",
    "head": "Classifier",
    "convolutions": "Convolutions",
    "linear": "Classifier",
    "layer": "Normalisation",
}
PART_DESCRIPTIONS = {
    "patches": "The image of {image} x {image} pixels is cut into {rows} x {columns} patches of "
    "{side} x {side}. Each patch becomes a token, a vector of {width} numbers.",
    "stem": "Convolutions with overlapping receptive fields turn {image} x {image} pixels into "
    "{rows} x {columns} tokens of {width} numbers.",
    "tokens": "{before} and {patches} patches: {tokens} tokens. A learned position embedding is "
    "added to each.",
    "attention": "{heads} heads of {size} numbers each. Each of the {tokens} tokens attends to all "
    "tokens. The result is added to the token.",
    "mlp": "Processes each token separately: {width} numbers to {hidden} and back. The result is "
    "added to the token.",
    "norm": "Scales the {width} numbers of a token to mean 0 and variance 1, then applies a "
    "learned scale.",
    "head": "Maps {answer} from {width} numbers to {classes} classes.",
    # Convolutional models, which are shown by their own layers
    "convolutions": "{layers} of {side} x {side} filters: {before} channels to {after}{frozen} "
    "(`{name}`).",
    "linear": "Maps {before} numbers, one per channel, to {after} classes (`{name}`).",
    "layer": "Normalises the mean and variance of each channel (`{name}`).",
}
TEXTS = {
    "open": "Open {title}",
    "share_of_parameters": "{percent} of parameters",
    "share_of_macs": "{percent} of multiply-adds",
    "numbers": "Numbers: parameters and multiply-adds",
    "part": "part",
    "parameters": "parameters",
    "macs": "multiply-adds",
    "total": "total",
}
PART_LINKS = {
    "patches": {"title": "Patch embedding", "part": "filters"},
    "stem": {"title": "Patch embedding", "part": "filters"},
    "tokens": {"title": "Position embeddings", "part": "positions"},
    "attention": {"title": "One head, number by number", "part": "one_head"},
    "mlp": {"title": "Residual stream", "part": "residual_stream"},
    "norm": {"title": "Logit lens", "part": "lens"},
    "head": {"title": "Why this class?", "section": "why"},
}
VIT_CAPTION = (
    "The model from the image (top) to the prediction (bottom). Bars show each part's fraction of "
    "all parameters and of all multiply-adds per image."
)
CONVOLUTIONAL_CAPTION = (
    "'{name}' is convolutional: it has no tokens and no attention. Its layers are shown from the "
    "image (top) to the prediction, with their fractions of parameters and multiply-adds."
)
BLOCKS_CAPTION = (
    "{times} blocks in sequence. Each block has these two parts, with a LayerNorm before each:"
)


def build(look: ExploreTab) -> None:
    """Lay out the part."""
    add_view(VIEW, elem_id="diagram")


def payload(context: AppContext, state: ViewState) -> dict:
    """Return the payload of the model's diagram. Raises `VitdemoError`."""
    run = context.find_run(state.model)
    return to_payload(run.name, load_model_parts(context, run))


def to_payload(name: str, parts: Sequence[ModelPart]) -> dict:
    """Return the payload of the diagram of the model `name`."""
    if any(part.kind == "convolutions" for part in parts):
        caption, repeated = CONVOLUTIONAL_CAPTION.format(name=name), ""
    else:
        times = max(part.repeats for part in parts)
        caption, repeated = VIT_CAPTION, BLOCKS_CAPTION.format(times=times)
    return {
        "words": caption,
        "repeated": repeated,
        "parameters": sum(part.parameters for part in parts),
        "macs": sum(part.macs for part in parts),
        "parts": [make_box(part) for part in parts],
    }


def make_box(part: ModelPart) -> dict:
    """Return the box of one part: title, description, sizes and link."""
    sizes = dict(part.sizes)
    if "prefix" in sizes:
        before = ", ".join(sizes["prefix"]).capitalize()
        sizes["before"] = before or "No special token"
    if "count" in sizes:
        count = sizes["count"]
        sizes["layers"] = "A layer" if count == 1 else f"{count} layers"
        sizes["frozen"] = "; computed from images, not trained" if sizes["is_frozen"] else ""
    return {
        "title": PART_TITLES[part.kind],
        "description": PART_DESCRIPTIONS[part.kind].format(**sizes),
        "parameters": part.parameters,
        "macs": part.macs,
        "repeats": part.repeats,
        "link": PART_LINKS.get(part.kind),
    }
