"""The device that trains, and what it is good at."""

import ctypes
import os
import threading
import time
from collections.abc import Callable

import torch
from torch import nn

from vitdemo.errors import VitdemoError
from vitdemo.models.vit import ConvEmbed

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
LARGE = 2**20  # bytes of an array that is given back at once
TRIM_SECONDS = 10.0
COMPILE_MODES = ("off", "default", "reduce-overhead", "max-autotune")


def on_zero_gpu() -> bool:
    """Whether this is a Hugging Face Space whose GPU is lent by the second, and only to functions
    that ask for it; elsewhere in such a process CUDA is there in name alone."""
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")  # as `spaces` does


def pick_device(name: str = "auto") -> torch.device:
    """CUDA, else Apple's MPS, else the CPU for "auto"; `VitdemoError` where `name` is absent."""
    found = {
        "cuda": torch.cuda.is_available() and not on_zero_gpu(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(kind for kind, there in found.items() if there))
    if name not in found:
        raise VitdemoError(f"Unknown device '{name}': choose auto, cuda, mps or cpu.")
    if not found[name]:
        raise VitdemoError(f"This machine has no device '{name}': leave out --device, or pass cpu.")
    return torch.device(name)


def autocast_helps(device: torch.device) -> bool:
    """bfloat16 pays where the hardware multiplies it: CUDA, and CPUs with AVX-512 BF16 or AMX.

    Elsewhere it is emulated: a ViT of width 128 trains 3.7 times slower with it than in float32
    (2-core Xeon of the Cascade Lake generation, torch 2.15).
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # private, so absence is fine
    return any(getattr(torch.cpu, probe, bool)() for probe in probes)


def memory_format(model: nn.Module) -> torch.memory_format:
    """The layout of pictures that suits `model`, where it is.

    Convolutions in bfloat16 are faster on pixels whose channels lie together: ResNet-18 trains 60.6
    pictures a second in place of 56.7 on two cores of an EPYC (Genoa). So is the pool of a conv
    stem: a step of a ViT of width 192 with one takes 291 in place of 241 pictures a second, half of
    its patches dropped, on a core of an EPYC (Turin).
    """
    convolutional = any(isinstance(m, (nn.BatchNorm2d, ConvEmbed)) for m in model.modules())
    on_mps = next(model.parameters()).device.type == "mps"
    return torch.channels_last if convolutional and not on_mps else torch.contiguous_format


def fuse_attention(model: nn.Module) -> None:
    """Let `model` train with the attention that is faster where it is: ours, and timm's.

    On the CPU the fused kernel's backward pass is slow in bfloat16: 77 ms in place of 10 for 128
    pictures, 4 heads of 32 and 65 tokens on a core of an EPYC (Genoa), and as fast in float32
    (torch 2.15; benchmarks/LOG.md).
    """
    device = next(model.parameters()).device
    fused = device.type != "cpu" or not autocast_helps(device)
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = fused


def keep_memory() -> None:
    """Let this process keep the memory that it frees, for the next step; where glibc is.

    Large tensors are else given back and asked for again in every step, whose pages the system
    fills with zeros each time: our ConvNet trains 276 pictures a second of processor time in place
    of 245, at a batch of 512 on a core of an EPYC (Genoa; 2026-11-22).
    """
    _set_malloc({_MMAP_THRESHOLD: 2**31 - 1, _TRIM_THRESHOLD: 2**31 - 1})


def give_back_memory() -> None:
    """Let this process give memory back to the system soon after it is freed; where glibc is.

    For a page, which answers for long in many threads: large arrays at once, and every
    `TRIM_SECONDS` the holes between small ones, which else spread over each thread's own heap
    (benchmarks/LOG.md; a round takes 30 ms, in which nobody waits).
    """
    _set_malloc({_MMAP_THRESHOLD: LARGE})
    threading.Thread(target=_trim_on_and_on, name="trim", daemon=True).start()


def _trim_on_and_on() -> None:
    while trim_memory():
        time.sleep(TRIM_SECONDS)


def trim_memory() -> bool:
    """Give all pages back that hold nothing any more; False where there is no glibc to do it."""
    trim = _of_libc("malloc_trim")
    if trim is not None:
        trim(0)
    return trim is not None


def _set_malloc(options: dict[int, int]) -> None:
    mallopt = _of_libc("mallopt")
    if mallopt is not None:
        for option, value in options.items():
            mallopt(option, value)


def _of_libc(name: str) -> Callable | None:
    """A function of the C library; None where it has none of that name."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return None


def choose_compile(device: torch.device, wanted: str = "auto") -> str:
    """A mode of `torch.compile` or "off"; "auto" compiles on CUDA alone.

    On the CPU it gains nothing (benchmarks/LOG.md). Raises `VitdemoError` for an unknown mode.
    """
    if wanted == "auto":
        return "default" if device.type == "cuda" else "off"
    if wanted not in COMPILE_MODES:
        choices = ", ".join(("auto", *COMPILE_MODES))
        raise VitdemoError(f"Unknown compile mode '{wanted}': choose one of {choices}.")
    return wanted


def compiled(function: Callable, mode: str) -> Callable:
    """`function` compiled for one set of shapes; a module comes back as a module over its own."""
    return torch.compile(function, dynamic=False, mode=mode)
