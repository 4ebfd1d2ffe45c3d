"""Figures of attention maps for printing; the page draws the same maps on a canvas.

Letters: S side of an image, H heads, rows and columns of a patch grid.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vitdemo.figures import SEQUENTIAL_COLOURMAP

MAP_OPACITY = 0.6
GRID_LINE_COLOUR = "#ffffff"


def draw_map(axes: Axes, image: np.ndarray, values: np.ndarray | None, title: str) -> None:
    """Draw a map (rows, columns), scaled to its maximum, over the `image` (S, S, 3)."""
    side = len(image)
    axes.imshow(image, interpolation="nearest")
    if values is not None:
        style = {"cmap": SEQUENTIAL_COLOURMAP, "vmin": 0, "vmax": float(values.max()) or 1.0}
        extent = (-0.5, side - 0.5, side - 0.5, -0.5)
        axes.imshow(values, **style, alpha=MAP_OPACITY, extent=extent)
    axes.set_title(title, fontsize=8, parse_math=False)
    axes.set_axis_off()


def plot_map_row(image: np.ndarray, maps: Sequence[tuple[str, np.ndarray | None]]) -> Figure:
    """Draw a row of maps with their titles, each over the `image` (S, S, 3)."""
    figure = Figure(figsize=(1.7 * len(maps), 1.95), layout="constrained")
    row = figure.subplots(1, len(maps), squeeze=False)[0]
    for axes, (title, values) in zip(row, maps, strict=True):
        draw_map(axes, image, values, title)
    return figure


def plot_head_grid(image: np.ndarray, layers: Mapping[str, np.ndarray]) -> Figure:
    """Draw the maps (H, rows, columns) of several layers, one column per layer."""
    heads = len(next(iter(layers.values())))
    figure = Figure(figsize=(1.1 * len(layers), 1.2 * heads), layout="constrained")
    grid = figure.subplots(heads, len(layers), squeeze=False)
    for column, (title, maps) in enumerate(layers.items()):
        for head, values in enumerate(maps):
            draw_map(grid[head, column], image, values, f"{title}, head {head + 1}")
    return figure


def plot_input(image: np.ndarray) -> Figure:
    """Draw the `image` (S, S, 3) without a grid, so that students can draw the patches."""
    figure = Figure(figsize=(3.2, 3.2), layout="constrained")
    draw_map(figure.subplots(), image, None, f"{len(image)} x {len(image)} pixels")
    return figure


def plot_patch_grid(image: np.ndarray, rows: int, columns: int) -> Figure:
    """Draw the `image` (S, S, 3) with lines between the patches and a number in each patch."""
    figure = Figure(figsize=(3.2, 3.2), layout="constrained")
    axes = figure.subplots()
    draw_map(axes, image, None, f"{rows} x {columns} patches")
    height, width = len(image) / rows, len(image) / columns
    for i in range(1, rows):
        axes.axhline(i * height - 0.5, color=GRID_LINE_COLOUR, linewidth=0.8)
    for j in range(1, columns):
        axes.axvline(j * width - 0.5, color=GRID_LINE_COLOUR, linewidth=0.8)
    for number in range(rows * columns):
        row, column = divmod(number, columns)
        position = ((column + 0.08) * width - 0.5, (row + 0.08) * height - 0.5)
        axes.text(*position, str(number + 1), color=GRID_LINE_COLOUR, fontsize=4.5, va="top")
    return figure
