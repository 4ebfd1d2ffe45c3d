"""Published CIFAR-10 results of third-party models with the same or a similar recipe."""

from dataclasses import dataclass

from vitdemo.analyses.model_rows import ModelRow


@dataclass(frozen=True)
class PublishedResult:
    """Published result of the same or a similar recipe, not measured by vitdemo."""

    accuracy: str  # CIFAR-10 test accuracy in percent, as printed in the source
    description: str
    source: str


_STUDENTS = "student notebooks, published without a paper"
_STUDENT_RESULTS = {  # recipe name -> accuracy and description
    "vit-plain": ("76.23", "width 256, depth 6, 8 heads, 50 epochs"),
    "vit-deit-tiny": ("90.9", "width 192, depth 12, 3 heads, DeiT's recipe, 300 epochs"),
    "vit-nine-blocks": ("86.39", "width 192, depth 9, 8 heads, RandAugment, dropout, 100 epochs"),
    "vit-tiny-regularised": (
        "86.70",
        "width 192, depth 12, 3 heads, TrivialAugment, MixUp, CutMix, 100 epochs",
    ),
}
_JORDAN = "KellerJordan/cifar10-airbench"
_RESNET = PublishedResult("96.0", "ResNet-18, 7 minutes on an A100", _JORDAN)
_NETWORK = PublishedResult(
    "94.0", "the network of this recipe, 8 epochs, 6 test views per image", _JORDAN
)
_WIDE = PublishedResult(
    "95.0", "the widths of this recipe, 15 epochs, 6 test views per image", _JORDAN
)
_VIT_SMALL = PublishedResult(
    "98.4 to 98.8", "ViT-S/16 at 224 pixels, 3 epochs", "model cards on Hugging Face"
)
_VIT_CIFAR = PublishedResult(
    "90.92", "6.3 M parameters, AutoAugment, 134 minutes on a V100", "omihub777/ViT-CIFAR"
)
_HASSANI = "SHI-Labs/Compact-Transformers"
_CCT = (
    PublishedResult("91.45", "CCT-4/3x2, 0.48 M parameters, 200 epochs", _HASSANI),
    PublishedResult("95.04", "CCT-7/3x2, 300 epochs", _HASSANI),
)
PUBLISHED_RESULTS: dict[str, tuple[PublishedResult, ...]] = {  # recipe name -> published results
    **{name: (PublishedResult(*each, _STUDENTS),) for name, each in _STUDENT_RESULTS.items()},
    "vit-scratch": (
        PublishedResult(
            "93.58", "width 192, depth 9, 12 heads, 100 epochs of 3 views", "aanna0701/SPT_LSA_ViT"
        ),
        PublishedResult(
            "96.41",
            "width 192, depth 9, 12 heads, after 200 epochs of self-supervised pretraining on "
            "CIFAR-10",
            "hananshafi/vits-for-small-scale-datasets",
        ),
        _VIT_CIFAR,
    ),
    "vit-conv-stem": _CCT,
    "vit-conv-stem-cpu": _CCT,
    "vit-lesson": _CCT,
    "vit-speedrun": _CCT,
    "conv-baseline-cpu": (_NETWORK, _RESNET),
    "conv-wide": (_WIDE, _RESNET),
    "conv-baseline": (_WIDE, _RESNET),
    "resnet18": (_RESNET,),
    "resnet18-cpu": (_RESNET,),
    "finetune-two-stage": (
        PublishedResult("94.98", "ViT-S/8 at 32 pixels, 20,000 images", _STUDENTS),
    ),
    "vit-small-pretrained": (_VIT_CIFAR,),
    "vit-scratch-cpu": (_VIT_CIFAR,),
    "finetune-deit-tiny-128": (_VIT_SMALL,),
    "finetune-deit-tiny": (_VIT_SMALL,),
    "finetune-vit-small": (_VIT_SMALL,),
}


def published_results(row: ModelRow) -> tuple[PublishedResult, ...]:
    """Return the published results for the recipe of `row`, if it was trained on CIFAR-10."""
    return PUBLISHED_RESULTS.get(row.recipe, ()) if row.dataset_name in (None, "cifar10") else ()
