"""Small pieces of HTML for the tabs: pictures with alt text, tables, bars, notices.

Everything that comes from a file or a person is escaped here, so that a class named
`<b>` is shown as what it is. The looks are in `page.css`.
"""

import base64
import csv
import io
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from PIL import Image


def image_uri(picture: np.ndarray) -> str:
    """(height, width, 3) uint8 -> a data URI of it as PNG."""
    return png_uri(Image.fromarray(picture))


def png_uri(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def figure(
    picture: np.ndarray,
    alt: str,
    caption: str,
    note: str = "",
    below: str = "",
    grid: tuple[int, int] | None = None,
) -> str:
    """A picture (height, width, 3) with its alt text, a caption and a quieter note.

    `below` is HTML that goes under the caption as it is; `grid` (rows, columns) draws lines between
    patches, by the browser, so that they are whole at every size.
    """
    quiet = f" <small>{escape(note)}</small>" if note else ""
    image = f'<img src="{image_uri(picture)}" alt="{escape(alt)}">'
    if grid:
        image = (
            f'<div class="vd-grid" style="--rows: {grid[0]}; --columns: {grid[1]}">{image}</div>'
        )
    return f"<figure>{image}<figcaption>{escape(caption)}{quiet}{below}</figcaption></figure>"


def row(items: Iterable[str], width: int = 150) -> str:
    return f'<div class="vd-row" style="--vd-width: {width}px">{"".join(items)}</div>'


def notice(sentence: str) -> str:
    """A sentence set apart; what stands in `backticks` is shown as code."""
    words = escape(sentence).split("`")
    marked = "".join(f"<code>{w}</code>" if i % 2 else w for i, w in enumerate(words))
    return f'<p class="vd-notice" role="status">{marked}</p>'


def notices(sentences: Iterable[str]) -> str:
    return "".join(notice(sentence) for sentence in sentences)


def probability_bars(names: Sequence[str], values: Sequence[float]) -> str:
    """A table of names with their probabilities as bars, the first one marked."""
    rows = (
        f'<tr><th scope="row">{escape(name)}</th><td><div class="vd-bar'
        f'{" vd-first" if i == 0 else ""}"><i style="width: {62 * value:.1f}%"></i>'
        f"<b>{100 * value:.1f} %</b></div></td></tr>"
        for i, (name, value) in enumerate(zip(names, values, strict=True))
    )
    return f'<table class="vd-bars">{"".join(rows)}</table>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A plain table that scrolls sideways where it is wider than the window."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="vd-scroll"><table class="vd-table"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def csv_link(header: Sequence[str], rows: Iterable[Sequence], file_name: str) -> str:
    """A link that saves the table as CSV, without another question to the server."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return download_link(buffer.getvalue(), "text/csv", file_name, "Download CSV")


def download_link(text: str, mime: str, file_name: str, label: str) -> str:
    """A link that saves `text` as a file."""
    content = base64.b64encode(text.encode()).decode()
    return (
        f'<a class="vd-download" download="{escape(file_name)}" '
        f'href="data:{mime};charset=utf-8;base64,{content}">{escape(label)}</a>'
    )
