"""Matrices in a small binary file that a browser can read without a library.

    b"vdm1", then layers, maps, rows and columns as little-endian uint32, then all values as
    little-endian float16 in C order; or b"vdf1", then the same with float32.

float16 has 11 bits of precision, so the error of an attention weight is below 0.0003.
"""

import struct

import numpy as np
from torch import Tensor

MATRIX_DTYPES = {b"vdm1": "<f2", b"vdf1": "<f4"}
_HEADER = struct.Struct("<4s4I")


def pack_matrices(matrices: Tensor, *, exact: bool = False) -> bytes:
    """Encode `matrices` (L, M, R, C) as float16, or as float32 if `exact`.

    Raises `ValueError` if `matrices` does not have 4 dimensions.
    """
    if matrices.ndim != 4:
        raise ValueError(f"Expected 4 dimensions, not {matrices.ndim}.")
    magic = list(MATRIX_DTYPES)[exact]
    narrow = matrices.float() if exact else matrices.half()
    values = narrow.cpu().numpy().astype(MATRIX_DTYPES[magic], copy=False)  # (L, M, R, C)
    return _HEADER.pack(magic, *values.shape) + values.tobytes()


def unpack_matrices(content: bytes) -> np.ndarray:
    """Decode the content of a matrix file to (L, M, R, C) float32. Raises `ValueError`."""
    if len(content) < _HEADER.size:
        raise ValueError("The file is too short to contain matrices.")
    magic, *shape = _HEADER.unpack_from(content)
    if magic not in MATRIX_DTYPES:
        raise ValueError("The file is not a file of matrices: the first 4 bytes are unknown.")
    values = np.frombuffer(content, MATRIX_DTYPES[magic], offset=_HEADER.size)
    if values.size != np.prod(shape, dtype=np.int64):
        raise ValueError("The file's size does not match its header.")
    return values.reshape(shape).astype(np.float32)
