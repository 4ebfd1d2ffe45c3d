"""Example photos, which need neither a dataset nor a network."""

from importlib.util import find_spec
from pathlib import Path

from PIL import Image

from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.installation import included_folder

# New users start with the first photo, so it shows a class of CIFAR-10. The bus resembles an
# automobile and a truck.
OURS = included_folder("photos")
GRADIOS = Path(find_spec("gradio").origin).parent / "media_assets" / "images"
EXAMPLES = (
    OURS / "cat.jpg",
    GRADIOS / "bus.png",
    GRADIOS / "lion.jpg",
    GRADIOS / "cheetah1.jpg",
    GRADIOS / "tower.jpg",
)


OTHER_CLASSES = ("lion", "cheetah", "tower")  # names of photos that show no class of CIFAR-10


def example_files() -> list[str]:
    """Return the paths of all example photos that the installed version of gradio contains."""
    return [str(file) for file in EXAMPLES if file.is_file()]


def is_same_image(one: Image.Image, other: Image.Image | None) -> bool:
    return other is not None and one.size == other.size and one.tobytes() == other.tobytes()


def load_example_squares() -> list[Image.Image]:
    """Return the squares that models receive, in the order of `example_files`."""
    return [crop_visible_square(load_image(file)) for file in example_files()]


def name_of(file: str) -> str:
    return Path(file).stem.rstrip("1")
