"""What the head wall, a patch that is asked, and the rollout workbench show: numbers, no pictures.

All are read from one `Look`, so that they are of one picture and one pass. Layers, heads, rows and
columns count from 1, as they are shown.
"""

import re
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from vitdemo.attention import fuse_heads, rollout, rollout_steps
from vitdemo.explorer import Look

HEAD, MEAN, ROLLOUT = "head", "mean", "rollout"
SOURCES = (HEAD, MEAN, ROLLOUT)
ALL_PATCHES, BOTH = "mean", "both"


@dataclass(frozen=True)
class Token:
    """Who is asked: a patch, a token before the patches, or several tokens together.

    `code` is its name in a page's address: "3,5" (row, column), "t0", "both", or "mean".
    """

    code: str
    name: str
    index: int | slice  # among the N tokens; of a slice, the mean counts
    place: tuple[int, int] | None = None  # row and column of a patch

    @property
    def several(self) -> bool:
        return isinstance(self.index, slice)


@dataclass(frozen=True)
class Asked:
    """One line of an attention matrix: `patches` (rows, columns), and `prefix` (p,) before them."""

    patches: np.ndarray
    prefix: np.ndarray


@dataclass(frozen=True)
class Steps:
    """The rollout after each of `layers`: `maps` (steps, rows, columns), `deviations` (steps,)."""

    layers: range
    maps: np.ndarray
    deviations: np.ndarray  # the largest |sum of a row - 1| in the matrix after each layer


def prefix_tokens(look: Look) -> list[Token]:
    return [Token(f"t{i}", name, i) for i, name in enumerate(look.prefix_names)]


def all_patches(look: Look) -> Token:
    return Token(ALL_PATCHES, "all patches together", slice(look.num_prefix_tokens, None))


def tokens_together(look: Look) -> list[Token]:
    """What can be asked together: of a distilled model the two tokens that answer; the patches."""
    both = Token(BOTH, "both tokens together", look.answer_rows)
    return [both, all_patches(look)] if look.answer_rows.stop == 2 else [all_patches(look)]


def patch(look: Look, row: float, column: float) -> Token:
    """The patch at `row` and `column`, or the nearest that there is."""
    row, column = (
        min(max(round(value or 1), 1), size)
        for value, size in zip((row, column), look.grid, strict=True)
    )
    index = look.num_prefix_tokens + (row - 1) * look.grid[1] + column - 1
    return Token(
        f"{row},{column}", f"the patch in row {row}, column {column}", index, (row, column)
    )


def answering(look: Look) -> Token:
    """What the answer is read from: the class token, both tokens that answer, or all patches."""
    alone = look.answer_rows.stop == 1  # a class token
    return prefix_tokens(look)[0] if alone else tokens_together(look)[0]


def token_of(look: Look, code: str | None) -> Token:
    """The token that `code` names, or the nearest patch; what the answer is read from for no code
    or one that this model does not have."""
    if found := re.fullmatch(r"(\d{1,4}),(\d{1,4})", code or ""):
        return patch(look, int(found[1]), int(found[2]))
    known = {token.code: token for token in (*prefix_tokens(look), *tokens_together(look))}
    return known.get(code) or answering(look)


def wall(look: Look, token: Token, *, incoming: bool = False) -> np.ndarray:
    """One map for every head of every layer, (L, H, rows, columns): see `ask`."""
    line = _line(look, look.attention, token, incoming)[..., look.num_prefix_tokens :]  # (L, H, P)
    return line.reshape(*line.shape[:2], *look.grid)


def wall_order(values: np.ndarray | None, shape: tuple[int, int], *, across: bool) -> np.ndarray:
    """Where each head stands on the wall: (L, H, 2) of layer and head, from 1.

    By `values` (L, H), smallest first, within each layer or `across` them all; in the model's own
    order without values.
    """
    L, H = shape
    places = np.stack(np.mgrid[1 : L + 1, 1 : H + 1], axis=-1)  # (L, H, 2)
    if values is None:
        return places
    if across:
        order = values.reshape(-1).argsort(kind="stable")
        return places.reshape(-1, 2)[order].reshape(L, H, 2)
    order = values.argsort(axis=1, kind="stable")  # (L, H)
    return np.take_along_axis(places, order[..., None], axis=1)


def ask(
    look: Look,
    token: Token,
    *,
    source: str = HEAD,
    layer: int = 1,
    head: int = 1,
    incoming: bool = False,
) -> Asked:
    """What `token` attends to (its row), or with `incoming` who attends to it (its column).

    `source` is one "head" of a layer, the "mean" of its heads, or the "rollout" up to the layer
    (heads averaged, with the residual). Raises `ValueError` for another one.
    """
    if source not in SOURCES:
        raise ValueError(f"Unknown source '{source}': choose one of {', '.join(SOURCES)}.")
    heads = look.attention[layer - 1]  # (H, N, N)
    if source == HEAD:
        matrix = heads[head - 1]  # (N, N)
    elif source == MEAN:
        matrix = fuse_heads(heads)
    else:
        until = look.attention[:layer, None]  # (layer, 1, H, N, N)
        matrix = rollout(until, num_prefix_tokens=look.num_prefix_tokens)[0]
    line = _line(look, matrix, token, incoming)  # (N,)
    p = look.num_prefix_tokens
    return Asked(line[p:].reshape(look.grid), line[:p])


def steps(
    look: Look,
    token: Token,
    *,
    fusion: str = "mean",
    discard_ratio: float = 0.0,
    residual: bool = True,
    first_layer: int = 1,
) -> Steps:
    """What the rollout lets `token` take after each layer from `first_layer` on, 1..L.

    Raises `ValueError` for a setting that `attention.rollout` refuses.
    """
    matrices = rollout_steps(
        look.attention[:, None],  # (L, 1, H, N, N)
        fusion=fusion,
        discard_ratio=discard_ratio,
        residual=residual,
        start_layer=first_layer - 1,
        num_prefix_tokens=look.num_prefix_tokens,
    )[:, 0]  # (steps, N, N)
    line = _line(look, matrices, token, False)[:, look.num_prefix_tokens :]  # (steps, P)
    deviations = (matrices.sum(dim=-1) - 1).abs().amax(dim=-1)  # (steps,)
    layers = range(first_layer, look.layers + 1)
    return Steps(layers, line.reshape(-1, *look.grid), deviations.cpu().numpy())


def _line(look: Look, matrices: Tensor, token: Token, incoming: bool) -> np.ndarray:
    """The token's row, or its column, of each of (..., N, N): (..., N)."""
    along = matrices.mT if incoming else matrices
    line = along[..., token.index, :]  # (..., N), or of several tokens (..., n, N)
    line = line.mean(dim=-2) if token.several else line
    return line.float().cpu().numpy()


def numbers(look: Look) -> list[tuple[int, int, float, float]]:
    """Layer, head, attention distance in patches and entropy in bits, of every head."""
    return [
        (layer + 1, head + 1, float(distance), float(look.entropies[layer, head]))
        for (layer, head), distance in np.ndenumerate(look.distances)
    ]
