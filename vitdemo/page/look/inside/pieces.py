"""Pieces of HTML that several parts share: captions, folded numbers, cells that read well."""

from vitdemo.figures import inside as figures
from vitdemo.page import html

MINUS = "\N{MINUS SIGN}"


def caption(sentence: str, label: str = "") -> str:
    """What is drawn and what it cannot say; `label` is a word before it, set apart."""
    badge = f'<b class="vd-badge">{html.escape(label)}</b> ' if label else ""
    return f'<p class="vd-quiet vd-said">{badge}{html.escape(sentence)}</p>'


def folded(title: str, content: str) -> str:
    return f'<details class="vd-numbers"><summary>{html.escape(title)}</summary>{content}</details>'


def paint(colour: str) -> str:
    """The style of a cell of "#rrggbb", its text black or white."""
    return f"background: {colour}; color: {figures.ink_on(colour)}"


def signed(value: float, digits: int = 2) -> str:
    """+0.25 or −0.25, and 0.00 for what rounds to it."""
    text = f"{abs(value):.{digits}f}"
    if not float(text):
        return text
    return ("+" if value > 0 else MINUS) + text


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
