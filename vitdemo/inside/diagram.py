"""A model's parts in the order of its pass, with their true sizes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from torch import nn

from vitdemo.attention import reads_class_token
from vitdemo.models import (
    classifier,
    count_parameters,
    is_vision_transformer,
    macs_by_part,
    patches_stand_alone,
    prefix_token_names,
)
from vitdemo.runs import Run
from vitdemo.workbench import Workbench


@dataclass(frozen=True)
class Part:
    """A `kind` of part with its own `sizes`, of which `times` stand one behind the other.

    `parameters` and `macs` (multiply-adds of one picture) are of all of them together.
    """

    kind: str
    parameters: int
    macs: int
    times: int = 1
    sizes: Mapping[str, object] = field(default_factory=dict)


def diagram(workbench: Workbench, run: Run) -> list[Part]:
    """`parts_of` the run's model, counted once. Raises `RunError` where it cannot be loaded."""
    model = workbench.model(run)
    return workbench.cache.get_or_make((diagram, run), lambda: parts_of(model, run.spec.image_size))


def parts_of(model: nn.Module, image_size: int) -> list[Part]:
    """The parts of a Vision Transformer, or the children of a convolutional model: they add up to
    all parameters and multiply-adds of the model for a picture of `image_size` pixels."""
    macs = macs_by_part(model, image_size)
    if is_vision_transformer(model):
        return _transformer(model, macs, image_size)
    return [
        Part(
            "layer",
            count_parameters(child),
            macs.get(name, 0),
            sizes={"name": name, "type": type(child).__name__},
        )
        for name, child in model.named_children()
        if count_parameters(child)
    ]


def _transformer(model: nn.Module, macs: Mapping[str, int], image_size: int) -> list[Part]:
    def part(kind: str, names: Iterable[str], times: int = 1, **sizes) -> Part:
        found = [_own(model, name) for name in names]
        return Part(kind, sum(found), sum(macs.get(name, 0) for name in names), times, sizes)

    def in_blocks(*names: str) -> list[str]:
        return [f"blocks.{i}.{name}" for i in range(layers) for name in names]

    embed, block, layers = model.patch_embed, model.blocks[0], len(model.blocks)
    width, prefix = model.embed_dim, prefix_token_names(model)
    (rows, columns), side = embed.grid_size, embed.patch_size[0]
    heads, C = block.attn.num_heads, classifier_size(model)
    tokens = len(prefix) + rows * columns
    stem = {"image": image_size, "side": side, "rows": rows, "columns": columns, "width": width}
    own = ("cls_token", "dist_token", "reg_token", "pos_embed", "norm_pre")
    answer = "the class token" if reads_class_token(model) else "the mean of the patches"
    return [
        part("patches" if patches_stand_alone(model) else "stem", ["patch_embed"], **stem),
        part("tokens", own, prefix=prefix, patches=rows * columns, tokens=tokens),
        part(
            "attention",
            in_blocks("norm1", "attn", "ls1"),
            layers,
            heads=heads,
            size=block.attn.head_dim,
            tokens=tokens,
        ),
        part(
            "mlp",
            in_blocks("norm2", "mlp", "ls2"),
            layers,
            width=width,
            hidden=block.mlp.fc2.in_features,
        ),
        part("norm", ["norm", "fc_norm"], width=width),
        part("head", ["head", "head_dist"], answer=answer, width=width, classes=C),
    ]


def classifier_size(model: nn.Module) -> int:
    """The number of classes; of a distilled model, of each of its two classifiers."""
    found = classifier(model)
    return (found[0] if isinstance(found, tuple) else found).out_features


def _own(model: nn.Module, name: str) -> int:
    """Parameters of the part `name`, a module or a parameter; 0 where there is none."""
    for step in name.split("."):
        model = getattr(model, step, None)
    if isinstance(model, nn.Parameter):
        return model.numel()
    return count_parameters(model) if isinstance(model, nn.Module) else 0
