"""Attribution maps that were compared with the methods of the page, but are not among them.

- "libragrad": LibraGrad (Mehri et al. 2024, https://arxiv.org/abs/2411.16760) makes each operation
  of the backward pass locally affine. The authors' code (gradient mode LX1) treats attention
  weights, the standard deviation of LayerNorm and the ratio GELU(x) / x as constants. We have not
  read the paper. As in AttnLRP, the map is the mean over the inputs of all layers.
- "attnlrp-input": the relevance of the tokens before the first layer, as in the paper of AttnLRP.
- "gradient-times-input": the mean over the inputs of all layers, with the true gradient.
- "rank-average": the mean rank of each patch among the maps `AVERAGED`.

Letters: L layers, B batch, N tokens, P patches.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from vitdemo.explain.attributions import cell_grid
from vitdemo.explain.faithfulness.baselines import rank_by_value
from vitdemo.explain.lrp import RelevanceRules, compute_token_relevance

AVERAGED = "attnlrp", "relevance", "gradient_rollout", "grad_cam"


class LibraGradRules(RelevanceRules):
    """Rules of LibraGrad: attention weights are constants."""

    def make_rules(self) -> dict[Callable, Callable[..., Tensor]]:
        constant = {Tensor.softmax: lambda x, dim: x.softmax(dim).detach()}
        return super().make_rules() | constant | {Tensor.matmul: Tensor.matmul}


class NoRules(RelevanceRules):
    """The true gradient."""

    def make_rules(self) -> dict[Callable, Callable[..., Tensor]]:
        return {}


def compute_layers(
    model: nn.Module, image: Tensor, weights: Tensor, rules: type[RelevanceRules]
) -> Tensor:
    """Return the relevance (L, rows, columns) of the patches at the input of each layer."""
    layers = compute_token_relevance(model, image, weights, rules)[:, 0]  # (L, N)
    return layers[:, model.num_prefix_tokens :].unflatten(1, cell_grid(model, image))


def compute_rank_average(
    model: nn.Module, image: Tensor, weights: Tensor, maps: Mapping[str, Tensor]
) -> Tensor:
    ranks = [-rank_by_value(maps[name].flatten().cpu(), seed=0).float() for name in AVERAGED]
    return torch.stack(ranks).mean(0).view_as(maps[AVERAGED[0]])


# Functions of the model, an image (1, 3, S, S), `weights` (1, C) of the logits, and the maps of the
# page's methods. Each returns a map (rows, columns).
CANDIDATES: dict[str, Callable[..., Tensor]] = {
    "libragrad": lambda *given: compute_layers(*given[:3], LibraGradRules).mean(0),
    "attnlrp-input": lambda *given: compute_layers(*given[:3], RelevanceRules)[0],
    "gradient-times-input": lambda *given: compute_layers(*given[:3], NoRules).mean(0),
    "rank-average": compute_rank_average,
}
