"""Sources of an image in the Explore tab: the user's file, an example photo, the test set."""

import functools
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from vitdemo.data import TestPicture
from vitdemo.errors import ImageError, VitdemoError
from vitdemo.inputs import load_image, square_crop, visible_square
from vitdemo.page.components.offers import Group, Offered
from vitdemo.page.components.picture import OWN, Asked, Shown
from vitdemo.photos import example_files, name_of

KEPT_SECONDS = 6 * 3600  # after the image was chosen; a lesson takes less time
PHOTO, TEST = "photo:", "test:"
TRUE_CLASS = "true class"  # key in the `info` of the square of a test image
OFFERED = 6  # test images at a time
ABSENT = "No test images yet. Download them in the tab Data or with python train.py download."
SIDE = 64  # pixels of a thumbnail


def opened(wish: Asked, test_picture: Callable[[int], TestPicture]) -> Shown:
    """Return the requested image. Raises `ImageError` or `DataError` if it does not exist."""
    if wish.source == OWN:
        return Shown(wish, load_image(wish.path), "Your photo.")
    if (number := test_number(wish.source)) is not None:
        found = test_picture(number)
        return Shown(wish, found.image, f"Test image {number}.", found.label)
    if (file := photos().get(wish.source)) is None:
        raise ImageError("This photo does not exist. Choose another image.")
    return Shown(wish, load_image(file), f"Photo: {name_of(file)}.")


def square_of(shown: Shown) -> Image.Image:
    """Return the RGB square that models can see; its `info` holds the true class, if known."""
    square = visible_square(shown.whole, at=shown.asked.at)
    square.info = {TRUE_CLASS: shown.label} if shown.label else {}
    return square


def test_number(source: str | None) -> int | None:
    """Return 17 for "test:17"; None for any other text."""
    number = (source or "").removeprefix(TEST)
    is_number = number != source and number.isascii() and number.isdigit() and len(number) < 10
    return int(number) if source and is_number else None


def photos() -> dict[str, str]:
    """Return the example photos by their names in URLs, such as "photo:cat"."""
    return {PHOTO + Path(file).stem: file for file in example_files()}


@functools.cache  # the files are the same while the page runs
def offered_photos() -> Group:
    """Return the example photos as thumbnails."""
    found = photos()
    pictures = [thumbnail(load_image(file)) for file in found.values()]
    return Group(np.stack(pictures), [*found], [name_of(file) for file in found.values()])


def offered_tests(
    test_picture: Callable[[int], TestPicture], test_size: Callable[[], int]
) -> tuple[Group | None, str]:
    """Return random test images as thumbnails, or None and a message without a test set."""
    try:
        size = test_size()
    except VitdemoError:  # the tab Data explains how to get the dataset
        return None, ABSENT
    try:
        numbers = random.sample(range(size), min(OFFERED, size))
        found = [test_picture(number) for number in numbers]
    except VitdemoError as error:
        return None, str(error)
    if not found:
        return None, "The dataset has no test images."
    words = [f"Test image {n}: {f.label}" for n, f in zip(numbers, found, strict=True)]
    pictures = np.stack([thumbnail(each.image) for each in found])
    return Group(pictures, [f"{TEST}{number}" for number in numbers], words), ""


def offered(test_picture: Callable[[int], TestPicture], test_size: Callable[[], int]) -> Offered:
    """Return all example images."""
    tests, sentence = offered_tests(test_picture, test_size)
    return Offered(offered_photos() if photos() else None, tests, sentence)


def thumbnail(image) -> np.ndarray:
    """Return the square that models see, (SIDE, SIDE, 3) uint8."""
    return np.asarray(square_crop(visible_square(image, 4 * SIDE), SIDE))
