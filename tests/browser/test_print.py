"""The models that ship at the widths of a laptop, a phone and paper, tab by tab; their report."""

import re
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from app import SHIPPED
from tests.browser.doing import fits, open_tab
from tests.serving import serve
from vitdemo import runs
from vitdemo.report import report

# What has come into a tab once it is drawn
TABS = {
    "Explore": "#attention .wall canvas",
    "Training progress": "#learning table",
    "Per-class metrics": "#per-class table",
    "Confusion matrix": "#confusion-matrix table",
    "Errors": "#errors-kinds button",
    "Calibration": "#calibration table",
    "Compare models": "#models table",
}
LAPTOP, PHONE, PAPER, A4 = 1366, 390, 703, 794  # pixels; paper is A4 without margins of 12 mm
CONTROLS = (
    "select, input, textarea, [role=tab], .vd-download, .vd-save, button.sm, button.lg, footer"
)
SHOWN = (
    "all => all.filter(part => part.checkVisibility()).map(part => part.outerHTML.slice(0, 200))"
)
CUT = """width => [...document.querySelectorAll("main *")]
    .filter(part => part.checkVisibility() && part.getBoundingClientRect().right > width + 1)
    .map(part => `${part.getBoundingClientRect().right} px: ${part.outerHTML.slice(0, 99)}`)"""


NAMES = "#answers .card h2 span"
WHOLE = "all => all.every(part => part.scrollWidth <= part.clientWidth)"
# Whether the wall is painted in the frame in which its room changes: on paper there is no next one.
PAINTED = """() => new Promise(done => {
  const wall = document.querySelector("#attention .wall");
  const painted = () => [...wall.querySelectorAll("canvas")].every(canvas => {
    const blank = Object.assign(document.createElement("canvas"),
      { width: canvas.width, height: canvas.height });
    return canvas.toDataURL() !== blank.toDataURL();
  });
  wall.parentElement.style.width = "400px";
  new ResizeObserver(() => done(painted())).observe(wall.parentElement);
})"""


def shown(page, selector: str) -> list[str]:
    return page.locator(selector).evaluate_all(SHOWN)


def media_box(pdf: bytes) -> tuple[float, float]:
    """Width and height of a page, in points."""
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", pdf)
    return float(box[1]), float(box[2])


def test_every_tab_fits_a_laptop_and_a_phone_and_is_on_paper_what_was_seen(open_page, tmp_path):
    with serve("--runs", str(SHIPPED), "--data", str(tmp_path / "none")) as address:
        page = open_page(address, width=LAPTOP, scheme="dark")
        for tab, drawn in TABS.items():
            page.emulate_media(media="screen")
            page.set_viewport_size({"width": LAPTOP, "height": 768})
            open_tab(page, tab)
            page.locator(drawn).first.wait_for()
            levels = page.locator("h1:visible, h2:visible, h3:visible").evaluate_all(
                "all => all.map(heading => Number(heading.tagName[1]))"
            )
            assert all(b - a <= 1 for a, b in pairwise([0, *levels])), (tab, levels)
            assert page.evaluate(CUT, LAPTOP) == [], tab
            assert shown(page, CONTROLS), tab
            page.set_viewport_size({"width": PHONE, "height": 844})
            assert fits(page), tab  # a wide table scrolls in its place
            assert tab != "Confusion matrix" or page.evaluate(CUT, PHONE) == []
            page.emulate_media(media="print")
            page.set_viewport_size({"width": PAPER, "height": 1000})
            assert page.evaluate(CUT, PAPER) == [], tab
            assert shown(page, CONTROLS) == [], tab
            assert shown(page, drawn), tab
            if tab == "Explore":
                page.set_viewport_size({"width": A4, "height": 1000})
                assert page.locator(NAMES).evaluate_all(WHOLE)
                assert page.evaluate(PAINTED)
        assert media_box(page.pdf(prefer_css_page_size=True)) == pytest.approx((595, 842), abs=1)
        # A dark page is printed light, and is dark again
        dark = "document.body.classList.contains('dark')"
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(dark)
        assert page.evaluate(f"(dispatchEvent(new Event('beforeprint')), {dark})") is False
        assert page.evaluate(f"(dispatchEvent(new Event('afterprint')), {dark})") is True
        page.close()  # before its server


def test_a_report_of_all_models_fits_on_paper(open_page, tmp_path):
    found, _ = runs.find_runs(SHIPPED)
    (tmp_path / "report.html").write_text(report(found), encoding="utf-8")
    page = open_page((tmp_path / "report.html").as_uri(), width=PAPER)
    page.emulate_media(media="print")
    expect(page.locator("table").first).to_be_visible()
    assert page.evaluate(CUT, PAPER) == []
    assert media_box(page.pdf(prefer_css_page_size=True)) == pytest.approx((595, 842), abs=1)
