"""The part "One head, number by number": from query and key to the output of a head."""

from vitdemo.analyses.qkv import layer_qkv
from vitdemo.page.components.one_head import OneHeadView
from vitdemo.page.kit import clamp_layer
from vitdemo.page.look.tab import ExploreTab


def build(look: ExploreTab) -> None:
    """Lay out and wire the part."""
    view = OneHeadView(elem_id="one-head")

    def draw(image, name, layer):
        run = look.context.find_run(name)
        layers = look.context.trace_image(run, image).num_layers
        return layer_qkv(look.context, run, image, clamp_layer(layer, layers))

    look.add("inside/one_head", draw, [look.layer], [view])
