"""ResNet-18 for small pictures, which many reports compare with (He et al. 2016).

torchvision's network with the stem that its paper uses on CIFAR: a 3x3 convolution at stride 1 and
no max-pool, so that 32 x 32 pixels reach the first stage whole.
"""

from torch import nn
from torchvision.models import resnet18


def build_resnet18(num_classes: int) -> nn.Module:
    """Pictures (B, 3, S, S) -> logits (B, C)."""
    model = resnet18(num_classes=num_classes)
    model.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.maxpool = nn.Identity()
    return model
