"""User actions on the page and helpers that wait for its state."""

from collections.abc import Callable

import numpy as np
from PIL import Image
from playwright.sync_api import Locator, Page, Request

from vitdemo.lessons import DEFAULT_LANGUAGE, LESSONS_FOLDER, read_lessons

TIMEOUT_MS = 60_000  # milliseconds, on two busy cores
START_MS = 300_000  # a training process imports torch, which takes minutes on a busy machine
INCLUDED_LESSONS = [lesson.name for lesson in read_lessons(LESSONS_FOLDER / DEFAULT_LANGUAGE)[0]]

# Runs before the page's own scripts; records each draw of the attention view, and counts the
# requests that the server has accepted and the responses: of gradio, or of view_server.py.
JS_RECORD = """(() => {
    window.drawn = [];
    window.exchange = { requests: 0, responses: 0 };
    document.addEventListener("vitdemo:drawn", (event) => drawn.push(event.detail));
    document.addEventListener("vitdemo:queue", ({ detail }) => {
        if (detail.msg === "process_completed") exchange.responses += 1;
    });
    const send = window.fetch;
    window.fetch = async (input, init) => {
        if (/answers\\/(ask|act|start)\\?/.test(input)) {
            exchange.requests += 1;
            const response = await send(input, init);
            response.clone().text().finally(() => { exchange.responses += 1; });
            return response;
        }
        const counts = String(input.url ?? input).includes("/queue/join");
        if (counts) exchange.requests += 1;
        const isAccepted = (response) => response.ok;
        const response = send(input, init);
        const accepted = await response.then(isAccepted, () => false);
        if (counts && !accepted) exchange.requests -= 1;
        return response;
    };
})()"""

# True after `frames` frames without an open or a new request.
JS_IS_IDLE = """frames => {
    const { requests, responses } = exchange;
    const isQuiet = responses >= requests && exchange.before === requests;
    exchange.before = requests;
    exchange.quiet = isQuiet ? exchange.quiet + 1 : 0;
    return exchange.quiet >= frames;
}"""
IDLE_FRAMES = 20  # more than a request needs that follows a response or a user's action

# Moves the pointer over `count` patches of a grid of `side` rows; returns seconds per draw.
JS_TIME_DRAWS = """async ([count, side]) => {
    const large = document.querySelector("#attention .large"), times = [];
    const box = large.getBoundingClientRect();
    for (let i = 0; i < count; i++) {
        const patch = (5 * i + 1) % (side * side);  // never the one before: that draws nothing
        const [x, y] = [patch % side + 0.5, Math.floor(patch / side) + 0.5];
        const place = {
            clientX: box.left + x * box.width / side, clientY: box.top + y * box.height / side,
        };
        const once = (done) => document.addEventListener("vitdemo:drawn", done, { once: true });
        const drawn = new Promise(once);
        const frame = new Promise((done) => requestAnimationFrame(() => done(performance.now())));
        large.dispatchEvent(new PointerEvent("pointermove", place));
        const started = await frame;
        await drawn;
        times.push((performance.now() - started) / 1000);
    }
    return times;
}"""

# Holds all responses of the server until `release_responses`, without closing the stream. The input
# of stream.js is a request instead of a URL.
JS_HOLD_RESPONSES = """(() => {
    const send = window.fetch;
    window.held = 0;
    const isHeld = (input) => String(input.url ?? input).includes("/queue/data");
    const released = new Promise((done) => { window.release = done; });
    window.fetch = async (input, ...rest) => {
        if (isHeld(input)) {
            held += 1;
            await released;
        }
        return send(input, ...rest);
    };
})()"""


def wait_until_drawn(page: Page, **expected) -> dict:
    """Return the last draw of the attention view once it has these properties (`layer=2`, ...)."""
    page.wait_for_function(
        """expected => {
            const last = window.drawn.at(-1);
            return last && Object.entries(expected).every(([name, value]) => last[name] === value);
        }""",
        arg=expected,
    )
    return get_last_draw(page)


def open_and_wait(open_page: Callable[[str], Page], address: str, query: str = "") -> Page:
    """Open a page with the fixture `open_page` and wait until its attention map is drawn."""
    page = open_page(f"{address}?{query}" if query else address)
    wait_until_drawn(page)
    return page


def wait_until_idle(page: Page, frames: int = IDLE_FRAMES) -> None:
    """Wait until all responses have arrived, and no request follows for a number of `frames`."""
    page.evaluate("exchange.quiet = 0")
    page.wait_for_function(JS_IS_IDLE, arg=frames, polling="raf")


def reset_page(page: Page, query: str, run: str) -> Page:
    """Reset a shared page to the view of `query`, which shows the model `run`, and return it."""
    page.mouse.move(0, 0)
    page.set_viewport_size({"width": 1280, "height": 900})
    close_folds(page)
    page.evaluate("query => vitdemo.store.open(query)", query)
    wait_until_drawn(page, run=run)
    wait_until_idle(page)
    return page


def close_folds(page: Page) -> None:
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = false")


def wait_for_frames(page: Page, count: int = 3) -> None:
    """Wait for frames of the browser, within which gradio still sets the values of new content."""
    page.evaluate(
        """async (count) => {
            for (let i = 0; i < count; i++) await new Promise(requestAnimationFrame);
        }""",
        count,
    )


def open_fold(page: Page, name: str, content: str) -> None:
    """Open an accordion, and wait until its elements `content` keep the user's changes."""
    if not page.locator(content).first.is_visible():
        page.get_by_role("button", name=name).click()
        page.locator(content).first.wait_for()
    wait_for_frames(page)


def unfold(place: Locator) -> None:
    """Open all folds in `place`, whose content is drawn while they are open."""
    place.locator("summary").first.wait_for()
    place.locator("details").evaluate_all("all => all.forEach((each) => { each.open = true; })")


def get_last_draw(page: Page) -> dict:
    """Return the last draw: run, layer, head, token, direction, source and `values` (P,)."""
    draw = page.evaluate("({...drawn.at(-1), values: Array.from(drawn.at(-1).values)})")
    return draw | {"values": np.array(draw["values"])}


def wait_for_new_values(page: Page, before: dict) -> dict:
    """Return the last draw once its values differ from those of `before`."""
    page.wait_for_function(
        "before => drawn.at(-1).values.some((value, i) => value !== before[i])",
        arg=before["values"].tolist(),
    )
    return get_last_draw(page)


def wait_for_values(page: Page, wanted: np.ndarray, close: float = 1e-3) -> None:
    """Wait until the last draw has the values `wanted` (P,), since an older draw may come first."""
    page.wait_for_function(
        """([wanted, close]) => {
            const { values } = drawn.at(-1);
            return values.length === wanted.length
                && wanted.every((value, i) => Math.abs(values[i] - value) < close);
        }""",
        arg=[[float(value) for value in wanted], close],
    )


# Arguments: a selector ("": the document), "drop" or "paste", and the bytes of an image.
JS_DROP_OR_PASTE = """([place, type, bytes]) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], "photo.png", { type: "image/png" }));
    const target = place ? document.querySelector(place) : document;
    const options = { bubbles: true, cancelable: true };
    target.dispatchEvent(type === "drop"
        ? new DragEvent("drop", { dataTransfer: data, ...options })
        : new ClipboardEvent("paste", { clipboardData: data, ...options }));
}"""


JS_IMAGE_SOURCES = """all => all.map(i => i.tagName === 'CANVAS' ? i.toDataURL()
    : i.src ?? i.style.backgroundImage + i.style.backgroundPosition)"""


def list_image_sources(page: Page, selector: str) -> list[str]:
    """Return the drawn images of a place: images by address, canvases by content."""
    return (
        page.locator(f"{selector} figure")
        .locator("img, canvas, .vd-cut")
        .evaluate_all(JS_IMAGE_SOURCES)
    )


def wait_for_change(page: Page, selector: str, before: list[str]) -> list[str]:
    page.wait_for_function(
        """([place, before]) => {
            const all = document.querySelectorAll(place + ' figure :is(img, canvas, .vd-cut)');
            const now = ("""
        + JS_IMAGE_SOURCES
        + """)([...all]);
            return now.length && JSON.stringify(now) !== JSON.stringify(before);
        }""",
        arg=[selector, before],
    )
    return list_image_sources(page, selector)


def upload(page: Page, path) -> None:
    page.locator("#picture input[type=file]").set_input_files(path)


def mock_camera(page: Page) -> None:
    """Replace the camera by one whose images all differ."""
    page.evaluate("""() => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [64, 48];
        const context = canvas.getContext("2d");
        setInterval(() => {  // it moves
            context.fillStyle = `hsl(${360 * Math.random()} 80% 50%)`;
            context.fillRect(32 * Math.random(), 0, 32, 48);
        }, 50);
        navigator.mediaDevices.getUserMedia = async () => canvas.captureStream(20);
    }""")


def choose_model(page: Page, name: str) -> None:
    page.locator("#model select").select_option(name)


def set_state(page: Page, key: str, value: object) -> None:
    """Change a key of the view state, as its control does."""
    page.evaluate("([key, value]) => vitdemo.store.choose(key, value)", [key, value])


def set_model(page: Page, name: str) -> None:
    set_state(page, "model", name)


def set_layer(page: Page, layer: int) -> None:
    """Change the layer of the view state, as its control does."""
    page.evaluate("layer => vitdemo.store.takeLayer(layer)", layer)


def choose_layer(page: Page, layer: int) -> None:
    """Click a layer of the path through the layers."""
    page.locator(f"#attention .layers [data-layer='{layer}']").click()


def choose_option(page: Page, selector: str, name: str) -> None:
    """Choose an option of gradio's dropdown at `selector`."""
    page.locator(f"{selector} input").click()
    page.get_by_role("option", name=name, exact=True).click()


def download_image(page, button):
    """Return the image that a button saves, and its file name."""
    with page.expect_download() as download:
        button.focus()
        button.press("Enter")
    with Image.open(download.value.path()) as image:
        return image.convert("RGB"), download.value.suggested_filename


def download(page, button):
    with page.expect_download() as download:
        button.click()
    return download.value


def export(page: Page, item: str):
    """Return the file of an item of the visible menu Export, such as "CSV: Precision"."""
    open_export_menu(page)
    file = download(page, page.get_by_role("button", name=item, exact=True))
    page.keyboard.press("Escape")
    return file


def open_export_menu(page: Page) -> Locator:
    menu = page.locator("details.vd-export").filter(visible=True)
    menu.locator("summary").click()
    return menu


def fill_slider(page: Page, selector: str, value) -> None:
    """Enter a number into the field of a slider."""
    field = page.locator(f"{selector} input[type=number]")
    field.fill(str(value))
    field.press("Enter")


RESULTS_SECTIONS = (*("Per-class metrics", "Confusion matrix", "Errors", "Compare models"),)


def open_tab(page: Page, *names: str) -> None:
    """Open tabs one after the other; for a section of Results, open this tab first."""
    for name in names:
        results = page.get_by_role("tab", name="Results", exact=True)
        if name in RESULTS_SECTIONS and results.get_attribute("aria-selected") != "true":
            results.click()
        page.get_by_role("tab", name=name, exact=True).click()


def release_responses(page: Page) -> None:
    """End `JS_HOLD_RESPONSES`, once a response is held."""
    page.wait_for_function("window.held > 0")
    page.evaluate("release()")


def record_requests(page: Page, *parts: str, view: str = "") -> list[str]:
    """Return the growing list of requested URLs, or of those that contain one of `parts`.

    With `view`, the list contains only requests for the data of this view.
    """
    urls = []

    def note(request: Request) -> None:
        is_named = not parts or any(part in request.url for part in parts)
        if is_named and view in (request.post_data or ""):
            urls.append(request.url)

    page.on("request", note)
    return urls


def record_model_requests(page: Page, view: str = "") -> list[str]:
    """Wait for former requests, and return the growing list of model requests from then on.

    With `view`, the list contains only requests for the data of this view.
    """
    wait_until_idle(page)
    return record_requests(page, "/queue/join", "/answers/ask", view=view)


def fits_window(page: Page) -> bool:
    """Return whether nothing is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
