"""A feature: the functions of a part of the page, and the layout of its tab.

Each package of the page has a constant `FEATURE`, the functions that need only an `AppContext` and
a `ViewState`. The module of a tab also has its `TAB_ID`, its `TITLE`, and a function
`build(setup)`. This function lays out the tab with gradio, and returns `FEATURE` with the functions
that need the session of a user or the training jobs. A new tab needs a folder and an entry in
`page.TABS`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import gradio as gr
from gradio.components import Component

from vitdemo.context import AppContext
from vitdemo.jobs import JobQueue
from vitdemo.page.graph import Graph, Loop
from vitdemo.page.kit import Controls
from vitdemo.page.view_state import ViewState
from vitdemo.runs import Run

Payload = Callable[[AppContext, ViewState], "dict | list | ViewData"]
Report = Callable[[int, int, str], None]  # done, total, description; raises `Stopped`
Task = Callable[[AppContext, ViewState, Report], object]
Action = Callable[[AppContext, ViewState, Mapping[str, object]], Collection[str]]
Download = Callable[[AppContext, ViewState, Path], Path]  # writes a file in the folder
MakeLoops = Callable[[AppContext, Run], Sequence[Loop]]  # raises `VitdemoError`


@dataclass(frozen=True, eq=False)
class ViewData:
    """Data of a view, and new properties of gradio components (`controls`) by state key.

    Properties that a subclass of `gr.HTML` defines are in a dict `props`, as gradio requires.

    If an update changes the value of a control, the data are for the new value.
    """

    data: dict | list
    controls: Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Feature:
    """Payload functions, tasks, actions, downloads and graphs of a part of the page, by name.

    The name of a graph is that of the payload function whose data it computes. The name of loops is
    that of the task that they replace in a browser.
    """

    payloads: Mapping[str, Payload] = field(default_factory=dict)
    tasks: Mapping[str, Task] = field(default_factory=dict)
    actions: Mapping[str, Action] = field(default_factory=dict)
    downloads: Mapping[str, Download] = field(default_factory=dict)
    graphs: Mapping[str, Graph] = field(default_factory=dict)
    loops: Mapping[str, MakeLoops] = field(default_factory=dict)


def merge_features(features: Iterable[Feature]) -> Feature:
    """Merge the functions of `features`. Raises `ValueError` if two functions share a name."""
    merged = Feature()
    for each in features:
        for kind, functions in vars(each).items():
            known = getattr(merged, kind)
            if twice := known.keys() & functions.keys():
                raise ValueError(f"two features have {kind} of the name '{min(twice)}'")
            known.update(functions)
    return merged


@dataclass
class PageSetup:
    """Settings of the page, and the components that its tabs have added.

    Without `jobs`, the page cannot train. `local_only` means that the page is bound to localhost.
    `controls` are part of the view state, and the store also updates the components in `shown`.
    `sections` maps URL parameters to the inner tabs that they select.
    """

    page: gr.Blocks
    context: AppContext
    jobs: JobQueue | None = None
    lesson_folders: Sequence[Path] = ()
    local_only: bool = True
    controls: Controls = field(default_factory=Controls)
    shown: dict[str, Component] = field(default_factory=dict)
    sections: dict[str, gr.Tabs] = field(default_factory=dict)
