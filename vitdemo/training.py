"""Training: `Trainer.fit()` yields one record an epoch, and can go on where it was stopped.

The data sits on the device as uint8; augmentation is batched there. Every epoch starts from a seed
of its own, so an epoch is the same whether or not the run was interrupted before it, and the
checkpoint need not hold the state of a random generator. Nothing in the loop waits for the device
but the progress callback, about once a second.

Letters: B pictures of a batch, N of a set, S their side, C classes.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from timm.optim import create_optimizer_v2
from timm.utils import ModelEmaV3
from torch import Tensor, nn

from vitdemo.augment import POLICIES, mix, random_crop, random_erasing, random_flip
from vitdemo.data import Pictures, prepare
from vitdemo.errors import VitdemoError
from vitdemo.models import classifier
from vitdemo.recipes import Recipe


@dataclass(frozen=True)
class Preprocessing:
    """How uint8 pictures become a model's input: side in pixels, mean and std of each channel."""

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) uint8 or float in 0..255 -> (B, 3, size, size) float32."""
        return prepare(images, self.size, self.mean, self.std)


@dataclass(frozen=True)
class Progress:
    """Where an epoch stands, for a bar; loss and accuracy are means of its steps so far."""

    epoch: int
    step: int
    steps: int
    loss: float
    accuracy: float


@dataclass
class Best:
    """The epoch with the lowest validation loss, kept where a recipe stops early."""

    epoch: int
    val_loss: float
    weights: dict[str, Tensor]


def pick_device(name: str = "auto") -> torch.device:
    """CUDA, else Apple's MPS, else the CPU for "auto"; `VitdemoError` where `name` is absent."""
    found = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(kind for kind, there in found.items() if there))
    if name not in found:
        raise VitdemoError(f"Unknown device '{name}': choose auto, cuda, mps or cpu.")
    if not found[name]:
        raise VitdemoError(f"This machine has no device '{name}': leave out --device, or pass cpu.")
    return torch.device(name)


def autocast_helps(device: torch.device) -> bool:
    """bfloat16 pays where the hardware multiplies it: CUDA, and CPUs with AVX-512 BF16 or AMX.

    Elsewhere it is emulated: a ViT of width 128 trains 3.7 times slower with it than in float32
    (2-core Xeon of the Cascade Lake generation, torch 2.15).
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # private, so absence is fine
    return any(getattr(torch.cpu, probe, bool)() for probe in probes)


@torch.inference_mode()
def predict(
    model: nn.Module, images: Tensor, preprocessing: Preprocessing, batch_size: int = 250
) -> Tensor:
    """Logits (N, C) float32, on the CPU, of uint8 `images` (N, 3, S, S), in evaluation mode."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    logits = [
        model(preprocessing(part.to(device))).float() for part in images.split(batch_size)
    ]  # each (B, C)
    model.train(was_training)
    return torch.cat(logits).cpu()


def learning_rate_factor(recipe: Recipe, epoch: float, total: float) -> float:
    """Share of the peak learning rate at a time in epochs of a stage that lasts `total`."""
    if recipe.schedule == "one-cycle":  # Smith & Topin 2018, with torch's default proportions
        rise = 0.3 * total
        if epoch < rise:
            return 0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * epoch / rise))
        return 0.5 * (1 + math.cos(math.pi * min((epoch - rise) / (total - rise), 1.0)))
    if epoch < recipe.warmup_epochs:
        return epoch / recipe.warmup_epochs
    if recipe.schedule == "constant":
        return 1.0
    left = (epoch - recipe.warmup_epochs) / max(total - recipe.warmup_epochs, 1e-9)
    return 0.5 * (1 + math.cos(math.pi * min(left, 1.0)))


def build_optimizer(
    model: nn.Module, recipe: Recipe, learning_rate: float, layer_decay: float
) -> torch.optim.Optimizer:
    """timm's optimizer over parameter groups: no decay on biases, norms, class token, positions."""
    kind = recipe.optimizer
    options = {
        "adamw": {"betas": recipe.betas, "fused": True},
        "adam": {"betas": recipe.betas, "fused": True},
        "sgd": {"momentum": recipe.momentum, "nesterov": True},
        # Class token, positions and the head are no matrices to orthogonalise: AdamW moves them.
        "muon": {
            "momentum": recipe.momentum,
            "nesterov": True,
            "fallback_list": ("head*", "fc*"),
            "fallback_no_weight_decay": True,
        },
    }[kind]
    if kind in ("adamw", "adam") and next(model.parameters()).device.type == "mps":
        options.pop("fused")
    return create_optimizer_v2(
        model,
        opt=kind,
        lr=learning_rate,
        weight_decay=recipe.weight_decay,
        layer_decay=layer_decay if layer_decay < 1 else None,
        **options,
    )


class Trainer:
    """A model, its data and a recipe; `fit()` trains, `state_dict()` is all that resuming needs.

    Args:
        model: on `device`; trained in place.
        train, validation: pictures as uint8 tensors, moved to the device whole.
        num_classes: C.
        preprocessing: what the model expects.
        on_step: called with a `Progress` about once a second and at an epoch's last step.
    """

    def __init__(
        self,
        model: nn.Module,
        recipe: Recipe,
        train: Pictures,
        validation: Pictures,
        *,
        num_classes: int,
        preprocessing: Preprocessing,
        on_step: Callable[[Progress], None] | None = None,
    ):
        self.model = model
        self.recipe = recipe
        self.device = next(model.parameters()).device
        self.train = train.to(self.device)
        self.validation = validation.to(self.device)
        self.num_classes = num_classes
        self.preprocessing = preprocessing
        self.on_step = on_step or (lambda progress: None)
        self.autocast = autocast_helps(self.device)
        self.batch_size = min(recipe.batch_size, len(train))
        self.steps = len(train) // self.batch_size  # of an epoch; the rest waits for another order
        self.epoch = 0  # finished ones
        self.best: Best | None = None
        self.ema = (
            ModelEmaV3(model, decay=recipe.ema_decay, use_warmup=True) if recipe.ema_decay else None
        )
        self.optimizer = self._enter_stage()

    @property
    def stage(self) -> str:
        """ "head" while the body is frozen, then "all"."""
        return "head" if self.epoch < self.recipe.head_epochs else "all"

    @property
    def stopped_early(self) -> bool:
        patience = self.recipe.patience
        if not patience or not self.best:
            return False
        since = self.epoch - max(self.best.epoch, self.recipe.head_epochs)  # the head may stall
        return since >= patience

    @property
    def finished(self) -> bool:
        return self.epoch >= self.recipe.total_epochs or self.stopped_early

    def averaged_model(self) -> nn.Module:
        """The model that is validated: the EMA's where there is one."""
        return self.ema.module if self.ema else self.model

    def final_weights(self) -> dict[str, Tensor]:
        """What ships: the best epoch's weights where the recipe may stop early, else the last."""
        return self.best.weights if self.best else self.averaged_model().state_dict()

    def fit(self) -> Iterator[dict]:
        """Train to the end; yield the record of `history.jsonl` after each epoch."""
        while not self.finished:
            if self.epoch == self.recipe.head_epochs and self.epoch:
                self.optimizer = self._enter_stage()
            stage = self.stage
            started = time.perf_counter()
            train_loss, train_accuracy, learning_rate = self._train_epoch()
            seconds = time.perf_counter() - started
            val_loss, val_accuracy = self._validate()
            if not math.isfinite(train_loss + val_loss):
                raise VitdemoError(
                    f"The loss is not a number in epoch {self.epoch + 1}: the training diverged, "
                    "so begin again with a lower --learning-rate."
                )
            self.epoch += 1
            self._remember_best(val_loss)
            yield {
                "epoch": self.epoch,
                "stage": stage,
                "train_loss": train_loss,
                "train_accuracy": train_accuracy,
                "val_loss": val_loss,
                "val_accuracy": val_accuracy,
                "learning_rate": learning_rate,
                "epoch_seconds": time.perf_counter() - started,
                "images_per_second": self.steps * self.batch_size / seconds,
            }

    def state_dict(self) -> dict:
        """All that resuming needs, tensors and builtins only."""
        return {
            "epoch": self.epoch,
            "model": self.model.state_dict(),
            "ema": self.ema.module.state_dict() if self.ema else None,
            "optimizer": self.optimizer.state_dict(),
            "best": asdict(self.best) if self.best else None,
        }

    def load_state_dict(self, state: dict) -> None:
        """Go on from `state`; the recipe and data must be those it was made with."""
        # Into the stage of the epoch that was finished: its successor is entered by `fit`.
        self.epoch = max(state["epoch"] - 1, 0)
        self.optimizer = self._enter_stage()
        self.epoch = state["epoch"]
        self.model.load_state_dict(state["model"])
        if self.ema:
            self.ema.module.load_state_dict(state["ema"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.best = Best(**state["best"]) if state["best"] else None

    def _enter_stage(self) -> torch.optim.Optimizer:
        """Freeze or thaw for the stage of the next epoch; return its fresh optimizer."""
        recipe = self.recipe
        head_only = self.stage == "head"
        head = set(classifier(self.model).parameters()) if head_only else ()
        for parameter in self.model.parameters():
            parameter.requires_grad_(not head_only or parameter in head)
        self.peak = recipe.head_learning_rate if head_only else recipe.learning_rate
        self.first_epoch = 0 if head_only else recipe.head_epochs
        self.stage_epochs = recipe.head_epochs if head_only else recipe.epochs
        return build_optimizer(
            self.model, recipe, self.peak, 1.0 if head_only else recipe.layer_decay
        )

    def _train_epoch(self) -> tuple[float, float, float]:
        """One pass over the training pictures -> (mean loss, accuracy, last learning rate)."""
        torch.manual_seed(self.recipe.seed * 1_000_003 + self.epoch)
        # A frozen body stays as it is: without dropout, and BatchNorm does not move.
        self.model.train(self.stage != "head")
        order = torch.randperm(len(self.train), device=self.device)
        sums = torch.zeros(2, device=self.device)  # loss, right answers
        shown = time.perf_counter()
        learning_rate = 0.0
        for step in range(self.steps):
            learning_rate = self._set_learning_rate(step)
            batch = order[step * self.batch_size : (step + 1) * self.batch_size]  # (B,)
            sums += self._step(self.train.images[batch], self.train.labels[batch])
            if self.ema:
                self.ema.update(self.model, step=self.epoch * self.steps + step + 1)
            now = time.perf_counter()
            if now - shown > 1 or step + 1 == self.steps:
                shown = now
                self._report(step + 1, sums)
        loss, right = (sums / self.steps).tolist()
        return loss, right / self.batch_size, learning_rate

    def _step(self, images: Tensor, labels: Tensor) -> Tensor:
        """One optimizer step on (B, 3, S, S) uint8 -> (2,): loss, number of right answers.

        Under MixUp and CutMix an answer is right when it names the larger part of the mixture.
        """
        recipe = self.recipe
        inputs, targets = self._augment(images, labels)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            logits = self.model(inputs)  # (B, C)
        logits = logits.float()
        loss = F.cross_entropy(logits, targets, label_smoothing=recipe.label_smoothing)
        loss.backward()
        if recipe.clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        right = (logits.argmax(1) == targets.argmax(1)).sum()
        return torch.stack([loss.detach(), right])

    @torch.no_grad()
    def _augment(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """uint8 pictures and labels (B,) -> the model's input and targets (B, C)."""
        recipe = self.recipe
        pixels = images.float()  # (B, 3, S, S)
        targets = F.one_hot(labels, self.num_classes).float()  # (B, C)
        if recipe.crop_padding:
            pixels = random_crop(pixels, recipe.crop_padding)
        if recipe.flip:
            pixels = random_flip(pixels)
        pixels = POLICIES[recipe.policy](pixels)
        if recipe.erasing:
            pixels = random_erasing(pixels, recipe.erasing)
        if self.epoch < recipe.total_epochs - recipe.unmixed_epochs:
            pixels, targets = mix(pixels, targets, mixup=recipe.mixup, cutmix=recipe.cutmix)
        return self.preprocessing(pixels), targets

    def _set_learning_rate(self, step: int) -> float:
        time_in_stage = self.epoch - self.first_epoch + (step + 1) / self.steps
        rate = self.peak * learning_rate_factor(self.recipe, time_in_stage, self.stage_epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("lr_scale", 1.0)
        return rate

    def _report(self, step: int, sums: Tensor) -> None:
        loss, right = (sums / step).tolist()
        self.on_step(
            Progress(
                epoch=self.epoch + 1,
                step=step,
                steps=self.steps,
                loss=loss,
                accuracy=right / self.batch_size,
            )
        )

    def _validate(self) -> tuple[float, float]:
        """Plain cross-entropy and accuracy on the validation pictures: no smoothing, no mixing."""
        logits = predict(self.averaged_model(), self.validation.images, self.preprocessing)
        labels = self.validation.labels.cpu()
        loss = F.cross_entropy(logits, labels).item()
        return loss, (logits.argmax(1) == labels).float().mean().item()

    def _remember_best(self, val_loss: float) -> None:
        if self.recipe.patience and (self.best is None or val_loss < self.best.val_loss):
            weights = {k: v.detach().clone() for k, v in self.averaged_model().state_dict().items()}
            self.best = Best(self.epoch, val_loss, weights)
