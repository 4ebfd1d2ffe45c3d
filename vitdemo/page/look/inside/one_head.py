"""The part "One head, number by number": from query and key to the output of a head."""

from vitdemo.inside.one_head import one_layer
from vitdemo.page.components.one_head import OneHead
from vitdemo.page.kit import nearest
from vitdemo.page.look.tab import Look


def build(look: Look) -> None:
    """Lay out and wire the part."""
    view = OneHead(elem_id="one-head")

    def draw(image, name, layer):
        run = look.workbench.run(name)
        layers = look.workbench.look(run, image).layers
        return one_layer(look.workbench, run, image, nearest(layer, layers))

    look.add("inside/one_head", draw, [look.layer], [view])
