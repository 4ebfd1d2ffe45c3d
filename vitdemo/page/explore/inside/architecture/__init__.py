"""The part "Architecture": the model's parts with the results of this image, and links to parts.

`parts` are the parts in the order of the forward pass. `parameters` and `macs` of a part are sums
over all `repeats` copies. `link` leads to a part of "Inside the model" or to a section of Explore:

    {"caption": str, "repeated": str, "seen": file, "size": int,
     "parts": [{"kind", "title", "description", "parameters", "macs", "repeats",
                "link": {"title", "part"} | {"title", "section"} | None}, ...],
     "answers": [[class, probability], ...], "steps": None | {"grid": [rows, columns],
     "norms": (rows, columns), "maps": (L, rows, columns), "contributions": (L) | [],
     "probabilities": (L) | []}}

`steps` of a convolutional model is None. Letters: L layers.
"""

from collections.abc import Sequence

from vitdemo.analyses.architecture import ModelPart, load_model_parts
from vitdemo.analyses.overview import ModelOverview, compute_overview
from vitdemo.context import AppContext, Prediction
from vitdemo.metrics import top_k_classes
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, load_square, round_numbers
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "architecture"
DIGITS = 5
MAX_CLASSES = 3  # number of classes shown in the prediction
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
    "patches": "{rows} x {columns} patches of {side} x {side} pixels. Each becomes a token, a "
    "vector of {width} numbers.",
    "stem": "Convolutions with overlapping receptive fields turn the pixels into {rows} x "
    "{columns} tokens of {width} numbers.",
    "tokens": "{before} and {patches} patches: {tokens} tokens. A learned position embedding is "
    "added to each. Bright: large norm.",
    "attention": "{heads} heads of {size} numbers. Each token attends to all {tokens} tokens.",
    "mlp": "Processes each token separately: from {width} to {hidden} numbers and back.",
    "norm": "Scales the {width} numbers of a token to mean 0 and variance 1, then applies a "
    "learned scale.",
    "head": "Maps {answer} from {width} numbers to {classes} classes.",
    # Convolutional models, whose layers are shown
    "convolutions": "{layers} of {side} x {side} filters: {before} channels to {after}{frozen} "
    "(`{name}`).",
    "linear": "Maps {before} numbers, one per channel, to {after} classes (`{name}`).",
    "layer": "Normalises the mean and variance of each channel (`{name}`).",
}
PART_LINKS = {
    "patches": {"title": "Patch embedding", "part": "filters"},
    "stem": {"title": "Patch embedding", "part": "filters"},
    "tokens": {"title": "Position embeddings", "part": "positions"},
    "attention": {"title": "One head", "part": "one_head"},
    "head": {"title": "Why this class?", "section": "why"},
}
VIT_CAPTION = "From the image to the prediction. Click a part to open it."
CONVOLUTIONAL_CAPTION = "'{name}' is convolutional: it has no tokens and no attention."
BLOCKS_CAPTION = "{times} layers (blocks) in sequence"


@needs(keys.IMAGE, keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    run, image = context.find_run(state.model), load_square(context, state.image)
    overview = compute_overview(context, run, image) if context.count_layers(run) else None
    found = context.predict(run, image)
    return describe_parts(run.name, load_model_parts(context, run)) | {
        "seen": ImageFile(found.input_image),
        "size": len(found.input_image),
        "answers": list_answers(found) if run.classes else [],
        "steps": overview and describe_steps(overview),
    }


FEATURE = Feature({VIEW: payload})


def list_answers(prediction: Prediction) -> list[list]:
    top, shares = top_k_classes(prediction.probabilities, MAX_CLASSES)
    pairs = zip(top, shares, strict=True)
    return [[prediction.run.classes[c], round(float(share), DIGITS)] for c, share in pairs]


def describe_steps(overview: ModelOverview) -> dict:
    return {
        "grid": list(overview.token_norms.shape),
        "norms": round_numbers(overview.token_norms, DIGITS),
        "maps": round_numbers(overview.maps, DIGITS),
        "contributions": round_numbers(overview.contributions, DIGITS),
        "probabilities": round_numbers(overview.probabilities, DIGITS),
    }


def describe_parts(name: str, parts: Sequence[ModelPart]) -> dict:
    if any(part.kind == "convolutions" for part in parts):
        caption, repeated = CONVOLUTIONAL_CAPTION.format(name=name), ""
    else:
        times = max(part.repeats for part in parts)
        caption, repeated = VIT_CAPTION, BLOCKS_CAPTION.format(times=times)
    return {"caption": caption, "repeated": repeated, "parts": [make_box(part) for part in parts]}


def make_box(part: ModelPart) -> dict:
    sizes = dict(part.sizes)
    if "prefix" in sizes:
        before = ", ".join(sizes["prefix"]).capitalize()
        sizes["before"] = before or "No special token"
    if "count" in sizes:
        count = sizes["count"]
        sizes["layers"] = "A layer" if count == 1 else f"{count} layers"
        sizes["frozen"] = "; computed from images, not trained" if sizes["is_frozen"] else ""
    return {
        "kind": part.kind,
        "title": PART_TITLES[part.kind],
        "description": PART_DESCRIPTIONS[part.kind].format(**sizes),
        "parameters": part.parameters,
        "macs": part.macs,
        "repeats": part.repeats,
        "link": PART_LINKS.get(part.kind),
    }
