"""The section "Inside" of Look: what happens between the pixels and the answer, in six parts."""

from collections.abc import Callable

from vitdemo.page.look.inside import ablation, distance, epochs, filters, lens, positions
from vitdemo.page.look.inside.parts import Parts
from vitdemo.page.look.shared import Shared

# Id of the part: its title, its file, and the functions that it calls.
PARTS = {
    "lens": ("Logit lens", lens, ("logit_lens",)),
    "ablation": (
        "Head ablation",
        ablation,
        ("head_effects", "answer_without", "accuracy_without"),
    ),
    "distance": ("Attention distance", distance, ("distances",)),
    "positions": ("Position embeddings", positions, ("position_similarity",)),
    "filters": ("Patch embedding", filters, ("first_filters",)),
    "epochs": ("In training", epochs, ("look", "across_epochs", "with_epochs")),
}


def build(shared: Shared, **functions: Callable) -> None:
    """Lay out and wire the section.

    `functions` are `look` and those of `explorer.inside` by their names; they take a run's name
    first, where those take the workbench and the run (`distances` takes no run).
    """
    parts = Parts(shared, {name: title for name, (title, _, _) in PARTS.items()})
    for name, (_, part, needed) in PARTS.items():
        with parts.columns[name]:
            part.build(parts, **{each: functions[each] for each in needed})
    parts.wire()
