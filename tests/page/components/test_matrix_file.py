"""Packed matrix files: precision, header, and rejection of invalid files."""

import pytest
import torch

from vitdemo.page.components.matrix_file import pack_matrices, unpack_matrices


def test_packed_matrices_are_restored_to_float16_precision():
    matrices = torch.rand(3, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    restored = unpack_matrices(pack_matrices(matrices))
    assert restored.shape == (3, 2, 5, 4)
    assert abs(restored - matrices.numpy()).max() < 3e-4


def test_the_header_is_as_documented():
    content = pack_matrices(torch.tensor([[[[1.0, 0.5]]]]))
    assert content[:4] == b"vdm1"
    assert [int.from_bytes(content[i : i + 4], "little") for i in range(4, 20, 4)] == [1, 1, 1, 2]
    assert content[20:] == bytes([0x00, 0x3C, 0x00, 0x38])  # 1 and 0.5 as IEEE half


@pytest.mark.parametrize("content", [b"", b"vdm1", b"no" + bytes(18), b"vdm1" + b"\x01" * 16])
def test_invalid_files_and_dimensions_are_rejected(content):
    with pytest.raises(ValueError, match="The file"):
        unpack_matrices(content)
    with pytest.raises(ValueError, match="4 dimensions, not 2"):
        pack_matrices(torch.zeros(2, 2))
