"""All tabs with the included models, and their report, on a laptop, a phone and paper."""

import re
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from tests.browser.actions import fits_window, open_tab
from vitdemo import report, runs
from vitdemo.installation import included_folder

# Tab: an element that is present once the tab is rendered.
TABS = {
    "Explore": "#attention .wall canvas",
    "Train": "#plots svg",
    "Per-class metrics": "#per-class .rows button",
    "Confusion matrix": "#confusion-matrix table",
    "Errors": "#errors-kinds button",
    "Compare models": "#model-scatter svg",
}
LAPTOP, PHONE, PAPER, A4 = 1366, 390, 703, 794  # pixels; PAPER is A4 minus margins of 12 mm
CONTROLS = (
    "select, input, textarea, [role=tab], .vd-download, .vd-export, button.sm, button.lg, footer"
)
JS_VISIBLE_ELEMENTS = (
    "all => all.filter(part => part.checkVisibility()).map(part => part.outerHTML.slice(0, 200))"
)
JS_OVERFLOWING_ELEMENTS = """width => [...document.querySelectorAll("main *")]
    .filter(part => part.checkVisibility() && part.getBoundingClientRect().right > width + 1)
    .map(part => `${part.getBoundingClientRect().right} px: ${part.outerHTML.slice(0, 99)}`)"""


MODEL_NAMES = "#answers .card h2"
JS_ALL_TEXT_FITS = "all => all.every(part => part.scrollWidth <= part.clientWidth)"
# Whether a resize repaints the grid of heads in the same frame, since printing has no next frame.
JS_IS_REPAINTED_ON_RESIZE = """() => new Promise(done => {
  const wall = document.querySelector("#attention .wall");
  const painted = () => [...wall.querySelectorAll("canvas")].every(canvas => {
    const blank = Object.assign(document.createElement("canvas"),
      { width: canvas.width, height: canvas.height });
    return canvas.toDataURL() !== blank.toDataURL();
  });
  wall.parentElement.style.width = "400px";
  new ResizeObserver(() => done(painted())).observe(wall.parentElement);
})"""


def list_visible_elements(page, selector: str) -> list[str]:
    return page.locator(selector).evaluate_all(JS_VISIBLE_ELEMENTS)


def parse_media_box(pdf: bytes) -> tuple[float, float]:
    """Return the width and height of a page, in points."""
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", pdf)
    return float(box[1]), float(box[2])


def test_every_tab_fits_laptop_phone_and_paper(open_page, included_url):
    page = open_page(included_url, width=LAPTOP, scheme="dark")
    for tab, content in TABS.items():
        page.emulate_media(media="screen")
        page.set_viewport_size({"width": LAPTOP, "height": 768})
        open_tab(page, tab)
        page.locator(content).first.wait_for()
        levels = page.locator("h1:visible, h2:visible, h3:visible").evaluate_all(
            "all => all.map(heading => Number(heading.tagName[1]))"
        )
        assert all(b - a <= 1 for a, b in pairwise([0, *levels])), (tab, levels)
        assert page.evaluate(JS_OVERFLOWING_ELEMENTS, LAPTOP) == [], tab
        assert list_visible_elements(page, CONTROLS), tab
        page.set_viewport_size({"width": PHONE, "height": 844})
        assert fits_window(page), tab  # a wide table scrolls inside its own box
        assert tab != "Confusion matrix" or page.evaluate(JS_OVERFLOWING_ELEMENTS, PHONE) == []
        page.emulate_media(media="print")
        page.set_viewport_size({"width": PAPER, "height": 1000})
        assert page.evaluate(JS_OVERFLOWING_ELEMENTS, PAPER) == [], tab
        assert list_visible_elements(page, CONTROLS) == [], tab
        assert list_visible_elements(page, content), tab
        if tab == "Explore":
            expect(page.locator("#picture .whole")).to_be_visible()  # the image
            expect(page.locator(MODEL_NAMES).first).to_be_visible()
            page.set_viewport_size({"width": A4, "height": 1000})
            assert page.locator(MODEL_NAMES).evaluate_all(JS_ALL_TEXT_FITS)
            assert page.evaluate(JS_IS_REPAINTED_ON_RESIZE)
    assert parse_media_box(page.pdf(prefer_css_page_size=True)) == pytest.approx((595, 842), abs=1)
    # A dark page is printed light and becomes dark again.
    dark = "document.body.classList.contains('dark')"
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(dark)
    assert page.evaluate(f"(dispatchEvent(new Event('beforeprint')), {dark})") is False
    assert page.evaluate(f"(dispatchEvent(new Event('afterprint')), {dark})") is True


def test_a_report_of_all_models_fits_on_paper(open_page, tmp_path, monkeypatch):
    included, _ = runs.find_runs(included_folder("runs"))
    render = report.evaluation_blocks  # these chapters have the same layout for all models
    monkeypatch.setattr(
        report, "evaluation_blocks", lambda run: render(run) if run is included[0] else []
    )
    (tmp_path / "report.html").write_text(report.render_report(included), encoding="utf-8")
    page = open_page((tmp_path / "report.html").as_uri(), width=PAPER)
    page.emulate_media(media="print")
    expect(page.locator("table").first).to_be_visible()
    assert page.evaluate(JS_OVERFLOWING_ELEMENTS, PAPER) == []
    assert parse_media_box(page.pdf(prefer_css_page_size=True)) == pytest.approx((595, 842), abs=1)
