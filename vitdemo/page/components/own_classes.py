"""Editor for custom classes and their images, added as files, folder or zip, or by camera.

    view = OwnClasses(elem_id="own-classes")
    view.ask(handler, ...)      # handler(event: gr.EventData, ...): `wish(event)`

A handler returns a `Drawn`. The script receives:

    {"classes": [{"name": str, "count": int, "sheet": file | None}, ...], "words": str,
     "problems": [str, ...], "undo": bool, "accept": str, "system": [str, ...]}

`accept` is the attribute of the file inputs. `system` lists names of system files, which are not
uploaded. A sheet contains the images of a class next to each other, each `SIDE` pixels wide.
"""

from dataclasses import dataclass

import gradio as gr
import numpy as np
from gradio.data_classes import FileData
from gradio.events import EventListener
from PIL import Image

from vitdemo.errors import DataError
from vitdemo.image_folders import SYSTEM_NAMES
from vitdemo.inputs import image_suffixes
from vitdemo.own_classes import MOST_PICTURES, Collection, OwnClass
from vitdemo.page.components import Drawing, are_uploads, sent, served_picture
from vitdemo.page.components.pictures import strip

SIDE = 56  # width and height of a thumbnail in pixels
GONE = "This class or image was already removed. Choose another one."
WAYS = ("class", "pictures", "folder", "zip", "remove", "undo", "tests")


@dataclass(frozen=True)
class Wish:
    """A request of the browser: `what` is one of `WAYS`, the other fields are its arguments."""

    what: str
    name: str = ""
    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # the folder of each path; the last part is the class name
    index: int = -1
    picture: int | None = None


@dataclass(frozen=True)
class Drawn:
    """The `collection` to show, with a message `words` and `problems` that occurred.

    `undo` is True if the last step can be undone.
    """

    collection: Collection
    words: str = ""
    problems: tuple[str, ...] = ()
    undo: bool = False


class OwnClasses(Drawing):
    """Component described in the module docstring, with the event `ask`."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("ask"))

    def drawn(self, value: Drawn) -> dict:
        return {
            "classes": [
                {"name": own.name, "count": len(own.pictures), "sheet": self._sheet(own)}
                for own in value.collection.classes
            ],
            "words": value.words,
            "problems": list(value.problems),
            "undo": value.undo,
            "accept": ",".join(("image/*", *sorted(image_suffixes()))),
            "system": sorted(SYSTEM_NAMES),
        }

    def _sheet(self, own: OwnClass) -> FileData | None:
        if not own.pictures:
            return None
        return served_picture(self, strip(small(own)), exact=False)


def small(own: OwnClass) -> np.ndarray:
    """Return the thumbnails of the n images of a class, (n, SIDE, SIDE, 3) uint8."""
    size = (SIDE, SIDE)
    squares = (picture.square for picture in own.pictures)
    return np.stack([np.asarray(each.resize(size, Image.Resampling.BILINEAR)) for each in squares])


def wish(event: gr.EventData, collection: Collection) -> Wish:
    """Parse and validate an untrusted browser event. Raises `DataError` if it is invalid."""
    data = sent(event)
    what, name, paths = data.get("what"), data.get("name", ""), data.get("paths", [])
    index, picture, names = -1, data.get("picture"), data.get("names", [])
    known = what in WAYS and isinstance(name, str)
    if not known or not are_strings(paths) or not are_strings(names):
        raise DataError("This item no longer exists. Reload the page.")
    if what == "folder" and len(names) != len(paths):
        raise DataError(
            "The number of folders differs from the number of files. Add the folder again."
        )
    if what in ("pictures", "remove"):
        index = _named(name, collection)
        if picture is not None:
            picture = _number(picture, len(collection.classes[index].pictures))
    if not are_uploads(paths):
        raise DataError("The uploaded files were already deleted. Add them again.")
    return Wish(what, name, tuple(paths), tuple(names), index, picture)


def _named(name: str, collection: Collection) -> int:
    names = [own.name for own in collection.classes]
    if name not in names:
        raise DataError(GONE)
    return names.index(name)


def are_strings(found: object) -> bool:
    is_list = isinstance(found, list) and len(found) <= MOST_PICTURES
    return is_list and all(isinstance(each, str) for each in found)


def _number(value: object, count: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
        raise DataError(GONE)
    return value
