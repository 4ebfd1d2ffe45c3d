"""The grouped choice of a run in a real Chromium, on a page of its own."""

import gradio as gr
import pytest
from playwright.sync_api import expect

from vitdemo.page.components.run_choice import RunChoice

EVIL = '</select><b>${alert("1")}`'  # a run's folder may be called so


@pytest.fixture(scope="module")
def address():
    with gr.Blocks() as page:
        model = RunChoice([("Models", ["a", "b"]), (EVIL, [EVIL])], elem_id="model")
        other = RunChoice([("Models", ["a"])], label="With", nobody="nobody", elem_id="other")
        said = gr.Textbox(label="said")
        renew, give = gr.Button("renew"), gr.Button("give")
        gr.on([model.input, other.input], lambda *names: repr(names), [model, other], said)
        renew.click(lambda: gr.update(groups=[("Fewer", ["b", EVIL])]), None, model)
        give.click(lambda: "b", None, model)
    _, address, _ = page.launch(prevent_thread_lock=True, quiet=True)
    yield address
    page.close()


def test_a_handler_gets_the_chosen_name_and_the_server_renews_the_groups(open_page, address):
    page = open_page(address)
    model, said = page.get_by_label("Model", exact=True), page.get_by_label("said")
    expect(model.locator("optgroup").first).to_have_attribute("label", "Models")
    expect(model.locator("optgroup").nth(1).locator("option")).to_have_text([EVIL])
    model.focus()
    page.keyboard.press("ArrowDown")
    expect(said).to_have_value("('b', None)")
    page.locator("#model select").select_option(EVIL)
    expect(said).to_have_value(repr((EVIL, None)))
    page.get_by_label("With").select_option("a")
    expect(said).to_have_value(repr((EVIL, "a")))
    page.get_by_label("With").select_option("nobody")
    expect(said).to_have_value(repr((EVIL, None)))
    chosen = page.locator("#model select")
    page.get_by_role("button", name="give").click()  # a name by the server
    expect(chosen).to_have_value("b")
    page.get_by_role("button", name="renew").click()
    expect(chosen.locator("option")).to_have_text(["b", EVIL])
    expect(chosen).to_have_value("b")
