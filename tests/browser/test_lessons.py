"""The lessons in a real Chromium: each walked from its first step to its last, task by task."""

from urllib.parse import parse_qs

import pytest
import torch
from playwright.sync_api import Page, expect

from tests.serving import ROOT, serve
from vitdemo.lessons import FOLDER, LANGUAGE, Lesson, Step, read_lessons, with_facts
from vitdemo.workbench import Workbench

RUNS = ROOT / "assets" / "runs"
NAMES = [path.stem for path in sorted((FOLDER / LANGUAGE).glob("*.md"))]


@pytest.fixture(scope="module")
def lessons() -> dict[str, Lesson]:
    workbench = Workbench([RUNS], ROOT / "none", torch.device("cpu"))
    found, problems = read_lessons(FOLDER / LANGUAGE)
    assert not problems
    return {lesson.name: with_facts(lesson, workbench) for lesson in found}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    none = tmp_path_factory.mktemp("none")
    with serve("--runs", str(RUNS), "--runs", str(none), "--data", str(none)) as address:
        yield address


def panel(page: Page):
    return page.locator("#lesson .lesson")


def check_view(page: Page, view: str) -> None:
    """What the step opens is what the page shows."""
    asked = {name: values[-1] for name, values in parse_qs(view[1:]).items()}
    tab = asked.get("tab", "look")
    shown = page.locator("#tabs > .tabitem:visible, #tabs > [role=tabpanel]:visible").first
    expect(shown).to_be_visible()
    if tab != "look":
        return expect(page.locator("#look")).to_be_hidden()
    expect(page.locator("#look")).to_be_visible()
    if "model" in asked:
        expect(page.locator("#model select")).to_have_value(asked["model"])
    if "layer" in asked:
        expect(page.locator("#layer input[type=number]")).to_have_value(asked["layer"])
    if "inside" in asked:
        expect(page.locator(f"#part-{asked['inside']}")).to_be_visible()
    if "section" in asked:
        first = {"heads": "#attention", "why": "#why-maps", "hands": "#hands-picture"}
        expect(page.locator(first.get(asked["section"], "#part"))).to_be_visible()


def do(page: Page, step: Step, keyboard: bool) -> None:
    """The step's task, as a person would do it."""
    task = step.task
    if task.kind == "shown":
        return
    if task.kind == "point":
        place = page.locator("#attention .large")
        place.scroll_into_view_if_needed()
        if keyboard:
            place.focus()
            return page.keyboard.press("ArrowRight")
        place.hover(position={"x": 20, "y": 20})
        return place.hover(position={"x": 60, "y": 60})
    found = page.locator(task.where)
    if task.kind == "set":
        found = page.locator(f"{task.where}[type=number]")
        found.fill(task.value)
        return page.keyboard.press("Enter")
    found.first.wait_for()
    if task.kind == "press":
        found = found.locator("visible=true").first
        if not keyboard:
            return found.click()
        found.focus()
        return page.keyboard.press("Enter")
    if found.first.evaluate("each => each.tagName") == "SELECT":
        current = found.evaluate("each => each.selectedIndex")
        if not keyboard:
            return found.select_option(index=1 if current != 1 else 2)
        found.focus()
        return page.keyboard.press("ArrowDown")
    choice = found.get_by_role("radio", name=task.value, exact=True)
    if not keyboard:
        return choice.check()
    choice.focus()
    page.keyboard.press("Space")


def answer(page: Page, step: Step, keyboard: bool) -> None:
    """The step's question, rightly."""
    question, form = step.question, page.locator("#lesson .question")
    if question.choices:
        choice = form.get_by_role("radio").nth(question.right)
        choice.focus()
        page.keyboard.press("Space")
    else:
        form.locator("input, textarea").fill(question.number or "I think so.")
    button = form.get_by_role("button")
    if keyboard:
        button.focus()
        page.keyboard.press("Enter")
    else:
        button.click()
    told = "One answer:" if question.free else "Right."
    expect(page.locator("#lesson .told")).to_contain_text(told)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("keyboard, width, height", [(False, 1366, 768), (True, 390, 844)])
def test_a_lesson_is_walked(open_page, address, lessons, name, keyboard, width, height):
    lesson = lessons[name]
    page = open_page(f"{address}?tab=lessons", width=width, height=height, stranger=True)
    start = page.locator("#lessons").get_by_role("button", name=f"Start: {lesson.title}")
    start.click()
    for number, step in enumerate(lesson.steps, 1):
        expect(panel(page).locator(".title")).to_have_text(step.title)
        expect(panel(page).locator(".count")).to_have_text(f"{number} of {len(lesson.steps)}")
        if step.opens:
            check_view(page, step.opens)
        if step.ring:
            expect(page.locator(step.ring).locator("visible=true").first).to_be_visible()
        if step.task:
            do(page, step, keyboard)
            expect(panel(page).locator(".do")).to_have_class("do done")
        if step.question:
            answer(page, step, keyboard)
        on = panel(page).locator(".on")
        expect(on).to_have_text("Finish" if number == len(lesson.steps) else "Next")
        if keyboard:
            on.focus()
            page.keyboard.press("Enter")
        else:
            on.click()
    expect(panel(page)).to_be_hidden()
    card = page.locator("#lessons li").filter(has=page.get_by_role("heading", name=lesson.title))
    expect(card).to_contain_text("; done")
    width_now = page.evaluate("document.documentElement.scrollWidth")
    assert width_now <= width
