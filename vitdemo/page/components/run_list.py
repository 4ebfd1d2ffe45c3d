"""Several runs out of collapsed groups: a line a group, which opens and can be ticked as a whole.

    chosen = RunList(grouped(runs), ["vit"], label="Runs", elem_id="runs")
    chosen.input(draw, inputs=chosen, outputs=...)  # draw(names: list[str])

A handler answers with names, or with `gr.update(groups=grouped(runs), value=names)`.
"""

from collections.abc import Sequence

from vitdemo.page.components import Drawing
from vitdemo.page.components.run_choice import LONGEST_NAME, Groups

MOST_NAMES = 1000  # that a browser may send


class RunList(Drawing):
    """Checkboxes of the `groups`; the value holds the names that are ticked, in their order."""

    def __init__(
        self,
        groups: Groups = (),
        value: Sequence[str] = (),
        *,
        label: str = "Models",
        **options,
    ):
        self.groups = groups
        looks = {"container": True, "elem_classes": "vd-choice"}
        super().__init__(list(value), label=label, groups=groups, **looks | options)

    def preprocess(self, payload) -> list[str]:
        """What the browser sends are names, of runs that may be gone by now, or nothing."""
        names = payload if isinstance(payload, list) else []
        return [name[:LONGEST_NAME] for name in names[:MOST_NAMES] if isinstance(name, str)]

    def postprocess(self, value: Sequence[str] | None) -> list[str]:
        return list(value or ())

    def api_info(self) -> dict:
        return {"type": "array", "items": {"type": "string"}}
