"""Table of all recipes; an entry contains the fields that differ from the defaults or `base`.

`Recipe` defines the fields. `options` changes model options of the base recipe. If a recipe is a
change in an ablation study of its base, `change` is the name of the change. A base recipe comes
before the recipes that build on it. `train.py --list` prints the recipes in this order. A `note`
states the origin of a recipe, its results and the hardware.
"""

from collections.abc import Mapping

from vitdemo.models import ModelSpec


def vit_spec(embed_dim: int, depth: int, num_heads: int, **options) -> ModelSpec:
    """Return the specification of a vitdemo ViT; `options` can replace the patch size of 4 px."""
    sizes = {"patch_size": 4, "embed_dim": embed_dim, "depth": depth, "num_heads": num_heads}
    return ModelSpec("vit", options=sizes | options)


def timm_spec(name: str, image_size: int) -> ModelSpec:
    return ModelSpec("timm", image_size=image_size, name=name)


def ablation_entries(
    base: str,
    changes: Mapping[str, tuple[str, dict]],
    accuracies: Mapping[str, str],
    date: str = "",
) -> dict[str, dict]:
    """Return the recipes of an ablation study of `base`, one per change: name -> fields.

    `changes` maps the name of a change to its description and fields. `accuracies` contains the
    test accuracy, in percent, of each change that was trained; `date` is the date of measurement.
    """
    return {
        f"{base}-{name}": {
            "base": base,
            "change": name,
            "summary": f"{base} {description}",
            "note": f"Ablation study: one change to the baseline {base}. "
            + (
                f"Test accuracy on CIFAR-10: {accuracies[name]}%, {date}."
                if name in accuracies
                else "We have not trained this recipe yet."
            ),
        }
        | fields
        for name, (description, fields) in changes.items()
    }


TRIVIAL_CHANGE = ("with TrivialAugment", {"policy": "trivial"})
MIXED_FIELDS = {"mixup": 0.2, "cutmix": 1.0}
MIXUP_CUTMIX_CHANGE = ("with MixUp and CutMix", MIXED_FIELDS)
MUON_FIELDS = {"optimizer": "muon", "learning_rate": 2e-3, "momentum": 0.95}


def underfitted_changes(epochs: int) -> dict[str, tuple[str, dict]]:
    """Return the changes of an ablation study in which the baseline underfits after `epochs`."""
    return {
        "augmented": TRIVIAL_CHANGE,
        "longer": ("for three times as long", {"epochs": 3 * epochs}),
        "decay": ("with a weight decay of 0.05", {"weight_decay": 0.05}),
        "rate": ("at a learning rate of 1e-3", {"learning_rate": 1e-3}),
        "one-cycle": ("with a one-cycle schedule", {"schedule": "one-cycle"}),
        "ema": ("with an EMA of the weights", {"ema_decay": 0.998}),
        "mixed": MIXUP_CUTMIX_CHANGE,
        "muon": ("with Muon", MUON_FIELDS),
        "mimetic": ("with mimetic initialisation", {"options": {"init": "mimetic"}}),
    }


# Changes of an ablation study in which the baseline fits the training set.
FITTED_CHANGES: dict[str, tuple[str, dict]] = {
    "augmented": TRIVIAL_CHANGE,
    "mixed": MIXUP_CUTMIX_CHANGE,
    "pooled": (
        "with the mean of the patches instead of the class token",
        {"options": {"global_pool": "avg"}},
    ),
    "pretrained": ("from the weights of vit-muon-cpu-masked", {"pretrained": True}),
    "distilled": ("with conv-baseline as teacher", {"teacher": "assets/runs/conv-baseline"}),
}

CPU_ACCURACIES = {
    "muon": "79.69",
    "longer": "76.20",
    "rate": "66.38",
    "ema": "66.29",
    "decay": "66.07",
    "one-cycle": "64.03",
    "mixed": "61.50",
    "augmented": "60.81",
}
FITTED_ACCURACIES = {
    "pretrained": "83.93",
    "augmented": "83.01",
    "pooled": "82.87",
    "mixed": "82.16",
    "distilled": "80.79",
}

RECIPE_ENTRIES: dict[str, dict] = {
    "vit-small-cpu": {
        "summary": "a small ViT from scratch, for a CPU",
        "model": vit_spec(128, 6, 4, init="mimetic"),
        "note": "Test accuracy on CIFAR-10: 82.56% (82.73% in float32 on a 2.5 GHz Xeon). Training "
        "took about one hour on one core, later two cores, of an AMD EPYC (Genoa), 2026-11-21. The "
        "results are included, without weights.",
        "epochs": 10,
        **MUON_FIELDS,
        "warmup_epochs": 0.5,
        "clip_norm": 1.0,
        "label_smoothing": 0.1,
        "ema_decay": 0.998,
    },
    "first-steps": {
        "summary": "a first training run, for a lesson: a small ViT on 10,000 images",
        "model": vit_spec(96, 4, 3, init="mimetic"),
        "note": "Validation accuracy: 61.7% (one seed). Training took 140 seconds on two shared "
        "cores, 2026-11-23.",
        "epochs": 5,
        "batch_size": 64,
        **MUON_FIELDS,
        "learning_rate": 3e-3,
        "warmup_epochs": 0.5,
        "clip_norm": 1.0,
        "validation_share": 0.05,
        "train_pictures": 10_000,
    },
    "vit-small-masked": {
        "base": "vit-small-cpu",
        "summary": "self-supervised pretraining (masked autoencoder) of vit-small-cpu's model",
        "note": "Pretraining follows He et al. 2022: three quarters of the patches are hidden, and "
        "the images are only flipped and cropped. Training took 15 minutes on two cores of an AMD "
        "EPYC (Genoa), 2026-11-21.",
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
        "summary": "a small ViT from scratch: self-supervised pretraining, then AutoAugment",
        "note": "PatchDropout 0.5 (Liu et al. 2022) is on, except in the last epochs. Test "
        "accuracy on CIFAR-10: 90.40%. Training took 67 minutes on two cores of an AMD EPYC "
        "(Genoa), after 15 minutes of pretraining, 2026-11-21.",
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
        "summary": "self-supervised pretraining (masked autoencoder) of vit-scratch-cpu's model",
        "model": vit_spec(192, 6, 6, init="mimetic"),
        "note": "Pretraining follows He et al. 2022: three quarters of the patches are hidden, and "
        "the images are only flipped and cropped. Training took 26 minutes on two shared cores of "
        "an AMD EPYC (Turin), 2026-11-25.",
    },
    "vit-scratch-cpu": {
        "base": "vit-small-pretrained",
        "summary": "a plain ViT from scratch, for a CPU: self-supervised pretraining, then "
        "distillation from conv-baseline",
        "model": vit_spec(192, 6, 6, init="mimetic"),
        "note": "The distillation weight is 0.5 (Hinton et al. 2015). The teacher is a "
        "convolutional network, as in Touvron et al. 2021: conv-baseline, trained only on "
        "CIFAR-10. Test accuracy on CIFAR-10: 91.66% after 54 of 120 planned epochs. A run of 40 "
        "epochs reached 91.32%. Training took 108 minutes (sum of epoch times) on two shared cores "
        "of an AMD EPYC (Turin), 2026-11-25. The included model is vit-scratch.",
        "teacher": "assets/runs/conv-baseline",
        "label_smoothing": 0.0,
        "epochs": 48,
        "whole_epochs": 6,
    },
    "vit-conv-stem-cpu": {
        "base": "vit-small-cpu",
        "summary": "a wider vit-small-cpu with a conv stem",
        "model": vit_spec(192, 6, 3, init="mimetic", stem="conv"),
        "note": "The stem is CCT's 3x2 stem (Hassani et al. 2021). Published result: 91.45% after "
        "200 epochs. The run was stopped after 22 of 44 epochs, 16 of them with PatchDropout 0.5. "
        "Test accuracy on CIFAR-10: 90.43%. After 24 more epochs (learning rate 2e-3), the "
        "accuracy was 91.59%. After another 30 epochs with conv-baseline as teacher, it was "
        "92.81%. Training took 244 minutes (sum of epoch times) on two shared cores of an AMD "
        "EPYC (Turin), 2026-11-25. We did not test 44 epochs in one run. The included model is "
        "vit-conv-stem.",
        "epochs": 44,
        "batch_size": 256,
        "learning_rate": 3e-3,
        "warmup_epochs": 1,
        "policy": "auto",
        "patch_dropout": 0.5,
        "whole_epochs": 6,
    },
    "vit-lesson": {
        "base": "vit-conv-stem-cpu",
        "summary": "a ViT with a conv stem that trains within a lesson on two CPU cores",
        "note": "PatchDropout 0.5 is on, except in the last four epochs. Neither a teacher nor "
        "pretraining is used. Test accuracy on CIFAR-10: 91.15%. The validation accuracy reached "
        "90% after 32 minutes. Training took 51 minutes (sum of epoch times) on two cores of an "
        "AMD EPYC (Turin), which also ran other programs, 2026-11-27. The results are included, "
        "without weights.",
        "epochs": 28,
        "whole_epochs": 4,
        "validation_share": 0.05,
    },
    "vit-speedrun": {
        "base": "vit-conv-stem-cpu",
        "summary": "a ViT with a conv stem that trains in about one minute on one H200",
        "note": "Neither a teacher nor pretraining is used. Test accuracy on CIFAR-10: 94.23 to "
        "94.52% (three seeds). Training took 61 to 64 seconds (sum of epoch times) with --compile "
        "reduce-overhead on one H200, 2026-11-27. Loading the compiled kernels took 5 to 8 of "
        "these seconds. The results are included, without weights.",
        "epochs": 133,
        "batch_size": 1024,
        "learning_rate": 5e-3,
        "warmup_epochs": 2,
        "whole_epochs": 14,
        **MIXED_FIELDS,
        "unmixed_epochs": 6,
        "validation_share": 0.02,
    },
    "vit-scratch-masked": {
        "summary": "self-supervised pretraining (masked autoencoder) of vit-scratch",
        "model": vit_spec(192, 9, 6, init="mimetic"),
        "note": "Pretraining follows He et al. 2022: three quarters of the patches are hidden, and "
        "the images are only flipped and cropped. Training took 4 minutes (sum of epoch times) on "
        "one H200 that also trained other models, 2026-11-26. The training curve is included.",
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
        "summary": "the best plain ViT from scratch, for a GPU: self-supervised pretraining, then "
        "distillation from conv-baseline",
        "model": vit_spec(192, 9, 6, drop_path_rate=0.1, init="mimetic"),
        "note": "The distillation weight is 0.8. The teacher receives the same mixed images as "
        "the student (Beyer et al. 2022). Test accuracy on CIFAR-10: 95.52%. Training took 8 "
        "minutes (sum of epoch times), after 4 minutes of pretraining, on one H200 that also "
        "trained another model, 2026-11-26. This model is included. An earlier run with "
        "distillation weight 0.5 reached 92.56% after 101 of 121 epochs. Eight more epochs raised "
        "the accuracy to 93.03%.",
        "betas": (0.9, 0.999),
        "mask_ratio": 0.0,
        "pretrained": True,
        "teacher": "assets/runs/conv-baseline",
        "teacher_share": 0.8,
        "epochs": 400,
        "policy": "auto",
        **MIXED_FIELDS,
        "unmixed_epochs": 60,
        "patch_dropout": 0.5,
        "whole_epochs": 40,
        "ema_decay": 0.998,
    },
    "vit-conv-stem": {
        "base": "vit-scratch",
        "summary": "a ViT with a conv stem from scratch, for a GPU: distillation from "
        "conv-baseline",
        "model": vit_spec(192, 6, 3, drop_path_rate=0.1, init="mimetic", stem="conv"),
        "note": "The model uses the stem of CCT-7/3x2. Published result: 95.04%. Test accuracy on "
        "CIFAR-10: 94.84%. Training took 7 minutes (sum of epoch times) on one H200 that also "
        "trained another model, 2026-11-26. This model is included. An earlier run with "
        "distillation weight 0.5 reached 93.02% after 159 of 210 epochs. Another 37 epochs on two "
        "cores of an AMD EPYC (Turin) raised the accuracy to 93.80%.",
        "pretrained": False,
    },
    "vit-plain": {
        "summary": "a basic training recipe: crop and flip, AdamW, cosine schedule",
        "model": vit_spec(256, 6, 8),
        "note": "This recipe is common in notebooks. Published result: 76.23%. Test accuracy on "
        "CIFAR-10: 81.40%. Training took 3 minutes (sum of epoch times) on one H100 that also "
        "trained other models, 2026-11-26. The results are included, without weights.",
        "epochs": 50,
        "learning_rate": 3e-4,
        "weight_decay": 1e-4,
    },
    **ablation_entries("vit-plain", underfitted_changes(50), {}),
    "vit-plain-cpu": {
        "base": "vit-plain",
        "summary": "vit-plain with half the width, 8 px patches and 20 epochs, for a CPU",
        "model": vit_spec(128, 6, 4, patch_size=8),
        "note": "The model is small, so its ablation study can be repeated on a CPU. Test accuracy "
        "on CIFAR-10: 66.24%. Training took 26 minutes on one shared core of an AMD EPYC (Genoa), "
        "2026-11-22. The results are included, without weights.",
        "epochs": 20,
    },
    **ablation_entries("vit-plain-cpu", underfitted_changes(20), CPU_ACCURACIES, "2026-11-22"),
    "vit-muon-cpu": {
        "base": "vit-plain-cpu",
        "summary": "vit-plain-cpu with Muon for 40 epochs, which fits the training set",
        "note": "This recipe is the baseline of a second ablation study. TrivialAugment reduces "
        "vit-plain-cpu's accuracy by 5.4 percentage points, but raises this run's accuracy by 2.2. "
        "Test accuracy on CIFAR-10: 80.78%. Training took 27 minutes on one core of an AMD EPYC "
        "(Turin), 2026-11-25. The results are included, without weights.",
        **MUON_FIELDS,
        "epochs": 40,
    },
    "vit-muon-cpu-masked": {
        "base": "vit-muon-cpu",
        "summary": "self-supervised pretraining (masked autoencoder) of vit-muon-cpu's model",
        "note": "Pretraining follows He et al. 2022: three quarters of the patches are hidden. "
        "Training took 19 minutes on one shared core of an AMD EPYC (Turin), 2026-11-25. The "
        "training curve is included.",
        "mask_ratio": 0.75,
    },
    **ablation_entries("vit-muon-cpu", FITTED_CHANGES, FITTED_ACCURACIES, "2026-11-25"),
    "vit-plain-cpu-no-positions": {
        "base": "vit-plain-cpu",
        "change": "no-positions",
        "summary": "vit-plain-cpu without position embeddings, thus without patch positions",
        "note": "The model is worse on purpose, for a lesson. Test accuracy on CIFAR-10: 59.20%. "
        "Training took 37 minutes on one shared core of an AMD EPYC (Genoa), 2026-11-23. The "
        "results are included, without weights.",
        "options": {"pos_embed": "none"},
    },
    "vit-plain-cpu-shuffled-labels": {
        "base": "vit-plain-cpu",
        "summary": "vit-plain-cpu on 2,000 images with shuffled labels, which it memorises",
        "note": "This run fails on purpose, for a lesson (after Zhang et al. 2017): only the "
        "training accuracy rises above chance. Training accuracy: 100.0%. Test accuracy on "
        "CIFAR-10: 10.26%. Training took 30 minutes on one shared core of an AMD EPYC (Genoa), "
        "2026-11-23. The results are included, without weights.",
        "epochs": 150,
        "learning_rate": 1e-3,
        "flip": False,
        "crop_padding": 0,
        "train_pictures": 2_000,
        "shuffled_labels": True,
    },
    "vit-plain-cpu-too-fast": {
        "base": "vit-plain-cpu",
        "summary": "vit-plain-cpu with a learning rate that is far too high",
        "note": "This run fails on purpose, for a lesson. Test accuracy on CIFAR-10: 16.46%. "
        "Training took 6 minutes on one core of an AMD EPYC (Genoa), 2026-11-23. The results are "
        "included, without weights.",
        "learning_rate": 0.1,
        "epochs": 5,
    },
    "vit-nine-blocks": {
        "summary": "a ViT with nine blocks, RandAugment, dropout and Adam",
        "model": vit_spec(192, 9, 8, drop_rate=0.1),
        "note": "Published result: 86.39%. Test accuracy on CIFAR-10: 85.43%. Training took 6 "
        "minutes (sum of epoch times) on one H100 that also trained two other models, 2026-11-27.",
        "epochs": 100,
        "optimizer": "adam",
        "weight_decay": 0.0,
        "warmup_epochs": 5,
        "policy": "rand",
    },
    "vit-tiny-regularised": {
        "summary": "a ViT with TrivialAugment, MixUp, CutMix, random erasing and label smoothing",
        "model": vit_spec(192, 12, 3),
        "note": "Published result: 86.70%. Test accuracy on CIFAR-10: 85.83% after 87 of 100 "
        "epochs, at a learning rate of 6e-5. Training took 8 minutes (sum of epoch times) on one "
        "H200 that also trained three other models, 2026-11-27.",
        "epochs": 100,
        "warmup_epochs": 10,
        "clip_norm": 1.0,
        "policy": "trivial",
        **MIXED_FIELDS,
        "erasing": 0.25,
        "label_smoothing": 0.1,
    },
    "vit-deit-tiny": {
        "summary": "a ViT with DeiT's recipe for small images, for a GPU",
        "model": vit_spec(192, 12, 3, drop_rate=0.1),
        "note": "Published result: 90.9%. Test accuracy on CIFAR-10: 84.44% with --epochs 120. "
        "Training took 7 minutes (sum of epoch times) on one H200 that also trained three other "
        "models, 2026-11-27. We did not test 300 epochs.",
        "epochs": 300,
        "batch_size": 1024,
        "schedule": "one-cycle",
        "policy": "rand",
        "mixup": 0.8,
        "cutmix": 1.0,
    },
    "conv-baseline-cpu": {
        "summary": "the convolutional baseline, for a CPU: frozen whitening, Muon, alternating "
        "flips",
        "model": ModelSpec("convnet", options={"widths": (64, 256, 256)}),
        "note": "The network is from Jordan 2024 (airbench). Published result: 94.0% after 8 "
        "epochs. Jordan trained on 50,000 images and used six views of each test image. "
        "vitdemo uses 45,000 training images and one view. Test accuracy on CIFAR-10: 93.07%. "
        "Training took 70 minutes on two shared cores of an AMD EPYC (Genoa), 2026-11-22. The "
        "included model is conv-baseline.",
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
        "summary": "conv-baseline-cpu with a wider network, Cutout and more epochs",
        "model": ModelSpec("convnet", options={"widths": (128, 384, 384)}),
        "note": "The widths are the same as in Jordan's network for 95.0% (published, 15 epochs). "
        "Jordan trained on 50,000 images and used six views of each test image. vitdemo uses "
        "45,000 training images and one view. Test accuracy on CIFAR-10: 94.09%. A run of 18 "
        "epochs reached 93.86%. Training took 46 minutes (sum of epoch times) on two cores of an "
        "Intel Xeon with AMX, 2026-11-24. The included model is conv-baseline.",
        "epochs": 30,
        "crop_padding": 4,
        "cutout": 8,
    },
    "conv-baseline": {
        "base": "conv-wide",
        "summary": "the convolutional baseline, for a GPU: frozen whitening, Muon, alternating "
        "flips, AutoAugment, Cutout",
        "note": "Test accuracy on CIFAR-10: 94.97%. Seed 1 reached 95.28%. Training took 70 "
        "seconds (sum of epoch times) on one H100 that also trained another model, 2026-11-26. "
        "This model is included.",
        "epochs": 70,
        "policy": "auto",
        "label_smoothing": 0.1,
    },
    "resnet18": {
        "summary": "a ResNet-18 with SGD, Nesterov momentum and Cutout",
        "model": ModelSpec("resnet18"),
        "note": "The network is from He et al. 2016, with Cutout (DeVries & Taylor 2017). Test "
        "accuracy on CIFAR-10: 94.57%. Training took 2 minutes (sum of epoch times) on one H100 "
        "that also trained two other models, 2026-11-27.",
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
        "summary": "a ResNet-18 in 12 epochs, for a CPU",
        "note": "The schedule is one-cycle (Smith & Topin 2017), and the images are only flipped "
        "and cropped. Test accuracy on CIFAR-10: 91.11%. Training took 107 minutes on two shared "
        "cores of an AMD EPYC (Genoa), 2026-11-22.",
        "epochs": 12,
        "batch_size": 128,
        "learning_rate": 0.1,
        "warmup_epochs": 0,
        "schedule": "one-cycle",
        "cutout": 0,
    },
    "finetune-deit-tiny-128": {
        "summary": "DeiT-Tiny, pretrained on ImageNet-1k and fine-tuned at 128 px",
        "model": timm_spec("deit_tiny_patch16_224", 128),
        "note": "Test accuracy on CIFAR-10: 96.22%. Training took 74 minutes on two shared cores "
        "of an AMD EPYC (Genoa), 2026-11-21. At 96 px, the test accuracy was 94.32% after 3 "
        "epochs, 2026-11-20.",
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
        "summary": "DeiT-Tiny, pretrained on ImageNet-1k, fine-tuned at 96 px on 20,000 images: "
        "first the classifier head, then the whole model",
        "model": timm_spec("deit_tiny_patch16_224", 96),
        "note": "Test accuracy on CIFAR-10: 95.24%. Training took 71 minutes on two shared cores "
        "of an AMD EPYC (Genoa), 2026-11-22. Published result for ViT-S/8 at 32 px: 94.98%. The "
        "results are included, without weights.",
        "head_epochs": 2,
        "epochs": 30,
        **MIXED_FIELDS,
        "ema_decay": 0.0,
        "patience": 8,
        "train_pictures": 20_000,
    },
    "finetune-deit-tiny": {
        "base": "finetune-deit-tiny-128",
        "summary": "DeiT-Tiny, pretrained on ImageNet-1k and fine-tuned at 224 px, for a GPU",
        "model": timm_spec("deit_tiny_patch16_224", 224),
        "note": "Test accuracy on CIFAR-10: 97.67%. Training took 287 seconds (sum of epoch "
        "times) on one H200 that also trained other models, 2026-11-26. This model is included. "
        "With 32 epochs, the test accuracy is 97.75%, but the validation accuracy is not higher. "
        "Two earlier runs without AutoAugment, MixUp and CutMix reached 97.3%. One run took six "
        "epochs on two CPU cores, and the other run took ten epochs on a GPU.",
        "epochs": 24,
        "batch_size": 256,
        "warmup_epochs": 1,
        "policy": "auto",
        **MIXED_FIELDS,
        "unmixed_epochs": 6,
        "patch_dropout": 0.5,
        "whole_epochs": 9,
    },
    "own-classes": {
        "base": "finetune-deit-tiny-128",
        "summary": "a fine-tuned DeiT-Tiny, trained further on a few images of custom classes",
        "model": timm_spec("deit_tiny_patch16_224", 224),
        "note": "The button 'Fine-tune the whole model' in the tab 'Custom classes' starts this "
        "recipe from a run's weights. We tested it with three of scikit-learn's digits, 20 images "
        "each: all 15 test images were classified correctly. Training took 45 seconds on two "
        "shared cores of an AMD EPYC (Genoa), 2026-11-23.",
        "epochs": 8,
        "batch_size": 16,
        "learning_rate": 2e-4,
        "warmup_epochs": 1,
        "ema_decay": 0.0,
        "validation_share": 0.2,
    },
    "finetune-vit-small": {
        "base": "finetune-deit-tiny-128",
        "summary": "ViT-S/16, pretrained on ImageNet-21k and fine-tuned at 224 px, for a GPU",
        "model": timm_spec("vit_small_patch16_224", 224),
        "note": "Published results: 98.4% to 98.8% after 3 epochs. We have not trained this recipe "
        "yet.",
        "epochs": 5,
        "batch_size": 128,
        "learning_rate": 2e-4,
    },
}

# Recipes that also belong to the ablation study of another baseline: (recipe, baseline) -> change
SHARED_CHANGES = {("vit-plain-cpu-muon", "vit-muon-cpu"): "shorter"}
