"""Cells of an image, each with one value of an attribution map: patches, or parts of a grid.

Letters: B batch, P cells (rows x columns), S side in pixels.
"""

import torch
from torch import Tensor, nn

from vitdemo.models.capabilities import has_attention, patch_sides

CELLS_PER_SIDE = 8  # cells per side of the grid for the maps of a model without patches


def cell_grid(model: nn.Module, images: Tensor) -> tuple[int, int]:
    """Return the rows and columns of a Vision Transformer's patch grid.

    For models without patches, return at most `CELLS_PER_SIDE` rows and columns.
    """
    height, width = images.shape[-2:]
    if has_attention(model):
        rows, columns = patch_sides(model.patch_embed)
        return height // rows, width // columns
    return min(CELLS_PER_SIDE, height), min(CELLS_PER_SIDE, width)


def cell_indices(height: int, width: int, grid: tuple[int, int], device: torch.device) -> Tensor:
    """Return the index, 0 to P-1, of the cell that contains each pixel, (height, width)."""
    row = torch.arange(height, device=device) * grid[0] // height
    column = torch.arange(width, device=device) * grid[1] // width
    return row[:, None] * grid[1] + column  # (height, width)


def sum_over_cells(pixels: Tensor, grid: tuple[int, int]) -> Tensor:
    """Sum the values of `pixels` (B, height, width) in each cell: (B, rows, columns)."""
    B, height, width = pixels.shape
    cell = cell_indices(height, width, grid, pixels.device).flatten()  # (height*width,)
    total = pixels.new_zeros(B, grid[0] * grid[1])
    return total.index_add(1, cell, pixels.flatten(1)).unflatten(1, grid)
