"""Editor of custom classes and their images, added as files, folders or zip, or by camera.

The payload:

    {"classes": [{"name": str, "count": int, "sheet": file | None}, ...], "message": str,
     "problems": [str, ...], "can_undo": bool, "accept": str, "system": [str, ...]}

`accept` is the HTML attribute `accept` of the file inputs. `system` lists names of system files,
which the browser does not upload. A sheet contains the images of a class in one row, each
`CLASS_THUMBNAIL_SIDE` pixels wide.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from vitdemo import data
from vitdemo.context import AppContext
from vitdemo.custom_classes import (
    MAX_CUSTOM_IMAGES,
    CustomClass,
    CustomImage,
    ImageCollection,
    export_image_folder,
)
from vitdemo.data.image_files import crop_visible_square, image_suffixes
from vitdemo.data.image_folders import SYSTEM_NAMES
from vitdemo.documents.images import concatenate_images
from vitdemo.errors import DataError
from vitdemo.page.bridge import CachedFile
from vitdemo.page.components import are_uploads, encode_image, hash_name
from vitdemo.page.custom_classes.packing import pack_folder
from vitdemo.page.custom_classes.session import (
    EDITOR_VIEW,
    MODELS_VIEW,
    RESULT_VIEW,
    TRIAL_VIEW,
    CustomClassesSession,
)

ALREADY_REMOVED_MESSAGE = "This class or image was already removed. Choose another one."
UNKNOWN_ACTION_MESSAGE = "This item no longer exists. Reload the page."
FOLDER_COUNT_MESSAGE = (
    "The number of folders differs from the number of files. Add the folder again."
)
DELETED_UPLOADS_MESSAGE = "The uploaded files were already deleted. Add them again."
NO_FILE_MESSAGE = "No file was sent. Choose images, a folder or a zip file."
NO_CLASS_MESSAGE = (
    "These images have no class. Enter a class name first, or add a folder or zip file with one "
    "folder per class."
)
ZIP_START = b"PK\x03\x04"
NO_IMAGES_TO_SAVE_MESSAGE = "There are no images to save. Add images first."
IMAGES_FILE_NAME = "vitdemo-images"
NO_STEP_MESSAGE = "There is no step to undo."
CLASS_THUMBNAIL_SIDE = 56  # width and height of a thumbnail in pixels
EXAMPLE_CLASSES, EXAMPLE_IMAGES_PER_CLASS = 3, 20


def payload(session: CustomClassesSession) -> dict:
    return {
        "classes": [
            {"name": own.name, "count": len(own.images), "sheet": make_sheet(own)}
            for own in session.collection.classes
        ],
        "message": session.message,
        "problems": list(session.problems),
        "can_undo": session.previous_collection is not None,
        "accept": ",".join(("image/*", *sorted(image_suffixes()))),
        "system": sorted(SYSTEM_NAMES),
    }


def make_sheet(own: CustomClass) -> CachedFile | None:
    """Return the images of a class side by side as a JPEG, or None without images."""
    if not own.images:
        return None

    keys = "".join(image.key for image in own.images)
    return CachedFile(
        hash_name(keys.encode(), ".jpg"),
        lambda: encode_image(concatenate_images(make_thumbnails(own.images)), exact=False),
    )


def make_thumbnails(images: Sequence[CustomImage]) -> np.ndarray:
    """Return the thumbnails of n images, (n, SIDE, SIDE, 3) uint8."""
    size = (CLASS_THUMBNAIL_SIDE, CLASS_THUMBNAIL_SIDE)
    resized = (each.square.resize(size, Image.Resampling.BILINEAR) for each in images)
    return np.stack([np.asarray(each) for each in resized])


def edit(
    context: AppContext, session: CustomClassesSession, fields: Mapping[str, object]
) -> list[str]:
    """Apply a browser request to the user's images. Raises `VitdemoError` if it is invalid."""
    had_classes = session.has_probe_classes
    session.problems = tuple(apply_edit(context, session, fields))
    session.message, session.notice = describe_collection(session.collection), ""
    changed = [RESULT_VIEW] if session.has_probe_classes != had_classes else []
    return [EDITOR_VIEW, MODELS_VIEW, TRIAL_VIEW, *changed]


def apply_edit(
    context: AppContext, session: CustomClassesSession, fields: Mapping[str, object]
) -> list[str]:
    """Apply an untrusted request to the collection; return a message per skipped image.

    The request contains the kind of change `what`, the class `name` and the index of an `image`.
    For uploads, it contains `paths` and `folders`, see `add_files`.
    """
    now, problems = session.collection, []
    what, name, paths = fields.get("what"), fields.get("name", ""), fields.get("paths", [])
    folders = fields.get("folders", [])
    if not isinstance(name, str) or not is_string_list(paths) or not is_string_list(folders):
        raise DataError(UNKNOWN_ACTION_MESSAGE)
    if not are_uploads(paths):
        raise DataError(DELETED_UPLOADS_MESSAGE)
    if what == "undo":
        if session.previous_collection is None:
            raise DataError(NO_STEP_MESSAGE)
        session.collection, session.previous_collection = session.previous_collection, None
        return []
    if what == "class":
        changed = now.with_class(name)
    elif what == "add":
        changed, problems = add_files(now, name, paths, folders)
    elif what == "tests":
        changed = add_test_images(context, now)
    elif what == "remove":
        index, image = _find_class_index(name, now), fields.get("image")
        if image is not None:
            _check_image_index(image, len(now.classes[index].images))
        changed = now.without(index, image)
    else:
        raise DataError(UNKNOWN_ACTION_MESSAGE)
    session.collection, session.previous_collection = changed, now
    return problems


def add_files(
    collection: ImageCollection, name: str, paths: Sequence[str], folders: Sequence[str]
) -> tuple[ImageCollection, list[str]]:
    """Add zip files, and images in folders or without a folder; also return messages.

    The class of an image is the last part of its folder. Images without a folder ("") belong to the
    class `name`.
    """
    if not paths:
        raise DataError(NO_FILE_MESSAGE)
    if len(folders) != len(paths):
        raise DataError(FOLDER_COUNT_MESSAGE)
    pairs, problems = list(zip(paths, folders, strict=True)), []
    archives = [path for path in paths if is_zip(path)]
    placed = [pair for pair in pairs if pair[1] and pair[0] not in archives]
    loose = [path for path, folder in pairs if not folder and path not in archives]
    if loose and not name:
        raise DataError(NO_CLASS_MESSAGE)
    for path in archives:
        collection, found = collection.with_zip(path)
        problems += found
    if placed:
        collection, found = collection.with_folders(placed)
        problems += found
    if loose:
        collection, found = collection.with_images_of(name, loose)
        problems += found
    return collection, problems


def is_zip(path: str) -> bool:
    """Return whether a file has the name or the first bytes of a zip file."""
    with Path(path).open("rb") as file:
        return path.lower().endswith(".zip") or file.read(len(ZIP_START)) == ZIP_START


def _find_class_index(name: str, collection: ImageCollection) -> int:
    names = [own.name for own in collection.classes]
    if name not in names:
        raise DataError(ALREADY_REMOVED_MESSAGE)
    return names.index(name)


def is_string_list(value: object) -> bool:
    is_list = isinstance(value, list) and len(value) <= MAX_CUSTOM_IMAGES
    return is_list and all(isinstance(each, str) for each in value)


def _check_image_index(value: object, count: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
        raise DataError(ALREADY_REMOVED_MESSAGE)


def add_test_images(context: AppContext, collection: ImageCollection) -> ImageCollection:
    """Add test images of the first `EXAMPLE_CLASSES` classes as example classes.

    Each class gets `EXAMPLE_IMAGES_PER_CLASS` images. Raises `DataError` without a dataset.
    """
    source = context.open_dataset()
    labels = source.load_labels("test").numpy()
    for c, name in enumerate(source.classes[:EXAMPLE_CLASSES]):
        if name.casefold() not in (each.name.casefold() for each in collection.classes):
            collection = collection.with_class(name)
        index = [each.name.casefold() for each in collection.classes].index(name.casefold())
        chosen = data.sample_stratified(
            np.zeros(int((labels == c).sum()), int), EXAMPLE_IMAGES_PER_CLASS
        )
        for i in np.flatnonzero(labels == c)[chosen]:
            try:
                square = crop_visible_square(context.load_test_image(int(i)).image)
                collection = collection.with_image(index, square, f"test image {i}")
            except DataError:  # The collection already contains this image.
                continue
    return collection


def save_images(session: CustomClassesSession) -> dict:
    """Return all images as a zip file with the paths test/<class>/<image>. A task of the bridge.

    The file can be added again as custom classes, or as a test set. Raises `DataError` without
    images.
    """
    collection = session.collection
    if not len(collection):
        raise DataError(NO_IMAGES_TO_SAVE_MESSAGE)
    is_test = np.ones(len(collection), bool)
    return pack_folder(
        IMAGES_FILE_NAME, lambda folder: export_image_folder(collection, is_test, folder)
    )


def describe_collection(collection: ImageCollection) -> str:
    """Describe the numbers of classes and images, or return "" without classes."""
    if not collection.classes:
        return ""
    many = len(collection.classes)
    noun = "class" if many == 1 else "classes"
    return f"{many} {noun}, {len(collection)} of at most {MAX_CUSTOM_IMAGES} images."
