"""Self-supervised pretraining: a `Trainer` whose model reconstructs masked patches."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from vitdemo.models.masked import MaskedAutoencoder, reconstruction_loss, sample_visible_patches
from vitdemo.training.recipes import Recipe
from vitdemo.training.trainer import Trainer

# Name of the pretraining stage, and the record fields that are None in this stage.
MASKED_STAGE, ACCURACY_FIELDS = "masked", ("train_accuracy", "val_accuracy")


def make_trainer(model: nn.Module, recipe: Recipe, *data, **options) -> Trainer:
    """Return a `Pretrainer` if the recipe masks patches, otherwise a `Trainer`."""
    return (Pretrainer if recipe.mask_ratio else Trainer)(model, recipe, *data, **options)


class Pretrainer(Trainer):
    """Self-supervised trainer of a ViT as a masked autoencoder (He et al. 2022).

    The arguments are the same as for `Trainer`. Losses are mean squared errors in the masked
    patches. Accuracies are None in the records. The saved model is the encoder with an untrained
    head.
    """

    def __init__(self, model: nn.Module, recipe: Recipe, *data, **options):
        device = next(model.parameters()).device
        super().__init__(MaskedAutoencoder(model).to(device), recipe, *data, **options)

    @property
    def stage(self) -> str:
        return MASKED_STAGE

    def ema_weights(self) -> dict[str, Tensor]:
        return self.ema_model().encoder.state_dict()

    def fit(self) -> Iterator[dict]:
        for record in super().fit():
            yield record | dict.fromkeys(ACCURACY_FIELDS)

    def _enter_stage(self) -> torch.optim.Optimizer:
        optimizer = super()._enter_stage()
        # The head is unused here, and DDP would wait for its gradient.
        self.model.encoder.head.requires_grad_(False)
        return optimizer

    def _draw_epoch(self) -> None:
        super()._draw_epoch()
        self.visible = self._draw_visible(self.steps * self.batch_size, self._epoch_seed)

    def _draw_visible(self, count: int, seed: int) -> Tensor:
        generator = torch.Generator(self.device).manual_seed(seed)
        patches = self.model.encoder.patch_embed.num_patches
        return sample_visible_patches(count, patches, self.recipe.mask_ratio, generator)

    def _compute_loss(self, step: int) -> tuple[Tensor, Tensor]:
        inputs = self._preprocess(self.batches.load(step)[0])
        visible = self.visible[self.batches.find_rows(step)[0]]
        loss = self._reconstruction_errors(self._forward, inputs, visible).mean()
        return loss, torch.zeros_like(loss)

    def _reconstruction_errors(self, model: nn.Module, inputs: Tensor, visible: Tensor) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            prediction = model(inputs, visible)
        patch_size, _ = self.model.encoder.patch_embed.patch_size
        return reconstruction_loss(prediction, inputs, visible, patch_size)

    @torch.inference_mode()
    def _validate(self) -> tuple[float, float]:
        """Return the mean validation error, and 0 as accuracy; all epochs mask the same patches."""
        model, own_part = self.ema_model(), slice(self.processes.rank, None, self.processes.count)
        visible = self._draw_visible(len(self.validation), seed=0)[own_part]
        images = self.validation.images[own_part]
        model.eval()
        size = 2500 if self.device.type == "cuda" else 500
        total = sum(
            self._reconstruction_errors(model, self.preprocessing(part), positions).sum()
            for part, positions in zip(images.split(size), visible.split(size), strict=True)
        )
        return (self.processes.all_reduce_sum(total.float()) / len(self.validation)).item(), 0.0
