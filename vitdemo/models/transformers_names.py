"""Names of transformers' Vision Transformers (ViT, DeiT, DINOv2), translated into timm's names.

Only tensors and `config.json` are read. No code of transformers is needed or run. Both the names in
files of the Hub and the names in models of transformers 5 are supported.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from vitdemo.errors import ModelError

PATCH_WEIGHT = "embeddings.patch_embeddings.projection.weight"  # a tensor in all of these models
SUPPORTED_TYPES = ("vit", "deit", "dinov2", "dinov2_with_registers")  # `model_type` of a config
# The head of a model with a distillation token is named after the token that it reads.
HEAD_NAMES = {"cls_classifier": "head", "distillation_classifier": "head_dist"}
ACTIVATIONS = {  # `hidden_act` of a config -> timm's name
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
DEFAULT_EPS = {"vit": 1e-12, "deit": 1e-12}  # epsilon of LayerNorm; 1e-6 in DINOv2
_RENAMED = (  # (pattern, replacement), applied in this order
    (r"^embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
    (r"^embeddings\.distillation_token$", "dist_token"),
    (r"^embeddings\.register_tokens$", "reg_token"),
    (r"^embeddings\.position_embeddings$", "pos_embed"),
    (r"^embeddings\.", ""),
    (r"^(?:encoder\.layer|layers)\.", "blocks."),
    (r"^layernorm\.", "norm."),
    (r"\.layernorm_before\.", ".norm1."),
    (r"\.layernorm_after\.", ".norm2."),
    (r"\.attention\.(?:attention\.)?(query|key|value)\.", r".attn.\1."),
    (r"\.attention\.q_proj\.", ".attn.query."),
    (r"\.attention\.k_proj\.", ".attn.key."),
    (r"\.attention\.v_proj\.", ".attn.value."),
    (r"\.attention\.(?:output\.dense|o_proj)\.", ".attn.proj."),
    (r"\.(?:intermediate\.dense|mlp\.weights_in)\.", ".mlp.fc1."),
    (r"\.(?:output\.dense|mlp\.weights_out|mlp\.down_proj)\.", ".mlp.fc2."),
    (r"\.layer_scale(\d)\.lambda1$", r".ls\1.gamma"),
)
# Tensors that timm keeps in one tensor, in this order
_JOINED = (("attn", ("query", "key", "value"), "qkv"), ("mlp", ("gate_proj", "up_proj"), "fc1"))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a transformers model by timm's names, without the prefix "vit."."""
    renamed = {_rename(n): t for n, t in tensors.items() if not n.startswith("pooler.")}
    for part, sources, target in _JOINED:
        pattern = re.compile(rf"(.*\.{part})\.{sources[0]}\.(weight|bias)")
        for match in filter(None, map(pattern.fullmatch, list(renamed))):
            names = [f"{match[1]}.{source}.{match[2]}" for source in sources]
            missing = [name for name in names if name not in renamed]
            if missing:
                raise ModelError(
                    f"The weights have no tensor '{missing[0]}'. The file is incomplete: download "
                    "it again."
                )
            renamed[f"{match[1]}.{target}.{match[2]}"] = torch.cat([renamed.pop(n) for n in names])
    return renamed


def _rename(name: str) -> str:
    for pattern, replacement in _RENAMED:
        name = re.sub(pattern, replacement, name)
    return name


def check_config(config: Mapping[str, Any]) -> None:
    """Raise `ModelError` unless `config` belongs to a supported image classifier or encoder."""
    kind = config.get("model_type")
    named = ", ".join(map(str, config.get("architectures") or [])) or f"model_type '{kind}'"
    if kind not in SUPPORTED_TYPES:
        raise ModelError(
            f"This model is transformers' {named}, which vitdemo cannot open. Choose a ViT, DeiT "
            "or DINOv2."
        )
    for field, value in {"num_channels": 3, "qkv_bias": (True, False)}.items():
        allowed = value if isinstance(value, tuple) else (value,)
        if config.get(field, allowed[0]) not in allowed:
            raise ModelError(
                f"This {named} has {field} {config[field]}; vitdemo opens only models with {value}."
            )
    activation = config.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise ModelError(
            f"This {named} has the unknown activation '{activation}'. Known activations: "
            f"{', '.join(ACTIVATIONS)}."
        )


def get_labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the labels in `config`, in output order; () if there are none or only placeholders.

    Raises `ModelError` if the indices of the labels are not 0 to C-1.
    """
    labels = config.get("id2label") or {}
    try:
        by_index = {int(index): str(label) for index, label in labels.items()}
    except (AttributeError, ValueError) as error:
        raise ModelError(
            "'id2label' in config.json is not a table of class numbers. Correct it."
        ) from error
    if sorted(by_index) != list(range(len(by_index))):
        raise ModelError("Number the classes in 'id2label' of config.json 0, 1, 2, and so on.")
    ordered = tuple(by_index[index] for index in range(len(by_index)))
    placeholders = tuple(f"LABEL_{index}" for index in range(len(ordered)))
    return () if ordered == placeholders else ordered
