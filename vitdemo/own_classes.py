"""Classes of one's own: a few pictures of each, and a model of them in seconds.

The features of a pretrained Vision Transformer stay as they are; a multinomial logistic regression
on them (scikit-learn) becomes its new last layer, so what comes out is a model like any other.

    mine = Collection().with_class("mug").with_class("cup")
    mine, problems = mine.with_files(0, paths)
    learnt = learn(workbench, workbench.run("finetune-deit-tiny"), mine)
    learnt.accuracy, learnt.interval  # of cross-validation
    write(workbench, learnt, folder)  # a run folder

Letters: N pictures, C classes, D width of a feature.
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
FEWEST = 4  # pictures of a class
FEWEST_TO_TRAIN, TESTED_OF = 10, 4  # of a class, to train all of a model; one of so many tests it
LONGEST_NAME = 40
KEPT_SIDE = 224  # pixels of a picture that is kept; 500 of them take 75 MB
FOLDS, INNER_FOLDS = 5, 3
STRENGTHS = np.logspace(-4, 2, 7)  # scikit-learn's C, the inverse of the penalty
MOST_ENTRIES = 1_000  # of a zip file
MOST_UNPACKED = 2 * 2**30  # bytes
UTF8_FLAG = 0x800  # of an entry of a zip file
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)  # what reading one raises

T = TypeVar("T")
# Share of the work that is done; what it raises ends the work.
Report = Callable[[float, str], None]


def nothing(share: float, words: str) -> None:
    """A `Report` to nobody."""


@dataclass(frozen=True, eq=False)
class Picture:
    """The `square` that models see of it, and a `key` that is the same for the same pixels."""

    square: Image.Image
    key: str


@dataclass(frozen=True)
class OwnClass:
    name: str
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Collection:
    """Classes with their pictures; each change gives a new one, so that any can be taken back."""

    classes: tuple[OwnClass, ...] = ()

    def __len__(self) -> int:
        return sum(len(each.pictures) for each in self.classes)

    def with_class(self, name: object) -> "Collection":
        """Raises `DataError` for a name that is none, is long or is there, and for too many."""
        name = _class_name(name) if isinstance(name, str) else ""
        if not name or not name.isprintable():
            raise DataError("A class needs a name.")
        if len(name) > LONGEST_NAME:
            raise DataError(f"A class's name has {LONGEST_NAME} letters at most.")
        if name.casefold() in (each.name.casefold() for each in self.classes):
            raise DataError(f"There is a class '{name}' already: choose another name.")
        if len(self.classes) == MOST_CLASSES:
            raise DataError(f"{MOST_CLASSES} classes are the most: take one away first.")
        return Collection((*self.classes, OwnClass(name)))

    def with_files(self, index: int, paths: Sequence[Path | str]) -> tuple["Collection", list[str]]:
        """Add the image files `paths` to class `index`; also return a sentence for each left out.

        System files, which a person selects with the others, are ignored.
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
        """Raises `DataError` for one that is here already, and for too many."""
        square = inputs.visible_square(image, KEPT_SIDE)
        key = hashlib.blake2b(square.tobytes(), digest_size=12).hexdigest()
        for each in self.classes:
            if any(key == picture.key for picture in each.pictures):
                raise DataError(f"'{name}' is in '{each.name}' already: it was not taken twice.")
        if len(self) == MOST_PICTURES:
            raise DataError(f"{MOST_PICTURES} pictures are the most: '{name}' was left out.")
        own = self.classes[index]
        return self._with(index, replace(own, pictures=(*own.pictures, Picture(square, key))))

    def with_zip(self, path: Path | str) -> tuple["Collection", list[str]]:
        """Add the images of a zip file `class/image`; also return a sentence for what was left out.

        System files are ignored and files of other kinds are skipped. Raises `DataError` if the
        file is not a zip, is too large unpacked, leads out of its folder, or holds no class.
        """
        try:
            with zipfile.ZipFile(path) as file, tempfile.TemporaryDirectory() as folder:
                images, problems = _images_of(_zip_entries(file))
                unpacked = ((place, _unpacked(file, info, folder)) for place, info in images)
                found, refused = self._with_images(unpacked)
                return found, refused + problems
        except (*DAMAGED, NotImplementedError, RuntimeError, OSError) as error:
            # Damaged, packed in a way that Python cannot unpack, encrypted, or not to be read
            raise DataError("That file is no zip file that can be read here.") from error

    def with_folders(
        self, files: Iterable[tuple[Path | str, str]]
    ) -> tuple["Collection", list[str]]:
        """Add image files, each with the path of its folder, whose last part is its class.

        Also return a sentence for what was left out, as `with_zip` does.
        """
        places = [(PurePosixPath(folder, Path(path).name), path) for path, folder in files]
        images, problems = _images_of([each for each in places if not is_system_path(each[0])])
        found, refused = self._with_images(images)
        return found, refused + problems

    def without(self, index: int, picture: int | None = None) -> "Collection":
        """Less one picture of class `index`, or all of the class."""
        own = self.classes[index]
        if picture is None:
            return Collection(self.classes[:index] + self.classes[index + 1 :])
        left = own.pictures[:picture] + own.pictures[picture + 1 :]
        return self._with(index, replace(own, pictures=left))

    def squares(self) -> list[Image.Image]:
        """Return the N squares, class by class."""
        return [picture.square for each in self.classes for picture in each.pictures]

    def labels(self) -> np.ndarray:
        """Return the class of each image, (N,)."""
        counts = [len(each.pictures) for each in self.classes]
        return np.repeat(np.arange(len(counts)), counts)

    def _with(self, index: int, own: OwnClass) -> "Collection":
        return Collection((*self.classes[:index], own, *self.classes[index + 1 :]))

    def _with_images(self, files: Iterable[tuple[PurePosixPath, Path | str]]):
        """Add files, each with its place `.../class/name`; a class without an image is left out."""
        found, problems = self, []
        for place, path in files:
            if len(found) == MOST_PICTURES:
                problems.append(f"{MOST_PICTURES} pictures are the most: the others were left out.")
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
    """Return `name` in NFC, with single spaces."""
    return " ".join(normalize_name(name).split())


def _unpacked(file: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: str) -> Path:
    """Unpack an entry into `folder`, under a name that is ours, and return its path."""
    path = Path(folder) / f"picture{PurePosixPath(entry.filename).suffix[:8]}"
    with file.open(entry) as packed:
        path.write_bytes(packed.read(inputs.MAX_BYTES + 1))
    return path


def _zip_entries(file: zipfile.ZipFile) -> list[tuple[PurePosixPath, zipfile.ZipInfo]]:
    """Return the files of a zip with their paths, without system files.

    Raises `DataError` if there are too many, or if one leads out of its folder.
    """
    infos = [info for info in file.infolist() if not info.is_dir()]
    places = [PurePosixPath(_entry_name(info).replace("\\", "/")) for info in infos]
    found = [
        (place, info)
        for place, info in zip(places, infos, strict=True)
        if ".." in place.parts or not is_system_path(place)
    ]
    if len(found) > MOST_ENTRIES or sum(info.file_size for _, info in found) > MOST_UNPACKED:
        raise DataError("That zip file holds more than a collection may: make it smaller.")
    for place, _ in found:
        if place.is_absolute() or ".." in place.parts:
            raise DataError(f"'{place.name}' in that zip file leads out of its folder: refused.")
    return found


def _entry_name(info: zipfile.ZipInfo) -> str:
    """Return an entry's name.

    Names without the zip's UTF-8 flag are in code page 437 by the standard, and Python reads them
    so. macOS (Finder, `ditto`) writes UTF-8 without the flag.
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
    """Return the images in a class folder, with what stands for each, and sentences on the rest.

    Raises `DataError` if there are images, but none of them lies in a folder.
    """
    images = [(place, file) for place, file in files if is_image_name(place.name)]
    classed = [(place, file) for place, file in images if place.parent.name]
    loose = [place for place, _ in images if not place.parent.name]
    skipped = [place for place, _ in files if not is_image_name(place.name)]
    if loose and not classed:
        raise DataError(f"'{loose[0]}' lies in no folder, and the folder names its class.")
    used = {folder for place, _ in classed for folder in place.parents}
    empty = {_class_name(place.parent.name): None for place in skipped if place.parent not in used}
    problems = [describe_skipped(map(str, skipped))] + (["No image was found."] * (not images))
    if loose:
        problems.append(f"Skipped images that lie in no folder: {name_some(map(str, loose))}.")
    problems += [f"The class '{name}' has no images." for name in empty if name]
    return classed, [problem for problem in problems if problem]


@dataclass(frozen=True, eq=False)
class Learnt:
    """A classifier head for `base`, and its predictions for images that it was not fitted on.

    `probabilities` (N, C) come from cross-validation: those of an image are predicted by a
    regression on the other folds, whose `strength` was chosen within them. Near-identical images
    have the same number in `groups` (N,) and are in the same fold. `probabilities` is None and
    `folds` 0 where a class has a single group, so that no independent image is left to test on.
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
        """The number of independent images that these images are worth."""
        return effective_size(self.groups)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the accuracy, for `effective_size` independent images.

        It holds for images like these, not for other places and cameras.
        """
        low, high = wilson_share(self.accuracy, self.effective_size)
        return float(low), float(high)

    def single_group_classes(self) -> list[str]:
        """Names of the classes whose images are all near-identical."""
        counts = count_groups(self.labels, self.groups)
        return [name for name, count in zip(self.classes, counts, strict=True) if count < 2]


def check(collection: Collection) -> None:
    """Raises `DataError` where there is too little to learn from."""
    if len(collection.classes) < 2:
        raise DataError("Two classes or more are needed: add another one.")
    for each in collection.classes:
        if len(each.pictures) < FEWEST:
            raise DataError(
                f"'{each.name}' has {len(each.pictures)} pictures: give each class {FEWEST} or "
                "more, better twenty."
            )


def choose_test_images(workbench: Workbench, base: Run, collection: Collection) -> np.ndarray:
    """Mark about a quarter of each class (N,) to test a model on that is fine-tuned as a whole.

    Near-identical images, as the features of `base` have them, are all marked or all not. Raises
    `DataError` for too few images, or where those of a class are all near-identical.
    """
    check_whole(collection)
    labels = collection.labels()
    found = _features(workbench, base, collection, nothing)
    groups = group_images(collection.squares(), found, labels)
    counts = count_groups(labels, groups)
    if counts.min() < 2:
        name = collection.classes[int(counts.argmin())].name
        raise DataError(
            f"All images of '{name}' are near-identical, so none is left to test on: add images "
            "from another angle, place or time."
        )
    return deal_groups(labels, groups, min(TESTED_OF, counts.min())) == 0


def lay_down(collection: Collection, tested: np.ndarray, folder: Path) -> None:
    """Write the images as `folder`/train/<class>/ and, where `tested` (N,), test/<class>/."""
    taken, marks = set(), iter(tested)
    for number, own in enumerate(collection.classes):
        # A person's words, as the name of a folder: letters, digits and little else.
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
    """Raises `DataError` where there is too little to fine-tune a whole model on."""
    check(collection)
    few = [each.name for each in collection.classes if len(each.pictures) < FEWEST_TO_TRAIN]
    if few:
        raise DataError(
            f"To train all of a model, give each class {FEWEST_TO_TRAIN} pictures or more: "
            f"'{few[0]}' has fewer."
        )


def learn(
    workbench: Workbench, base: Run, collection: Collection, *, report: Report = nothing
) -> Learnt:
    """Fit a classifier head for `base`'s model.

    Raises `DataError` for too few images, `RunError` for a model without one linear head.
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
    report(0.5 + 0.5 * folds / (folds + 1), "Fitting all images")
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
    """Out-of-fold probabilities (N, C); near-identical images are never on both sides."""
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
        raise RunError(f"'{base.name}' cannot learn new classes here: choose a Vision Transformer.")
    if getattr(model, "head_dist", None) is not None:
        raise RunError(f"'{base.name}' has two last layers: choose one that has one.")
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
    images = torch.from_numpy(seen)  # (N, 3, S, S), of 500 at 224 pixels 75 MB

    def half(share: float, words: str) -> None:
        report(0.5 * share, words)

    return model_features(workbench, base, images, half).astype(np.float64)


def _fit(found: np.ndarray, labels: np.ndarray, groups: np.ndarray):
    """Fit a regression whose strength is chosen by cross-validation within these images.

    Where a class has a single group, no strength can be tested: scikit-learn's default is used.
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
    """Scaling and regression as one layer: weight (C, D) and bias (C,)."""
    scaler, regression = (step for _, step in pipeline.steps)
    weight = regression.coef_ / scaler.scale_
    bias = regression.intercept_ - weight @ scaler.mean_
    if count == 2:  # scikit-learn has one row for two classes
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    return weight, bias


def write(workbench: Workbench, learnt: Learnt, folder: Path) -> Run:
    """`learnt` as the run folder `folder`, which opens like any other.

    Its evaluation is the cross-validation, of the user's own images and not of a test set. Without
    one it has no evaluation.
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
    summary = f"own classes, on the features of {learnt.base.name}"
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
            "data": {"name": "own pictures", "fingerprint": fingerprint},
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
