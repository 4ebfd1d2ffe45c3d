"""Custom classes: a classifier for a few of the user's own images per class, trained in seconds.

The pretrained Vision Transformer stays unchanged; it may also be an opened model. A multinomial
logistic regression on its features (scikit-learn) becomes the new classifier head, so the result is
an ordinary model.

    mine = ImageCollection().with_class("mug").with_class("cup")
    mine, problems = mine.with_files(0, paths)
    found = fit_linear_probe(context, context.find_run("finetune-deit-tiny"), mine)
    found.accuracy, found.interval  # from cross-validation
    classify_image(context, found, photo).values  # (rows, columns)
    write_probe_run(context, found, folder)  # creates a run folder

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

from vitdemo import runs
from vitdemo.analyses.class_attribution import (
    choose_first_map,
    load_summaries,
    sort_by_measured_score,
)
from vitdemo.analyses.features import compute_features
from vitdemo.context import AppContext, trace_model
from vitdemo.data import image_files
from vitdemo.data.image_folders import (
    describe_skipped,
    format_some_names,
    is_image_name,
    is_system_name,
    is_system_path,
    normalize_name,
)
from vitdemo.data.near_duplicates import (
    assign_folds,
    count_groups,
    effective_sample_size,
    group_images,
)
from vitdemo.errors import DataError, ImageError
from vitdemo.explain import attributions
from vitdemo.explain.attributions import AttributionMethod
from vitdemo.explain.checks import require_attention, to_numpy
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.metrics.intervals import wilson_interval
from vitdemo.models import count_parameters, replace_classifier
from vitdemo.runs import Evaluation, Run
from vitdemo.runs.provenance import device_name, git_commit, package_versions

MAX_CUSTOM_CLASSES, MAX_CUSTOM_IMAGES = 20, 500
MIN_IMAGES_PER_CLASS = 4  # minimum number of images per class for a classifier head
MIN_IMAGES_TO_FINE_TUNE = 10  # minimum number of images per class to fine-tune the whole model
TEST_FOLD_COUNT = 4  # number of folds, one of which is the test set for fine-tuning
MAX_CUSTOM_NAME_LENGTH = 40
STORED_IMAGE_SIDE = 224  # side of a stored image in pixels; 500 stored images take 75 MB
FOLDS, INNER_FOLDS = 5, 3
INVERSE_REGULARISATIONS = np.logspace(-4, 2, 7)  # scikit-learn's C
MAX_ZIP_FILES = 1_000  # maximum number of files in a zip file
MAX_UNPACKED_BYTES = 2 * 2**30  # maximum size of a zip file after unpacking
NO_IMAGE_MESSAGE = "No image was found. Add image files in one folder per class."
UTF8_FLAG = 0x800  # flag bit of a zip entry with a UTF-8 name
# Exceptions of zipfile for a damaged or unsupported file.
DAMAGED_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)

T = TypeVar("T")
# Callback with the completed fraction of the work and a text; an exception in it ends the work.
ReportProgress = Callable[[float, str], None]


def discard_progress(fraction: float, description: str) -> None:
    """Ignore the progress of a computation (the default `ReportProgress`)."""


@dataclass(frozen=True, eq=False)
class CustomImage:
    """One image of a custom class: its centre `square` and a `key`, the hash of its pixels."""

    square: Image.Image
    key: str


@dataclass(frozen=True)
class CustomClass:
    """A class that the user has defined: a name and images."""

    name: str
    images: tuple[CustomImage, ...] = ()


@dataclass(frozen=True)
class ImageCollection:
    """The user's classes with their images. Each change returns a new collection, for undo."""

    classes: tuple[CustomClass, ...] = ()
    max_classes: int = MAX_CUSTOM_CLASSES
    max_images: int = MAX_CUSTOM_IMAGES

    def __len__(self) -> int:
        return sum(len(each.images) for each in self.classes)

    def with_class(self, name: object) -> "ImageCollection":
        """Add a class. Raises `DataError` for an invalid or existing name, or too many classes."""
        name = _normalise_class_name(name) if isinstance(name, str) else ""
        if not name or not name.isprintable():
            raise DataError("The class has no name. Enter a name in printable characters.")
        if len(name) > MAX_CUSTOM_NAME_LENGTH:
            raise DataError(
                f"The class name '{name[:MAX_CUSTOM_NAME_LENGTH]}…' is too long. Use at most "
                f"{MAX_CUSTOM_NAME_LENGTH} characters."
            )
        if name.casefold() in (each.name.casefold() for each in self.classes):
            raise DataError(f"A class '{name}' already exists. Choose another name.")
        if len(self.classes) == self.max_classes:
            raise DataError(
                f"The limit of {self.max_classes} classes is reached. Remove a class first."
            )
        return replace(self, classes=(*self.classes, CustomClass(name)))

    def with_files(
        self, index: int, paths: Sequence[Path | str]
    ) -> tuple["ImageCollection", list[str]]:
        """Add the image files `paths` to class `index`; also return a message per rejected file.

        System files are ignored, because users often select them together with the images.
        """
        found, problems = self, []
        for path in paths:
            if is_system_name(Path(path).name):
                continue
            try:
                found = found.with_image(index, image_files.load_image(path), Path(path).name)
            except (ImageError, DataError) as error:
                problems.append(str(error))
        return found, problems

    def with_images_of(
        self, name: str, paths: Sequence[Path | str]
    ) -> tuple["ImageCollection", list[str]]:
        """Add image files to the class `name`, which need not exist yet; see `with_files`."""
        known = [each.name.casefold() for each in self.classes]
        wanted = _normalise_class_name(name).casefold()
        if wanted in known:
            return self.with_files(known.index(wanted), paths)
        return self.with_class(name).with_files(len(known), paths)

    def with_image(self, index: int, image: Image.Image, name: str = "") -> "ImageCollection":
        """Add an image to class `index`. Raises `DataError` for a duplicate, or too many images."""
        square = image_files.crop_visible_square(image, STORED_IMAGE_SIDE)
        key = hashlib.blake2b(square.tobytes(), digest_size=12).hexdigest()
        for each in self.classes:
            if any(key == picture.key for picture in each.images):
                raise DataError(f"'{name}' was skipped: '{each.name}' already contains this image.")
        if len(self) == self.max_images:
            raise DataError(f"'{name}' was skipped: the limit is {self.max_images} images.")
        own = self.classes[index]
        return self._with_replaced_class(
            index, replace(own, images=(*own.images, CustomImage(square, key)))
        )

    def with_zip(self, path: Path | str) -> tuple["ImageCollection", list[str]]:
        """Add the images of a zip file with one folder per class.

        Also returns messages about skipped files. System files are ignored. Raises `DataError` if
        the file is not a zip file, is too large, has an unsafe path, or contains no class.
        """
        try:
            with zipfile.ZipFile(path) as file, tempfile.TemporaryDirectory() as folder:
                images, problems = _select_class_images(_list_zip_files(file))
                unpacked = ((place, _unpack_entry(file, info, folder)) for place, info in images)
                found, refused = self._with_images(unpacked)
                return found, refused + problems
        except (*DAMAGED_ZIP_ERRORS, NotImplementedError, RuntimeError, OSError) as error:
            # The file is damaged, encrypted, not readable, or uses an unsupported compression.
            raise DataError(
                "The zip file cannot be read. Create it again without encryption."
            ) from error

    def with_folders(
        self, files: Iterable[tuple[Path | str, str]]
    ) -> tuple["ImageCollection", list[str]]:
        """Add the image `files`, pairs of path and folder; the folder's name is the class name.

        Also returns messages about skipped files, as `with_zip` does.
        """
        places = [(PurePosixPath(folder, Path(path).name), path) for path, folder in files]
        images, problems = _select_class_images(
            [each for each in places if not is_system_path(each[0])]
        )
        found, refused = self._with_images(images)
        return found, refused + problems

    def without(self, index: int, image: int | None = None) -> "ImageCollection":
        """Remove one image of class `index`, or the whole class if `image` is None."""
        own = self.classes[index]
        if image is None:
            return replace(self, classes=self.classes[:index] + self.classes[index + 1 :])
        left = own.images[:image] + own.images[image + 1 :]
        return self._with_replaced_class(index, replace(own, images=left))

    def list_squares(self) -> list[Image.Image]:
        """Return the squares of all N images, ordered by class."""
        return [picture.square for each in self.classes for picture in each.images]

    def class_indices(self) -> np.ndarray:
        """Return the class index of each image, (N,)."""
        counts = [len(each.images) for each in self.classes]
        return np.repeat(np.arange(len(counts)), counts)

    def _with_replaced_class(self, index: int, own: CustomClass) -> "ImageCollection":
        return replace(self, classes=(*self.classes[:index], own, *self.classes[index + 1 :]))

    def _with_images(self, files: Iterable[tuple[PurePosixPath, Path | str]]):
        """Add image files to the classes named by their folders, without empty new classes."""
        found, problems = self, []
        for place, path in files:
            if len(found) == self.max_images:
                problems.append(
                    f"The limit is {self.max_images} images. The other images were skipped."
                )
                break
            name = _normalise_class_name(place.parent.name)
            known = [each.name.casefold() for each in found.classes]
            try:
                if name.casefold() not in known:
                    found, known = found.with_class(name), [*known, name.casefold()]
                image = image_files.load_image(path)
                found = found.with_image(known.index(name.casefold()), image, place.name)
            except ImageError:
                problems.append(f"'{place.name}' in '{name}' cannot be read as an image.")
            except DataError as error:
                problems.append(str(error))
        kept = tuple(each for each in found.classes if each.images)
        return replace(found, classes=kept), problems


def _normalise_class_name(name: str) -> str:
    return " ".join(normalize_name(name).split())


def _unpack_entry(file: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: str) -> Path:
    """Unpack one entry of a zip file into `folder` under a safe name, and return the path."""
    path = Path(folder) / f"picture{PurePosixPath(entry.filename).suffix[:8]}"
    with file.open(entry) as packed:
        path.write_bytes(packed.read(image_files.MAX_FILE_BYTES + 1))
    return path


def _list_zip_files(file: zipfile.ZipFile) -> list[tuple[PurePosixPath, zipfile.ZipInfo]]:
    """Return all files except system files. Raises `DataError` for unsafe or too many files."""
    infos = [info for info in file.infolist() if not info.is_dir()]
    places = [PurePosixPath(_decode_entry_name(info).replace("\\", "/")) for info in infos]
    found = [
        (place, info)
        for place, info in zip(places, infos, strict=True)
        if ".." in place.parts or not is_system_path(place)
    ]
    if len(found) > MAX_ZIP_FILES or sum(info.file_size for _, info in found) > MAX_UNPACKED_BYTES:
        raise DataError(
            f"The zip file is too large. A zip file may contain at most {MAX_ZIP_FILES} files and "
            f"{MAX_UNPACKED_BYTES / 2**30:g} GB unpacked."
        )
    for place, _ in found:
        if place.is_absolute() or ".." in place.parts:
            raise DataError(
                f"The path of '{place.name}' leads outside the zip file. Create the file again "
                "without '..' and absolute paths."
            )
    return found


def _decode_entry_name(info: zipfile.ZipInfo) -> str:
    """Return the name of a zip entry, decoded as UTF-8 if possible.

    In the standard and in Python, a name without the UTF-8 flag is in code page 437. However, macOS
    (Finder, `ditto`) writes UTF-8 names without the flag.
    """
    if info.flag_bits & UTF8_FLAG:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.filename


def _select_class_images(
    files: Sequence[tuple[PurePosixPath, T]],
) -> tuple[list[tuple[PurePosixPath, T]], list[str]]:
    """Return (path, file) of the images in class folders, and messages about other files."""
    images = [(place, file) for place, file in files if is_image_name(place.name)]
    classed = [(place, file) for place, file in images if place.parent.name]
    loose = [place for place, _ in images if not place.parent.name]
    skipped = [place for place, _ in files if not is_image_name(place.name)]
    if loose and not classed:
        raise DataError(
            f"'{loose[0]}' is not in a folder. Put each image into a folder with its class name."
        )
    used = {folder for place, _ in classed for folder in place.parents}
    empty = {
        _normalise_class_name(place.parent.name): None
        for place in skipped
        if place.parent not in used
    }
    problems = [describe_skipped(map(str, skipped))] + ([NO_IMAGE_MESSAGE] * (not images))
    if loose:
        problems.append(
            f"Skipped images outside class folders: {format_some_names(map(str, loose))}."
        )
    problems += [
        f"The class '{name}' has no images. Add images to its folder." for name in empty if name
    ]
    return classed, [problem for problem in problems if problem]


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """A classifier head for the model `base`, and its cross-validated predictions.

    `weight` (C, D) and `bias` (C,) are fitted on all images. For `probabilities` (N, C), each image
    is predicted by a regression that was fitted on the other folds. The regularisation is also
    chosen on the other folds. Near-identical images have the same number in `groups` (N,) and are
    in the same fold. If a class has only one group, `probabilities` is None and `folds` is 0,
    because the class has no independent test image.
    """

    base: Run
    collection: ImageCollection
    probabilities: np.ndarray | None
    labels: np.ndarray
    groups: np.ndarray
    weight: np.ndarray
    bias: np.ndarray
    inverse_regularisation: float
    folds: int
    seconds: float

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.collection.classes)

    @property
    def images(self) -> list[CustomImage]:
        return [picture for each in self.collection.classes for picture in each.images]

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
    def num_groups(self) -> int:
        return int(self.groups.max()) + 1

    @property
    def effective_size(self) -> float:
        return effective_sample_size(self.groups)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% confidence interval of the accuracy, for `effective_size` images.

        The interval is valid for similar images, but not for images from other places or cameras.
        """
        low, high = wilson_interval(self.accuracy * self.effective_size, self.effective_size)
        return float(low), float(high)

    def single_group_classes(self) -> list[str]:
        counts = count_groups(self.labels, self.groups)
        return [name for name, count in zip(self.classes, counts, strict=True) if count < 2]


def check_collection(collection: ImageCollection) -> None:
    """Raise `DataError` if there are too few classes or images to train a classifier."""
    if len(collection.classes) < 2:
        raise DataError(f"There are too few classes ({len(collection.classes)}). Add at least two.")
    for each in collection.classes:
        if len(each.images) < MIN_IMAGES_PER_CLASS:
            raise DataError(
                f"The class '{each.name}' has too few images ({len(each.images)}). Add at least "
                f"{MIN_IMAGES_PER_CLASS} images to each class, preferably 20."
            )


def choose_test_images(
    context: AppContext,
    base: Run,
    collection: ImageCollection,
    *,
    report: ReportProgress = discard_progress,
) -> np.ndarray:
    """Return a mask (N,) of test images for fine-tuning: about a quarter of each class.

    Near-identical images are all in the test set or all in the training set. Raises `DataError` for
    too few images, or for a class with only near-identical images.
    """
    check_for_fine_tuning(collection)
    labels = collection.class_indices()
    found = _load_features(context, base, collection, report)
    groups = group_images(collection.list_squares(), found, labels)
    counts = count_groups(labels, groups)
    if counts.min() < 2:
        name = collection.classes[int(counts.argmin())].name
        raise DataError(
            f"All images of '{name}' are near-identical, so no image is left for testing. Add "
            "images from another angle, place or time."
        )
    return assign_folds(labels, groups, min(TEST_FOLD_COUNT, counts.min())) == 0


def export_image_folder(collection: ImageCollection, is_test: np.ndarray, folder: Path) -> None:
    """Write the images to train/<class>/ in `folder`, or to test/<class>/ where `is_test` (N,)."""
    taken, marks = set(), iter(is_test)
    for number, own in enumerate(collection.classes):
        # The class name is user input, so only its harmless characters are used in the folder name.
        name = re.sub(r"[^\w .-]+", "_", own.name).strip(" .") or f"class {number + 1}"
        name = f"class {number + 1}" if is_system_name(name) else name
        while name.casefold() in taken:
            name = f"{name} {number + 1}"
        taken.add(name.casefold())
        for i, picture in enumerate(own.images):
            place = folder / ("test" if next(marks) else "train") / name / f"{i:03}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            picture.square.save(place)


def check_for_fine_tuning(collection: ImageCollection) -> None:
    """Raise `DataError` if there are too few images to fine-tune a whole model."""
    check_collection(collection)
    few = [each.name for each in collection.classes if len(each.images) < MIN_IMAGES_TO_FINE_TUNE]
    if few:
        raise DataError(
            f"The class '{few[0]}' has too few images to fine-tune the whole model. Each class "
            f"needs at least {MIN_IMAGES_TO_FINE_TUNE} images: add more."
        )


def fit_linear_probe(
    context: AppContext,
    base: Run,
    collection: ImageCollection,
    *,
    report: ReportProgress = discard_progress,
) -> LinearProbe:
    """Fit a classifier head for the custom classes on the features of `base`'s model.

    Raises `DataError` for too few images, and `RunError` for an unsupported model.
    """
    check_collection(collection)
    started = time.perf_counter()
    found = _load_features(context, base, collection, report)  # (N, D)
    labels = collection.class_indices()
    groups = group_images(collection.list_squares(), found, labels)
    folds = min(FOLDS, count_groups(labels, groups).min())
    probabilities = None
    if folds >= 2:
        probabilities = _cross_validate(found, labels, groups, folds, report)
    report(0.5 + 0.5 * folds / (folds + 1), "Fitting the classifier on all images")
    final = _fit_regression(found, labels, groups)
    return LinearProbe(
        base,
        collection,
        probabilities,
        labels,
        groups,
        *_merge_scaling(final, len(collection.classes)),
        float(final.named_steps["logisticregression"].C),
        int(folds) if probabilities is not None else 0,
        time.perf_counter() - started,
    )


def _cross_validate(
    features: np.ndarray, labels: np.ndarray, groups: np.ndarray, folds: int, report: ReportProgress
) -> np.ndarray:
    """Return cross-validated probabilities (N, C), with near-identical images in the same fold."""
    probabilities = np.zeros((len(labels), labels.max() + 1), np.float32)
    fold = assign_folds(labels, groups, folds)  # (N,)
    for k in range(folds):
        report(0.5 + 0.5 * k / (folds + 1), f"Cross-validation, fold {k + 1} of {folds}")
        train, test = fold != k, fold == k
        _, renumbered = np.unique(groups[train], return_inverse=True)
        fitted = _fit_regression(features[train], labels[train], renumbered)
        probabilities[test] = fitted.predict_proba(features[test])
    return probabilities


def _load_features(
    context: AppContext, base: Run, collection: ImageCollection, report: ReportProgress
):
    require_attention(base, context.load_model(base))
    keys = tuple(picture.key for each in collection.classes for picture in each.images)
    return context.cache.get_or_compute(
        (_load_features, base, keys), lambda: _compute_features(context, base, collection, report)
    )


def _compute_features(
    context: AppContext, base: Run, collection: ImageCollection, report: ReportProgress
) -> np.ndarray:
    size = base.preprocessing.size
    seen = np.stack(
        [
            image_files.to_uint8(image_files.crop_and_resize(each, size))
            for each in collection.list_squares()
        ]
    )
    images = torch.from_numpy(seen)  # (N, 3, S, S); 75 MB for 500 images of 224 x 224 pixels

    def half(share: float, description: str) -> None:
        report(0.5 * share, description)

    return compute_features(context, base, images, half).astype(np.float64)


@dataclass(frozen=True, eq=False)
class ProbePrediction:
    """Prediction of a `probe` for one image, with a map over the model input.

    `probabilities` are (C,). `values` (rows, columns) are the map of the predicted class by
    `method`. Without a method, they are the attention that `source` describes: "mean" of the heads
    in `layer`, or "rollout" up to this layer.
    """

    probe: LinearProbe
    trace: ImageTrace
    probabilities: np.ndarray
    values: np.ndarray
    source: str
    layer: int
    method: AttributionMethod | None = None

    @property
    def predicted(self) -> str:
        return self.probe.classes[int(self.probabilities.argmax())]


def build_probe_model(context: AppContext, probe: LinearProbe) -> nn.Module:
    """Return the backbone with the classifier head of `probe`, which shares all other weights."""
    base = context.load_model(probe.base)
    model = copy.copy(base)
    model._modules = dict(base._modules)
    replace_classifier(model, torch.from_numpy(probe.weight), torch.from_numpy(probe.bias))
    return model


def classify_image(
    context: AppContext, probe: LinearProbe, square: Image.Image, *, explains_class: bool = False
) -> ProbePrediction:
    """Predict the class of an RGB image, with a map of the attention or of the predicted class.

    No other model is loaded, and nothing is cached, because a camera sends several images a second.
    """
    base, model = probe.base, build_probe_model(context, probe)
    seen = image_files.to_uint8(image_files.crop_and_resize(square, base.preprocessing.size))
    pixels = base.preprocessing(torch.from_numpy(seen)[None].to(context.device))  # (1, 3, S, S)
    with context.divide_cores():
        trace = trace_model(model, base, np.ascontiguousarray(seen.transpose(1, 2, 0)), pixels)
        probabilities = to_numpy(trace.logits.float().softmax(0))
        source, layer = choose_first_map(context, base)
        if not explains_class:
            values = trace.plain_map(source, layer)
            return ProbePrediction(probe, trace, probabilities, values, source, layer)
        method = choose_class_method(context, base, model)
        target = int(probabilities.argmax())
        values = to_numpy(attributions.attribute(method.name, model, pixels, target)[0])
    return ProbePrediction(probe, trace, probabilities, values, source, layer, method)


def choose_class_method(context: AppContext, base: Run, model: nn.Module) -> AttributionMethod:
    """Return the fast method for one class with the highest mean score for `base`.

    Without measured scores, the method is AttnLRP.
    """
    measured = load_summaries(context, base)
    methods = sort_by_measured_score(attributions.list_methods(model), measured)
    return next(each for each in methods if each.is_class_specific and not each.is_slow)


def _fit_regression(features: np.ndarray, labels: np.ndarray, groups: np.ndarray):
    """Fit a logistic regression whose regularisation is chosen by cross-validation.

    If a class has only one group, the regularisation is scikit-learn's default.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, PredefinedSplit
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    inner = min(INNER_FOLDS, count_groups(labels, groups).min())
    if inner < 2:
        return model.fit(features, labels)
    search = GridSearchCV(
        model,
        {"logisticregression__C": INVERSE_REGULARISATIONS},
        cv=PredefinedSplit(assign_folds(labels, groups, inner)),
        scoring="neg_log_loss",
    )
    return search.fit(features, labels).best_estimator_


def _merge_scaling(pipeline, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Merge feature scaling and regression into one linear layer: weight (C, D) and bias (C,)."""
    scaler, regression = (step for _, step in pipeline.steps)
    weight = regression.coef_ / scaler.scale_
    bias = regression.intercept_ - weight @ scaler.mean_
    if num_classes == 2:  # scikit-learn stores only one row for two classes
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    return weight, bias


def write_probe_run(context: AppContext, probe: LinearProbe, folder: Path) -> Run:
    """Write the model of `probe` to `folder` as an ordinary run.

    The evaluation contains the cross-validated predictions for the user's images instead of a test
    set. Without cross-validated predictions, no evaluation is written.
    """
    model = copy.deepcopy(build_probe_model(context, probe)).float().cpu()
    preprocessing = probe.base.preprocessing
    keys = "".join(picture.key for picture in probe.images)
    fingerprint = hashlib.blake2b(keys.encode(), digest_size=8).hexdigest()
    summary = f"classifier for custom classes, on the features of {probe.base.name}"
    folder.mkdir(parents=True, exist_ok=True)
    runs.rewrite_history(folder, ())
    runs.write_weights(folder, model.state_dict())
    if probe.is_tested:
        per_picture = probe.seconds / len(probe.labels)
        runs.write_evaluation(
            folder, Evaluation(probe.probabilities, probe.labels, fingerprint, per_picture)
        )
    else:
        (folder / runs.EVALUATION_FILE).unlink(missing_ok=True)
    runs.write_config(
        folder,
        {
            "recipe": {"name": folder.name, "summary": summary},
            "model": asdict(probe.base.spec),
            "classes": list(probe.classes),
            "normalisation": {"mean": preprocessing.mean, "std": preprocessing.std},
            "input_size": preprocessing.size,
            "data": {"name": "own images", "fingerprint": fingerprint},
            "own_classes": {
                "features_of": probe.base.name,
                "folds": probe.folds,
                "strength": probe.inverse_regularisation,
                "pictures": len(probe.labels),
                "groups": probe.num_groups,
            },
            "parameters": count_parameters(model),
            "device": device_name(context.device),
            "packages": package_versions(),
            "git_commit": git_commit(),
        },
    )
    return runs.read_run(folder)
