"""The saved page of attention maps, opened from a file."""

from PIL import Image
from playwright.sync_api import expect

from tests.browser.actions import wait_until_drawn
from vitdemo.page.saved_view.html import build_saved_view
from vitdemo.page.view_state import ViewState


def test_layer_slider_starts_at_the_drawn_layer(open_page, context_of_kinds, tmp_path):
    run = context_of_kinds.find_run("class-token")
    image = Image.new("RGB", (32, 32), (200, 30, 90))
    file = tmp_path / "saved.html"
    # No layer is chosen, so the page begins with the model's first map.
    file.write_text(build_saved_view(context_of_kinds, run, image, ViewState(None, run.name)))
    page = open_page(file.as_uri())
    layer = wait_until_drawn(page)["layer"]
    layers = context_of_kinds.count_layers(run)
    slider = page.get_by_role("slider", name="Layer")
    expect(slider).to_have_attribute("aria-valuemax", str(layers))
    expect(slider).to_have_attribute("aria-valuenow", str(layer))
    slider.press("ArrowLeft")
    wait_until_drawn(page, layer=layer - 1)
