"""Choice of the training device, and settings that make training fast on it."""

import ctypes
import os
import threading
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from vitdemo.errors import VitdemoError
from vitdemo.models.capabilities import has_overlapping_convolutions

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # constants from glibc's malloc.h
MAX_RETAINED_BYTES = 2**20  # memory of larger arrays is returned to the system immediately
TRIM_INTERVAL = 10.0  # seconds between two calls of `trim_memory`
COMPILE_MODES = ("off", "default", "reduce-overhead", "max-autotune")


def is_zero_gpu() -> bool:
    """Return whether this is a Hugging Face Space with ZeroGPU.

    In such a Space, only functions that request the GPU can use CUDA, although torch always reports
    CUDA.
    """
    # This test is the same as in the package `spaces`.
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def choose_device(name: str = "auto") -> torch.device:
    """Return the device; "auto" is CUDA, else MPS, else the CPU. Raises `VitdemoError`."""
    available = {
        "cuda": torch.cuda.is_available() and not is_zero_gpu(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(kind for kind, is_available in available.items() if is_available))
    if name not in available:
        raise VitdemoError(f"Unknown device '{name}': choose auto, cuda, mps or cpu.")
    if not available[name]:
        raise VitdemoError(
            f"The device '{name}' is not available on this computer: omit --device, or choose cpu."
        )
    return torch.device(name)


def supports_fast_bfloat16(device: torch.device) -> bool:
    """Return whether bfloat16 is faster than float32 on `device`.

    The faster devices are GPUs with bfloat16, and CPUs with AVX-512 BF16 or AMX. Other hardware
    emulates bfloat16. A ViT of width 128 then trains 3.7 times slower than in float32 (2-core Xeon,
    Cascade Lake, torch 2.15).
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # private functions of torch
    return any(getattr(torch.cpu, probe, bool)() for probe in probes)


def use_fast_precision(device: torch.device) -> torch.autocast:
    """Return a context in which models on `device` use bfloat16 if it is faster than float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=supports_fast_bfloat16(device))


def choose_memory_format(model: nn.Module) -> torch.memory_format:
    """Return the image memory format with which `model` trains fastest on its device.

    Convolutions in bfloat16 are faster with channels last than with the contiguous format. With
    channels last, ResNet-18 trains on 60.6 instead of 56.7 images per second (two cores of an EPYC
    Genoa). The max-pool of a conv stem is also faster. With channels last, a ViT with a conv stem
    trains on 291 instead of 241 images per second. (Measured on one core of an EPYC Turin, width
    192, PatchDropout 0.5.)
    """
    convolutional = has_overlapping_convolutions(model)
    on_mps = next(model.parameters()).device.type == "mps"
    return torch.channels_last if convolutional and not on_mps else torch.contiguous_format


def choose_fused_attention(model: nn.Module) -> None:
    """Set `model` to fused or explicit attention, whichever trains faster on its device.

    This works for vitdemo's and timm's models. On the CPU, the backward pass of the fused kernel is
    slow in bfloat16: 77 ms, compared with 10 ms for explicit attention. In float32, both kinds are
    equally fast. The times are for 128 images, 4 heads of dimension 32 and 65 tokens (one core of
    an EPYC Genoa, torch 2.15; benchmarks/log/2026-11-21-cpu.md).
    """
    device = next(model.parameters()).device
    fused = device.type != "cpu" or not supports_fast_bfloat16(device)
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = fused


def retain_freed_memory() -> None:
    """Keep freed memory in this process for the next step (only with glibc).

    Otherwise, every step returns the memory of large tensors to the system, which fills it with
    zeros for the next step. With this setting, `ConvNet` trains on 276 instead of 245 images per
    second of CPU time. (Measured 2026-11-22 on one core of an EPYC Genoa, batch size 512.)
    """
    _call_libc("mallopt", _MMAP_THRESHOLD, 2**31 - 1)
    _call_libc("mallopt", _TRIM_THRESHOLD, 2**31 - 1)


def release_freed_memory() -> None:
    """Return freed memory to the system soon (only with glibc).

    The page needs this because it runs for a long time with many threads. Memory of large arrays is
    returned immediately. Free space between small arrays is returned every `TRIM_INTERVAL` seconds,
    because this space otherwise grows in each thread's heap (benchmarks/log/2026-11-24-cpu.md). A
    trim takes 30 ms in a background thread.
    """
    _call_libc("mallopt", _MMAP_THRESHOLD, MAX_RETAINED_BYTES)
    threading.Thread(target=_trim_periodically, name="trim", daemon=True).start()


def _trim_periodically() -> None:
    while trim_memory():
        time.sleep(TRIM_INTERVAL)


def trim_memory() -> bool:
    """Give all free memory pages back to the system; return False without glibc."""
    return _call_libc("malloc_trim", 0)


def _call_libc(name: str, *arguments: int) -> bool:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # no glibc on this system
        return False
    function(*arguments)
    return True


def choose_compile_mode(device: torch.device, mode: str = "auto") -> str:
    """Return a mode of `torch.compile` or "off"; "auto" compiles only on CUDA.

    On the CPU, compilation does not make training faster (benchmarks/log/2026-11-22-cpu.md).
    Raises `VitdemoError` if the mode is unknown.
    """
    if mode == "auto":
        return "default" if device.type == "cuda" else "off"
    if mode not in COMPILE_MODES:
        choices = ", ".join(("auto", *COMPILE_MODES))
        raise VitdemoError(f"Unknown compile mode '{mode}': choose one of {choices}.")
    return mode


def compile_static(function: Callable, mode: str) -> Callable:
    """Compile `function` for static shapes; a module becomes a wrapper with the same weights."""
    return torch.compile(function, dynamic=False, mode=mode)


def get_random_state(device: torch.device) -> list[Tensor]:
    """Return the states of torch's global generators on the CPU and, if different, on `device`."""
    states = [torch.get_rng_state()]
    if device.type != "cpu":
        states.append(torch.get_device_module(device).get_rng_state())
    return states


def set_random_state(device: torch.device, states: list[Tensor]) -> None:
    """Restore the states of `get_random_state`; ignore the state of another kind of device."""
    torch.set_rng_state(states[0].cpu())
    if device.type != "cpu" and len(states) > 1:
        torch.get_device_module(device).set_rng_state(states[1].cpu())
