"""The Errors tab: test pictures by filters that combine, with the answers they got."""

from collections.abc import Callable

import gradio as gr

from vitdemo.errors import VitdemoError
from vitdemo.metrics.errors import Filters, Mutual, mutual_pairs
from vitdemo.page import gallery, html
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.kit import (
    QUIET,
    Choice,
    FreeDropdown,
    PickHTML,
    for_people,
    picked_numbers,
    renewed,
)
from vitdemo.page.look import permalink
from vitdemo.page.look.tab import Look
from vitdemo.page.metrics import NOTHING
from vitdemo.predictions import Predictions, Query
from vitdemo.runs import Run

ANY = ""  # the choice of no class in particular
ANY_CLASS = ("any class", ANY)
PAIRS = 10
KINDS = {  # label, and what it shows in words
    "errors": ("Errors", "{run} named another class than the true one."),
    "right": ("Right answers", "{run} named the true class."),
    "all": ("All pictures", "Whatever {run} predicted."),
    "only_right": ("Only this model is right", "{run} is right, and {others} wrong."),
    "all_wrong": ("All models are wrong", "{run} is wrong, and so {others}."),
    "label_errors": (
        "Doubtful labels",
        "The models together contradict the given label: confident learning (Northcutt et al. "
        "2021) on the mean of {count}. Doubtful, not wrong: of 41 that models shipped before "
        "flagged in CIFAR-10, people had checked 19 for that paper and upheld the given label of "
        "12.",
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
CLEAR = "clear"  # picked where filters are to be taken away
ALL = (ANY, ANY, False, 0, 100)  # classes, either way round, confidence: without a filter
# In the page's address: the model, and the other settings in the order of `Filters`.
MODEL = "errors.model"
WORDS = tuple(f"errors.{word}" for word in ("kind", "true", "predicted", "both", "low", "high",
                                           "order"))  # fmt: skip
INTRO = (
    "The pictures behind the numbers: choose which ones, and how sure the model was of its answer. "
    "A picture opens in Look, with the attention of the model."
)


def build(
    tab: gr.Tab,
    *,
    evaluated_runs: Callable[[], list[Run]],
    predictions: Callable[[str], Predictions],
    counts: Callable[[Query], dict[str, int]],
    find: gallery.Find,
    pictures: gallery.Pictures,
    opener: Look,
) -> None:
    """Lay out and wire the `tab`; `evaluated_runs` reads the run folders as they are now."""
    gr.Markdown(INTRO)
    model = RunChoice(grouped(evaluated_runs()), elem_id="errors-model")
    kind = gr.Textbox("errors", visible="hidden", label="Which pictures")
    kinds = PickHTML(elem_id="errors-kinds")
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
    pairs = PickHTML(elem_id="errors-pairs")
    search = gr.Textbox("", visible="hidden", label="The page's address")
    asked = gr.State(None, time_to_live=gallery.KEPT_SECONDS)  # the model that was drawn last
    shown = gallery.lay_out("errors-pictures", find=find, pictures=pictures)

    def draw(name, kind, true, predicted, either_way, low, high, order, every):
        """Values of the chips, the pairs and the pictures."""
        if name is None:
            return html.notice(NOTHING), "", *shown.show(None, every)
        try:
            group = predictions(name)
            classes = (_index(group, true), _index(group, predicted))
            filters = Filters(kind, *classes, either_way, low / 100, high / 100, order)
            query = Query(name, filters)
            chips = kinds_html(group, query, counts(query))
        except VitdemoError as error:
            return html.notice(str(error)), "", *shown.show(None, every)
        return chips, pairs_html(group, query), *shown.show(query, every)

    def draw_fresh(search, name, asked, *values):
        *values, every = values  # those of `filters`
        seen, changed = name, {}
        if asked is None:  # the first time: as the page's address says
            name, changed = restored(search, name)
        elif asked != name:  # another model confuses other classes
            changed = dict(zip((1, 2, 3), ALL, strict=False))
        values = [changed.get(i, value) for i, value in enumerate(values)]
        update, held = renewed_runs(evaluated_runs(), name)
        if held and held != seen:
            update["value"] = held
        choices = class_choices(predictions, held)
        updates = [changed.get(i, gr.skip()) for i in range(len(values))]
        for i in (1, 2):
            updates[i], values[i] = renewed(choices, values[i])
            if i in changed:
                updates[i]["value"] = values[i]
        return update, held, *updates, *draw(held, *values, every)

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
        classes = predictions(name).classes
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
        inputs=[search, model, asked, *filters, shown.every],
        outputs=[model, asked, *filters, kinds, pairs, *shown.outputs],
        js="(search, ...rest) => [window.location.search, ...rest]",
        **QUIET,
    )
    kinds.pick(pick_kind, inputs=order, outputs=filters, **QUIET)
    pairs.pick(pick_pair, inputs=[model, true, predicted, either_way], outputs=filters, **QUIET)
    linked = {MODEL: model} | dict(zip(WORDS, filters, strict=True))
    permalink.write_when_changed(linked)
    gallery.wire(shown, opener)


def _asked_for(part: gr.components.Component, text: str | None):
    """The value that the address gives a filter; None for none that it could have."""
    found = permalink.checked(part, text)
    return found["value"] if isinstance(found, dict) else found


def _class_choice(label: str, elem_id: str) -> gr.Dropdown:
    return FreeDropdown([ANY_CLASS], value=ANY, label=label, min_width=160, elem_id=elem_id)


def _percent_slider(value: int, label: str, elem_id: str) -> gr.Slider:
    return gr.Slider(0, 100, value, step=1, label=label, min_width=200, elem_id=elem_id)


def _index(group: Predictions, name: str) -> int | None:
    return group.classes.index(name) if name in group.classes else None


def class_choices(predictions: Callable[[str], Predictions], name: str | None) -> list[Choice]:
    """Choices of the classes that the run `name` knows, and of none in particular."""
    try:
        classes = predictions(name).classes if name else ()
    except VitdemoError:
        classes = ()
    return [ANY_CLASS, *classes]


def kinds_html(group: Predictions, query: Query, counts: dict[str, int]) -> str:
    """A button for each kind with how many pictures it has now, and what the chosen one means."""
    buttons = (
        _kind_button(kind, counts[kind], kind == query.filters.kind, len(group.runs) > 1)
        for kind in KINDS
    )
    left_out = "".join(
        f'<p class="vd-quiet">{html.escape(sentence)}</p>' for sentence in group.left_out
    )
    return (
        f"{html.chips('Which pictures', buttons)}{filter_html(group, query.filters)}"
        f'<p class="vd-quiet">{html.escape(kind_words(group, query))}</p>{left_out}'
    )


def filter_html(group: Predictions, filters: Filters) -> str:
    """What else is asked of the pictures that are counted, and a button that takes it away."""
    words = []
    if filters.true is not None or filters.predicted is not None:
        true, predicted = (
            "any class" if c is None else group.classes[c]
            for c in (filters.true, filters.predicted)
        )
        words.append(f"{true} {'↔' if filters.either_way else '→'} {predicted}")
    if (filters.low, filters.high) != (0, 1):
        words.append(f"confidence {100 * filters.low:.0f} to {100 * filters.high:.0f} %")
    if not words:
        return ""
    return (
        f'<p class="vd-filter" role="status">Only <strong>{html.escape(", ".join(words))}</strong> '
        f'is counted and shown. <button type="button" data-pick="{CLEAR}">Clear filters</button>'
        "</p>"
    )


def _kind_button(kind: str, count: int, pressed: bool, compared: bool) -> str:
    alone = kind in ("only_right", "all_wrong") and not compared
    off = ' disabled title="needs a second model, tested on the same pictures"' if alone else ""
    return html.chip(kind, KINDS[kind][0], count, pressed=pressed, more=off)


def kind_words(group: Predictions, query: Query) -> str:
    others = [name for name in group.names if name != query.run]
    words = f"{others[0]} is" if len(others) == 1 else f"all {len(others)} other models are"
    if not others and query.filters.kind in ("only_right", "all_wrong"):
        return f"{query.run} alone was tested on these pictures: there is no model beside it."
    count = "one model" if not others else f"{len(group.runs)} models"
    sentence = KINDS[query.filters.kind][1]
    return sentence.format(run=query.run, others=words, count=count)


def pairs_html(group: Predictions, query: Query) -> str:
    """The pairs of classes that the model confuses most, as buttons that choose their pictures."""
    found = mutual_pairs(group.confusion(query.run), PAIRS)
    if not found:
        return ""
    wanted = {query.filters.true, query.filters.predicted} if query.filters.either_way else set()
    buttons = (_pair_button(pair, group.classes, wanted) for pair in found)
    title = "<h2>Classes most often taken for each other</h2>"
    return title + html.chips("Pairs of classes", buttons)


def _pair_button(pair: Mutual, classes: tuple[str, ...], wanted: set) -> str:
    first, second = classes[pair.first], classes[pair.second]
    pressed = wanted == {pair.first, pair.second}
    spoken = (
        f"{first} and {second}: {pair.count} pictures, {pair.there} times {first} taken for "
        f"{second}, {pair.back} times {second} for {first}"
    )
    more = f' aria-label="{html.escape(spoken)}" title="{html.escape(spoken)}"'
    words = f"{first} ↔ {second}"
    return html.chip(f"{pair.first}-{pair.second}", words, pair.count, pressed=pressed, more=more)
