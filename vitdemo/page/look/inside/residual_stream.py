"""The part "Residual stream": contributions of each head and each MLP to a logit."""

from vitdemo.inside.residual_stream import residual_stream
from vitdemo.page.components.residual_stream import ResidualStream
from vitdemo.page.look.tab import Look


def build(look: Look) -> None:
    """Lay out and wire the part."""
    view = ResidualStream(elem_id="residual-stream")

    def draw(image, name):
        return residual_stream(look.workbench, look.workbench.run(name), image)

    look.add("inside/residual_stream", draw, [], [view])
