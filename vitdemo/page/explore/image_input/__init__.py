"""Input of the image that all models receive, from several sources and with a square crop.

The script sets the key `image` of the view state:

    {"source": "own", "photo:NAME" or "test:NUMBER", "path": path of the user's photo or None,
     "at": position of the square along the longer side, 0..1}

If the server refuses an image, the script restores the previous one. The payload:

    {"image": file, "size": [width, height], "description": str, "label": true class or None,
     "missing": None | {"name": str, "exists": bool}, the model without results}
"""

from vitdemo.context import AppContext
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import CachedFile, load_prepared_image
from vitdemo.page.components import hash_name
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "image_input"


@needs(keys.IMAGE, keys.UNAVAILABLE_MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    """Return a preview of the whole image and its description. Raises `VitdemoError`.

    `UNAVAILABLE_MODEL` is the name of a model that cannot be used. It is a run without weights for
    which the image was opened, or a model in the URL that does not exist.
    """
    found = load_prepared_image(context, state.image)
    missing = state[keys.UNAVAILABLE_MODEL]
    exists = any(run.name == missing for run in context.list_runs()[0])
    return {
        "image": CachedFile(
            hash_name(found.preview, ".img"), lambda: found.preview, len(found.preview)
        ),
        "size": list(found.size),
        "description": found.description,
        "missing": {"name": missing, "exists": exists} if missing else None,
        "label": found.label,
    }


FEATURE = Feature({VIEW: payload})
