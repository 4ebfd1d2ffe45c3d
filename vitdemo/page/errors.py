"""The Errors tab: test images selected by combinable filters, with their predictions."""

import gradio as gr

from vitdemo.errors import VitdemoError
from vitdemo.metrics.errors import Filters, Mutual, mutual_pairs
from vitdemo.page.components.chips import CLEAR, Chips
from vitdemo.page.components.gallery import Gallery, page_of
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.kit import (
    KEPT_SECONDS,
    QUIET,
    Choice,
    FreeDropdown,
    for_people,
    picked_numbers,
    renewed,
)
from vitdemo.page.look import permalink
from vitdemo.page.look.tab import Look
from vitdemo.page.metrics import NOTHING
from vitdemo.predictions import Predictions, Query, counts, every_model
from vitdemo.workbench import Workbench

ANY = ""  # value of the choice "any class"
ANY_CLASS = ("any class", ANY)
PAIRS = 10
PAIRS_TITLE = "Most confused pairs of classes"
OF_SEVERAL = ("only_right", "all_wrong")  # kinds that depend on the predictions of other models
KINDS = {  # label and explanation
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
        "included models flag 10 test images of CIFAR-10. Five people checked 4 of them "
        "(Northcutt, Athalye & Mueller 2021): for 2, the majority chose another label, and for 2 "
        "there was no majority.",
    ),
}
ORDERS = {
    "Most confident first": "most_confident",
    "Smallest margin first": "least_sure",
    "Likeliest label error first": "doubtful_label",
    "By image number": "data_set",
}
ORDER_WORDS = (
    "margin: difference between the two highest class probabilities; label error: lowest "
    "probability of the given label, averaged over the models"
)
FIRST_ORDER = "most_confident"
ALL = (ANY, ANY, False, 0, 100)  # classes, both directions, confidence: the neutral values
# URL parameters: the model, and the other settings in the order of `Filters`.
MODEL = "errors.model"
WORDS = tuple(f"errors.{word}" for word in ("kind", "true", "predicted", "both", "low", "high",
                                           "order"))  # fmt: skip
INTRO = (
    "Individual test images with their predictions. Filter them by result, class and confidence. "
    "Choose an image to open it in Explore, with the attention of the model."
)


def build(tab: gr.Tab, workbench: Workbench, opener: Look) -> None:
    """Lay out and wire the `tab`; a chosen image opens in the tab Explore."""
    gr.Markdown(INTRO)
    model = RunChoice(grouped(workbench.evaluated_runs()), elem_id="errors-model")
    kind = gr.Textbox("errors", visible="hidden", label="Images to show")
    kinds = Chips("Images to show", elem_id="errors-kinds")
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
            list(ORDERS.items()),
            value=FIRST_ORDER,
            label="Order",
            info=ORDER_WORDS,
            min_width=300,
            elem_id="errors-order",
        )
    pairs = Chips("Pairs of classes", PAIRS_TITLE, elem_id="errors-pairs")
    search = gr.Textbox("", visible="hidden", label="Page address")
    asked = gr.State(None, time_to_live=KEPT_SECONDS)  # the model that was drawn last
    shown = Gallery(elem_id="errors-pictures")

    def query_of(name, kind, true, predicted, either_way, low, high, order) -> Query | None:
        if name is None:
            return None
        classes = every_model(workbench, name).classes
        true, predicted = (classes.index(c) if c in classes else None for c in (true, predicted))
        filters = Filters(kind, true, predicted, either_way, low / 100, high / 100, order)
        return Query(name, filters)

    def draw(name, *values):
        """Return the values of the kinds, the class pairs and the images."""
        if name is None:
            return {"sentence": NOTHING}, None, None
        try:
            query = query_of(name, *values)
            group = every_model(workbench, name)
            chips = kind_chips(group, query, counts(workbench, query))
        except VitdemoError as error:
            return {"sentence": str(error)}, None, None
        return chips, pair_chips(group, query), page_of(workbench, query)

    def draw_fresh(search, name, asked, *values):
        seen, changed = name, {}
        if asked is None:  # first drawing: take the settings from the page's address
            name, changed = restored(search, name)
        elif asked != name:  # the filters of one model need not make sense for another
            changed = dict(zip((1, 2, 3), ALL, strict=False))
        values = [changed.get(i, value) for i, value in enumerate(values)]
        update, held = renewed_runs(workbench.evaluated_runs(), name)
        if held and held != seen:
            update["value"] = held
        choices = class_choices(workbench, held)
        updates = [changed.get(i, gr.skip()) for i in range(len(values))]
        for i in (1, 2):
            updates[i], values[i] = renewed(choices, values[i])
            if i in changed:
                updates[i]["value"] = values[i]
        return update, held, *updates, *draw(held, *values)

    def pick_kind(order, event: gr.EventData):
        if event.pick == CLEAR:
            return gr.skip(), *ALL, gr.skip()
        if event.pick not in KINDS:
            return [gr.skip()] * 7
        # The order "likeliest label error first" is only used for label errors.
        if event.pick == "label_errors":
            order = "doubtful_label"
        elif order == "doubtful_label":
            order = FIRST_ORDER
        return event.pick, *[gr.skip()] * 5, order

    @for_people
    def pick_pair(name, true, predicted, either_way, event: gr.EventData):
        classes = every_model(workbench, name).classes
        pair = [classes[i] for i in picked_numbers(event.pick, len(classes), len(classes))]
        if either_way and {true, predicted} == set(pair):  # a second click resets it
            return gr.skip(), *ALL, gr.skip()
        return "errors", *pair, True, 0, 100, FIRST_ORDER

    def restored(search, name):
        """Return the model and the values of `filters`, by position, from the page's address."""
        query = permalink.parse(search)
        found = {i: _asked_for(part, query.get(WORDS[i])) for i, part in enumerate(filters)}
        if found[0] not in KINDS:
            found[0] = None
        return query.get(MODEL, name), {i: v for i, v in found.items() if v is not None}

    filters = [kind, true, predicted, either_way, low, high, order]
    # One event for all inputs, so that the result of the last of several quick clicks stays.
    events = [tab.select, model.input, *(setting.change for setting in filters)]
    gr.on(
        events,
        draw_fresh,
        inputs=[search, model, asked, *filters],
        outputs=[model, asked, *filters, kinds, pairs, shown],
        js="(search, ...rest) => [window.location.search, ...rest]",
        **QUIET,
    )
    kinds.pick(pick_kind, inputs=order, outputs=filters, **QUIET)
    pairs.pick(pick_pair, inputs=[model, true, predicted, either_way], outputs=filters, **QUIET)
    permalink.write_when_changed({MODEL: model} | dict(zip(WORDS, filters, strict=True)))
    shown.wire(workbench, query_of, [model, *filters], opener.connect)


def _asked_for(part: gr.components.Component, text: str | None):
    """Return the value of a filter in the address, or None if it is missing or not allowed."""
    found = permalink.checked(part, text)
    return found["value"] if isinstance(found, dict) else found


def _class_choice(label: str, elem_id: str) -> gr.Dropdown:
    return FreeDropdown([ANY_CLASS], value=ANY, label=label, min_width=160, elem_id=elem_id)


def _percent_slider(value: int, label: str, elem_id: str) -> gr.Slider:
    return gr.Slider(0, 100, value, step=1, label=label, min_width=200, elem_id=elem_id)


def class_choices(workbench: Workbench, name: str | None) -> list[Choice]:
    """Return the choices of a class filter: any class, and the classes of the run `name`."""
    try:
        return [ANY_CLASS, *(every_model(workbench, name).classes if name else ())]
    except VitdemoError:
        return [ANY_CLASS]


def kind_chips(group: Predictions, query: Query, counts: dict[str, int]) -> dict:
    """Return a button with the current image count per kind, and a text for the chosen kind."""
    alone = "requires a second model tested on the same images" if len(group.runs) == 1 else None
    chips = [
        {
            "pick": kind,
            "words": words,
            "count": counts[kind],
            "pressed": kind == query.filters.kind,
            "off": alone if kind in OF_SEVERAL else None,
        }
        for kind, (words, _) in KINDS.items()
    ]
    words = [kind_words(group, query), *group.left_out]
    return {"chips": chips, "only": filter_words(group, query.filters), "words": words}


def filter_words(group: Predictions, filters: Filters) -> str:
    """Describe the active class and confidence filters; "" if there are none."""
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


def kind_words(group: Predictions, query: Query) -> str:
    """Return the explanation of the chosen kind of images."""
    alone = len(group.runs) == 1
    if alone and query.filters.kind in OF_SEVERAL:
        return f"Only {query.run} was tested on these images, so there is nothing to compare."
    count = "one model" if alone else f"{len(group.runs)} models"
    return KINDS[query.filters.kind][1].format(run=query.run, count=count)


def pair_chips(group: Predictions, query: Query) -> dict:
    """Return the most confused class pairs as buttons that show their images."""
    wanted = {query.filters.true, query.filters.predicted} if query.filters.either_way else set()
    found = mutual_pairs(group.confusion(query.run), PAIRS)
    return {"chips": [_pair_chip(pair, group.classes, wanted) for pair in found]}


def _pair_chip(pair: Mutual, classes: tuple[str, ...], wanted: set) -> dict:
    first, second = classes[pair.first], classes[pair.second]
    return {
        "pick": f"{pair.first}-{pair.second}",
        "words": f"{first} ↔ {second}",
        "count": pair.count,
        "pressed": wanted == {pair.first, pair.second},
        "spoken": f"{first} and {second}: {pair.count} images, {pair.there} of {first} predicted "
        f"as {second}, {pair.back} of {second} predicted as {first}",
    }
