"""The last column of the grid of all heads."""

from playwright.sync_api import expect

OPEN = "vitdemo.store.open('?picture=photo:cat&source=head&head=1&layer=1&model=timm')"


def test_opened_view_shows_rollout_whatever_was_chosen_before(shared_page):
    page = shared_page
    rollout = page.locator('#attention .wall button[title="Layer 1, rollout"]')
    page.evaluate(OPEN)
    expect(rollout).to_be_visible()
    page.locator("#attention .source").select_option("mean")
    expect(rollout).to_have_count(0)
    page.locator('#attention .wall [title^="Layer 1, head 2:"]').click()
    page.wait_for_url(lambda url: "source=head" in url and "column=mean" in url)
    expect(rollout).to_have_count(0)  # the column keeps the map that was chosen last
    page.evaluate(OPEN)
    expect(rollout).to_be_visible()
