"""Menu of runs, grouped into models, unfinished runs, ablations and runs without weights.

    setup.controls.add(keys.RESULTS_MODEL, RunChoice, group_runs(runs))

The value is a run's name. A payload changes the menu with `describe_run_choices`. The HTML element
`elem_id` contains the `<select>`.
"""

from collections.abc import Sequence

from vitdemo.metrics.recipe_ablation import find_ablations
from vitdemo.page.components import View
from vitdemo.runs import Run

RunGroups = Sequence[tuple[str, Sequence[str]]]  # label, names of its runs


MODELS_GROUP, UNFINISHED_GROUP = "Models", "Not finished"
ABLATION_PREFIX = "Ablation of "  # prefix of a group's label, before the baseline's name
UNKNOWN_RUN_WARNING = "There is no model '{name}' in this menu."


def group_runs(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Return groups of runs: models, unfinished runs, each ablation, runs without weights.

    Each run is in one group. Models are all runs with weights, except the members of an ablation,
    which are in the group of the ablation. Runs keep their order; empty groups are left out.
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
        MODELS_GROUP: [name for name, held in left.items() if held],
        UNFINISHED_GROUP: [name for name, held in left.items() if not held and name not in tested],
        **tables,
        "Results only (no weights)": [n for n, held in left.items() if not held and n in tested],
    }
    return [(label, names) for label, names in groups.items() if names]


def flatten_names(groups: RunGroups) -> list[str]:
    return [name for _, names in groups for name in names]


class RunChoice(View):
    """Menu (`<select>`) of run `groups`; the value is a run's name, initially the first run.

    `nobody` is the label of an empty choice. If it is given, the initial value is None.
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
            warning="",
            **looks | options,
        )

    def postprocess(self, value: str | None) -> str | None:
        return value


def choose_run(runs: Sequence[Run], name: str, *, optional: bool = False) -> str:
    """Return `name` if it is one of `runs`, else the first run of the menu, or "" if `optional`."""
    if any(run.name == name for run in runs):
        return name
    return "" if optional else next(iter(flatten_names(group_runs(runs))), "")


def describe_run_choices(runs: Sequence[Run], name: str, requested: str) -> dict:
    """Return the update of a menu to `runs`, and to the choice `name`; see `describe_menu`."""
    return describe_menu(group_runs(runs), name, requested, UNKNOWN_RUN_WARNING)


def describe_menu(groups: RunGroups, name: str, requested: str, warning: str) -> dict:
    """Return the update of a menu, with a `warning` if no group contains the run `requested`."""
    is_known = requested in ("", *flatten_names(groups))
    warning = "" if is_known else warning.format(name=requested)
    return {"props": {"groups": groups, "warning": warning}, "value": name}
