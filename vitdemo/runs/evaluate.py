"""Evaluating a run, with the weights as they ship: its test set, and its validation pictures."""

import time

import numpy as np
import torch

from vitdemo import data, runs
from vitdemo.errors import RunError
from vitdemo.training import predict


def check_classes(run: runs.Run, source: data.Source) -> None:
    """Raises `RunError` where the run was trained on other classes than those of `source`."""
    if source.classes != run.classes:
        raise RunError(
            f"'{run.path}' was trained on other classes ({', '.join(run.classes[:4])}, ...): pass "
            "--data the data set that it was trained on."
        )


def validation_of(run: runs.Run, source: data.Source) -> data.Pictures | None:
    """The pictures that the run held out; None where `source` has other training pictures."""
    pictures = source.load("train", run.spec.image_size)
    begun = run.config.get("data", {}).get("fingerprint")
    if data.fingerprint(pictures, source.classes) != begun:
        return None
    recipe = run.config["recipe"]
    _, held = data.stratified_split(pictures.labels, recipe["validation_share"], recipe["seed"])
    return pictures.subset(held)


def evaluation_of(
    run: runs.Run, test: data.Pictures, validation: data.Pictures | None, device: torch.device
) -> runs.Evaluation:
    """What the run's weights (float16) answer of the `test` and the `validation` pictures."""
    model = runs.load_model(run, device)

    def probabilities(pictures: data.Pictures) -> np.ndarray:  # (N, C)
        return predict(model, pictures.images, run.preprocessing).softmax(1).numpy()

    predict(model, test.images[:1000], run.preprocessing)  # the first pass is slower
    started = time.perf_counter()
    predicted = probabilities(test)
    seconds = (time.perf_counter() - started) / len(test)
    held = (probabilities(validation), validation.labels.cpu().numpy()) if validation else ()
    fingerprint = data.fingerprint(test, run.classes)
    return runs.Evaluation(predicted, test.labels.numpy(), fingerprint, seconds, *held)
