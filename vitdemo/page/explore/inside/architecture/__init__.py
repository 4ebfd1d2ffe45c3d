"""The part "Architecture": the model's parts with the results of this image, and links.

`parts` are the parts in the order of the forward pass. `parameters` and `macs` of a part are sums
over all `repeats` copies. `kind` and `sizes` are as in `ModelPart`:

    {"run": str, "seen": file, "size": int,
     "parts": [{"kind", "sizes", "parameters", "macs", "repeats"}, ...],
     "answers": [[class, probability], ...], "steps": None | {"grid": [rows, columns],
     "norms": (rows, columns), "maps": (L, rows, columns), "contributions": (L) | [],
     "probabilities": (L) | []}}

`steps` of a convolutional model is None. Letters: L layers.
"""

from dataclasses import asdict

from vitdemo.analyses.architecture import load_model_parts
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


@needs(keys.IMAGE, keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    run, image = context.find_run(state.model), load_square(context, state.image)
    overview = compute_overview(context, run, image) if context.count_layers(run) else None
    found = context.predict(run, image)
    return {
        "run": run.name,
        "parts": [asdict(part) for part in load_model_parts(context, run)],
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
