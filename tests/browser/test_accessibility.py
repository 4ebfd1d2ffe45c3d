"""Accessibility of all tabs: axe-core, contrast of tabs, and visible choices, in light and dark."""

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.actions import wait_until_idle
from tests.support.serving import serve

# An experimental rule: the accessible name of a control contains its visible label. The names of
# cells and images (with "data-pick") spell out their rounded or shortened labels.
NAME_RULE, EXEMPT = "label-content-name-mismatch", "data-pick"
RULES = {
    "runOnly": ["wcag2a", "wcag2aa"],
    "rules": {NAME_RULE: {"enabled": True}},
    "resultTypes": ["violations"],
}
CONTRAST_RULES = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
# Closed tabs, and rows of folded tables that look like the rows above them.
EXCLUDED = ("[role=tabpanel][style*='display: none']", "details tbody tr:nth-child(n+6)")
EXPLORE_SECTIONS = ("class-attribution", "hands", "inside")
RESULTS_SECTIONS = ("metrics", "confusion", "errors", "compare")
INSIDE_PARTS = ("one_head", "layers", "ablation", "embeddings", "similar_patches", "patching")
TABS = (*RESULTS_SECTIONS, "lessons", "training", "data", "own")
# Views, and the part of the page that is checked: the whole page once for each tab.
VIEWS = {
    "?tab=explore&section=heads": "body",
    **{f"?tab=explore&section={section}": "#sections" for section in EXPLORE_SECTIONS},
    **{f"?tab=explore&section=inside&inside={part}": f"#part-{part}" for part in INSIDE_PARTS},
    "?tab=explore&section=hands&hands=sliders": "#sections",
    **{f"?tab={tab}": "body" for tab in TABS},
}
# Views with controls or drawings that no other view has; `--full` checks the other views too.
SHORT = (
    *("section=class-attribution", "hands=sliders", "inside=layers"),
    *("tab=confusion", "tab=training", "tab=own"),
)
CHECKS = [
    pytest.param(view, place, marks=[] if view.endswith(SHORT) else pytest.mark.full)
    for view, place in VIEWS.items()
]
QUESTION = "## One\nask: Two and two?\n- [ ] 3\n- [x] 4\nbecause: Count.\n"
LESSON = f"---\ntitle: Our own\nminutes: 5\ngoal: Count.\n---\n{QUESTION}"
JS_UNFOLD = "() => document.querySelectorAll('details').forEach((each) => { each.open = true; })"
JS_WORDS = """() => [...document.querySelectorAll("body *:not(script, style)")].flatMap((each) => [
    ...["aria-label", "title", "placeholder", "alt"].map((name) => each.getAttribute(name) ?? ""),
    ...[...each.childNodes].filter(({ nodeType }) => nodeType === 3).map(({ data }) => data),
].map((words) => words.trim()))"""
TRANSLATION_KEY = re.compile(r"[a-z_]+(\.[a-z_]+)+")
# Contrast (WCAG 2.1) between the text of an element and the page.
JS_CONTRAST = """(element) => {
    const luminance = (colour) => {
        const [red, green, blue] = colour.match(/[\\d.]+/g).slice(0, 3).map((each) => each / 255)
            .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
    };
    const [{ color }, { backgroundColor }] = [element, document.body].map((each) =>
        getComputedStyle(each));
    const [low, high] = [color, backgroundColor].map(luminance).sort((a, b) => a - b);
    return high / low;
}"""
JS_HAS_COLOURS = """(scheme) => document.body.classList.contains("dark") === (scheme === "dark")
    && !document.getAnimations().some((each) => each instanceof CSSTransition)"""
JS_CHOICE = """(input) => {
    const { accentColor, appearance } = getComputedStyle(input);
    const { width, height } = input.getBoundingClientRect();
    return { accentColor, appearance, isLarge: Math.min(width, height) >= 12 };
}"""


@pytest.fixture(scope="module")
def address(tested_runs, tmp_path_factory):
    """Address of a page with tested runs, their dataset and one lesson."""
    runs, data = tested_runs
    lessons = tmp_path_factory.mktemp("lessons")
    (lessons / "9-own.md").write_text(LESSON)
    arguments = ["--runs", str(runs), "--data", str(data), "--lessons", str(lessons)]
    with serve(*arguments) as address:
        yield address


@pytest.fixture(scope="module")
def page(address, open_shared) -> Page:
    page = open_shared(address)
    expect(page.locator("#attention .wall .cell").first).to_be_visible()
    return page


def open_view(page: Page, view: str) -> None:
    page.evaluate("view => vitdemo.store.open(view)", view)
    wait_until_idle(page)


def each_scheme(page: Page) -> Iterator[str]:
    """Yield "light" and "dark", while the page is drawn in these colours."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(JS_HAS_COLOURS, arg=scheme)
        yield scheme
    page.emulate_media(color_scheme="light")


def check_page(page: Page, place: str) -> None:
    """Check all rules in light colours, and the contrast in dark colours, in `place`."""
    expect(page.locator(place).first).to_be_visible()
    page.evaluate(JS_UNFOLD)
    wait_until_idle(page)  # some folds request their content
    for scheme in each_scheme(page):
        rules = RULES if scheme == "light" else CONTRAST_RULES
        assert find_violations(page, place, rules) == [], scheme


def find_violations(page: Page, place: str, rules: dict) -> list[str]:
    context = {"include": [[place]], "exclude": [[each] for each in EXCLUDED]}
    violations = Axe().run(page, context=context, options=rules).response["violations"]
    found = [(each["id"], node["html"]) for each in violations for node in each["nodes"]]
    return [
        f"{rule}: {html[:200]}"
        for rule, html in found
        if not (rule == NAME_RULE and EXEMPT in html)
    ]


@pytest.mark.parametrize(("view", "place"), CHECKS)
def test_view_has_no_violations(page, view, place):
    open_view(page, view)
    check_page(page, place)
    assert [words for words in page.evaluate(JS_WORDS) if TRANSLATION_KEY.fullmatch(words)] == []


def test_chosen_tabs_have_contrast(page):
    open_view(page, "?tab=explore&section=heads")
    tabs = page.locator("[role=tab][aria-selected=true]:visible").all()
    assert tabs
    for scheme in each_scheme(page):
        assert all(each.evaluate(JS_CONTRAST) >= 4.5 for each in tabs), scheme


def test_lesson_question_shows_the_chosen_answer(page):
    page.evaluate("() => vitdemo.store.set({ lesson: '9-own', step: 1 })")
    choice = page.locator("#lesson .question").get_by_role("radio").nth(1)
    choice.check()
    check_page(page, "#lesson")
    page.locator("#lesson .question button").click()
    expect(page.locator("#lesson .told")).to_contain_text("Correct.")
    check_page(page, "#lesson")
    check_choices(page)
    page.evaluate("() => vitdemo.store.set({ lesson: '', step: 0 })")


def check_choices(page: Page) -> None:
    """Check that the browser draws all own radio buttons and checkboxes, in the accent colour."""
    choices = page.locator(".html-container").locator("input[type=radio], input[type=checkbox]")
    for scheme in each_scheme(page):
        shown = [each.evaluate(JS_CHOICE) for each in choices.locator("visible=true").all()]
        assert shown
        accent = page.evaluate("getComputedStyle(document.body).getPropertyValue('--color-accent')")
        assert accent.strip()
        for each in shown:
            assert each["appearance"] == "auto", scheme
            assert each["accentColor"] not in ("auto", "rgba(0, 0, 0, 0)"), scheme
            assert each["isLarge"]


@pytest.mark.parametrize(
    "view", ["?tab=explore&section=heads", "?tab=explore&section=heads&compare=true"]
)
def test_own_checkboxes_are_visible(page, view):
    open_view(page, view)
    page.evaluate(JS_UNFOLD)
    check_choices(page)
