"""Matrices as a small binary file that a browser reads without a library.

    b"vdm1", then layers, maps, rows and columns as little-endian uint32, then all values as
    little-endian float16, the last dimension fastest; or b"vdf1", and float32.

float16 keeps 11 bits: a share of attention is off by less than 0.0003.
"""

import struct

import numpy as np
from torch import Tensor

TYPES = {b"vdm1": "<f2", b"vdf1": "<f4"}
_HEADER = struct.Struct("<4s4I")


def pack(matrices: Tensor, *, exact: bool = False) -> bytes:
    """(L, M, R, C) -> the file, `exact` in float32.

    Raises `ValueError` for another number of dimensions.
    """
    if matrices.ndim != 4:
        raise ValueError(f"Expected 4 dimensions, not {matrices.ndim}.")
    magic = list(TYPES)[exact]
    narrow = matrices.float() if exact else matrices.half()
    values = narrow.cpu().numpy().astype(TYPES[magic], copy=False)  # (L, M, R, C)
    return _HEADER.pack(magic, *values.shape) + values.tobytes()


def unpack(content: bytes) -> np.ndarray:
    """The file -> (L, M, R, C) float32. Raises `ValueError` for what is no such file."""
    if len(content) < _HEADER.size:
        raise ValueError("The file is too short to hold matrices.")
    magic, *shape = _HEADER.unpack_from(content)
    if magic not in TYPES:
        raise ValueError("The file does not begin as matrices do.")
    values = np.frombuffer(content, TYPES[magic], offset=_HEADER.size)
    if values.size != np.prod(shape, dtype=np.int64):
        raise ValueError("The file does not hold the matrices that its header promises.")
    return values.reshape(shape).astype(np.float32)
