"""Curves over epochs, minutes or steps, as plots under one legend; by pointer, tap or slider each
plot says its numbers.

The value that reaches the script; `None` or missing is what there is not:

    {"legend": [{"name", "colour", "lighter" or None, "sign"}, ...],
     "note": str, "problems": [str, ...],
     "x": what the curves are read at, as "epoch"; None: they are not read,
     "plots": [{"title", "label", "sentence", "unit", "x": words of the axis, "steps": [str, ...],
                "whole": only whole numbers on the axis, "log", "zero": a line at 0,
                "range": [low, high], "decimals": int or None (4 digits), "signed",
                "lines": [line, ...], "marks": [{"x", "colour"}, ...],
                "table": {"head": [str, ...], "rows": [[str, ...], ...]}, "note": str}, ...],
     "csv": {"name": of the file, "rows": [[...], ...]}}

and a line {"run", "name", "x": [...], "y": [...], "colour", "dashed", "faint", "sign", "points":
whether each carries a dot, "read": whether its numbers are said, "epochs": [...] or None}.
"""

from vitdemo.page.components import Drawing


class Curves(Drawing):
    """See the module."""
