"""The section Errors: test images with their predictions, selected by several filters.

The tab has three views. The browser chooses the kind of images and the page of the gallery.

    errors_kinds: {"chips": [{"pick": kind, "label", "count", "off": reason or None, "text"}, ...],
                   "only": description of the other filters, "messages": [sentence, ...]}
    errors_pairs: {"chips": [{"pick": "i-j", "label", "count", "spoken", "classes"}, ...]}
    errors_images: see `vitdemo.page.gallery`
"""

from dataclasses import replace

import gradio as gr

from vitdemo.analyses.predictions import (
    ComparablePredictions,
    ImageQuery,
    available_predictions,
    count_kinds,
)
from vitdemo.context import AppContext
from vitdemo.metrics.error_selection import Filters, MutualConfusion, mutual_confusions
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.feature import Feature, PageSetup, ViewData
from vitdemo.page.gallery import gallery_payload
from vitdemo.page.gradio_patches import UncheckedDropdown
from vitdemo.page.results.models import MODELS, describe_menus, require_model
from vitdemo.page.view_state import ViewState, needs

ANY_CLASS = ("any class", "")
MAX_CLASS_PAIRS = 10
MULTI_MODEL_KINDS = ("only_right", "all_wrong")  # need predictions of other models
KIND_TEXTS = {  # kind -> explanation
    "errors": "{run} predicted the wrong class.",
    "right": "{run} predicted the correct class.",
    "all": "All predictions of {run}.",
    "only_right": "Out of {count}, only {run} predicted the correct class.",
    "all_wrong": "All {count} predicted a wrong class.",
    "label_errors": "The mean prediction of {count} contradicts the given label, according to "
    "confident learning (Northcutt, Jiang & Chuang 2021). The label may still be correct. The four "
    "included models flag 10 test images of CIFAR-10.",
}
ORDER_HELP = (
    "**Both directions** also shows images with the two classes swapped. The **margin** is the "
    "difference between the two highest class probabilities. The **likeliest label errors** have "
    "the lowest probability of the given label, averaged over the models."
)

FILTERS = (
    *MODELS,
    keys.TRUE_CLASS,
    keys.PREDICTED,
    keys.BOTH_DIRECTIONS,
    keys.LOWEST_CONFIDENCE,
    keys.HIGHEST_CONFIDENCE,
)


def build(setup: PageSetup) -> None:
    with gr.Row(elem_id="errors-columns", equal_height=False):
        with gr.Column(elem_id="errors-filters", scale=0, min_width=230):
            add_view("errors_kinds", elem_id="errors-kinds")
            with gr.Row(elem_classes="vd-filters"):
                for key in (keys.TRUE_CLASS, keys.PREDICTED):
                    setup.controls.add(key, UncheckedDropdown, [ANY_CLASS], value="", min_width=110)
                setup.controls.add(keys.BOTH_DIRECTIONS, gr.Checkbox, min_width=110)
                setup.controls.add(keys.ERROR_ORDER, gr.Dropdown, min_width=110)
            with gr.Accordion("Confused pairs and confidence", open=False, elem_id="errors-more"):
                add_view("errors_pairs", elem_id="errors-pairs")
                for key in (keys.LOWEST_CONFIDENCE, keys.HIGHEST_CONFIDENCE):
                    setup.controls.add(key, gr.Slider, min_width=200)
                gr.Markdown(ORDER_HELP)
        with gr.Column(min_width=300):
            add_view("errors_images", elem_id="errors-pictures")


@needs(*FILTERS)
def kinds_payload(context: AppContext, state: ViewState) -> ViewData:
    """Return the filter buttons, and the models and classes to choose from.

    Raises `RunError` if there is no evaluated run, or if a filter is invalid.
    """
    query = read_query(context, state)
    group = available_predictions(context, query.run)
    choices = [ANY_CLASS, *((name, name) for name in group.classes)]
    true, predicted = (
        "" if c is None else group.classes[c] for c in (query.filters.true, query.filters.predicted)
    )
    return ViewData(
        kind_buttons(group, query, count_kinds(context, query)),
        {
            **describe_menus(context, state),
            keys.TRUE_CLASS.name: {"choices": choices, "value": true},
            keys.PREDICTED.name: {"choices": choices, "value": predicted},
        },
    )


@needs(keys.TEST_SET, keys.RESULTS_MODEL)
def pairs_payload(context: AppContext, state: ViewState) -> dict:
    """Return a button for each of the most confused class pairs. Raises `RunError`."""
    name = require_model(context, state)
    group = available_predictions(context, name)
    found = mutual_confusions(group.confusion_matrix(name), MAX_CLASS_PAIRS)
    return {"chips": [_pair_button(pair, group.classes) for pair in found]}


@needs(*FILTERS, keys.ERROR_KIND, keys.ERROR_ORDER, keys.ERRORS_PAGE)
def images_payload(context: AppContext, state: ViewState) -> dict:
    """Return the payload of the gallery. Raises `RunError`."""
    query, page = read_query(context, state), int(state[keys.ERRORS_PAGE])
    chosen = {"kind": state[keys.ERROR_KIND], "order": state[keys.ERROR_ORDER]}
    filters = replace(query.filters, **chosen)
    return gallery_payload(context, replace(query, filters=filters), page)


FEATURE = Feature(
    {
        "errors_kinds": kinds_payload,
        "errors_pairs": pairs_payload,
        "errors_images": images_payload,
    }
)


def read_query(context: AppContext, state: ViewState) -> ImageQuery:
    """Return the query of the view state, without kind and order. Raises `RunError`.

    An unknown class means any class.
    """
    name = require_model(context, state)
    classes = available_predictions(context, name).classes
    true, predicted = state[keys.TRUE_CLASS], state[keys.PREDICTED]
    filters = Filters(
        true=classes.index(true) if true in classes else None,
        predicted=classes.index(predicted) if predicted in classes else None,
        either_way=state[keys.BOTH_DIRECTIONS],
        low=state[keys.LOWEST_CONFIDENCE] / 100,
        high=state[keys.HIGHEST_CONFIDENCE] / 100,
    )
    return ImageQuery(name, filters)


def kind_buttons(group: ComparablePredictions, query: ImageQuery, counts: dict[str, int]) -> dict:
    """Return a filter button per kind with its image count and text; see the module docstring."""
    alone = "requires a second model tested on the same images" if len(group.runs) == 1 else None
    chips = [
        {
            "pick": kind,
            "label": label,
            "count": counts[kind],
            "off": alone if kind in MULTI_MODEL_KINDS else None,
            "text": describe_kind(group, query.run, kind),
        }
        for kind, label in keys.ERROR_KIND.choices.items()
    ]
    only = describe_filters(group, query.filters)
    return {"chips": chips, "only": only, "messages": list(group.exclusion_messages)}


def describe_filters(group: ComparablePredictions, filters: Filters) -> str:
    """Describe the active class and confidence filters; "" without an active filter."""
    parts = []
    if filters.true is not None or filters.predicted is not None:
        true, predicted = (
            "any class" if c is None else group.classes[c]
            for c in (filters.true, filters.predicted)
        )
        parts.append(f"{true} {'↔' if filters.either_way else '→'} {predicted}")
    if (filters.low, filters.high) != (0, 1):
        parts.append(f"confidence {100 * filters.low:.0f} to {100 * filters.high:.0f}%")
    return ", ".join(parts)


def describe_kind(group: ComparablePredictions, name: str, kind: str) -> str:
    alone = len(group.runs) == 1
    if alone and kind in MULTI_MODEL_KINDS:
        return f"Only {name} was tested on these images, so there is nothing to compare."
    count = "one model" if alone else f"{len(group.runs)} models"
    return KIND_TEXTS[kind].format(run=name, count=count)


def _pair_button(pair: MutualConfusion, classes: tuple[str, ...]) -> dict:
    first, second = classes[pair.first], classes[pair.second]
    return {
        "pick": f"{pair.first}-{pair.second}",
        "label": f"{first} ↔ {second}",
        "count": pair.count,
        "spoken": f"{first} and {second}: {pair.count} images, "
        f"{pair.first_as_second} of {first} predicted as {second}, "
        f"{pair.second_as_first} of {second} predicted as {first}",
        "classes": [first, second],
    }
