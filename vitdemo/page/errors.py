"""The Errors tab: test pictures by filters that combine, with the answers they got."""

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

ANY = ""  # the choice of no class in particular
ANY_CLASS = ("any class", ANY)
PAIRS = 10
PAIRS_TITLE = "Classes most often taken for each other"
OF_SEVERAL = ("only_right", "all_wrong")  # kinds that ask what other models predicted
KINDS = {  # label, and what it shows in words
    "errors": ("Errors", "{run} named another class than the true one."),
    "right": ("Right answers", "{run} named the true class."),
    "all": ("All pictures", "Whatever {run} predicted."),
    "only_right": ("Only this model is right", "{run} is right, and {others} wrong."),
    "all_wrong": ("All models are wrong", "{run} is wrong, and so {others}."),
    "label_errors": (
        "Doubtful labels",
        "The mean prediction of {count} contradicts the given label (confident learning, "
        "Northcutt, Jiang & Chuang 2021). Such a label is not necessarily wrong. The four included "
        "models flag 10 test images of CIFAR-10. Northcutt, Athalye & Mueller (2021) had five "
        "people check 4 of these 10: the majority chose another label for 2, and there was no "
        "majority for 2.",
    ),
}
ORDERS = {
    "Most confident first": "most_confident",
    "Least sure first": "least_sure",
    "Most doubtful label first": "doubtful_label",
    "By number": "data_set",
}
ORDER_WORDS = (
    "least sure: the smallest lead of the first class over the second; doubtful label: the lowest "
    "probability of the given label, averaged over the models"
)
FIRST_ORDER = "most_confident"
ALL = (ANY, ANY, False, 0, 100)  # classes, either way round, confidence: without a filter
# In the page's address: the model, and the other settings in the order of `Filters`.
MODEL = "errors.model"
WORDS = tuple(f"errors.{word}" for word in ("kind", "true", "predicted", "both", "low", "high",
                                           "order"))  # fmt: skip
INTRO = (
    "The pictures behind the numbers: choose which ones, and how sure the model was of its answer. "
    "A picture opens in Look, with the attention of the model."
)


def build(tab: gr.Tab, workbench: Workbench, opener: Look) -> None:
    """Lay out and wire the `tab`; a picture that is picked opens in Look."""
    gr.Markdown(INTRO)
    model = RunChoice(grouped(workbench.evaluated_runs()), elem_id="errors-model")
    kind = gr.Textbox("errors", visible="hidden", label="Which pictures")
    kinds = Chips("Which pictures", elem_id="errors-kinds")
    with gr.Row():
        true = _class_choice("True class", "errors-true")
        predicted = _class_choice("Predicted class", "errors-predicted")
        with gr.Column(min_width=200):
            either_way = gr.Checkbox(
                False, label="Either way round", info="also with the two exchanged"
            )
    with gr.Row():
        low = _percent_slider(0, "Confidence from, in percent", "errors-low")
        high = _percent_slider(100, "Confidence to, in percent", "errors-high")
        order = gr.Radio(
            list(ORDERS.items()),
            value=FIRST_ORDER,
            label="Order",
            info=ORDER_WORDS,
            min_width=300,
            elem_id="errors-order",
        )
    pairs = Chips("Pairs of classes", PAIRS_TITLE, elem_id="errors-pairs")
    search = gr.Textbox("", visible="hidden", label="The page's address")
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
        """Values of the chips, the pairs and the pictures."""
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
        if asked is None:  # the first time: as the page's address says
            name, changed = restored(search, name)
        elif asked != name:  # another model confuses other classes
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
        # Label errors have an order of their own; it goes with them.
        if event.pick == "label_errors":
            order = "doubtful_label"
        elif order == "doubtful_label":
            order = FIRST_ORDER
        return event.pick, *[gr.skip()] * 5, order

    @for_people
    def pick_pair(name, true, predicted, either_way, event: gr.EventData):
        classes = every_model(workbench, name).classes
        pair = [classes[i] for i in picked_numbers(event.pick, len(classes), len(classes))]
        if either_way and {true, predicted} == set(pair):  # a second click takes it away
            return gr.skip(), *ALL, gr.skip()
        return "errors", *pair, True, 0, 100, FIRST_ORDER

    def restored(search, name):
        """The model and, by place, the values of `filters` that the page's address asks for."""
        query = permalink.parse(search)
        found = {i: _asked_for(part, query.get(WORDS[i])) for i, part in enumerate(filters)}
        if found[0] not in KINDS:
            found[0] = None
        return query.get(MODEL, name), {i: v for i, v in found.items() if v is not None}

    filters = [kind, true, predicted, either_way, low, high, order]
    # One event for them all, so that of quick clicks the last one is answered last.
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
    """The value that the address gives a filter; None for none that it could have."""
    found = permalink.checked(part, text)
    return found["value"] if isinstance(found, dict) else found


def _class_choice(label: str, elem_id: str) -> gr.Dropdown:
    return FreeDropdown([ANY_CLASS], value=ANY, label=label, min_width=160, elem_id=elem_id)


def _percent_slider(value: int, label: str, elem_id: str) -> gr.Slider:
    return gr.Slider(0, 100, value, step=1, label=label, min_width=200, elem_id=elem_id)


def class_choices(workbench: Workbench, name: str | None) -> list[Choice]:
    """Choices of the classes that the run `name` knows, and of none in particular."""
    try:
        return [ANY_CLASS, *(every_model(workbench, name).classes if name else ())]
    except VitdemoError:
        return [ANY_CLASS]


def kind_chips(group: Predictions, query: Query, counts: dict[str, int]) -> dict:
    """A button for each kind with how many pictures it has now, and what the chosen one means."""
    alone = "needs a second model, tested on the same pictures" if len(group.runs) == 1 else None
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
    """What else is asked of the pictures that are counted; "" for nothing."""
    words = []
    if filters.true is not None or filters.predicted is not None:
        true, predicted = (
            "any class" if c is None else group.classes[c]
            for c in (filters.true, filters.predicted)
        )
        words.append(f"{true} {'↔' if filters.either_way else '→'} {predicted}")
    if (filters.low, filters.high) != (0, 1):
        words.append(f"confidence {100 * filters.low:.0f} to {100 * filters.high:.0f} %")
    return ", ".join(words)


def kind_words(group: Predictions, query: Query) -> str:
    others = [name for name in group.names if name != query.run]
    words = f"{others[0]} is" if len(others) == 1 else f"all {len(others)} other models are"
    if not others and query.filters.kind in OF_SEVERAL:
        return f"{query.run} alone was tested on these pictures: there is no model beside it."
    count = "one model" if not others else f"{len(group.runs)} models"
    sentence = KINDS[query.filters.kind][1]
    return sentence.format(run=query.run, others=words, count=count)


def pair_chips(group: Predictions, query: Query) -> dict:
    """The pairs of classes that the model confuses most, as buttons that choose their pictures."""
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
        "spoken": f"{first} and {second}: {pair.count} pictures, {pair.there} times {first} taken "
        f"for {second}, {pair.back} times {second} for {first}",
    }
