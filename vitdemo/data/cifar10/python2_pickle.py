"""Encoder for CIFAR-10's official files, which were written by Python 2's cPickle.

Python 3's pickle writes different bytes for the same content, so the MD5 checksum would
differ. Python 3 uses other module names for numpy, writes unicode, and counts its memo from 0.
"""

from collections.abc import Callable, Sequence
from struct import pack

ITEMS_PER_APPEND = 1000  # list items per append operation of cPickle
ARRAY_GLOBALS = b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy\nndarray\n"
EMPTY_ARRAY_ARGUMENTS = b"K\x00\x85U\x01b\x87R"  # _reconstruct(ndarray, (0,), "b")
ARRAY_VERSION_AND_SHAPE = b"(K\x01M\x10'M\x00\x0c\x86"  # version 1, (10000, 3072)
DTYPE_GLOBAL = b"cnumpy\ndtype\n"
UINT8_ARGUMENTS = b"U\x02u1K\x00K\x01\x87R"
DTYPE_STATE = b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"  # state of the dtype


class _PickleWriter:
    """Writer of protocol 2 opcodes with a memo that counts from 1, like cPickle's."""

    def __init__(self):
        self.content = bytearray(b"\x80\x02")
        self.memo = 0

    def write_memoised(self, code: bytes) -> None:
        """Write the opcodes `code` and store the object that they create in the memo."""
        self.memo += 1
        put = pack("<cB", b"q", self.memo) if self.memo < 256 else pack("<cI", b"r", self.memo)
        self.content += code + put

    def write_text(self, text: str) -> None:
        raw = text.encode()
        self.write_memoised(pack("<cB", b"U", len(raw)) + raw)

    def write_number(self, number: int) -> None:
        self.content += pack("<cB", b"K", number)

    def write_list(self, write: Callable, values: Sequence) -> None:
        self.write_memoised(b"]")
        for start in range(0, len(values), ITEMS_PER_APPEND):
            self.content += b"("
            for value in values[start : start + ITEMS_PER_APPEND]:
                write(value)
            self.content += b"e"


def encode_batch(name: str, pixels: bytes, labels: Sequence[int], names: Sequence[str]) -> bytes:
    """Encode the content of the file `name` ("data_batch_1" to "data_batch_5", "test_batch").

    Args:
        pixels: (10000, 3, 32, 32) uint8, in C order.
        labels, names: class index 0..9 and file name of each of the 10,000 images.
    """
    title = "testing batch 1 of 1" if name == "test_batch" else f"training batch {name[-1]} of 5"
    file = _PickleWriter()
    file.write_memoised(b"}")
    file.content += b"("
    file.write_text("batch_label")
    file.write_text(title)
    file.write_text("labels")
    file.write_list(file.write_number, labels)
    file.write_text("data")
    for code in ARRAY_GLOBALS:
        file.write_memoised(code)
    file.write_memoised(EMPTY_ARRAY_ARGUMENTS)
    file.content += ARRAY_VERSION_AND_SHAPE
    file.write_memoised(DTYPE_GLOBAL)
    file.write_memoised(UINT8_ARGUMENTS)
    file.content += DTYPE_STATE + pack("<cI", b"T", len(pixels)) + pixels + b"tb"
    file.write_text("filenames")
    file.write_list(file.write_text, names)
    return bytes(file.content + b"u.")


def encode_meta(classes: Sequence[str]) -> bytes:
    """Encode the content of the file "batches.meta" with the class names."""
    file = _PickleWriter()
    file.write_memoised(b"}")
    file.content += b"("
    file.write_text("num_cases_per_batch")
    file.content += b"M" + pack("<H", 10_000)
    file.write_text("label_names")
    file.write_list(file.write_text, classes)
    file.write_text("num_vis")
    file.content += b"M" + pack("<H", 3072)
    return bytes(file.content + b"u.")
