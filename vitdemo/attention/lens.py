"""The logit lens: what the model would say if it stopped after each layer.

The model's own final norm and head read the tokens as each block leaves them (nostalgebraist 2020,
"interpreting GPT: the logit lens"). They were trained on the last layer's tokens alone: what they
say of an earlier layer, and of any single patch under a class-token head, is an approximation.

Letters: B batch, L layers, N tokens (prefix tokens, then P patches), D width, C classes.

    answers, patches = logit_lens(model, trace(model, images).tokens)
    answers[-1]  # (B, C): the model's own probabilities
"""

import torch
from torch import Tensor, nn

from vitdemo.attention import _answer, widen


def logit_lens(model: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Read `tokens` (L+1, B, N, D), those of `trace`, after each layer with the model's own head.

    Returns the probabilities `answers` (L+1, B, C), read as the model reads its answer, and
    `patches` (L+1, B, P, C), each patch read as if it were what the answer is read from; index 0 is
    before the first block.

    `answers` are read from the class token; of a distilled model they average both heads, of an
    average-pooling one they read the mean of the patches. The last ones are the model's answer. A
    patch stands in for every token that the head reads.
    """
    answers = [_answer(model, x) for x in tokens]  # L+1 of (B, C)
    patches = [_patch_logits(model, x) for x in tokens]  # L+1 of (B, P, C)
    return tuple(widen(torch.stack(logits)).softmax(dim=-1) for logits in (answers, patches))


def _patch_logits(model: nn.Module, x: Tensor) -> Tensor:
    prefix = model.num_prefix_tokens
    patches = x[:, prefix:]  # (B, P, D)
    # As many copies as there are prefix tokens and one more: whichever of them the head picks or
    # averages, it reads this patch.
    copies = patches.flatten(0, 1)[:, None].expand(-1, prefix + 1, -1)  # (B*P, prefix+1, D)
    return _answer(model, copies).unflatten(0, patches.shape[:2])  # (B, P, C)
