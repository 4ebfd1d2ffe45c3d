"""Titles and captions next to what they describe."""

from types import SimpleNamespace

from playwright.sync_api import expect

from vitdemo.documents import Figure
from vitdemo.documents.html import TEMPLATES, render_blocks

PLOT = '<svg viewBox="0 0 10 10" xmlns="http://www.w3.org/2000/svg"><path d="M0 0H9V9Z"/></svg>'


def test_titles_of_a_handout_are_aligned(open_page, tmp_path):
    lesson = SimpleNamespace(title="Patches", goal="Learn.", minutes=15)
    figures = render_blocks([Figure("Input", "Input", PLOT)])
    template = TEMPLATES.get_template("handout.html")
    text = template.render(lesson=lesson, answers=False, figures=figures, tasks=[], questions=[])
    file = tmp_path / "handout.html"
    file.write_text(text)
    page = open_page(file.as_uri())
    expect(page.locator("figcaption")).to_have_css("text-align", "center")
    base = "all => all.map((each) => each.getBoundingClientRect().bottom)"
    title, name = page.locator("header h1, header p").evaluate_all(base)
    assert abs(title - name) < 5  # pixels; the larger title has larger descenders
