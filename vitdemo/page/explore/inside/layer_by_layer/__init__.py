"""The part "Layer by layer": contributions of each layer, and the prediction after each layer.

The payload contains all layers, so `view.js` can show another layer without a request:

    {"run": str, "lens": see `lens`, "stream": see `stream`}
"""

import torch
from torch import Tensor

from vitdemo.context import AppContext
from vitdemo.explain.checks import require_finite, to_numpy
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import fill, load_trace
from vitdemo.page.explore.inside.layer_by_layer.lens import compute_lens
from vitdemo.page.explore.inside.layer_by_layer.stream import compute_stream
from vitdemo.page.feature import Feature
from vitdemo.page.graph import Graph, Outputs, Pixels, trace_crop
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "layer_by_layer"


@needs(keys.IMAGE, keys.MODEL)
@torch.inference_mode()
def payload(context: AppContext, state: ViewState) -> dict:
    trace = load_trace(context, state)
    trace.run.require_classes()
    require_finite(trace.run, to_numpy(trace.logits))
    return fill(
        {
            "run": trace.run.name,
            "lens": {"grid": list(trace.grid), "total": len(trace.run.classes)},
            "stream": {"reads_class_token": trace.reads_class_token},
        },
        describe_trace(context, trace, torch.from_numpy(trace.input_image).permute(2, 0, 1)),
    )


def compute_outputs(context: AppContext, run: Run, state: ViewState, crop: Tensor) -> Outputs:
    """Compute the data of the view that depend on the image: see `page.graph`."""
    run.require_classes()
    return describe_trace(context, trace_crop(context, run, crop), crop)


def describe_trace(context: AppContext, trace: ImageTrace, crop: Tensor) -> Outputs:
    """Return the outputs of a trace. Raises `RunError` for an unsupported classifier."""
    model = context.load_model(trace.run)
    parts = {"lens": compute_lens(model, trace), "stream": compute_stream(model, trace)}
    outputs: Outputs = {"lens.seen": Pixels(crop)}
    for part, found in parts.items():
        outputs |= {f"{part}.{name}": output for name, output in found.items()}
    return outputs


FEATURE = Feature({VIEW: payload}, graphs={VIEW: Graph(compute_outputs)})
