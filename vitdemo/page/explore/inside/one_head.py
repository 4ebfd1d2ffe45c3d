"""The part "One head, number by number": from query and key to the output of a head."""

from vitdemo.explain.qkv import compute_layer_qkv
from vitdemo.page.components.one_head import OneHeadView
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.kit import clamp_layer


def build(look: ExploreTab) -> None:
    """Lay out the part and connect its events."""
    view = OneHeadView(elem_id="one-head")

    def draw(image, name, layer):
        trace = look.load_trace(name, image)
        model = look.context.load_model(trace.run)
        return compute_layer_qkv(model, trace, clamp_layer(layer, trace.num_layers))

    look.add("inside/one_head", draw, [look.layer], [view])
