"""Image files yield exact pixels, or an error message in one line."""

import io
import random
import resource
import struct
import subprocess
import sys
import time
import zlib
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageFile

from tests.support.serving import ROOT
from vitdemo.data import image_files
from vitdemo.data.image_files import convert_image, crop_and_resize, load_image, to_uint8
from vitdemo.errors import ImageError

COLOUR = (200, 100, 50)


@pytest.fixture
def put(tmp_path):
    """Writer of an image or bytes to a file, which returns its path; options go to `save`."""

    def write(content, name, **options):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content.save(path, **options)
        return path

    return write


def uniform_image(colour=COLOUR, size=(16, 16)):
    return Image.new("RGB", size, colour)


def load_pixels(path):
    image = load_image(path)
    assert type(image) is Image.Image and image.mode == "RGB" and not image.info
    return np.asarray(image).astype(int)  # (H, W, 3)


def load_first_row(path):
    """Return the levels of the first row of a grey image."""
    return load_pixels(path)[0, :, 0].tolist()


def load_error(path):
    """Return the error message after checking its form: one or two sentences on one line."""
    with pytest.raises(ImageError) as caught:
        load_image(path)
    message = str(caught.value)
    assert "\n" not in message and message.endswith(".") and message.count(". ") <= 1
    assert path.name in message and str(path.parent) not in message
    return message


def encode_image(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def make_orientation_exif(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def encode_png_chunk(kind, content):
    check = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + check


def encode_png(width, height, bits, colour_type, rows=b"", extra=b""):
    """Encode a PNG by hand, for variants that Pillow does not write."""
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, 0)
    body = (
        encode_png_chunk(b"IHDR", header) + extra + encode_png_chunk(b"IDAT", zlib.compress(rows))
    )
    return b"\x89PNG\r\n\x1a\n" + body + encode_png_chunk(b"IEND", b"")


def encode_tiff(tags, data):
    """Encode a little-endian TIFF of (tag, values) pairs; offsets count from the data's start."""
    start = 8 + 2 + 12 * len(tags) + 4
    extra = sum(4 * len(values) for _, values in tags if len(values) > 1)
    entries, blob = b"", b""
    for tag, values in tags:
        if tag in (273, 324):
            values = [value + start + extra for value in values]
        packed = struct.pack(f"<{len(values)}I", *values)
        field = packed if len(values) == 1 else struct.pack("<I", start + len(blob))
        blob += packed if len(values) > 1 else b""
        entries += struct.pack("<HHI", tag, 4, len(values)) + field
    head = struct.pack("<2sHIH", b"II", 42, 8, len(tags))
    return head + entries + bytes(4) + blob + data


def encode_big_tiff():
    """Encode one black pixel as a BigTIFF (files over 4 GB), which Pillow 11.0 cannot write."""
    tags = {256: 1, 257: 1, 258: 8, 259: 1, 262: 1, 273: 0, 277: 1, 278: 1, 279: 1}
    entries = b"".join(struct.pack("<HHQQ", tag, 4, 1, value) for tag, value in tags.items())
    return struct.pack("<2sHHHQQ", b"II", 43, 8, 0, 16, len(tags)) + entries + bytes(8)


def encode_grey_tiff(values, bits, *, photometric=1, sample_format=1):
    height, width = values.shape
    tags = [(256, [width]), (257, [height]), (258, [bits]), (259, [1]), (262, [photometric])]
    tags += [(273, [0]), (277, [1]), (278, [height]), (279, [values.nbytes])]
    return encode_tiff([*tags, (339, [sample_format])], values.tobytes())


MODE_TOLERANCES = {  # mode: tolerance of the colour in each file format
    "RGB": {"a.png": 0, "a.bmp": 0, "a.ppm": 0, "a.tif": 0, "a.jpg": 3, "a.webp": 3},
    "RGBA": {"a.png": 0},
    "CMYK": {"a.tif": 1, "a.jpg": 3},  # Adobe's JPEG stores inverted values
    "YCbCr": {"a.tif": 2, "a.jpg": 3},
    "LAB": {"a.tif": 2},
    "P": {"a.png": 0, "a.gif": 0},
    "PA": {"a.tif": 0},
}


@pytest.mark.parametrize("mode", MODE_TOLERANCES)
def test_every_colour_mode_keeps_its_colour(put, mode):
    image = (uniform_image().quantize(4) if mode.startswith("P") else uniform_image()).convert(mode)
    options = {"compression": "tiff_lzw"} if mode == "YCbCr" else {}
    for name, tolerance in MODE_TOLERANCES[mode].items():
        pixels = load_pixels(put(image, name, **options))
        assert pixels.shape == (16, 16, 3) and abs(pixels - COLOUR).max() <= tolerance, name


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.gif", "a.bmp", "a.pgm"])
def test_grey_and_one_bit_images_are_exact(put, name):
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert (load_pixels(put(Image.fromarray(ramp), name)) == ramp[..., None]).all()
    board = np.indices((9, 9)).sum(0) % 2 == 0
    assert (load_pixels(put(Image.fromarray(board), name)) == 255 * board[..., None]).all()


WHITE, BLACK = (255,) * 3, (0,) * 3


@pytest.mark.parametrize(
    ("mode", "values", "options", "kinds", "expected"),
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
def test_transparent_pixels_are_composited_over_white(put, mode, values, options, kinds, expected):
    image = Image.new(mode, (2, 1))
    if mode.startswith("P"):
        image.putpalette([10, 20, 30, 40, 50, 60])
    image.putdata(values)
    for kind in kinds.split():
        assert (load_pixels(put(image, f"a.{kind}", **options)) == expected).all(), kind


MASKS = (0xFF0000, 0xFF00, 0xFF, 0xFF000000)  # of red, green, blue and alpha in a BMP
GREY_16_BIT = np.array([[0, 257, 128 * 257, 65535]], np.uint16)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
def test_16_bit_grey_is_scaled_without_stretching(put, name):
    assert load_first_row(put(Image.fromarray(GREY_16_BIT), name)) == [0, 1, 128, 255]
    assert max(load_first_row(put(Image.fromarray(GREY_16_BIT // 257), name))) <= 1


def encode_12_bit_tiff():
    packed = np.frombuffer(bytes.fromhex("000fff800800"), np.uint8).reshape(1, 6)
    content = bytearray(encode_grey_tiff(packed, 12))
    content[8 + 2 + 8 : 8 + 2 + 12] = struct.pack("<I", 4)  # four samples in the six bytes
    return bytes(content)


TRANSPARENCY_CHUNK = encode_png_chunk(b"tRNS", struct.pack(">H", 257))
GREY_PNG_ROW = b"\0" + GREY_16_BIT.astype(">u2").tobytes()
COLOUR_PNG_ROW = b"\0" + struct.pack(">3H", *(257 * value for value in COLOUR))
NAN_AND_ONE = np.array([[0x7F800001, 0x3F800000]], np.uint32)  # the NaN must not cause a warning
HANDMADE_FILES = {
    "transparent PNG": (
        encode_png(4, 1, 16, 0, GREY_PNG_ROW, TRANSPARENCY_CHUNK),
        np.c_[[0, 255, 128, 255]],
    ),
    "colour PNG": (encode_png(1, 1, 16, 2, COLOUR_PNG_ROW), [COLOUR]),
    "white is zero": (encode_grey_tiff(GREY_16_BIT, 16, photometric=0), np.c_[[255, 254, 127, 0]]),
    "12 bits": (encode_12_bit_tiff(), np.c_[[0, 255, 128, 128]]),
    "unsigned": (encode_grey_tiff(np.uint32([[0, 2**31, 2**32 - 1]]), 32), np.c_[[0, 128, 255]]),
    "float": (encode_grey_tiff(NAN_AND_ONE, 32, sample_format=3), np.c_[[0, 255]]),
}


def test_12_bits_in_a_16_bit_file_are_stretched(put):
    twelve = np.array([[0, 1024, 2048, 4095]], np.uint16)
    assert load_first_row(put(Image.fromarray(twelve), "a.png")) == [0, 64, 128, 255]


def test_bmp_whose_alpha_is_zero_everywhere_is_opaque(put):
    header = struct.pack("<IiiHHIIiiII", 40, 2, 1, 1, 32, 0, 8, 0, 0, 0, 0)
    masks = struct.pack("<IiiHHIIiiIIIIII", 56, 2, 1, 1, 32, 3, 8, 0, 0, 0, 0, *MASKS)
    for info in (header, masks):
        start = struct.pack("<2sIHHI", b"BM", 14 + len(info) + 8, 0, 0, 14 + len(info))
        for alpha, expected in ((0, [9, 9]), (255, [9, 9])):
            path = put(start + info + bytes([9, 9, 9, alpha] * 2), "a.bmp")
            assert load_first_row(path) == expected


@pytest.mark.parametrize("name", ["rotated.jpg", "grey.png", "transparent.png"])
def test_image_opened_by_pillow_equals_its_file(put, name):
    rgba = np.random.default_rng(0).integers(0, 256, (16, 8, 4), dtype=np.uint8)
    image = {
        "rotated.jpg": encode_image(
            Image.fromarray(rgba[..., :3]), "JPEG", exif=make_orientation_exif(6)
        ),
        "grey.png": Image.fromarray(GREY_16_BIT),
        "transparent.png": Image.fromarray(rgba),
    }[name]
    path = put(image, name)
    assert np.array_equal(np.asarray(convert_image(Image.open(path))), load_pixels(path))


def test_damaged_image_opened_by_pillow_is_reported(put):
    content = encode_image(Image.effect_noise((64, 64), 60), "PNG")
    with pytest.raises(ImageError, match="damaged or incomplete"):
        convert_image(Image.open(io.BytesIO(content[: len(content) // 2])))


@pytest.mark.parametrize("kind", HANDMADE_FILES)
def test_bit_depths_not_written_by_pillow_are_read(put, kind):
    content, expected = HANDMADE_FILES[kind]
    assert (load_pixels(put(content, "a"))[0] == expected).all()


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
        ("float32", [0, 0.51, 1.02], [0, 128, 255]),  # must not be nearly black
        ("float32", [-3e38, 0, 3e38], [0, 128, 255]),
        ("float32", [0, 1e-45, 1e-45], [0, 255, 255]),
        ("float32", [np.nan, -np.inf, np.inf, 0.2, 1], [0, 0, 255, 51, 255]),
        ("float32", [np.nan, np.nan], [0, 0]),
    ],
)
def test_32_bit_tiff_is_scaled_to_its_range(put, kind, values, expected):
    assert load_first_row(put(Image.fromarray(np.array([values], kind)), "a.tif")) == expected


UPRIGHT_IMAGE = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[9, 9, 9]] * 3], np.uint8)
ORIENTATIONS = {  # EXIF orientation -> how a camera stores the upright image (EXIF 2.32, 4.6.4)
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a),  # is upright after a quarter turn clockwise
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a, -1),
}
LOSSLESS_OPTIONS = {  # options that keep the pixels
    "png": {},
    "tiff": {},
    "webp": {"lossless": True},
    "jpeg": {"quality": 95, "subsampling": 0},
    "avif": {"quality": 100, "subsampling": "4:4:4"},
    "heif": {"quality": 100, "chroma": 444},  # as in phones
}


@pytest.mark.parametrize(
    "kind", [kind for kind in LOSSLESS_OPTIONS if kind.upper() in image_files.SUPPORTED_FORMATS]
)
def test_exif_orientation_is_applied(put, kind):
    block = 32 if kind == "heif" else 16  # the compression keeps these blocks
    upright = np.kron(UPRIGHT_IMAGE, np.ones((block, block, 1), np.uint8))
    for orientation, transform in ORIENTATIONS.items():
        stored = Image.fromarray(np.ascontiguousarray(transform(upright)))
        exif = make_orientation_exif(orientation)
        stored.info["exif"] = exif.tobytes()  # HEIF writes it as `irot` and `imir`
        options = LOSSLESS_OPTIONS[kind] | ({} if kind == "heif" else {"exif": exif})
        pixels = load_pixels(put(stored, f"a.{kind}", **options))
        assert pixels.shape == upright.shape, orientation
        assert abs(pixels - upright).max() <= (10 if kind == "heif" else 5), orientation


def test_image_with_damaged_exif_is_loaded(put):
    path = put(uniform_image(), "a.png", exif=b"Exif\0\0II*\0\xff\xff")
    assert (load_pixels(path) == COLOUR).all()


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp", "a.tif"])
def test_first_frame_of_an_animation_is_loaded(put, name):
    frames = [uniform_image(colour) for colour in [(255, 0, 0), (0, 255, 0), (0, 0, 255)]]
    options = {"lossless": True} if name == "a.webp" else {}
    path = put(frames[0], name, save_all=True, append_images=frames[1:], **options)
    with Image.open(path) as opened:
        assert opened.n_frames == 3
    assert (load_pixels(path) == (255, 0, 0)).all()


@pytest.mark.parametrize("size", [(1, 1), (10000, 1), (1, 10000)])
def test_images_of_extreme_shapes_are_loaded(put, size):
    image = load_image(put(uniform_image(size=size), "a.png"))
    assert image.size == size
    assert (np.asarray(crop_and_resize(image, 32)) == COLOUR).all()


@pytest.mark.parametrize(("side", "size"), [(33, 224), (300, 96), (64, 32), (32, 32)])
def test_square_crop_equals_the_float_filter_of_the_centre(side, size):
    """Enlarged noise overshoots: clipping between both passes would cause errors of 20 levels."""
    noise = np.random.default_rng(1).integers(0, 256, (side, 2 * side, 3), np.uint8)
    for axes in (0, 1), (1, 0):  # wide and tall
        middle = noise[:, side // 2 : side // 2 + side].swapaxes(*axes)  # (S, S, 3)
        inner = torch.from_numpy(middle.astype(np.float32)).permute(2, 0, 1)[None]  # (1, 3, S, S)
        expected = F.interpolate(inner, (size, size), mode="bicubic", antialias=True).clamp(0, 255)
        pixels = to_uint8(crop_and_resize(Image.fromarray(noise.swapaxes(*axes)), size))
        assert abs(pixels - expected[0].numpy()).max() < 0.51


@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 5, 3)])
def test_to_uint8_returns_a_copy(shape):
    pixels = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    image = Image.fromarray(pixels)
    array = to_uint8(image)
    assert array.dtype == np.uint8 and array.flags.writeable and array.flags.c_contiguous
    assert (array == pixels.transpose(2, 0, 1)).all()
    array[:] = 77
    assert (np.asarray(image) == pixels).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello, I am a text", "not an image"),
        (b"MM, a text that begins like a TIFF", "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>", "not an image"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "not an image"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(99), "not an image"),
        (encode_image(Image.new("RGBA", (16, 16)), "ICO"), "not an image"),
        (encode_big_tiff(), "not an image"),
        (b"II*\0\xff\xff\xff\xff", "damaged"),
    ],
)
def test_file_that_is_no_image_is_rejected(put, content, message):
    assert message in load_error(put(content, "upload.png"))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_truncated_image_is_rejected(put, kind):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    content = encode_image(Image.fromarray(noise), kind)
    load_error(put(content[: len(content) * 3 // 4], "cut"))


def test_folder_and_missing_file_are_rejected(tmp_path):
    folder = tmp_path / "holiday.png"
    folder.mkdir()
    assert "is a folder" in load_error(folder)
    assert "does not exist" in load_error(tmp_path / "gone.png")
    with pytest.raises(ImageError):
        load_image(f"{tmp_path}/nul\0.png")


def test_error_has_one_printable_line_and_keeps_its_cause(tmp_path):
    path = tmp_path / ("two\nlines\x1b[31m" + "x" * 200)
    path.write_bytes(b"text")
    with pytest.raises(ImageError) as caught:
        load_image(path)
    message = str(caught.value)
    assert message.isprintable() and "two?lines" in message and len(message) < 160
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("limit", "message"), [("MAX_PIXELS", "(16 x 17)"), ("MAX_FILE_BYTES", "is larger than")]
)
def test_image_at_a_limit_is_loaded_and_a_larger_one_rejected(put, monkeypatch, limit, message):
    path = put(uniform_image(size=(16, 17)), "a.bmp")
    largest = {"MAX_PIXELS": 16 * 17, "MAX_FILE_BYTES": path.stat().st_size}[limit]
    monkeypatch.setattr(image_files, limit, largest)
    load_image(path)
    monkeypatch.setattr(image_files, limit, largest - 1)
    assert message in load_error(path)


@contextmanager
def assert_low_cost():
    """Check time and memory of a block; a larger earlier peak may hide its memory."""
    unit = 1 if sys.platform == "darwin" else 1024
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    yield
    assert time.process_time() - start < 2
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < 100e6


@pytest.mark.parametrize("side", [6325, 10000, 100_000, 2**31 - 1])  # 6325: just above 40 MP
def test_image_with_too_many_pixels_is_rejected_before_decoding(put, side):
    message = "40 megapixels" if side < 2**31 - 1 else ""
    path = put(encode_png(side, side, 8, 2), "bomb.png")
    with assert_low_cost():
        assert message in load_error(path)


LARGE_SIZE = 11552, 8664  # 100 megapixels, as some phones take them


@pytest.fixture(scope="module")
def large_photo():
    """JPEG photo of 100 megapixels, red above green, stored rotated by 90 degrees."""
    stored = Image.new("RGB", LARGE_SIZE, (0, 200, 0))
    stored.paste((200, 0, 0), (0, 0, LARGE_SIZE[0] // 2, LARGE_SIZE[1]))
    return encode_image(stored, "jpeg", exif=make_orientation_exif(6), subsampling=2)


def test_large_photo_is_scaled_down_and_upright(put, large_photo):
    image = load_image(put(large_photo, "phone.jpg"))
    assert image.size == (LARGE_SIZE[1] // 4, LARGE_SIZE[0] // 4)
    top, bottom = image.getpixel((9, 9)), image.getpixel((9, image.height - 9))
    assert top[0] > 190 > 10 > top[1] and bottom[1] > 190 > 10 > bottom[0]


def test_large_photo_needs_less_memory_than_its_pixels(put, large_photo):
    script = (
        "import resource, sys; from vitdemo.data.image_files import load_image\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "start = peak(); load_image(sys.argv[1]); print(peak() - start)"
    )
    command = [sys.executable, "-c", script, str(put(large_photo, "phone.jpg"))]
    unit = 1 if sys.platform == "darwin" else 1024
    added = int(subprocess.check_output(command, cwd=ROOT)) * unit
    assert added < 110e6  # 300 MB at full size; measured: 78 MB


@pytest.mark.parametrize("kind", ["progressive", "several scans", "201 megapixels"])
def test_jpeg_that_needs_much_memory_is_rejected_at_low_cost(put, large_photo, kind):
    frame = large_photo.index(b"\xff\xc0")
    scan = large_photo.index(b"\xff\xda")
    changed = {
        "progressive": large_photo.replace(b"\xff\xc0", b"\xff\xc2", 1),
        "several scans": large_photo[:scan]
        + b"\xff\xda\0\x08\1\1\0\0\x3f\0"
        + large_photo[scan + 14 :],
        "201 megapixels": large_photo[: frame + 5]
        + struct.pack(">HH", 12000, 16750)
        + large_photo[frame + 9 :],
    }[kind]
    message = "200 megapixels" if kind == "201 megapixels" else "40 megapixels"
    with assert_low_cost():
        assert message in load_error(put(changed, "bomb.jpg"))


def craft_gif():
    """Create a GIF with 2 MB of one-letter comments, which Pillow joins in quadratic time."""
    content = encode_image(Image.new("P", (4, 4)), "GIF")
    header = 13 + 3 * (2 << (content[10] & 7))
    return content[:header] + b"\x21\xfe\x01a\0" * 400_000 + content[header:]


def craft_jpeg_scans():
    """Create a progressive JPEG with empty scans."""
    content = encode_image(Image.new("L", (64, 64)), "JPEG", progressive=True)
    last = content.rfind(b"\xff\xda")
    return content[:-2] + (content[last : last + 10] + b"\0") * 2000 + content[-2:]


TIFF_10X10_TAGS = [(256, [10]), (257, [10]), (258, [8]), (262, [1]), (277, [1])]  # x 10 grey pixels


def craft_tile(*second):
    """Create a TIFF of 10 x 10 pixels in one tile of 20000 x 20000.

    If there is a harmless `second` width, libtiff uses the first one and Pillow the last one.
    """
    data = zlib.compress(bytes(10_000))
    size = [(tag, [width]) for tag in (322, 323) for width in (20000, *second)]
    return encode_tiff([*TIFF_10X10_TAGS, (259, [8]), *size, (324, [0]), (325, [len(data)])], data)


def craft_strips():
    strips = [(273, [0] * 1_000_000), (278, [1]), (279, [10])]
    return encode_tiff([*TIFF_10X10_TAGS, (259, [1]), *strips], bytes(100))


def craft_tags():
    """Create a TIFF with a thousand tags that point at the same two megabytes."""
    entries = [struct.pack("<HHII", 40_000 + i, 7, 2_000_000, 8) for i in range(1000)]
    head = struct.pack("<2sHIH", b"II", 42, 8, 1000)
    return head + b"".join(entries) + bytes(2_000_000)


CRAFTED_FILES = {
    "gif": craft_gif,
    "scans": craft_jpeg_scans,
    "tile": craft_tile,
    "double": lambda: craft_tile(16),
    "strips": craft_strips,
    "tags": craft_tags,
    "plain.ppm": lambda: b"P3\n1000 333\n255\n" + b"#\n" * 999_000,
    "pixels.ppm": lambda: b"P6\n4000 3000\n254\n" + bytes(4_000_000),
}


@pytest.mark.parametrize("name", CRAFTED_FILES)
@pytest.mark.filterwarnings("ignore:reading this file takes too many steps")  # because of the tags
def test_crafted_files_are_rejected_at_low_cost(put, name):
    path = put(CRAFTED_FILES[name](), name)
    with assert_low_cost():
        assert ("not an image" if name == "tags" else "damaged") in load_error(path)


def craft_exif(size, tags):
    """Create EXIF with `tags` entries for the whole block, which Pillow copies for each entry."""
    head = struct.pack("<2sHIH", b"II", 42, 8, tags)
    entries = [struct.pack("<HHII", 4096 + i, 7, size - 8, 8) for i in range(tags)]
    return (head + b"".join(entries)).ljust(size, b"\0")


def craft_exif_jpeg():
    """Create a JPEG with 240 kB of EXIF in four segments, which once took 2.4 GB of memory."""
    exif, segments = craft_exif(240_000, 9000), b""
    for start in range(0, len(exif), 60_000):
        part = b"Exif\0\0" + exif[start : start + 60_000]
        segments += b"\xff\xe1" + struct.pack(">H", len(part) + 2) + part
    content = encode_image(uniform_image(), "JPEG")
    return content[:2] + segments + content[20:]  # without JFIF, EXIF is parsed at once


def craft_exif_avif():
    if "AVIF" not in image_files.SUPPORTED_FORMATS:
        pytest.skip("this Pillow reads no AVIF")
    harmless = craft_exif(240_000, 1).replace(struct.pack("<I", 239_992), struct.pack("<I", 4), 1)
    return encode_image(uniform_image(), "AVIF", exif=harmless).replace(
        harmless, craft_exif(240_000, 9000)
    )


@pytest.mark.parametrize("craft", [craft_exif_jpeg, craft_exif_avif])
@pytest.mark.filterwarnings("ignore")  # the rest of the first segment is damaged
def test_image_with_an_exif_bomb_is_loaded_at_low_cost(put, craft):
    path = put(craft(), "photo")
    with assert_low_cost():
        assert abs(load_pixels(path) - COLOUR).max() <= 3


def generate_damaged_files():
    """Generate 200 damaged files of all formats, the same ones in every test run."""
    dice = random.Random(0)
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), np.uint8)
    options, image = {"exif": make_orientation_exif(6)}, Image.fromarray(noise)
    files = [encode_image(image, kind, **options) for kind in image_files.SUPPORTED_FORMATS]
    files += [
        encode_image(image.convert("CMYK"), "JPEG", progressive=True),
        encode_image(image.convert("RGBA"), "WEBP", **options),
        encode_image(image.quantize(16), "PNG", transparency=3),
        encode_image(image, "GIF", save_all=True, append_images=[image.rotate(90)]),
        encode_image(image, "TIFF", compression="tiff_lzw"),
        encode_image(image.convert("F"), "TIFF"),
        encode_image(image.convert("I"), "PPM"),
    ]
    for case in range(200):
        content = bytearray(files[case % len(files)])
        reach = len(content) if dice.random() < 0.5 else 64  # headers matter most
        for _ in range(dice.randint(1, 8)):
            content[dice.randrange(min(reach, len(content)))] = dice.randrange(256)
        yield bytes(content[: dice.randint(0, len(content))] if dice.random() < 0.2 else content)


def test_damaged_files_are_loaded_or_rejected_without_side_effects(put):
    before = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
    outcomes = {"loaded": 0, "rejected": 0}
    for content in generate_damaged_files():
        path = put(content, "fuzz")
        try:
            image = load_image(path)
            assert image.mode == "RGB" and image.width * image.height <= image_files.MAX_PIXELS
            outcomes["loaded"] += 1
        except ImageError as error:
            assert "'fuzz'" in str(error) and "\n" not in str(error)
            outcomes["rejected"] += 1
    assert min(outcomes.values()) > 50, outcomes
    assert before == (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES)
