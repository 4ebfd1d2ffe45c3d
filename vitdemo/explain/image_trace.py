"""Trace of one image through a Vision Transformer, and results computed from only the trace.

traced = context.trace_image(run, image)
traced.head_maps(3).shape  # (H, rows, columns)
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from vitdemo.explain import attention, statistics
from vitdemo.explain.checks import to_numpy
from vitdemo.runs import Run


@dataclass(frozen=True)
class ImageTrace:
    """Attention, tokens, features and logits of one image, from one forward pass.

    `input_image` is (S, S, 3), `grid` contains the rows and columns of patches. `attention`
    (L, H, N, N), `tokens` (L+1, N, D) and `logits` (C,) are as in `forward_pass.Trace`. `features`
    (D,) are the input of the classifier head. Traces are cached, so callers must not modify them.
    """

    run: Run
    input_image: np.ndarray
    attention: Tensor
    tokens: Tensor
    logits: Tensor
    features: Tensor
    grid: tuple[int, int]
    prefix_names: tuple[str, ...]  # names of the special tokens before the patches
    classifier_rows: slice  # indices of the tokens that the classifier reads

    @property
    def num_prefix_tokens(self) -> int:
        return len(self.prefix_names)

    @property
    def reads_class_token(self) -> bool:
        """True if the classifier reads a class token instead of the mean of the patches."""
        return self.classifier_rows.stop is not None

    @property
    def reader_name(self) -> str:
        """Name of the token whose attention `head_maps` returns: class token or average patch."""
        return "the class token" if self.reads_class_token else "the average patch"

    @property
    def num_layers(self) -> int:
        return self.attention.shape[0]

    @cached_property
    def distances(self) -> np.ndarray:
        """Mean attention distance (L, H) of every head, in patches."""
        layout = self.grid, self.num_prefix_tokens
        return to_numpy(statistics.mean_attention_distance(self.attention, *layout))

    @cached_property
    def entropies(self) -> np.ndarray:
        """Mean entropy (L, H) of every head's attention, in bits."""
        return to_numpy(statistics.entropy(self.attention))

    @cached_property
    def token_similarity(self) -> Tensor:
        """Cosine similarity (L, N, N) of every two tokens after each layer."""
        return statistics.token_similarity(self.tokens[1:])

    def head_maps(self, layer: int) -> np.ndarray:
        """Return the attention (H, rows, columns) to each patch in `layer` (1..L), for each head.

        The maps show the class token's attention, or the mean attention of the patches.
        """
        return self.classifier_maps(self.attention[layer - 1])

    def rollout_map(self, layer: int, *, fusion: str, discard_ratio: float) -> np.ndarray:
        """Return the attention rollout (rows, columns) from the first layer to `layer` (1..L)."""
        matrix = attention.rollout(
            self.attention[:layer, None],  # (layer, 1, H, N, N)
            fusion=fusion,
            discard_ratio=discard_ratio,
            num_prefix_tokens=self.num_prefix_tokens,
        )  # (1, N, N)
        return self.classifier_maps(matrix)[0]

    def plain_map(self, source: str, layer: int) -> np.ndarray:
        """Return the "mean" of the heads (rows, columns) in `layer`, or the "rollout" up to it."""
        if source == "rollout":
            return self.rollout_map(layer, fusion="mean", discard_ratio=0.0)
        return self.head_maps(layer).mean(0)

    def classifier_maps(self, matrices: Tensor) -> np.ndarray:
        """Return the mean (B, rows, columns) over the classifier's rows of `matrices` (B, N, N)."""
        maps = attention.classifier_map(matrices, self.num_prefix_tokens, self.classifier_rows)
        return to_numpy(maps).reshape(-1, *self.grid)
