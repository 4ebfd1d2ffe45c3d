"""ResNet-18 for small images, a common baseline (He et al. 2016).

This is torchvision's network with the stem that the paper uses on CIFAR: a 3x3 convolution with
stride 1 and no max-pool. The first stage therefore works at the full resolution of 32 x 32 pixels.
"""

from torch import nn
from torchvision.models import resnet18


def build_resnet18(num_classes: int) -> nn.Module:
    """Build a ResNet-18 that maps images (B, 3, S, S) to logits (B, C)."""
    model = resnet18(num_classes=num_classes)
    model.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.maxpool = nn.Identity()
    return model
