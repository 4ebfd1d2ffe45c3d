"""Example test images, one row per class. A click on an image opens it in Explore.

The payload, whose `sheet` contains all images in rows of `columns`:

    {"classes": [name, ...], "numbers": [[number of a test image, ...] per class],
     "sheet": image, "columns": int, "pixels": bool, "open": see `describe_opening`}
"""

from vitdemo.analyses.class_statistics import EXAMPLES_PER_CLASS, sample_examples
from vitdemo.context import AppContext
from vitdemo.documents.images import tile_images
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile
from vitdemo.page.explore.tab import describe_opening
from vitdemo.page.feature import Feature
from vitdemo.page.gallery import MAX_PIXELATED_SIDE
from vitdemo.page.view_state import ViewState, needs

VIEW = "class_examples"


@needs(keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    found = sample_examples(context)
    pixelated = context.open_dataset().is_cifar10 and found.images.shape[1] <= MAX_PIXELATED_SIDE
    return {
        "classes": list(found.classes),
        "numbers": found.numbers,
        "sheet": ImageFile(tile_images(found.images, EXAMPLES_PER_CLASS), exact=pixelated),
        "columns": EXAMPLES_PER_CLASS,
        "pixels": pixelated,
        "open": describe_opening(context, state.model),
    }


FEATURE = Feature({VIEW: payload})
