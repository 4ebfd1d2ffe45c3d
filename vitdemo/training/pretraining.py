"""Training without labels: a `Trainer` whose model paints what it was not shown."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from vitdemo.models.masked import MaskedAutoencoder, draw_seen, hidden_loss
from vitdemo.recipes import Recipe
from vitdemo.training import Trainer


def make_trainer(model: nn.Module, recipe: Recipe, *data, **options) -> Trainer:
    """The `Trainer` of a recipe, or the `Pretrainer` of one that hides patches."""
    return (Pretrainer if recipe.mask_share else Trainer)(model, recipe, *data, **options)


class Pretrainer(Trainer):
    """Trains a Vision Transformer on pictures alone, as a masked autoencoder (He et al. 2022).

    Arguments are `Trainer`'s. Losses are mean squared errors in the hidden patches, and there is
    no accuracy: None stands in the records. What ships is the encoder, with a head that was never
    trained.
    """

    def __init__(self, model: nn.Module, recipe: Recipe, *data, **options):
        super().__init__(MaskedAutoencoder(model).to(_device(model)), recipe, *data, **options)

    @property
    def stage(self) -> str:
        return "masked"

    def final_weights(self) -> dict[str, Tensor]:
        weights = super().final_weights()
        return {
            name.removeprefix("encoder."): tensor
            for name, tensor in weights.items()
            if name.startswith("encoder.")
        }

    def fit(self) -> Iterator[dict]:
        for record in super().fit():
            yield record | {"train_accuracy": None, "val_accuracy": None}

    def _enter_stage(self) -> torch.optim.Optimizer:
        optimizer = super()._enter_stage()
        self.model.encoder.head.requires_grad_(False)  # DDP waits for every gradient
        return optimizer

    def _draw_epoch(self) -> None:
        super()._draw_epoch()
        count = self.steps * self.batch_size
        self.seen = self._draw_seen(count, self.recipe.seed * 1_000_003 + self.epoch)

    def _draw_seen(self, count: int, seed: int) -> Tensor:
        generator = torch.Generator(self.device).manual_seed(seed)
        patches = self.model.encoder.patch_embed.num_patches
        return draw_seen(count, patches, self.recipe.mask_share, generator)

    def _loss(self, step: int) -> tuple[Tensor, Tensor]:
        inputs = self._inputs(self._batch(step)[0])
        seen = self.seen[self._rows(step)[0]]
        loss = self._errors(self._forward, inputs, seen).mean()
        return loss, torch.zeros_like(loss)

    def _errors(self, model: nn.Module, inputs: Tensor, seen: Tensor) -> Tensor:
        """Of each picture (B,)."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            said = model(inputs, seen)
        return hidden_loss(said, inputs, seen, self.model.encoder.patch_embed.patch_size[0])

    @torch.inference_mode()
    def _validate(self) -> tuple[float, float]:
        """Mean error on the validation pictures, the same patches hidden in every epoch."""
        model, mine = self.averaged_model(), slice(self.processes.rank, None, self.processes.count)
        seen = self._draw_seen(len(self.validation), seed=0)[mine]
        images = self.validation.images[mine]
        model.eval()
        total = sum(
            self._errors(model, self.preprocessing(part), places).sum()
            for part, places in zip(images.split(500), seen.split(500), strict=True)
        )
        return (self.processes.sum(total.float()) / len(self.validation)).item(), 0.0


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
