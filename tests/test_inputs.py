"""What comes out of a file is right to the pixel, or one sentence says why nothing comes out."""

import io
import random
import resource
import struct
import sys
import time
import zlib

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageFile

from vitdemo import inputs
from vitdemo.errors import ImageError
from vitdemo.inputs import load_image, square_crop, to_uint8

COLOUR = (200, 100, 50)
HAS_AVIF = "AVIF" in inputs.FORMATS
HAS_HEIF = "HEIF" in inputs.FORMATS


@pytest.fixture
def put(tmp_path):
    """put(picture or bytes, name) -> path of the file; keywords go to Pillow's `save`."""

    def write(content, name, **options):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content.save(path, **options)
        return path

    return write


def plain(colour=COLOUR, size=(16, 16)):
    return Image.new("RGB", size, colour)


def pixels(path):
    image = load_image(path)
    assert type(image) is Image.Image and image.mode == "RGB" and not image.info
    return np.asarray(image).astype(int)  # (H, W, 3)


def refusal(path):
    """The message of the refusal, after checking that a person can read it."""
    with pytest.raises(ImageError) as caught:
        load_image(path)
    message = str(caught.value)
    assert "\n" not in message and message.endswith(".") and message.count(". ") == 0
    assert path.name in message and str(path.parent) not in message
    return message


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def chunk(kind, content):
    check = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + check


def png(width, height, bits, colour_type, rows=b"", extra=b""):
    """A PNG by hand, for what Pillow does not write."""
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, 0)
    body = chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def tiff(tags, data):
    """A little-endian TIFF by hand: {tag: (type, values)}; offsets count from the data's start."""
    start = 8 + 2 + 12 * len(tags) + 4
    extra = sum(4 * len(values) for _, values in tags if len(values) > 1)
    entries, blob = b"", b""
    for tag, values in tags:
        if tag in (273, 324):
            values = [value + start + extra for value in values]
        packed = struct.pack(f"<{len(values)}I", *values)
        where = packed if len(values) == 1 else struct.pack("<I", start + len(blob))
        blob += packed if len(values) > 1 else b""
        entries += struct.pack("<HHI", tag, 4, len(values)) + where
    head = struct.pack("<2sHIH", b"II", 42, 8, len(tags))
    return head + entries + bytes(4) + blob + data


def big_tiff():
    """One black pixel, in the variant for files over 4 GB; Pillow 11.0 does not write it."""
    tags = {256: 1, 257: 1, 258: 8, 259: 1, 262: 1, 273: 0, 277: 1, 278: 1, 279: 1}
    entries = b"".join(struct.pack("<HHQQ", tag, 4, 1, value) for tag, value in tags.items())
    return struct.pack("<2sHHHQQ", b"II", 43, 8, 0, 16, len(tags)) + entries + bytes(8)


def grey_tiff(values, bits, *, photometric=1, sample_format=1):
    height, width = values.shape
    tags = [(256, [width]), (257, [height]), (258, [bits]), (259, [1]), (262, [photometric])]
    tags += [(273, [0]), (277, [1]), (278, [height]), (279, [values.nbytes])]
    return tiff([*tags, (339, [sample_format])], values.tobytes())


@pytest.mark.parametrize(
    ("mode", "name", "tolerance"),
    [
        ("RGB", "a.png", 0),
        ("RGB", "a.bmp", 0),
        ("RGB", "a.ppm", 0),
        ("RGB", "a.tif", 0),
        ("RGB", "a.jpg", 3),
        ("RGB", "a.webp", 3),
        ("RGBA", "a.png", 0),
        ("CMYK", "a.tif", 1),
        ("CMYK", "a.jpg", 3),
        ("YCbCr", "a.jpg", 3),
        ("LAB", "a.tif", 2),
    ],
)
def test_colour_survives_its_mode(put, mode, name, tolerance):
    got = pixels(put(plain().convert(mode), name))
    assert got.shape == (16, 16, 3) and abs(got - COLOUR).max() <= tolerance


@pytest.mark.parametrize(("mode", "name"), [("P", "a.png"), ("P", "a.gif"), ("PA", "a.tif")])
def test_palette(put, mode, name):
    assert (pixels(put(plain().quantize(4).convert(mode), name)) == COLOUR).all()


def test_compressed_ycbcr_tiff(put):
    path = put(plain().convert("YCbCr"), "a.tif", compression="tiff_lzw")
    assert abs(pixels(path) - COLOUR).max() <= 2


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.gif", "a.bmp", "a.pgm"])
def test_grey(put, name):
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert (pixels(put(Image.fromarray(ramp), name)) == ramp[..., None]).all()


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.bmp", "a.pbm"])
def test_one_bit(put, name):
    board = np.indices((9, 9)).sum(0) % 2 == 0
    assert (pixels(put(Image.fromarray(board), name)) == 255 * board[..., None]).all()


def test_adobe_cmyk_jpeg_is_not_a_negative(put):
    path = put(Image.new("CMYK", (8, 8), (0, 0, 0, 0)), "paper.jpg")
    assert b"Adobe" in path.read_bytes()
    assert pixels(path).min() >= 253


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (Image.new("RGBA", (2, 2), (255, 0, 0, 0)), (255, 255, 255)),
        (Image.new("RGBA", (2, 2), (200, 100, 0, 51)), (244, 224, 204)),  # 51 is a fifth
        (Image.new("LA", (2, 2), (0, 51)), (204, 204, 204)),
    ],
)
@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_alpha_lies_over_white(put, image, expected, name):
    assert (pixels(put(image, name)) == expected).all()


def test_palette_with_alpha_lies_over_white(put):
    image = Image.new("PA", (2, 1))
    image.putpalette([10, 20, 30])
    image.putdata([(0, 0), (0, 255)])
    assert pixels(put(image, "a.tif")).tolist() == [[[255] * 3, [10, 20, 30]]]


@pytest.mark.parametrize("transparency", [0, b"\x00\xff"])
@pytest.mark.parametrize("name", ["a.png", "a.gif"])
def test_transparent_palette_entry_lies_over_white(put, transparency, name):
    if name == "a.gif" and isinstance(transparency, bytes):
        pytest.skip("a GIF has one transparent entry")
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putdata([0, 1])
    path = put(image, name, transparency=transparency)
    assert pixels(path).tolist() == [[[255] * 3, [40, 50, 60]]]


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_transparent_colour_lies_over_white(put, mode):
    image = Image.new(mode, (2, 1), (7, 7, 7)[: len(mode)] if mode == "RGB" else 7)
    image.putpixel((1, 0), (9, 9, 9) if mode == "RGB" else 9)
    path = put(image, "a.png", transparency=(7, 7, 7) if mode == "RGB" else 7)
    assert pixels(path)[0, :, 0].tolist() == [255, 9]


SIXTEEN = np.array([[0, 257, 128 * 257, 65535]], np.uint16)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
def test_16_bit_grey_keeps_its_range(put, name):
    path = put(Image.fromarray(SIXTEEN), name)
    assert pixels(path)[0, :, 0].tolist() == [0, 1, 128, 255]


@pytest.mark.parametrize("name", ["dim.png", "dim.tif", "dim.pgm"])
def test_16_bit_grey_is_not_stretched(put, name):
    assert (pixels(put(Image.fromarray(SIXTEEN // 257), name)) <= 1).all()


def test_16_bit_png_with_a_transparent_value(put):
    rows = b"\0" + SIXTEEN.astype(">u2").tobytes()
    path = put(png(4, 1, 16, 0, rows, chunk(b"tRNS", struct.pack(">H", 257))), "a.png")
    assert pixels(path)[0, :, 0].tolist() == [0, 255, 128, 255]


def test_16_bit_colour_png(put):
    rows = b"\0" + struct.pack(">3H", *(257 * value for value in COLOUR))
    assert pixels(put(png(1, 1, 16, 2, rows), "a.png")).tolist() == [[list(COLOUR)]]


def test_16_bit_tiff_where_white_is_zero(put):
    path = put(grey_tiff(SIXTEEN, 16, photometric=0), "a.tif")
    assert pixels(path)[0, :, 0].tolist() == [255, 254, 127, 0]


def test_12_bit_tiff_spans_4095(put):
    packed = np.frombuffer(bytes.fromhex("000fff800800"), np.uint8).reshape(1, 6)
    content = bytearray(grey_tiff(packed, 12))
    content[8 + 2 + 8 : 8 + 2 + 12] = struct.pack("<I", 4)  # four samples in the six bytes
    assert pixels(put(bytes(content), "a.tif"))[0, :, 0].tolist() == [0, 255, 128, 128]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 100, 255], [0, 100, 255]),  # 0..255
        ([0, 32768, 65535], [0, 128, 255]),  # 0..65535
        ([0, 1, 1], [0, 255, 255]),  # a mask
        ([-1000, 0, 1000], [0, 128, 255]),  # its own range
        ([70000, 70000, 70000], [0, 0, 0]),
    ],
)
def test_32_bit_integer_tiff(put, values, expected):
    path = put(Image.fromarray(np.array([values], np.int32)), "a.tif")
    assert pixels(path)[0, :, 0].tolist() == expected


def test_unsigned_32_bit_tiff(put):
    path = put(grey_tiff(np.array([[0, 2**31, 2**32 - 1]], np.uint32), 32), "a.tif")
    assert pixels(path)[0, :, 0].tolist() == [0, 128, 255]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 0.5, 1], [0, 128, 255]),
        ([0, 0.5, 0.5], [0, 128, 128]),  # not stretched
        ([0, 100, 255], [0, 100, 255]),
        ([0, 0.51, 1.02], [0, 128, 255]),  # not nearly black
        ([-3e38, 0, 3e38], [0, 128, 255]),
        ([0, 1e-45, 1e-45], [0, 255, 255]),
        ([np.nan, -np.inf, np.inf, 0.2, 1], [0, 0, 255, 51, 255]),
        ([np.nan, np.nan], [0, 0]),
    ],
)
def test_float_tiff(put, values, expected):
    path = put(Image.fromarray(np.array([values], np.float32)), "a.tif")
    assert pixels(path)[0, :, 0].tolist() == expected


def test_signalling_nan_does_not_warn(put):
    values = np.array([[0x7F800001, 0x3F800000]], np.uint32)  # NaN, 1.0
    path = put(grey_tiff(values, 32, sample_format=3), "a.tif")
    assert pixels(path)[0, :, 0].tolist() == [0, 255]


CORNERS = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[9, 9, 9]] * 3], np.uint8)
STORED = {  # EXIF orientation -> how a camera stores the upright picture (EXIF 2.32, 4.6.4)
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a),  # needs a quarter turn clockwise to stand upright
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a, -1),
}


EXACTLY = {  # how to keep the pixels
    "a.png": {},
    "a.tif": {},
    "a.webp": {"lossless": True},
    "a.jpg": {"quality": 95, "subsampling": 0},
    "a.avif": {"quality": 100, "subsampling": "4:4:4"},
}


@pytest.mark.parametrize("name", EXACTLY)
@pytest.mark.parametrize("orientation", STORED)
def test_exif_orientation(put, orientation, name):
    if name == "a.avif" and not HAS_AVIF:
        pytest.skip("this Pillow reads no AVIF")
    upright = np.kron(CORNERS, np.ones((16, 16, 1), np.uint8))  # blocks that JPEG keeps
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](upright)))
    got = pixels(put(stored, name, exif=exif, **EXACTLY[name]))
    assert got.shape == upright.shape and abs(got - upright).max() <= 5


@pytest.mark.skipif(not HAS_HEIF, reason="pillow-heif is not here")
@pytest.mark.parametrize("orientation", STORED)
def test_a_photo_of_a_phone_stands_upright(put, orientation):
    upright = np.kron(CORNERS, np.ones((32, 32, 1), np.uint8))
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](upright)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.info["exif"] = exif.tobytes()  # written as `irot` and `imir`
    got = pixels(put(stored, "a.heic", quality=100, chroma=444))
    assert got.shape == upright.shape and abs(got - upright).max() <= 10


def test_broken_exif_does_not_spoil_a_picture(put):
    path = put(plain(), "a.png", exif=b"Exif\0\0II*\0\xff\xff")
    assert (pixels(path) == COLOUR).all()


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp", "a.tif"])
def test_first_frame(put, name):
    frames = [plain(colour) for colour in [(255, 0, 0), (0, 255, 0), (0, 0, 255)]]
    options = {"lossless": True} if name == "a.webp" else {}
    path = put(frames[0], name, save_all=True, append_images=frames[1:], **options)
    with Image.open(path) as opened:
        assert opened.n_frames == 3
    assert (pixels(path) == (255, 0, 0)).all()


@pytest.mark.parametrize("size", [(1, 1), (10000, 1), (1, 10000)])
def test_extreme_shapes(put, size):
    image = load_image(put(plain(size=size), "a.png"))
    assert image.size == size
    assert (np.asarray(square_crop(image, 32)) == COLOUR).all()


def test_square_crop_ignores_what_lies_outside(tmp_path):
    picture = np.full((30, 90, 3), 255, np.uint8)
    picture[:, 30:60] = COLOUR
    for image in (Image.fromarray(picture), Image.fromarray(picture.swapaxes(0, 1))):
        assert (np.asarray(square_crop(image, 7)) == COLOUR).all()


def test_square_crop_of_the_right_size_changes_nothing():
    picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    assert (np.asarray(square_crop(Image.fromarray(picture), 32)) == picture).all()


@pytest.mark.parametrize(("side", "size"), [(33, 224), (300, 96), (64, 32)])
def test_square_crop_equals_the_float_filter(side, size):
    """Noise enlarged overshoots: clipping between the two passes would be off by 20 levels."""
    noise = np.random.default_rng(1).integers(0, 256, (side, 2 * side, 3), np.uint8)
    middle = noise[:, side // 2 : side // 2 + side]  # (S, S, 3)
    inner = torch.from_numpy(middle.astype(np.float32)).permute(2, 0, 1)[None]  # (1, 3, S, S)
    expected = F.interpolate(inner, (size, size), mode="bicubic", antialias=True).clamp(0, 255)
    got = to_uint8(square_crop(Image.fromarray(noise), size))
    assert abs(got - expected[0].numpy()).max() < 0.51


@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 5, 3)])
def test_to_uint8_is_a_copy(shape):
    picture = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    image = Image.fromarray(picture)
    array = to_uint8(image)
    assert array.dtype == np.uint8 and array.flags.writeable and array.flags.c_contiguous
    assert (array == picture.transpose(2, 0, 1)).all()
    array[:] = 77
    assert (np.asarray(image) == picture).all()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"hello, I am a text", "not a picture"),
        (b"MM, a text that begins like a TIFF", "not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>", "not a picture"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "not a picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "not a picture"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(99), "not a picture"),
        (encoded(Image.new("RGBA", (16, 16)), "ICO"), "not a picture"),
        (big_tiff(), "not a picture"),
        (b"II*\0\xff\xff\xff\xff", "damaged"),
    ],
)
def test_refuses_what_is_no_picture(put, content, says):
    assert says in refusal(put(content, "upload.png"))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_refuses_a_picture_cut_short(put, kind):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    whole = encoded(Image.fromarray(noise), kind)
    refusal(put(whole[: len(whole) * 3 // 4], "cut"))


def test_refuses_a_folder_and_a_missing_file(tmp_path):
    folder = tmp_path / "holiday.png"
    folder.mkdir()
    assert "is a folder" in refusal(folder)
    assert "does not exist" in refusal(tmp_path / "gone.png")
    with pytest.raises(ImageError):
        load_image(f"{tmp_path}/nul\0.png")


def test_keeps_the_cause(put):
    with pytest.raises(ImageError) as caught:
        load_image(put(b"text", "a.png"))
    assert caught.value.__cause__ is not None


def test_a_hostile_name_stays_on_one_line(tmp_path):
    path = tmp_path / ("two\nlines\x1b[31m" + "x" * 200)
    path.write_bytes(b"")
    with pytest.raises(ImageError) as caught:
        load_image(path)
    message = str(caught.value)
    assert message.isprintable() and "two?lines" in message and len(message) < 160


def test_refuses_too_many_bytes(put, monkeypatch):
    path = put(plain(), "a.bmp")
    monkeypatch.setattr(inputs, "MAX_BYTES", path.stat().st_size)
    load_image(path)
    monkeypatch.setattr(inputs, "MAX_BYTES", path.stat().st_size - 1)
    assert "is larger than" in refusal(path)


def peak_memory():
    """Bytes. It only grows: a larger peak of an earlier test may hide one, never invent one."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def cheaply_refused(path):
    """The refusal's message; it took little time and memory."""
    before, start = peak_memory(), time.process_time()
    message = refusal(path)
    assert time.process_time() - start < 2
    assert peak_memory() - before < 100e6
    return message


@pytest.mark.parametrize("side", [6325, 10000, 100_000, 2**31 - 1])  # 6325: just above 40 MP
def test_refuses_too_many_pixels_before_decoding(put, side):
    says = "40 megapixels" if side < 2**31 - 1 else ""
    assert says in cheaply_refused(put(png(side, side, 8, 2), "bomb.png"))


def test_accepts_as_many_pixels_as_the_limit(put, monkeypatch):
    monkeypatch.setattr(inputs, "MAX_PIXELS", 256)
    load_image(put(plain(), "a.png"))
    assert "(16 x 17)" in refusal(put(plain(size=(16, 17)), "b.png"))


def crafted_gif():
    """Two megabytes of one-letter comments, which Pillow joins in quadratic time."""
    whole = encoded(Image.new("P", (4, 4)), "GIF")
    header = 13 + 3 * (2 << (whole[10] & 7))
    return whole[:header] + b"\x21\xfe\x01a\0" * 400_000 + whole[header:]


def crafted_scans():
    """A progressive JPEG with scans that hold nothing."""
    whole = encoded(Image.new("L", (64, 64)), "JPEG", progressive=True)
    last = whole.rfind(b"\xff\xda")
    return whole[:-2] + (whole[last : last + 10] + b"\0") * 2000 + whole[-2:]


def crafted_tile():
    """A TIFF of 10 x 10 pixels in one tile of 20000 x 20000."""
    data = zlib.compress(bytes(10_000))
    tags = [(256, [10]), (257, [10]), (258, [8]), (259, [8]), (262, [1]), (277, [1])]
    return tiff([*tags, (322, [20000]), (323, [20000]), (324, [0]), (325, [len(data)])], data)


def crafted_double_tile():
    """The same, with a second, harmless width: libtiff believes the first, Pillow the last."""
    data = zlib.compress(bytes(10_000))
    tags = [(256, [10]), (257, [10]), (258, [8]), (259, [8]), (262, [1]), (277, [1])]
    tags += [(322, [20000]), (322, [16]), (323, [20000]), (323, [16])]
    return tiff([*tags, (324, [0]), (325, [len(data)])], data)


def crafted_strips():
    tags = [(256, [10]), (257, [10]), (258, [8]), (259, [1]), (262, [1]), (277, [1])]
    return tiff([*tags, (273, [0] * 1_000_000), (278, [1]), (279, [10])], bytes(100))


def crafted_tags():
    """A TIFF whose thousand tags each point at the same two megabytes."""
    entries = [struct.pack("<HHII", 40_000 + i, 7, 2_000_000, 8) for i in range(1000)]
    head = struct.pack("<2sHIH", b"II", 42, 8, 1000)
    return head + b"".join(entries) + bytes(2_000_000)


CRAFTED = {
    "gif": crafted_gif,
    "scans": crafted_scans,
    "tile": crafted_tile,
    "double": crafted_double_tile,
    "strips": crafted_strips,
    "plain.ppm": lambda: b"P3\n1000 333\n255\n" + b"#\n" * 999_000,
    "pixels.ppm": lambda: b"P6\n4000 3000\n254\n" + bytes(4_000_000),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_refuses_cheaply_what_is_costly_to_read(put, name):
    assert "damaged" in cheaply_refused(put(CRAFTED[name](), name))


@pytest.mark.filterwarnings("ignore:reading this file takes too many steps")
def test_tags_that_share_their_data_cost_little(put):
    cheaply_refused(put(crafted_tags(), "tags.tif"))


def exif_bomb(size, tags):
    """EXIF of `tags` entries that each point at the whole block; Pillow copies it for each."""
    head = struct.pack("<2sHIH", b"II", 42, 8, tags)
    entries = [struct.pack("<HHII", 4096 + i, 7, size - 8, 8) for i in range(tags)]
    return (head + b"".join(entries)).ljust(size, b"\0")


def crafted_exif_jpeg():
    """Four joined segments, 240 kB: took 2.4 GB."""
    exif, segments = exif_bomb(240_000, 9000), b""
    for start in range(0, len(exif), 60_000):
        part = b"Exif\0\0" + exif[start : start + 60_000]
        segments += b"\xff\xe1" + struct.pack(">H", len(part) + 2) + part
    whole = encoded(plain(), "JPEG")
    return whole[:2] + segments + whole[20:]  # without JFIF, EXIF is parsed at once


def crafted_exif_avif():
    if not HAS_AVIF:
        pytest.skip("this Pillow reads no AVIF")
    harmless = exif_bomb(240_000, 1).replace(struct.pack("<I", 239_992), struct.pack("<I", 4), 1)
    return encoded(plain(), "AVIF", exif=harmless).replace(harmless, exif_bomb(240_000, 9000))


@pytest.mark.parametrize("craft", [crafted_exif_jpeg, crafted_exif_avif])
@pytest.mark.filterwarnings("ignore")  # what is left of the first segment is damaged
def test_exif_bomb_costs_little(put, craft):
    path, before = put(craft(), "photo"), peak_memory()
    assert abs(pixels(path) - COLOUR).max() <= 3
    assert peak_memory() - before < 100e6


def fuzzed():
    """300 damaged files of every kind, the same at every run."""
    dice = random.Random(0)
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 4), np.uint8)
    colour, alpha = Image.fromarray(noise[..., :3].copy()), Image.fromarray(noise)
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "a camera"
    wholes = [
        encoded(colour, "JPEG", exif=exif),
        encoded(colour.convert("CMYK"), "JPEG", progressive=True),
        encoded(alpha, "PNG", exif=exif),
        encoded(colour.quantize(16), "PNG", transparency=3),
        encoded(colour, "GIF", save_all=True, append_images=[colour.rotate(90)]),
        encoded(alpha, "WEBP", exif=exif),
        encoded(colour, "BMP"),
        encoded(colour, "TIFF", compression="tiff_lzw", exif=exif),
        encoded(colour.convert("F"), "TIFF"),
        encoded(colour.convert("I"), "PPM"),
    ] + ([encoded(alpha, "AVIF", exif=exif)] if HAS_AVIF else [])
    wholes += [encoded(alpha, "HEIF", exif=exif)] if HAS_HEIF else []
    for case in range(300):
        content = bytearray(wholes[case % len(wholes)])
        reach = len(content) if dice.random() < 0.5 else 64  # headers matter most
        for _ in range(dice.randint(1, 8)):
            content[dice.randrange(min(reach, len(content)))] = dice.randrange(256)
        yield bytes(content[: dice.randint(0, len(content))] if dice.random() < 0.2 else content)


def test_damaged_files_give_a_picture_or_a_refusal(put):
    outcomes = {"picture": 0, "refusal": 0}
    for content in fuzzed():
        path = put(content, "fuzz")
        try:
            image = load_image(path)
            assert image.mode == "RGB" and image.width * image.height <= inputs.MAX_PIXELS
            outcomes["picture"] += 1
        except ImageError as error:
            assert "'fuzz'" in str(error) and "\n" not in str(error)
            outcomes["refusal"] += 1
    assert min(outcomes.values()) > 50, outcomes


def test_changes_no_global_of_pillow(put):
    before = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
    load_image(put(plain(), "a.png"))
    after = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
    assert after == before
