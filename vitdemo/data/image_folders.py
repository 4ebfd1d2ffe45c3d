"""Class folders: listing their images, and ignoring the files of operating systems.

Datasets and uploads of custom classes follow the same rules. A file is an image if its suffix is
one of `image_files.image_suffixes`. System files and folders are ignored at any depth. Class names
are compared in Unicode NFC. No folder is read twice, even if there are links to the folder.
"""

import functools
import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from vitdemo.data.image_files import HEIF_SUFFIXES, image_suffixes, printable_name
from vitdemo.errors import DataError

# System names in lower case. Names that begin with a dot are ignored without being listed here.
SYSTEM_NAMES = {
    # macOS; "Icon\r" contains the icon of a folder
    *("__macosx", "icon\r", "network trash folder", "temporary items"),
    *("desktop db", "desktop df", "thevolumesettingsfolder", "thefindbycontentfolder"),
    # Windows
    *("thumbs.db", "ehthumbs.db", "ehthumbs_vista.db", "desktop.ini", "picasa.ini"),
    *("$recycle.bin", "system volume information"),
    # Network drives: Synology, QNAP, NetApp
    *("@eadir", "@tmp", "@synoresource", "@recycle", "@recently-snapshot", "@sharebin"),
    *("#recycle", "#snapshot", "~snapshot"),
    # Linux, Android, Python
    *("lost+found", "lost.dir", "__pycache__"),
}
# Locks of Microsoft Office, thumbnails of Synology, fragments of chkdsk, Windows' download mark
_SYSTEM_PATTERN = re.compile(r"~\$.*|synofile_thumb.*|found\.\d{3}|.*:zone\.identifier", re.DOTALL)
PART_NAMES = {  # part of a dataset -> possible folder names in lower case, in order of preference
    "train": ("train", "training", "seg_train"),
    "test": ("test", "testing", "seg_test"),
    "validation": ("val", "valid", "validation", "seg_val"),
}
MAX_LISTED_NAMES = 3  # maximum number of file names in one sentence


def is_system_name(name: str) -> bool:
    """Return whether `name` is the name of a hidden file or folder, or of a system file."""
    name = name.lower()
    return name.startswith(".") or name in SYSTEM_NAMES or bool(_SYSTEM_PATTERN.fullmatch(name))


def is_system_path(path: PurePath) -> bool:
    return any(is_system_name(part) for part in path.parts)


def is_image_name(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in image_suffixes()


def normalize_name(name: str) -> str:
    """Convert `name` to Unicode NFC, because macOS stores "ö" as two code points."""
    return unicodedata.normalize("NFC", name)


def describe_skipped(names: Iterable[str]) -> str:
    """Return a message with the number and names of skipped files, or "" if there are none."""
    names = list(names)
    if not names:
        return ""
    files = "1 file" if len(names) == 1 else f"{len(names)} files"
    words = f"Skipped {files} without an image suffix: {format_some_names(names)}."
    needs_heif = {PurePath(name).suffix.lower() for name in names} & set(HEIF_SUFFIXES)
    return words + (" HEIC images need the package pillow-heif." if needs_heif else "")


def format_some_names(names: Iterable[str]) -> str:
    """Return a text with the first `MAX_LISTED_NAMES` names and the number of further names."""
    names = list(names)
    shown = [_printable_path(name) for name in names[:MAX_LISTED_NAMES]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _printable_path(name: str) -> str:
    return "/".join(printable_name(part) for part in PurePath(name).parts)


def list_class_folders(parent: Path) -> dict[str, list[Path]]:
    """Return the direct subfolders of `parent` by class name (NFC), sorted by name.

    Two folders whose names are equal in NFC form one class. A link to `parent` or to a parent
    folder is not a class. Raises `DataError` for a name that is not valid Unicode.
    """
    above, found = _parent_ids(parent) | {_folder_id(parent)}, {}
    for entry in _list_entries(parent):
        if not _is_folder(entry) or _folder_id(entry.path) in above:
            continue
        try:
            entry.name.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"'{parent}' contains a folder whose name is not valid Unicode "
                f"({os.fsencode(entry.name)!r}). Rename the folder."
            ) from error
        found.setdefault(normalize_name(entry.name), []).append(parent / entry.name)
    return dict(sorted(found.items()))


def find_part_folder(root: Path, part: str) -> Path | None:
    """Return the folder of `part` ("train", "test" or "validation") in `root`, or None.

    If a folder contains only a folder of the same name (seg_train/seg_train/), return the inner
    one.
    """
    if not root.is_dir():
        return None
    entries = {entry.name.lower(): entry for entry in _list_entries(root) if _is_folder(entry)}
    entry = next((entries[name] for name in PART_NAMES[part] if name in entries), None)
    if entry is None:
        return None
    folder = root / entry.name
    while [each.name for each in _list_entries(folder)] == [folder.name]:
        folder = folder / folder.name
    return folder


def list_folders_with_images(parent: Path) -> list[str]:
    """Return the names of the direct subfolders of `parent` that contain images at any depth."""
    folders = [entry.name for entry in _list_entries(parent) if _is_folder(entry)]
    return [
        name
        for name in folders
        if any(is_image_name(file) for _, file in _iter_files(str(parent / name), frozenset(), {}))
    ]


def count_shared_files(first: Iterable[str], second: Iterable[str]) -> int:
    """Count the files of `second` whose content is also in `first`.

    Files that cannot be read are ignored; they are reported when they are loaded.
    """
    files = [[file for path in paths if (file := _read_stamp(path))] for paths in (first, second)]
    sizes = [{size for _, size, _ in each} for each in files]
    common = sizes[0] & sizes[1]  # only files of these sizes can be equal
    known, others = ([_hash_file(*file) for file in each if file[1] in common] for each in files)
    known = set(known)
    return sum(each in known for each in others)


def _read_stamp(path: str) -> tuple[str, int, int] | None:
    """Return path, size and time of change (ns) of a readable file, else None."""
    if not (os.access(path, os.R_OK) and os.path.isfile(path)):
        return None
    status = os.stat(path)
    return path, status.st_size, status.st_mtime_ns


@functools.lru_cache(2**17)
def _hash_file(path: str, size: int, changed_ns: int) -> bytes:
    """Return the hash of the file's content; a file that is unchanged is read only once."""
    return hashlib.sha256(Path(path).read_bytes()).digest()


def list_loose_files(parent: Path) -> list[str]:
    """Return the names of the files directly in `parent`, outside class folders."""
    return [entry.name for entry in _list_entries(parent) if not _is_folder(entry)]


@dataclass
class ClassContent:
    """Files of one class: paths of images and skipped files, and `folders` by (device, inode)."""

    images: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    folders: dict[tuple[int, int], str] = field(default_factory=dict)


def list_class_content(folders: Iterable[Path]) -> ClassContent:
    """Return the files in the `folders` of one class, at any depth, sorted by folder and name.

    Links to parent folders are ignored. Raises `DataError` for a folder that cannot be read.
    """
    found = ClassContent()
    for folder in folders:
        for place, name in sorted(_iter_files(str(folder), _parent_ids(folder), found.folders)):
            kept = found.images if is_image_name(name) else found.skipped
            kept.append(os.path.join(place, name))
    return found


def _iter_files(
    folder: str, above: frozenset[tuple[int, int]], visited: dict[tuple[int, int], str]
) -> Iterator[tuple[str, str]]:
    """Yield (folder, file name) of all files in `folder`, which is inside the folders `above`."""
    identity = _folder_id(folder)
    if identity in above or identity in visited:
        return
    visited[identity] = folder
    linked = []
    for entry in _list_entries(folder):
        if not _is_folder(entry):
            yield folder, entry.name
        elif entry.is_symlink():
            # Links come last, so that a folder is listed under its real path if possible.
            linked.append(entry.path)
        else:
            yield from _iter_files(entry.path, above | {identity}, visited)
    for path in linked:
        yield from _iter_files(path, above | {identity} | _parent_ids(path), visited)


@contextmanager
def _report_unreadable(folder: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"'{folder}' cannot be read ({error.strerror}). Check that it is readable."
        ) from error


def _list_entries(folder: str | Path) -> list[os.DirEntry]:
    """Return the entries of `folder` sorted by name, without system files."""
    with _report_unreadable(folder), os.scandir(folder) as entries:
        kept = [entry for entry in entries if not is_system_name(entry.name)]
    return sorted(kept, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that points to itself
        return False


def _folder_id(folder: str | Path) -> tuple[int, int]:
    with _report_unreadable(folder):
        status = os.stat(folder)
    return status.st_dev, status.st_ino


def _parent_ids(folder: str | Path) -> frozenset[tuple[int, int]]:
    """Return the identities of all parents of `folder`, for the given path and the real path."""
    paths = (Path(os.path.abspath(folder)), Path(os.path.realpath(folder)))
    return frozenset(_folder_id(parent) for path in paths for parent in path.parents)
