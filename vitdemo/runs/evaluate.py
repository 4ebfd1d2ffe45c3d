"""Evaluation of a run on its test set and its validation set, with the saved weights."""

import time

import numpy as np
import torch

from vitdemo import data
from vitdemo.errors import RunError
from vitdemo.runs.files import Evaluation
from vitdemo.runs.run import Run
from vitdemo.runs.weights import load_model
from vitdemo.training import predict_logits
from vitdemo.training.splits import split_labels


def check_same_classes(run: Run, source: data.ImageDataset) -> None:
    """Raise `RunError` if the classes of `run` and of the dataset `source` differ."""
    if source.classes != run.classes:
        raise RunError(
            f"'{run.path}' was trained on other classes ({', '.join(run.classes[:4])}, ...): "
            "choose the run's dataset with --data."
        )


def split_of(
    run: Run, source: data.ImageDataset
) -> tuple[data.LabelledImages, data.LabelledImages] | None:
    """Return the run's training and validation set.

    Returns None if `source` has other images, or if an earlier version split the images
    differently.
    """
    samples, own_validation = source.load_training_images(run.spec.image_size)
    fingerprint = run.config.get("data", {}).get("fingerprint")
    if data.compute_fingerprint(samples, source.classes) != fingerprint:
        return None
    recipe = run.config["recipe"]
    train_idx, val_idx = split_labels(
        samples.labels,
        recipe["validation_share"],
        recipe["seed"],
        recipe.get("train_pictures", 0),
        own_validation=own_validation,
    )
    if run.config.get("split", {}).get("validation_pictures", len(val_idx)) != len(val_idx):
        return None
    return samples.subset(train_idx), samples.subset(val_idx)


def evaluate_run(
    run: Run,
    test: data.LabelledImages,
    validation: data.LabelledImages | None,
    device: torch.device,
) -> Evaluation:
    """Predict the `test` and the `validation` images with the run's saved weights (float16)."""
    model = load_model(run, device)

    def predict(samples: data.LabelledImages) -> np.ndarray:  # (N, C)
        return predict_logits(model, samples.images, run.preprocessing).softmax(1).numpy()

    predict_logits(model, test.images[:1000], run.preprocessing)  # warm-up, not timed
    started = time.perf_counter()
    predicted = predict(test)
    seconds = (time.perf_counter() - started) / len(test)
    val = (predict(validation), validation.labels.cpu().numpy()) if validation else ()
    fingerprint = data.compute_fingerprint(test, run.classes)
    return Evaluation(predicted, test.labels.numpy(), fingerprint, seconds, *val)
