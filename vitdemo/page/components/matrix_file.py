"""Matrices in a small binary file that a browser can read without a library.

    b"vdm1", then layers, maps, rows and columns as little-endian uint32, then all values as
    little-endian float16 in C order; or b"vdf1", then the same with float32.

float16 has 11 bits of precision, so the error of an attention weight is below 0.0003.
"""

import struct

from torch import Tensor


def pack_matrices(matrices: Tensor, *, exact: bool = False) -> bytes:
    """Encode `matrices` (L, M, R, C) as float16, or as float32 if `exact`."""
    magic, dtype = (b"vdf1", "<f4") if exact else (b"vdm1", "<f2")
    narrow = matrices.float() if exact else matrices.half()
    values = narrow.cpu().numpy().astype(dtype, copy=False)  # (L, M, R, C)
    return struct.pack("<4s4I", magic, *values.shape) + values.tobytes()
