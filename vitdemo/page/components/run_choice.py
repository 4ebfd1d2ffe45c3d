"""One grouped choice of a run: the models, each ablation, what else there is.

    model = RunChoice(grouped(runs), label="Model", elem_id="metrics-model")
    model.input(draw, inputs=model, outputs=...)  # draw(name: str | None)

A handler answers with a name, or with the update that `renewed_runs` makes of the runs there are
now. The `<select>` lies inside the element `elem_id`.
"""

from collections.abc import Sequence

import gradio as gr

from vitdemo.metrics.recipe_ablation import ablations
from vitdemo.page.components import Drawing
from vitdemo.runs import Run

LONGEST_NAME = 300  # characters of a folder's name that a browser may send
Groups = Sequence[tuple[str, Sequence[str]]]  # label, names of its runs


ABLATION = "Ablation of "  # a group's label, before its base


def grouped(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """The runs by group, each once: models, unfinished ones, each ablation, figures alone.

    Models are the runs with weights, but for the ingredients of an ablation, whose base comes
    first. Else the runs keep their order; a group without runs is left out.
    """
    left = {run.name: run.has_weights for run in runs}
    tables = {}
    for base, names in ablations(runs).items():
        members = [name for name in names if name in left and not (name == base and left[base])]
        if len(members) > 1:
            tables[f"{ABLATION}{base}"] = members
            left = {name: held for name, held in left.items() if name not in members}
    tested = {run.name for run in runs if run.has_evaluation}
    groups = {
        "Models": [name for name, held in left.items() if held],
        "Not finished": [name for name, held in left.items() if not held and name not in tested],
        **tables,
        "Curves and answers alone": [n for n, held in left.items() if not held and n in tested],
    }
    return [(label, names) for label, names in groups.items() if names]


def names_of(groups: Groups) -> list[str]:
    return [name for _, names in groups for name in names]


class RunChoice(Drawing):
    """A `<select>` of the `groups`; the value is a run's name, at first the first one's.

    With `nobody`, the words of a choice of no run, the value is None at first.
    """

    def __init__(
        self,
        groups: Groups = (),
        value: str | None = None,
        *,
        label: str = "Model",
        info: str = "",
        nobody: str = "",
        **options,
    ):
        self.groups, self.info, self.nobody = groups, info, nobody
        names = names_of(groups)
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
        """What the browser sends is a name, of a run that may be gone by now, or nothing."""
        return payload[:LONGEST_NAME] or None if isinstance(payload, str) else None

    def postprocess(self, value: str | None) -> str | None:
        return value


def renewed_runs(
    runs: Sequence[Run], current: str | None, *, optional: bool = False
) -> tuple[dict, str | None]:
    """An update with these runs, and the choice that then holds: `current`, or the first one.

    `optional`: where `current` is gone, none is chosen. The update names a value only where it
    must: an answer must not undo a choice made meanwhile.
    """
    groups = grouped(runs)
    names = names_of(groups)
    if current in names or (optional and current is None):
        return gr.update(groups=groups), current
    value = names[0] if names and not optional else None
    return gr.update(groups=groups, value=value or ""), value
