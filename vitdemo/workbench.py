"""The runs, models and pictures of this process: what the page and a notebook ask. No gradio.

It holds the folders, the device, the models (loaded once, when first asked for), the test pictures
and the one cache, all of which are the same for everyone who looks; of one user it knows where
their own runs lie, which nobody else sees.
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

from vitdemo import attention, data, inputs, models, runs
from vitdemo.attention import norms
from vitdemo.cache import Cache
from vitdemo.data import Pictures, Source, TestPicture, TestSet
from vitdemo.errors import DataError, RunError, VitdemoError
from vitdemo.metrics import accuracy
from vitdemo.models import CONVOLUTIONAL, is_vision_transformer, prefix_token_names
from vitdemo.runs import Run
from vitdemo.runs.reference import read_reference
from vitdemo.timm_models import TimmRun, load_timm_model
from vitdemo.traced import Traced
from vitdemo.training import Preprocessing

ANSWER_BYTES = 512 * 2**20  # a trace of ViT-B/16 at 224 px takes 30 MB, of our own under 1 MB
MODEL_BYTES = 4 * 2**30  # ViT-L takes 1.2 GB; of more, those asked for last stay


@dataclass(frozen=True)
class Answer:
    """What one model predicts for one picture.

    `seen` (S, S, 3) uint8 is the crop at the model's resolution, `probabilities` (C,) float32 (of
    a model without classes: (0,)), `grid` the rows and columns of its patches, None for a model
    without patches. `similarity_percentile` is the percentage of the run's validation images that
    are less similar to its training images, None for a run without `reference_features.npz`.
    """

    run: Run
    seen: np.ndarray
    probabilities: np.ndarray
    grid: tuple[int, int] | None
    similarity_percentile: float | None = None


class Workbench:
    """The runs in `roots`, the data set in `data_root` (None: the default), models on `device`.

    `timm_models` are models of timm's that are shown beside the runs; more come with `add`.
    `visitor` tells who is asking, by a name that nobody else has; None: nobody in particular.
    """

    def __init__(
        self,
        roots: list[Path],
        data_root: Path | None,
        device: torch.device,
        timm_models: Sequence[TimmRun] = (),
        visitor: Callable[[], str | None] = lambda: None,
    ):
        once = {model.path: model for model in timm_models}  # each, however often it was named
        self._added: dict[str | None, tuple[TimmRun, ...]] = {None: tuple(once.values())}
        self.roots = roots
        self.data_root = data_root
        self.device = device
        self.cache = Cache(ANSWER_BYTES)
        self._models = Cache(MODEL_BYTES)
        self._read: dict[Path, Run] = {}  # as last read
        self._shown: dict[tuple[Path, str], Run] = {}  # and under which name
        self._cores = torch.get_num_threads()
        self._passes = 0  # of models, under way now
        self._passes_lock = threading.Lock()
        self._tests: TestSet | None = None
        self._test_lock = threading.Lock()
        self._visitor = visitor
        self._own_roots: dict[str, Path] = {}  # of visitors, with runs that they alone see

    def runs(self) -> tuple[list[Run], list[str]]:
        """All readable runs as they are now, and a sentence for each that is not."""
        own = self._own_roots.get(self._visitor() or "")
        roots = [*self.roots, own] if own else self.roots
        found, problems = runs.find_runs(*roots, read=self._read_if_changed)
        return [self._as_shown_before(run) for run in found], problems

    def _as_shown_before(self, run: Run) -> Run:
        """A run with a root behind its name is made anew each time: the one that was read stays."""
        known = self._shown.get((run.path, run.name))
        if known is None or known.stamp != run.stamp:
            known = self._shown[run.path, run.name] = run
        return known

    def own_root(self) -> Path:
        """A folder for runs that only who is asking now will see; it goes with the process.

        Raises `RunError` where nobody in particular asks.
        """
        visitor = self._asking()
        if visitor not in self._own_roots:
            folder = tempfile.mkdtemp(prefix="vitdemo-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._own_roots[visitor] = Path(folder)
        return self._own_roots[visitor]

    @property
    def timm_models(self) -> tuple[TimmRun, ...]:
        """The models for all, then those of the visitor who asks now, each by its own name."""
        return tuple(run for run in self.everything()[0] if isinstance(run, TimmRun))

    def _shown_models(self) -> tuple[TimmRun, ...]:
        """`timm_models` as they were added: several may have one name."""
        for_all = self._added[None]
        paths = [model.path for model in for_all]
        own = self._added.get(self._visitor() or "", ())
        return (*for_all, *(model for model in own if model.path not in paths))

    def add(self, model: TimmRun, *, for_all: bool) -> None:
        """Show `model` next to the runs, until this process ends: to all, or to the visitor who
        asks now. A model that is already shown stays.

        Raises `RunError`, as `remove` does, where it is not for all and no visitor asks.
        """
        who = self._whose(for_all)
        if model.path not in [known.path for known in self._shown_models()]:
            self._added[who] = (*self._added.get(who, ()), model)

    def remove(self, name: str, *, for_all: bool) -> None:
        """Show the timm model `name`, one of those in `timm_models`, no longer."""
        who, gone = self._whose(for_all), self._path_of(name)
        kept = self._added.get(who, ())
        self._added[who] = tuple(model for model in kept if model.path != gone)

    def is_removable(self, name: str, *, for_all: bool) -> bool:
        """Whether `remove` would take it away: visitors remove only their own models."""
        who = None if for_all else self._visitor() or ""
        paths = [model.path for model in self._added.get(who, ())]
        return self._path_of(name) in paths

    def _path_of(self, name: str) -> Path | None:
        return next((model.path for model in self.timm_models if model.name == name), None)

    def _whose(self, for_all: bool) -> str | None:
        """A key of `_added`. Raises `RunError` where nobody in particular asks."""
        return None if for_all else self._asking()

    def _asking(self) -> str:
        """Raises `RunError` where nobody in particular asks."""
        if not (visitor := self._visitor()):
            raise RunError("Nobody is here whose own it could be.")
        return visitor

    def everything(self) -> tuple[list[Run], list[str]]:
        """`runs`, and timm's models, each by a name of its own."""
        found, problems = self.runs()
        named = runs.told_apart([*found, *self._shown_models()])
        return [self._as_shown_before(run) for run in named], problems

    def _read_if_changed(self, folder: Path) -> Run:
        known = self._read.get(folder)
        if known is None or known.stamp != runs.run_stamp(folder):
            known = self._read[folder] = runs.read_run(folder)
        return known

    def run(self, name: str) -> Run:
        """A run, or a model of timm's. Raises `RunError` naming those there are."""
        found, _ = self.everything()
        for run in found:
            if run.name == name:
                return run
        choices = ", ".join(run.name for run in found) or "none yet"
        raise RunError(f"There is no run '{name}': there are {choices}.")

    def trained_runs(self) -> list[Run]:
        """timm's models, then the runs whose weights are there, best test accuracy first; those of
        a person's own classes last, whose figures are of few pictures."""
        everything, _ = self.everything()
        models = [run for run in everything if isinstance(run, TimmRun)]
        found = [run for run in everything if run.has_weights and not isinstance(run, TimmRun)]
        found.sort(key=lambda run: (run.is_own, -(self.accuracy(run) or 0.0)))
        return [*models, *found]

    def accuracy(self, run: Run) -> float | None:
        """On the test set; None where it is not there or damaged."""
        return self.cache.of(final_accuracy, run)

    def explained_runs(self) -> list[Run]:
        """The trained runs, those that are Vision Transformers (so have attention) first."""
        return sorted(self.trained_runs(), key=lambda run: run.spec.family in CONVOLUTIONAL)

    def evaluated_runs(self) -> list[Run]:
        """The tested runs by name, those whose weights are here first, and of these those that
        are Vision Transformers: their answers lead to attention."""
        found = [run for run in self.runs()[0] if run.has_evaluation]
        return sorted(
            found, key=lambda run: (not run.has_weights, run.spec.family in CONVOLUTIONAL)
        )

    def model(self, run: Run) -> nn.Module:
        """Loaded once for each version of the run's files; other runs do not wait for it.

        Raises `RunError`.
        """
        load = load_timm_model if isinstance(run, TimmRun) else runs.load_model
        return self._models.get_or_make((run.path, run.stamp), lambda: load(run, self.device))

    def layers(self, run: Run) -> int:
        """The number of layers that have attention; 0: it is convolutional. Raises `RunError`."""
        model = self.model(run)
        return len(model.blocks) if is_vision_transformer(model) else 0

    @torch.inference_mode()
    def answer(self, run: Run, image: Image.Image) -> Answer:
        """What `run`'s model predicts for an RGB image. Raises `RunError`."""
        model = self.model(run)
        seen, pixels = self.input(run.preprocessing, image)
        known = self.cache.get((_trace, run, seen))  # one pass is enough
        if known is not None:
            features, logits = known.features, known.logits  # (D,), (C,)
        else:
            features, logits = self._features_and_logits(model, run, seen, pixels)
        probabilities = logits.float().softmax(0).cpu().numpy()[: len(run.classes)]
        if not np.isfinite(probabilities).all():
            raise RunError(f"'{run.name}' answers with NaN: its training diverged.")
        grid = tuple(model.patch_embed.grid_size) if is_vision_transformer(model) else None
        reference = self.cache.of(read_reference, run)
        percentile = reference.percentile(features.float().cpu().numpy()) if reference else None
        return Answer(run, seen, probabilities, grid, percentile)

    def _features_and_logits(
        self, model: nn.Module, run: Run, seen: np.ndarray, pixels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return (D,) and (C,), computed once for all users: a class looks at one image."""

        def passed() -> tuple[Tensor, Tensor]:
            with self.shared_cores():
                features, logits = models.features_and_logits(model, pixels)
                return features[0], logits[0]

        return self.cache.get_or_make((Workbench._features_and_logits, run, seen), passed)

    @contextmanager
    def shared_cores(self) -> Iterator[None]:
        """Several passes at once share the processor's cores in place of each taking all of them.

        Measured on two cores: a pass on one thread takes a sixth longer and a third less of the
        processor than on two.
        """
        if self.device.type != "cpu":
            yield
            return
        with self._passes_lock:
            self._passes += 1
            share = max(1, self._cores // self._passes)
        torch.set_num_threads(share)  # of this thread, and of those that are new to torch
        try:
            yield
        finally:
            # Not what it was before: a thread that was new meanwhile had begun with a share.
            torch.set_num_threads(self._cores)
            with self._passes_lock:
                self._passes -= 1

    def answers(
        self, image: Image.Image, asked: Sequence[Run] | None = None
    ) -> tuple[list[Answer], list[str]]:
        """Every trained model's answer, or of those `asked`, and a sentence for each model that
        cannot be loaded.

        A model without classes has none.
        """
        found, problems = [], []
        for run in self.answering() if asked is None else asked:
            try:
                found.append(self.answer(run, image))
            except VitdemoError as error:
                problems.append(str(error))
        return found, problems

    def answering(self) -> list[Run]:
        """The models that `answers` asks."""
        return [run for run in self.trained_runs() if run.classes]

    def look(self, run: Run, image: Image.Image) -> Traced:
        """All attention of `run`'s model on an RGB image, from one pass; kept for later questions.

        Raises `RunError` where the model has none.
        """
        model = self.model(run)
        if not is_vision_transformer(model):
            raise RunError(
                f"'{run.name}' is no Vision Transformer: it has no attention to show. Grad-CAM, in "
                "'Why this class?', shows what it looks at."
            )
        seen, pixels = self.input(run.preprocessing, image)

        def traced() -> Traced:
            with self.shared_cores():
                return _trace(model, run, seen, pixels)

        return self.cache.get_or_make((_trace, run, seen), traced)

    def value_products(self, look: Traced) -> Tensor:
        """Compute what norm-weighted attention needs besides `look`, (L, N, H, H), once.

        See `vitdemo.attention.norms`. Raises `RunError` for a model that has none.
        """

        def computed() -> Tensor:
            with self.shared_cores(), torch.inference_mode():
                return norms.value_products(self.model(look.run), look.tokens[:, None])[:, 0]

        try:
            return self.cache.get_or_make((norms.value_products, look.run, look.seen), computed)
        except TypeError as error:
            raise RunError(f"'{look.run.name}': {error}") from error

    def input(self, preprocessing: Preprocessing, image: Image.Image) -> tuple[np.ndarray, Tensor]:
        """An RGB image -> (what the model sees (S, S, 3) uint8, its input (1, 3, S, S))."""
        seen = self.cache.of(_cropped, image, preprocessing.size)  # (3, S, S)
        pixels = preprocessing(torch.from_numpy(seen)[None].to(self.device))  # (1, 3, S, S)
        return np.ascontiguousarray(seen.transpose(1, 2, 0)), pixels

    def test_set(self) -> TestSet:
        """The test pictures, found once, never downloaded from here. Raises `DataError`."""
        with self._test_lock:
            if self._tests is None:
                self._tests = TestSet(data.open_source(self.data_root, download=False))
            return self._tests

    def source(self) -> Source:
        """The data set, never downloaded from here. Raises `DataError` saying how to get it."""
        return data.open_source(self.data_root, download=False)

    def sample(self, run: Run, count: int) -> Pictures:
        """Up to `count` test pictures that `run` can be tested on, each class in proportion.

        The same ones at every call. CIFAR-10's are 32 pixels wide; a folder's become squares of
        the run's own input size. Raises `DataError` where the data set is absent, holds a file
        that is no picture, or has classes that are not the run's.
        """
        source = self.source()
        if source.classes != run.classes:
            raise DataError(
                f"'{run.name}' was trained on other classes than those of '{source.root}': pass "
                "--data the data set that it knows."
            )
        size = 0 if source.is_cifar10 else run.preprocessing.size  # its pictures keep their own
        return self.cache.of(_sample, source, count, size)

    def test_size(self) -> int:
        """The number of test pictures. Raises `DataError`."""
        return len(self.test_set())

    def test_picture(self, index: int) -> TestPicture:
        """The test picture `index`, 0 to N-1. Raises `DataError` or `ImageError`."""
        return self.test_set()[index]


# Not in inference mode, whoever asks: what is kept must serve those who need gradients, too.
@torch.inference_mode(False)
@torch.no_grad()
def _trace(model: nn.Module, run: Run, seen: np.ndarray, pixels: Tensor) -> Traced:
    try:
        trace = attention.trace(model, pixels.clone())
    except TypeError as error:
        raise RunError(f"'{run.name}': {error}") from error
    return Traced(
        run,
        seen,
        trace.attention[:, 0],  # (L, H, N, N)
        trace.tokens[:, 0],  # (L+1, N, D)
        trace.logits[0],  # (C,)
        model.forward_head(model.norm(trace.tokens[-1]), pre_logits=True)[0],  # (D,)
        tuple(model.patch_embed.grid_size),
        prefix_token_names(model),
        attention.answer_rows(model),
    )


def _cropped(image: Image.Image, size: int) -> np.ndarray:
    """(3, size, size) uint8, which nobody changes."""
    return inputs.to_uint8(inputs.square_crop(image, size))


def _sample(source: Source, count: int, size: int) -> Pictures:
    chosen = data.stratified(source.labels("test").numpy(), count)
    return source.load_some("test", torch.from_numpy(chosen), size)


def final_accuracy(run: Run) -> float | None:
    """Accuracy on the test set; None where it is not there or damaged."""
    try:
        return accuracy(run.evaluation.probabilities, run.evaluation.labels)
    except (RunError, ValueError):
        return None
