"""Menu of runs, grouped into models, unfinished runs, ablations and runs without weights.

    model = RunChoice(group_runs(runs), label="Model", elem_id="metrics-model")
    model.input(draw, inputs=model, outputs=...)  # draw(name: str | None)

A handler returns a run's name, or an update made by `update_run_choices`. The `<select>` is inside
the element `elem_id`.
"""

from collections.abc import Sequence

import gradio as gr

from vitdemo.metrics.recipe_ablation import find_ablations
from vitdemo.page.components import View
from vitdemo.runs import Run

MAX_NAME_LENGTH = 300  # characters accepted from a browser as a run name
RunGroups = Sequence[tuple[str, Sequence[str]]]  # label, names of its runs


ABLATION_PREFIX = "Ablation of "  # prefix of a group's label, before the baseline's name


def group_runs(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Group the runs: models, unfinished runs, each ablation, runs without weights.

    Each run is in one group. Models are all runs with weights, except the members of an ablation,
    which are listed after its baseline. Runs keep their order; empty groups are left out.
    """
    left = {run.name: run.has_weights for run in runs}
    tables = {}
    for base, names in find_ablations(runs).items():
        members = [name for name in names if name in left and not (name == base and left[base])]
        if len(members) > 1:
            tables[f"{ABLATION_PREFIX}{base}"] = members
            left = {name: held for name, held in left.items() if name not in members}
    tested = {run.name for run in runs if run.has_evaluation}
    groups = {
        "Models": [name for name, held in left.items() if held],
        "Not finished": [name for name, held in left.items() if not held and name not in tested],
        **tables,
        "Results only (no weights)": [n for n, held in left.items() if not held and n in tested],
    }
    return [(label, names) for label, names in groups.items() if names]


def flatten_names(groups: RunGroups) -> list[str]:
    return [name for _, names in groups for name in names]


class RunChoice(View):
    """A `<select>` of run `groups`; the value is a run's name, by default the first one.

    `nobody` is the label of an empty choice; if given, the value is None by default.
    """

    def __init__(
        self,
        groups: RunGroups = (),
        value: str | None = None,
        *,
        label: str = "Model",
        info: str = "",
        nobody: str = "",
        **options,
    ):
        self.groups, self.info, self.nobody = groups, info, nobody
        names = flatten_names(groups)
        if value is None and names and not nobody:
            value = names[0]
        looks = {"container": True, "elem_classes": "vd-choice"}
        super().__init__(
            value,
            label=label,
            groups=groups,
            info=info,
            nobody=nobody,
            **looks | options,
        )

    def preprocess(self, payload) -> str | None:
        """Return the name sent by the browser, or None; the run may no longer exist."""
        return payload[:MAX_NAME_LENGTH] or None if isinstance(payload, str) else None

    def postprocess(self, value: str | None) -> str | None:
        return value


def update_run_choices(
    runs: Sequence[Run], current: str | None, *, optional: bool = False
) -> tuple[dict, str | None]:
    """Return an update with these runs, and the resulting choice: `current`, or the first run.

    With `optional`, nothing is chosen if `current` no longer exists. The update only sets a value
    if necessary, so that it does not undo a later choice of the user.
    """
    groups = group_runs(runs)
    names = flatten_names(groups)
    if current in names or (optional and current is None):
        return gr.update(groups=groups), current
    value = names[0] if names and not optional else None
    return gr.update(groups=groups, value=value or ""), value
