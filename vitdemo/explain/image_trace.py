"""Trace of one image through a Vision Transformer, and results that need only the trace.

traced = context.trace_image(run, image)
traced.head_maps(3).shape  # (H, rows, columns)
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from vitdemo.explain import attention, statistics
from vitdemo.runs import Run


@dataclass(frozen=True)
class ImageTrace:
    """Trace of the image `input_image` (S, S, 3) on a patch `grid` (rows, columns).

    `attention` (L, H, N, N), `tokens` (L+1, N, D) and `logits` (C,) are as in `attention.Trace`,
    `features` (D,) as in `models.features`. Traces are cached and shared, so callers must not
    modify them.
    """

    run: Run
    input_image: np.ndarray
    attention: Tensor
    tokens: Tensor
    logits: Tensor
    features: Tensor
    grid: tuple[int, int]
    prefix_names: tuple[str, ...]  # of the special tokens before the patches
    classifier_rows: slice  # rows of a matrix (N, N): the tokens that the classifier reads

    @property
    def num_prefix_tokens(self) -> int:
        return len(self.prefix_names)

    @property
    def reads_class_token(self) -> bool:
        """True if the classifier reads a class token instead of the mean of the patches."""
        return self.classifier_rows.stop is not None

    @property
    def reader_name(self) -> str:
        """Name of the token whose attention the maps show."""
        return "the class token" if self.reads_class_token else "the average patch"

    @property
    def num_layers(self) -> int:
        return self.attention.shape[0]

    @cached_property
    def distances(self) -> np.ndarray:
        """Mean attention distance of every head in patches, (L, H)."""
        found = statistics.mean_attention_distance(
            self.attention, self.grid, self.num_prefix_tokens
        )
        return found.float().cpu().numpy()

    @cached_property
    def entropies(self) -> np.ndarray:
        """Mean entropy of every head's rows in bits, (L, H)."""
        return statistics.entropy(self.attention).float().cpu().numpy()

    @cached_property
    def token_similarity(self) -> Tensor:
        """Cosine similarity of every two tokens after each layer, (L, N, N)."""
        return statistics.token_similarity(self.tokens[1:])

    def head_maps(self, layer: int) -> np.ndarray:
        """Return the attention of the class token (or average patch) to each patch in layer 1..L.

        The result is per head, (H, rows, columns): what is read in this layer, not before it.
        """
        return self.classifier_maps(self.attention[layer - 1])

    def rollout_map(self, layer: int, *, fusion: str, discard_ratio: float) -> np.ndarray:
        """Return the attention rollout from the first layer to layer 1..L, (rows, columns)."""
        matrix = attention.rollout(
            self.attention[:layer, None],  # (layer, 1, H, N, N)
            fusion=fusion,
            discard_ratio=discard_ratio,
            num_prefix_tokens=self.num_prefix_tokens,
        )  # (1, N, N)
        return self.classifier_maps(matrix)[0]

    def classifier_maps(self, matrices: Tensor) -> np.ndarray:
        """Average the classifier's rows of (B, N, N): a map over patches (B, rows, columns)."""
        maps = attention.classifier_map(matrices, self.num_prefix_tokens, self.classifier_rows)
        return maps.float().cpu().numpy().reshape(-1, *self.grid)
