"""Class counts, colours and mean images of the dataset."""

import numpy as np
import torch

from tests.support.factories import make_context, noise_batch
from vitdemo import data
from vitdemo.analyses import class_statistics as statistics
from vitdemo.data import CIFAR10_MEAN, CIFAR10_STD, LabelledImages

UNEQUAL_COUNTS = {"train/<b>ant": 5, "train/bee": 2, "train/cow": 9}
UNEQUAL_COUNTS |= {"test/<b>ant": 3, "test/cow": 4}


def test_all_classes_and_pixels_are_counted(put_pictures, monkeypatch):
    folder = put_pictures(UNEQUAL_COUNTS)
    unequal = make_context(data_root=folder)
    counts = statistics.count_classes(unequal)
    assert statistics.count_classes(unequal) is counts  # the counts are cached
    assert counts.classes == ("<b>ant", "bee", "cow")
    assert counts.train.tolist() == [5, 2, 9]
    assert counts.test.tolist() == [3, 0, 4]
    assert counts.notes == ("test/ has no folder for these classes: bee.",)
    pixels = statistics.compute_colour_statistics(unequal)
    assert (pixels.images_read, pixels.images_total) == (16, 16)
    assert pixels.histograms.sum(1).tolist() == [16 * statistics.STATISTICS_SIDE**2] * 3
    assert pixels.mean_images.shape == (3, *2 * [statistics.STATISTICS_SIDE], 3)
    monkeypatch.setattr(statistics, "MAX_IMAGES_READ", 6)
    pixels = statistics.compute_colour_statistics(make_context(data_root=folder))
    assert (pixels.images_read, pixels.images_total) == (6, 16)


def test_channel_histograms_equal_numpy():
    images = noise_batch(5, 32)
    expected = [np.histogram(images[:, c], bins=256, range=(0, 256))[0] for c in range(3)]
    assert np.array_equal(statistics.channel_histograms(images), expected)


def test_class_means_equal_a_loop_and_an_empty_class_is_grey():
    images, labels = noise_batch(6, 32), torch.tensor([0, 2, 0, 2, 2, 0])
    means = statistics.compute_mean_images(LabelledImages(images, labels), 3)
    for label in (0, 2):
        members = [images[i].double().numpy() for i in range(6) if labels[i] == label]
        expected = np.rint(sum(members) / len(members)).transpose(1, 2, 0)
        assert np.abs(means[label] - expected).max() <= 1
    assert (means[1] == 127).all()


def test_cifar10_has_its_published_counts_and_colours(cifar10):
    context = make_context(data_root=cifar10.root)
    assert statistics.count_classes(context).train.tolist() == [5000] * 10
    assert statistics.count_classes(context).test.tolist() == [1000] * 10
    pixels = statistics.compute_colour_statistics(context)
    assert (pixels.images_read, pixels.images_total) == (statistics.MAX_IMAGES_READ, 50_000)
    assert np.allclose(pixels.mean, CIFAR10_MEAN, atol=0.01)
    assert np.allclose(pixels.std, CIFAR10_STD, atol=0.01)


def test_load_subset_returns_the_same_images_as_load(put_pictures):
    source = data.open_dataset(put_pictures(UNEQUAL_COUNTS), download=False)
    subset, full = source.load_subset("test", torch.tensor([4, 0, 6])), source.load("test")
    assert torch.equal(subset.images, full.images[[4, 0, 6]])
    assert torch.equal(subset.labels, full.labels[[4, 0, 6]])
    assert torch.equal(source.load_labels("train"), source.load("train").labels)
