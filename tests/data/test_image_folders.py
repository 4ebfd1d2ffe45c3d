"""Class folders: readable image formats, skipped files, system files and links."""

import os
import unicodedata
from pathlib import Path

import pytest

from tests.support.factories import noise, write_noise_images
from vitdemo.data import image_files, image_folders, open_dataset
from vitdemo.data.image_folders import (
    describe_skipped,
    is_image_name,
    is_system_name,
    is_system_path,
    list_class_content,
)
from vitdemo.errors import DataError
from vitdemo.training.recipes import RECIPES
from vitdemo.training.splits import split_training_set

SYSTEM_NAMES = (
    *("._photo.png", ".DS_Store", ".ipynb_checkpoints", ".Trashes", ".Spotlight-V100"),
    *(".thumbnails", ".fseventsd", ".nfs0001", ".photo.png.icloud", ".~lock.notes.odt#"),
    *("__MACOSX", "Icon\r", "Network Trash Folder", "Thumbs.db", "THUMBS.DB", "desktop.ini"),
    *("Desktop.ini", "ehthumbs.db", "$RECYCLE.BIN", "System Volume Information", "FOUND.000"),
    *("@eaDir", "SYNOFILE_THUMB_M.png", "@Recycle", "@Recently-Snapshot", "#recycle"),
    *("#snapshot", "~snapshot", "lost+found", "LOST.DIR", "~$notes.docx", "__pycache__"),
    *("photo.png:Zone.Identifier",),
)
ORDINARY_NAMES = (
    *("photo.png", "icon", "recycled", "thumbs", "~me", "$5", "@home", "#1", "macosx", "found"),
    *("desktop", "größe", "猫", "a b", "1.5", "snapshot"),
)
# A file of each suffix is written with Pillow as this format.
PILLOW_FORMATS = {
    **dict.fromkeys((".png", ".apng"), "PNG"),
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif", ".jfi", ".jif", ".pjpeg", ".pjp"), "JPEG"),
    **dict.fromkeys((".bmp", ".dib"), "BMP"),
    **dict.fromkeys((".tif", ".tiff"), "TIFF"),
    **dict.fromkeys((".ppm", ".pnm"), "PPM"),
    **{".mpo": "MPO", ".gif": "GIF", ".webp": "WEBP"},
    **dict.fromkeys((".avif", ".avifs"), "AVIF"),
    **dict.fromkeys((".heic", ".heics", ".heif", ".heifs", ".hif"), "HEIF"),
}
GREY_SUFFIXES = (".pgm", ".pbm", ".pfm")  # they need special modes


def write_image(path: Path, seed: int = 0) -> None:
    suffix = path.suffix.lower()
    modes = {".pgm": "L", ".pbm": "1", ".pfm": "F"}
    image = noise(seed, (20, 20)).convert(modes.get(suffix, "RGB"))
    image.save(path, PILLOW_FORMATS.get(suffix, "PPM"))


def count_labels(root: Path, part: str = "train") -> dict[str, int]:
    source = open_dataset(root)
    counts = source.load_labels(part).bincount(minlength=len(source.classes)).tolist()
    return dict(zip(source.classes, counts, strict=True))


def test_system_names_are_recognised_at_any_depth():
    for name in SYSTEM_NAMES:
        assert is_system_name(name), name
        assert is_system_path(Path("set", name, "a.png")) and is_system_path(Path("set", name))
    assert not any(map(is_system_name, ORDINARY_NAMES))


@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
def test_files_of_every_image_suffix_are_read(tmp_path, upper):
    suffixes = image_files.image_suffixes()
    expected = {*PILLOW_FORMATS, *GREY_SUFFIXES} - (
        set() if "HEIF" in image_files.SUPPORTED_FORMATS else {*image_files.HEIF_SUFFIXES}
    )
    expected -= set() if "AVIF" in image_files.SUPPORTED_FORMATS else {".avif", ".avifs"}
    assert suffixes == expected
    for i, suffix in enumerate(sorted(suffixes)):
        folder = tmp_path / "train" / f"of {suffix}"
        folder.mkdir(parents=True)
        for j in range(2):
            write_image(folder / f"{j}{suffix.upper() if upper else suffix}", 2 * i + j)
    write_noise_images(tmp_path, {"test/of .png": 1})
    assert count_labels(tmp_path) == {f"of {suffix}": 2 for suffix in suffixes}
    assert len(open_dataset(tmp_path).load("train", 16)) == 2 * len(suffixes)  # all can be read


def test_skipped_heic_file_note_names_the_missing_package(monkeypatch):
    monkeypatch.setattr(image_files, "SUPPORTED_FORMATS", ("PNG",))
    image_files.image_suffixes.cache_clear()
    try:
        assert is_image_name("a.PNG") and not is_image_name("a.HEIC")
        assert describe_skipped(["cup/a.HEIC", "cup/b.txt"]) == (
            "Skipped 2 files without an image suffix: cup/a.HEIC, cup/b.txt. "
            "HEIC images need the package pillow-heif."
        )
    finally:
        image_files.image_suffixes.cache_clear()


def test_skipped_files_are_counted_and_named_on_one_line():
    assert describe_skipped([]) == ""
    assert describe_skipped(["a.txt"]) == "Skipped 1 file without an image suffix: a.txt."
    names = ["cup/a\nb.txt", "b.csv", "c.mov", "d", "e.svg"]
    message = "Skipped 5 files without an image suffix: cup/a?b.txt, b.csv, c.mov and 2 more."
    assert describe_skipped(names) == message


def test_other_files_are_skipped_and_a_note_names_them_once(put_pictures):
    root = put_pictures({f"{p}/{n}": 3 for p in ("train", "test") for n in ("cup", "key")})
    for file in ("train/cup/notes.txt", "train/key/more/film.MOV", "test/README", "train/a.csv"):
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_text("x")
    write_image(root / "test" / "loose.png")
    assert count_labels(root) == count_labels(root, "test") == {"cup": 3, "key": 3}
    assert open_dataset(root).list_notes() == [
        "Skipped 4 files without an image suffix: train/cup/notes.txt, train/key/more/film.MOV, "
        "train/a.csv and 1 more.",
        "Skipped 1 image outside the class folders: test/loose.png.",
    ]


@pytest.mark.parametrize("part", ["train", "test"])
def test_class_with_only_skipped_files_raises_an_error(put_pictures, part):
    root = put_pictures({f"{p}/{n}": 3 for p in ("train", "test") for n in ("cup", "key")})
    for file in (root / part / "cup").iterdir():
        file.rename(file.with_suffix(".cr2"))
    message = r"The class 'cup' has no images in .*3 files without an image suffix: 0\.cr2"
    with pytest.raises(DataError, match=message):
        open_dataset(root).load(part)
    other = {"train": "test", "test": "train"}[part]
    assert len(open_dataset(root).load(other)) == 6


def test_unreadable_file_with_an_image_suffix_raises_an_error(put_pictures):
    root = put_pictures({f"{p}/{n}": 3 for p in ("train", "test") for n in ("cup", "key")})
    (root / "test" / "key" / "text.png").write_text("no image")
    source = open_dataset(root)
    for read in (source.check_images, source.load):
        with pytest.raises(
            DataError, match=r"test/key/text\.png' is not an image in a supported format"
        ):
            read("test")
    source.check_images("train")


@pytest.mark.parametrize("name", ["._photo.png", "@eaDir"])
def test_system_files_and_folders_are_ignored(put_pictures, name):
    """Each name is tested as a file, a folder with an image, and a folder next to the classes."""
    root = put_pictures({f"{p}/{n}": 2 for p in ("train", "test") for n in ("cup", "key")})
    for part in ("train", "test"):
        (root / part / "cup" / "deep").mkdir()
        for folder in ("", "cup", "cup/deep"):
            (root / part / folder / name).mkdir()
            write_image(root / part / folder / name / "x.png")
        (root / part / "key" / name).write_bytes(b"\0\5\x16\7")
    source = open_dataset(root)
    assert source.classes == ("cup", "key")
    assert len(source.load("train")) == len(source.load("test")) == 4
    assert source.list_notes() == []


def test_class_names_are_equal_in_both_unicode_normal_forms(put_pictures):
    composed, decomposed = (unicodedata.normalize(form, "größe") for form in ("NFC", "NFD"))
    assert composed != decomposed
    root = put_pictures({f"train/{composed}": 3, "train/x": 2, f"test/{decomposed}": 2})
    assert count_labels(root) == {composed: 3, "x": 2}
    assert count_labels(root, "test") == {composed: 2, "x": 0}
    # On file systems that allow both forms next to each other, they are one class.
    both = put_pictures({f"train/{composed}": 3, f"train/{decomposed}": 2, "train/x": 2}, "both")
    (both / "test").mkdir()
    assert count_labels(both) == {composed: 5, "x": 2}


def test_class_name_that_is_not_unicode_raises_an_error(put_pictures):
    root = put_pictures({"train/cup": 2, "train/key": 2, "test/cup": 1})
    try:
        os.mkdir(os.fsencode(root / "train") + b"/caf\xe9")
    except OSError:
        pytest.skip("this disk takes Unicode names only")
    with pytest.raises(DataError, match=r"caf\\xe9.*Rename the folder"):
        open_dataset(root)


# --- links ---------------------------------------------------------------------------------------


@pytest.fixture
def linked(put_pictures):
    """Folder of a dataset with links to images elsewhere in two of its classes."""
    root = put_pictures({"train/cup": 5, "train/key": 4, "test/cup": 1, "elsewhere/pen": 3})
    (root / "train" / "pen").symlink_to(root / "elsewhere" / "pen", target_is_directory=True)
    (root / "train" / "key" / "9.png").symlink_to(root / "elsewhere" / "pen" / "0.png")
    return root


def test_ordinary_links_to_folders_and_files_are_followed(linked):
    assert count_labels(linked) == {"cup": 5, "key": 5, "pen": 3}
    inner = linked / "train" / "cup" / "more"
    inner.symlink_to(write_noise_images(linked / "elsewhere", {"cups": 2}) / "cups")
    assert count_labels(linked) == {"cup": 7, "key": 5, "pen": 3}


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("train/cup/loop", "train/cup"),
        ("train/cup/deep/loop", "train/cup"),
        ("train/cup/deep/loop", "train/cup/deep"),
        ("train/cup/loop", "train"),
        ("train/cup/loop", "."),
        ("train/cup/loop", ".."),
        ("train/loop", "train"),
        ("train/loop", "."),
        ("elsewhere/pen/loop", "elsewhere"),
        ("elsewhere/pen/loop", "train"),
        ("elsewhere/pen/loop", "elsewhere/pen"),
    ],
)
def test_link_to_a_parent_folder_is_not_followed(linked, link, target):
    (linked / link).parent.mkdir(exist_ok=True)
    (linked / link).symlink_to((linked / target).resolve(), target_is_directory=True)
    assert count_labels(linked) == {"cup": 5, "key": 5, "pen": 3}


def test_link_to_a_parent_of_a_linked_folder_is_not_followed(linked):
    outside = write_noise_images(linked / "elsewhere" / "out", {"in": 2, "other": 7})
    (outside / "in" / "up").symlink_to(outside, target_is_directory=True)
    (linked / "train" / "cup" / "more").symlink_to(outside / "in", target_is_directory=True)
    assert count_labels(linked)["cup"] == 7


def test_folder_with_two_links_is_read_once(linked):
    shared = write_noise_images(linked / "elsewhere", {"shared": 3}) / "shared"
    for name in ("a", "b"):
        (linked / "train" / "cup" / name).symlink_to(shared, target_is_directory=True)
    (linked / "train" / "cup" / "real").mkdir()
    (linked / "train" / "cup" / "0 link").symlink_to(linked / "train" / "cup" / "real")
    write_image(linked / "train" / "cup" / "real" / "x.png")
    source = open_dataset(linked)
    assert count_labels(linked)["cup"] == 5 + 3 + 1
    assert str(linked / "train" / "cup" / "real" / "x.png") in dict(source.list_files("train"))


@pytest.mark.parametrize("link", ["train/mug", "train/key/mugs"])
def test_folder_linked_from_two_classes_raises_an_error(linked, link):
    (linked / link).symlink_to(linked / "train" / "cup", target_is_directory=True)
    with pytest.raises(DataError, match=r"belongs to two classes, 'cup' and '(mug|key)'"):
        open_dataset(linked).list_files("train")


def test_broken_links_are_reported(linked):
    (linked / "train" / "cup" / "x.png").symlink_to(linked / "none.png")
    (linked / "train" / "cup" / "self").symlink_to(linked / "train" / "cup" / "self")
    source = open_dataset(linked)
    assert source.list_notes()[0] == "Skipped 1 file without an image suffix: train/cup/self."
    with pytest.raises(DataError, match=r"cup/x\.png' does not exist"):
        source.load("train")


# --- order ---------------------------------------------------------------------------------------


def test_images_are_sorted_by_folder_and_name(tmp_path):
    """Sorted by folder and then by name, as torchvision does: fingerprints of runs depend on it."""
    paths = ("b.png", "a.png", "B.png", "deep/a.png", "deep/z.png", "deep-1/a.png", "Z/y/q.png")
    for i, path in enumerate(paths):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        write_image(tmp_path / path, i)
    expected = [
        os.path.join(folder, name)
        for folder, _, names in sorted(os.walk(tmp_path))
        for name in sorted(names)
    ]
    assert list_class_content([tmp_path]).images == expected


def test_unreadable_folder_is_named_in_the_error(monkeypatch, put_pictures):
    root = put_pictures({"train/cup": 2, "train/key": 2, "test/cup": 1})
    locked, scandir = str(root / "train" / "key"), os.scandir

    def fail(folder):
        if str(folder) == locked:
            raise PermissionError(13, "Permission denied", locked)
        return scandir(folder)

    monkeypatch.setattr(image_folders.os, "scandir", fail)
    with pytest.raises(DataError, match=r"train/key' cannot be read \(Permission denied"):
        open_dataset(root).list_files("train")


def write_parts(root: Path, **counts: int) -> Path:
    """Write two classes with `counts` images each into the folder of each part."""
    for number, (part, count) in enumerate(counts.items()):
        for label, name in enumerate(("ill", "normal")):
            folder = root / part / name
            folder.mkdir(parents=True)
            for i in range(count):
                noise(1000 * number + 100 * label + i, (8, 8)).save(folder / f"{i}.png")
    return root


@pytest.mark.parametrize("name", ["val", "valid", "Validation"])
def test_folder_of_validation_images_is_the_validation_set(tmp_path, name):
    source = open_dataset(write_parts(tmp_path, train=6, test=2, **{name: 3}))
    samples, own = source.load_training_images(8)
    assert (len(samples), own) == (18, 6)
    train_idx, val_idx = split_training_set(samples, RECIPES["vit-plain-cpu"], (), own)
    assert train_idx.tolist() == list(range(12)) and val_idx.tolist() == list(range(12, 18))
    assert samples.labels[val_idx].tolist() == [0, 0, 0, 1, 1, 1]
    assert f"{name}/ is the validation set" in " ".join(source.list_notes())


def test_folders_with_images_that_are_not_used_are_named(tmp_path):
    source = open_dataset(write_parts(tmp_path, train=2, test=1, seg_pred=1, holdout=1))
    (tmp_path / "documents").mkdir()
    (tmp_path / "val").mkdir()
    noise().save(tmp_path / "val" / "unlabelled.png")
    assert source.list_notes() == [
        "These folders with images are not used: holdout, seg_pred, val."
    ]
    assert source.load_training_images(8)[1] == 0


def test_folder_inside_a_folder_of_its_name_is_found(tmp_path):
    parts = {f"seg_{part}/seg_{part}": count for part, count in (("train", 3), ("test", 2))}
    source = open_dataset(write_parts(tmp_path, **parts))
    assert source.classes == ("ill", "normal")
    assert [len(source.load_labels(part)) for part in ("train", "test")] == [6, 4]


def test_images_in_the_training_and_the_test_set_are_counted(tmp_path, monkeypatch):
    source = open_dataset(write_parts(tmp_path, train=4, test=2))
    assert source.list_notes() == []
    for name in ("0.png", "1.png"):
        copy = tmp_path / "test" / "ill" / f"copy-{name}"
        copy.write_bytes((tmp_path / "train" / "ill" / name).read_bytes())
    notes = ["2 images are in train/ and in test/, so the test accuracy is too high."]
    assert source.list_notes() == notes
    monkeypatch.setattr(image_folders, "hashlib", None)  # unchanged files are not read again
    assert source.list_notes() == notes
