"""Layout of a lesson step on the screens of small projectors, with and without teach mode."""

from playwright.sync_api import Page

from vitdemo.lessons import LessonStep

# Each screen differs from the next one in its size or in teach mode. A step opens on the last one.
SCREENS = [((1024, 768), ""), ((1024, 768), "1"), ((1280, 720), "1"), ((1280, 720), "")]
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
        const { top, bottom, width, height } = place.getBoundingClientRect();
        const seen = Math.min(bottom, innerHeight) - Math.max(top, 0);
        const found = [];
        const isBusy = ["aria-busy=true", "data-empty"].some((state) =>
            place.closest(`[${state}]`) || place.querySelector(`[${state}]`));
        if (isBusy) found.push(`${ring} still waits for its data`);
        if (width < 20 || height < 8) found.push(`${ring} has ${width} x ${height} pixels`);
        if (seen < Math.min(height, 100) - 1 || top < -1) found.push(`${ring} is not in view`);
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


def find_layout_problems(page: Page, step: LessonStep) -> list[str]:
    """Return a sentence for each problem of the open `step`, on all `SCREENS`."""
    problems = []
    control = step.task.where if step.task else ""
    for (width, height), teach in SCREENS:
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("teach => vitdemo.store.set({ teach })", teach or None)
        found = page.evaluate(JS_PROBLEMS, [step.ring, control, 30])
        problems += [f"{step.title}, {width} px {teach and 'teach'}: {each}" for each in found]
    return problems
