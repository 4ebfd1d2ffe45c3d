"""A sample of the test set: the same at every call, and each class in proportion."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.making import make_run
from vitdemo.explorer.sample import stratified, test_sample
from vitdemo.workbench import Workbench


@pytest.mark.parametrize("count", [1, 7, 10, 55, 99, 100, 1000])
def test_a_sample_holds_each_class_in_proportion(count):
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    chosen = stratified(labels, count)
    assert len(chosen) == len(set(chosen)) == min(count, 100)
    assert (np.diff(chosen) > 0).all()
    counts = np.bincount(labels[chosen], minlength=3)
    assert np.abs(counts - len(chosen) * np.array([0.5, 0.3, 0.2])).max() <= 1


def test_a_sample_takes_classes_of_any_size():
    assert set(stratified(np.array([0, 0, 0, 0, 1]), 5)) == set(range(5))
    assert stratified(np.array([3]), 1).tolist() == [0]


def test_a_sample_of_cifar10_is_a_tenth_of_each_class(cifar10, tmp_path):
    run = make_run(tmp_path / "vit")
    workbench = Workbench([tmp_path], cifar10.root, torch.device("cpu"))
    sample = test_sample(workbench, run, 1000)
    assert sample.pictures.images.shape == (1000, 3, 32, 32)
    assert torch.bincount(sample.pictures.labels).tolist() == [100] * 10
    large = replace(run, preprocessing=replace(run.preprocessing, size=224))
    assert test_sample(workbench, large, 1000) is sample  # the same pixels, kept once
    test = cifar10.load("test")
    chosen = stratified(test.labels.numpy(), 1000)
    assert torch.equal(sample.pictures.images, test.images[chosen])
