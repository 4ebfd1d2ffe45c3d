"""Weights files: read a file, find a model's tensors in the file, and describe mismatches.

Public code saves the same tensors in many layouts: under "state_dict", "model" or "teacher", with
"module." or "backbone." before each name. `find_tensors` finds them by the model's names:

    content = read_weights_file(Path("dino.pth"))  # {"teacher": {"backbone....": ...}, ...}
    tensors = find_tensors(content, model)  # {"cls_token": ..., "blocks.0.norm1.weight": ...}
    check_fit(tensors, model, file="dino.pth")  # raises ModelError for a misfit
"""

import argparse
import math
import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from vitdemo.errors import ModelError

NamedTensors = dict[str, Tensor]

VIT_HEAD_NAMES = ("head", "head_dist")  # timm's names of a Vision Transformer's classifier heads
# Names of parts that a file may contain in addition to the model, such as a decoder
IGNORED_PARTS = (*VIT_HEAD_NAMES, "fc", "classifier", "mask_token", "attn_pool", "pre_logits")
IGNORED_PREFIXES = ("decoder",)
PARTS_BEFORE_HEAD = ("attn_pool", "pre_logits")  # parts that compute the head's input
# torch.compile, FSDP and activation checkpoints can add these wrappers anywhere in a name.
WRAPPER_PATTERN = re.compile(r"(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
# If a file contains several copies of a model, the copy with averaged weights is used, as in timm.
AVERAGED_KEYS, STUDENT_KEYS = ("ema", "teacher", "momentum", "averaged"), ("student", "optimizer")
CLASSES_TEXT, IMAGE_SIZE_TEXT = "{} classes", "an image size of {} px"
MAX_NESTING = 4  # maximum nesting of keys; {"teacher": {"backbone": {...}}} has a nesting of 2
MAX_KEYS_NAMED = 2  # maximum number of listed keys of each kind in a message

_LFS_START = b"version https://git-lfs"
# First bytes of files from torch.save: since torch 1.6, and before torch 1.6
_ZIP_START, _PICKLE_START = b"PK\x03\x04", b"\x80"
_OTHER_KINDS = {  # first bytes -> kind of file
    b"\x89HDF": "an HDF5 file, as Keras writes",
    b"GGUF": "a GGUF file",
    b"\x93NUMPY": "a NumPy array",
    b"\x1f\x8b": "a gzip archive",
    b"\x08": "possibly an ONNX file",
}
# Harmless types that training programs save next to the weights: options, and NumPy's numbers
# (`best_acc`). Each number has a separate type. NumPy 1 and 2 write different names of the
# functions that create a number and an array.
_SAFE_TYPES = [
    argparse.Namespace,
    np.dtype,
    np.ndarray,
    *{type(np.dtype(kind)) for kind in "?bhilqBHILQefd"},
    *(
        (function, f"numpy.{core}.multiarray.{function.__name__}")
        for function in (np.float64().__reduce__()[0], np.zeros(0).__reduce__()[0])
        for core in ("core", "_core")
    ),
]


def read_weights_file(path: Path) -> Mapping[str, Any]:
    """Read the weights file `path`, in the format of safetensors or torch.save.

    Files from torch.save are read with `weights_only=True`, so they cannot run code. Raises
    `ModelError` for a missing or damaged file, another kind of file, or a file with Python objects.
    """
    require_weights_file(path)
    try:
        with open(path, "rb") as file:
            start = file.read(32)
        if start[8:9] == b"{":  # safetensors; checked first, as its length may begin with 0x80
            content = load_file(path)
        elif start.startswith((_ZIP_START, _PICKLE_START)):
            if start.startswith(_ZIP_START):
                _check_zip(path)
            content = _load_torch(path)
        else:
            raise ModelError(
                f"{_describe_file_kind(path, start)} Use a safetensors file or a file from "
                "torch.save."
            )
    except OSError as error:
        raise ModelError(
            f"The weights file '{path}' cannot be read: {error.strerror}. Check its permissions."
        ) from error
    except SafetensorError as error:
        raise ModelError(
            f"The weights file '{path}' is damaged or incomplete ({error}): download it again."
        ) from error
    if not isinstance(content, Mapping):
        raise ModelError(
            f"The weights file '{path}' contains a {type(content).__name__}, not named tensors: "
            "save the model's state_dict()."
        )
    return content


def require_weights_file(weights: Path | str) -> Path:
    """Return `weights` as a path. Raises `ModelError` if this path is not a file."""
    path = Path(weights)
    if path.is_dir():
        raise ModelError(
            f"'{weights}' is a folder, not a weights file. Specify a file in this folder."
        )
    if not path.is_file():
        raise ModelError(f"The weights file '{weights}' does not exist. Check the path.")
    return path


def _describe_file_kind(path: Path, start: bytes) -> str:
    if not start:
        return f"The weights file '{path}' is empty. Download it again."
    if start.startswith(_LFS_START):
        return (
            f"The file '{path}' is a Git LFS pointer, not the weights: download the file with "
            "`git lfs pull`."
        )
    kind = next((kind for first, kind in _OTHER_KINDS.items() if start.startswith(first)), None)
    if kind:
        return f"The file '{path}' is {kind}."
    return f"The file '{path}' is neither a safetensors file nor a file from torch.save."


def has_weights_format(path: Path) -> bool:
    """Return whether the file `path` begins like a weights file."""
    try:
        with open(path, "rb") as file:
            start = file.read(9)
    except OSError:
        return False
    return start[8:9] == b"{" or start.startswith((_ZIP_START, _PICKLE_START, b"\x93NUMPY"))


def _check_zip(path: Path) -> None:
    """Raise `ModelError` with the kind of file for a ZIP archive that is not from torch.save."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return  # torch reports a damaged file
    if any(name.endswith(".npy") for name in names):
        kind = "a NumPy archive (.npz), as Google publishes"
        advice = "Load it with timm and save the model's state_dict()."
    elif any(name.split("/")[1:2] == ["code"] for name in names):
        kind = "a TorchScript program"
        advice = "Save the state_dict() of the original model."
    elif not any(name.endswith("data.pkl") for name in names):
        kind, advice = "a ZIP archive", "Extract it and choose a file in it."
    else:
        return
    raise ModelError(f"The file '{path}' is {kind}, not a file from torch.save. {advice}")


def _load_torch(path: Path) -> Any:
    try:
        # With a path instead of a file object, torch would choose the format by the extension.
        with torch.serialization.safe_globals(_SAFE_TYPES), open(path, "rb") as file:
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"The weights file '{path}' contains Python objects, which could run code when "
            "loaded: save only the model's state_dict(), or use safetensors."
        ) from error
    except Exception as error:  # pickle and zip can raise any exception
        raise ModelError(
            f"The weights file '{path}' is damaged or is not from torch.save: download it again."
        ) from error


def find_tensors(content: Mapping[str, Any], model: nn.Module) -> NamedTensors:
    """Find the tensors of `model` in `content`; return them by the model's names, in float32.

    `content` may be nested and have prefixes before the names. If it contains several copies of the
    model, the copy with the fewest misfits is used. If several copies fit, averaged weights are
    preferred. Tensors without the prefix of the copy are left out.
    """
    expected = model.state_dict()
    anchors = [name for name in expected if not _is_head(name)]
    anchors = sorted(anchors, key=lambda name: "." not in name)[:8]  # prefer dotted names
    layouts = list(iter_layouts(content, anchors))
    if not layouts:
        return upcast_tensors(_strip_wrappers(_select_tensors(content)))
    best = min(layouts, key=lambda found: (_count_mismatches(found.tensors, expected), found.rank))
    return upcast_tensors(best.tensors)


def upcast_tensors(tensors: Mapping[str, Tensor]) -> NamedTensors:
    """Convert the floating-point tensors in `tensors` to float32; keep other tensors."""
    return {name: t.float() if t.is_floating_point() else t for name, t in tensors.items()}


def check_fit(
    tensors: Mapping[str, Tensor], model: nn.Module, *, file: Path | str, with_head: bool
) -> None:
    """Raise `ModelError` with a description of the misfit, unless `tensors` fit `model`."""
    if misfit := describe_misfit(tensors, model, with_head=with_head):
        raise misfit_error(file, misfit)


def misfit_error(file: Path | str, misfit: str) -> ModelError:
    """Return the error for a weights file whose tensors do not fit the model."""
    return ModelError(f"The weights in '{file}' are not of this model: {misfit}. Use another file.")


def describe_misfit(
    tensors: Mapping[str, Tensor], model: nn.Module, *, with_head: bool, resize: bool = False
) -> str:
    """Describe how `tensors` differ from `model` in sizes and names; "" if they fit.

    Args:
        with_head: require that the classifier head fits. Otherwise the head is ignored.
        resize: accept position embeddings of another square grid.
    """
    mismatches = _list_mismatches(tensors, model, with_head, resize)
    if not mismatches:
        return ""
    expected = {name for name in model.state_dict() if not _is_head(name)}
    if not expected & set(tensors):
        return "; ".join(["no tensor name belongs to this model", *mismatches])
    return "; ".join([*_describe_size_mismatches(tensors, model, with_head, resize), *mismatches])


def count_saved_classes(tensors: Mapping[str, Tensor]) -> int:
    """Return the number of classes of the classifier head in `tensors`; 0 without a head."""
    weight = tensors.get("head.weight")
    return len(weight) if weight is not None and weight.ndim == 2 else 0


def drop_extra_tensors(
    tensors: Mapping[str, Tensor], model: nn.Module, *, with_head: bool = False
) -> NamedTensors:
    """Remove known extra parts, such as a decoder, that `model` does not have.

    With the classifier head, a part between the body and the head is kept, because the predictions
    depend on it. Such a part does not fit `model`.
    """
    expected, kept = model.state_dict(), PARTS_BEFORE_HEAD if with_head else ()
    return {
        name: t
        for name, t in tensors.items()
        if name in expected or name.partition(".")[0] in kept or not is_extra_part(name)
    }


def is_extra_part(name: str) -> bool:
    """Return whether a tensor is in a part that a file may contain in addition to the model."""
    first = name.partition(".")[0]
    return first in IGNORED_PARTS or first.startswith(IGNORED_PREFIXES)


def _is_head(name: str) -> bool:
    return name.partition(".")[0] in VIT_HEAD_NAMES


def _list_mismatches(
    tensors: Mapping[str, Tensor], model: nn.Module, with_head: bool, resize: bool
) -> list[str]:
    """Describe tensors with an incorrect shape or type, and missing or unexpected tensors."""
    own = model.state_dict()
    expected = {name: t for name, t in own.items() if with_head or not _is_head(name)}
    shapes = [
        f"'{name}' has shape {_format_shape(tensors[name])}, not {_format_shape(tensor)}"
        for name, tensor in expected.items()
        if name in tensors and tensors[name].shape != tensor.shape
        if not (resize and name == "pos_embed" and _can_resize(tensors[name], model))
    ]
    types = [
        f"'{name}' has numbers of type {str(tensors[name].dtype).removeprefix('torch.')}"
        for name, tensor in expected.items()
        if name in tensors
        if tensor.is_floating_point() and not tensors[name].is_floating_point()
    ]
    missing = [f"'{name}'" for name in expected if name not in tensors]
    kept = PARTS_BEFORE_HEAD if with_head and any(map(_is_head, own)) else ()
    unexpected = [
        f"'{n}'"
        for n in tensors
        if n not in own and (not is_extra_part(n) or n.partition(".")[0] in kept)
    ]
    kinds = (("", shapes), ("", types), ("missing: ", missing), ("unexpected: ", unexpected))
    return [prefix + _join_first(names) for prefix, names in kinds if names]


def _join_first(names: list[str]) -> str:
    rest = len(names) - MAX_KEYS_NAMED
    return ", ".join(names[:MAX_KEYS_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _format_shape(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def _can_resize(positions: Tensor, model: nn.Module) -> bool:
    """Return whether `positions` (1, N, D) have a square grid and the model's width."""
    if _grid_side(positions, model) is None:
        return False
    return positions.shape[-1] == model.pos_embed.shape[-1]


def _grid_side(positions: Tensor, model: nn.Module) -> int | None:
    """Return the side of the square grid of `positions` (1, N, D) in patches, or None."""
    own = getattr(model, "pos_embed", None)
    if positions.ndim != 3 or own is None or own.ndim != 3:
        return None
    prefix = own.shape[1] - math.prod(model.patch_embed.grid_size)
    return find_square_side(positions.shape[1] - prefix)


def find_square_side(count: int) -> int | None:
    """Return the side of a square grid of `count` patches, or None."""
    side = math.isqrt(max(count, 0))
    return side if side and side * side == count else None


def _describe_size_mismatches(
    tensors: Mapping[str, Tensor], model: nn.Module, with_head: bool, resize: bool
) -> list[str]:
    """Describe each size in which `tensors` and `model` differ: "a depth of 3, not 12"."""
    own_sizes, saved_sizes = _infer_sizes(model.state_dict(), model), _infer_sizes(tensors, model)
    positions = tensors.get("pos_embed")
    if positions is not None and resize and _can_resize(positions, model):
        own_sizes.pop(IMAGE_SIZE_TEXT, None)
    if not with_head:
        own_sizes.pop(CLASSES_TEXT, None)
    return [
        f"{text.format(saved_sizes[text])}, not {value}"
        for text, value in own_sizes.items()
        if saved_sizes.get(text, value) != value
    ]


def _infer_sizes(tensors: Mapping[str, Tensor], model: nn.Module) -> dict[str, int]:
    """Return text -> size of the Vision Transformer in `tensors`: {"a depth of {}": 12, ...}."""
    sizes = {}
    if classes := count_saved_classes(tensors):
        sizes[CLASSES_TEXT] = classes
    if blocks := list_block_numbers(tensors):
        sizes["a depth of {}"] = max(blocks) + 1
    norm = tensors.get("norm.weight", tensors.get("fc_norm.weight"))
    if norm is not None:
        sizes["a width of {}"] = norm.shape[0]
    proj, positions = tensors.get("patch_embed.proj.weight"), tensors.get("pos_embed")
    has_pixels = proj is not None and proj.ndim == 4 and proj.shape[1] == 3  # False in a conv stem
    if has_pixels and hasattr(model, "patch_embed"):
        sizes["a patch size of {} px"] = proj.shape[-1]
        if positions is not None and (side := _grid_side(positions, model)):
            sizes[IMAGE_SIZE_TEXT] = side * proj.shape[-1]
    return sizes


def list_block_numbers(tensors: Mapping[str, Tensor]) -> set[int]:
    """Return the numbers of the blocks in the names of `tensors`, from 0."""
    return {int(m[1]) for m in (re.match(r"blocks\.(\d+)\.", name) for name in tensors) if m}


class Layout(NamedTuple):
    """One copy of a model in a weights file.

    `rank` is 0 for averaged weights, and higher for less suitable copies. `tensors` are the tensors
    of the group `around` whose names begin with `prefix`, without the prefix.
    """

    rank: int
    tensors: NamedTensors
    prefix: str
    around: NamedTensors


def iter_layouts(content: Mapping[str, Any], anchors: Sequence[str]) -> Iterator[Layout]:
    """Yield each group of tensors in nested `content` in which a name ends with an anchor."""
    for path, tensors in _iter_nested(content):
        tensors = _strip_wrappers(tensors)
        prefixes = dict.fromkeys(
            name.removesuffix(anchor)
            for anchor in anchors
            for name in tensors
            if name == anchor or name.endswith(f".{anchor}")
        )
        for prefix in prefixes:
            copy = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
            yield Layout(_rank_layout(f"{path}.{prefix}"), copy, prefix, tensors)


def _rank_layout(path: str) -> int:
    keys = re.split(r"[._]", path.lower())
    if any(key in keys for key in AVERAGED_KEYS):
        return 0
    return 2 if any(key in keys for key in STUDENT_KEYS) else 1


def _count_mismatches(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> int:
    """Count the tensors of `expected` that are missing in `tensors` or have another shape."""
    return sum(
        name not in tensors or (name != "pos_embed" and tensors[name].shape != tensor.shape)
        for name, tensor in expected.items()
        if not _is_head(name)
    )


def _iter_nested(
    content: Mapping[str, Any], path: str = "", level: int = 0
) -> Iterator[tuple[str, NamedTensors]]:
    """Yield every group of named tensors in the nested `content`, with the path of its keys."""
    if tensors := _select_tensors(content):
        yield path, tensors
    if level < MAX_NESTING:
        for name, value in content.items():
            if isinstance(value, Mapping) and isinstance(name, str):
                yield from _iter_nested(value, f"{path}.{name}", level + 1)


def _select_tensors(content: Mapping[str, Any]) -> NamedTensors:
    return {n: t for n, t in content.items() if isinstance(n, str) and isinstance(t, Tensor)}


def _strip_wrappers(tensors: Mapping[str, Tensor]) -> NamedTensors:
    return {WRAPPER_PATTERN.sub("", name): tensor for name, tensor in tensors.items()}
