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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from PIL import Image
from torch import nn

from vitdemo import inputs, runs
from vitdemo.errors import DataError, ImageError, RunError
from vitdemo.features import model_features
from vitdemo.metrics.intervals import wilson
from vitdemo.models import count_parameters, is_vision_transformer
from vitdemo.runs import Evaluation, Run
from vitdemo.runs.provenance import device_name, git_commit, package_versions
from vitdemo.workbench import Workbench

MOST_CLASSES, MOST_PICTURES = 20, 500
FEWEST = 4  # pictures of a class: two of three folds have some, and so have the folds within
FEWEST_TO_TRAIN, TESTED_OF = 10, 4  # of a class, to train all of a model; one of so many tests it
LONGEST_NAME = 40
KEPT_SIDE = 224  # pixels of a picture that is kept; 500 of them take 75 MB
FOLDS, INNER_FOLDS = 5, 3
STRENGTHS = np.logspace(-4, 2, 7)  # scikit-learn's C, the inverse of the penalty
MOST_ENTRIES = 1_000  # of a zip file
MOST_UNPACKED = 2 * 2**30  # bytes
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)  # what reading one raises

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
        name = " ".join(name.split()) if isinstance(name, str) else ""
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
        """The picture files `paths` in class `index`, and a sentence for each that was left out."""
        found, problems = self, []
        for path in paths:
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
        """The pictures of a zip file `class/picture`, and a sentence for each that was left out.

        Raises `DataError` for what is no zip file, is too large unpacked, or leads out of its
        folder.
        """
        try:
            with zipfile.ZipFile(path) as file, tempfile.TemporaryDirectory() as folder:
                return self._with_named(_unpacked(file, folder))
        except (*DAMAGED, NotImplementedError, RuntimeError, OSError) as error:
            # Damaged, packed in a way that Python cannot unpack, encrypted, or not to be read
            raise DataError("That file is no zip file that can be read here.") from error

    def with_folders(
        self, files: Iterable[tuple[Path | str, str]]
    ) -> tuple["Collection", list[str]]:
        """Each picture file in the class that stands beside it, and a sentence for each that was
        left out."""
        return self._with_named((path, Path(path).name, name) for path, name in files)

    def without(self, index: int, picture: int | None = None) -> "Collection":
        """Less one picture of class `index`, or all of the class."""
        own = self.classes[index]
        if picture is None:
            return Collection(self.classes[:index] + self.classes[index + 1 :])
        left = own.pictures[:picture] + own.pictures[picture + 1 :]
        return self._with(index, replace(own, pictures=left))

    def _with(self, index: int, own: OwnClass) -> "Collection":
        return Collection((*self.classes[:index], own, *self.classes[index + 1 :]))

    def _with_named(self, files: Iterable[tuple[Path | str, str, str]]):
        """Files, each with its name and its class's; a class that got no picture is left out."""
        found, problems = self, []
        for path, shown, folder in files:
            if len(found) == MOST_PICTURES:
                problems.append(f"{MOST_PICTURES} pictures are the most: the others were left out.")
                break
            name = " ".join(folder.split())  # as `with_class` has it
            known = [each.name.casefold() for each in found.classes]
            try:
                if name.casefold() not in known:
                    found, known = found.with_class(name), [*known, name.casefold()]
                image = inputs.load_image(path)
                found = found.with_picture(known.index(name.casefold()), image, shown)
            except ImageError:
                problems.append(f"'{shown}' in '{name}' is not a picture that we can read.")
            except DataError as error:
                problems.append(str(error))
        return Collection(tuple(each for each in found.classes if each.pictures)), problems


def _unpacked(file: zipfile.ZipFile, folder: str) -> Iterator[tuple[Path, str, str]]:
    """Each picture's file in turn, unpacked into `folder`, with its own name and its class."""
    for entry, name in _entries(file):
        shown = PurePosixPath(entry.filename).name
        # Its own name is for sentences alone: the file lies under one that is ours.
        path = Path(folder) / f"picture{Path(shown).suffix[:8]}"
        with file.open(entry) as packed:
            path.write_bytes(packed.read(inputs.MAX_BYTES + 1))
        yield path, shown, name


def _entries(file: zipfile.ZipFile) -> list[tuple[zipfile.ZipInfo, str]]:
    """The files of a zip, each with its class: the name of the folder that it lies in."""
    infos = [info for info in file.infolist() if not info.is_dir()]
    if len(infos) > MOST_ENTRIES or sum(info.file_size for info in infos) > MOST_UNPACKED:
        raise DataError("That zip file holds more than a collection may: make it smaller.")
    found = []
    for info in infos:
        place = PurePosixPath(info.filename.replace("\\", "/"))
        if place.is_absolute() or ".." in place.parts:
            raise DataError(f"'{place.name}' in that zip file leads out of its folder: refused.")
        if place.name.startswith(".") or "__MACOSX" in place.parts:
            continue
        if len(place.parts) < 2:
            raise DataError(
                f"'{place.name}' lies in no folder of that zip file: none says its class."
            )
        found.append((info, place.parts[-2]))
    return found


@dataclass(frozen=True, eq=False)
class Learnt:
    """A last layer for `base`, and what it answers to pictures that it was not fitted on.

    `probabilities` (N, C) are out of fold: each picture's by a regression of the other folds, whose
    `strength` was chosen within them. `weight` (C, D) and `bias` (C,) are of all pictures.
    """

    base: Run
    collection: Collection
    probabilities: np.ndarray
    labels: np.ndarray
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
    def accuracy(self) -> float:
        return float((self.predicted == self.labels).mean())

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, Wilson's; of pictures as these are, not of other places and cameras."""
        low, high = wilson((self.predicted == self.labels).sum(), len(self.labels))
        return float(low), float(high)


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


def lay_down(collection: Collection, folder: Path) -> None:
    """The pictures as `folder`/train/<class>/ and test/<class>/, a quarter of each class to test.

    Raises `DataError` for what is too little to train all of a model on.
    """
    check(collection)
    few = [each.name for each in collection.classes if len(each.pictures) < FEWEST_TO_TRAIN]
    if few:
        raise DataError(
            f"To train all of a model, give each class {FEWEST_TO_TRAIN} pictures or more: "
            f"'{few[0]}' has fewer."
        )
    taken = set()
    for number, own in enumerate(collection.classes):
        # A person's words, as the name of a folder: letters, digits and little else.
        name = re.sub(r"[^\w .-]+", "_", own.name).strip(" .") or f"class {number + 1}"
        while name.casefold() in taken:
            name = f"{name} {number + 1}"
        taken.add(name.casefold())
        for i, picture in enumerate(own.pictures):
            place = folder / ("train" if i % TESTED_OF else "test") / name / f"{i:03}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            picture.square.save(place)


def learn(
    workbench: Workbench, base: Run, collection: Collection, *, report: Report = nothing
) -> Learnt:
    """A last layer for `base`'s model. Raises `DataError` for too few pictures, `RunError` for a
    model that has no last layer of its own."""
    from sklearn.model_selection import StratifiedKFold

    check(collection)
    started = time.perf_counter()
    found = _features(workbench, base, collection, report)  # (N, D)
    counts = [len(each.pictures) for each in collection.classes]
    labels, folds = np.repeat(np.arange(len(counts)), counts), min(FOLDS, *counts)
    probabilities = np.zeros((len(labels), len(counts)), np.float32)
    parts = StratifiedKFold(folds, shuffle=True, random_state=0).split(found, labels)
    for k, (train, test) in enumerate(parts):
        report(0.5 + 0.5 * k / (folds + 1), f"Cross-validation, fold {k + 1} of {folds}")
        probabilities[test] = _fitted(found[train], labels[train]).predict_proba(found[test])
    report(0.5 + 0.5 * folds / (folds + 1), "Fitting all pictures")
    final = _fitted(found, labels)
    return Learnt(
        base,
        collection,
        probabilities,
        labels,
        *_folded(final.best_estimator_, len(counts)),
        float(final.best_params_["logisticregression__C"]),
        folds,
        time.perf_counter() - started,
    )


def _features(workbench: Workbench, base: Run, collection: Collection, report: Report):
    model = workbench.model(base)
    if not is_vision_transformer(model) or not isinstance(model.head, nn.Linear):
        raise RunError(f"'{base.name}' cannot learn new classes here: choose a Vision Transformer.")
    if getattr(model, "head_dist", None) is not None:
        raise RunError(f"'{base.name}' has two last layers: choose one that has one.")
    squares = [picture.square for each in collection.classes for picture in each.pictures]
    size = base.preprocessing.size
    seen = np.stack([inputs.to_uint8(inputs.square_crop(each, size)) for each in squares])
    images = torch.from_numpy(seen)  # (N, 3, S, S), of 500 at 224 pixels 75 MB

    def half(share: float, words: str) -> None:
        report(0.5 * share, words)

    return model_features(workbench, base, images, half).astype(np.float64)


def _fitted(found: np.ndarray, labels: np.ndarray):
    """A regression of its own strength, chosen within these pictures alone."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    inner = min(INNER_FOLDS, np.bincount(labels).min())
    return GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        {"logisticregression__C": STRENGTHS},
        cv=StratifiedKFold(inner, shuffle=True, random_state=0),
        scoring="neg_log_loss",
    ).fit(found, labels)


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

    Its evaluation is the cross-validation: of one's own pictures, not of a test set.
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
    per_picture = learnt.seconds / len(learnt.labels)
    runs.write_evaluation(
        folder, Evaluation(learnt.probabilities, learnt.labels, fingerprint, per_picture)
    )
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
            },
            "parameters": count_parameters(model),
            "device": device_name(workbench.device),
            "packages": package_versions(),
            "git_commit": git_commit(),
        },
    )
    return runs.read_run(folder)
