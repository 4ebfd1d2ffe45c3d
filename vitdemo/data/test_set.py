"""The test images of a dataset, read on request."""

import threading
from dataclasses import dataclass

from PIL import Image

from vitdemo.data.datasets import ImageDataset
from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.data.labelled_images import LabelledImages, compute_fingerprint
from vitdemo.errors import DataError


@dataclass(frozen=True)
class TestImage:
    """One image of the test set with the name of its true class."""

    image: Image.Image
    label: str


class TestSet:
    """The test images of a dataset. Images of a folder are read one by one, on request."""

    def __init__(self, dataset: ImageDataset):
        self.classes = dataset.classes
        self._dataset = dataset
        self._images = dataset.load("test") if dataset.is_cifar10 else None
        self._files = [] if dataset.is_cifar10 else dataset.list_files("test")
        # image side -> images and fingerprint
        self._squares: dict[int, tuple[LabelledImages, str]] = {}
        self._squares_lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._images or self._files)

    def __getitem__(self, index: int) -> TestImage:
        """Return the test image `index`. Raises `DataError` or, for a bad file, `ImageError`."""
        if not 0 <= index < len(self):
            raise DataError(f"There is no test image {index}. Choose 0 to {len(self) - 1}.")
        if self._images:
            pixels = self._images.images[index].permute(1, 2, 0).numpy()  # (S, S, 3)
            image, label = Image.fromarray(pixels), int(self._images.labels[index])
        else:
            path, label = self._files[index]
            image = crop_visible_square(load_image(path))
        return TestImage(image, self.classes[label])

    def load_crops(self, side: int) -> tuple[LabelledImages, str]:
        """Return the square crops of all test images, of width `side`, and their fingerprint.

        CIFAR-10 images keep their size. The first call for a large folder is slow, because all
        images are read. Raises `DataError` for an invalid image file.
        """
        with self._squares_lock:
            side = 0 if self._images else side
            if side not in self._squares:
                pictures = self._images or self._dataset.load("test", side)
                self._squares[side] = (pictures, compute_fingerprint(pictures, self.classes))
            return self._squares[side]
