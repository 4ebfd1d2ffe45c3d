"""Recorded payloads of views: files that answer the requests of the store without a server.

    data/NAME.json            state of the view NAME (JSON of its values) -> name of its answer;
                              the state "*" stands for all states
    data/answers/HASH.json    {"data": payload, "controls": updates} or {"error": str}, in the
                              form of `serialise_payload`
    data/files/NAME           files of payloads
    data/graphs/              see `graphs.py`
    data/photos/NAME          example photos, which graphs read

The payload functions of the page compute all data. `states.py` lists the recorded states.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import orjson

from vitdemo.context import AppContext
from vitdemo.data import MISSING_DATASET
from vitdemo.errors import VitdemoError
from vitdemo.page.bridge import compute_view, describe_depth, list_new_models
from vitdemo.page.components import ImageFile, NamedFile, hash_name, serialise_payload
from vitdemo.page.feature import MakeLoops, Payload
from vitdemo.page.graph import Graph
from vitdemo.page.image_sources import list_photos
from vitdemo.page.state_keys import IMAGE, MODEL
from vitdemo.page.view_state import get_needs
from vitdemo.site.graphs import FOLDER, INPUTS, TASKS, GraphWriter
from vitdemo.site.states import SAME_STATES, State, StateLister, list_images

Report = Callable[[str, int, int], None]  # name of the view, recorded states, all states
NEEDS_DATASET = (
    "This result needs the images of CIFAR-10, which are not part of this site. The full version "
    "of vitdemo downloads them."
)
MISSING_ANSWER = orjson.dumps(serialise_payload({"error": NEEDS_DATASET}, dict))
MAX_STATES = 5000  # of a view


class Recorder:
    """Writes the answers of views to `folder`, each distinct content once."""

    def __init__(self, context: AppContext, folder: Path):
        self.context, self.folder = context, folder
        self.sizes: dict[str, int] = {}  # path -> bytes
        self.graphs = GraphWriter(context, self.write)

    def record(
        self,
        payloads: Mapping[str, Payload],
        names: Collection[str],
        graphs: Mapping[str, Graph],
        starts: State,
        report: Report,
    ) -> None:
        """Record the views `names`; `starts` are the initial values of controls.

        `graphs` are the graphs of views, which compute the states of other inputs.

        Raises `ValueError` if a view has more than `MAX_STATES` states.
        """
        lister = StateLister(self.context, starts)
        for name in names:
            needed = get_needs(payloads[name]).watched
            graph = graphs.get(SAME_STATES.get(name, name))
            given = describe_starts(graph) if graph else {}
            states = list(lister.list_states(needed, given))
            if len(states) > MAX_STATES:
                raise ValueError(f"the view '{name}' has {len(states):,} states")
            answers = {}
            for i, state in enumerate(states):
                report(name, i, len(states))
                text = format_state([state[key.name] for key in needed])
                if text in answers:
                    continue
                content = self.compute(payloads[name], state)
                answers[text] = self.write("data/answers", hash_name(content, ".json"), content)
                if content == MISSING_ANSWER and len(answers) == 1:
                    answers = {"*": answers[text]}
                    break
            self.write("data", f"{name}.json", orjson.dumps(answers))

    def record_graphs(
        self,
        payloads: Mapping[str, Payload],
        graphs: Mapping[str, Graph],
        starts: State,
        report: Report,
    ) -> None:
        """Write the graphs of views, for all recorded states of their payload functions."""
        image, lister = list_images()[0], StateLister(self.context, starts)
        for name, graph in graphs.items():
            needed = get_needs(payloads[name]).watched
            given = describe_starts(graph) | {IMAGE.name: image}
            states = list(lister.list_states(needed, given))
            entries = {}
            for i, state in enumerate(states):
                report(f"graphs of {name}", i, len(states))
                key = format_state([None if k.name in given else state[k.name] for k in needed])
                entries[key] = self.graphs.describe_graphs(graph, state)
            self.write(FOLDER, f"{name}.json", orjson.dumps(entries))

    def record_tasks(self, tasks: Mapping[str, MakeLoops], report: Report) -> list[str]:
        """Write the loops of tasks for each model, and return the names of the written tasks."""
        runs, entries = self.context.classifier_runs(), {}
        for name, make_loops in tasks.items():
            for i, run in enumerate(runs):
                report(f"graphs of {name}", i, len(runs))
                if loops := self.graphs.describe_loops(make_loops, run):
                    entries.setdefault(name, {})[run.name] = loops
        self.write(FOLDER, TASKS, orjson.dumps(entries))
        return [*entries]

    def record_photos(self) -> dict[str, str]:
        """Write the files of the example photos, which graphs read, and return the paths."""
        files = {source: Path(file) for source, file in list_photos().items()}
        return {
            source: f"data/photos/{self.write('data/photos', file.name, file.read_bytes())}"
            for source, file in files.items()
        }

    def record_inputs(self, versions: Mapping[str, str]) -> None:
        """Write the crops of the example photos, for which browsers compute recorded results again.

        The file also contains `versions` of the recorded results.
        """
        runs, lister = self.context.classifier_runs(), StateLister(self.context, {})
        photos = []
        for image in list_images():
            square = lister.load_image({IMAGE.name: image})
            crops = {
                run.name: self.context.prepare_input(run.preprocessing, square)[0] for run in runs
            }
            inputs = {name: ImageFile(crop) for name, crop in crops.items()}
            photos.append({"image": image, "inputs": inputs})
        content = orjson.dumps(self.serialise({"photos": photos, **versions}))
        self.write(FOLDER, Path(INPUTS).name, content)

    def compute(self, payload: Payload, state: State) -> bytes:
        """Return the answer of a payload function as JSON, in which files have a URL."""
        try:
            # Without a model, the browser sends "".
            answer = compute_view(payload, self.context, {MODEL.name: "", **state})
        except VitdemoError as error:
            answer = {"error": str(error)}
        return orjson.dumps(self.serialise(replace_missing(answer)))

    def serialise(self, value: object) -> dict:
        """Return `value` with `serialise_payload`, and write its files."""
        return serialise_payload(value, self.write_file)

    def write_file(self, file: NamedFile) -> dict[str, str]:
        path = f"data/files/{file.name}"
        if path not in self.sizes:
            self.write("data/files", file.name, file.make_content())
        return {"url": path}

    def write(self, folder: str, name: str, content: bytes) -> str:
        """Write a file once, and return its name."""
        path = f"{folder}/{name}"
        if path not in self.sizes:
            self.sizes[path] = len(content)
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(content)
        return name

    def describe_models(self) -> dict:
        """Return the models as answers of the bridge contain them, and the depth of each model."""
        models = list_new_models(self.context, None)
        found = [*self.context.explainable_runs(), *self.context.ground_truth_runs()]
        names = [run.name for run in found]
        return {
            "models": models,
            "depths": {name: describe_depth(self.context, {"model": name}) for name in names},
        }


def describe_starts(graph: Graph) -> State:
    """Return the values of the inputs of `graph` in the recorded data, by key."""
    return {each.key.name: each.start for each in graph.all_inputs if each.key is not IMAGE}


def replace_missing(value: object) -> object:
    """Return `value` with another text for each message that asks for the dataset."""
    if isinstance(value, str):
        return NEEDS_DATASET if MISSING_DATASET in value else value
    if isinstance(value, Mapping):
        return {key: replace_missing(each) for key, each in value.items()}
    return [*map(replace_missing, value)] if isinstance(value, list | tuple) else value


def format_state(values: list[object]) -> str:
    """Return the JSON of state values as JavaScript's `JSON.stringify` writes it, lists sorted."""
    return json.dumps([*map(_normalise, values)], separators=(",", ":"), ensure_ascii=False)


def _normalise(value: object) -> object:
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    return sorted(value) if isinstance(value, tuple | list) else value
