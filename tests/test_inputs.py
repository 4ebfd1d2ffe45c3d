"""What comes out of a file is right to the pixel, or one sentence says why nothing comes out."""

import io
import random
import resource
import struct
import sys
import time
import zlib
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageFile

from vitdemo import inputs
from vitdemo.errors import ImageError
from vitdemo.inputs import load_image, square_crop, to_uint8

COLOUR = (200, 100, 50)
PERHAPS = ("AVIF", "HEIF")  # are not on every machine


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


def row(path):
    """The levels of the first row of a grey picture."""
    return pixels(path)[0, :, 0].tolist()


def refusal(path):
    """Return the error message after checking its form: one or two sentences on one line."""
    with pytest.raises(ImageError) as caught:
        load_image(path)
    message = str(caught.value)
    assert "\n" not in message and message.endswith(".") and message.count(". ") <= 1
    assert path.name in message and str(path.parent) not in message
    return message


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


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


COLOURED = {  # mode: how far off the colour may be in each kind of file
    "RGB": {"a.png": 0, "a.bmp": 0, "a.ppm": 0, "a.tif": 0, "a.jpg": 3, "a.webp": 3},
    "RGBA": {"a.png": 0},
    "CMYK": {"a.tif": 1, "a.jpg": 3},  # the JPEG is Adobe's, which stores the negative
    "YCbCr": {"a.tif": 2, "a.jpg": 3},
    "LAB": {"a.tif": 2},
    "P": {"a.png": 0, "a.gif": 0},
    "PA": {"a.tif": 0},
}


@pytest.mark.parametrize("mode", COLOURED)
def test_colour_survives_its_mode(put, mode):
    image = (plain().quantize(4) if mode.startswith("P") else plain()).convert(mode)
    options = {"compression": "tiff_lzw"} if mode == "YCbCr" else {}
    for name, tolerance in COLOURED[mode].items():
        got = pixels(put(image, name, **options))
        assert got.shape == (16, 16, 3) and abs(got - COLOUR).max() <= tolerance, name


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.gif", "a.bmp", "a.pgm"])
def test_grey_and_one_bit(put, name):
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert (pixels(put(Image.fromarray(ramp), name)) == ramp[..., None]).all()
    board = np.indices((9, 9)).sum(0) % 2 == 0
    assert (pixels(put(Image.fromarray(board), name)) == 255 * board[..., None]).all()


WHITE, BLACK = (255,) * 3, (0,) * 3


@pytest.mark.parametrize(
    ("mode", "two", "options", "kinds", "seen"),
    [
        ("RGBA", [(255, 0, 0, 0), (200, 100, 0, 51)], {}, "png tif", [WHITE, (244, 224, 204)]),
        ("LA", [(0, 51), (0, 255)], {}, "png tif", [(204,) * 3, BLACK]),  # 51 is a fifth
        ("PA", [(0, 0), (0, 255)], {}, "tif", [WHITE, (10, 20, 30)]),
        ("P", [0, 1], {"transparency": 0}, "png gif", [WHITE, (40, 50, 60)]),
        ("P", [0, 1], {"transparency": b"\x00\xff"}, "png", [WHITE, (40, 50, 60)]),
        ("L", [7, 9], {"transparency": 7}, "png", [WHITE, (9,) * 3]),
        ("RGB", [(7,) * 3, (9,) * 3], {"transparency": (7,) * 3}, "png", [WHITE, (9,) * 3]),
    ],
)
def test_what_is_transparent_lies_over_white(put, mode, two, options, kinds, seen):
    image = Image.new(mode, (2, 1))
    if mode.startswith("P"):
        image.putpalette([10, 20, 30, 40, 50, 60])
    image.putdata(two)
    for kind in kinds.split():
        assert (pixels(put(image, f"a.{kind}", **options)) == seen).all(), kind


SIXTEEN = np.array([[0, 257, 128 * 257, 65535]], np.uint16)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
def test_16_bit_grey_keeps_its_range_and_is_not_stretched(put, name):
    assert row(put(Image.fromarray(SIXTEEN), name)) == [0, 1, 128, 255]
    assert max(row(put(Image.fromarray(SIXTEEN // 257), name))) <= 1


def twelve_bits():
    packed = np.frombuffer(bytes.fromhex("000fff800800"), np.uint8).reshape(1, 6)
    content = bytearray(grey_tiff(packed, 12))
    content[8 + 2 + 8 : 8 + 2 + 12] = struct.pack("<I", 4)  # four samples in the six bytes
    return bytes(content)


CLEAR = chunk(b"tRNS", struct.pack(">H", 257))
GREYS = b"\0" + SIXTEEN.astype(">u2").tobytes()
COLOURS = b"\0" + struct.pack(">3H", *(257 * value for value in COLOUR))
NAN_AND_ONE = np.array([[0x7F800001, 0x3F800000]], np.uint32)  # the NaN signals, without a warning
BY_HAND = {
    "transparent PNG": (png(4, 1, 16, 0, GREYS, CLEAR), np.c_[[0, 255, 128, 255]]),
    "colour PNG": (png(1, 1, 16, 2, COLOURS), [COLOUR]),
    "white is zero": (grey_tiff(SIXTEEN, 16, photometric=0), np.c_[[255, 254, 127, 0]]),
    "12 bits": (twelve_bits(), np.c_[[0, 255, 128, 128]]),
    "unsigned": (grey_tiff(np.uint32([[0, 2**31, 2**32 - 1]]), 32), np.c_[[0, 128, 255]]),
    "float": (grey_tiff(NAN_AND_ONE, 32, sample_format=3), np.c_[[0, 255]]),
}


@pytest.mark.parametrize("kind", BY_HAND)
def test_depths_that_pillow_does_not_write(put, kind):
    content, expected = BY_HAND[kind]
    assert (pixels(put(content, "a"))[0] == expected).all()


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("int32", [0, 100, 255], [0, 100, 255]),  # 0..255
        ("int32", [0, 32768, 65535], [0, 128, 255]),  # 0..65535
        ("int32", [0, 1, 1], [0, 255, 255]),  # a mask
        ("int32", [-1000, 0, 1000], [0, 128, 255]),  # its own range
        ("int32", [70000, 70000, 70000], [0, 0, 0]),
        ("float32", [0, 0.5, 1], [0, 128, 255]),
        ("float32", [0, 0.5, 0.5], [0, 128, 128]),  # not stretched
        ("float32", [0, 100, 255], [0, 100, 255]),
        ("float32", [0, 0.51, 1.02], [0, 128, 255]),  # not nearly black
        ("float32", [-3e38, 0, 3e38], [0, 128, 255]),
        ("float32", [0, 1e-45, 1e-45], [0, 255, 255]),
        ("float32", [np.nan, -np.inf, np.inf, 0.2, 1], [0, 0, 255, 51, 255]),
        ("float32", [np.nan, np.nan], [0, 0]),
    ],
)
def test_32_bit_tiff(put, kind, values, expected):
    assert row(put(Image.fromarray(np.array([values], kind)), "a.tif")) == expected


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
    "png": {},
    "tiff": {},
    "webp": {"lossless": True},
    "jpeg": {"quality": 95, "subsampling": 0},
    "avif": {"quality": 100, "subsampling": "4:4:4"},
    "heif": {"quality": 100, "chroma": 444},  # of a phone
}


@pytest.mark.parametrize("kind", [kind for kind in EXACTLY if kind.upper() in inputs.FORMATS])
def test_exif_orientation(put, kind):
    block = 32 if kind == "heif" else 16  # that the compression keeps
    upright = np.kron(CORNERS, np.ones((block, block, 1), np.uint8))
    for orientation, turn in STORED.items():
        stored = Image.fromarray(np.ascontiguousarray(turn(upright)))
        exif = turned(orientation)
        stored.info["exif"] = exif.tobytes()  # which HEIF writes as `irot` and `imir`
        options = EXACTLY[kind] | ({} if kind == "heif" else {"exif": exif})
        got = pixels(put(stored, f"a.{kind}", **options))
        assert got.shape == upright.shape, orientation
        assert abs(got - upright).max() <= (10 if kind == "heif" else 5), orientation


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


@pytest.mark.parametrize(("side", "size"), [(33, 224), (300, 96), (64, 32), (32, 32)])
def test_square_crop_equals_the_float_filter_on_the_middle(side, size):
    """Noise enlarged overshoots: clipping between the two passes would be off by 20 levels."""
    noise = np.random.default_rng(1).integers(0, 256, (side, 2 * side, 3), np.uint8)
    for axes in (0, 1), (1, 0):  # wide and tall
        middle = noise[:, side // 2 : side // 2 + side].swapaxes(*axes)  # (S, S, 3)
        inner = torch.from_numpy(middle.astype(np.float32)).permute(2, 0, 1)[None]  # (1, 3, S, S)
        expected = F.interpolate(inner, (size, size), mode="bicubic", antialias=True).clamp(0, 255)
        got = to_uint8(square_crop(Image.fromarray(noise.swapaxes(*axes)), size))
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
        (b"hello, I am a text", "not an image"),
        (b"MM, a text that begins like a TIFF", "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>", "not an image"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "not an image"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(99), "not an image"),
        (encoded(Image.new("RGBA", (16, 16)), "ICO"), "not an image"),
        (big_tiff(), "not an image"),
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


def test_a_hostile_name_stays_on_one_line_and_the_cause_is_kept(tmp_path):
    path = tmp_path / ("two\nlines\x1b[31m" + "x" * 200)
    path.write_bytes(b"text")
    with pytest.raises(ImageError) as caught:
        load_image(path)
    message = str(caught.value)
    assert message.isprintable() and "two?lines" in message and len(message) < 160
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("limit", "says"), [("MAX_PIXELS", "(16 x 17)"), ("MAX_BYTES", "is larger than")]
)
def test_what_is_as_large_as_a_limit_is_read_and_a_larger_one_refused(
    put, monkeypatch, limit, says
):
    path = put(plain(size=(16, 17)), "a.bmp")
    largest = {"MAX_PIXELS": 16 * 17, "MAX_BYTES": path.stat().st_size}[limit]
    monkeypatch.setattr(inputs, limit, largest)
    load_image(path)
    monkeypatch.setattr(inputs, limit, largest - 1)
    assert says in refusal(path)


@contextmanager
def little_is_taken():
    """Little time and memory. Of that a larger peak before may hide one, never invent one."""
    unit = 1 if sys.platform == "darwin" else 1024
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    yield
    assert time.process_time() - start < 2
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < 100e6


@pytest.mark.parametrize("side", [6325, 10000, 100_000, 2**31 - 1])  # 6325: just above 40 MP
def test_refuses_too_many_pixels_before_decoding(put, side):
    says = "40 megapixels" if side < 2**31 - 1 else ""
    path = put(png(side, side, 8, 2), "bomb.png")
    with little_is_taken():
        assert says in refusal(path)


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


TEN = [(256, [10]), (257, [10]), (258, [8]), (262, [1]), (277, [1])]  # x 10 grey pixels


def crafted_tile(*second):
    """A TIFF of 10 x 10 pixels in one tile of 20000 x 20000.

    With a `second`, harmless width libtiff believes the first and Pillow the last.
    """
    data = zlib.compress(bytes(10_000))
    size = [(tag, [width]) for tag in (322, 323) for width in (20000, *second)]
    return tiff([*TEN, (259, [8]), *size, (324, [0]), (325, [len(data)])], data)


def crafted_strips():
    strips = [(273, [0] * 1_000_000), (278, [1]), (279, [10])]
    return tiff([*TEN, (259, [1]), *strips], bytes(100))


def crafted_tags():
    """A TIFF whose thousand tags each point at the same two megabytes."""
    entries = [struct.pack("<HHII", 40_000 + i, 7, 2_000_000, 8) for i in range(1000)]
    head = struct.pack("<2sHIH", b"II", 42, 8, 1000)
    return head + b"".join(entries) + bytes(2_000_000)


CRAFTED = {
    "gif": crafted_gif,
    "scans": crafted_scans,
    "tile": crafted_tile,
    "double": lambda: crafted_tile(16),
    "strips": crafted_strips,
    "tags": crafted_tags,
    "plain.ppm": lambda: b"P3\n1000 333\n255\n" + b"#\n" * 999_000,
    "pixels.ppm": lambda: b"P6\n4000 3000\n254\n" + bytes(4_000_000),
}


@pytest.mark.parametrize("name", CRAFTED)
@pytest.mark.filterwarnings("ignore:reading this file takes too many steps")  # of the tags
def test_refuses_cheaply_what_is_costly_to_read(put, name):
    path = put(CRAFTED[name](), name)
    with little_is_taken():
        assert ("not an image" if name == "tags" else "damaged") in refusal(path)


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
    if "AVIF" not in inputs.FORMATS:
        pytest.skip("this Pillow reads no AVIF")
    harmless = exif_bomb(240_000, 1).replace(struct.pack("<I", 239_992), struct.pack("<I", 4), 1)
    return encoded(plain(), "AVIF", exif=harmless).replace(harmless, exif_bomb(240_000, 9000))


@pytest.mark.parametrize("craft", [crafted_exif_jpeg, crafted_exif_avif])
@pytest.mark.filterwarnings("ignore")  # what is left of the first segment is damaged
def test_exif_bomb_costs_little(put, craft):
    path = put(craft(), "photo")
    with little_is_taken():
        assert abs(pixels(path) - COLOUR).max() <= 3


def fuzzed():
    """300 damaged files of every kind, the same at every run."""
    dice = random.Random(0)
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 4), np.uint8)
    colour, alpha = Image.fromarray(noise[..., :3].copy()), Image.fromarray(noise)
    exif = turned(6)
    exif[0x010F] = "a camera"
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
    ]
    wholes += [encoded(alpha, kind, exif=exif) for kind in inputs.FORMATS if kind in PERHAPS]
    for case in range(300):
        content = bytearray(wholes[case % len(wholes)])
        reach = len(content) if dice.random() < 0.5 else 64  # headers matter most
        for _ in range(dice.randint(1, 8)):
            content[dice.randrange(min(reach, len(content)))] = dice.randrange(256)
        yield bytes(content[: dice.randint(0, len(content))] if dice.random() < 0.2 else content)


def test_damaged_files_give_a_picture_or_a_refusal_and_change_no_global(put):
    before = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
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
    assert before == (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES)
