"""Small pieces of HTML for the tabs: pictures with alt text, tables, bars, notices.

Everything that comes from a file or a person is escaped here, so that a class named
`<b>` is shown as what it is. Colours come from gradio's own variables, so light and dark both read.
"""

import base64
import csv
import io
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from PIL import Image

CSS = """
.vd-row { display: flex; flex-wrap: wrap; gap: 12px; align-items: flex-start; }
.vd-row figure { margin: 0; flex: 0 1 var(--vd-width, 150px); min-width: 96px; }
.vd-row figure img { width: 100%; height: auto; display: block; border-radius: 6px;
  image-rendering: pixelated; border: 1px solid var(--border-color-primary); }
.vd-row figcaption { font-size: 13px; line-height: 1.35; margin-top: 4px;
  color: var(--body-text-color); }
.vd-row figcaption small, .vd-quiet { color: var(--body-text-color-subdued); font-size: 12px; }
.vd-card { flex: 1 1 260px; min-width: 0; padding: 12px; border-radius: 8px;
  border: 1px solid var(--border-color-primary); background: var(--background-fill-secondary); }
.vd-card h3 { margin: 0 0 2px; font-size: 15px; overflow-wrap: anywhere; }
.vd-card > p { margin: 0 0 8px; }
.vd-card .vd-row figure { flex-basis: 150px; }
.vd-card .vd-bars { flex: 1 1 150px; }
.vd-bars { width: 100%; border-collapse: collapse; font-size: 13px; }
.vd-bars th { text-align: left; font-weight: 500; padding: 2px 8px 2px 0; white-space: nowrap; }
.vd-bars td { padding: 2px 0; width: 100%; }
.vd-bar { display: flex; align-items: center; gap: 6px; }
.vd-bar i { height: 12px; border-radius: 2px; background: #3b82c4; min-width: 1px; }
.vd-bar.vd-first i { background: #d97706; }
.vd-bar b { font-weight: 500; font-variant-numeric: tabular-nums; white-space: nowrap; }
.vd-scroll { overflow-x: auto; max-width: 100%; }
.vd-table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
.vd-table th, .vd-table td { padding: 5px 10px; text-align: right;
  border-bottom: 1px solid var(--border-color-primary); white-space: nowrap; }
.vd-table thead th { font-weight: 600; color: var(--body-text-color-subdued); }
.vd-table th:first-child { text-align: left; position: sticky; left: 0;
  background: var(--body-background-fill); }
.vd-table tfoot th, .vd-table tfoot td { font-weight: 600; border-bottom: 0; }
.vd-table .vd-bar { justify-content: flex-end; min-width: 150px; }
.vd-table .vd-track { flex: 1; height: 10px; background: var(--border-color-primary);
  border-radius: 2px; overflow: hidden; }
.vd-table .vd-track i { display: block; height: 100%; border-radius: 0; }
.vd-matrix td { text-align: center; min-width: 46px; padding: 8px 6px;
  border: 1px solid var(--body-background-fill); }
.vd-matrix thead th { text-align: center; padding: 5px 6px; }
.vd-notice { padding: 10px 14px; border-left: 4px solid #d97706; border-radius: 4px;
  background: var(--background-fill-secondary); margin: 4px 0; overflow-wrap: anywhere; }
.vd-download { display: inline-block; padding: 6px 14px; border-radius: 6px; font-size: 14px;
  border: 1px solid var(--border-color-primary); background: var(--button-secondary-background-fill);
  color: var(--button-secondary-text-color) !important; text-decoration: none !important; }
.vd-download:focus-visible { outline: 2px solid var(--color-accent); }
.vd-legend { display: flex; align-items: center; gap: 8px; font-size: 12px; margin: 6px 0; }
.vd-legend img { height: 10px; width: 160px; border-radius: 2px; }
#upload img { width: 100%; height: 100%; object-fit: contain; }
.vd-gallery .grid-wrap { height: auto !important; min-height: 0; padding-top: 34px; }
#header, #answers, #heads, #rollout, #per-class, #confusion-matrix { color: var(--body-text-color); }
#header h1 { font-size: 26px; font-weight: 700; }
#confusion-matrix h3 { font-size: 16px; font-weight: 600; margin: 12px 0 4px; }
#confusion-matrix ol { margin: 0; padding-left: 24px; line-height: 1.6; list-style: decimal; }
#per-class p, #confusion-matrix p { margin: 10px 0; }
details.vd-numbers { font-size: 12px; margin-top: 4px; }
details.vd-numbers summary { cursor: pointer; color: var(--body-text-color-subdued); }
details.vd-numbers td { padding: 1px 4px; text-align: right; font-variant-numeric: tabular-nums; }
"""


def image_uri(picture: np.ndarray) -> str:
    """(height, width, 3) uint8 -> a data URI of it as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def figure(picture: np.ndarray, alt: str, caption: str, note: str = "", below: str = "") -> str:
    """A picture (height, width, 3) with its alt text, a caption and a quieter note.

    `below` is HTML that goes under the caption as it is.
    """
    quiet = f" <small>{escape(note)}</small>" if note else ""
    return (
        f'<figure><img src="{image_uri(picture)}" alt="{escape(alt)}">'
        f"<figcaption>{escape(caption)}{quiet}{below}</figcaption></figure>"
    )


def row(items: Iterable[str], width: int = 150) -> str:
    return f'<div class="vd-row" style="--vd-width: {width}px">{"".join(items)}</div>'


def notice(sentence: str) -> str:
    return f'<p class="vd-notice" role="status">{escape(sentence)}</p>'


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


def number_grid(values: np.ndarray, title: str) -> str:
    """The numbers (rows, columns) behind a map, in percent, folded away."""
    rows = (
        "<tr>" + "".join(f"<td>{100 * value:.1f}</td>" for value in line) + "</tr>"
        for line in values
    )
    return (
        f'<details class="vd-numbers"><summary>{escape(title)}</summary>'
        f'<div class="vd-scroll"><table>{"".join(rows)}</table></div></details>'
    )


def csv_link(header: Sequence[str], rows: Iterable[Sequence], file_name: str) -> str:
    """A link that saves the table as CSV, without another question to the server."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    content = base64.b64encode(buffer.getvalue().encode()).decode()
    return (
        f'<a class="vd-download" download="{escape(file_name)}" '
        f'href="data:text/csv;charset=utf-8;base64,{content}">Download CSV</a>'
    )
