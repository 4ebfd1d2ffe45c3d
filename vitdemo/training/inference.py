"""Preprocessing of images, and a model's logits for many images."""

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo.data import preprocess_images
from vitdemo.data.image_files import crop_and_resize, to_uint8


@dataclass(frozen=True)
class Preprocessing:
    """Preprocessing of images: `size` of the model input in pixels, mean and std per channel.

    `crop` is the side of the centre crop divided by the shorter side of an image. Images are
    resized before the crop with the filter `interpolation` (Pillow's name). A call does not crop,
    because the images are already squares.
    """

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: float = 1.0
    interpolation: str = "bicubic"

    @property
    def zero_colour(self) -> tuple[int, int, int]:
        """RGB colour, 0 to 255, that becomes the input 0: the mean of the normalisation.

        The colour is black for a model whose pixels are not normalised.
        """
        return tuple(round(255 * channel) for channel in self.mean)

    def crop_image(self, image: Image.Image) -> np.ndarray:
        """Return the centre crop (3, size, size) uint8 of an RGB image."""
        return to_uint8(crop_and_resize(image, self.size, self.crop, self.interpolation))

    def __call__(self, images: Tensor) -> Tensor:
        """Convert uint8 or float pixels (B, 3, S, S) in 0..255 to (B, 3, size, size) float32."""
        return preprocess_images(images, self.size, self.mean, self.std)


@torch.inference_mode()
def predict_logits(
    model: nn.Module,
    images: Tensor,
    preprocessing: Preprocessing,
    batch_size: int = 0,
    *,
    use_float16: bool = False,
) -> Tensor:
    """Return the logits (N, C) of uint8 `images` (N, 3, S, S), as float32 on the CPU.

    The model is in evaluation mode during the call.

    Args:
        batch_size: images per forward pass; 0: 1000 on CUDA, 250 elsewhere.
        use_float16: autocast to float16 on CUDA, for validation during training. Final results
            use float32, but CUDA's convolutions may round to TF32.
    """
    device = next(model.parameters()).device
    on_cuda = device.type == "cuda"
    context = torch.autocast("cuda", torch.float16) if use_float16 and on_cuda else nullcontext()
    was_training = model.training
    model.eval()
    with context:
        logits = [
            model(preprocessing(part.to(device))).float()
            for part in images.split(batch_size or (1000 if on_cuda else 250))
        ]  # each (B, C)
    model.train(was_training)
    return torch.cat(logits).cpu()
