"""An untrusted file -> an RGB picture -> what the model sees.

A file here may be anything: a photo held sideways, a 16-bit scan, a text file named `.png`, or a
few hundred bytes that ask for gigabytes. `load_image` is the only door. It gives a plain 8-bit RGB
picture or raises `ImageError` with one sentence for people, and it changes none of Pillow's
globals, because other users decode at the same moment.

Pillow bounds the pixels of a picture, not the work of reading it. `_screen` and `_Meter` bound
that; the costs in their comments were measured with Pillow 12.3 on two CPU cores, November 2026.
What stays unbounded is a fault inside a C decoder: only a process of its own would contain it.
"""

import io
import re
import struct
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError, features

from vitdemo.errors import ImageError

# A 40-megapixel photo is 10 to 25 MB as JPEG and about 60 MB as PNG; 30 uploads fit in 2 GB.
MAX_BYTES = 60_000_000
MAX_PIXELS = 40_000_000

# Ordinary pictures only. EPS starts Ghostscript; ICO and ICNS hold a second, unchecked picture.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
if "avif" in features.modules and features.check("avif"):  # Pillow 11.0 to 11.2 know no AVIF
    FORMATS += ("AVIF",)
try:  # what phones take; the bare machine of a training does without
    from pillow_heif import register_heif_opener
except ImportError:
    pass
else:
    register_heif_opener(thumbnails=False)
    FORMATS += ("HEIF",)

HEIF_SUFFIXES = (".heic", ".heics", ".heif", ".heifs", ".hif")  # these need pillow-heif
MORE_SUFFIXES = (
    ".dib",
    ".jfi",
    ".jif",
    ".mpo",
    ".pjp",
    ".pjpeg",
)  # BMP and JPEG; Pillow lacks them

_UPRIGHT = {  # EXIF orientation -> what undoes it
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@lru_cache(maxsize=1)
def image_suffixes() -> frozenset[str]:
    """Return the suffixes of the files that `load_image` reads, in lower case with their dot.

    They follow from `FORMATS` and Pillow's own table, so they depend on the installed packages.
    """
    Image.init()  # imports the plugins, which fill the table
    known = (suffix for suffix, kind in Image.EXTENSION.items() if kind in FORMATS)
    return frozenset((*known, *MORE_SUFFIXES))


def load_image(path: str | Path) -> Image.Image:
    """Read the first frame of an untrusted picture file as an upright, opaque RGB picture.

    Transparency lies over white. 16-bit grey is divided by 257; 32-bit integers and floats are
    scaled as `_tonal_range` says. Colour profiles are ignored, as they are in training. The
    result carries no metadata.

    Raises:
        ImageError: one sentence that names the file (never its folder) and the way out.
    """
    name = printable_name(path)
    data = _read(path, name)
    try:
        return _decode(data, name)
    except ImageError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(_too_many_pixels(name)) from error
    except MemoryError as error:
        raise ImageError(
            f"'{name}' needs more memory than is free; make it smaller and try again."
        ) from error
    except UnidentifiedImageError as error:
        raise ImageError(
            f"'{name}' is not a picture that we can read; save it as PNG or JPEG and try again."
        ) from error
    except Exception as error:  # on a damaged file Pillow's plugins raise nearly anything
        raise ImageError(
            f"'{name}' is damaged, cut short or built in an unusual way; "
            "save it again as PNG or JPEG, or try another picture."
        ) from error


def visible_square(image: Image.Image, most: int = 1024, at: float = 0.5) -> Image.Image:
    """The square that models see, at most `most` pixels wide: what a page keeps.

    `at` 0..1 is where it stands along the longer side; in the middle by default.
    """
    square = _square(image, at)
    return square_crop(square, most) if square.width > most else square


def _square(image: Image.Image, at: float = 0.5) -> Image.Image:
    side = min(image.size)
    left, top = int((image.width - side) * at), int((image.height - side) * at)
    return image.crop((left, top, left + side, top + side))


def square_crop(image: Image.Image, size: int) -> Image.Image:
    """What a model sees: the centre square of an RGB picture, `size` x `size` pixels.

    It must equal training's `vitdemo.data.prepare` (torch, bicubic, antialiased) on the same
    square within one grey level, which rules out two shorter ways: `resize(box=...)` lets the
    filter reach beyond the square (up to 11 grey levels at its rim), and resizing 8-bit pixels
    clips between the horizontal and the vertical pass (up to 20 on an enlarged, noisy picture).
    """
    channels = [
        band.convert("F").resize((size, size), Image.Resampling.BICUBIC)
        for band in _square(image).split()
    ]
    pixels = np.stack([np.asarray(channel) for channel in channels], axis=-1)  # (size, size, 3)
    return Image.fromarray(np.rint(pixels.clip(0, 255)).astype(np.uint8))


def to_uint8(image: Image.Image) -> np.ndarray:
    """RGB picture -> a writable, contiguous copy, (3, H, W) uint8."""
    return np.asarray(image).transpose(2, 0, 1).copy(order="C")  # (3, H, W)


def printable_name(path: str | Path) -> str:
    """Return the file's own name, shortened and on one line, without its folder."""
    name = "".join(letter if letter.isprintable() else "?" for letter in Path(path).name)
    return name if len(name) <= 80 else f"{name[:60]}...{name[-15:]}"


def _read(path: str | Path, name: str) -> bytes:
    """The whole file at once: Pillow would map it, and dies if it shrinks meanwhile."""
    file = Path(path)
    try:
        if file.is_dir():
            raise ImageError(f"'{name}' is a folder; choose a picture inside it.")
        if not file.is_file():  # nor do we wait on a pipe or a device
            raise ImageError(f"'{name}' does not exist; choose the picture again.")
        size = file.stat().st_size
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1) if size <= MAX_BYTES else b""
    except (OSError, ValueError) as error:
        raise ImageError(f"'{name}' cannot be opened; choose the picture again.") from error
    if max(size, len(data)) > MAX_BYTES:
        limit = f"{MAX_BYTES / 1e6:g} MB"
        raise ImageError(f"'{name}' is larger than {limit}; make it smaller and try again.")
    if not data:
        raise ImageError(f"'{name}' is empty; choose another picture.")
    return data


def _decode(data: bytes, name: str) -> Image.Image:
    meter = _Meter(_screen(data))
    with Image.open(meter, formats=FORMATS) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise ImageError(_too_many_pixels(name, f" ({width} x {height})"))
        _check_decoder(image, len(data))
        meter.reads_left = 300_000  # a large PNG comes in some 7,000 chunks, three reads each
        image.load()
        method = _UPRIGHT.get(_orientation(image))  # after load: TIFF turns itself there
        rgb = _to_rgb(image)
    rgb = rgb if method is None else rgb.transpose(method)
    rgb.info = {}  # no place and date of a photo, no orientation to be applied twice
    return rgb


def _too_many_pixels(name: str, size: str = "") -> str:
    limit = f"{MAX_PIXELS / 1e6:g} megapixels"
    return f"'{name}' has more than {limit}{size}; make it smaller and try again."


class _Meter(io.BytesIO):
    """The file's bytes, with an end to how often and how much a parser may read.

    Pillow joins the comments of a GIF one by one: 4 MB of them take 44 s, in quadratic time.
    The tags of a TIFF may all point at the same megabytes, each to be copied.
    """

    def __init__(self, data: bytes):
        super().__init__(data)
        self.reads_left = 20_000  # until the header is read, which takes a photo some hundred
        self.bytes_left = 3 * len(data) + 1_000_000

    def read(self, size: int | None = -1, /) -> bytes:
        chunk = super().read(size)
        self.reads_left -= 1
        self.bytes_left -= len(chunk)
        if self.reads_left < 0 or self.bytes_left < 0:
            raise OSError("reading this file takes too many steps")
        return chunk


def _screen(data: bytes) -> bytes:
    """Refuse or blunt what costs too much before Pillow lets us look at the header."""
    if data.startswith(b"\xff\xd8\xff"):
        return _screen_jpeg(data)
    if data[4:8] == b"ftyp":
        # Pillow parses the EXIF block of an AVIF of any size, at the cost told in `_screen_jpeg`.
        # It is not needed: AVIF and HEIC turn their picture by `irot` and `imir`.
        return re.sub(rb"(infe.{8,10})Exif", rb"\1Exix", data, flags=re.DOTALL)
    if data.startswith((b"II", b"MM")):
        _check_tiff(data)
    return data


def _screen_jpeg(data: bytes) -> bytes:
    """Hide all EXIF segments but the first, refuse absurd numbers of scans.

    Pillow joins EXIF segments and copies what each tag points at: four segments, 240 kB, take
    2.4 GB. A scan may be eleven bytes long and costs 5 ms at 40 megapixels: 60 MB of them take
    hours. A photo has at most some dozens; video behind it can look like a few hundred.
    """
    if data.count(b"\xff\xda") > 1000:
        raise ValueError("too many scans")
    first, mark, rest = data.partition(b"Exif\0\0")
    return first + mark + rest.replace(b"Exif\0\0", b"Exif\0?")


def _check_tiff(data: bytes) -> None:
    """Refuse the TIFFs whose directory lies about the work to come.

    A million strips cost Pillow 270 MB and 9 s. BigTIFF (for files over 4 GB) and double tags
    are read differently by Pillow and libtiff, which would pass by `_check_decoder`.
    """
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(data[:4])
    if order is None:
        raise UnidentifiedImageError("not a classic TIFF")
    (start,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, start)
    tags = []
    for index in range(count):
        tag, _, values = struct.unpack_from(order + "HHI", data, start + 2 + 12 * index)
        tags.append(tag)
        if tag in (273, 279, 324, 325) and values > 100_000:  # strip and tile offsets and sizes
            raise ValueError("too many strips or tiles")
    if max(tags.count(322), tags.count(323)) > 1:  # tile width and length
        raise ValueError("double tile size")


def _check_decoder(image: Image.Image, size: int) -> None:
    """Refuse, after the header and before the pixels, what its decoder would choke on."""
    # Pillow decodes plain PPM and run-length BMP in Python; 3 MB of PPM comments take 44 s.
    if size > 250_000 and any(tile[0] in Image.DECODERS for tile in image.tile):
        raise ValueError("a slow decoder")
    # libtiff allocates a whole tile, however small the picture: 1.5 MB of file became 1.5 GB.
    tags = getattr(image, "tag_v2", {})
    width, length = tags.get(322, 0), tags.get(323, 0)
    if not isinstance(width, int) or not isinstance(length, int) or width * length > MAX_PIXELS:
        raise ValueError("tiles larger than a picture")


def _orientation(image: Image.Image) -> int:
    """EXIF orientation, 1 where there is none: a broken EXIF block does not spoil a picture."""
    block = image.info.get("exif") or image.info.get("Raw profile type exif") or b""
    if len(block) > 150_000:  # 64 kB in a camera's file, twice that as hexadecimal text
        return 1
    try:
        return image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):  # I;16, I;16B, I, F: `convert` would clip at 255
        return Image.fromarray(_to_grey(image)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    rgba = image if image.mode == "RGBA" else image.convert("RGBA")
    white = Image.new("RGB", image.size, "white")
    white.paste(rgba, mask=rgba)
    return white


def _to_grey(image: Image.Image) -> np.ndarray:
    """Integers or floats of one channel -> (H, W) uint8; NaN becomes black."""
    values = np.asarray(image)  # (H, W) uint16, int32 or float32
    if image.format == "TIFF" and image.mode == "I" and image.tag_v2.get(339, (1,))[0] == 1:
        values = values.view(np.uint32)  # Pillow reads unsigned 32-bit samples as signed
    black, white = _tonal_range(image, values)
    low, high = min(black, white), max(black, white)
    grey = np.empty(values.shape, np.uint8)
    step = 1 + 1_000_000 // values.shape[1]  # rows at a time: float64 needs 8 bytes a pixel
    with np.errstate(invalid="ignore"):  # signalling NaNs
        for row in range(0, len(values), step):
            block = values[row : row + step].astype(np.float64)
            block = np.nan_to_num(block, nan=black, posinf=high, neginf=low)
            block = (block - black) / ((white - black) or 1) * 255
            grey[row : row + step] = np.rint(block.clip(0, 255))
    if image.mode.startswith("I;16") and "transparency" in image.info:
        grey[values == image.info["transparency"]] = 255  # PNG: one value is transparent
    return grey


def _tonal_range(image: Image.Image, values: np.ndarray) -> tuple[float, float]:
    """The values that mean black and white.

    16-bit grey spans 0..65535, 12-bit TIFF 0..4095. A 32-bit integer or float file does not say:
    it gets the usual range (0..1, 0..255 or 0..65535) that holds all its values, provided that
    the brightest reaches a sixteenth of it; otherwise its own smallest and largest finite value.
    """
    tags = getattr(image, "tag_v2", {})
    if image.mode.startswith("I;16"):
        black, white = 0.0, 4095.0 if tags.get(258) == (12,) else 65535.0
    elif image.format == "PPM" and image.mode == "I":
        black, white = 0.0, 65535.0  # Pillow has already scaled it to that
    else:
        black, white = _usual_range(values[np.isfinite(values)])
    # Photometric interpretation 0, white is zero: Pillow inverts only 8 bits and fewer.
    return (white, black) if tags.get(262) == 0 else (black, white)


def _usual_range(finite: np.ndarray) -> tuple[float, float]:
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    for white in (1.0, 255.0, 65535.0):
        if low >= 0 and white / 16 <= high <= white:
            return 0.0, white
    return low, high
