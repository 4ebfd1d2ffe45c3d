"""A small convolutional network for small pictures: the baseline of every comparison.

The network of Jordan 2024, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU"
(https://arxiv.org/abs/2404.00498), written anew: a frozen convolution that whitens patches of 2 x 2
pixels, three groups of two convolutions, BatchNorm without a scale, and a head that reads its input
scaled down. Its author's code is github.com/KellerJordan/cifar10-airbench (MIT licence).

Letters: B batch, S side of a picture, D channels, C classes.

    model = ConvNet(num_classes=10)
    model(torch.rand(8, 3, 32, 32)).shape  # (8, 10)
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

WHITENING_PICTURES = 5000  # that the whitening is measured on
HEAD_SCALE = 1 / 9  # of what the head reads: answers begin undecided, and sharpen slowly
_LEAST_VARIANCE = 5e-4  # added to that of a patch's directions: noise is not blown up


class Whitening(nn.Conv2d):
    """Patches of `side` pixels along their principal directions, at unit variance, and negated.

    Its weight is a buffer, so that nothing trains it; its bias is trained.
    """

    def __init__(self, side: int = 2):
        super().__init__(3, 2 * 3 * side**2, kernel_size=side)
        weight = self.weight.detach().clone()
        del self.weight
        self.register_buffer("weight", weight)
        nn.init.zeros_(self.bias)

    @torch.no_grad()
    def fit(self, images: Tensor) -> None:
        """Take the directions from the patches of normalised `images` (N, 3, S, S)."""
        patches = nn.functional.unfold(images, self.kernel_size).transpose(1, 2)  # (N, places, K)
        patches = patches.flatten(0, 1).float()  # (all patches, K)
        variances, directions = torch.linalg.eigh(patches.T @ patches / len(patches))
        scaled = directions.T / (variances[:, None] + _LEAST_VARIANCE).sqrt()  # (K, K), a row each
        self.weight.copy_(torch.cat([scaled, -scaled]).view_as(self.weight))


class BiasNorm(nn.BatchNorm2d):
    """BatchNorm whose scale stays 1: a GELU follows, and a convolution with a scale of its own."""

    def __init__(self, channels: int):
        super().__init__(channels, momentum=0.4)
        del self.weight
        self.register_buffer("weight", torch.ones(channels), persistent=False)


class ConvGroup(nn.Module):
    """Two 3x3 convolutions, the first of which halves the picture's side."""

    def __init__(self, channels_in: int, channels: int):
        super().__init__()
        self.conv1 = _convolution(channels_in, channels)
        self.pool = nn.MaxPool2d(2)
        self.norm1 = BiasNorm(channels)
        self.conv2 = _convolution(channels, channels)
        self.norm2 = BiasNorm(channels)
        self.act = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm1(self.pool(self.conv1(x))))  # (B, D, S/2, S/2)
        return self.act(self.norm2(self.conv2(x)))


def _convolution(channels_in: int, channels: int) -> nn.Conv2d:
    """Its first filters hand their input on as it is: the groups start near the identity."""
    convolution = nn.Conv2d(channels_in, channels, kernel_size=3, padding=1, bias=False)
    nn.init.dirac_(convolution.weight.data[:channels_in])
    return convolution


class ConvNet(nn.Module):
    """Whitening -> three groups -> the largest answer of each channel -> logits (B, C).

    Args:
        widths: channels of the groups. 64, 256, 256 are Jordan's for 94 %, 128, 384, 384 for 95 %.

    Pictures need a side of at least 16 pixels, which is not checked.
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
        """Pictures (B, 3, S, S) -> features (B, D, rows, columns), 3 x 3 for 32 pixels."""
        return self.groups(self.act(self.whiten(images)))

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Features (B, D, rows, columns) -> logits (B, C), or what the head reads, (B, D)."""
        x = HEAD_SCALE * self.pool(x).flatten(1)  # (B, D)
        return x if pre_logits else self.head(x)

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))
