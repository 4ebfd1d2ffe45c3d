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

import torch
from torch import Tensor

from vitdemo.analyses.architecture import load_model_parts
from vitdemo.analyses.overview import ModelOverview, compute_overview
from vitdemo.context import AppContext, Prediction
from vitdemo.metrics import top_k_classes
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, fill, load_square
from vitdemo.page.feature import Feature
from vitdemo.page.graph import Choice, Graph, Numbers, Outputs, Pixels, trace_crop
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "architecture"
DIGITS = 5
MAX_CLASSES = 3  # number of classes shown in the prediction


@needs(keys.IMAGE, keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    run, image = context.find_run(state.model), load_square(context, state.image)
    found = context.predict(run, image)
    data = {
        "run": run.name,
        "parts": [asdict(part) for part in load_model_parts(context, run)],
        "seen": ImageFile(found.input_image),
        "size": len(found.input_image),
        "answers": list_answers(found) if run.classes else [],
        "steps": None,
    }
    if context.count_layers(run):
        trace = context.trace_image(run, image)
        with torch.inference_mode():
            overview = compute_overview(context.load_model(run), trace)
        data["steps"] = {"grid": list(trace.grid)}
        fill(data, describe_steps(overview))
    return data


def compute_outputs(context: AppContext, run: Run, state: ViewState, crop: Tensor) -> Outputs:
    """Compute the data of the view that depend on the image: see `page.graph`."""
    outputs: Outputs = {"seen": Pixels(crop)}
    if run.classes:
        logits = context.load_model(run)(run.preprocessing(crop[None]))[0, : len(run.classes)]
        values, indices = logits.float().softmax(0).topk(min(MAX_CLASSES, len(run.classes)))
        for i in range(len(values)):
            outputs[f"answers.{i}.0"] = Choice(indices[i], run.classes)
            outputs[f"answers.{i}.1"] = Numbers(values[i], DIGITS)
    if context.count_layers(run):
        overview = compute_overview(context.load_model(run), trace_crop(context, run, crop))
        outputs |= describe_steps(overview)
    return outputs


FEATURE = Feature({VIEW: payload}, graphs={VIEW: Graph(compute_outputs)})


def list_answers(prediction: Prediction) -> list[list]:
    top, shares = top_k_classes(prediction.probabilities, MAX_CLASSES)
    pairs = zip(top, shares, strict=True)
    return [[prediction.run.classes[c], round(float(share), DIGITS)] for c, share in pairs]


def describe_steps(overview: ModelOverview) -> Outputs:
    """Return the `steps` of the payload but the grid."""
    values = {
        "norms": overview.token_norms,
        "maps": overview.maps,
        "contributions": overview.contributions,
        "probabilities": overview.probabilities,
    }
    return {f"steps.{name}": Numbers(each, DIGITS) for name, each in values.items()}
