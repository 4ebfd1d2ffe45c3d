"""Editor for custom classes and their images, added as files, folder or zip, or by camera.

    view = ClassEditor(elem_id="own-classes")
    view.ask(handler, ...)      # handler(event: gr.EventData, ...): `parse_edit_action(event)`

A handler returns a `ClassEditorPayload`. The script receives:

    {"classes": [{"name": str, "count": int, "sheet": file | None}, ...], "words": str,
     "problems": [str, ...], "undo": bool, "accept": str, "system": [str, ...]}

`accept` is the HTML attribute `accept` of the file inputs. `system` lists names of system files,
which the browser does not upload. A sheet contains the images of a class in one row, each
`CLASS_THUMBNAIL_SIDE` pixels wide.
"""

from dataclasses import dataclass

import gradio as gr
import numpy as np
from gradio.data_classes import FileData
from gradio.events import EventListener
from PIL import Image

from vitdemo.custom_classes import MAX_CUSTOM_IMAGES, CustomClass, ImageCollection
from vitdemo.data.image_files import image_suffixes
from vitdemo.data.image_folders import SYSTEM_NAMES
from vitdemo.errors import DataError
from vitdemo.page.components import View, are_uploads, event_payload, serve_image
from vitdemo.page.components.pictures import concatenate_images

CLASS_THUMBNAIL_SIDE = 56  # width and height of a thumbnail in pixels
ALREADY_REMOVED_MESSAGE = "This class or image was already removed. Choose another one."
EDIT_ACTIONS = ("class", "pictures", "folder", "zip", "remove", "undo", "tests")


@dataclass(frozen=True)
class EditAction:
    """Request of the browser: `action` is one of `EDIT_ACTIONS`, the other fields are arguments."""

    action: str
    class_name: str = ""
    paths: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()  # one per path; its last part is the class name
    class_index: int = -1
    image_index: int | None = None


@dataclass(frozen=True)
class ClassEditorPayload:
    """Content of the editor: the user's images, a message, and a sentence per problem.

    `can_undo` is True if the user can undo the last step.
    """

    collection: ImageCollection
    message: str = ""
    problems: tuple[str, ...] = ()
    can_undo: bool = False


class ClassEditor(View):
    """Editor for custom classes; the event `ask` is a request of the browser."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("ask"))

    def to_payload(self, value: ClassEditorPayload) -> dict:
        return {
            "classes": [
                {"name": own.name, "count": len(own.images), "sheet": self._serve_sheet(own)}
                for own in value.collection.classes
            ],
            "words": value.message,
            "problems": list(value.problems),
            "undo": value.can_undo,
            "accept": ",".join(("image/*", *sorted(image_suffixes()))),
            "system": sorted(SYSTEM_NAMES),
        }

    def _serve_sheet(self, own: CustomClass) -> FileData | None:
        if not own.images:
            return None
        return serve_image(self, concatenate_images(make_class_thumbnails(own)), exact=False)


def make_class_thumbnails(own: CustomClass) -> np.ndarray:
    """Return the thumbnails of the n images of a class, (n, SIDE, SIDE, 3) uint8."""
    size = (CLASS_THUMBNAIL_SIDE, CLASS_THUMBNAIL_SIDE)
    squares = (picture.square for picture in own.images)
    return np.stack([np.asarray(each.resize(size, Image.Resampling.BILINEAR)) for each in squares])


def parse_edit_action(event: gr.EventData, collection: ImageCollection) -> EditAction:
    """Parse and validate an untrusted browser event. Raises `DataError` for an invalid event."""
    data = event_payload(event)
    what, name, paths = data.get("what"), data.get("name", ""), data.get("paths", [])
    index, picture, names = -1, data.get("picture"), data.get("names", [])
    known = what in EDIT_ACTIONS and isinstance(name, str)
    if not known or not is_string_list(paths) or not is_string_list(names):
        raise DataError("This item no longer exists. Reload the page.")
    if what == "folder" and len(names) != len(paths):
        raise DataError(
            "The number of folders differs from the number of files. Add the folder again."
        )
    if what in ("pictures", "remove"):
        index = _find_class_index(name, collection)
        if picture is not None:
            picture = _check_image_index(picture, len(collection.classes[index].images))
    if not are_uploads(paths):
        raise DataError("The uploaded files were already deleted. Add them again.")
    return EditAction(what, name, tuple(paths), tuple(names), index, picture)


def _find_class_index(name: str, collection: ImageCollection) -> int:
    names = [own.name for own in collection.classes]
    if name not in names:
        raise DataError(ALREADY_REMOVED_MESSAGE)
    return names.index(name)


def is_string_list(found: object) -> bool:
    is_list = isinstance(found, list) and len(found) <= MAX_CUSTOM_IMAGES
    return is_list and all(isinstance(each, str) for each in found)


def _check_image_index(value: object, count: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
        raise DataError(ALREADY_REMOVED_MESSAGE)
    return value
