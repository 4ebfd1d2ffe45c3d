"""The states of views that a recorded site contains.

A view's data depend on the state keys that its payload function needs. The main keys, such as
image, model and layer, are in `StateLister.main_values`; all other keys are options. `StateLister`
returns all combinations of the main keys and, for each combination, states of the options. A ground
truth image is combined only with its own model. If the options have at most `MAX_COMBINATIONS`
combinations, the site contains all of them. Otherwise, it contains only states in which one option
differs from its initial value.

If a state key is an input of the view's graphs, only its start value is recorded, because browsers
compute the other states. The image changes have only the values of the presets. Other texts,
numbers and lists of names have only their initial value, except the keys that
`StateLister.list_option_values` treats specially.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from PIL import Image

from vitdemo.analyses.snapshots import runs_with_snapshots
from vitdemo.context import AppContext
from vitdemo.data.perturb.changes import PRESETS, ImageChanges
from vitdemo.lessons import DEFAULT_LANGUAGE, LESSONS_FOLDER, read_lessons
from vitdemo.metrics.recipe_ablation import find_ablations
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import load_square
from vitdemo.page.explore.perturbation.presets import encode_changes
from vitdemo.page.image_sources import (
    describe_image,
    list_photos,
    list_truth_sources,
    parse_image_fields,
    parse_truth_source,
)
from vitdemo.page.state_key import ChoiceKey, FlagKey, StateKey
from vitdemo.training.recipes import RECIPES

MAX_COMBINATIONS = 24  # of the values of options
MAX_COMPARED = 4  # models of which all selections are recorded
EXPLAINED_CLASSES = 3  # recorded classes per image and model, those with the highest probabilities
OPTION_VALUES: dict[StateKey, Sequence[object]] = {
    keys.WANTS_NORMS: (False, True),
    keys.RECIPE: [*RECIPES],
    keys.PATCH_REPLACEMENT: (keys.PATCH_REPLACEMENT.start,),
    keys.REMOVAL_GRID: (keys.REMOVAL_GRID.start,),
    keys.PATCHED_TOKENS: ("", "t0", "patches"),
}
# View -> task whose result the recorded data contain
RECORDED_TASKS = {
    "class_attribution": "class_attribution.faithfulness",
    "patching.maps": "patching.maps",
}
# View -> view in whose recorded states it is recorded
SAME_STATES = {"class_attribution_details": "class_attribution"}
LESSONS = LESSONS_FOLDER / DEFAULT_LANGUAGE
State = dict[str, object]


def list_images() -> list[State]:
    """Return the example photos as values of the state key `image`."""
    return [*map(describe_image, list_photos())]


class StateLister:
    """Lists the recorded states of views; `starts` are the initial values of controls by key."""

    def __init__(self, context: AppContext, starts: Mapping[str, object]):
        self.context, self.starts = context, starts
        self.models = [run.name for run in context.explainable_runs()]
        self.truth_models = [run.name for run in context.ground_truth_runs()]
        sources = list_truth_sources() if self.truth_models else []
        self.truth_images = [*map(describe_image, sources)]
        self.main_values: dict[StateKey, Callable[[State], Iterable[object]]] = {
            keys.IMAGE: lambda state: [*list_images(), *self.truth_images],
            keys.MODEL: self.list_models,
            keys.LAYER: self.list_layers,
            keys.PATCHING_LAYER: self.list_layers,
            keys.EXPLAINED_CLASS: self.list_classes,
            keys.RESULTS_MODEL: lambda state: [run.name for run in context.evaluated_runs()],
            keys.OTHER_MODEL: self.list_other_models,
            keys.LESSON: lambda state: [each.name for each in read_lessons(LESSONS)[0]],
            keys.ANIMATED_RUN: lambda state: [
                "",
                *(run.name for run in runs_with_snapshots(context)),
            ],
            keys.ABLATION_BASELINE: lambda state: ["", *find_ablations(context.list_runs()[0])],
        }

    def list_states(
        self, needed: Sequence[StateKey], given: Mapping[str, object] | None = None
    ) -> Iterator[State]:
        """Yield the values of the keys `needed` by name, for each recorded state.

        A key in `given` has only this value.
        """
        given = given or {}
        free = [key for key in needed if key.name not in given]
        main = sorted(
            (key for key in free if key in self.main_values), key=[*self.main_values].index
        )
        others = [key for key in free if key not in main]
        start = {
            key.name: given.get(key.name, self.starts.get(key.name, key.start)) for key in needed
        }
        changes = list(self.list_options(others))
        for state in self.list_main_states(main, start):
            yield from (state | each for each in changes)

    def list_main_states(self, main: Sequence[StateKey], state: State) -> Iterator[State]:
        if not main:
            yield state
            return
        for value in self.main_values[main[0]](state):
            yield from self.list_main_states(main[1:], state | {main[0].name: value})

    def list_options(self, options: Sequence[StateKey]) -> Iterator[State]:
        """Yield the recorded changes of `options`; the first change is empty."""
        if keys.PIECES in options:  # the changes of an image have presets
            names = {key.name for key in options}
            changes = [ImageChanges(), *(preset.changes for preset in PRESETS.values())]
            encoded = [encode_changes(each) | {keys.CHANGE_SEED.name: 0} for each in changes]
            found = [{name: each[name] for name in each if name in names} for each in encoded]
            yield from (each for i, each in enumerate(found) if each not in found[:i])
            return
        values = {key.name: [*self.list_option_values(key)] for key in options}
        if math.prod(map(len, values.values())) <= MAX_COMBINATIONS:
            for chosen in itertools.product(*values.values()):
                yield dict(zip(values, chosen, strict=True))
            return
        yield {}
        for name, several in values.items():
            yield from ({name: value} for value in several if value != self.get_start(name))

    def list_option_values(self, key: StateKey) -> Iterable[object]:
        if key in OPTION_VALUES:
            start = self.get_start(key.name)
            return [start, *(value for value in OPTION_VALUES[key] if value != start)]
        if key == keys.CURVE_RUNS:  # the browser combines the curves of single runs
            runs = self.context.list_runs()[0]
            return [self.get_start(key.name), *([run.name] for run in runs)]
        if key == keys.SIDE_MODELS:
            sizes = range(1, len(self.models) + 1) if len(self.models) <= MAX_COMPARED else ()
            subsets = [itertools.combinations(self.models, size) for size in sizes]
            return [self.get_start(key.name), *map(list, itertools.chain(*subsets))]
        if isinstance(key, ChoiceKey):
            return key.choices
        return (False, True) if isinstance(key, FlagKey) else [self.get_start(key.name)]

    def get_start(self, name: str) -> object:
        return self.starts.get(name, keys.STATE_KEYS[name].start)

    def list_models(self, state: State) -> list[str]:
        """Return the models for the state's image; without an image, all models."""
        if not (image := state.get(keys.IMAGE.name)):
            return [*self.models, *self.truth_models]
        truth = parse_truth_source(image["source"])
        return [truth[0]] if truth else self.models

    def list_layers(self, state: State) -> range:
        """Return 0, the initial layer of each model, and all layers of the state's model."""
        return range(self.context.count_layers(self.context.find_run(str(state["model"]))) + 1)

    def list_classes(self, state: State) -> list[str]:
        """Return "" (the predicted class) and the classes with the highest probabilities."""
        run = self.context.find_run(str(state["model"]))
        found = self.context.predict(run, self.load_image(state))
        order = found.probabilities.argsort()[::-1][:EXPLAINED_CLASSES]
        return ["", *(run.classes[i] for i in order)]

    def load_image(self, state: State) -> Image.Image:
        """Return the RGB square of the state's image."""
        return load_square(self.context, parse_image_fields(state[keys.IMAGE.name]))

    def list_other_models(self, state: State) -> list[str]:
        """Return "" (no model), and each pair of models with weights."""
        model = state[keys.RESULTS_MODEL.name]
        pairs = [name for name in self.models if name != model]
        return ["", *pairs] if model in self.models else [""]
