"""The lessons in a real Chromium: each is completed from the first to the last step."""

import re
from collections.abc import Callable
from functools import cache, partial
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.actions import INCLUDED_LESSONS, download, fill_slider, fits_window, open_tab
from tests.browser.lesson_layout import (
    SCREENS,
    STAGES,
    find_layout_problems,
    find_stage_problems,
)
from tests.support.factories import VIT, make_run
from tests.support.serving import serve
from vitdemo.lessons import Lesson, LessonStep
from vitdemo.lessons.handout import render_handout

KEYBOARD_LESSONS = ("1-tokens", "2-attention", "4-answer")
MOUSE_LESSONS = tuple(name for name in INCLUDED_LESSONS if name not in KEYBOARD_LESSONS)
PHONE, PHONE_LESSON = (390, 844), "3-heads"


def panel(page: Page):
    return page.locator("#lesson .lesson")


def check_view(page: Page, view: str) -> None:
    """Check that the page shows the view that the step opens."""
    query = {name: values[-1] for name, values in parse_qs(view[1:]).items()}
    tab = query.get("tab", "explore")
    shown = page.locator("#tabs > .tabitem:visible, #tabs > [role=tabpanel]:visible").first
    expect(shown).to_be_visible()
    if tab != "explore":
        return expect(page.locator("#explore")).to_be_hidden()
    expect(page.locator("#explore")).to_be_visible()
    if "model" in query:
        expect(page.locator("#model select")).to_have_value(query["model"])
    if "layer" in query:
        assert page.evaluate("vitdemo.store.state.layer") == int(query["layer"])
    if "inside" in query:
        expect(page.locator(f"#part-{query['inside']}")).to_be_visible()
    if "section" in query:
        if query["section"] == "hands" and "removed" not in query:  # also after an earlier step
            expect(page.locator("#changed-image .board")).to_be_visible()
            expect(page.locator("#changed-image .removed")).to_have_count(0)
        selectors = {
            "heads": "#attention",
            "class-attribution": "#attribution-maps figure",
            "hands": "#changed-image",
        }
        expect(page.locator(selectors.get(query["section"], "#part")).first).to_be_visible()


def find_card(page: Page, title: str) -> Locator:
    return page.locator("#lessons li").filter(has=page.get_by_role("heading", name=title))


def press(page: Page, button: Locator, keyboard: bool) -> None:
    if not keyboard:
        return button.click()
    button.focus()
    page.keyboard.press("Enter")


def do_task(page: Page, step: LessonStep, keyboard: bool) -> None:
    """Do the task of the step like a user."""
    task = step.task
    if task.kind == "shown":
        return
    if task.kind == "point":
        large_map = page.locator("#attention .large")
        large_map.scroll_into_view_if_needed()
        if keyboard:
            large_map.focus()
            return page.keyboard.press("ArrowRight")
        large_map.hover(position={"x": 20, "y": 20})
        return large_map.hover(position={"x": 60, "y": 60})
    control = page.locator(task.where)
    if task.kind == "set":
        if page.locator(task.where).first.get_attribute("role") == "slider":
            if not keyboard:
                return page.locator(f'{task.where} [data-layer="{task.value}"]').click()
            page.locator(task.where).focus()
            return page.keyboard.press("End" if task.op == ">=" else "Home")
        own = (
            "[type=number]" if task.where.endswith(" input") else ""
        )  # gradio's slider has two fields
        control = page.locator(f"{task.where}{own}")
        control.fill(task.value)
        return page.keyboard.press("Enter")
    control.first.wait_for()
    if task.kind == "press":
        return press(page, control.locator("visible=true").first, keyboard)
    if control.first.evaluate("each => each.tagName") == "SELECT":
        if task.value and not keyboard:
            return control.select_option(label=task.value)
        if task.value:
            control.focus()
            return page.keyboard.type(task.value)
        current = control.evaluate("each => each.selectedIndex")
        if not keyboard:
            return control.select_option(index=1 if current != 1 else 2)
        control.focus()
        return page.keyboard.press("ArrowDown")
    if control.get_by_role("combobox").count():  # gradio's list
        control.get_by_role("combobox").click()
        if not keyboard:
            return control.get_by_role("option", name=task.value).click()
        page.keyboard.press("Control+A")
        page.keyboard.type(task.value)  # filters the options
        return page.keyboard.press("Enter")
    choice = control.get_by_role("radio", name=task.value, exact=True)
    if not keyboard:
        return choice.check()
    choice.focus()
    page.keyboard.press("Space")


def answer_question(page: Page, step: LessonStep, keyboard: bool) -> None:
    """Answer the question of the step correctly."""
    question, form = step.question, page.locator("#lesson .question")
    if question.choices:
        choice = form.get_by_role("radio").nth(question.right)
        choice.focus()
        page.keyboard.press("Space")
    else:
        form.locator("input, textarea").fill(question.number or "I think so.")
    press(page, form.get_by_role("button"), keyboard)
    feedback = "Sample answer:" if question.free else "Correct."
    expect(page.locator("#lesson .told")).to_contain_text(feedback)


def closing_sentence(lesson: Lesson) -> str:
    tasks = sum(bool(step.task) for step in lesson.steps)
    questions = sum(bool(step.question and not step.question.free) for step in lesson.steps)
    score = f"{questions} of {questions} questions answered correctly at the first try."
    return f"{tasks} of {tasks} tasks done, {score}"


@pytest.fixture(scope="module")
def open_lessons(included_url, open_shared):  # pages end before their server
    """Return a function that opens the list of lessons, on one page per size of the window."""
    open_page = partial(open_shared, f"{included_url}?tab=lessons", stranger=True)
    return cache(lambda width, height: open_page(width=width, height=height))


@pytest.mark.parametrize("name", INCLUDED_LESSONS)
def test_every_lesson_can_be_completed(open_lessons, included_lessons, name):
    page, keyboard = open_lessons(*SCREENS[-1]), name in KEYBOARD_LESSONS
    complete_lesson(page, included_lessons[name], keyboard, find_layout_problems)
    is_last = name == INCLUDED_LESSONS[-1]
    label = "Show all lessons" if is_last else "Next lesson"
    expect(panel(page).locator(".on")).to_have_text(label)
    finish_lesson(page, included_lessons[name], keyboard)


def list_kinds(lesson: Lesson) -> set[str]:
    """Return the kinds of tasks and questions in `lesson`."""
    questions = [step.question for step in lesson.steps if step.question]
    choices = {"choice" if each.choices else "field" for each in questions}
    return choices | {step.task.kind for step in lesson.steps if step.task} - {"shown"}


@pytest.mark.parametrize("names", [KEYBOARD_LESSONS, MOUSE_LESSONS])
def test_all_kinds_of_tasks_are_done_by_keyboard_and_by_mouse(included_lessons, names):
    kinds = {name: list_kinds(lesson) for name, lesson in included_lessons.items()}
    assert set().union(*(kinds[name] for name in names)) == set().union(*kinds.values())


def test_lesson_can_be_completed_on_a_phone(open_lessons, included_lessons):
    page, lesson = open_lessons(*PHONE), included_lessons[PHONE_LESSON]
    complete_lesson(page, lesson, keyboard=False)
    finish_lesson(page, lesson, keyboard=False)


@pytest.mark.parametrize(
    ("size", "name"),
    [
        pytest.param(
            *(size, name),
            id=f"{name}-{size[0]}",
            marks=()
            if size == STAGES[0] or (size, name) == (PHONE, PHONE_LESSON)
            else pytest.mark.full,
        )
        for size in STAGES
        for name in INCLUDED_LESSONS
    ],
)
def test_every_lesson_can_be_taught_on_small_screens(open_lessons, included_lessons, size, name):
    page, lesson = open_lessons(*size), included_lessons[name]
    complete_lesson(page, lesson, keyboard=False, find_problems=find_stage_problems, button="Teach")
    finish_lesson(page, lesson, keyboard=False)


def complete_lesson(
    page: Page,
    lesson: Lesson,
    keyboard: bool,
    find_problems: Callable[[Page, LessonStep], list[str]] | None = None,
    button: str = "Start",
) -> None:
    """Complete all steps of `lesson`, which `button` opens; no step has problems."""
    open_tab(page, "Lessons")
    page.locator("#lessons").get_by_role("button", name=f"{button}: {lesson.title}").click()
    problems = []
    for number, step in enumerate(lesson.steps, 1):
        expect(panel(page).locator(".title")).to_have_text(step.title)
        expect(panel(page).locator(".count")).to_have_text(f"{number} of {len(lesson.steps)}")
        if step.opens and button == "Start":
            check_view(page, step.opens)
        if step.cover:
            expect(page.locator(step.cover)).to_be_hidden()
        if step.ring:
            expect(page.locator(step.ring).locator("visible=true").first).to_be_visible()
        if find_problems and (step.ring or step.show):
            problems += find_problems(page, step)
        if step.task:
            do_task(page, step, keyboard)
            expect(panel(page).locator(".do")).to_have_class("do done")
        if step.question:
            answer_question(page, step, keyboard)
            if step.cover:
                expect(page.locator(step.cover)).to_be_visible()
        if step.then:
            expect(page.locator(step.then).first).to_be_in_viewport()
        expect(page.locator(".toast-body.error")).to_have_count(0)
        next_button = panel(page).locator(".on")
        expect(next_button).to_have_text("Finish" if number == len(lesson.steps) else "Next")
        press(page, next_button, keyboard)
    expect(panel(page).locator(".title")).to_have_text("End of the lesson")
    expect(panel(page).locator(".text")).to_contain_text(closing_sentence(lesson))
    assert problems == []


def finish_lesson(page: Page, lesson: Lesson, keyboard: bool) -> None:
    """Close the completed `lesson` and check its card."""
    press(page, panel(page).get_by_role("button", name="Show all lessons"), keyboard)
    expect(panel(page)).to_be_hidden()
    expect(find_card(page, lesson.title)).to_contain_text("✓ done")
    assert fits_window(page)


def test_fast_navigation_shows_the_last_view(open_page, included_url, included_lessons):
    page, lesson = (
        open_page(f"{included_url}?tab=lessons"),
        included_lessons["3-heads"],
    )
    page.evaluate(
        """() => {
          const [fetch, late] = [window.fetch, () => new Promise((go) => setTimeout(go, 600))];
          window.fetch = async (...request) => {
            if (String(request[0]).includes("queue/join")) await late();
            return fetch(...request);
          };
        }"""
    )
    page.locator("#lessons").get_by_role("button", name=f"Start: {lesson.title}").click()
    expect(panel(page).locator(".title")).to_have_text(lesson.steps[0].title)
    for step in lesson.steps[1:3]:
        panel(page).locator(".on").click()
        expect(panel(page).locator(".title")).to_have_text(step.title)
    check_view(page, step.opens)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Address of a page over one model, with one valid and one broken lesson."""
    root = tmp_path_factory.mktemp("small")
    make_run(root / "runs" / "vit", VIT)
    folder = root / "lessons"
    folder.mkdir()
    head = "---\ntitle: {}\nminutes: 5\ngoal: See <b>it</b>.\n---\n"
    steps = (
        "## One\nThe model is **{vit.name}**.\n\nopen: ?section=inside&inside=positions\n"
        "ring: #positions\n"
        "## Two\nask: Two and two?\nnumber: 4\nbecause: Count.\n"
        "## Three\nPress it.\n\nopen: ?tab=data\ndo: Press.\ntask: press #data-sections button\n"
    )
    (folder / "9-own.md").write_text(head.format("Our own") + steps)
    (folder / "9-broken.md").write_text(head.format("Broken") + "## One\nIt is.\nfree: So.\n")
    arguments = ["--runs", str(root / "runs"), "--data", str(root / "none")]
    with serve(*arguments, "--lessons", str(folder)) as address:
        yield address


def test_list_leads_from_lesson_to_lesson(open_page, included_url, included_lessons):
    page = open_page(f"{included_url}?tab=lessons", width=1366, height=768)
    (first, second), cards = list(included_lessons.values())[:2], page.locator("#lessons li")
    expect(cards).to_have_count(len(included_lessons))
    expect(cards.nth(0)).to_contain_text("Start here")
    assert cards.locator(".number").all_inner_texts() == [
        str(i + 1) for i in range(len(included_lessons))
    ]
    boxes = [card.bounding_box() for card in cards.all()]
    assert max(box["y"] + box["height"] for box in boxes) < 768  # all without scrolling
    thumbnails = cards.locator("img.thumb")
    page.wait_for_function(
        "all => all.every((each) => each.complete && each.naturalWidth === 224)",
        arg=thumbnails.element_handles(),
    )
    expect(page.locator("#lessons button.next")).to_have_count(1)  # one primary button
    cards.nth(0).get_by_role("button", name=f"Start: {first.title}").click()
    page.evaluate("step => vitdemo.store.set({ step })", 3)
    expect(panel(page).locator(".count")).to_have_text(f"3 of {len(first.steps)}")
    panel(page).get_by_role("button", name="Exit lesson").click()
    open_tab(page, "Lessons")
    expect(cards.nth(0)).to_contain_text(f"step 3 of {len(first.steps)}")
    expect(cards.nth(0)).not_to_contain_text("Start here")
    cards.nth(0).get_by_role("button", name=f"Continue: {first.title}").click()
    expect(panel(page).locator(".title")).to_have_text(first.steps[2].title)
    page.evaluate("step => vitdemo.store.set({ step })", len(first.steps) + 1)
    expect(panel(page).locator(".text")).to_contain_text(f"The next lesson is {second.title}.")
    following = panel(page).get_by_role("button", name="Next lesson")
    expect(following).to_have_class(re.compile(r"\bready\b"))
    following.click()
    expect(panel(page).locator(".title")).to_have_text(second.steps[0].title)


def test_teach_button_opens_teach_mode_until_the_lesson_is_closed(open_page, small):
    page = open_page(f"{small}?tab=lessons", width=1366, height=768)
    page.locator("#lessons").get_by_role("button", name="Teach: Our own").click()
    expect(panel(page).locator(".title")).to_have_text("One")
    expect(page.locator("#header")).to_be_hidden()
    page.keyboard.press("ArrowRight")
    expect(panel(page).locator(".title")).to_have_text("Two")
    page.wait_for_url(lambda url: "teach=1" in url)
    panel(page).get_by_role("button", name="Exit lesson").click()
    expect(page.locator("#header")).to_be_visible()
    page.wait_for_url(lambda url: "teach" not in url)


def test_url_opens_a_lesson_at_a_step(open_page, small):
    page = open_page(f"{small}?lesson=9-own&step=2")
    expect(panel(page).locator(".title")).to_have_text("Two")
    expect(page.locator("#part-embeddings")).to_be_visible()  # opened by the previous step
    panel(page).get_by_role("textbox").fill("5")
    panel(page).get_by_role("button", name="Check").click()
    expect(panel(page).locator(".told")).to_contain_text("Not quite. The answer is 4.")
    panel(page).get_by_role("button", name="Back").click()
    expect(panel(page).locator(".text")).to_have_text("The model is vit.")
    panel(page).get_by_role("button", name="Next").click()  # the answer is kept
    expect(panel(page).get_by_role("textbox")).to_have_value("5")
    expect(panel(page).locator(".told")).to_contain_text("Not quite. The answer is 4.")
    panel(page).get_by_role("button", name="Back").click()
    panel(page).get_by_role("button", name="Show me").click()
    expect(page.locator(".vd-dim")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".vd-dim")).to_have_count(0)
    page.wait_for_url(lambda url: "lesson=9-own&step=1" in url)
    panel(page).get_by_role("button", name="Exit lesson").click()
    expect(panel(page)).to_be_hidden()
    page.wait_for_url(lambda url: "lesson" not in url)


def test_unavailable_lessons_are_reported_and_progress_is_saved(open_page, small):
    page = open_page(f"{small}?tab=lessons")
    catalog = page.locator("#lessons")
    expect(catalog).to_contain_text("9-broken.md, line 8: an answer requires the field 'ask'.")
    expect(catalog).to_contain_text("' are not available. Required: a fine-tuned")
    expect(catalog).to_contain_text("See <b>it</b>.")
    catalog.get_by_role("button", name="Start: Our own").click()
    next_button = panel(page).locator(".on")
    next_button.click()
    expect(next_button).to_have_text("Skip")
    next_button.click()
    expect(panel(page).locator(".title")).to_have_text("Three")
    panel(page).get_by_role("button", name="Exit lesson").click()
    page = open_page(f"{small}?tab=lessons")  # a later visit in the same browser
    catalog = page.locator("#lessons")
    expect(catalog).to_contain_text("5 minutes · step 3 of 3")
    catalog.get_by_role("button", name="Continue: Our own").click()
    expect(panel(page).locator(".title")).to_have_text("Three")
    page.locator("#data-sections").get_by_role("tab", name="Augmentation").click()
    expect(panel(page).locator(".do")).to_have_class("do done")


def test_lesson_begins_anew_and_reports_errors(open_page, small):
    page = open_page(f"{small}?lesson=9-none")
    expect(panel(page)).to_contain_text("There is no lesson '9-none'.")
    panel(page).get_by_role("button", name="Exit lesson").click()
    expect(panel(page)).to_be_hidden()
    open_tab(page, "Lessons")
    page.locator("#lessons").get_by_role("button", name="Start: Our own").click()
    expect(page.locator("#part-embeddings")).to_be_visible()
    open_tab(page, "Lessons")
    page.locator("#lessons").get_by_role("button", name="Start over").click()  # at the same step
    expect(page.locator("#part-embeddings")).to_be_visible()
    expect(panel(page).locator(".title")).to_have_text("One")


JS_BLOCK_PROGRESS = """const { setItem } = Storage.prototype;
Storage.prototype.setItem = function (key, value) {
    if (key === "vitdemo-lessons") throw new Error("blocked");
    setItem.call(this, key, value);
};"""


def test_lesson_works_if_its_progress_cannot_be_saved(open_page, small):
    address = f"{small}?lesson=9-own&step=2"
    page = open_page(address, script=JS_BLOCK_PROGRESS)
    panel(page).get_by_role("textbox").fill("4")
    panel(page).get_by_role("button", name="Check").click()
    expect(panel(page).locator(".told")).to_contain_text("Correct. Count.")
    panel(page).get_by_role("button", name="Next").click()
    panel(page).get_by_role("button", name="Back").click()
    expect(panel(page).get_by_role("textbox")).to_have_value("4")


def test_teach_mode_has_larger_text_and_arrow_keys(open_page, small):
    page = open_page(f"{small}?lesson=9-own&step=1&teach=1", width=1366, height=768)
    title = panel(page).locator(".title")
    expect(title).to_have_text("One")
    expect(page.locator("#header")).to_be_hidden()
    assert title.evaluate("each => each.getBoundingClientRect().height") > 25
    page.keyboard.press("ArrowRight")
    expect(title).to_have_text("Two")
    panel(page).get_by_role("textbox").fill("4")
    page.keyboard.press("ArrowRight")  # in a field it moves the cursor
    expect(title).to_have_text("Two")
    title.focus()
    page.keyboard.press(" ")
    expect(title).to_have_text("Three")
    page.keyboard.press("ArrowLeft")
    expect(title).to_have_text("Two")
    assert "teach=1" in page.url


JS_SHEET_FITS = """() => [...document.querySelectorAll(".sheet")].every((sheet) => {
    const millimetre = 96 / 25.4;
    const rooms = [...sheet.querySelectorAll(".room")];
    return sheet.getBoundingClientRect().height <= 269 * millimetre
        && rooms.every((room) => room.getBoundingClientRect().height >= 6 * millimetre);
})"""


@pytest.mark.parametrize("name", INCLUDED_LESSONS)
def test_handouts_print_on_two_sheets(browser, included_lessons, shipped, name):
    paper = browser.new_page(viewport={"width": 680, "height": 1000})
    for answers in (False, True):
        text = render_handout(included_lessons[name], shipped, answers=answers)
        paper.set_content(text)
        paper.emulate_media(media="print")
        assert paper.evaluate(JS_SHEET_FITS)
        pdf = paper.pdf(prefer_css_page_size=True)
        assert len(re.findall(rb"/Type\s*/Page[^s]", pdf)) <= 2, (name, answers)
    paper.close()


def test_handouts_are_saved_and_costs_are_compared(open_page, included_url):
    page = open_page(f"{included_url}?tab=lessons")
    page.locator("#hand-outs .label-wrap").click()
    expect(page.get_by_role("combobox", name="Lesson")).to_have_value("From pixels to tokens")
    for button, suffix in (("#hand-out", ""), ("#answers-out", "-answers")):
        file = download(page, page.locator(button))
        assert file.suggested_filename == f"vitdemo-1-tokens{suffix}.html"
        saved = file.path().read_text(encoding="utf-8")
        assert saved.startswith("<!doctype html>") and "From pixels to tokens" in saved
    expect(page.locator("#cost-of")).to_be_hidden()
    page.evaluate("vitdemo.store.open('?lesson=7-training&step=12')")
    table = page.locator("#cost-table")
    row = table.get_by_role("row", name="Attention matrix products, M")
    expect(row).to_contain_text("× 1.00")  # before a slider is moved
    fill_slider(page, "#cost-width", 256)
    expect(row).to_contain_text("× 2.00")
    page.locator("#cost-measure").click()
    expect(table).to_contain_text("ms (median of")
    fill_slider(page, "#cost-patch", 5)
    expect(table).to_contain_text("The image side (32) is not a multiple of the patch side (5).")
    page.get_by_role("button", name="Exit lesson").click()
    page.evaluate("vitdemo.store.open('?tab=lessons')")
    expect(page.locator("#cost-of")).to_be_hidden()
    page.evaluate("vitdemo.store.open('?tab=lessons&cost.width=256')")  # an old link
    expect(page.locator("#cost-of")).to_be_visible()
