"""Matrices as a small binary file that a browser reads without a library.

    b"vdm1", then layers, maps, rows and columns as little-endian uint32, then all values as
    little-endian float16, the last dimension fastest.

float16 keeps 11 bits: a share of attention is off by less than 0.0003.
"""

import struct

import numpy as np
from torch import Tensor

MAGIC = b"vdm1"
_HEADER = struct.Struct("<4s4I")


def pack(matrices: Tensor) -> bytes:
    """(L, M, R, C) -> the file. Raises `ValueError` for another number of dimensions."""
    if matrices.ndim != 4:
        raise ValueError(f"Expected 4 dimensions, not {matrices.ndim}.")
    values = matrices.half().cpu().numpy().astype("<f2", copy=False)  # (L, M, R, C)
    return _HEADER.pack(MAGIC, *values.shape) + values.tobytes()


def unpack(content: bytes) -> np.ndarray:
    """The file -> (L, M, R, C) float32. Raises `ValueError` for what is no such file."""
    if len(content) < _HEADER.size:
        raise ValueError("The file is too short to hold matrices.")
    magic, *shape = _HEADER.unpack_from(content)
    values = np.frombuffer(content, "<f2", offset=_HEADER.size)
    if magic != MAGIC or values.size != np.prod(shape, dtype=np.int64):
        raise ValueError("The file does not hold the matrices that its header promises.")
    return values.reshape(shape).astype(np.float32)
