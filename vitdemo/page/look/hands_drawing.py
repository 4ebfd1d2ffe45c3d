"""The answers before and after a change, and the maps that follow it."""

import numpy as np

from vitdemo.explorer.hands import Changes, Shift, attended
from vitdemo.page import html
from vitdemo.page.components.maps import Panel, Row, peak
from vitdemo.traced import Traced


def shifts_html(shifts: list[Shift], problems: list[str], changes: Changes) -> str:
    """A card a model with its answers before and after, and in words how many changed theirs."""
    if changes.untouched:
        words = "The picture is untouched: change it, and see which answers move."
    else:
        kept = sum(shift.was == shift.now for shift in shifts)
        models = "model keeps its" if len(shifts) == 1 else "models keep their"
        words = f"{kept} of {len(shifts)} {models} answer."
        words += " <small>Thin bars: before. Thick bars: now.</small>"
    cards = "".join(card(shift, "" if changes.untouched else "still ") for shift in shifts)
    return f'<p class="vd-summary" role="status">{words}</p>{cards}{html.notices(problems)}'


def card(shift: Shift, still: str) -> str:
    was, now = html.escape(shift.was), html.escape(shift.now)
    verdict = f"{still}{was}" if was == now else f"{was} → <strong>{now}</strong>"
    rows = "".join(
        shift_row(shift.run.classes[i], shift.before[i], shift.after[i]) for i in shift.classes()
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("before", "now", "points"))
    return (
        f'<section class="vd-card vd-shift"><h3>{html.escape(shift.run.name)}: {verdict}</h3>'
        f"<table><thead><tr><td></td><td></td>{head}</tr></thead>{rows}</table></section>"
    )


def shift_row(name: str, before: float, after: float) -> str:
    """A class with its probability before (thin bar) and now (thick one), and the difference."""
    points = 100 * (float(after) - float(before))
    sign = "±0.0" if abs(points) < 0.05 else f"{points:+.1f}".replace("-", "−")
    moved = "" if abs(points) < 0.05 else " vd-up" if points > 0 else " vd-down"
    return (
        f'<tr><th scope="row">{html.escape(name)}</th>'
        f'<td class="vd-two"><i style="width: {100 * before:.1f}%"></i>'
        f'<i style="width: {100 * after:.1f}%"></i></td>'
        f"<td>{100 * before:.1f} %</td><td>{100 * after:.1f} %</td>"
        f'<td class="vd-points{moved}">{sign}</td></tr>'
    )


def maps_row(before: Traced, after: Traced, layer: int, changes: Changes) -> Row:
    """Mean of the heads of `layer` and rollout up to it, untouched and changed."""
    named = [(after, "")]
    if not changes.untouched:
        named = [(before, ", untouched"), (after, ", changed")]
    span = f"layers 1 to {layer}" if layer > 1 else "layer 1"
    titles = {"mean": f"Mean of the heads, layer {layer}", "rollout": f"Rollout, {span}"}
    panels = [
        map_panel(look, attended(look, layer, by), title + which)
        for by, title in titles.items()
        for look, which in named
    ]
    words = (
        f"The attention of {after.run.name} follows. Bright patches are those that its answer is "
        "gathered from most: where the model looks now, not why it answers."
    )
    return Row(panels, words)


def map_panel(look: Traced, values: np.ndarray, title: str) -> Panel:
    lines = [f"strongest in {peak(values)}"]
    return Panel(title, values, look.seen, f"{look.run.name}: {title}", lines=lines)
