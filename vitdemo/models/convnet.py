"""Convolutional baselines: a small network for small images, and a ResNet-18.

`ConvNet` reimplements the network of Jordan 2024, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU"
(https://arxiv.org/abs/2404.00498). A frozen convolution whitens patches of 2 x 2 pixels. Three
groups of two convolutions with BatchNorm (without a learned scale) follow. The input of the
classifier head is scaled. Original code: github.com/KellerJordan/cifar10-airbench (MIT licence).

Letters: B batch, S side of an image, D channels, C classes.

    model = ConvNet(num_classes=10)
    model(torch.rand(8, 3, 32, 32)).shape  # (8, 10)
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, ResNet

from vitdemo.models.family import ModelFamily

WHITENING_IMAGES = 5000  # number of images from which the whitening is computed
HEAD_SCALE = 1 / 9  # first predictions are close to uniform, so training is stable
_MIN_VARIANCE = 5e-4  # added to each variance, so that noise is not amplified


class Whitening(nn.Conv2d):
    """Whitening convolution: projects patches onto their principal directions with unit variance.

    A second copy of the filters has the opposite sign. Only the bias is trained.
    """

    def __init__(self, side: int = 2):
        super().__init__(3, 2 * 3 * side**2, kernel_size=side)
        weight = self.weight.detach().clone()
        del self.weight
        self.register_buffer("weight", weight)
        nn.init.zeros_(self.bias)

    @torch.no_grad()
    def fit(self, images: Tensor) -> None:
        """Compute the whitening weight from the patches of normalised `images` (N, 3, S, S)."""
        # (N, positions, K)
        patches = nn.functional.unfold(images, self.kernel_size).transpose(1, 2)
        patches = patches.flatten(0, 1).float()  # (all patches, K)
        variances, directions = torch.linalg.eigh(patches.T @ patches / len(patches))
        scaled = directions.T / (variances[:, None] + _MIN_VARIANCE).sqrt()  # (K, K)
        self.weight.copy_(torch.cat([scaled, -scaled]).view_as(self.weight))


class BiasNorm(nn.BatchNorm2d):
    """BatchNorm with a trained bias and a fixed scale of 1, as in Jordan's network."""

    def __init__(self, channels: int):
        super().__init__(channels, momentum=0.4)
        del self.weight
        self.register_buffer("weight", torch.ones(channels), persistent=False)


class ConvGroup(nn.Module):
    """Two 3x3 convolutions; a max-pool after the first convolution halves the side of the image."""

    def __init__(self, channels_in: int, channels: int):
        super().__init__()
        self.conv1 = _dirac_convolution(channels_in, channels)
        self.pool = nn.MaxPool2d(2)
        self.norm1 = BiasNorm(channels)
        self.conv2 = _dirac_convolution(channels, channels)
        self.norm2 = BiasNorm(channels)
        self.act = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm1(self.pool(self.conv1(x))))  # (B, D, S/2, S/2)
        return self.act(self.norm2(self.conv2(x)))


def _dirac_convolution(channels_in: int, channels: int) -> nn.Conv2d:
    """Return a 3x3 convolution whose first filters pass on their input channels unchanged.

    With this Dirac initialisation, training starts with layers that are close to the identity.
    """
    convolution = nn.Conv2d(channels_in, channels, kernel_size=3, padding=1, bias=False)
    nn.init.dirac_(convolution.weight.data[:channels_in])
    return convolution


class ConvNet(nn.Module):
    """Convolutional network: whitening -> three groups -> global max-pool -> logits (B, C).

    Args:
        widths: channels of the groups. Jordan uses 64, 256, 256 for a test accuracy of 94%.

    The side of an image must be at least 16 pixels; the model does not check the side.
    """

    def __init__(self, *, num_classes: int = 10, widths: Sequence[int] = (64, 256, 256)):
        super().__init__()
        self.num_classes = num_classes
        self.whiten = Whitening()
        self.act = nn.GELU()
        channels = (self.whiten.out_channels, *widths)
        self.groups = nn.Sequential(*(ConvGroup(*pair) for pair in pairwise(channels)))
        self.pool = nn.AdaptiveMaxPool2d(1)
        self.head = nn.Linear(widths[-1], num_classes, bias=False)

    def get_classifier(self) -> nn.Module:
        return self.head

    def forward_features(self, images: Tensor) -> Tensor:
        """Compute features (B, D, rows, columns) of images (B, 3, S, S); for S = 32, 3 x 3."""
        return self.groups(self.act(self.whiten(images)))

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Map features (B, D, rows, columns) to logits (B, C), or to the head's input (B, D)."""
        x = HEAD_SCALE * self.pool(x).flatten(1)  # (B, D)
        return x if pre_logits else self.head(x)

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))


class ResNet18(ResNet):
    """ResNet-18 for small images, a common baseline (He et al. 2016), with timm's method names.

    The model maps images (B, 3, S, S) to logits (B, C). This is torchvision's network with the stem
    that the paper uses on CIFAR: a 3x3 convolution with stride 1 and no max-pool. The first stage
    therefore works at the full resolution.
    """

    def __init__(self, *, num_classes: int = 10):
        super().__init__(BasicBlock, [2, 2, 2, 2], num_classes=num_classes)
        self.num_classes = num_classes
        self.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
        nn.init.kaiming_normal_(self.conv1.weight, mode="fan_out", nonlinearity="relu")
        self.maxpool = nn.Identity()

    def get_classifier(self) -> nn.Module:
        return self.fc

    def forward_features(self, images: Tensor) -> Tensor:
        """Compute features (B, D, rows, columns) of images (B, 3, S, S); for S = 32, 4 x 4."""
        x = self.relu(self.bn1(self.conv1(images)))
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Map features (B, D, rows, columns) to logits (B, C), or to the head's input (B, D)."""
        x = self.avgpool(x).flatten(1)  # (B, D)
        return x if pre_logits else self.fc(x)


CONVNET = ModelFamily(
    "convnet",
    lambda spec, num_classes: ConvNet(num_classes=num_classes, **spec.options),
    has_attention=False,
)
RESNET18 = ModelFamily(
    "resnet18", lambda spec, num_classes: ResNet18(num_classes=num_classes), has_attention=False
)
