"""What a person does on the page, for its tests: look at a place, wait for it, upload."""

import re

from PIL import Image
from playwright.sync_api import Page


def sources(page: Page, place: str) -> list[str]:
    """The pictures of a place, as they are drawn."""
    return page.locator(f"{place} figure img").evaluate_all("all => all.map(i => i.src)")


def wait_for_change(page: Page, place: str, before: list[str]) -> list[str]:
    page.wait_for_function(
        """([place, before]) => {
            const now = [...document.querySelectorAll(place + ' figure img')].map(i => i.src);
            return now.length && JSON.stringify(now) !== JSON.stringify(before);
        }""",
        arg=[place, before],
    )
    return sources(page, place)


def upload(page: Page, path) -> None:
    clear = page.locator("#upload").get_by_role("button", name=re.compile("clear|remove", re.I))
    if clear.count():
        clear.first.click()
    page.locator("#upload input[type=file]").first.set_input_files(path)


def saved(page, figure):
    """The picture that a figure's button saves, and its name."""
    with page.expect_download() as download:
        button = figure.get_by_role("button", name="Save as PNG")
        button.focus()
        button.press("Enter")
    with Image.open(download.value.path()) as image:
        return image.convert("RGB"), download.value.suggested_filename
