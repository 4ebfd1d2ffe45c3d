"""Bursts of quick changes end at the last state that the user chose.

Each test opens its own page, makes 2 to 8 random changes, and compares the result with a reference:
the same view opened by its URL, without delays. The server delays each response at random. The seed
of a test determines its start, changes, pauses and delays, so one burst can be repeated:

export VITDEMO_BURSTS=200
python -m pytest --full tests/browser/test_races.py  # 200 bursts
python -m pytest --full tests/browser/test_races.py -k "burst and 17"  # bursts 17, 117 and 170
"""

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Page

from tests.browser.actions import JS_RECORD, wait_until_idle
from tests.browser.conftest import TIMEOUT_MS
from tests.support.factories import RESNET, TIMM, VIT, make_run
from tests.support.serving import serve
from tests.support.slow_models import MAX_SECONDS, SEED_HEADER
from vitdemo.models import ModelSpec
from vitdemo.page.state_keys import LARGEST_FILTERS, PRINCIPAL_COMPONENTS

NUM_BURSTS = int(os.environ.get("VITDEMO_BURSTS", 12))
NUM_SHORT = 4  # bursts without `--full`
BURSTS = [
    pytest.param(seed, marks=pytest.mark.full) if seed >= NUM_SHORT else seed
    for seed in range(NUM_BURSTS)
]
MAX_PAUSE = 0.15  # seconds between two changes
SETTLE_SECONDS = 15  # after the last change
STABLE_SECONDS = MAX_SECONDS + 0.4  # without any change: no late response follows
WINDOW = {"width": 1280, "height": 900}
DEEP = ModelSpec("vit", 16, options={**VIT.options, "depth": 5})
MODELS = {"vit": VIT, "timm": TIMM, "deep": DEEP, "resnet": RESNET}
DEPTHS = {"vit": 3, "timm": 2, "deep": 5, "resnet": 0}  # attention layers
IMAGES = ("cat", "bus", "lion", "tower")
SECTIONS = {
    "heads": "Attention",
    "class-attribution": "Why this class?",
    "hands": "Fool the model",
    "inside": "Inside the model",
}
PARTS = {
    "layers": "Layer by layer",
    "one_head": "One head",
    "ablation": "Switch off",
    "embeddings": "Embeddings",
    "diagram": "Architecture",
    "similar_patches": "Similar patches",
    "patching": "Activation patching",
}
PREDICTIONS = "#answers .card:visible, #hands-answers .pairs:visible"
HOME, OTHER_TABS = "Explore", ("Results", "Data", "Train")

# The visible views of Explore. The name of a drawn file is a hash of its content.
JS_READ_VIEW = """() => {
    const visible = (element) => element.checkVisibility({ visibilityProperty: true });
    const find = (places, root = document) => [...root.querySelectorAll(places)].filter(visible);
    const words = (element) => element?.innerText.replace(/\\s+/g, " ").trim() ?? "";
    const read = (places) => words(find(places)[0]);
    const panel = find("#sections [role=tabpanel]")[0];
    const last = window.drawn.at(-1);
    return {
        model: document.querySelector("#model select")?.value ?? "",
        layer: Number(document.querySelector("#layer input[type=number]")?.value),
        section: read("#sections [role=tab][aria-selected=true]"),
        part: find("#part select")[0]?.selectedOptions[0].textContent ?? "",
        photo: read("#picture .about"),
        predictions: read("[id$=answers] .cards"),
        drawn: last ? { run: last.run, layer: last.layer, source: last.source } : null,
        words: words(panel),
        images: panel ? find("img", panel).map((image) => image.src.split("/").at(-1)) : [],
        canvases: panel ? find("canvas", panel).map((canvas) => canvas.toDataURL()) : [],
    };
}"""
# Makes the changes in the browser, so that a busy machine does not spread them. Returns a log.
# Each change waits for its control, as a user does. The slider accepts only layers of its range.
JS_MAKE_CHANGES = """async (changes) => {
    const wait = (ms) => new Promise((done) => setTimeout(done, ms));
    const named = (places, name) => () => [...document.querySelectorAll(places)].find((element) =>
        element.checkVisibility() && [element.ariaLabel, element.innerText.trim()].includes(name));
    const find = {
        image: (name) => named("#offers .tiles button", name),
        section: (name) => named("#sections [role=tab]", name),
        part: () => () => [...document.querySelectorAll("#part select")].find((element) =>
            element.checkVisibility()),
        tab: (name) => named("#tabs [role=tab]", name),
        model: () => () => document.querySelector("#model select"),
        layer: () => () => document.querySelector("#layer input[type=range]"),
    };
    const enter = (control, value) => {
        control.value = value;
        for (const name of ["input", "change"])
            control.dispatchEvent(new Event(name, { bubbles: true }));
        return control.value;
    };
    const log = [], started = performance.now();
    for (const { pause, kind, value } of changes) {
        await wait(pause);
        let control;
        while (!(control = find[kind](value)())) await wait(10);
        let accepted = value;
        if (kind === "layer") accepted = control.disabled ? null : Number(enter(control, value));
        else if (kind === "model" || kind === "part") enter(control, value);
        else control.click();
        log.push({ seconds: (performance.now() - started) / 1000, kind, accepted });
    }
    return log;
}"""


@dataclass(frozen=True)
class ViewState:
    """What the user chose. `layers` has each layer that the page may show, None: the model's own.

    A model with fewer layers lowers the layer. A model that was replaced before its response
    arrived may or may not have done so, so there can be several layers.
    """

    model: str = "timm"
    image: str = "cat"
    section: str = "heads"
    part: str = "diagram"
    layers: frozenset[int] | None = None
    tab: str = HOME

    def after(self, kind: str, value) -> "ViewState":
        """Return the state after the user's change of `kind` to `value`."""
        if kind == "layer":
            state = self if value is None else replace(self, layers=frozenset([value]))
        else:
            state = replace(self, **{kind: value})
        depth = DEPTHS[state.model]
        if kind in ("layer", "model") and state.layers and depth:
            lowered = {min(layer, depth) for layer in state.layers}
            return replace(state, layers=state.layers | lowered)
        return state

    @property
    def allowed_layers(self) -> set[int]:
        """The layers that the page may show; empty for a model without attention."""
        depth = DEPTHS[self.model]
        return {min(layer, depth) for layer in self.layers or (depth,)} - {0}

    def query(self, layer: int | None) -> str:
        """Return the query of the URL that opens this view."""
        values = {"model": self.model, "section": self.section, "inside": self.part}
        values |= {} if layer is None or self.layers is None else {"layer": layer}
        return "?" + urlencode(values | {"picture": f"photo:{self.image}"}, safe=":")


def choose_start(dice: random.Random) -> ViewState:
    """Return a random first view of a Vision Transformer.

    These models start at their last layer, so a URL that names it chooses no layer.
    """
    model = dice.choice([name for name, depth in DEPTHS.items() if depth])
    layers = dice.choice([None, frozenset([dice.randint(1, DEPTHS[model] - 1)])])
    section, part = dice.choice([*SECTIONS]), dice.choice([*PARTS])
    return ViewState(model, dice.choice(IMAGES), section, part, layers)


def choose_change(dice: random.Random, state: ViewState) -> tuple[str, object]:
    """Return a random change (kind, value) that a user can make in `state`."""
    if state.tab != HOME:
        return "tab", dice.choice([HOME, HOME, *OTHER_TABS])
    weights = {"image": 4, "model": 4, "layer": 3, "section": 3, "part": 3, "tab": 1}
    if state.section != "inside":
        weights["part"] = 0
    kind = dice.choices([*weights], [*weights.values()])[0]
    if kind == "layer":
        return kind, dice.randint(1, max(DEPTHS.values()))
    choices = {
        "image": IMAGES,
        "model": MODELS,
        "section": SECTIONS,
        "part": PARTS,
        "tab": OTHER_TABS,
    }
    return kind, dice.choice([each for each in choices[kind] if each != getattr(state, kind)])


def choose_burst(dice: random.Random, state: ViewState) -> list[tuple[float, str, object]]:
    """Return 2 to 8 random changes (pause, kind, value) that end in the first tab."""
    changes = []
    for _ in range(dice.randint(2, 8)):
        kind, value = choose_change(dice, state)
        changes.append((dice.uniform(0, MAX_PAUSE), kind, value))
        state = state.after(kind, value)
    if state.tab != HOME:
        changes.append((dice.uniform(0, MAX_PAUSE), "tab", HOME))
    return changes


def make_changes(page: Page, changes: list, state: ViewState, log: list[str]) -> ViewState:
    """Make the changes in the browser. Return the last state; `log` gets a line for each change."""
    steps = [
        {
            "pause": 1000 * pause,
            "kind": kind,
            "value": SECTIONS[value] if kind == "section" else value,
        }
        for pause, kind, value in changes
    ]
    made = page.evaluate(JS_MAKE_CHANGES, steps)
    for (_, kind, value), done in zip(changes, made, strict=True):
        accepted = done["accepted"] if kind == "layer" else value
        note = "" if accepted == value else f" (the slider accepted {accepted})"
        log.append(f"{done['seconds']:.2f} s: {kind} {value}{note}")
        state = state.after(kind, accepted)
    return state


def read_view(page: Page, state: ViewState) -> dict:
    """Return what the page shows, without the parts that `state` leaves open or hides."""
    view = page.evaluate(JS_READ_VIEW)
    if not DEPTHS[state.model]:
        view |= {"layer": None, "drawn": None}  # neither slider nor attention map
    if state.section != "heads":
        view["drawn"] = None
    if state.section != "inside":
        view["part"] = ""
    return view


def check_controls(page: Page, state: ViewState, view: dict) -> dict[str, str]:
    """Return what differs between the chosen `state` and the controls, the URL and the draw."""
    layer = view["layer"]
    found = {name: view[name] for name in ("model", "section", "part")}
    found["photo"] = view["photo"].split(".")[0]
    wanted = {"model": state.model, "section": SECTIONS[state.section], "part": ""}
    wanted["photo"] = f"Photo: {state.image}"
    if state.section == "inside":
        wanted["part"] = PARTS[state.part]
    query = {name: values[-1] for name, values in parse_qs(urlsplit(page.url).query).items()}
    names = {"model": state.model, "picture": f"photo:{state.image}", "tab": None}
    names |= {"section": state.section, "inside": state.part}
    starts = {"section": "heads", "inside": "diagram"}  # the URL leaves these out
    found |= {f"URL {name}": query.get(name, starts.get(name)) for name in names}
    wanted |= {f"URL {name}": value for name, value in names.items()}
    if layer is not None:
        found |= {"layer": layer, "URL layer": query.get("layer")}
        allowed = state.allowed_layers
        wanted |= {"layer": layer if layer in allowed else allowed, "URL layer": str(layer)}
    if view["drawn"]:
        found |= {"drawn run": view["drawn"]["run"], "drawn layer": view["drawn"]["layer"]}
        wanted |= {"drawn run": state.model, "drawn layer": layer}
    return compare(found, wanted)


def compare(actual: dict, wanted: dict) -> dict[str, str]:
    """Return a sentence for each key whose values differ."""
    return {
        key: describe_difference(actual[key], wanted[key])
        for key in wanted
        if actual[key] != wanted[key]
    }


def describe_difference(actual, wanted) -> str:
    """Describe two values; of long texts and lists, only the first difference."""
    if isinstance(actual, list) and isinstance(wanted, list):
        different = sum(a != b for a, b in zip(actual, wanted, strict=False))
        return f"{len(actual)} instead of {len(wanted)}, {different} of them different"
    if isinstance(actual, str) and isinstance(wanted, str):
        equal = takewhile(lambda pair: pair[0] == pair[1], zip(actual, wanted, strict=False))
        start = max(len([*equal]) - 20, 0)
        actual, wanted = (text[start : start + 120] for text in (actual, wanted))
    return f"{actual!r} instead of {wanted!r}"


def wait_until(check: Callable[[], object], seconds: float, stable: Callable[[], float]) -> object:
    """Return the result of `check` when it is truthy and has been equal for `stable()` seconds.

    After `seconds` without such a result, return the last one.
    """
    end = time.monotonic() + seconds
    result, since = check(), time.monotonic()
    while time.monotonic() < end and not (result and time.monotonic() - since >= stable()):
        time.sleep(0.05)
        if (now := check()) != result:
            result, since = now, time.monotonic()
    return result


class References:
    """What the page shows for a state that its URL opens, without delays."""

    def __init__(self, page: Page, address: str):
        self.page, self.address, self.views = page, address, {}
        self.streams = set()  # open response streams; some are never reported as finished
        page.on("request", lambda r: "/queue/data" in r.url and self.streams.add(r))
        for end in ("requestfinished", "requestfailed"):
            page.on(end, lambda r: self.streams.discard(r))

    def view(self, state: ViewState, layer: int | None, *, again: bool = False) -> dict:
        """Return the view, read once for each URL, or `again` and with more patience."""
        url = self.address + state.query(layer)
        if again or url not in self.views:
            self.streams.clear()
            self.page.goto(url)
            self.page.locator(PREDICTIONS).first.wait_for()
            patience = (lambda: 3.0) if again else (lambda: 2.0 if self.streams else 0.5)
            self.views[url] = wait_until(lambda: self.read_settled(state), 60, patience)
            assert self.views[url], f"The page does not open {url} as the URL says."
        return self.views[url]

    def read_settled(self, state: ViewState) -> dict:
        """Return the view, empty while the controls differ from the URL."""
        view = read_view(self.page, state)
        return {} if check_controls(self.page, state, view) else view


@pytest.fixture(scope="module")
def slow_url(tmp_path_factory):
    """Serve a page with models of different depth and with delays; yield its address."""
    root = tmp_path_factory.mktemp("races")
    for seed, (name, spec) in enumerate(MODELS.items()):
        make_run(root / name, spec, seed=seed)
    options = ("--runs", str(root), "--data", str(root / "none"))
    with serve(*options, program="tests.support.slow_models") as address:
        yield address


@pytest.fixture(scope="module")
def references(visitor, slow_url):
    page = visitor.new_page()  # it leaves pages with open requests, which gradio reports as errors
    page.set_viewport_size(WINDOW)
    page.set_default_timeout(TIMEOUT_MS)
    page.add_init_script(JS_RECORD)
    yield References(page, slow_url)
    page.close()


def find_errors(page: Page, state: ViewState, references: References) -> dict[str, str]:
    """Wait until the page shows `state`. Return what is wrong at the end, usually nothing."""
    errors = {"page": "not read"}

    def is_right() -> bool:
        nonlocal errors
        view = read_view(page, state)
        errors = check_controls(page, state, view)
        errors |= {} if errors else compare(view, references.view(state, view["layer"]))
        return not errors

    started = time.monotonic()
    wait_until(lambda: not check_controls(page, state, read_view(page, state)), SETTLE_SECONDS, int)
    is_right()  # reads the reference, which takes time of its own
    left = max(started + SETTLE_SECONDS - time.monotonic(), SETTLE_SECONDS / 3)
    if wait_until(is_right, left, lambda: STABLE_SECONDS):
        return {}
    # A faithfulness test, which the page starts by itself, takes longer on a busy machine.
    page.locator("#cancel-attribution").wait_for(state="hidden")
    if wait_until(is_right, SETTLE_SECONDS / 3, lambda: STABLE_SECONDS):
        return {}
    view = read_view(page, state)
    errors = check_controls(page, state, view)
    layer = next((x for x in state.allowed_layers if x == view["layer"]), None)
    if view["layer"] is not None and layer is None:
        layer = min(state.allowed_layers)
    # Read the reference again, since a slow machine may have cut it short.
    return compare(view, references.view(state, layer, again=True)) | errors


def run_burst(page: Page, address: str, references: References, seed: int) -> str:
    """Make the burst of `seed` on `page`. Return a report of all errors, or ""."""
    dice = random.Random(seed)
    start = choose_start(dice)
    query, log = start.query(min(start.layers) if start.layers else None), []
    page.set_extra_http_headers({SEED_HEADER: str(seed)})
    page.goto(address + query)
    page.locator(PREDICTIONS).first.wait_for()
    state = make_changes(page, choose_burst(dice, start), start, log)
    errors = find_errors(page, state, references)
    lines = [f"Burst {seed} from {query}:", *log, f"Wrong at {page.url}:"]
    lines += [f"{name}: {text}" for name, text in errors.items()]
    return "\n  ".join(lines) if errors else ""


@pytest.fixture
def new_page(open_page):
    return open_page("about:blank", **WINDOW)


@pytest.mark.parametrize("seed", BURSTS)
def test_burst_of_changes_ends_at_the_last_state(new_page, slow_url, references, seed):
    report = run_burst(new_page, slow_url, references, seed)
    assert not report, report


def test_unchanged_values_are_not_written_to_controls(new_page, slow_url):
    """An unnecessary value would undo a layer that the user chooses at the same moment."""
    new_page.goto(f"{slow_url}?model=deep&layer=2")
    new_page.wait_for_function("window.vitdemo?.store?.state.layer === 2 && window.drawn?.length")
    take = "(layer) => { vitdemo.store.showControl('layer', { value: layer, maximum: 5 }); "
    take += "return vitdemo.controls.takeUpdates(['layer', 'model']); }"
    assert new_page.evaluate(take, 2) == [{"__type__": "update"}] * 2
    new_page.evaluate("vitdemo.controls.takeInput('layer', 4)")
    assert new_page.evaluate(take, 2) == [{"__type__": "update"}] * 2  # the later choice stays
    new_page.evaluate("vitdemo.store.set({ layer: 3 })")
    assert new_page.evaluate(take, 2) == [
        {"__type__": "update", "value": 3},
        {"__type__": "update"},
    ]
    wait_until_idle(new_page)  # gradio reports requests that it aborts


def test_a_choice_is_shown_again_if_an_earlier_value_may_hide_it(new_page, slow_url):
    new_page.goto(f"{slow_url}?model=deep")
    new_page.wait_for_function("window.vitdemo?.store?.state.layer && window.drawn?.length")
    take = """() => {
        const { controls: { takeInput, takeUpdates }, store: { set, showControl } } = vitdemo;
        set({ filters: "The strongest filters" });
        showControl("filters", { value: "The strongest filters" });
        const [{ value: before }] = takeUpdates(["filters"]); // gradio has not yet applied it
        takeInput("filters", "Principal components");
        return [before, takeUpdates(["filters"])[0].value];
    }"""
    assert new_page.evaluate(take) == [LARGEST_FILTERS, PRINCIPAL_COMPONENTS]
    wait_until_idle(new_page)


def test_the_pressed_button_counts_if_gradio_reads_an_earlier_value(new_page, slow_url):
    new_page.goto(f"{slow_url}?model=deep&section=inside&inside=embeddings")
    button = new_page.get_by_role("radio", name=LARGEST_FILTERS)
    button.dispatch_event("input")
    take = """() => {
        const { controls: { takeInput, takeUpdates }, store: { state } } = vitdemo;
        takeInput("filters", "Principal components");
        return [state.filters, takeUpdates(["filters"])[0].value];
    }"""
    assert new_page.evaluate(take) == [LARGEST_FILTERS, LARGEST_FILTERS]
    wait_until_idle(new_page)
