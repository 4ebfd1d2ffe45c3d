"""What a person does on the page, for its tests: look at a place, wait for it, upload."""

import numpy as np
from PIL import Image
from playwright.sync_api import Page

# Runs before the page's own scripts: what the attention view draws is kept for the tests.
JS_RECORD_DRAWS = (
    "window.drawn = []; document.addEventListener('vitdemo:drawn', e => drawn.push(e.detail))"
)

# Moves the pointer over `count` patches of a grid of `side` rows: seconds of each draw.
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


def wait_until_drawn(page: Page, **expected) -> dict:
    """The last draw of the attention view, once it has these properties (`layer=2`, ...)."""
    page.wait_for_function(
        """expected => {
            const last = window.drawn.at(-1);
            return last && Object.entries(expected).every(([name, value]) => last[name] === value);
        }""",
        arg=expected,
    )
    return get_last_draw(page)


def get_last_draw(page: Page) -> dict:
    """The last draw: run, layer, head, token, direction, source, and values (P,) as an array."""
    last = page.evaluate("({...drawn.at(-1), values: Array.from(drawn.at(-1).values)})")
    return last | {"values": np.array(last["values"])}


def wait_for_new_values(page: Page, before: dict) -> dict:
    """The last draw, once its values are others."""
    page.wait_for_function(
        "before => drawn.at(-1).values.some((value, i) => value !== before[i])",
        arg=before["values"].tolist(),
    )
    return get_last_draw(page)


def wait_for_values(page: Page, wanted: np.ndarray, close: float = 1e-3) -> None:
    """Until the last draw has these values (P,): a draw of the state before may come first."""
    page.wait_for_function(
        """([wanted, close]) => {
            const { values } = drawn.at(-1);
            return values.length === wanted.length
                && wanted.every((value, i) => Math.abs(values[i] - value) < close);
        }""",
        arg=[[float(value) for value in wanted], close],
    )


JS_IMAGE_SOURCES = """all => all.map(i => i.tagName === 'CANVAS' ? i.toDataURL()
    : i.src ?? i.style.backgroundImage + i.style.backgroundPosition)"""


def list_image_sources(page: Page, place: str) -> list[str]:
    """The pictures of a place, as they are drawn: images by address, canvases by content."""
    return (
        page.locator(f"{place} figure")
        .locator("img, canvas, .vd-cut")
        .evaluate_all(JS_IMAGE_SOURCES)
    )


def wait_for_change(page: Page, place: str, before: list[str]) -> list[str]:
    page.wait_for_function(
        """([place, before]) => {
            const all = document.querySelectorAll(place + ' figure :is(img, canvas, .vd-cut)');
            const now = ("""
        + JS_IMAGE_SOURCES
        + """)([...all]);
            return now.length && JSON.stringify(now) !== JSON.stringify(before);
        }""",
        arg=[place, before],
    )
    return list_image_sources(page, place)


def upload(page: Page, path) -> None:
    page.locator("#picture input[type=file]").set_input_files(path)


def mock_camera(page: Page) -> None:
    """A camera, of which no two pictures are the same."""
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


def download_image(page, button):
    """The picture that a button saves, and its name."""
    with page.expect_download() as download:
        button.focus()
        button.press("Enter")
    with Image.open(download.value.path()) as image:
        return image.convert("RGB"), download.value.suggested_filename


def download(page, button):
    with page.expect_download() as download:
        button.click()
    return download.value


def fill_slider(page: Page, place: str, value) -> None:
    """A number into the field of a slider."""
    field = page.locator(f"{place} input[type=number]")
    field.fill(str(value))
    field.press("Enter")


def open_tab(page: Page, *names: str) -> None:
    for name in names:
        page.get_by_role("tab", name=name, exact=True).click()


def record_requests(page: Page, part: str = "") -> list[str]:
    """The addresses with this part that the page asks for from now on; the list grows."""
    asked = []
    page.on("request", lambda r: part in r.url and asked.append(r.url))
    return asked


def record_model_requests(page: Page) -> list[str]:
    """What the page asks its server of models, from now on; the list grows."""
    return record_requests(page, "/queue/join")


def fits_window(page: Page) -> bool:
    """Whether nothing is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
