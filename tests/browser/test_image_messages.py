"""Messages of the image input."""

from playwright.sync_api import Route, expect

from tests.browser.actions import upload

NOTICE_COLOUR = "rgb(217, 119, 6)"  # of all notices
JS_DROP_TEXT = """() => document.querySelector("#picture .frame").dispatchEvent(
    new DragEvent("drop", { dataTransfer: new DataTransfer(), bubbles: true, cancelable: true }))"""


def test_upload_moves_nothing_and_problems_look_like_notices(shared_page, photo):
    page, held = shared_page, []
    message, answers = page.locator("#picture .say"), page.locator("#answers")

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/upload*", hold)
    before = answers.bounding_box()
    upload(page, photo)
    expect(message).to_have_text("Reading the image …")
    assert answers.bounding_box() == before  # the message stays while the upload is held
    held[0].continue_()
    page.unroute("**/upload*")
    expect(page.locator("#picture .about")).to_contain_text("Your photo.")
    page.evaluate(JS_DROP_TEXT)
    expect(message).to_contain_text("Only a file can be dropped here.")
    expect(message).to_have_css("border-left-color", NOTICE_COLOUR)
