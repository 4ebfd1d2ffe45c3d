"""Custom classes: a classifier for a few of the user's own images per class, trained in seconds.

The pretrained Vision Transformer stays unchanged. A multinomial logistic regression on its features
(scikit-learn) becomes the new classifier head, so the result is an ordinary model.

    mine = Collection().with_class("mug").with_class("cup")
    mine, problems = mine.with_files(0, paths)
    found = learn(workbench, workbench.run("finetune-deit-tiny"), mine)
    found.accuracy, found.interval  # from cross-validation
    write(workbench, found, folder)  # creates a run folder

Letters: N images, C classes, D feature dimension.
"""

import copy
import hashlib
import lzma
import re
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TypeVar

import numpy as np
import torch
from PIL import Image
from torch import nn

from vitdemo import inputs, runs
from vitdemo.errors import DataError, ImageError, RunError
from vitdemo.features import model_features
from vitdemo.image_folders import (
    describe_skipped,
    is_image_name,
    is_system_name,
    is_system_path,
    name_some,
    normalize_name,
)
from vitdemo.metrics.intervals import wilson_share
from vitdemo.models import count_parameters, is_vision_transformer
from vitdemo.near_duplicates import count_groups, deal_groups, effective_size, group_images
from vitdemo.runs import Evaluation, Run
from vitdemo.runs.provenance import device_name, git_commit, package_versions
from vitdemo.workbench import Workbench

MOST_CLASSES, MOST_PICTURES = 20, 500
FEWEST = 4  # images per class
FEWEST_TO_TRAIN = 10  # images per class that fine-tuning the whole model needs
TESTED_OF = 4  # one in four images is a test image of the fine-tuned model
LONGEST_NAME = 40
KEPT_SIDE = 224  # width of a stored image in pixels; 500 of them take 75 MB
FOLDS, INNER_FOLDS = 5, 3
STRENGTHS = np.logspace(-4, 2, 7)  # scikit-learn's C, the inverse of the regularisation
MOST_ENTRIES = 1_000  # files in a zip file
MOST_UNPACKED = 2 * 2**30  # bytes of a zip file after unpacking
UTF8_FLAG = 0x800  # bit of a zip entry whose name is UTF-8
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)  # errors of a damaged zip

T = TypeVar("T")
# Called with the completed fraction of the work and a text; an exception ends the work.
Report = Callable[[float, str], None]


def nothing(share: float, words: str) -> None:
    """Ignore the progress (the default `Report`)."""


@dataclass(frozen=True, eq=False)
class Picture:
    """The centre `square` of an image, and a `key` that is equal for equal pixels."""

    square: Image.Image
    key: str


@dataclass(frozen=True)
class OwnClass:
    """A class name and its images."""

    name: str
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Collection:
    """Immutable classes with their images; a change returns a new collection, so undo is easy."""

    classes: tuple[OwnClass, ...] = ()

    def __len__(self) -> int:
        return sum(len(each.pictures) for each in self.classes)

    def with_class(self, name: object) -> "Collection":
        """Add a class. Raises `DataError` for an empty, long or used name, or too many classes."""
        name = _class_name(name) if isinstance(name, str) else ""
        if not name or not name.isprintable():
            raise DataError("The class has no name. Enter a name in printable characters.")
        if len(name) > LONGEST_NAME:
            raise DataError(
                f"The class name '{name[:LONGEST_NAME]}…' is too long. Use at most {LONGEST_NAME} "
                "letters."
            )
        if name.casefold() in (each.name.casefold() for each in self.classes):
            raise DataError(f"A class '{name}' already exists. Choose another name.")
        if len(self.classes) == MOST_CLASSES:
            raise DataError(
                f"The limit of {MOST_CLASSES} classes is reached. Remove a class first."
            )
        return Collection((*self.classes, OwnClass(name)))

    def with_files(self, index: int, paths: Sequence[Path | str]) -> tuple["Collection", list[str]]:
        """Add the image files `paths` to class `index`; also return a message per rejected file.

        System files, which users often select along with the images, are ignored.
        """
        found, problems = self, []
        for path in paths:
            if is_system_name(Path(path).name):
                continue
            try:
                found = found.with_picture(index, inputs.load_image(path), Path(path).name)
            except (ImageError, DataError) as error:
                problems.append(str(error))
        return found, problems

    def with_picture(self, index: int, image: Image.Image, name: str = "") -> "Collection":
        """Add an image to class `index`. Raises `DataError` for a duplicate or too many images."""
        square = inputs.visible_square(image, KEPT_SIDE)
        key = hashlib.blake2b(square.tobytes(), digest_size=12).hexdigest()
        for each in self.classes:
            if any(key == picture.key for picture in each.pictures):
                raise DataError(f"'{name}' was skipped: '{each.name}' already contains this image.")
        if len(self) == MOST_PICTURES:
            raise DataError(f"'{name}' was skipped: the limit is {MOST_PICTURES} images.")
        own = self.classes[index]
        return self._with(index, replace(own, pictures=(*own.pictures, Picture(square, key))))

    def with_zip(self, path: Path | str) -> tuple["Collection", list[str]]:
        """Add the images of a zip file `class/image`; also return messages about skipped files.

        System files are ignored and files of other kinds are skipped. Raises `DataError` if the
        file is not a zip, is too large unpacked, has a path outside its folder, or has no class.
        """
        try:
            with zipfile.ZipFile(path) as file, tempfile.TemporaryDirectory() as folder:
                images, problems = _images_of(_zip_entries(file))
                unpacked = ((place, _unpacked(file, info, folder)) for place, info in images)
                found, refused = self._with_images(unpacked)
                return found, refused + problems
        except (*DAMAGED, NotImplementedError, RuntimeError, OSError) as error:
            # The file is damaged, encrypted, not readable, or uses an unsupported compression.
            raise DataError(
                "The zip file cannot be read. Create it again without encryption."
            ) from error

    def with_folders(
        self, files: Iterable[tuple[Path | str, str]]
    ) -> tuple["Collection", list[str]]:
        """Add image files, each with the path of its folder, whose last part is the class name.

        Also return messages about skipped files, like `with_zip`.
        """
        places = [(PurePosixPath(folder, Path(path).name), path) for path, folder in files]
        images, problems = _images_of([each for each in places if not is_system_path(each[0])])
        found, refused = self._with_images(images)
        return found, refused + problems

    def without(self, index: int, picture: int | None = None) -> "Collection":
        """Remove one image of class `index`, or the whole class if `picture` is None."""
        own = self.classes[index]
        if picture is None:
            return Collection(self.classes[:index] + self.classes[index + 1 :])
        left = own.pictures[:picture] + own.pictures[picture + 1 :]
        return self._with(index, replace(own, pictures=left))

    def squares(self) -> list[Image.Image]:
        """Return the N images as squares, ordered by class."""
        return [picture.square for each in self.classes for picture in each.pictures]

    def labels(self) -> np.ndarray:
        """Return the class index of each image, (N,)."""
        counts = [len(each.pictures) for each in self.classes]
        return np.repeat(np.arange(len(counts)), counts)

    def _with(self, index: int, own: OwnClass) -> "Collection":
        return Collection((*self.classes[:index], own, *self.classes[index + 1 :]))

    def _with_images(self, files: Iterable[tuple[PurePosixPath, Path | str]]):
        """Add files with their paths `.../class/name`; omit classes that have no images."""
        found, problems = self, []
        for place, path in files:
            if len(found) == MOST_PICTURES:
                problems.append(
                    f"The limit is {MOST_PICTURES} images. The other images were skipped."
                )
                break
            name = _class_name(place.parent.name)
            known = [each.name.casefold() for each in found.classes]
            try:
                if name.casefold() not in known:
                    found, known = found.with_class(name), [*known, name.casefold()]
                image = inputs.load_image(path)
                found = found.with_picture(known.index(name.casefold()), image, place.name)
            except ImageError:
                problems.append(f"'{place.name}' in '{name}' cannot be read as an image.")
            except DataError as error:
                problems.append(str(error))
        return Collection(tuple(each for each in found.classes if each.pictures)), problems


def _class_name(name: str) -> str:
    """Return `name` in Unicode NFC with single spaces."""
    return " ".join(normalize_name(name).split())


def _unpacked(file: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: str) -> Path:
    """Unpack an entry into `folder` under a safe file name, and return its path."""
    path = Path(folder) / f"picture{PurePosixPath(entry.filename).suffix[:8]}"
    with file.open(entry) as packed:
        path.write_bytes(packed.read(inputs.MAX_BYTES + 1))
    return path


def _zip_entries(file: zipfile.ZipFile) -> list[tuple[PurePosixPath, zipfile.ZipInfo]]:
    """Return the files of a zip with their paths, without system files.

    Raises `DataError` if there are too many files, or a path leads outside the folder.
    """
    infos = [info for info in file.infolist() if not info.is_dir()]
    places = [PurePosixPath(_entry_name(info).replace("\\", "/")) for info in infos]
    found = [
        (place, info)
        for place, info in zip(places, infos, strict=True)
        if ".." in place.parts or not is_system_path(place)
    ]
    if len(found) > MOST_ENTRIES or sum(info.file_size for _, info in found) > MOST_UNPACKED:
        raise DataError(
            f"The zip file is too large. It may contain at most {MOST_ENTRIES} files and "
            f"{MOST_UNPACKED / 2**30:g} GB unpacked."
        )
    for place, _ in found:
        if place.is_absolute() or ".." in place.parts:
            raise DataError(
                f"The path of '{place.name}' leads outside the zip file. Create the file again "
                "without '..' and absolute paths."
            )
    return found


def _entry_name(info: zipfile.ZipInfo) -> str:
    """Return the name of a zip entry.

    By the standard, names without the UTF-8 flag are in code page 437, and Python decodes them so.
    However, macOS (Finder, `ditto`) writes UTF-8 without the flag.
    """
    if info.flag_bits & UTF8_FLAG:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.filename


def _images_of(
    files: Sequence[tuple[PurePosixPath, T]],
) -> tuple[list[tuple[PurePosixPath, T]], list[str]]:
    """Return the (path, file) pairs of images in class folders, and messages about other files.

    Raises `DataError` if there are images, but none of them is in a folder.
    """
    images = [(place, file) for place, file in files if is_image_name(place.name)]
    classed = [(place, file) for place, file in images if place.parent.name]
    loose = [place for place, _ in images if not place.parent.name]
    skipped = [place for place, _ in files if not is_image_name(place.name)]
    if loose and not classed:
        raise DataError(
            f"'{loose[0]}' is not in a folder. Put each image into a folder with its class name."
        )
    used = {folder for place, _ in classed for folder in place.parents}
    empty = {_class_name(place.parent.name): None for place in skipped if place.parent not in used}
    problems = [describe_skipped(map(str, skipped))] + (["No image was found."] * (not images))
    if loose:
        problems.append(f"Skipped images outside class folders: {name_some(map(str, loose))}.")
    problems += [f"The class '{name}' has no images." for name in empty if name]
    return classed, [problem for problem in problems if problem]


@dataclass(frozen=True, eq=False)
class Learnt:
    """A classifier head for `base`, and its predictions for images that it was not fitted on.

    `probabilities` (N, C) come from cross-validation: each image is predicted by a regression that
    was fitted on the other folds, with a `strength` chosen within these folds. Near-identical
    images have the same number in `groups` (N,) and are in the same fold. If a class has only one
    group, no independent image is left for testing: `probabilities` is None and `folds` is 0.
    `weight` (C, D) and `bias` (C,) are fitted on all images.
    """

    base: Run
    collection: Collection
    probabilities: np.ndarray | None
    labels: np.ndarray
    groups: np.ndarray
    weight: np.ndarray
    bias: np.ndarray
    strength: float
    folds: int
    seconds: float

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.collection.classes)

    @property
    def pictures(self) -> list[Picture]:
        return [picture for each in self.collection.classes for picture in each.pictures]

    @cached_property
    def predicted(self) -> np.ndarray:
        return self.probabilities.argmax(1)

    @property
    def is_tested(self) -> bool:
        return self.probabilities is not None

    @property
    def accuracy(self) -> float:
        return float((self.predicted == self.labels).mean())

    @property
    def group_count(self) -> int:
        return int(self.groups.max()) + 1

    @property
    def effective_size(self) -> float:
        """The effective number of independent images."""
        return effective_size(self.groups)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the accuracy, for `effective_size` independent images.

        It is valid for similar images, but not for other places and cameras.
        """
        low, high = wilson_share(self.accuracy, self.effective_size)
        return float(low), float(high)

    def single_group_classes(self) -> list[str]:
        """Return the names of the classes whose images are all near-identical."""
        counts = count_groups(self.labels, self.groups)
        return [name for name, count in zip(self.classes, counts, strict=True) if count < 2]


def check(collection: Collection) -> None:
    """Raise `DataError` if there are too few classes or images to train a classifier."""
    if len(collection.classes) < 2:
        raise DataError(f"There are too few classes ({len(collection.classes)}). Add at least two.")
    for each in collection.classes:
        if len(each.pictures) < FEWEST:
            raise DataError(
                f"The class '{each.name}' has too few images ({len(each.pictures)}). Add at least "
                f"{FEWEST} images to each class, preferably 20."
            )


def choose_test_images(workbench: Workbench, base: Run, collection: Collection) -> np.ndarray:
    """Return a mask (N,) of test images for fine-tuning: about a quarter of each class.

    Images that are near-identical by the features of `base` are either all test images or none of
    them is. Raises `DataError` for too few images, or a class with only near-identical images.
    """
    check_whole(collection)
    labels = collection.labels()
    found = _features(workbench, base, collection, nothing)
    groups = group_images(collection.squares(), found, labels)
    counts = count_groups(labels, groups)
    if counts.min() < 2:
        name = collection.classes[int(counts.argmin())].name
        raise DataError(
            f"All images of '{name}' are near-identical, so none is left for testing. Add images "
            "from another angle, place or time."
        )
    return deal_groups(labels, groups, min(TESTED_OF, counts.min())) == 0


def lay_down(collection: Collection, tested: np.ndarray, folder: Path) -> None:
    """Write the images to `folder`/train/<class>/, or to test/<class>/ where `tested` (N,)."""
    taken, marks = set(), iter(tested)
    for number, own in enumerate(collection.classes):
        # The class name is user input, so only harmless characters may enter the folder name.
        name = re.sub(r"[^\w .-]+", "_", own.name).strip(" .") or f"class {number + 1}"
        name = f"class {number + 1}" if is_system_name(name) else name
        while name.casefold() in taken:
            name = f"{name} {number + 1}"
        taken.add(name.casefold())
        for i, picture in enumerate(own.pictures):
            place = folder / ("test" if next(marks) else "train") / name / f"{i:03}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            picture.square.save(place)


def check_whole(collection: Collection) -> None:
    """Raise `DataError` if there are too few images to fine-tune a whole model."""
    check(collection)
    few = [each.name for each in collection.classes if len(each.pictures) < FEWEST_TO_TRAIN]
    if few:
        raise DataError(
            f"The class '{few[0]}' has too few images. To fine-tune the whole model, add at least "
            f"{FEWEST_TO_TRAIN} images to each class."
        )


def learn(
    workbench: Workbench, base: Run, collection: Collection, *, report: Report = nothing
) -> Learnt:
    """Fit a classifier head for `base`'s model.

    Raises `DataError` for too few images, `RunError` if the model does not have one linear head.
    """
    check(collection)
    started = time.perf_counter()
    found = _features(workbench, base, collection, report)  # (N, D)
    labels = collection.labels()
    groups = group_images(collection.squares(), found, labels)
    folds = min(FOLDS, count_groups(labels, groups).min())
    probabilities = None
    if folds >= 2:
        probabilities = _cross_validate(found, labels, groups, folds, report)
    report(0.5 + 0.5 * folds / (folds + 1), "Fitting the classifier on all images")
    final = _fit(found, labels, groups)
    return Learnt(
        base,
        collection,
        probabilities,
        labels,
        groups,
        *_folded(final, len(collection.classes)),
        float(final.named_steps["logisticregression"].C),
        int(folds) if probabilities is not None else 0,
        time.perf_counter() - started,
    )


def _cross_validate(
    found: np.ndarray, labels: np.ndarray, groups: np.ndarray, folds: int, report: Report
) -> np.ndarray:
    """Return out-of-fold probabilities (N, C), with near-identical images in the same fold."""
    probabilities = np.zeros((len(labels), labels.max() + 1), np.float32)
    fold = deal_groups(labels, groups, folds)  # (N,)
    for k in range(folds):
        report(0.5 + 0.5 * k / (folds + 1), f"Cross-validation, fold {k + 1} of {folds}")
        train, test = fold != k, fold == k
        _, renumbered = np.unique(groups[train], return_inverse=True)
        fitted = _fit(found[train], labels[train], renumbered)
        probabilities[test] = fitted.predict_proba(found[test])
    return probabilities


def _features(workbench: Workbench, base: Run, collection: Collection, report: Report):
    model = workbench.model(base)
    if not is_vision_transformer(model) or not isinstance(model.head, nn.Linear):
        raise RunError(
            f"'{base.name}' is not a Vision Transformer with a linear classifier head. Choose "
            "another backbone."
        )
    if getattr(model, "head_dist", None) is not None:
        raise RunError(
            f"'{base.name}' has a second (distillation) head and cannot be used as a backbone. "
            "Choose another model."
        )
    keys = tuple(picture.key for each in collection.classes for picture in each.pictures)
    return workbench.cache.get_or_make(
        (_features, base, keys), lambda: _compute_features(workbench, base, collection, report)
    )


def _compute_features(
    workbench: Workbench, base: Run, collection: Collection, report: Report
) -> np.ndarray:
    size = base.preprocessing.size
    seen = np.stack(
        [inputs.to_uint8(inputs.square_crop(each, size)) for each in collection.squares()]
    )
    images = torch.from_numpy(seen)  # (N, 3, S, S); 500 images at 224 pixels take 75 MB

    def half(share: float, words: str) -> None:
        report(0.5 * share, words)

    return model_features(workbench, base, images, half).astype(np.float64)


def _fit(found: np.ndarray, labels: np.ndarray, groups: np.ndarray):
    """Fit a regression whose regularisation is chosen by cross-validation on these images.

    If a class has only one group, cross-validation is impossible: scikit-learn's default is used.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, PredefinedSplit
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    inner = min(INNER_FOLDS, count_groups(labels, groups).min())
    if inner < 2:
        return model.fit(found, labels)
    search = GridSearchCV(
        model,
        {"logisticregression__C": STRENGTHS},
        cv=PredefinedSplit(deal_groups(labels, groups, inner)),
        scoring="neg_log_loss",
    )
    return search.fit(found, labels).best_estimator_


def _folded(pipeline, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Merge scaling and regression into one layer: weight (C, D) and bias (C,)."""
    scaler, regression = (step for _, step in pipeline.steps)
    weight = regression.coef_ / scaler.scale_
    bias = regression.intercept_ - weight @ scaler.mean_
    if count == 2:  # scikit-learn stores only one row for two classes
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    return weight, bias


def write(workbench: Workbench, learnt: Learnt, folder: Path) -> Run:
    """Write `learnt` as an ordinary run folder `folder`.

    The evaluation contains the cross-validated predictions for the user's images instead of a test
    set. Without cross-validation, no evaluation is written.
    """
    model = copy.deepcopy(workbench.model(learnt.base)).float().cpu()
    C, D = learnt.weight.shape
    model.head = nn.Linear(D, C)
    with torch.no_grad():
        model.head.weight.copy_(torch.from_numpy(learnt.weight))
        model.head.bias.copy_(torch.from_numpy(learnt.bias))
    preprocessing = learnt.base.preprocessing
    keys = "".join(picture.key for picture in learnt.pictures)
    fingerprint = hashlib.blake2b(keys.encode(), digest_size=8).hexdigest()
    summary = f"custom classes, on the features of {learnt.base.name}"
    folder.mkdir(parents=True, exist_ok=True)
    runs.rewrite_history(folder, ())
    runs.write_weights(folder, model.state_dict())
    if learnt.is_tested:
        per_picture = learnt.seconds / len(learnt.labels)
        runs.write_evaluation(
            folder, Evaluation(learnt.probabilities, learnt.labels, fingerprint, per_picture)
        )
    else:
        (folder / runs.EVALUATION).unlink(missing_ok=True)
    runs.write_config(
        folder,
        {
            "recipe": {"name": folder.name, "summary": summary},
            "model": asdict(learnt.base.spec),
            "classes": list(learnt.classes),
            "normalisation": {"mean": preprocessing.mean, "std": preprocessing.std},
            "input_size": preprocessing.size,
            "data": {"name": "own images", "fingerprint": fingerprint},
            "own_classes": {
                "features_of": learnt.base.name,
                "folds": learnt.folds,
                "strength": learnt.strength,
                "pictures": len(learnt.labels),
                "groups": learnt.group_count,
            },
            "parameters": count_parameters(model),
            "device": device_name(workbench.device),
            "packages": package_versions(),
            "git_commit": git_commit(),
        },
    )
    return runs.read_run(folder)
