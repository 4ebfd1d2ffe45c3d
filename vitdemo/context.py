"""Access to runs, models and test images for the page and for notebooks, without gradio.

The run folders, the device, the loaded models, the test images and the cache are shared by all
users. Each user can also have a folder of private runs.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo import data, models, runs
from vitdemo.cache import Cache
from vitdemo.data import ImageDataset, LabelledImages, TestImage, TestSet
from vitdemo.errors import DataError, PretrainingError, RunError, VitdemoError
from vitdemo.explain import forward_pass, norms
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.metrics import compute_accuracy
from vitdemo.models import get_family, has_attention, prefix_token_names
from vitdemo.runs import Run
from vitdemo.runs.reference import read_reference
from vitdemo.runs.timm_run import TimmRun
from vitdemo.sessions import OwnedItems, Sessions
from vitdemo.training import Preprocessing

MAX_RESULT_BYTES = 512 * 2**20  # the trace of one image takes up to 30 MB (ViT-B/16)
MAX_MODEL_BYTES = 4 * 2**30  # one ViT-L takes 1.2 GB


@dataclass(frozen=True)
class Prediction:
    """The prediction of one model for one image.

    `input_image` (S, S, 3) uint8 is the crop at the model's resolution. `probabilities` (C,) are
    float32, with C = 0 for a model without classes. `grid` is the number of patch rows and columns,
    or None for a model without patches. `similarity_percentile` is the percentage of validation
    images that are less similar to the training images than this image. The percentile is None
    without `reference_features.npz`.
    """

    run: Run
    input_image: np.ndarray
    probabilities: np.ndarray
    grid: tuple[int, int] | None
    similarity_percentile: float | None = None


class AppContext:
    """Access to the runs in `roots`, the dataset in `data_root`, and the models on `device`.

    If `data_root` is None, the default folder is used. `timm_models` are listed with the runs.
    `get_session_id` returns the id of the session that makes the current request, or None.
    `ground_truth_root` contains the models of `vitdemo.data.ground_truth`, which have other classes
    than all other models. Therefore, only `ground_truth_runs` and `find_run` return them.
    """

    def __init__(
        self,
        roots: list[Path],
        data_root: Path | None,
        device: torch.device,
        timm_models: Sequence[TimmRun] = (),
        get_session_id: Callable[[], str | None] = lambda: None,
        ground_truth_root: Path | None = None,
    ):
        self.ground_truth_root = ground_truth_root
        self.sessions = Sessions(get_session_id)
        # Third-party models that are listed with the runs, and users' test sets.
        self.timm_models = OwnedItems(self.sessions, lambda run: run.path, timm_models)
        self.test_sets = OwnedItems(self.sessions, lambda tests: tests.id)
        self.roots = roots
        self.data_root = data_root
        self.device = device
        self.cache = Cache(MAX_RESULT_BYTES)
        self._model_cache = Cache(MAX_MODEL_BYTES)
        # The last read of each folder: the stamp (see `get_run_stamp`), and the run or
        # `PretrainingError`. Other errors are not stored, since they can end without a new stamp.
        self._reads_by_folder: dict[Path, tuple[tuple, Run | PretrainingError]] = {}
        self._runs_by_name: dict[tuple[Path, str], Run] = {}  # (folder, displayed name) -> run
        self._thread_count = torch.get_num_threads()
        self._active_passes = 0  # number of forward passes in progress
        self._passes_lock = threading.Lock()
        self._test_set: TestSet | None = None
        self._test_lock = threading.Lock()
        self._thread = threading.local()  # `listing`: the result of `list_runs` in `list_once`

    @contextmanager
    def list_once(self) -> Iterator[None]:
        """Read the run folders at most once in this block, in the current thread."""
        self._thread.listing = []
        try:
            yield
        finally:
            del self._thread.listing

    def list_runs(self) -> tuple[list[Run], list[str]]:
        """Read all runs, and return the readable runs and a message for each unreadable run."""
        listing = getattr(self._thread, "listing", None)
        if listing is None:
            return self._read_runs()
        if not listing:
            listing.extend(self._read_runs())
        return listing[0].copy(), listing[1].copy()

    def _read_runs(self) -> tuple[list[Run], list[str]]:
        own = self.sessions.find_folder()
        roots = [*self.roots, own] if own else self.roots
        found, problems = runs.find_runs(*roots, read=self._read_if_changed)
        return [self._reuse_unchanged_run(run) for run in found], problems

    def _reuse_unchanged_run(self, run: Run) -> Run:
        """Return the earlier object of the run if its files are unchanged, otherwise `run`."""
        known = self._runs_by_name.get((run.path, run.name))
        if known is None or known.stamp != run.stamp:
            known = self._runs_by_name[run.path, run.name] = run
        return known

    def list_runs_and_models(self) -> tuple[list[Run], list[str]]:
        """Return runs and timm models under unique names, and a message per unreadable run."""
        found, problems = AppContext.list_runs(self)  # a subclass changes the listed runs
        named = runs.disambiguate_names([*found, *self.timm_models.list()])
        return [self._reuse_unchanged_run(run) for run in named], problems

    def _read_if_changed(self, folder: Path) -> Run:
        """Return the run in `folder`, read again if its files have changed. Raises `RunError`."""
        stamp = runs.get_run_stamp(folder)
        known, result = self._reads_by_folder.get(folder, (None, None))
        if known != stamp:
            try:
                result = runs.read_run(folder)
            except PretrainingError as error:
                result = error
            self._reads_by_folder[folder] = stamp, result
        if isinstance(result, PretrainingError):
            raise result.with_traceback(None)
        return result

    def ground_truth_runs(self) -> list[Run]:
        """Return the models of the ground truth tasks; the name of a model is its task's name."""
        if self.ground_truth_root is None:
            return []
        return runs.find_runs(self.ground_truth_root, read=self._read_if_changed)[0]

    def find_run(self, name: str) -> Run:
        """Return the run or model `name`. Raises `RunError` if the name is unknown."""
        found, _ = self.list_runs_and_models()
        for run in found:
            if run.name == name:
                return run
        for run in self.ground_truth_runs():
            if run.name == name:
                return run
        choices = ", ".join(run.name for run in found)
        hint = f"Choose one of: {choices}." if found else "Train a model first."
        raise RunError(f"There is no run '{name}'. {hint}")

    def trained_runs(self) -> list[Run]:
        """Return the timm models, then the runs with weights by decreasing test accuracy.

        Runs with custom classes come last, because their accuracy was measured on few images.
        """
        everything, _ = self.list_runs_and_models()
        models = [run for run in everything if not run.has_folder]
        found = [run for run in everything if run.has_weights and run.has_folder]
        found.sort(key=lambda run: (run.has_custom_classes, -(self.test_accuracy(run) or 0.0)))
        return [*models, *found]

    def test_accuracy(self, run: Run) -> float | None:
        """Return the test accuracy of `run`, or None if its evaluation is missing or damaged."""
        return self.cache.call(read_test_accuracy, run)

    def explainable_runs(self) -> list[Run]:
        """Return the trained runs: Vision Transformers first, then convolutional models."""
        return sorted(self.trained_runs(), key=lambda run: not get_family(run.spec).has_attention)

    def evaluated_runs(self) -> list[Run]:
        """Return the evaluated runs: runs with weights first, then runs without weights.

        In both groups, Vision Transformers come first, because they have attention maps.
        """
        found = [run for run in self.list_runs_and_models()[0] if run.has_evaluation]
        return sorted(
            found, key=lambda run: (not run.has_weights, not get_family(run.spec).has_attention)
        )

    def load_model(self, run: Run) -> nn.Module:
        """Return the model of `run`, loaded once per version of its files. Raises `RunError`."""
        load = partial(runs.load_model, run) if run.has_folder else run.load
        return self._model_cache.get_or_compute((run.path, run.stamp), lambda: load(self.device))

    def count_layers(self, run: Run) -> int:
        """Return the number of attention layers of `run`'s model; 0 for a convolutional model."""
        model = self.load_model(run)
        return len(model.blocks) if has_attention(model) else 0

    @torch.inference_mode()
    def predict(self, run: Run, image: Image.Image) -> Prediction:
        """Return the prediction of `run`'s model for an RGB image. Raises `RunError`."""
        model = self.load_model(run)
        seen, pixels = self.prepare_input(run.preprocessing, image)
        if (known := self.cache.get((trace_model, run, seen))) is not None:  # from the trace
            features, logits = known.features, known.logits  # (D,), (C,)
        else:
            features, logits = self._features_and_logits(model, run, seen, pixels)
        probabilities = logits.float().softmax(0).cpu().numpy()[: len(run.classes)]
        if not np.isfinite(probabilities).all():
            raise RunError(
                f"'{run.name}' predicts NaN, because its training diverged. Choose another model."
            )
        grid = tuple(model.patch_embed.grid_size) if has_attention(model) else None
        reference = self.cache.call(read_reference, run)
        percentile = reference.percentile(features.cpu()).item() if reference else None
        return Prediction(run, seen, probabilities, grid, percentile)

    def _features_and_logits(
        self, model: nn.Module, run: Run, crop: np.ndarray, pixels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return features (D,) and logits (C,) of an image; both are cached for all users."""

        def passed() -> tuple[Tensor, Tensor]:
            with self.divide_cores():
                features, logits = models.features_and_logits(model, pixels)
                return features[0], logits[0]

        return self.cache.get_or_compute((AppContext._features_and_logits, run, crop), passed)

    @contextmanager
    def divide_cores(self) -> Iterator[None]:
        """Divide the CPU cores among concurrent forward passes.

        On two cores, a pass on one thread takes a sixth longer than on two threads, but a third
        less processor time.
        """
        if self.device.type != "cpu":
            yield
            return
        with self._passes_lock:
            self._active_passes += 1
            share = max(1, self._thread_count // self._active_passes)
        torch.set_num_threads(share)  # affects this thread and threads that did not use torch yet
        try:
            yield
        finally:
            # Restore the full count: a thread without earlier torch calls starts with a reduced
            # one.
            torch.set_num_threads(self._thread_count)
            with self._passes_lock:
                self._active_passes -= 1

    def predict_all(
        self, image: Image.Image, chosen_runs: Sequence[Run] | None = None
    ) -> tuple[list[Prediction], list[str]]:
        """Predict `image` with `chosen_runs`, or with all trained models that have classes.

        Returns the predictions, and a message for each model without a valid prediction.
        """
        found, problems = [], []
        for run in self.classifier_runs() if chosen_runs is None else chosen_runs:
            try:
                found.append(self.predict(run, image))
            except VitdemoError as error:
                problems.append(str(error))
        return found, problems

    def classifier_runs(self) -> list[Run]:
        return [run for run in self.trained_runs() if run.classes]

    def trace_image(self, run: Run, image: Image.Image) -> ImageTrace:
        """Return the cached trace of an RGB image. Raises `RunError` without attention."""
        model = self.load_model(run)
        if not has_attention(model):
            raise RunError(
                f"'{run.name}' is not a Vision Transformer and has no attention. Use Grad-CAM in "
                "'Why this class?' instead."
            )
        seen, pixels = self.prepare_input(run.preprocessing, image)

        def traced() -> ImageTrace:
            with self.divide_cores():
                return trace_model(model, run, seen, pixels)

        return self.cache.get_or_compute((trace_model, run, seen), traced)

    def value_products(self, trace: ImageTrace) -> Tensor:
        """Return the cached value products (L, N, H, H) for norm-weighted attention.

        See `vitdemo.explain.norms.value_products`. Raises `RunError` for an unsupported model.
        """

        def computed() -> Tensor:
            with self.divide_cores(), torch.inference_mode():
                return norms.value_products(self.load_model(trace.run), trace.tokens[:, None])[:, 0]

        key = norms.value_products, trace.run, trace.input_image
        try:
            return self.cache.get_or_compute(key, computed)
        except TypeError as error:
            raise RunError(f"'{trace.run.name}': {error}") from error

    def prepare_input(
        self, preprocessing: Preprocessing, image: Image.Image
    ) -> tuple[np.ndarray, Tensor]:
        """Return the crop (S, S, 3) uint8 of an RGB image, and the model input (1, 3, S, S)."""
        crop = preprocessing.size, preprocessing.crop, preprocessing.interpolation
        key = Preprocessing.crop_image, image, *crop
        seen = self.cache.get_or_compute(key, lambda: preprocessing.crop_image(image))  # (3, S, S)
        pixels = preprocessing(torch.from_numpy(seen)[None].to(self.device))  # (1, 3, S, S)
        return np.ascontiguousarray(seen.transpose(1, 2, 0)), pixels

    def test_set(self) -> TestSet:
        """Return the test set without downloading it. Raises `DataError` if it is missing."""
        with self._test_lock:
            if self._test_set is None:
                self._test_set = TestSet(self.open_dataset())
            return self._test_set

    def open_dataset(self) -> ImageDataset:
        """Return the dataset without downloading it. Raises `DataError` if it is missing."""
        return data.open_dataset(self.data_root)

    def is_dataset_missing(self) -> bool:
        """Return whether the data folder is missing or empty; then CIFAR-10 can be downloaded."""
        return data.is_dataset_missing(self.data_root)

    def sample_test_images(self, run: Run, count: int) -> LabelledImages:
        """Return up to `count` test images for `run`, stratified by class.

        Every call returns the same images. CIFAR-10 images are 32 pixels wide; images of a folder
        become squares of the run's input size. Raises `DataError` if the dataset is missing,
        contains an invalid image, or has other classes than `run`.
        """
        source = self.open_dataset()
        if source.classes != run.classes:
            raise DataError(
                f"The dataset '{source.root}' does not have the classes of '{run.name}'. Restart "
                "with --data and the folder of the dataset that the model was trained on."
            )
        size = 0 if source.is_cifar10 else run.preprocessing.size  # 0 keeps the size of an image
        return self.cache.call(_load_test_sample, source, count, size)

    def count_test_images(self) -> int:
        return len(self.test_set())

    def load_test_image(self, index: int) -> TestImage:
        """Return a test image. Raises `VitdemoError`."""
        return self.test_set()[index]


# Inference mode is off, because cached tensors are also used in computations with gradients.
@torch.inference_mode(False)
@torch.no_grad()
def trace_model(model: nn.Module, run: Run, input_image: np.ndarray, pixels: Tensor) -> ImageTrace:
    """Return the trace of one image. Raises `RunError` for an unsupported Vision Transformer."""
    try:
        trace = forward_pass.trace(model, pixels.clone())
    except TypeError as error:
        raise RunError(f"'{run.name}': {error}") from error
    return ImageTrace(
        run,
        input_image,
        trace.attention[:, 0],  # (L, H, N, N)
        trace.tokens[:, 0],  # (L+1, N, D)
        trace.logits[0],  # (C,)
        model.forward_head(model.norm(trace.tokens[-1]), pre_logits=True)[0],  # (D,)
        tuple(model.patch_embed.grid_size),
        prefix_token_names(model),
        forward_pass.classifier_rows(model),
    )


def _load_test_sample(dataset: ImageDataset, count: int, size: int) -> LabelledImages:
    chosen = data.sample_stratified(dataset.load_labels("test").numpy(), count)
    return dataset.load_subset("test", torch.from_numpy(chosen), size)


def read_test_accuracy(run: Run) -> float | None:
    """Return the test accuracy of `run`, or None if its evaluation is missing or damaged."""
    try:
        return compute_accuracy(run.evaluation.probabilities, run.evaluation.labels)
    except (RunError, ValueError):
        return None
