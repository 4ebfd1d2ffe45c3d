"""The part "Layer by layer": contributions of each layer, and the prediction after each layer.

The payload contains all layers, so `view.js` can show another layer without a request:

    {"run": str, "lens": see `lens`, "stream": see `stream`}
"""

from vitdemo.context import AppContext
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import load_trace
from vitdemo.page.explore.inside.layer_by_layer.lens import describe_lens
from vitdemo.page.explore.inside.layer_by_layer.stream import describe_stream
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "layer_by_layer"


@needs(keys.IMAGE, keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    trace = load_trace(context, state)
    model = context.load_model(trace.run)
    return {
        "run": trace.run.name,
        "lens": describe_lens(model, trace),
        "stream": describe_stream(model, trace),
    }


FEATURE = Feature({VIEW: payload})
