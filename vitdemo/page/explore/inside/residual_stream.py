"""The part "Residual stream": contributions of each head and each MLP to a logit."""

from vitdemo.explain.logit_attribution import compute_logit_attribution
from vitdemo.page.components.residual_stream import ResidualStreamView
from vitdemo.page.explore.tab import ExploreTab


def build(look: ExploreTab) -> None:
    """Lay out the part and connect its events."""
    view = ResidualStreamView(elem_id="residual-stream")

    def draw(image, name):
        trace = look.load_trace(name, image)
        return compute_logit_attribution(look.context.load_model(trace.run), trace)

    look.add("inside/residual_stream", draw, [], [view])
