"""Document blocks and tables, rendered by the browser in a page of their own."""

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.actions import export, open_export_menu
from vitdemo.documents import Details, Notice, PickList, Text
from vitdemo.documents.table import Cell, Column, Table
from vitdemo.page.bridge import document_payload

# Draws a document, whose buttons show other documents.
JS_DRAW = """async ([documents, name]) => {
  const { createDocument } = await vitdemo.load("components/documents.js");
  const place = document.body.appendChild(document.createElement("div"));
  Object.assign(place, { id: "document", className: "article" });
  place.dataset.view = "document"; // the menu lists the folded tables of visible views
  const draw = createDocument(place, (name) => draw(documents[name]));
  draw(documents[name]);
}"""


def make_blocks(chosen: str = "nothing") -> list:
    rows = [
        ["<b>vit</b>", Cell("90.0", 0.9, (0.85, 0.951234567), bar=0.9), "10"],
        ["resnet|18", "> 95.5", "1,200"],
        ["deit", "–", "−3"],
    ]
    columns = ["Model", Column("Accuracy", "How many are right."), "Count"]
    return [
        Text("**strong** `code` ${1 + 1} <i>plain</i>"),
        Notice("Look <here>."),
        PickList({"cat": "the cats"}),
        Table(columns, rows, feet=[["All", "1", "2"]], file="models"),
        Text(f"Chosen: {chosen}"),
    ]


def make_folds(*titles: str) -> list:
    """Return a folded table for each title, after a folded text."""
    tables = [Details(title, [Table(["Run"], [[title]])]) for title in titles]
    return [Details("About", [Text("Folded text.")]), *tables]


def make_documents() -> dict[str, list]:
    rows = [["a", "1"], ["b", "3"], ["c", "2"]]
    options = {"file": "some", "folded": [1], "folded_label": "the rest"}
    documents = {
        "view": make_blocks(),
        "cat": make_blocks("cat"),
        "folded": [Table(["Run", "Count"], rows, **options)],
        "folds": [PickList({"other": "other folds"}), *make_folds("First", "Second")],
        "other": make_folds("Third", "Second"),
    }
    return {name: document_payload(blocks) for name, blocks in documents.items()}


@pytest.fixture
def open_document(open_views, shown_views):
    """Return a function that draws a document on an empty page, and returns its place."""

    def open_document(name: str) -> Locator:
        page = open_views(shown_views, "explore-export", is_new=True)
        page.evaluate(JS_DRAW, [make_documents(), name])
        return page.locator("#document")

    return open_document


def test_text_is_formatted_and_a_table_sorts_saves_and_copies(open_document):
    view = open_document("view")
    names = view.locator("tbody th")
    expect(view.locator("p").first).to_have_text("strong code ${1 + 1} <i>plain</i>")
    expect(view.locator("p strong")).to_have_text("strong")
    expect(view.locator(".vd-notice")).to_have_text("Look <here>.")
    expect(names.first).to_have_text("<b>vit</b>")
    menu = open_export_menu(view.page)
    menu.get_by_role("button", name="Markdown: models").click()
    expect(menu.get_by_role("status")).to_have_text("Copied.")
    view.page.keyboard.press("Escape")
    expect(menu.locator(".panel")).to_be_hidden()
    expect(menu.locator("summary")).to_be_focused()
    copied = view.page.evaluate("navigator.clipboard.readText()").splitlines()
    assert copied[1] == "| --- | ---: | ---: |"
    assert copied[3] == "| resnet\\|18 | > 95.5 | 1,200 |"
    # A column sorts by keyboard, and its missing values stay last.
    header = view.get_by_role("columnheader", name="Accuracy")
    for key, order, expected in (
        ("Enter", "ascending", ["<b>vit</b>", "resnet|18", "deit"]),
        ("Enter", "descending", ["resnet|18", "<b>vit</b>", "deit"]),
        (" ", None, ["<b>vit</b>", "resnet|18", "deit"]),
    ):
        header.get_by_role("button").press(key)
        expect(names).to_have_text(expected)
        assert header.get_attribute("aria-sort") == order
        expect(view.locator("tfoot th")).to_have_text("All")
    view.get_by_role("button", name="Count").click()
    file = export(view.page, "CSV: models")
    assert file.suggested_filename == "models.csv"
    assert file.path().read_text().splitlines() == [  # the numbers as they are sorted
        'Model,Accuracy,Count,"Accuracy, low","Accuracy, high"',
        "deit,,-3,,",
        "<b>vit</b>,0.9,10,0.85,0.951235",
        "resnet|18,> 95.5,1200,,",
        "All,1,2,,",
    ]
    # A redraw after a pick keeps the order.
    view.get_by_role("button", name="Accuracy").click()
    view.get_by_role("button", name="Accuracy").click()
    view.get_by_role("button", name="the cats").click()
    expect(view).to_contain_text("Chosen: cat")
    expect(names).to_have_text(["resnet|18", "<b>vit</b>", "deit"])


def test_hidden_rows_are_sorted_and_downloaded_too(open_document):
    table = open_document("folded")
    names = table.locator("tbody th")
    expect(names).to_have_text(["a", "c"])
    file = export(table.page, "CSV: some")
    assert file.path().read_text().split() == ["Run,Count", "a,1", "b,3", "c,2"]
    table.get_by_role("button", name="Show the rest").press("Enter")
    expect(names).to_have_text(["a", "b", "c"])
    table.get_by_role("button", name="Count").click()
    table.get_by_role("button", name="Count").click()
    expect(names).to_have_text(["b", "c", "a"])
    toggle = table.get_by_role("button", name="Hide the rest")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    toggle.click()
    expect(names).to_have_text(["c", "a"])


def test_folds_draw_tables_while_open_and_stay_open_by_title(open_document):
    folds = open_document("folds")
    expect(folds.get_by_text("Folded text.")).to_be_attached()  # the browser's search finds it
    expect(folds.locator("table")).to_have_count(0)
    menu = open_export_menu(folds.page)  # which also lists tables of closed folds
    names = ["First", "Second"]
    expect(menu.locator("li span")).to_have_text(names)
    expect(menu.get_by_role("button")).to_have_text(["CSV", "Markdown"] * 2)
    folds.page.mouse.click(5, 5)
    expect(menu.locator(".panel")).to_be_hidden()
    folds.locator("summary", has_text="Second").click()
    expect(folds.get_by_role("rowheader").locator("visible=true")).to_have_text("Second")
    folds.get_by_role("button", name="other folds").click()
    expect(folds.locator("summary")).to_have_text(["About", "Third", "Second"])
    expect(folds.locator("details[open] summary")).to_have_text("Second")
    expect(folds.get_by_role("rowheader")).to_have_text("Second")
