"""Evaluation of a run on its test set and its validation set, with the saved weights."""

import time

import numpy as np
import torch

from vitdemo import data, runs
from vitdemo.errors import RunError
from vitdemo.training import predict
from vitdemo.training.pictures import split_labels


def check_classes(run: runs.Run, source: data.Source) -> None:
    """Raise `RunError` if the run was trained on other classes than the ones of `source`."""
    if source.classes != run.classes:
        raise RunError(
            f"'{run.path}' was trained on other classes ({', '.join(run.classes[:4])}, ...): "
            "choose its dataset with --data."
        )


def split_of(run: runs.Run, source: data.Source) -> tuple[data.Pictures, data.Pictures] | None:
    """Return the run's training and validation set.

    None if `source` has other images, or if an earlier version split them in another way.
    """
    pictures = source.load("train", run.spec.image_size)
    begun = run.config.get("data", {}).get("fingerprint")
    if data.fingerprint(pictures, source.classes) != begun:
        return None
    recipe = run.config["recipe"]
    kept, held = split_labels(
        pictures.labels,
        recipe["validation_share"],
        recipe["seed"],
        recipe.get("train_pictures", 0),
    )
    if run.config.get("split", {}).get("validation_pictures", len(held)) != len(held):
        return None
    return pictures.subset(kept), pictures.subset(held)


def evaluation_of(
    run: runs.Run, test: data.Pictures, validation: data.Pictures | None, device: torch.device
) -> runs.Evaluation:
    """Predict the `test` and the `validation` images with the run's saved weights (float16)."""
    model = runs.load_model(run, device)

    def probabilities(pictures: data.Pictures) -> np.ndarray:  # (N, C)
        return predict(model, pictures.images, run.preprocessing).softmax(1).numpy()

    predict(model, test.images[:1000], run.preprocessing)  # the first forward pass is slower
    started = time.perf_counter()
    predicted = probabilities(test)
    seconds = (time.perf_counter() - started) / len(test)
    held = (probabilities(validation), validation.labels.cpu().numpy()) if validation else ()
    fingerprint = data.fingerprint(test, run.classes)
    return runs.Evaluation(predicted, test.labels.numpy(), fingerprint, seconds, *held)
