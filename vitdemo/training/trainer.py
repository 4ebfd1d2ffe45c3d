"""Training loop: `Trainer.fit()` yields one record per epoch and can resume from a checkpoint.

The data is on the device as uint8 and is augmented there in batches. Every epoch has its own seed.
An interruption therefore does not change later epochs. A checkpoint within an epoch also contains
the states of the random generators. The loop waits for the device only in the progress callback,
about once per second, and when several processes agree to stop. On CUDA, the model and the
augmentation are compiled. With `torchrun`, several processes share each batch (see `processes`).

Letters: B images per batch, R images that this process augments, N images in a dataset, S side of
an image in pixels, C classes.
"""

import gc
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from timm.utils import ModelEmaV3
from torch import Tensor, nn

from vitdemo.data import LabelledImages
from vitdemo.errors import VitdemoError
from vitdemo.models import add_patch_dropout
from vitdemo.models.convnet import WHITENING_IMAGES
from vitdemo.training.batches import Batches, augment_batch
from vitdemo.training.devices import (
    choose_compile_mode,
    choose_fused_attention,
    choose_memory_format,
    compile_static,
    get_random_state,
    set_random_state,
    supports_fast_bfloat16,
)
from vitdemo.training.inference import Preprocessing, predict_logits
from vitdemo.training.muon import BatchedMuon, CapturedStep
from vitdemo.training.optimisation import build_optimizer, learning_rate_factor
from vitdemo.training.processes import Processes
from vitdemo.training.recipes import Recipe
from vitdemo.training.splits import shuffle_labels
from vitdemo.training.stopping import never_stop
from vitdemo.training.teacher import Teacher

CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune")  # modes of `torch.compile` with CUDA graphs
STOP_CHECK_STEPS = 16  # steps between two stop checks of several processes


@dataclass(frozen=True)
class StepProgress:
    """Progress within an epoch; `loss` and `accuracy` are means over the first `step` steps.

    With several processes, the means cover only this process's part of each batch.
    """

    epoch: int
    step: int
    steps: int
    loss: float
    accuracy: float


@dataclass
class EpochProgress:
    """Progress of an interrupted epoch, in the checkpoint.

    `step` is the number of finished steps. `sums` (2,) contains the sum of the steps' losses and
    the number of correct predictions. `seconds` is the training time of these steps.
    """

    step: int
    sums: Tensor
    random_state: list[Tensor]
    seconds: float = 0.0


@dataclass
class BestEpoch:
    """Epoch with the lowest validation loss, and the weights after it, for early stopping."""

    epoch: int
    val_loss: float
    weights: dict[str, Tensor]


class Trainer:
    """Training run of one model: `fit()` trains it, `state_dict()` returns a checkpoint.

    Args:
        model: on `device`; trained in place.
        train, validation: images as uint8 tensors, which are moved to the device.
        num_classes: C.
        preprocessing: normalisation and size of the model input.
        on_step: called with a `StepProgress` about once per second and after the last step of an
            epoch.
        stop: called after each step. True ends the training run after this step. With several
            processes, only the first process calls `stop`, after every 16th step.
        pause: called after each step. True ends `fit` after this step, without a record of the
            epoch. The checkpoint then contains the finished steps of the epoch. Several processes
            do not call `pause`.
        on_note: called with a sentence if a feature is not available; default: a warning.
        compile: "auto", "off" or a mode of `torch.compile`, see `choose_compile_mode`.
        processes: processes that share each batch; default: only this process.
        teacher: model on `device` whose predictions are mixed into the targets.

    Raises `VitdemoError` if a batch cannot be divided evenly among the processes, or if the recipe
    uses PatchDropout but the model has no patches.
    """

    def __init__(
        self,
        model: nn.Module,
        recipe: Recipe,
        train: LabelledImages,
        validation: LabelledImages,
        *,
        num_classes: int,
        preprocessing: Preprocessing,
        on_step: Callable[[StepProgress], None] | None = None,
        stop: Callable[[], bool] = never_stop,
        pause: Callable[[], bool] = never_stop,
        on_note: Callable[[str], None] | None = None,
        compile: str = "off",
        processes: Processes | None = None,
        teacher: Teacher | None = None,
    ):
        self.recipe = recipe
        self.device = next(model.parameters()).device
        self.memory_format = choose_memory_format(model)
        self.model = model.to(memory_format=self.memory_format)
        train = shuffle_labels(train, recipe.seed) if recipe.shuffled_labels else train
        self.train = train.to(self.device)
        self.validation = validation.to(self.device)
        self.num_classes = num_classes
        self.preprocessing = preprocessing
        self.on_step = on_step or (lambda progress: None)
        self.stop, self.pause = stop, pause
        self.stopped_step: int | None = None  # last step, if `stop` ended the run
        self.on_note = on_note or (lambda note: warnings.warn(note, stacklevel=2))
        self.autocast = supports_fast_bfloat16(self.device)
        if self.device.type == "cuda":
            torch.backends.cudnn.benchmark = True  # constant shapes make this faster
        self.compile = choose_compile_mode(self.device, compile)
        self.processes = processes or Processes()
        self.teacher = teacher
        self.batches = Batches(recipe, self.train, num_classes, preprocessing.mean, self.processes)
        self.batch_size, self.steps = self.batches.batch_size, self.batches.steps
        self.images_per_process = self.batches.images_per_process
        if self.compile != "off":
            self.batches.augment = compile_static(augment_batch, self.compile)
        if hasattr(model, "whiten"):
            model.whiten.fit(preprocessing(self.train.images[:WHITENING_IMAGES]))
        self._forward: nn.Module | None = None  # compiled and distributed model, made by `fit`
        self._step_optimizer: Callable[[], None] = self._clip_and_step
        self.epoch = 0  # number of finished epochs
        self.epoch_progress: EpochProgress | None = None  # for an epoch that was paused
        self.compile_seconds = 0.0  # latest epoch; 0 unless it is a stage's first epoch
        self.best: BestEpoch | None = None
        self.ema = (
            ModelEmaV3(model, decay=recipe.ema_decay, use_warmup=True) if recipe.ema_decay else None
        )
        # Called after the EMA model is copied, because the EMA model is used only for inference.
        choose_fused_attention(self.model)
        self.patch_dropout = add_patch_dropout(self.model) if recipe.patch_dropout else None
        self.optimizer = self._enter_stage()

    @property
    def stage(self) -> str:
        """Stage of the next epoch: "head" while the backbone is frozen, then "all"."""
        return "head" if self.epoch < self.recipe.head_epochs else "all"

    @property
    def is_stopped_early(self) -> bool:
        patience = self.recipe.patience
        if not patience or not self.best:
            return False
        # Epochs of the first stage do not count, because the loss may stagnate in this stage.
        stagnant_epochs = self.epoch - max(self.best.epoch, self.recipe.head_epochs)
        return stagnant_epochs >= patience

    @property
    def is_finished(self) -> bool:
        is_stopped = self.is_stopped_early or self.stopped_step is not None
        return is_stopped or self.epoch >= self.recipe.total_epochs

    def ema_model(self) -> nn.Module:
        """Return the model to validate: the EMA model if the recipe has an EMA, else `model`."""
        return self.ema.module if self.ema else self.model

    def ema_weights(self) -> dict[str, Tensor]:
        return self.ema_model().state_dict()

    def final_weights(self) -> dict[str, Tensor]:
        """Return the weights of the best epoch with early stopping, else the latest weights."""
        return self.best.weights if self.best else self.ema_weights()

    def fit(self) -> Iterator[dict]:
        """Train all epochs; after each epoch, yield its record for `history.jsonl`."""
        while not self.is_finished:
            if self.epoch == self.recipe.head_epochs and self.epoch:
                self.optimizer = self._enter_stage()
            stage = self.stage
            started = time.perf_counter()
            if self._forward is None:
                self._prepare_forward()
            self.compile_seconds = time.perf_counter() - started
            started -= self.epoch_progress.seconds if self.epoch_progress else 0.0
            train_loss, train_accuracy, learning_rate = self._train_epoch()
            seconds = time.perf_counter() - started - self.compile_seconds
            if self.epoch_progress:
                self.epoch_progress.seconds = seconds
                return
            steps = self.steps if self.stopped_step is None else self.stopped_step
            val_loss, val_accuracy = self._validate()
            if not math.isfinite(train_loss + val_loss):
                raise VitdemoError(
                    f"The loss is not a number in epoch {self.epoch + 1}: the training run "
                    "diverged. Start again with a lower --learning-rate."
                )
            self.epoch += 1
            if self.recipe.patience and (self.best is None or val_loss < self.best.val_loss):
                weights = {k: v.detach().clone() for k, v in self.ema_weights().items()}
                self.best = BestEpoch(self.epoch, val_loss, weights)
            yield {
                "epoch": self.epoch,
                "stage": stage,
                "train_loss": train_loss,
                "train_accuracy": train_accuracy,
                "val_loss": val_loss,
                "val_accuracy": val_accuracy,
                "learning_rate": learning_rate,
                "epoch_seconds": time.perf_counter() - started,
                "images_per_second": steps * self.batch_size / seconds,
            } | ({} if self.stopped_step is None else {"share": steps / self.steps})

    def state_dict(self) -> dict:
        """Return the state for resuming, as tensors and Python builtins."""
        return {
            "epoch": self.epoch,
            "model": self.model.state_dict(),
            "ema": self.ema.module.state_dict() if self.ema else None,
            "optimizer": self.optimizer.state_dict(),
            "best": asdict(self.best) if self.best else None,
            "progress": asdict(self.epoch_progress) if self.epoch_progress else None,
        }

    def load_state_dict(self, state: dict) -> None:
        """Restore the checkpoint `state`, which must come from the same recipe and data."""
        # Enter the stage of the last finished epoch, because `fit` itself enters the next stage.
        self.epoch = max(state["epoch"] - 1, 0)
        self.optimizer = self._enter_stage()
        self.epoch = state["epoch"]
        self.model.load_state_dict(state["model"])
        if self.ema:
            self.ema.module.load_state_dict(state["ema"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.best = BestEpoch(**state["best"]) if state["best"] else None
        progress = state.get("progress")  # missing in old checkpoints
        self.epoch_progress = EpochProgress(**progress) if progress else None

    def _enter_stage(self) -> torch.optim.Optimizer:
        """Freeze or unfreeze weights for the stage of the next epoch; return a new optimizer."""
        recipe = self.recipe
        head_only = self.stage == "head"
        head = set(self.model.get_classifier().parameters()) if head_only else ()
        for parameter in self.model.parameters():
            parameter.requires_grad_(not head_only or parameter in head)
        self.peak_learning_rate = recipe.head_learning_rate if head_only else recipe.learning_rate
        self.first_epoch = 0 if head_only else recipe.head_epochs
        self.stage_epochs = recipe.head_epochs if head_only else recipe.epochs
        self._forward = None
        self._step_optimizer = self._clip_and_step
        return build_optimizer(
            self.model, recipe, self.peak_learning_rate, 1.0 if head_only else recipe.layer_decay
        )

    def _prepare_forward(self) -> None:
        """Prepare the model for this stage: distribute it over the processes and compile it."""
        gc.collect()  # the previous stage may have left hooks on the gradients
        distributed = self.processes.distribute_model(self.model)
        self._forward = distributed
        if self.compile == "off":
            return
        self._draw_epoch()
        if not self._try_compiled("augmentation", lambda: self.batches.load(0)):
            self.batches.augment = augment_batch
        self._forward = compile_static(distributed, self.compile)
        if not self._try_compiled("model", lambda: self._compute_loss(0)[0].backward()):
            self.compile, self._forward = "off", distributed
            self.batches.augment = augment_batch
        elif self.compile in CUDA_GRAPH_MODES and isinstance(self.optimizer, BatchedMuon):
            self._step_optimizer = CapturedStep(self.optimizer, self._clip_and_step)

    def _try_compiled(self, part: str, call: Callable) -> bool:
        """Return whether `call` compiles the `part` successfully; restore the model afterwards.

        `call` is called three times: the first call compiles, and the second records CUDA graphs.
        """
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        self.model.train(self.stage != "head")
        try:
            for _ in range(3):
                torch.compiler.cudagraph_mark_step_begin()
                call()
                self.optimizer.zero_grad()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # Triton or a missing C++ compiler may raise any exception
            reason = next(iter(str(error).splitlines()), "")[:160]
            self.on_note(
                f"torch.compile failed on the {part} ({type(error).__name__}: {reason}). The "
                "training run continues without compilation."
            )
            return False
        finally:
            self.optimizer.zero_grad()
            for buffer, before in buffers:
                buffer.copy_(before)
        return True

    @property
    def _epoch_seed(self) -> int:
        return self.recipe.seed * 1_000_003 + self.epoch

    def _draw_epoch(self) -> None:
        """Draw all random numbers of the next epoch; they are the same in every process."""
        recipe, seed = self.recipe, self._epoch_seed
        # Dropout, patch dropout and drop path use the global generator. Each process seeds it
        # differently, because each process trains on different images.
        torch.manual_seed(seed + 500_009 * self.processes.rank)
        if self.patch_dropout:
            keeps_all = self.epoch >= recipe.total_epochs - recipe.whole_epochs
            self.patch_dropout.prob = 0.0 if keeps_all else recipe.patch_dropout
        self.batches.draw(self.epoch, seed, is_compiled=self.compile != "off")

    def _should_stop(self, step: int) -> bool:
        if self.processes.count == 1:
            return self.stop()
        is_check_step = (self.epoch * self.steps + step + 1) % STOP_CHECK_STEPS == 0
        return is_check_step and self.processes.broadcast_flag(self.stop(), self.device)

    def _train_epoch(self) -> tuple[float, float, float]:
        """Train until the epoch ends or `pause`; return loss, accuracy and last learning rate."""
        self._draw_epoch()
        first_step, sums = 0, torch.zeros(2, device=self.device)  # loss, correct predictions
        if self.epoch_progress:
            first_step, sums = self.epoch_progress.step, self.epoch_progress.sums.to(self.device)
            set_random_state(self.device, self.epoch_progress.random_state)
            self.epoch_progress = None
        # A frozen backbone is in evaluation mode: no dropout, and fixed BatchNorm statistics.
        self.model.train(self.stage != "head")
        last_report = time.perf_counter()
        learning_rate = 0.0
        for step in range(first_step, self.steps):
            learning_rate = self._set_learning_rate(step)
            sums += self._train_step(step)
            if self.ema:
                self.ema.update(self.model, step=self.epoch * self.steps + step + 1)
            if self._should_stop(step):
                self.stopped_step = step + 1
            elif step + 1 < self.steps and self.processes.count == 1 and self.pause():
                random_state = get_random_state(self.device)
                self.epoch_progress = EpochProgress(step + 1, sums, random_state)
            now = time.perf_counter()
            is_over = self.stopped_step is not None or self.epoch_progress is not None
            is_last = step + 1 == self.steps or is_over
            if now - last_report > 1 or is_last:
                last_report = now
                self._report(step + 1, sums)
            if is_last:
                break
        loss, correct = (self.processes.all_reduce_sum(sums) / (step + 1)).tolist()
        return loss / self.processes.count, correct / self.batch_size, learning_rate

    def _train_step(self, step: int) -> Tensor:
        """Take one optimizer step; return loss and number of correct predictions, (2,)."""
        if self.compile != "off":
            torch.compiler.cudagraph_mark_step_begin()
        loss, correct = self._compute_loss(step)
        loss.backward()
        self._step_optimizer()
        self.optimizer.zero_grad()
        return torch.stack([loss.detach(), correct])

    def _clip_and_step(self) -> None:
        if self.recipe.clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        self.optimizer.step()

    def _compute_loss(self, step: int) -> tuple[Tensor, Tensor]:
        """Return loss and number of correct predictions for this process's part of a batch.

        With MixUp or CutMix, the correct class is the class with the larger part in the mixture.
        """
        pixels, labels = self.batches.load(step)
        inputs = self._preprocess(pixels)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            logits = self._forward(inputs)  # (B, C)
            targets = self._mix_targets(pixels, labels)
        logits = logits.float()
        return F.cross_entropy(logits, targets), (logits.argmax(1) == labels.argmax(1)).sum()

    def _preprocess(self, pixels: Tensor) -> Tensor:
        """Convert pixels (B, 3, S, S) in 0..255 to the model input (B, 3, size, size)."""
        return self.preprocessing(pixels).contiguous(memory_format=self.memory_format)

    @torch.no_grad()
    def _mix_targets(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """Return targets (B, C): smoothed labels, mixed with a teacher's predictions if any."""
        smoothing = self.recipe.label_smoothing
        smooth = (1 - smoothing) * labels + smoothing / self.num_classes
        return self.teacher.mix_targets(pixels, smooth) if self.teacher else smooth

    def _set_learning_rate(self, step: int) -> float:
        time_in_stage = self.epoch - self.first_epoch + (step + 1) / self.steps
        rate = self.peak_learning_rate * learning_rate_factor(
            self.recipe, time_in_stage, self.stage_epochs
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("lr_scale", 1.0)
            if "adamw_lr" in group:  # timm's Muon before 1.0.27 does not update this rate itself
                group["adamw_lr"] = group["lr"]
        return rate

    def _report(self, step: int, sums: Tensor) -> None:
        loss, correct = (sums / step).tolist()
        accuracy = correct / self.images_per_process
        self.on_step(StepProgress(self.epoch + 1, step, self.steps, loss, accuracy))

    def _validate(self) -> tuple[float, float]:
        """Return validation loss (cross-entropy without label smoothing) and accuracy."""
        model, processes = self.ema_model(), self.processes
        processes.broadcast_buffers(model)
        own_part = slice(processes.rank, None, processes.count)
        images = self.validation.images[own_part]
        logits = predict_logits(model, images, self.preprocessing, use_float16=True)
        if not logits.isfinite().all():  # values above 65,504 overflow in float16
            logits = predict_logits(model, images, self.preprocessing)
        labels = self.validation.labels[own_part].cpu()
        loss = F.cross_entropy(logits, labels, reduction="sum")
        sums = torch.stack([loss, (logits.argmax(1) == labels).sum()])  # (2,)
        if processes.count > 1:
            sums = processes.all_reduce_sum(sums.to(self.device))
        loss, accuracy = (sums.cpu().double() / len(self.validation)).tolist()
        return loss, accuracy
