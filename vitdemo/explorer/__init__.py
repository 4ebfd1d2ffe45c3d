"""What the page asks of the runs and models: plain functions of one `Explorer`, no gradio.

It holds the folders, the device, the models (loaded once, when first asked for) and the test
pictures, all of which are the same for everyone who looks; nothing of one user is kept here.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo import attention, data, inputs, runs
from vitdemo.attention import statistics
from vitdemo.errors import DataError, RunError, VitdemoError
from vitdemo.explorer.zoo import ZooRun, load_zoo_model
from vitdemo.metrics import accuracy
from vitdemo.models import CONVOLUTIONAL, is_vision_transformer, prefix_token_names
from vitdemo.runs import Run
from vitdemo.training import Preprocessing

KEPT_PICTURES = 32  # of at most 3 MB each, of those who look at the same time
KEPT_BYTES = 256 * 2**20  # of looks; one of ViT-B/16 at 224 px takes 30 MB, of our own under 1 MB


@dataclass(frozen=True)
class Answer:
    """What one model says of one picture.

    `seen` (S, S, 3) uint8 is the crop at the model's resolution, `probabilities` (C,) float32,
    `grid` the rows and columns of its patches, None for a model without patches.
    """

    run: Run
    seen: np.ndarray
    probabilities: np.ndarray
    grid: tuple[int, int] | None


@dataclass(frozen=True)
class Look:
    """One trace of the picture `seen` (S, S, 3), on a patch `grid` (rows, columns).

    `attention` (L, H, N, N), `tokens` (L+1, N, D) and `logits` (C,) as in `attention.Trace`. Kept
    and shared between those who look, so nobody writes into it.
    """

    run: Run
    seen: np.ndarray
    attention: Tensor
    tokens: Tensor
    logits: Tensor
    grid: tuple[int, int]
    prefix_names: tuple[str, ...]  # of the tokens before the patches
    answer_rows: slice  # of a matrix (N, N): the tokens that the answer is read from

    @property
    def num_prefix_tokens(self) -> int:
        return len(self.prefix_names)

    @property
    def from_class_token(self) -> bool:
        """Whether the answer is read from a class token, not from the mean of the patches."""
        return self.answer_rows.stop is not None

    @property
    def bytes(self) -> int:
        tensors = (self.attention, self.tokens, self.logits)
        return self.seen.nbytes + sum(t.numel() * t.element_size() for t in tensors)

    @property
    def layers(self) -> int:
        return self.attention.shape[0]

    @cached_property
    def distances(self) -> np.ndarray:
        """Mean attention distance of every head in patches, (L, H)."""
        found = statistics.distance(self.attention, self.grid, self.num_prefix_tokens)
        return found.float().cpu().numpy()

    @cached_property
    def entropies(self) -> np.ndarray:
        """Mean entropy of every head's rows in bits, (L, H)."""
        return statistics.entropy(self.attention).float().cpu().numpy()

    @cached_property
    def similarity(self) -> Tensor:
        """Cosine of every two tokens as each layer leaves them, (L, N, N)."""
        return statistics.token_similarity(self.tokens[1:])

    def head_maps(self, layer: int) -> np.ndarray:
        """Where layer 1..L gathers the answer from, head by head, (H, rows, columns)."""
        return self.answer_maps(self.attention[layer - 1])

    def rollout_map(self, layer: int, *, fusion: str, discard_ratio: float) -> np.ndarray:
        """Attention rollout from the first layer up to layer 1..L, (rows, columns)."""
        matrix = attention.rollout(
            self.attention[:layer, None],  # (layer, 1, H, N, N)
            fusion=fusion,
            discard_ratio=discard_ratio,
            num_prefix_tokens=self.num_prefix_tokens,
        )  # (1, N, N)
        return self.answer_maps(matrix)[0]

    def answer_maps(self, matrices: Tensor) -> np.ndarray:
        """What of each patch reaches the answer: (B, N, N) -> (B, rows, columns)."""
        maps = attention.answer_map(matrices, self.num_prefix_tokens, self.answer_rows)
        return maps.float().cpu().numpy().reshape(-1, *self.grid)


@dataclass(frozen=True)
class TestPicture:
    """One picture of the test set, and its true class."""

    image: Image.Image
    label: str


class Explorer:
    """The runs in `roots`, the data set in `data_root` (None: the default), models on `device`.

    `zoo` are models of timm's that are shown beside the runs.
    """

    def __init__(
        self,
        roots: list[Path],
        data_root: Path | None,
        device: torch.device,
        zoo: Sequence[ZooRun] = (),
    ):
        self.zoo = tuple(zoo)
        self.roots = roots
        self.data_root = data_root
        self.device = device
        self._read: dict[Path, Run] = {}  # as last read
        self._shown: dict[tuple[Path, str], Run] = {}  # and under which name
        self._loading: dict[Path, threading.Lock] = {}
        self._models: dict[Path, tuple[tuple, nn.Module]] = {}  # with the stamp of their run
        self._looks = LookCache(KEPT_BYTES)
        self._crops = Crops(KEPT_PICTURES)
        self._tests: TestSet | None = None
        self._model_lock = threading.Lock()
        self._test_lock = threading.Lock()

    def runs(self) -> tuple[list[Run], list[str]]:
        """All readable runs as they are now, and a sentence for each that is not."""
        found, problems = runs.find_runs(*self.roots, read=self._read_if_changed)
        return [self._as_shown_before(run) for run in found], problems

    def _as_shown_before(self, run: Run) -> Run:
        """A run with a root behind its name is made anew each time: the one that was read stays."""
        known = self._shown.get((run.path, run.name))
        if known is None or known.stamp != run.stamp:
            known = self._shown[run.path, run.name] = run
        return known

    def everything(self) -> tuple[list[Run], list[str]]:
        """`runs`, and the zoo."""
        found, problems = self.runs()
        return [*found, *self.zoo], problems

    def _read_if_changed(self, folder: Path) -> Run:
        known = self._read.get(folder)
        if known is None or known.stamp != runs.run_stamp(folder):
            known = self._read[folder] = runs.read_run(folder)
        return known

    def run(self, name: str) -> Run:
        """A run or a model of the zoo. Raises `RunError` naming those there are."""
        found, _ = self.everything()
        for run in found:
            if run.name == name:
                return run
        choices = ", ".join(run.name for run in found) or "none yet"
        raise RunError(f"There is no run '{name}': there are {choices}.")

    def trained_runs(self) -> list[Run]:
        """The zoo, then the runs whose weights are there, best test accuracy first."""
        found = [run for run in self.runs()[0] if run.has_weights]
        return [*self.zoo, *sorted(found, key=lambda run: -(final_accuracy(run) or 0.0))]

    def explained_runs(self) -> list[Run]:
        """The trained runs, those that are Vision Transformers (so have attention) first."""
        return sorted(self.trained_runs(), key=lambda run: run.spec.family in CONVOLUTIONAL)

    def evaluated_runs(self) -> list[Run]:
        """The tested runs by name, those whose weights are here first."""
        found = [run for run in self.runs()[0] if run.has_evaluation]
        return sorted(found, key=lambda run: not run.has_weights)

    def model(self, run: Run) -> nn.Module:
        """Loaded once for each version of the run's files; other runs do not wait for it.

        Raises `RunError`.
        """
        with self._model_lock:
            own = self._loading.setdefault(run.path, threading.Lock())
        with own:
            stamp, model = self._models.get(run.path, (None, None))
            if stamp != run.stamp:
                load = load_zoo_model if isinstance(run, ZooRun) else runs.load_model
                model = load(run, self.device)
                self._models[run.path] = (run.stamp, model)
            return model

    def layers(self, run: Run) -> int:
        """The number of layers that have attention; 0: it is convolutional. Raises `RunError`."""
        model = self.model(run)
        return len(model.blocks) if is_vision_transformer(model) else 0

    @torch.inference_mode()
    def answer(self, run: Run, image: Image.Image) -> Answer:
        """What `run`'s model says of an RGB image. Raises `RunError`."""
        model = self.model(run)
        seen, pixels = self.input(run.preprocessing, image)
        known = self._looks.get(_look_key(run, seen))  # one pass is enough
        logits = model(pixels)[0] if known is None else known.logits  # (C,)
        probabilities = logits.float().softmax(0).cpu().numpy()
        if not np.isfinite(probabilities).all():
            raise RunError(f"'{run.name}' answers with NaN: its training diverged.")
        grid = tuple(model.patch_embed.grid_size) if is_vision_transformer(model) else None
        return Answer(run, seen, probabilities, grid)

    def answers(self, image: Image.Image) -> tuple[list[Answer], list[str]]:
        """Every trained model's answer, and a sentence for each model that cannot be loaded."""
        found, problems = [], []
        for run in self.trained_runs():
            try:
                found.append(self.answer(run, image))
            except VitdemoError as error:
                problems.append(str(error))
        return found, problems

    def look(self, run: Run, image: Image.Image) -> Look:
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
        key = _look_key(run, seen)
        return self._looks.get(key) or self._looks.put(key, self._trace(run, seen, pixels))

    # Not in inference mode, whoever asks: what is kept must serve those who need gradients, too.
    @torch.inference_mode(False)
    @torch.no_grad()
    def _trace(self, run: Run, seen: np.ndarray, pixels: Tensor) -> Look:
        model = self.model(run)
        try:
            trace = attention.trace(model, pixels.clone())
        except TypeError as error:
            raise RunError(f"'{run.name}': {error}") from error
        return Look(
            run,
            seen,
            trace.attention[:, 0],  # (L, H, N, N)
            trace.tokens[:, 0],  # (L+1, N, D)
            trace.logits[0],  # (C,)
            tuple(model.patch_embed.grid_size),
            prefix_token_names(model),
            attention.answer_rows(model),
        )

    def input(self, preprocessing: Preprocessing, image: Image.Image) -> tuple[np.ndarray, Tensor]:
        """An RGB image -> (what the model sees (S, S, 3) uint8, its input (1, 3, S, S))."""
        seen = self._crops.of(image, preprocessing.size)  # (3, S, S)
        pixels = preprocessing(torch.from_numpy(seen)[None].to(self.device))  # (1, 3, S, S)
        return np.ascontiguousarray(seen.transpose(1, 2, 0)), pixels

    def test_set(self) -> "TestSet":
        """The test pictures, found once, never downloaded from here. Raises `DataError`."""
        with self._test_lock:
            if self._tests is None:
                self._tests = TestSet(data.open_source(self.data_root, download=False))
            return self._tests

    def test_size(self) -> int:
        """The number of test pictures. Raises `DataError`."""
        return len(self.test_set())

    def test_picture(self, index: int) -> TestPicture:
        """The test picture `index`, 0 to N-1. Raises `DataError` or `ImageError`."""
        return self.test_set()[index]


class LookCache:
    """The looks asked for last, up to `limit` bytes together, for all who look."""

    def __init__(self, limit: int):
        self.limit = limit
        self._kept: OrderedDict[tuple, Look] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple) -> Look | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: tuple, look: Look) -> Look:
        with self._lock:
            self._kept[key] = look
            while len(self._kept) > 1 and sum(k.bytes for k in self._kept.values()) > self.limit:
                self._kept.popitem(last=False)
        return look


class Crops:
    """What models see of the pictures asked for last, cropped once a size; nobody changes these."""

    def __init__(self, most: int):
        self.most = most
        self._kept: OrderedDict[int, tuple[Image.Image, dict[int, np.ndarray]]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, image: Image.Image, size: int) -> np.ndarray:
        """(3, size, size) uint8."""
        with self._lock:
            # While a picture is held, no other one has its id.
            _, crops = self._kept.setdefault(id(image), (image, {}))
            self._kept.move_to_end(id(image))
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
        if size not in crops:
            crops[size] = inputs.to_uint8(inputs.square_crop(image, size))
        return crops[size]


def _look_key(run: Run, seen: np.ndarray) -> tuple:
    return run.path, run.stamp, hashlib.blake2b(seen.tobytes(), digest_size=16).digest()


class TestSet:
    """The test pictures of `source`, one at a time: a folder's are read when they are asked for."""

    def __init__(self, source: data.Source):
        self.classes = source.classes
        self._source = source
        self._pictures = source.load("test") if source.is_cifar10 else None
        self._files = [] if source.is_cifar10 else source.files("test")
        self._squares: dict[int, tuple[data.Pictures, str]] = {}  # by side, with the fingerprint
        self._square_lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pictures or self._files)

    def __getitem__(self, index: int) -> TestPicture:
        """Raises `DataError` naming the range, `ImageError` for a file that is no picture."""
        if not 0 <= index < len(self):
            raise DataError(f"There is no test picture {index}: choose 0 to {len(self) - 1}.")
        if self._pictures:
            pixels = self._pictures.images[index].permute(1, 2, 0).numpy()  # (S, S, 3)
            image, label = Image.fromarray(pixels), int(self._pictures.labels[index])
        else:
            path, label = self._files[index]
            image = inputs.visible_square(inputs.load_image(path))
        return TestPicture(image, self.classes[label])

    def squares(self, side: int) -> tuple[data.Pictures, str]:
        """All pictures as a run of this input size was tested on them, and their fingerprint.

        CIFAR-10's keep their own side. Read once: a large folder takes its time, the first time.
        Raises `DataError` naming a file that is no picture.
        """
        with self._square_lock:
            side = 0 if self._pictures else side
            if side not in self._squares:
                pictures = self._pictures or self._source.load("test", side)
                self._squares[side] = (pictures, data.fingerprint(pictures, self.classes))
            return self._squares[side]


def final_accuracy(run: Run) -> float | None:
    """Accuracy on the test set; None where it is not there or damaged."""
    try:
        return accuracy(run.evaluation.probabilities, run.evaluation.labels)
    except (RunError, ValueError):
        return None
