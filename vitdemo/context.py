"""Access to runs, models and test images for the page and for notebooks, without gradio.

The run folders, the device, the loaded models, the test images and the cache are shared by all
users. Each user can also have a folder of private runs.
"""

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo import data, models, runs
from vitdemo.cache import Cache
from vitdemo.data import ImageDataset, LabelledImages, TestImage, TestSet, image_files
from vitdemo.errors import DataError, RunError, VitdemoError
from vitdemo.explain import forward_pass, norms
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.metrics import compute_accuracy
from vitdemo.models import CONVOLUTIONAL_FAMILIES, is_vision_transformer, prefix_token_names
from vitdemo.runs import Run
from vitdemo.runs.reference import read_reference
from vitdemo.runs.timm_run import TimmRun, load_timm_model
from vitdemo.training import Preprocessing

MAX_RESULT_BYTES = 512 * 2**20  # a trace of ViT-B/16 takes 30 MB, one of vitdemo's ViT under 1 MB
MAX_MODEL_BYTES = 4 * 2**30  # ViT-L takes 1.2 GB; the least recently used models are removed first


@dataclass(frozen=True)
class Prediction:
    """The prediction of one model for one image.

    `seen` (S, S, 3) uint8 is the crop at the model's resolution. `probabilities` (C,) float32 has
    C = 0 for a model without classes. `grid` is the number of patch rows and columns, or None for a
    model without patches. `similarity_percentile` is the percentage of validation images that are
    less similar to the training images, or None for a run without `reference_features.npz`.
    """

    run: Run
    input_image: np.ndarray
    probabilities: np.ndarray
    grid: tuple[int, int] | None
    similarity_percentile: float | None = None


class AppContext:
    """The runs in `roots`, the dataset in `data_root` (None: the default) and models on `device`.

    `timm_models` are timm models listed with the runs; `add_timm_model` adds more. `visitor`
    returns a unique name of the user who makes the current request, or None outside a session.
    """

    def __init__(
        self,
        roots: list[Path],
        data_root: Path | None,
        device: torch.device,
        timm_models: Sequence[TimmRun] = (),
        get_session_id: Callable[[], str | None] = lambda: None,
    ):
        once = {model.path: model for model in timm_models}  # without duplicates
        self._timm_models_by_session: dict[str | None, tuple[TimmRun, ...]] = {
            None: tuple(once.values())
        }
        self.roots = roots
        self.data_root = data_root
        self.device = device
        self.cache = Cache(MAX_RESULT_BYTES)
        self._model_cache = Cache(MAX_MODEL_BYTES)
        self._runs_by_folder: dict[Path, Run] = {}  # by folder, as last read
        self._runs_by_name: dict[tuple[Path, str], Run] = {}  # by folder and displayed name
        self._thread_count = torch.get_num_threads()
        self._active_passes = 0  # number of forward passes in progress
        self._passes_lock = threading.Lock()
        self._test_set: TestSet | None = None
        self._test_lock = threading.Lock()
        self._get_session_id = get_session_id
        self._private_roots: dict[str, Path] = {}  # folders of private runs, by user

    def list_runs(self) -> tuple[list[Run], list[str]]:
        """Return all readable runs in their current state, and a message per unreadable run."""
        own = self._private_roots.get(self._get_session_id() or "")
        roots = [*self.roots, own] if own else self.roots
        found, problems = runs.find_runs(*roots, read=self._read_if_changed)
        return [self._reuse_unchanged_run(run) for run in found], problems

    def _reuse_unchanged_run(self, run: Run) -> Run:
        """Return the same object for an unchanged run, so that its cached results stay valid."""
        known = self._runs_by_name.get((run.path, run.name))
        if known is None or known.stamp != run.stamp:
            known = self._runs_by_name[run.path, run.name] = run
        return known

    def private_root(self) -> Path:
        """Return the folder of the current user's private runs, deleted when the process ends.

        Raises `RunError` outside a session.
        """
        visitor = self._require_session_id()
        if visitor not in self._private_roots:
            folder = tempfile.mkdtemp(prefix="vitdemo-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._private_roots[visitor] = Path(folder)
        return self._private_roots[visitor]

    @property
    def timm_models(self) -> tuple[TimmRun, ...]:
        """Return the models of all users, then those of the current user, under unique names."""
        return tuple(run for run in self.list_runs_and_models()[0] if isinstance(run, TimmRun))

    def _list_timm_models(self) -> tuple[TimmRun, ...]:
        """Return `timm_models` under their original names, which are not necessarily unique."""
        for_all = self._timm_models_by_session[None]
        paths = [model.path for model in for_all]
        own = self._timm_models_by_session.get(self._get_session_id() or "", ())
        return (*for_all, *(model for model in own if model.path not in paths))

    def add_timm_model(self, model: TimmRun, *, for_all: bool) -> None:
        """List `model` with the runs until this process ends, for all users or the current one.

        Does nothing if the model is already listed. Like `remove_timm_model`, raises `RunError`
        outside a session if it is not for all users.
        """
        who = self._owner_key(for_all)
        if model.path not in [known.path for known in self._list_timm_models()]:
            self._timm_models_by_session[who] = (*self._timm_models_by_session.get(who, ()), model)

    def remove_timm_model(self, name: str, *, for_all: bool) -> None:
        """Remove the timm model `name` (as in `timm_models`) from the list."""
        who, gone = self._owner_key(for_all), self._timm_model_path(name)
        kept = self._timm_models_by_session.get(who, ())
        self._timm_models_by_session[who] = tuple(model for model in kept if model.path != gone)

    def is_removable_model(self, name: str, *, for_all: bool) -> bool:
        """Return whether the user can remove the model: only the user who added it can."""
        who = None if for_all else self._get_session_id() or ""
        paths = [model.path for model in self._timm_models_by_session.get(who, ())]
        return self._timm_model_path(name) in paths

    def _timm_model_path(self, name: str) -> Path | None:
        return next((model.path for model in self.timm_models if model.name == name), None)

    def _owner_key(self, for_all: bool) -> str | None:
        """Return the key of a user's models. Raises `RunError` outside a session."""
        return None if for_all else self._require_session_id()

    def _require_session_id(self) -> str:
        """Return the name of the current user. Raises `RunError` outside a session."""
        if not (visitor := self._get_session_id()):
            raise RunError("This action needs a browser session. Reload the page and try again.")
        return visitor

    def list_runs_and_models(self) -> tuple[list[Run], list[str]]:
        """Return `runs` and the timm models under unique names, and messages of unreadable runs."""
        found, problems = self.list_runs()
        named = runs.disambiguate_names([*found, *self._list_timm_models()])
        return [self._reuse_unchanged_run(run) for run in named], problems

    def _read_if_changed(self, folder: Path) -> Run:
        known = self._runs_by_folder.get(folder)
        if known is None or known.stamp != runs.get_run_stamp(folder):
            known = self._runs_by_folder[folder] = runs.read_run(folder)
        return known

    def find_run(self, name: str) -> Run:
        """Return the run or timm model `name`. Raises `RunError` with a list of all names."""
        found, _ = self.list_runs_and_models()
        for run in found:
            if run.name == name:
                return run
        choices = ", ".join(run.name for run in found)
        hint = f"Choose one of: {choices}." if found else "No run has been trained yet."
        raise RunError(f"There is no run '{name}'. {hint}")

    def trained_runs(self) -> list[Run]:
        """Return the timm models, then the runs with weights, highest test accuracy first.

        Custom classes come last, because their accuracy was measured on few images.
        """
        everything, _ = self.list_runs_and_models()
        models = [run for run in everything if isinstance(run, TimmRun)]
        found = [run for run in everything if run.has_weights and not isinstance(run, TimmRun)]
        found.sort(key=lambda run: (run.has_custom_classes, -(self.test_accuracy(run) or 0.0)))
        return [*models, *found]

    def test_accuracy(self, run: Run) -> float | None:
        """Return the test accuracy, or None if the evaluation is missing or damaged."""
        return self.cache.call(read_test_accuracy, run)

    def explainable_runs(self) -> list[Run]:
        """Return the trained runs, Vision Transformers (which have attention) first."""
        return sorted(
            self.trained_runs(), key=lambda run: run.spec.family in CONVOLUTIONAL_FAMILIES
        )

    def evaluated_runs(self) -> list[Run]:
        """Return the evaluated runs: first those with weights, and Vision Transformers among them.

        Their predictions can be explained with attention maps.
        """
        found = [run for run in self.list_runs()[0] if run.has_evaluation]
        return sorted(
            found, key=lambda run: (not run.has_weights, run.spec.family in CONVOLUTIONAL_FAMILIES)
        )

    def load_model(self, run: Run) -> nn.Module:
        """Return the model of `run`, loaded once for each version of the run's files.

        Other runs do not wait while it is loaded. Raises `RunError`.
        """
        load = load_timm_model if isinstance(run, TimmRun) else runs.load_model
        return self._model_cache.get_or_compute(
            (run.path, run.stamp), lambda: load(run, self.device)
        )

    def count_layers(self, run: Run) -> int:
        """Return the number of attention layers, 0 for a convolutional model. Raises `RunError`."""
        model = self.load_model(run)
        return len(model.blocks) if is_vision_transformer(model) else 0

    @torch.inference_mode()
    def predict(self, run: Run, image: Image.Image) -> Prediction:
        """Return the prediction of `run`'s model for an RGB image. Raises `RunError`."""
        model = self.load_model(run)
        seen, pixels = self.prepare_input(run.preprocessing, image)
        known = self.cache.get(
            (_trace_model, run, seen)
        )  # A trace already contains the prediction.
        if known is not None:
            features, logits = known.features, known.logits  # (D,), (C,)
        else:
            features, logits = self._features_and_logits(model, run, seen, pixels)
        probabilities = logits.float().softmax(0).cpu().numpy()[: len(run.classes)]
        if not np.isfinite(probabilities).all():
            raise RunError(
                f"'{run.name}' predicts NaN, because its training diverged. Choose another model."
            )
        grid = tuple(model.patch_embed.grid_size) if is_vision_transformer(model) else None
        reference = self.cache.call(read_reference, run)
        percentile = reference.percentile(features.float().cpu().numpy()) if reference else None
        return Prediction(run, seen, probabilities, grid, percentile)

    def _features_and_logits(
        self, model: nn.Module, run: Run, seen: np.ndarray, pixels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return features (D,) and logits (C,), computed once for all users of the same image."""

        def passed() -> tuple[Tensor, Tensor]:
            with self.divide_cores():
                features, logits = models.features_and_logits(model, pixels)
                return features[0], logits[0]

        return self.cache.get_or_compute((AppContext._features_and_logits, run, seen), passed)

    @contextmanager
    def divide_cores(self) -> Iterator[None]:
        """Divide the CPU cores among concurrent forward passes.

        Measured on two cores: compared with two threads, a pass on one thread takes a sixth longer,
        but a third less processor time.
        """
        if self.device.type != "cpu":
            yield
            return
        with self._passes_lock:
            self._active_passes += 1
            share = max(1, self._thread_count // self._active_passes)
        torch.set_num_threads(share)  # applies to this thread and to threads that are new to torch
        try:
            yield
        finally:
            # Not the previous value, which is already reduced in a thread that was new to torch.
            torch.set_num_threads(self._thread_count)
            with self._passes_lock:
                self._active_passes -= 1

    def predict_all(
        self, image: Image.Image, chosen_runs: Sequence[Run] | None = None
    ) -> tuple[list[Prediction], list[str]]:
        """Return the predictions of the runs `asked`, or of all trained models with classes.

        Also return a message for each model that cannot be loaded.
        """
        found, problems = [], []
        for run in self.classifier_runs() if chosen_runs is None else chosen_runs:
            try:
                found.append(self.predict(run, image))
            except VitdemoError as error:
                problems.append(str(error))
        return found, problems

    def classifier_runs(self) -> list[Run]:
        """Return the trained models that have classes."""
        return [run for run in self.trained_runs() if run.classes]

    def trace_image(self, run: Run, image: Image.Image) -> ImageTrace:
        """Return all attention of `run`'s model on an RGB image, from one cached forward pass.

        Raises `RunError` if the model has no attention.
        """
        model = self.load_model(run)
        if not is_vision_transformer(model):
            raise RunError(
                f"'{run.name}' is not a Vision Transformer and has no attention. Use Grad-CAM in "
                "'Why this class?' instead."
            )
        seen, pixels = self.prepare_input(run.preprocessing, image)

        def traced() -> ImageTrace:
            with self.divide_cores():
                return _trace_model(model, run, seen, pixels)

        return self.cache.get_or_compute((_trace_model, run, seen), traced)

    def value_products(self, trace: ImageTrace) -> Tensor:
        """Return the value products for norm-weighted attention, (L, N, H, H), computed once.

        See `vitdemo.explain.norms`. Raises `RunError` for a model without them.
        """

        def computed() -> Tensor:
            with self.divide_cores(), torch.inference_mode():
                return norms.value_products(self.load_model(trace.run), trace.tokens[:, None])[:, 0]

        try:
            return self.cache.get_or_compute(
                (norms.value_products, trace.run, trace.input_image), computed
            )
        except TypeError as error:
            raise RunError(f"'{trace.run.name}': {error}") from error

    def prepare_input(
        self, preprocessing: Preprocessing, image: Image.Image
    ) -> tuple[np.ndarray, Tensor]:
        """Return the input crop (S, S, 3) uint8 of an RGB image, and the input (1, 3, S, S)."""
        seen = self.cache.call(_crop_input, image, preprocessing.size)  # (3, S, S)
        pixels = preprocessing(torch.from_numpy(seen)[None].to(self.device))  # (1, 3, S, S)
        return np.ascontiguousarray(seen.transpose(1, 2, 0)), pixels

    def test_set(self) -> TestSet:
        """Return the test set, opened once and never downloaded here. Raises `DataError`."""
        with self._test_lock:
            if self._test_set is None:
                self._test_set = TestSet(data.open_dataset(self.data_root, download=False))
            return self._test_set

    def open_dataset(self) -> ImageDataset:
        """Return the dataset, never downloaded here. Raises `DataError` with instructions."""
        return data.open_dataset(self.data_root, download=False)

    def sample_test_images(self, run: Run, count: int) -> LabelledImages:
        """Return up to `count` test images for `run`, stratified by class.

        Every call returns the same images. CIFAR-10 images are 32 pixels wide; images of a folder
        become squares of the run's input size. Raises `DataError` if there is no dataset, if it
        contains an invalid image, or if its classes differ from those of `run`.
        """
        source = self.open_dataset()
        if source.classes != run.classes:
            raise DataError(
                f"'{run.name}' was trained on other classes than those of the dataset "
                f"'{source.root}'. Restart with --data and the folder of its dataset."
            )
        size = 0 if source.is_cifar10 else run.preprocessing.size  # CIFAR-10 images keep their size
        return self.cache.call(_load_test_sample, source, count, size)

    def count_test_images(self) -> int:
        """Return the number of test images. Raises `DataError`."""
        return len(self.test_set())

    def load_test_image(self, index: int) -> TestImage:
        """Return the test image `index`, 0 to N-1. Raises `DataError` or `ImageError`."""
        return self.test_set()[index]


# Never in inference mode, because cached tensors are also used in computations with gradients.
@torch.inference_mode(False)
@torch.no_grad()
def _trace_model(model: nn.Module, run: Run, input_image: np.ndarray, pixels: Tensor) -> ImageTrace:
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


def _crop_input(image: Image.Image, size: int) -> np.ndarray:
    """Return the input crop (3, size, size) uint8. It is cached, so do not modify it."""
    return image_files.to_uint8(image_files.crop_and_resize(image, size))


def _load_test_sample(dataset: ImageDataset, count: int, size: int) -> LabelledImages:
    chosen = data.sample_stratified(dataset.load_labels("test").numpy(), count)
    return dataset.load_subset("test", torch.from_numpy(chosen), size)


def read_test_accuracy(run: Run) -> float | None:
    """Return the test accuracy, or None if the evaluation is missing or damaged."""
    try:
        return compute_accuracy(run.evaluation.probabilities, run.evaluation.labels)
    except (RunError, ValueError):
        return None
