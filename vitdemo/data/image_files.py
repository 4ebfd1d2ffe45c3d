"""Reading untrusted image files, and cropping images to the input of a model.

A file may be anything: a rotated photo, a 16-bit scan, a text file named `.png`, or a few hundred
bytes that allocate gigabytes. `load_image` accepts any file. The function returns an 8-bit RGB
image or raises `ImageError` with a message for the user. Pillow's global settings are not changed,
because other users decode images at the same time.

Pillow limits the number of pixels, but not the work of reading a file. `_sanitise` and
`_LimitedReader` limit this work. The costs in comments were measured with Pillow 12.3 on two CPU
cores in November 2026. Protection against a fault in a C decoder would need a separate process.
"""

import io
import re
import struct
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError, features
from PIL.JpegImagePlugin import JpegImageFile

from vitdemo.errors import ImageError

# A 40-megapixel photo has about 60 MB as PNG, and less as JPEG, so 30 uploads fit into 2 GB.
MAX_FILE_BYTES = 60_000_000
MAX_PIXELS = 40_000_000
MAX_12_BITS = 4095  # largest value of 12 bits
# The decoder scales larger JPEG photos down by a factor of 2 or 4. Phones have up to 200
# megapixels.
MAX_JPEG_PIXELS = 200_000_000
MAX_SCALED_PIXELS = 12_500_000

# Only common formats: EPS starts Ghostscript, and ICO and ICNS contain a second, unchecked image.
SUPPORTED_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
if "avif" in features.modules and features.check("avif"):  # Pillow 11.0 to 11.2 cannot read AVIF
    SUPPORTED_FORMATS += ("AVIF",)
try:  # the format of phone photos; optional, because training does not need it
    from pillow_heif import register_heif_opener
except ImportError:
    pass
else:
    register_heif_opener(thumbnails=False)
    SUPPORTED_FORMATS += ("HEIF",)

JPEG_START = b"\xff\xd8\xff"
HEIF_SUFFIXES = (".heic", ".heics", ".heif", ".heifs", ".hif")  # suffixes that need pillow-heif
# Pillow's table does not contain these suffixes of BMP and JPEG files.
EXTRA_SUFFIXES = (".dib", ".jfi", ".jif", ".mpo", ".pjp", ".pjpeg")

_UPRIGHT_TRANSPOSES = {  # EXIF orientation -> transposition that makes the image upright
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
    """Return the suffixes of the files that `load_image` reads, in lower case with a dot.

    The suffixes (`SUPPORTED_FORMATS` and Pillow's table) depend on the installed packages.
    """
    Image.init()  # imports the plugins, which register their suffixes
    known = (suffix for suffix, kind in Image.EXTENSION.items() if kind in SUPPORTED_FORMATS)
    return frozenset((*known, *EXTRA_SUFFIXES))


def load_image(path: str | Path) -> Image.Image:
    """Read the first frame of an untrusted image file as an upright, opaque RGB image.

    Transparent pixels are drawn over white. 16-bit grey values are divided by 257. Values of 12 or
    32 bits and floats are scaled as described in `_find_tonal_range`. Colour profiles are ignored,
    as in training. A JPEG photo with more than `MAX_PIXELS` pixels is scaled down during decoding.
    The result has no metadata.

    Raises:
        ImageError: the message contains the file name (without a folder) and a remedy.
    """
    name = printable_name(path)
    data = _read_bytes(path, name)
    try:
        return _decode(data, name)
    except ImageError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(_pixel_limit_message(name, MAX_PIXELS)) from error
    except MemoryError as error:
        raise ImageError(
            f"'{name}' needs more memory than is available. Make it smaller and try again."
        ) from error
    except UnidentifiedImageError as error:
        raise ImageError(
            f"'{name}' is not an image in a supported format. Save it as PNG or JPEG and try again."
        ) from error
    except Exception as error:  # Pillow's plugins raise many exception types for a damaged file.
        raise ImageError(
            f"'{name}' is damaged, incomplete or has an unusual structure. "
            "Save it again as PNG or JPEG, or choose another image."
        ) from error


def crop_visible_square(
    image: Image.Image, max_side: int = 1024, position: float = 0.5
) -> Image.Image:
    """Return the largest square crop of an image, with at most `max_side` pixels per side.

    `position` is the position of the crop along the longer side, from 0 (left or top) to 1 (right
    or bottom).
    """
    square = _crop_square(image, position)
    return crop_and_resize(square, max_side) if square.width > max_side else square


def _crop_square(image: Image.Image, position: float = 0.5) -> Image.Image:
    side = min(image.size)
    left, top = int((image.width - side) * position), int((image.height - side) * position)
    return image.crop((left, top, left + side, top + side))


def crop_and_resize(
    image: Image.Image, size: int, fraction: float = 1.0, interpolation: str = "bicubic"
) -> Image.Image:
    """Return the centre crop of an RGB image as `size` x `size` pixels, the model input.

    `fraction` is the side of the crop divided by the shorter side of the image. The image is
    first resized to `size / fraction` pixels with Pillow's filter `interpolation`, as in timm and
    transformers.

    The result differs by at most one grey level from `vitdemo.data.preprocess_images` (bicubic,
    antialiased). Two simpler ways differ more. With `resize(box=...)`, the filter uses pixels
    outside the square (up to 11 grey levels at the border). Resizing 8-bit pixels clips between the
    horizontal and the vertical pass (up to 20 grey levels for an enlarged, noisy image).
    """
    resized, start = _find_crop(size, fraction)
    method = Image.Resampling[interpolation.upper()]
    channels = [
        band.convert("F")
        .resize((resized, resized), method)
        .crop((start, start, start + size, start + size))
        for band in _crop_square(image).split()
    ]
    pixels = np.stack([np.asarray(channel) for channel in channels], axis=-1)  # (size, size, 3)
    return Image.fromarray(np.rint(pixels.clip(0, 255)).astype(np.uint8))


def make_resize_matrix(
    side: int, size: int, fraction: float = 1.0, interpolation: str = "bicubic"
) -> np.ndarray:
    """Return Pillow's weights (size, side) float32 of each pixel in `crop_and_resize`.

    They resize rows or columns of a square image of `side` pixels.
    """
    resized, start = _find_crop(size, fraction)
    unit = Image.fromarray(np.eye(side, dtype=np.float32))
    rows = unit.resize((resized, side), Image.Resampling[interpolation.upper()])
    return np.asarray(rows)[:, start : start + size].T.copy()


def _find_crop(size: int, fraction: float) -> tuple[int, int]:
    """Return the side of the resized image, and the first pixel of the centre crop."""
    resized = max(size, round(size / fraction))
    return resized, round((resized - size) / 2)  # rounds an odd difference as timm does


def to_uint8(image: Image.Image) -> np.ndarray:
    """Return an RGB image as a writable, contiguous array (3, H, W) uint8."""
    return np.asarray(image).transpose(2, 0, 1).copy(order="C")  # (3, H, W)


def printable_name(path: str | Path) -> str:
    """Return the file name of `path` without the folder, shortened and on one line."""
    name = "".join(letter if letter.isprintable() else "?" for letter in Path(path).name)
    return name if len(name) <= 80 else f"{name[:60]}...{name[-15:]}"


def _read_bytes(path: str | Path, name: str) -> bytes:
    """Read the whole file, because Pillow would crash if a memory-mapped file shrinks."""
    file = Path(path)
    try:
        if file.is_dir():
            raise ImageError(f"'{name}' is a folder. Choose an image in it.")
        if not file.is_file():  # pipes and devices could block
            raise ImageError(f"'{name}' does not exist. Choose the image again.")
        size = file.stat().st_size
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1) if size <= MAX_FILE_BYTES else b""
    except (OSError, ValueError) as error:
        raise ImageError(f"'{name}' cannot be opened. Choose the image again.") from error
    if max(size, len(data)) > MAX_FILE_BYTES:
        limit = f"{MAX_FILE_BYTES / 1e6:g} MB"
        raise ImageError(f"'{name}' is larger than {limit}. Make it smaller and try again.")
    if not data:
        raise ImageError(f"'{name}' is empty. Choose another image.")
    return data


def _decode(data: bytes, name: str) -> Image.Image:
    meter = _LimitedReader(_sanitise(data))
    is_jpeg = data.startswith(JPEG_START)  # `Image.open` rejects above 179 megapixels
    with JpegImageFile(meter) if is_jpeg else Image.open(meter, formats=SUPPORTED_FORMATS) as image:
        _limit_pixels(image, meter.tell(), data, name)
        _check_decoder(image, len(data))
        meter.reads_left = 300_000  # a large PNG has about 7,000 chunks with three reads each
        return _convert(image)


def convert_image(image: Image.Image) -> Image.Image:
    """Return an image that Pillow opened as an upright, opaque RGB image; see `load_image`.

    Raises `ImageError` if its file is damaged.
    """
    try:
        return _convert(image)
    except (OSError, ValueError, SyntaxError) as error:
        raise ImageError(
            "The image is damaged or incomplete. Save it again as PNG or JPEG, or choose another."
        ) from error


def _convert(image: Image.Image) -> Image.Image:
    image.load()
    # Read after load(), which rotates TIFF images itself.
    method = _UPRIGHT_TRANSPOSES.get(_read_orientation(image))
    rgb = _to_rgb(image)
    rgb = rgb if method is None else rgb.transpose(method)
    rgb.info = {}  # The orientation must not be applied twice; place and date are private.
    return rgb


def _limit_pixels(image: Image.Image, position: int, data: bytes, name: str) -> None:
    """Let the decoder scale a large JPEG down. Raises `ImageError` for other large images.

    `position` is the end of the header. The decoder keeps only a few rows of a photo with a single
    scan. For a progressive JPEG, the decoder keeps the unscaled coefficients of all pixels.
    """
    width, height = image.size
    pixels = width * height
    if pixels <= MAX_PIXELS:
        return
    size = f" ({width} x {height})"
    if not isinstance(image, JpegImageFile) or not _has_single_scan(image, position, data):
        raise ImageError(_pixel_limit_message(name, MAX_PIXELS, size))
    if pixels > MAX_JPEG_PIXELS:
        raise ImageError(_pixel_limit_message(name, MAX_JPEG_PIXELS, size))
    scale = next(scale for scale in (2, 4) if pixels <= MAX_SCALED_PIXELS * scale**2)
    image.draft(None, (max(width // scale, 1), max(height // scale, 1)))


def _has_single_scan(image: JpegImageFile, position: int, data: bytes) -> bool:
    """Return whether the header of the first scan, which ends at `position`, has all channels."""
    count = image.layers
    size = 6 + 2 * count
    start = data[position - size : position - size + 3]
    return "progressive" not in image.info and start == struct.pack(">HB", size, count)


def _pixel_limit_message(name: str, pixels: int, size: str = "") -> str:
    limit = f"{pixels / 1e6:g} megapixels"
    return f"'{name}' has more than {limit}{size}. Make it smaller and try again."


class _LimitedReader(io.BytesIO):
    """File in memory that limits the number of reads and the number of bytes read.

    Pillow joins the comments of a GIF one by one in quadratic time: 4 MB of comments take 44 s.
    All tags of a TIFF may point to the same megabytes, and Pillow copies them for each tag.
    """

    def __init__(self, data: bytes):
        super().__init__(data)
        self.reads_left = 20_000  # limit for the header; photos need a few hundred reads
        self.bytes_left = 3 * len(data) + 1_000_000

    def read(self, size: int | None = -1, /) -> bytes:
        chunk = super().read(size)
        self.reads_left -= 1
        self.bytes_left -= len(chunk)
        if self.reads_left < 0 or self.bytes_left < 0:
            raise OSError("reading this file takes too many steps")
        return chunk


def _sanitise(data: bytes) -> bytes:
    """Reject or change file content that would make Pillow's reading of the header expensive."""
    if data.startswith(JPEG_START):
        return _sanitise_jpeg(data)
    if data[4:8] == b"ftyp":
        # In AVIF, Pillow parses an EXIF block of any size (costs: see `_sanitise_jpeg`). The block
        # is not needed, because AVIF and HEIC store the orientation in `irot` and `imir`.
        return re.sub(rb"(infe.{8,10})Exif", rb"\1Exix", data, flags=re.DOTALL)
    if data.startswith((b"II", b"MM")):
        _check_tiff(data)
    return data


def _sanitise_jpeg(data: bytes) -> bytes:
    """Hide all EXIF segments except the first, and reject more than 1000 scans.

    Pillow joins EXIF segments and copies the data of each tag: segments of 240 kB in total need
    2.4 GB. A scan may have only eleven bytes and takes 5 ms at 40 megapixels, so a file full of
    scans takes hours. A photo has at most a few dozen scans. An attached video can look like a few
    hundred scans.
    """
    if data.count(b"\xff\xda") > 1000:
        raise ValueError("too many scans")
    first, mark, rest = data.partition(b"Exif\0\0")
    return first + mark + rest.replace(b"Exif\0\0", b"Exif\0?")


def _check_tiff(data: bytes) -> None:
    """Reject TIFF files whose directory causes expensive work.

    A million strips cost Pillow 270 MB and 9 s. BigTIFF and duplicate tags are rejected, because
    Pillow and libtiff read them differently, which would bypass `_check_decoder`.
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
    """Reject an image by its header if decoding its pixels would take too much time or memory."""
    # Pillow decodes plain PPM and run-length BMP in Python: 3 MB of PPM comments take 44 s.
    if size > 250_000 and any(tile[0] in Image.DECODERS for tile in image.tile):
        raise ValueError("a slow decoder")
    # libtiff allocates a whole tile even for a small image: a file of 1.5 MB needed 1.5 GB.
    tags = getattr(image, "tag_v2", {})
    width, length = tags.get(322, 0), tags.get(323, 0)
    if not isinstance(width, int) or not isinstance(length, int) or width * length > MAX_PIXELS:
        raise ValueError("tiles larger than the maximum image")


def _read_orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, or 1 (upright) if it is missing or damaged."""
    block = image.info.get("exif") or image.info.get("Raw profile type exif") or b""
    if len(block) > 150_000:  # cameras write up to 64 kB, which are 128 kB as hexadecimal text
        return 1
    try:
        return image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):  # here, `convert` would clip values at 255
        return Image.fromarray(_to_grey(image)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    rgba = image if image.mode == "RGBA" else image.convert("RGBA")
    if image.format in ("BMP", "DIB") and not rgba.getextrema()[3][1]:
        return rgba.convert("RGB")  # most programs leave the fourth byte of a pixel 0
    white = Image.new("RGB", image.size, "white")
    white.paste(rgba, mask=rgba)
    return white


def _to_grey(image: Image.Image) -> np.ndarray:
    """Convert one channel of integers or floats to (H, W) uint8; NaN becomes black."""
    values = np.asarray(image)  # (H, W) uint16, int32 or float32
    if image.format == "TIFF" and image.mode == "I" and image.tag_v2.get(339, (1,))[0] == 1:
        values = values.view(np.uint32)  # Pillow reads unsigned 32-bit samples as signed
    black, white = _find_tonal_range(image, values)
    low, high = min(black, white), max(black, white)
    grey = np.empty(values.shape, np.uint8)
    step = 1 + 1_000_000 // values.shape[1]  # rows per block, to limit the float64 copy
    with np.errstate(invalid="ignore"):  # signalling NaNs raise a warning
        for row in range(0, len(values), step):
            block = values[row : row + step].astype(np.float64)
            block = np.nan_to_num(block, nan=black, posinf=high, neginf=low)
            block = (block - black) / ((white - black) or 1) * 255
            grey[row : row + step] = np.rint(block.clip(0, 255))
    if image.mode.startswith("I;16") and "transparency" in image.info:
        grey[values == image.info["transparency"]] = 255  # this grey value means transparent
    return grey


def _find_tonal_range(image: Image.Image, values: np.ndarray) -> tuple[float, float]:
    """Return the pixel values that mean black and white in a grey `image`.

    16-bit grey ranges from 0 to 65535, and 12-bit TIFF from 0 to 4095. Cameras and scanners also
    store 12 bits in a 16-bit file, so a maximum of 256 to 4095 means 12 bits. For 32-bit integers
    and floats, the range is unknown. Among 0 to 1, 0 to 255 and 0 to 65535, the smallest range that
    contains all values is used. If the maximum is below a sixteenth of this range or no range fits,
    the smallest and the largest finite value are used.
    """
    tags = getattr(image, "tag_v2", {})
    if image.mode.startswith("I;16"):
        has_12_bits = tags.get(258) == (12,) or 255 < values.max(initial=0) <= MAX_12_BITS
        black, white = 0.0, float(MAX_12_BITS if has_12_bits else 65535)
    elif image.format == "PPM" and image.mode == "I":
        black, white = 0.0, 65535.0  # Pillow has already scaled the values
    else:
        black, white = _guess_tonal_range(values[np.isfinite(values)])
    # In photometric interpretation 0, white is zero. Pillow inverts only up to 8 bits.
    return (white, black) if tags.get(262) == 0 else (black, white)


def _guess_tonal_range(finite: np.ndarray) -> tuple[float, float]:
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    for white in (1.0, 255.0, 65535.0):
        if low >= 0 and white / 16 <= high <= white:
            return 0.0, white
    return low, high
