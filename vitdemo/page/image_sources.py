"""Sources of the image in the Explore tab: user's photo, examples, ground truth and test images."""

import functools
import io
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from vitdemo.data import TestImage
from vitdemo.data.ground_truth import TASKS, GroundTruthImage, make_ground_truth_image
from vitdemo.data.image_files import crop_and_resize, crop_visible_square, load_image
from vitdemo.data.photos import OTHER_CLASSES, example_files, name_of
from vitdemo.documents.images import concatenate_images
from vitdemo.errors import ImageError, VitdemoError
from vitdemo.page.components import ImageFile, are_uploads

USER_PHOTO = "own"
PHOTO_PREFIX, TEST_PREFIX = "photo:", "test:"
TRUTH_PREFIX = "truth:"  # prefix of a ground truth image, such as "truth:one-mark:3"
USER_TEST_PREFIX = "set:"  # prefix of a user's test image, such as "set:0f3a:17"
TRUE_CLASS_KEY = "true class"  # key of a square's `info`
TRUTH_SEEDS = {"one-mark": (0, 3, 5), "two-marks": (1, 0, 7)}  # images shown, in the order of tasks
NUM_TEST_EXAMPLES = 6  # number of test images shown
THUMBNAIL_SIDE = 64  # pixels
PREVIEW_SIDE = 640  # maximum length of the longer side in the browser, in pixels


@dataclass(frozen=True)
class ImageRequest:
    """Request for an image: its `source`, the `path` of the user's photo, and the crop.

    `crop_position` is the position of the square along the longer side, 0 to 1.
    """

    source: str
    path: str | None = None
    crop_position: float = 0.5


@dataclass(frozen=True)
class PreparedImage:
    """Image for models and browser, decoded only once, with its description `words`.

    `square` is the RGB square that models receive; its `info` contains the true class if it is
    known. `preview` is the encoded whole image. `size` is the original (width, height).
    """

    square: Image.Image
    preview: bytes
    size: tuple[int, int]
    description: str
    label: str | None


def parse_image_fields(data: dict) -> ImageRequest:
    """Parse the untrusted fields of an image request. Raises `ImageError` for an invalid field."""
    source, path, at = data.get("source"), data.get("path"), data.get("at", 0.5)
    if not isinstance(source, str) or len(source) > 200:
        raise ImageError("This image does not exist on the page. Choose another image.")
    if source != USER_PHOTO:
        return ImageRequest(source, None, clamp_fraction(at))
    if not isinstance(path, str):
        raise ImageError("The request contains no image. Choose an image.")
    if not are_uploads([path]):
        raise ImageError("This image is no longer available. Choose it again.")
    return ImageRequest(USER_PHOTO, path, clamp_fraction(at))


def clamp_fraction(value) -> float:
    """Clamp a number to the range 0 to 1; return 0.5 for any other value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(max(float(value), 0.0), 1.0) if is_number and math.isfinite(value) else 0.5


def prepare_image(
    request: ImageRequest, load_test_image: Callable[[int, str], TestImage]
) -> PreparedImage:
    """Load and crop an image; `load_test_image` takes an index and the id of a user's test set."""
    label = None
    if request.source == USER_PHOTO:
        image, words = load_image(request.path), "Your photo."
    elif place := parse_test_source(request.source):
        found = load_test_image(*place)
        image, words, label = found.image, f"Test image {place[0]}.", found.label
    elif truth := find_ground_truth(request.source):
        image, label = truth.image, truth.class_name
        words = f"Ground truth image: {truth.task.title.lower()}."
    elif file := list_photos().get(request.source):
        image, words = load_image(file), f"Photo: {name_of(file)}."
    else:
        raise ImageError("This photo does not exist. Choose another image.")
    square = crop_visible_square(image, position=request.crop_position)
    square.info = {TRUE_CLASS_KEY: label} if label else {}
    return PreparedImage(square, encode_preview(image), image.size, words, label)


def encode_preview(image: Image.Image) -> bytes:
    """Encode the image for the browser, as PNG if it is small, else as a downscaled JPEG."""
    buffer = io.BytesIO()
    if max(image.size) <= 128:
        image.save(buffer, format="PNG")
    else:
        scale = min(1.0, PREVIEW_SIDE / max(image.size))
        size = tuple(max(round(scale * side), 1) for side in image.size)
        small = image if scale == 1 else image.resize(size, Image.Resampling.BILINEAR)
        small.save(buffer, format="JPEG", quality=85)
    return buffer.getvalue()


def parse_test_source(source: str) -> tuple[int, str] | None:
    """Parse the index of a test image, and the id of the user's test set or "".

    "test:17" gives (17, ""), and "set:0f3a:17" gives (17, "0f3a"). Other texts give None.
    """
    prefix = rf"(?:{TEST_PREFIX}|{USER_TEST_PREFIX}(\w{{1,40}}):)"
    found = re.fullmatch(prefix + "([0-9]{1,9})", source)
    return (int(found[2]), found[1] or "") if found else None


def format_test_source(index: int, test_set_id: str = "") -> str:
    """Return the source of a test image, the inverse of `parse_test_source`."""
    prefix = f"{USER_TEST_PREFIX}{test_set_id}:" if test_set_id else TEST_PREFIX
    return f"{prefix}{index}"


def parse_truth_source(source: str) -> tuple[str, int] | None:
    """Parse the task and the seed of a ground truth image such as "truth:one-mark:3"."""
    found = re.fullmatch(rf"{TRUTH_PREFIX}({'|'.join(TASKS)}):([0-9]{{1,4}})", source)
    return (found[1], int(found[2])) if found else None


def get_truth_task(image: ImageRequest | None) -> str | None:
    """Return the task of a ground truth image, which is the name of its model; None without one."""
    place = parse_truth_source(image.source) if image else None
    return place and place[0]


def find_ground_truth(source: str) -> GroundTruthImage | None:
    """Return the ground truth image of a source, or None for another source."""
    place = parse_truth_source(source)
    return make_ground_truth_image(*place) if place else None


def describe_image(source: str) -> dict[str, object]:
    """Return the value of the state key `image` for an image that is not uploaded."""
    return {"source": source, "path": None, "at": 0.5}


def list_truth_sources() -> list[str]:
    """Return the sources of the ground truth images that the page offers."""
    return [f"{TRUTH_PREFIX}{task}:{seed}" for task, seeds in TRUTH_SEEDS.items() for seed in seeds]


@functools.cache  # the images depend only on their seeds
def load_truth_group() -> dict:
    """Return the ground truth images as a group, with the model of each image."""
    sources = list_truth_sources()
    found = [make_ground_truth_image(*parse_truth_source(source)) for source in sources]
    titles = [f"{each.task.title}: {each.class_name}" for each in found]
    group = make_group([each.image for each in found], sources, titles)
    return {**group, "models": [each.task.name for each in found]}


def list_photos() -> dict[str, str]:
    """Return source -> path of the example photos; a source is a name such as "photo:cat"."""
    return {PHOTO_PREFIX + Path(file).stem: file for file in example_files()}


@functools.cache  # the files do not change while the page runs
def load_photo_groups() -> dict[str, dict | None]:
    """Return the example photos as groups: classes of CIFAR-10, and other classes."""
    groups: dict[str, dict[str, str]] = {"photos": {}, "unlike": {}}
    for source, file in list_photos().items():
        groups["unlike" if name_of(file) in OTHER_CLASSES else "photos"][source] = file
    return {name: load_photo_group(files) for name, files in groups.items()}


def load_photo_group(files: dict[str, str]) -> dict | None:
    images = [load_image(file) for file in files.values()]
    return make_group(images, [*files], [name_of(file) for file in files.values()])


def load_example_images(
    test_picture: Callable[[int], TestImage], test_size: Callable[[], int], *, has_truth: bool
) -> dict:
    """Return the payload of `ExampleImages`: photos, ground truth images and random test images."""
    numbers, found = [], []
    sentence = "The dataset has no test images. Add images to its folder test/<class>/."
    try:
        size = test_size()
        numbers = random.sample(range(size), min(NUM_TEST_EXAMPLES, size))
        found = [test_picture(number) for number in numbers]
    except VitdemoError as error:
        sentence = str(error)
    sources = [f"{TEST_PREFIX}{number}" for number in numbers]
    titles = [f"Test image {n}: {each.label}" for n, each in zip(numbers, found, strict=False)]
    tests = make_group([each.image for each in found], sources, titles)
    return {
        **load_photo_groups(),
        "truth": load_truth_group() if has_truth else None,
        "tests": tests,
        "sentence": "" if tests else sentence,
    }


def make_group(images: list[Image.Image], sources: list[str], titles: list[str]) -> dict | None:
    """Return a group of example images, or None without images."""
    if not images:
        return None
    sheet = concatenate_images(np.stack([make_thumbnail(image) for image in images]))
    return {"sources": sources, "titles": titles, "sheet": ImageFile(sheet)}


def make_thumbnail(image) -> np.ndarray:
    """Return a thumbnail of the square that models receive, (SIDE, SIDE, 3) uint8."""
    return np.asarray(
        crop_and_resize(crop_visible_square(image, 4 * THUMBNAIL_SIDE), THUMBNAIL_SIDE)
    )
