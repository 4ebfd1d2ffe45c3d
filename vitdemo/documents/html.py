"""Blocks as HTML, for self-contained files: the report and the handouts.

    render_blocks([Heading("Results"), Text("**vit** is more accurate.")])

The template `templates/blocks.html` draws each kind of block and escapes all texts.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from vitdemo.documents import Details, DocumentBlock, Section
from vitdemo.documents.table import Cell, Column, Table

MARKS = re.compile(r"\*\*(?P<bold>.+?)\*\*|`(?P<code>[^`]+)`")


def render_blocks(blocks: Sequence[DocumentBlock], level: int = 2) -> str:
    """Return blocks as HTML that is safe in templates; `level` is the level of headings, 1 to 6.

    Raises `ValueError` for a block that only the page can draw.
    """
    macros = TEMPLATES.get_template("blocks.html").module
    pages = [kind for kind in map(kind_of, iterate_blocks(blocks)) if not hasattr(macros, kind)]
    if pages:
        raise ValueError(f"A file cannot contain a block of the kind {pages[0]}.")
    return macros.render(blocks, level)


def kind_of(block: DocumentBlock) -> str:
    return type(block).__name__


def iterate_blocks(blocks: Sequence[DocumentBlock]):
    """Yield all blocks, including those inside sections and folded parts."""
    for block in blocks:
        yield block
        if isinstance(block, (Details, Section)):
            yield from iterate_blocks(block.pieces)


def collect_definitions(blocks: Sequence[DocumentBlock]) -> dict[str, str]:
    """Return term -> explanation for all tables; the page shows explanations below each table."""
    tables = [block for block in iterate_blocks(blocks) if isinstance(block, Table)]
    columns = [column for table in tables for column in shown_columns(table)]
    terms = {column.label: column.help for column in columns if column.help}
    return terms | {term: text for table in tables for term, text in (table.terms or {}).items()}


def split_marks(text: str) -> list[tuple[str, str]]:
    """Split a text at its marks into ("bold", part), ("code", part) and ("", part)."""
    parts, end = [], 0
    for match in MARKS.finditer(text):
        parts += [("", text[end : match.start()]), (match.lastgroup, match[match.lastgroup])]
        end = match.end()
    return [(mark, part) for mark, part in (*parts, ("", text[end:])) if part]


def shown_columns(table: Table) -> list[Column]:
    """Return the columns that a file shows."""
    columns = [Column(each) if isinstance(each, str) else each for each in table.columns]
    return [column for column in columns if not column.hidden]


def shown_rows(table: Table) -> list[list[tuple[Column, Cell]]]:
    """Return the rows that a file shows, and then the feet, each cell with its column."""
    columns = [Column(each) if isinstance(each, str) else each for each in table.columns]
    return [
        [
            (column, Cell(cell) if isinstance(cell, str) else cell)
            for column, cell in zip(columns, row, strict=True)
            if not column.hidden
        ]
        for row in (*table.rows, *table.feet)
    ]


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {
    "kind": kind_of,
    "split_marks": split_marks,
    "shown_columns": shown_columns,
    "shown_rows": shown_rows,
}
TEMPLATES.globals |= {"render_blocks": render_blocks}
