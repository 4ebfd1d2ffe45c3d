"""Line plots over epochs, minutes or steps, with one legend and a readout at the pointer.

The script receives the following value; optional keys are missing or None:

    {"legend": [{"name", "colour", "lighter" or None, "sign"}, ...],
     "note": str, "problems": [str, ...],
     "x": unit of the reading slider, as "epoch"; None: no slider,
     "plots": [{"title", "label", "sentence", "unit", "x": axis label, "steps": [str, ...],
                "whole": only integer ticks, "log", "zero": draw a line at 0,
                "range": [low, high], "decimals": int or None (4 significant digits), "signed",
                "lines": [line, ...], "marks": [{"x", "colour"}, ...],
                "table": {"head": [str, ...], "rows": [[str, ...], ...]}, "note": str}, ...],
     "csv": {"name": file name, "rows": [[...], ...]}}

A line is {"run", "name", "x": [...], "y": [...], "colour", "dashed", "faint", "sign", "points":
draw a dot at every point, "read": include it in the readings, "epochs": [...] or None}.
"""

from vitdemo.page.components import View


class CurvesView(View):
    """Line plots with one legend, a readout and a CSV export."""
