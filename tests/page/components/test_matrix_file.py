"""Packed matrix files, read as their documentation describes them."""

import numpy as np
import torch

from vitdemo.page.components.matrix_file import pack_matrices


def unpack_matrices(content: bytes) -> np.ndarray:
    """Decode the content of a matrix file to (L, M, R, C)."""
    dtype = {b"vdm1": "<f2", b"vdf1": "<f4"}[content[:4]]
    return np.frombuffer(content[20:], dtype).reshape(np.frombuffer(content[4:20], "<u4"))


def test_packed_matrices_are_restored_to_float16_precision():
    matrices = torch.rand(3, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    restored = unpack_matrices(pack_matrices(matrices))
    assert restored.shape == (3, 2, 5, 4) and restored.dtype == np.float16
    assert abs(restored - matrices.numpy()).max() < 3e-4
