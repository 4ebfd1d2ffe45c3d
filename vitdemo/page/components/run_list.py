"""Checkbox list of runs in collapsible groups, each with a checkbox for the whole group.

    setup.controls.add(keys.CURVE_RUNS, RunList, group_runs(runs), ["vit"])

With a text `more`, the list is a legend: the groups `shown` and all ticked runs are in one line,
with the colours in `looks`. The other groups are hidden behind this text. `looks` maps a run to
{"colour", "lighter": colour of its training curves or None, "sign": marker or ""}.

The value `NOT_CHOSEN` means that the user has not chosen yet. Then the runs `defaults` are ticked.
"""

from collections.abc import Mapping, Sequence

from vitdemo.page.components import View
from vitdemo.page.components.run_choice import RunGroups


class RunList(View):
    """Checkboxes of run `groups`; the value is the list of ticked run names, in list order."""

    def __init__(
        self,
        groups: RunGroups = (),
        value: Sequence[str] = (),
        *,
        label: str = "Models",
        defaults: Sequence[str] = (),
        shown: Sequence[str] = (),
        more: str = "",
        looks: Mapping[str, dict] | None = None,
        **options,
    ):
        # An unset attribute would be an event listener if the script contains its name in quotes.
        # gradio would then copy the listener's component, and so the whole page, for each session.
        self.groups, self.defaults = groups, defaults
        self.shown, self.more, self.looks = list(shown), more, dict(looks or {})
        own = {"label": label, "groups": groups, "defaults": list(defaults)}
        if more:
            own |= {"shown": self.shown, "more": more, "looks": self.looks}
        style = {"container": True, "elem_classes": "vd-choice"}
        super().__init__(list(value), **own, **style | options)

    def postprocess(self, value: Sequence[str] | None) -> list[str]:
        return list(value or ())

    def api_info(self) -> dict:
        return {"type": "array", "items": {"type": "string"}}
