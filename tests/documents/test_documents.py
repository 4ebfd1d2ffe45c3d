"""Documents in files: kinds of blocks, escaping, marks and levels of headings."""

import re

import pytest

from vitdemo.documents import (
    Bullets,
    Details,
    Figure,
    Heading,
    Legend,
    LegendEntry,
    Notice,
    PickList,
    Plots,
    Section,
    Text,
)
from vitdemo.documents.html import collect_definitions, render_blocks, split_marks
from vitdemo.documents.table import Cell, Column, Table

EVIL = "<script>&"
TABLE = Table(
    ["Run", Column("Words", EVIL, numeric=False), Column("Hidden", "secret", hidden=True)],
    [[EVIL, Cell("long", strong=True, note="0 to 1"), "unseen"]],
    feet=[["Mean", "last", "unseen"]],
    terms={"Term": "Meaning."},
)


def test_headings_are_one_level_lower_inside_a_section():
    inner = Section("B", [Heading("C")])
    page = render_blocks([Heading("0"), Section("A", [Heading("1"), inner]), Heading("2")])
    assert re.findall(r"<(h\d)>(\w)<", page) == [
        *[("h2", "0"), ("h2", "A"), ("h3", "1"), ("h3", "B"), ("h4", "C"), ("h2", "2")]
    ]


def test_all_texts_are_escaped_and_only_drawings_are_markup():
    lines = [LegendEntry(EVIL, EVIL)]
    blocks = [
        *[Heading(EVIL), Text(f"**{EVIL}** `{EVIL}` {EVIL}"), Notice(EVIL), Bullets([EVIL])],
        *[Legend({EVIL: lines}), Plots([Figure(EVIL, EVIL, "<svg></svg>", lines, EVIL)])],
        *[Details(EVIL, [TABLE]), Section(EVIL, [TABLE])],
    ]
    page = render_blocks(blocks)
    assert "<script" not in page and "<svg></svg>" in page
    assert page.count("&lt;script&gt;&amp;") == 18


def test_marks_become_elements():
    assert split_marks("a **b c** `d`") == [("", "a "), ("bold", "b c"), ("", " "), ("code", "d")]
    assert split_marks("2 ** 3") == [("", "2 ** 3")] and split_marks("") == []
    assert "<b>b</b> <code>c</code>" in render_blocks([Text("**b** `c`")])


def test_table_in_a_file_has_notes_and_feet_but_no_hidden_column():
    page = render_blocks([TABLE])
    assert "Hidden" not in page and "unseen" not in page
    assert '<td class="words"><b>long</b> <small>0 to 1</small></td>' in page
    assert page.index("long") < page.index("last")


def test_folded_parts_are_open_so_that_they_are_printed():
    assert "<details open><summary>More</summary>" in render_blocks([Details("More", [])])


def test_definitions_are_the_help_of_shown_columns_and_terms():
    blocks = [Section("A", [TABLE, Details("More", [TABLE])])]
    assert collect_definitions(blocks) == {"Words": EVIL, "Term": "Meaning."}


def test_a_block_of_the_page_only_is_refused():
    with pytest.raises(ValueError, match="PickList"):
        render_blocks([Section("A", [PickList({"a": "A"})])])
