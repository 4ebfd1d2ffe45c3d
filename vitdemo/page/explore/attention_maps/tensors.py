"""The tensors of the attention view: matrices of each set, and results for all heads and layers.

The functions do not read values of tensors, so the view can be recorded as a graph.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.explain import norms, statistics
from vitdemo.explain.attention import FUSIONS, rollout_steps
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.logit_lens import predict_after_layers
from vitdemo.page import state_keys as keys
from vitdemo.page.graph import (
    Choice,
    Graph,
    Matrices,
    Numbers,
    Outputs,
    Pixels,
    make_choice_input,
    make_flag_input,
    make_number_input,
    trace_crop,
)
from vitdemo.page.view_state import ViewState
from vitdemo.runs import Run

PROBABILITY_DIGITS, STATISTICS_DIGITS, RATIO_DIGITS = 6, 4, 6
ROLLOUT_SETTINGS = (keys.FUSION, keys.DISCARD_RATIO, keys.RESIDUAL, keys.FIRST_LAYER)


@dataclass(frozen=True)
class RolloutSettings:
    """Settings of attention rollout; `first_layer` (1..L) is the first layer of the product.

    Fusion is a name, or an index () of `FUSIONS`. In graphs, all settings are tensors ().
    """

    fusion: str | Tensor = "mean"
    discard_ratio: float | Tensor = 0.0
    residual: bool | Tensor = True
    first_layer: int | Tensor = 1

    @property
    def arguments(self) -> dict:
        """Return the arguments of `rollout_steps`, for settings that are no tensors."""
        return {
            "fusion": self.fusion,
            "discard_ratio": self.discard_ratio,
            "residual": self.residual,
            "start_layer": self.first_layer - 1,
        }


def read_rollout_settings(state: ViewState, max_first_layer: int) -> RolloutSettings:
    return RolloutSettings(
        state[keys.FUSION],
        state[keys.DISCARD_RATIO],
        state[keys.RESIDUAL],
        min(round(state[keys.FIRST_LAYER]), max_first_layer),
    )


def compute_matrices(trace: ImageTrace, settings: RolloutSettings) -> dict[str, Tensor]:
    """Return the matrices (L, H or 1, N, N) of each set. Raises `VitdemoError`."""
    return {
        "head": trace.attention,
        "rollout": compute_rollout(trace, settings)[:, None],
        "similar": trace.token_similarity[:, None],
    }


def compute_rollout(trace: ImageTrace, settings: RolloutSettings) -> Tensor:
    """Return the rollout (L, N, N) after each layer, which is the identity before the first layer.

    Raises `VitdemoError`.
    """
    weights = trace.attention  # (L, H, N, N)
    is_used = torch.arange(1, len(weights) + 1, device=weights.device) >= settings.first_layer
    identity = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    weights = weights.where(is_used[:, None, None, None], identity)
    try:
        return rollout_steps(
            weights[:, None],  # (L, 1, H, N, N)
            fusion=settings.fusion,
            discard_ratio=settings.discard_ratio,
            residual=settings.residual,
            num_prefix_tokens=trace.num_prefix_tokens,
        )[:, 0]
    except ValueError as error:
        raise VitdemoError(str(error)) from error


def average_classifier_rows(heads: Tensor, classifier_rows: slice) -> Tensor:
    """Return the mean (L, H, 1, N) of the classifier's rows of `heads` (L, H, N, N)."""
    return heads[:, :, classifier_rows].mean(2, keepdim=True)


def weigh_heads(attention: Tensor, products: Tensor) -> Tensor:
    """Return the norm-weighted attention (L, H, N, N) of each head."""
    return norms.norms_to_weights(norms.head_norms(attention, products))


def weigh_layers(attention: Tensor, products: Tensor) -> Tensor:
    """Return the norm-weighted attention (L, 1, N, N) of all heads together."""
    return norms.norms_to_weights(norms.summed_head_norms(attention, products))[:, None]


def follow_prediction(model: nn.Module, trace: ImageTrace) -> tuple[Tensor, Tensor]:
    """Return the index () of the predicted class, and its probability (L+1,) after each layer."""
    probabilities = predict_after_layers(model, trace.tokens[:, None])[:, 0]  # (L+1, C)
    predicted = probabilities[-1].argmax()
    return predicted, probabilities.index_select(1, predicted[None])[:, 0]


def compute_outputs(
    context: AppContext,
    run: Run,
    state: ViewState,
    crop: Tensor,
    fusion: Tensor,
    discard_ratio: Tensor,
    residual: Tensor,
    first_layer: Tensor,
) -> Outputs:
    """Compute the data of the view that depend on the image or on the rollout: see `page.graph`."""
    model = context.load_model(run)
    trace = trace_crop(context, run, crop)
    first = first_layer.round().clamp(max=trace.num_layers)
    settings = RolloutSettings(fusion, discard_ratio, residual, first)
    layout = trace.grid, trace.num_prefix_tokens
    distances = statistics.mean_attention_distance(trace.attention, *layout)
    sets = {f"sets.{key}": found for key, found in compute_matrices(trace, settings).items()}
    outputs: Outputs = {
        "distances": Numbers(distances, STATISTICS_DIGITS),
        "entropies": Numbers(statistics.entropy(trace.attention), STATISTICS_DIGITS),
        "seen": Pixels(crop),
        "rollout.fusion": Choice(fusion, FUSIONS),
        "rollout.discard": Numbers(discard_ratio, RATIO_DIGITS),
        "rollout.residual": Numbers(residual),
        "rollout.first": Numbers(first.long()),
    }
    if state[keys.WANTS_NORMS]:
        products = norms.value_products(model, trace.tokens[:, None])[:, 0]
        sets["norms"] = weigh_heads(trace.attention, products)
        outputs["norms.all"] = Matrices(weigh_layers(trace.attention, products))
    for path, matrices in sets.items():
        outputs[f"{path}.files"] = Matrices(matrices)
        rows = average_classifier_rows(matrices, trace.classifier_rows)
        outputs[f"{path}.rows"] = Matrices(rows)
    if run.classes:
        predicted, shares = follow_prediction(model, trace)
        outputs["prediction.class"] = Choice(predicted, run.classes)
        outputs["prediction.shares"] = Numbers(shares, PROBABILITY_DIGITS)
    return outputs


GRAPH = Graph(
    compute_outputs,
    inputs=[
        make_choice_input(keys.FUSION),
        make_number_input(keys.DISCARD_RATIO, keys.DISCARD_RATIO.start),
        make_flag_input(keys.RESIDUAL),
        make_number_input(keys.FIRST_LAYER, keys.FIRST_LAYER.start),
    ],
)
