"""Every recipe as data: its fields, or those in which it differs from another one, its `base`.

Fields are those of `Recipe`; which are not named have its defaults, or the base's values. `options`
changes some of the base's model's. A base stands above what builds on it, and `train.py --list`
prints the recipes in this order. A `note` states the origin of a recipe and what it measured, on
what hardware.
"""

from collections.abc import Mapping

from vitdemo.models import ModelSpec


def vit(embed_dim: int, depth: int, num_heads: int, **options) -> ModelSpec:
    """Our own Vision Transformer, with patches of 4 px."""
    sizes = {"patch_size": 4, "embed_dim": embed_dim, "depth": depth, "num_heads": num_heads}
    return ModelSpec("vit", options=sizes | options)


def timm(name: str, image_size: int) -> ModelSpec:
    return ModelSpec("timm", image_size=image_size, name=name)


def recipe_ablation(
    base: str, changes: Mapping[str, tuple[str, dict]], measured: Mapping[str, str], when: str = ""
) -> dict[str, dict]:
    """`base` with one part of the recipe more, or another one, each: name -> (how, fields).

    `measured` has the test accuracy in percent of those that were trained, on the date `when`.
    """
    pictures = f"% of CIFAR-10's test pictures, {when}."
    return {
        f"{base}-{name}": {
            "base": base,
            "summary": f"{base} {how}",
            "note": f"One change beside {base}, for the ablation. "
            + (f"{measured[name]} {pictures}" if name in measured else "Not measured here yet."),
        }
        | fields
        for name, (how, fields) in changes.items()
    }


TRIVIAL = ("with TrivialAugment", {"policy": "trivial"})
MIXED = ("with MixUp and CutMix", {"mixup": 0.2, "cutmix": 1.0})
MUON = {"optimizer": "muon", "learning_rate": 2e-3, "momentum": 0.95}


def plain_changes(epochs: int) -> dict[str, tuple[str, dict]]:
    """What is tried beside a basic training of `epochs` epochs, which leaves it far from fitted."""
    return {
        "augmented": TRIVIAL,
        "longer": ("for three times as long", {"epochs": 3 * epochs}),
        "decay": ("with a weight decay of 0.05", {"weight_decay": 0.05}),
        "rate": ("at a learning rate of 1e-3", {"learning_rate": 1e-3}),
        "one-cycle": ("with a one-cycle schedule", {"schedule": "one-cycle"}),
        "ema": ("with averaged weights", {"ema_decay": 0.998}),
        "mixed": MIXED,
        "muon": ("with Muon", MUON),
        "mimetic": ("with mimetic initialisation", {"options": {"init": "mimetic"}}),
    }


# What is tried beside a training that is fitted
FITTED_CHANGES: dict[str, tuple[str, dict]] = {
    "augmented": TRIVIAL,
    "mixed": MIXED,
    "pooled": (
        "with the mean of the patches in place of the class token",
        {"options": {"global_pool": "avg"}},
    ),
    "pretrained": ("from the weights of vit-muon-cpu-masked", {"pretrained": True}),
    "distilled": (
        "with the convolutional baseline as its teacher",
        {"teacher": "assets/runs/conv-baseline"},
    ),
}

MEASURED_CPU = {
    "muon": "79.69",
    "longer": "76.20",
    "rate": "66.38",
    "ema": "66.29",
    "decay": "66.07",
    "one-cycle": "64.03",
    "mixed": "61.50",
    "augmented": "60.81",
}
MEASURED_FITTED = {
    "pretrained": "83.93",
    "augmented": "83.01",
    "pooled": "82.87",
    "mixed": "82.16",
    "distilled": "80.79",
}

RECIPES: dict[str, dict] = {
    "vit-small-cpu": {
        "summary": "a small ViT from scratch, for a plain CPU",
        "model": vit(128, 6, 4, init="mimetic"),
        "note": "82.56 % of CIFAR-10's test pictures (82.73 % in float32 on a 2.5 GHz Xeon); "
        "about an hour of work on one core and then two of an AMD EPYC (Genoa), 2026-11-21. Its "
        "curves and answers ship.",
        "epochs": 10,
        "optimizer": "muon",
        "learning_rate": 2e-3,
        "momentum": 0.95,
        "warmup_epochs": 0.5,
        "clip_norm": 1.0,
        "label_smoothing": 0.1,
        "ema_decay": 0.998,
    },
    "first-steps": {
        "summary": "a first training, for a lesson: a small ViT on 10,000 pictures",
        "model": vit(96, 4, 3, init="mimetic"),
        "note": "61.7 % of validation (one seed), in 140 seconds of two shared cores (2026-11-23).",
        "epochs": 5,
        "batch_size": 64,
        "optimizer": "muon",
        "learning_rate": 3e-3,
        "momentum": 0.95,
        "warmup_epochs": 0.5,
        "clip_norm": 1.0,
        "validation_share": 0.05,
        "train_pictures": 10_000,
    },
    "vit-small-masked": {
        "base": "vit-small-cpu",
        "summary": "vit-small-cpu's model without labels, as a masked autoencoder",
        "note": "He et al. 2022: three quarters of the patches hidden, flip and crop alone. 15 "
        "minutes on two cores of an AMD EPYC (Genoa), 2026-11-21.",
        "epochs": 16,
        "batch_size": 256,
        "learning_rate": 3e-3,
        "warmup_epochs": 1,
        "label_smoothing": 0.0,
        "ema_decay": 0.0,
        "mask_ratio": 0.75,
    },
    "vit-small-pretrained": {
        "base": "vit-small-cpu",
        "summary": "our own small ViT from scratch: first without labels, then with AutoAugment",
        "note": "Half of the patches at a time (PatchDropout, Liu et al. 2022), all of them in "
        "the last epochs. 90.40 % of CIFAR-10's test pictures; 67 minutes on two cores of an AMD "
        "EPYC (Genoa), 2026-11-21, after 15 without labels.",
        "pretrained": True,
        "epochs": 50,
        "batch_size": 256,
        "learning_rate": 3e-3,
        "warmup_epochs": 1,
        "policy": "auto",
        "patch_dropout": 0.5,
        "whole_epochs": 8,
    },
    "vit-scratch-cpu-masked": {
        "base": "vit-small-masked",
        "summary": "vit-scratch-cpu's model without labels, as a masked autoencoder",
        "model": vit(192, 6, 6, init="mimetic"),
        "note": "He et al. 2022: three quarters of the patches hidden, flip and crop alone. 26 "
        "minutes on two cores of an AMD EPYC (Turin) that had other work too, 2026-11-25.",
    },
    "vit-scratch-cpu": {
        "base": "vit-small-pretrained",
        "summary": "our own plain ViT from scratch, for a plain CPU: first without labels, then "
        "with the convolutional baseline as its teacher",
        "model": vit(192, 6, 6, init="mimetic"),
        "note": "Half of each target is what conv-baseline answers to the same pixels (Hinton et "
        "al. 2015; Touvron et al. 2021 teach a ViT by a convolutional network), which was itself "
        "trained on CIFAR-10 alone. 54 epochs, begun with 120: 91.66 % of CIFAR-10's test "
        "pictures; 108 minutes of epochs on two cores of an AMD EPYC (Turin) that had other work "
        "too, 2026-11-25. 40 epochs at once: 91.32 %. vit-scratch ships.",
        "teacher": "assets/runs/conv-baseline",
        "label_smoothing": 0.0,
        "epochs": 48,
        "whole_epochs": 6,
    },
    "vit-conv-stem-cpu": {
        "base": "vit-small-cpu",
        "summary": "vit-small-cpu, wider, with two convolution-and-pool stages before the tokens",
        "model": vit(192, 6, 3, init="mimetic", stem="conv"),
        "note": "CCT's 3x2 stem (Hassani et al. 2021), of which 91.45 % is reported elsewhere with "
        "0.48 M parameters after 200 epochs. Begun with 44 epochs and cut to 22, 16 of them with "
        "half of the patches: 90.43 % of CIFAR-10's test pictures; 24 more from those weights at "
        "2e-3: 91.59 %; 30 more from those, with conv-baseline as teacher: 92.81 %. 244 minutes of "
        "epochs together on two cores of an AMD EPYC (Turin) that had much other work too, "
        "2026-11-25. 44 epochs at once were not run; vit-conv-stem ships.",
        "epochs": 44,
        "batch_size": 256,
        "learning_rate": 3e-3,
        "warmup_epochs": 1,
        "policy": "auto",
        "patch_dropout": 0.5,
        "whole_epochs": 6,
    },
    "vit-speedrun": {
        "base": "vit-conv-stem-cpu",
        "summary": "a ViT with a conv stem that trains in about 75 seconds on one H100",
        "note": "No teacher, no pretraining. Three seeds: 93.93, 93.63 and 93.70 % test accuracy "
        "on CIFAR-10. The epochs took 70 to 81 seconds with --compile reduce-overhead on one H100, "
        "2026-11-27. Only the curves and predictions of these runs are included.",
        "epochs": 110,
        "batch_size": 1024,
        "learning_rate": 5e-3,
        "warmup_epochs": 2,
        "whole_epochs": 14,
        "mixup": 0.2,
        "cutmix": 1.0,
        "unmixed_epochs": 6,
    },
    "vit-scratch-masked": {
        "summary": "vit-scratch's model without labels, as a masked autoencoder; where it begins",
        "model": vit(192, 9, 6, init="mimetic"),
        "note": "He et al. 2022: three quarters of the patches hidden, flip and crop alone. 4 "
        "minutes of epochs on one H200 that had other trainings too, 2026-11-26. Its curve ships.",
        "epochs": 150,
        "batch_size": 1024,
        "learning_rate": 2e-3,
        "betas": (0.9, 0.95),
        "warmup_epochs": 10,
        "clip_norm": 1.0,
        "mask_ratio": 0.75,
    },
    "vit-scratch": {
        "base": "vit-scratch-masked",
        "summary": "our best plain ViT from scratch, for a GPU: first without labels, then with "
        "the convolutional baseline as its teacher",
        "model": vit(192, 9, 6, drop_path_rate=0.1, init="mimetic"),
        "note": "0.8 of each target is what conv-baseline answers to the same, mixed pixels "
        "(Beyer et al. 2022). 95.52 % of CIFAR-10's test pictures, 8 minutes of epochs on one H200 "
        "that had another training too, after 4 without labels, 2026-11-26. It ships. Before it, "
        "101 of 121 epochs with 0.5 of each target: 92.56 %; 93.03 % after eight more.",
        "betas": (0.9, 0.999),
        "mask_ratio": 0.0,
        "pretrained": True,
        "teacher": "assets/runs/conv-baseline",
        "teacher_share": 0.8,
        "epochs": 400,
        "policy": "auto",
        "mixup": 0.2,
        "cutmix": 1.0,
        "unmixed_epochs": 60,
        "patch_dropout": 0.5,
        "whole_epochs": 40,
        "ema_decay": 0.998,
    },
    "vit-conv-stem": {
        "base": "vit-scratch",
        "summary": "our own ViT with two convolution-and-pool stages before the tokens, for a GPU: "
        "the convolutional baseline as its teacher",
        "model": vit(192, 6, 3, drop_path_rate=0.1, init="mimetic", stem="conv"),
        "note": "The stem of CCT-7/3x2, of which 95.04 % is reported elsewhere. 94.84 % of "
        "CIFAR-10's test pictures, 7 minutes of epochs on one H200 that had another training too, "
        "2026-11-26. It ships. Before it, 159 of 210 epochs with 0.5 of each target from the "
        "teacher: 93.02 %; 93.80 % after 37 more on two cores of an AMD EPYC (Turin).",
        "pretrained": False,
    },
    "vit-plain": {
        "summary": "what a basic training gives: crop and flip, AdamW, cosine",
        "model": vit(256, 6, 8),
        "note": "As student notebooks train it; 76.23 % reported elsewhere. 81.40 % of CIFAR-10's "
        "test pictures, 3 minutes of epochs on one H100 that had other trainings too, 2026-11-26. "
        "Its curves and answers ship.",
        "epochs": 50,
        "learning_rate": 3e-4,
        "weight_decay": 1e-4,
    },
    **recipe_ablation("vit-plain", plain_changes(50), {}),
    "vit-plain-cpu": {
        "base": "vit-plain",
        "summary": "vit-plain with half the width, 8 px patches and 20 epochs, for a plain CPU",
        "model": vit(128, 6, 4, patch_size=8),
        "note": "So small that a lesson can repeat it and its ablation. 66.24 % of CIFAR-10's "
        "test pictures; 26 minutes on one core of an AMD EPYC (Genoa) that had other work too, "
        "2026-11-22. Its curves and answers ship.",
        "epochs": 20,
    },
    **recipe_ablation("vit-plain-cpu", plain_changes(20), MEASURED_CPU, "2026-11-22"),
    "vit-muon-cpu": {
        "base": "vit-plain-cpu",
        "summary": "vit-plain-cpu with Muon for 40 epochs, so that it is fitted",
        "note": "The base of a second ablation: TrivialAugment costs vit-plain-cpu 5.4 points and "
        "gains this one 2.2. 80.78 % of CIFAR-10's test pictures; 27 minutes on one core of an AMD "
        "EPYC (Turin), 2026-11-25. Its curves and answers ship.",
        **MUON,
        "epochs": 40,
    },
    "vit-muon-cpu-masked": {
        "base": "vit-muon-cpu",
        "summary": "vit-muon-cpu's model without labels, as a masked autoencoder",
        "note": "He et al. 2022: three quarters of the patches hidden. 19 minutes on one core of "
        "an AMD EPYC (Turin) that had other work too, 2026-11-25. Its curve ships.",
        "mask_ratio": 0.75,
    },
    **recipe_ablation("vit-muon-cpu", FITTED_CHANGES, MEASURED_FITTED, "2026-11-25"),
    "vit-plain-cpu-no-positions": {
        "base": "vit-plain-cpu",
        "summary": "vit-plain-cpu without position embeddings: it cannot tell where a patch was",
        "note": "Made worse, for a lesson: 59.20 % of CIFAR-10's test pictures; 37 minutes on "
        "one core of an AMD EPYC (Genoa) that had other work too, 2026-11-23. Its curves and "
        "answers ship.",
        "options": {"pos_embed": "none"},
    },
    "vit-plain-cpu-shuffled-labels": {
        "base": "vit-plain-cpu",
        "summary": "vit-plain-cpu on 2,000 pictures with shuffled labels: learnt, and worth "
        "nothing",
        "note": "Made to fail, for a lesson, after Zhang et al. 2017: training accuracy rises, "
        "the rest stays at chance. 100.0 % of its training pictures, 10.26 % of CIFAR-10's test "
        "pictures; 30 minutes on one core of an AMD EPYC (Genoa) that had other work too, "
        "2026-11-23. Its curves and answers ship.",
        "epochs": 150,
        "learning_rate": 1e-3,
        "flip": False,
        "crop_padding": 0,
        "train_pictures": 2_000,
        "shuffled_labels": True,
    },
    "vit-plain-cpu-too-fast": {
        "base": "vit-plain-cpu",
        "summary": "vit-plain-cpu at a learning rate far too high",
        "note": "Made to fail, for a lesson: 16.46 % of CIFAR-10's test pictures; 6 minutes on one "
        "core of an AMD EPYC (Genoa), 2026-11-23. Its curves and answers ship.",
        "learning_rate": 0.1,
        "epochs": 5,
    },
    "vit-nine-blocks": {
        "summary": "nine blocks with RandAugment, dropout and Adam",
        "model": vit(192, 9, 8, drop_rate=0.1),
        "note": "86.39 % published. Here: 85.43 % test accuracy on CIFAR-10, 6 minutes of epochs "
        "on one H100 that also trained two other models, 2026-11-27.",
        "epochs": 100,
        "optimizer": "adam",
        "weight_decay": 0.0,
        "warmup_epochs": 5,
        "policy": "rand",
    },
    "vit-tiny-regularised": {
        "summary": "TrivialAugment, MixUp, CutMix, erasing and label smoothing together",
        "model": vit(192, 12, 3),
        "note": "86.70 % reported elsewhere. Not measured here yet.",
        "epochs": 100,
        "warmup_epochs": 10,
        "clip_norm": 1.0,
        "policy": "trivial",
        "mixup": 0.2,
        "cutmix": 1.0,
        "erasing": 0.25,
        "label_smoothing": 0.1,
    },
    "vit-deit-tiny": {
        "summary": "DeiT's recipe on small pictures, for a GPU",
        "model": vit(192, 12, 3, drop_rate=0.1),
        "note": "90.9 % reported elsewhere. Not measured here yet.",
        "epochs": 300,
        "batch_size": 1024,
        "schedule": "one-cycle",
        "policy": "rand",
        "mixup": 0.8,
        "cutmix": 1.0,
    },
    "conv-baseline-cpu": {
        "summary": "the convolutional baseline: a small network with frozen whitening, Muon, "
        "alternating flips",
        "model": ModelSpec("convnet", options={"widths": (64, 256, 256)}),
        "note": "After Jordan 2024 (airbench), of which 94.0 % is reported elsewhere after 8 "
        "epochs of 50,000 pictures, with six views of each test picture. One view here, and "
        "45,000 pictures: 93.07 % of CIFAR-10's test pictures; 70 minutes on two cores of an AMD "
        "EPYC (Genoa) that had more other work than this, 2026-11-22. conv-baseline ships.",
        "epochs": 13,
        "batch_size": 512,
        "optimizer": "muon",
        "learning_rate": 3e-2,
        "weight_decay": 0.1,
        "momentum": 0.9,
        "warmup_epochs": 2,
        "schedule": "linear",
        "alternating_flip": True,
        "crop_padding": 2,
        "label_smoothing": 0.2,
    },
    "conv-wide": {
        "base": "conv-baseline-cpu",
        "summary": "conv-baseline-cpu's network twice as wide, with Cutout, for longer",
        "model": ModelSpec("convnet", options={"widths": (128, 384, 384)}),
        "note": "Jordan's widths for 95.0 %, which is reported elsewhere after 15 epochs of 50,000 "
        "pictures, with six views of each test picture. One view here, and 45,000 pictures: "
        "94.09 % of CIFAR-10's test pictures, 46 minutes of epochs on two cores of an Intel Xeon "
        "with AMX; with 18 epochs 93.86 %; 2026-11-24. conv-baseline ships.",
        "epochs": 30,
        "crop_padding": 4,
        "cutout": 8,
    },
    "conv-baseline": {
        "base": "conv-wide",
        "summary": "the convolutional baseline, for a GPU: frozen whitening, Muon, alternating "
        "flips, AutoAugment, Cutout",
        "note": "94.97 % of CIFAR-10's test pictures, 70 seconds of epochs on one H100 that had "
        "another training too, 2026-11-26. It ships. With seed 1: 95.28 %.",
        "epochs": 70,
        "policy": "auto",
        "label_smoothing": 0.1,
    },
    "resnet18": {
        "summary": "a ResNet-18: SGD with Nesterov momentum, cutout",
        "model": ModelSpec("resnet18"),
        "note": "He et al. 2016 with DeVries & Taylor's cutout. 94.57 % test accuracy on CIFAR-10, "
        "2 minutes of epochs on one H100 that also trained two other models, 2026-11-27.",
        "epochs": 60,
        "batch_size": 512,
        "optimizer": "sgd",
        "learning_rate": 0.4,
        "weight_decay": 5e-4,
        "warmup_epochs": 5,
        "cutout": 8,
        "label_smoothing": 0.1,
    },
    "resnet18-cpu": {
        "base": "resnet18",
        "summary": "a ResNet-18 in 12 epochs, for a plain CPU",
        "note": "One cycle of the learning rate (Smith & Topin 2017) on flip and crop alone. "
        "91.11 % of CIFAR-10's test pictures; 107 minutes on two cores of an AMD EPYC (Genoa) "
        "that had other work too, 2026-11-22.",
        "epochs": 12,
        "batch_size": 128,
        "learning_rate": 0.1,
        "warmup_epochs": 0,
        "schedule": "one-cycle",
        "cutout": 0,
    },
    "finetune-deit-tiny-128": {
        "summary": "DeiT-Tiny from ImageNet-1k, fine-tuned at 128 px",
        "model": timm("deit_tiny_patch16_224", 128),
        "note": "96.22 % of CIFAR-10's test pictures; 74 minutes on two cores of an AMD EPYC "
        "(Genoa) that had other work too, 2026-11-21 (94.32 % at 96 px after 3 epochs, the day "
        "before).",
        "pretrained": True,
        "epochs": 6,
        "batch_size": 64,
        "learning_rate": 5e-4,
        "warmup_epochs": 0.5,
        "layer_decay": 0.75,
        "clip_norm": 1.0,
        "label_smoothing": 0.1,
        "ema_decay": 0.998,
    },
    "finetune-two-stage": {
        "base": "finetune-deit-tiny-128",
        "summary": "DeiT-Tiny from ImageNet-1k at 96 px: the head first, then all, on 20,000 "
        "pictures",
        "model": timm("deit_tiny_patch16_224", 96),
        "note": "95.24 % of CIFAR-10's test pictures; 71 minutes on two cores of an AMD EPYC "
        "(Genoa) that had other work too, 2026-11-22. 94.98 % reported elsewhere for ViT-S/8 at "
        "32 px. Its curves and answers ship.",
        "head_epochs": 2,
        "epochs": 30,
        "mixup": 0.2,
        "cutmix": 1.0,
        "ema_decay": 0.0,
        "patience": 8,
        "train_pictures": 20_000,
    },
    "finetune-deit-tiny": {
        "base": "finetune-deit-tiny-128",
        "summary": "DeiT-Tiny from ImageNet-1k, fine-tuned at its own 224 px, for a GPU",
        "model": timm("deit_tiny_patch16_224", 224),
        "note": "97.67 % of CIFAR-10's test pictures, 287 seconds of epochs on one H200 that had "
        "other trainings too, 2026-11-26. It ships. 32 epochs: 97.75 %, no better on validation. "
        "Before it had augmentation and mixing: 97.29 % "
        "in six epochs at batch 64, half of the patches in four of them (52 minutes of epochs on "
        "two cores of an Intel Xeon with AMX); 97.26 % in ten at batch 128 with all patches (131 "
        "seconds of epochs on one shared H100).",
        "epochs": 24,
        "batch_size": 256,
        "warmup_epochs": 1,
        "policy": "auto",
        "mixup": 0.2,
        "cutmix": 1.0,
        "unmixed_epochs": 6,
        "patch_dropout": 0.5,
        "whole_epochs": 9,
    },
    "own-classes": {
        "base": "finetune-deit-tiny-128",
        "summary": "all of a fine-tuned DeiT-Tiny on a person's own few pictures",
        "model": timm("deit_tiny_patch16_224", 224),
        "note": "What 'Train all of it' in the tab 'Your classes' starts, from a run's weights. "
        "Three of scikit-learn's digits, 20 pictures each: all 15 test pictures right, 45 seconds "
        "on two busy cores of an AMD EPYC (Genoa), 2026-11-23.",
        "epochs": 8,
        "batch_size": 16,
        "learning_rate": 2e-4,
        "warmup_epochs": 1,
        "ema_decay": 0.0,
        "validation_share": 0.2,
    },
    "finetune-vit-small": {
        "base": "finetune-deit-tiny-128",
        "summary": "ViT-S/16 from ImageNet-21k, fine-tuned at 224 px, for a GPU",
        "model": timm("vit_small_patch16_224", 224),
        "note": "98.4 to 98.8 % reported elsewhere after 3 epochs. Not measured here yet.",
        "epochs": 5,
        "batch_size": 128,
        "learning_rate": 2e-4,
    },
}
