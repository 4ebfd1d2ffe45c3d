"""What a score is held against: maps that know nothing, of two kinds, and how rare a score is.

Random orders are the null of a map without any structure. Most maps are smooth, though, and a
smooth map takes away whole regions, which may cost an answer more than as many single patches do
wherever they lie: so the second null is the map itself, rotated, flipped and shifted, the same
shape in a place that knows nothing.

Letters: P patches (rows x columns), R draws of a null.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vitdemo.attributions import cells

RANDOM_ORDERS = 40  # each costs two passes a step
SHAPES = 19  # of the second null: the fewest that can say p = 0.05, since each map has its own
FIRST_SHAPES = 5
LEVEL = 0.05


def ranking(values: Tensor, seed: int = 0) -> Tensor:
    """The place 0..P-1 of each patch when the largest of `values` (P,) comes first.

    Ties fall by a drawn lot: from top to bottom would be an order that knows what photos are like.
    """
    if not values.isfinite().all():
        raise ValueError("A map holds NaN or infinity: it has no order.")
    lot = _permutation(len(values), seed)  # (P,)
    order = lot[values[lot].argsort(descending=True, stable=True)]
    return order.argsort()


def random_rankings(count: int, patches: int, seed: int = 0) -> Tensor:
    """(count, P): places in orders that know nothing, the second half the first one reversed.

    A reversed order deletes what the order itself inserts, so that both cost the passes of one, and
    its insertion minus deletion is minus that of the order. A uniformly drawn order's score is as
    likely to be s as -s, so a rank among such pairs is as it would be among draws of their own.
    """
    drawn = [_permutation(patches, seed + 1 + i) for i in range((count + 1) // 2)]
    if not drawn:
        return torch.empty(0, patches, dtype=torch.long)
    drawn = torch.stack(drawn)
    return torch.cat([drawn, patches - 1 - drawn])[:count]


def same_shape(values: Tensor, count: int, seed: int = 0) -> Tensor:
    """(count, rows, columns): `values` (rows, columns) flipped, rotated and shifted at random.

    By up to half a side each way; what comes in continues the edge. (Coming in from the other side
    it would leave a seam, which makes a smooth map rougher and its score less extreme: of smooth
    maps that know nothing 6 to 9% were then called more at a level of 5%, and so 3 to 5% are.)
    A grid that is not square is rotated by half a turn or not at all.
    """
    generator, (rows, columns) = torch.Generator().manual_seed(seed), values.shape
    reach = rows // 2, columns // 2
    wide = F.pad(values[None, None], (reach[1], reach[1], reach[0], reach[0]), mode="replicate")
    choices = (2, 4, 2 * reach[0] + 1, 2 * reach[1] + 1)
    draws = torch.stack([torch.randint(most, (count,), generator=generator) for most in choices], 1)
    return torch.stack([_moved(wide[0, 0], values.shape, *draw) for draw in draws.tolist()])


def _moved(wide: Tensor, size: tuple[int, int], flip: int, turns: int, down: int, right: int):
    """A piece of `size` of a map that was continued beyond its edges, flipped and turned."""
    values = wide[down : down + size[0], right : right + size[1]]
    values = values.flip(1) if flip else values
    return values.rot90(turns if size[0] == size[1] else 2 * (turns % 2))


def rank_p(score: float, null: Tensor) -> float:
    """The share of scores as large as `score` among it and the R of the `null`: (1 + k) / (R + 1).

    Under the null all places are equally likely, so p <= a has a chance of at most a (Davison &
    Hinkley 1997, equation 4.11).
    """
    return (1 + int((null >= score).sum())) / (len(null) + 1)


def staged_p(score: float, draw: Callable[[int, int], Tensor]) -> float:
    """`rank_p` among `SHAPES` draws of a costly null, of which the first few often settle it.

    `draw(count, seed)` gives (count,) scores. Where one of `FIRST_SHAPES` is as large, the rank is
    among these: it is above `LEVEL`, as it would be among all. So p <= 0.05 is said in the same
    cases, and p <= a still has a chance of at most a: up to 1 / (few + 1) no less can be said than
    the rank among all allows, and beyond it than the rank among the few.
    """
    found = draw(FIRST_SHAPES, 0)
    if not (found >= score).any():
        found = torch.cat([found, draw(SHAPES - FIRST_SHAPES, 1)])
    return rank_p(score, found)


def centredness(rows: int, columns: int) -> Tensor:
    """Minus the distance of each patch to the image's centre, (rows, columns)."""
    y = (torch.arange(rows) + 0.5) / rows - 0.5
    x = (torch.arange(columns) + 0.5) / columns - 0.5
    return -torch.hypot(y[:, None], x)


def edge_map(image: Tensor, grid: tuple[int, int]) -> Tensor:
    """Return the mean edge strength of each patch, (rows, columns): a map that no model made.

    The magnitude of the Sobel gradient of the grey image (mean of the channels), averaged over each
    cell of `grid`. `image` is (1, 3, S, S). The border pixels are repeated, so that the border of
    the image is not an edge.
    """
    grey = F.pad(image.float().mean(dim=1, keepdim=True), (1, 1, 1, 1), mode="replicate")
    across = image.new_tensor([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=torch.float32)
    filters = torch.stack([across, across.T])[:, None]  # (2, 1, 3, 3)
    strength = F.conv2d(grey, filters)[0].norm(dim=0).flatten()  # (S*S,)
    cell = cells(*image.shape[-2:], grid, image.device).flatten()  # (S*S,)
    total = strength.new_zeros(math.prod(grid)).index_add(0, cell, strength)
    return (total / cell.bincount(minlength=len(total))).view(grid)


def _permutation(count: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))
