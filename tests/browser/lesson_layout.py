"""Layout of a lesson step on the screens of small projectors and phones, and in Teach mode."""

import re

from playwright.sync_api import Page

from vitdemo.lessons import LessonStep

SCREENS = [(1024, 768), (1280, 720)]  # a step opens on the last one
STAGES = [(1024, 768), (1280, 720), (390, 844)]  # screens of Teach mode
# Return once the outlined element and the control of the task are shown next to the panel, or
# the problems after `seconds`. Only tables may scroll sideways.
JS_PROBLEMS = """async ([ring, control, seconds]) => {
    const find = (selector) => [...document.querySelectorAll(selector)]
        .find((each) => each.getClientRects().length);
    const name = (each) => `${each.tagName} ${each.id || each.getAttribute("class") || ""}`;
    function problems() {
        const right = document.querySelector("#lesson .lesson").getBoundingClientRect().left + 1;
        const place = find(ring);
        if (!place) return [`${ring} is not shown`];
        const { width, height } = place.getBoundingClientRect();
        const goal = height > innerHeight && control && find(control) || place;
        const { top, bottom } = goal.getBoundingClientRect();
        const seen = Math.min(bottom, innerHeight) - Math.max(top, 0);
        const found = [];
        const isBusy = ["aria-busy=true", "data-empty"].some((state) =>
            place.closest(`[${state}]`) || place.querySelector(`[${state}]`));
        if (isBusy) found.push(`${ring} still waits for its data`);
        if (width < 20 || height < 8) found.push(`${ring} has ${width} x ${height} pixels`);
        const isCut = seen < Math.min(bottom - top, 100) - 1 || top < -1;
        if (isCut) found.push(`${ring} is not in view`);
        if (document.documentElement.scrollWidth > innerWidth) found.push("the page is too wide");
        const parts = [place, ...place.querySelectorAll("canvas, img, svg, select, input, button")];
        if (control && find(control)) parts.push(find(control));
        for (const each of parts) {
            const box = each.getBoundingClientRect();
            const options = { opacityProperty: true, visibilityProperty: true };
            if (!each.checkVisibility(options)) continue;
            if (box.width < 6 || box.height < 6) found.push(`${name(each)} is too small`);
            const cut = box.right > right && !each.closest(".vd-scroll");
            const place = each.closest("[id]")?.id;
            const ends = [box.right, right].map(Math.round).join(" > ");
            if (cut) found.push(`${name(each)} in ${place} is cut: ${ends}`);
        }
        return found;
    }
    const { seek } = await vitdemo.load("lessons/panel/spotlight.js");
    for (const end = Date.now() + 1000 * seconds; problems().length && Date.now() < end; ) {
        seek(ring, control);
        await new Promise((done) => setTimeout(done, 200));
    }
    return problems();
}"""


# Return once only the parts of the step, its ring and the control of its task are shown, completely
# next to the panel or above it, or the problems after `seconds`. An element that is larger than the
# screen begins at its top.
JS_STAGE_PROBLEMS = """async ([show, ring, control, seconds]) => {
    const find = (selector) => [...document.querySelectorAll(`#tabs :is(${selector})`)]
        .find((each) => each.getClientRects().length);
    function problems() {
        const panel = document.querySelector("#lesson .lesson").getBoundingClientRect();
        const isBelow = panel.width >= innerWidth - 1;
        const [right, bottom] = isBelow ? [innerWidth, panel.top] : [panel.left, innerHeight];
        const found = [];
        if (document.documentElement.scrollWidth > innerWidth) found.push("the page is too wide");
        for (const each of document.querySelectorAll("#header, #tabs [role=tab]")) {
            const isPart = each.closest("[data-stage=part]");
            if (each.checkVisibility() && !isPart) found.push(`${each.textContent} is shown`);
        }
        for (const selector of new Set([...show, ring, control].filter(Boolean))) {
            const place = find(selector);
            if (!place) { found.push(`${selector} is not shown`); continue; }
            const isBusy = ["aria-busy=true", "data-empty"].some((state) =>
                place.closest(`[${state}]`) || place.querySelector(`[${state}]`));
            if (isBusy) found.push(`${selector} still waits for its data`);
            const box = place.getBoundingClientRect();
            if (box.left < -1 || (box.right > right + 1 && !place.closest(".vd-scroll"))) {
                found.push(`${selector} is cut: ${Math.round(box.right)} > ${Math.round(right)}`);
            }
            const isLarge = box.height > bottom - 60 && (selector !== ring || control);
            if ([ring, control].includes(selector) && !isLarge
                && (box.top < -1 || box.top > bottom - Math.min(box.height, bottom / 2) + 1)) {
                found.push(`${selector} is not in view: ${box.top} to ${box.bottom}`);
            }
        }
        return found;
    }
    for (const end = Date.now() + 1000 * seconds; problems().length && Date.now() < end; ) {
        await new Promise((done) => setTimeout(done, 200));
    }
    return problems();
}"""


def find_stage_problems(page: Page, step: LessonStep) -> list[str]:
    """Return a sentence for each problem of the open `step` in Teach mode, on this screen."""
    control = step.task.where if step.task and step.task.kind not in ("see", "shown") else ""
    show = [each for each in re.split(r", *(?![^(]*\))", step.show) if each]
    found = page.evaluate(JS_STAGE_PROBLEMS, [show, step.ring, control, 30])
    return [
        f"{step.title}, {page.viewport_size['width']} px in Teach mode: {each}" for each in found
    ]


def find_layout_problems(page: Page, step: LessonStep) -> list[str]:
    """Return a sentence for each problem of the open `step`, on all `SCREENS`."""
    if not step.ring:
        return []
    problems = []
    control = step.task.where if step.task else ""
    for width, height in SCREENS:
        page.set_viewport_size({"width": width, "height": height})
        found = page.evaluate(JS_PROBLEMS, [step.ring, control, 30])
        problems += [f"{step.title}, {width} px: {each}" for each in found]
    return problems
