"""Keys of a presenter's remote in teach mode."""

from tests.browser.actions import open_and_wait


def test_keys_turn_the_steps_after_a_click_on_the_map(open_page, page_url):
    page = open_and_wait(open_page, page_url, "lesson=3-heads&step=1&teach=1")
    page.locator("#lesson .lesson:not(.empty)").wait_for()
    large = page.locator("#attention .large")

    def press_and_wait(key: str, step: int) -> None:
        page.keyboard.press(key)
        page.wait_for_url(lambda url: f"step={step}&" in f"{url}&")

    for key, step in (("ArrowRight", 2), ("ArrowLeft", 1), ("PageDown", 2), ("PageUp", 1)):
        large.click()
        press_and_wait(key, step)
    page.keyboard.press("Tab")  # elements that the Tab key reaches use their keys themselves
    large.focus()
    page.keyboard.press("ArrowRight")
    page.locator("#attention .ring.under:not([hidden])").wait_for()
    assert "step=1&" in f"{page.url}&"
    for part in ("large", "wall"):  # keys for pages always change the step
        for key, step in (("PageDown", 2), ("PageUp", 1)):
            page.locator(f"#attention .{part}").focus()
            press_and_wait(key, step)
