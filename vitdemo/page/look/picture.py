"""Where a picture of the Look tab comes from: a file of one's own, a photo, the test set."""

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

KEPT_SECONDS = 6 * 3600  # after it was chosen; a lesson is shorter
PHOTO, TEST = "photo:", "test:"
TRUE_CLASS = "true class"  # in the `info` of what models see of a test picture
OFFERED = 6  # test pictures at a time
ABSENT = "No test pictures yet: the tab Data gets them, or python train.py download."
SIDE = 64  # pixels of a thumbnail


def opened(wish: Asked, test_picture: Callable[[int], TestPicture]) -> Shown:
    """The picture that is asked for. Raises `ImageError` or `DataError` where there is none."""
    if wish.source == OWN:
        return Shown(wish, load_image(wish.path), "Your picture.")
    if (number := test_number(wish.source)) is not None:
        found = test_picture(number)
        return Shown(wish, found.image, f"Test picture {number}.", found.label)
    if (file := photos().get(wish.source)) is None:
        raise ImageError("There is no such photo here: choose another picture.")
    return Shown(wish, load_image(file), f"Photo: {name_of(file)}.")


def square_of(shown: Shown) -> Image.Image:
    """What models can see of it: an RGB square, which knows its true class where there is one."""
    square = visible_square(shown.whole, at=shown.asked.at)
    square.info = {TRUE_CLASS: shown.label} if shown.label else {}
    return square


def test_number(source: str | None) -> int | None:
    """17 of "test:17"; None for anything else."""
    number = (source or "").removeprefix(TEST)
    is_number = number != source and number.isascii() and number.isdigit() and len(number) < 10
    return int(number) if source and is_number else None


def photos() -> dict[str, str]:
    """The example photos by what an address calls them, "photo:cat"."""
    return {PHOTO + Path(file).stem: file for file in example_files()}


@functools.cache  # the files are the same while the page runs
def offered_photos() -> Group:
    """The example photos as thumbnails."""
    found = photos()
    pictures = [thumbnail(load_image(file)) for file in found.values()]
    return Group(np.stack(pictures), [*found], [name_of(file) for file in found.values()])


def offered_tests(
    test_picture: Callable[[int], TestPicture], test_size: Callable[[], int]
) -> tuple[Group | None, str]:
    """Some pictures of the test set at random; none, and a sentence, where it is not there."""
    try:
        size = test_size()
    except VitdemoError:  # the tab Data says it at length
        return None, ABSENT
    try:
        numbers = random.sample(range(size), min(OFFERED, size))
        found = [test_picture(number) for number in numbers]
    except VitdemoError as error:
        return None, str(error)
    if not found:
        return None, "The data set has no test pictures."
    words = [f"Test picture {n}: {f.label}" for n, f in zip(numbers, found, strict=True)]
    pictures = np.stack([thumbnail(each.image) for each in found])
    return Group(pictures, [f"{TEST}{number}" for number in numbers], words), ""


def offered(test_picture: Callable[[int], TestPicture], test_size: Callable[[], int]) -> Offered:
    """All that there is to begin with."""
    tests, sentence = offered_tests(test_picture, test_size)
    return Offered(offered_photos() if photos() else None, tests, sentence)


def thumbnail(image) -> np.ndarray:
    """The square that models see, (SIDE, SIDE, 3) uint8."""
    return np.asarray(square_crop(visible_square(image, 4 * SIDE), SIDE))
