"""Parts of a model in the order of the forward pass, with sizes, parameters and cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from torch import nn

from vitdemo.context import AppContext
from vitdemo.explain.forward_pass import reads_class_token
from vitdemo.models import (
    count_macs_by_module,
    count_parameters,
    has_attention,
    has_separate_patches,
    patch_side,
    prefix_token_names,
)
from vitdemo.runs import Run


@dataclass(frozen=True)
class ModelPart:
    """Part of a model, such as the attention of a layer, which occurs `repeats` times in sequence.

    `parameters` and `macs` (multiply-adds per image) are totals over all copies. `sizes` contains
    the dimensions that the page shows for this `kind` of part.
    """

    kind: str
    parameters: int
    macs: int
    repeats: int = 1
    sizes: Mapping[str, object] = field(default_factory=dict)


def load_model_parts(context: AppContext, run: Run) -> list[ModelPart]:
    """Return the cached parts of `run`'s model. Raises `RunError` if its weights are missing."""
    compute = partial(list_model_parts, context.load_model(run), run.spec.image_size)
    return context.cache.get_or_compute((load_model_parts, run), compute)


def list_model_parts(model: nn.Module, image_size: int) -> list[ModelPart]:
    """Return the parts of a Vision Transformer, or the layers of a convolutional model.

    The parts contain all parameters and all multiply-adds for an image of `image_size` pixels.
    """
    macs = count_macs_by_module(model, image_size)
    if has_attention(model):
        return _transformer_parts(model, macs, image_size)
    return [_layer_part(name, child, macs.get(name, 0)) for name, child in _iter_layers(model)]


def _iter_layers(model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """Yield the named child modules of `model`; an `nn.Sequential` is replaced by its children."""
    for name, child in model.named_children():
        inside = child.named_children() if isinstance(child, nn.Sequential) else [("", child)]
        for own, each in inside:
            if count_parameters(each):
                yield f"{name}.{own}".rstrip("."), each


def _layer_part(name: str, module: nn.Module, macs: int) -> ModelPart:
    """Return the model part of `module`, of kind "convolutions", "linear" or "layer"."""
    convolutions = [each for each in module.modules() if isinstance(each, nn.Conv2d)]
    sizes: dict[str, object] = {"name": name, "type": type(module).__name__}
    kind = "layer"
    if convolutions:
        kind = "convolutions"
        sizes |= {"count": len(convolutions), "side": max(c.kernel_size[0] for c in convolutions)}
        sizes |= {"before": convolutions[0].in_channels, "after": convolutions[-1].out_channels}
        # The optimizer updates only parameters, so a weight in a buffer is frozen.
        sizes["is_frozen"] = not isinstance(convolutions[0].weight, nn.Parameter)
    elif isinstance(module, nn.Linear):
        kind = "linear"
        sizes |= {"before": module.in_features, "after": module.out_features}
    return ModelPart(kind, count_parameters(module), macs, sizes=sizes)


def _transformer_parts(
    model: nn.Module, macs: Mapping[str, int], image_size: int
) -> list[ModelPart]:
    def part(kind: str, names: Iterable[str], times: int = 1, **sizes) -> ModelPart:
        starts = tuple(f"{name}." for name in names)
        own = [n for name, n in counts.items() if f"{name}.".startswith(starts)]
        return ModelPart(kind, sum(own), sum(macs.get(name, 0) for name in names), times, sizes)

    def in_blocks(*names: str) -> list[str]:
        return [f"blocks.{i}.{name}" for i in range(layers) for name in names]

    counts = {name: values.numel() for name, values in model.named_parameters()}
    embed, block, layers = model.patch_embed, model.blocks[0], len(model.blocks)
    width, prefix = model.embed_dim, prefix_token_names(model)
    (rows, columns), side = embed.grid_size, patch_side(model)
    heads, C = block.attn.num_heads, model.num_classes
    tokens = len(prefix) + rows * columns
    stem = {"image": image_size, "side": side, "rows": rows, "columns": columns, "width": width}
    own = ("cls_token", "dist_token", "reg_token", "pos_embed", "norm_pre")
    attention = {"heads": heads, "size": block.attn.head_dim, "tokens": tokens}
    *_, last_linear = (each for each in block.mlp.modules() if isinstance(each, nn.Linear))
    mlp = {"width": width, "hidden": last_linear.in_features}
    answer = "the class token" if reads_class_token(model) else "the mean of the patches"
    head = part("head", ("head", "head_dist"), answer=answer, width=width, classes=C)
    return [
        part("patches" if has_separate_patches(model) else "stem", ["patch_embed"], **stem),
        part("tokens", own, prefix=prefix, patches=rows * columns, tokens=tokens),
        part("attention", in_blocks("norm1", "attn", "ls1"), layers, **attention),
        part("mlp", in_blocks("norm2", "mlp", "ls2"), layers, **mlp),
        part("norm", ["norm", "fc_norm"], width=width),
        *([head] if C else []),
    ]
