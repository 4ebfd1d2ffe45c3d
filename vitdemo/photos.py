"""The example photos: pictures that are here without a data set and without a network."""

from importlib.util import find_spec
from pathlib import Path

# Ours and gradio's own. The first one is a class of CIFAR-10, so that a newcomer begins with
# something that the models know.
OURS = Path(__file__).parents[1] / "assets" / "photos"
GRADIOS = Path(find_spec("gradio").origin).parent / "media_assets" / "images"
EXAMPLES = (
    OURS / "cat.jpg",
    GRADIOS / "bus.png",
    GRADIOS / "lion.jpg",
    GRADIOS / "cheetah1.jpg",
    GRADIOS / "tower.jpg",
)


def example_files() -> list[str]:
    """Paths of those that are here: gradio's differ from version to version."""
    return [str(file) for file in EXAMPLES if file.is_file()]


def name_of(file: str) -> str:
    return Path(file).stem.rstrip("1")
