"""The Errors tab: test images with their predictions, selected by several filters."""

import json
from urllib.parse import parse_qs

import gradio as gr
from gradio.components import Component

from vitdemo.analyses.predictions import (
    ComparablePredictions,
    ImageQuery,
    available_predictions,
    count_kinds,
)
from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.metrics.error_selection import Filters, MutualConfusion, mutual_confusions
from vitdemo.page.components.chips import CLEAR_PICK, FilterButtons
from vitdemo.page.components.gallery import Gallery, load_gallery_page
from vitdemo.page.components.run_choice import RunChoice, group_runs, update_run_choices
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.kit import (
    NO_PROGRESS,
    REFRESH_EVENT,
    STATE_LIFETIME,
    Choice,
    UncheckedDropdown,
    UncheckedSlider,
    parse_pick,
    show_user_errors,
    update_choices,
)
from vitdemo.page.metrics import NO_EVALUATION_MESSAGE

ANY_CLASS_VALUE = ""  # value of the choice "any class"
ANY_CLASS = ("any class", ANY_CLASS_VALUE)
MAX_CLASS_PAIRS = 10
PAIRS_TITLE = "Most confused pairs of classes"
MULTI_MODEL_KINDS = (
    "only_right",
    "all_wrong",
)  # kinds that depend on the predictions of other models
KIND_TEXTS = {  # kind -> label and explanation
    "errors": ("Errors", "{run} predicted the wrong class."),
    "right": ("Correct predictions", "{run} predicted the correct class."),
    "all": ("All images", "All predictions of {run}."),
    "only_right": (
        "Only this model correct",
        "Out of {count}, only {run} predicted the correct class.",
    ),
    "all_wrong": ("All models wrong", "All {count} predicted a wrong class."),
    "label_errors": (
        "Possible label errors",
        "The mean prediction of {count} contradicts the given label, according to confident "
        "learning (Northcutt, Jiang & Chuang 2021). The label may still be correct. The four "
        "included models flag 10 test images of CIFAR-10.",
    ),
}
ORDER_CHOICES = {
    "Most confident first": "most_confident",
    "Smallest margin first": "least_sure",
    "Likeliest label error first": "doubtful_label",
    "By image number": "data_set",
}
ORDER_HELP = (
    "margin: difference between the two highest class probabilities; label error: lowest "
    "probability of the given label, averaged over the models"
)
DEFAULT_ORDER = "most_confident"
JS_SET_PARAMETERS = """(...values) => {
  const starts = Object.entries(STARTS);
  for (const [name, start] of starts) vitdemo.store.defineParam(name, { start });
  const chosen = starts.map(([name, start], i) => [name, values[i] ?? start]);
  vitdemo.store.set(Object.fromEntries(chosen));
}"""
MAX_QUERY_LENGTH = 4000  # maximum number of characters that are read from a URL
MAX_CLASS_NAME_LENGTH = 200  # maximum length of a class name; ImageNet-21k has a name with 175
MAX_NUMBER = 10_000  # limit of a number if the component has no maximum yet
NEUTRAL_FILTERS = (
    ANY_CLASS_VALUE,
    ANY_CLASS_VALUE,
    False,
    0,
    100,
)  # values that exclude no image: two classes, both directions, confidence range
# URL parameters: the model, and the other settings in the order of `Filters`.
MODEL_PARAMETER = "errors.model"
FILTER_FIELDS = ("kind", "true", "predicted", "both", "low", "high", "order")
FILTER_PARAMETERS = tuple(f"errors.{name}" for name in FILTER_FIELDS)
ERRORS_INTRO = (
    "Individual test images with their predictions. Filter them by result, class and confidence. "
    "Choose an image to open it in Explore, with the attention of the model."
)


def build(tab: gr.Tab, context: AppContext, opener: ExploreTab) -> None:
    """Lay out the tab and connect its events; images open in the tab Explore."""
    gr.Markdown(ERRORS_INTRO)
    model = RunChoice(group_runs(context.evaluated_runs()), elem_id="errors-model")
    kind = gr.Textbox("errors", visible="hidden", label="Images to show")
    kinds = FilterButtons("Images to show", elem_id="errors-kinds")
    with gr.Row():
        true = _class_choice("True class", "errors-true")
        predicted = _class_choice("Predicted class", "errors-predicted")
        with gr.Column(min_width=200):
            either_way = gr.Checkbox(
                False, label="Both directions", info="also show the two classes swapped"
            )
    with gr.Row():
        low = _percent_slider(0, "Minimum confidence, %", "errors-low")
        high = _percent_slider(100, "Maximum confidence, %", "errors-high")
        order = gr.Radio(
            list(ORDER_CHOICES.items()),
            value=DEFAULT_ORDER,
            label="Order",
            info=ORDER_HELP,
            min_width=300,
            elem_id="errors-order",
        )
    pairs = FilterButtons("Pairs of classes", PAIRS_TITLE, elem_id="errors-pairs")
    search = gr.Textbox("", visible="hidden", label="Page address")
    asked = gr.State(None, time_to_live=STATE_LIFETIME)  # model of the last drawing
    shown = Gallery(elem_id="errors-pictures")

    def query_of(name, kind, true, predicted, either_way, low, high, order) -> ImageQuery | None:
        if name is None:
            return None
        classes = available_predictions(context, name).classes
        true, predicted = (classes.index(c) if c in classes else None for c in (true, predicted))
        filters = Filters(kind, true, predicted, either_way, low / 100, high / 100, order)
        return ImageQuery(name, filters)

    def draw(name, *values):
        """Return the filter buttons, the class pairs and the images."""
        if name is None:
            return {"sentence": NO_EVALUATION_MESSAGE}, None, None
        try:
            query = query_of(name, *values)
            group = available_predictions(context, name)
            chips = kind_buttons(group, query, count_kinds(context, query))
        except VitdemoError as error:
            return {"sentence": str(error)}, None, None
        return chips, pair_buttons(group, query), load_gallery_page(context, query)

    def draw_fresh(search, name, asked, *values):
        seen, changed = name, {}
        if asked is None:  # at the first drawing, the page's URL contains the settings
            name, changed = restored(search, name)
        elif asked != name:  # another model may have other classes, so reset the filters
            changed = dict(zip((1, 2, 3), NEUTRAL_FILTERS, strict=False))
        values = [changed.get(i, value) for i, value in enumerate(values)]
        update, held = update_run_choices(context.evaluated_runs(), name)
        if held and held != seen:
            update["value"] = held
        choices = class_choices(context, held)
        updates = [changed.get(i, gr.skip()) for i in range(len(values))]
        for i in (1, 2):
            updates[i], values[i] = update_choices(choices, values[i])
            if i in changed:
                updates[i]["value"] = values[i]
        return update, held, *updates, *draw(held, *values)

    def pick_kind(order, event: gr.EventData):
        if event.pick == CLEAR_PICK:
            return gr.skip(), *NEUTRAL_FILTERS, gr.skip()
        if event.pick not in KIND_TEXTS:
            return [gr.skip()] * 7
        # The order "likeliest label error first" is only used for label errors.
        if event.pick == "label_errors":
            order = "doubtful_label"
        elif order == "doubtful_label":
            order = DEFAULT_ORDER
        return event.pick, *[gr.skip()] * 5, order

    @show_user_errors
    def pick_pair(name, true, predicted, either_way, event: gr.EventData):
        classes = available_predictions(context, name).classes
        pair = [classes[i] for i in parse_pick(event.pick, len(classes), len(classes))]
        if either_way and {true, predicted} == set(pair):  # a second click resets the filters
            return gr.skip(), *NEUTRAL_FILTERS, gr.skip()
        return "errors", *pair, True, 0, 100, DEFAULT_ORDER

    def restored(search, name):
        """Return the model and the values of `filters` that the page's URL contains."""
        query = parse_query(search)
        found = {
            i: _filter_from_url(part, query.get(FILTER_PARAMETERS[i]))
            for i, part in enumerate(filters)
        }
        if found[0] not in KIND_TEXTS:
            found[0] = None
        return query.get(MODEL_PARAMETER, name), {i: v for i, v in found.items() if v is not None}

    filters = [kind, true, predicted, either_way, low, high, order]
    # All inputs share one event: after several quick clicks, the last result stays.
    events = [tab.select, model.input, *(setting.change for setting in filters)]
    gr.on(
        events,
        draw_fresh,
        inputs=[search, model, asked, *filters],
        outputs=[model, asked, *filters, kinds, pairs, shown],
        js="(search, ...rest) => [window.location.search, ...rest]",
        **REFRESH_EVENT,
    )
    kinds.pick(pick_kind, inputs=order, outputs=filters, **REFRESH_EVENT)
    pairs.pick(
        pick_pair, inputs=[model, true, predicted, either_way], outputs=filters, **REFRESH_EVENT
    )
    linked = {MODEL_PARAMETER: model} | dict(zip(FILTER_PARAMETERS, filters, strict=True))
    starts = {name: component.value for name, component in linked.items()}
    write = JS_SET_PARAMETERS.replace("STARTS", json.dumps(starts | {MODEL_PARAMETER: None}))
    changes = [component.change for component in linked.values()]
    gr.on(changes, None, list(linked.values()), js=write, **NO_PROGRESS)
    shown.wire(context, query_of, [model, *filters], opener.open_test_image_on)


def parse_query(search: str) -> dict[str, str]:
    """Parse the query of a URL into a dict; for a repeated name, the last value counts."""
    return {
        name: values[-1] for name, values in parse_qs((search or "")[1:MAX_QUERY_LENGTH]).items()
    }


def parse_value(component: Component, text: str | None):
    """Parse a component's value from the URL; None if the value is missing or invalid."""
    if text is None:
        return None
    if isinstance(component, gr.Checkbox):
        return {"true": True, "false": False}.get(text)
    if isinstance(component, gr.Slider):
        return _parse_number(component, text)
    if isinstance(component, gr.Textbox):
        return text
    if isinstance(
        component, UncheckedDropdown
    ):  # the choices depend on the model, so the handler checks the value
        value = text[:MAX_CLASS_NAME_LENGTH]
        return gr.update(choices=[*component.choices, (value, value)], value=value)
    values = [value for _, value in getattr(component, "choices", None) or ()]
    return next((value for value in values if str(value) == text), None)


def _parse_number(slider: gr.Slider, text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    # A deeper model than the first one has more layers; the handler clamps the value.
    top = MAX_NUMBER if isinstance(slider, UncheckedSlider) else slider.maximum
    if not slider.minimum <= value <= top:
        return None
    return int(value) if value == int(value) else value


def _filter_from_url(part: gr.components.Component, text: str | None):
    """Parse the value of a filter from the URL; None if the value is missing or invalid."""
    found = parse_value(part, text)
    return found["value"] if isinstance(found, dict) else found


def _class_choice(label: str, elem_id: str) -> gr.Dropdown:
    return UncheckedDropdown(
        [ANY_CLASS], value=ANY_CLASS_VALUE, label=label, min_width=160, elem_id=elem_id
    )


def _percent_slider(value: int, label: str, elem_id: str) -> gr.Slider:
    return gr.Slider(0, 100, value, step=1, label=label, min_width=200, elem_id=elem_id)


def class_choices(context: AppContext, name: str | None) -> list[Choice]:
    """Return the choices of a class filter: any class, and each class of the run `name`."""
    try:
        return [ANY_CLASS, *(available_predictions(context, name).classes if name else ())]
    except VitdemoError:
        return [ANY_CLASS]


def kind_buttons(group: ComparablePredictions, query: ImageQuery, counts: dict[str, int]) -> dict:
    """Return a filter button per kind with its image count, and a text about the chosen kind."""
    alone = "requires a second model tested on the same images" if len(group.runs) == 1 else None
    chips = [
        {
            "pick": kind,
            "words": words,
            "count": counts[kind],
            "pressed": kind == query.filters.kind,
            "off": alone if kind in MULTI_MODEL_KINDS else None,
        }
        for kind, (words, _) in KIND_TEXTS.items()
    ]
    words = [describe_kind(group, query), *group.exclusion_messages]
    return {"chips": chips, "only": describe_filters(group, query.filters), "words": words}


def describe_filters(group: ComparablePredictions, filters: Filters) -> str:
    """Describe the class and confidence filters that are not neutral, "" if all are."""
    words = []
    if filters.true is not None or filters.predicted is not None:
        true, predicted = (
            "any class" if c is None else group.classes[c]
            for c in (filters.true, filters.predicted)
        )
        words.append(f"{true} {'↔' if filters.either_way else '→'} {predicted}")
    if (filters.low, filters.high) != (0, 1):
        words.append(f"confidence {100 * filters.low:.0f} to {100 * filters.high:.0f}%")
    return ", ".join(words)


def describe_kind(group: ComparablePredictions, query: ImageQuery) -> str:
    """Return the explanation of the chosen kind of images."""
    alone = len(group.runs) == 1
    if alone and query.filters.kind in MULTI_MODEL_KINDS:
        return f"Only {query.run} was tested on these images, so there is nothing to compare."
    count = "one model" if alone else f"{len(group.runs)} models"
    return KIND_TEXTS[query.filters.kind][1].format(run=query.run, count=count)


def pair_buttons(group: ComparablePredictions, query: ImageQuery) -> dict:
    """Return a button for each of the most confused class pairs."""
    wanted = {query.filters.true, query.filters.predicted} if query.filters.either_way else set()
    found = mutual_confusions(group.confusion_matrix(query.run), MAX_CLASS_PAIRS)
    return {"chips": [_pair_button(pair, group.classes, wanted) for pair in found]}


def _pair_button(pair: MutualConfusion, classes: tuple[str, ...], wanted: set) -> dict:
    first, second = classes[pair.first], classes[pair.second]
    return {
        "pick": f"{pair.first}-{pair.second}",
        "words": f"{first} ↔ {second}",
        "count": pair.count,
        "pressed": wanted == {pair.first, pair.second},
        "spoken": f"{first} and {second}: {pair.count} images, "
        f"{pair.first_as_second} of {first} predicted as {second}, "
        f"{pair.second_as_first} of {second} predicted as {first}",
    }
