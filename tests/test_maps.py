"""The small palette pictures of maps: the same colours as the large ones, each map in its place."""

import numpy as np
import pytest

from vitdemo import figures
from vitdemo.figures.maps import map_picture, wall_picture


def values(*shape) -> np.ndarray:
    return np.random.default_rng(0).random(shape)


def pixels(picture) -> np.ndarray:
    return np.asarray(picture.convert("RGB"))


@pytest.mark.parametrize("vmax", [None, 0.5, 2.0])
def test_a_map_has_the_colours_of_the_large_one(vmax):
    one = values(5, 7)
    large = figures.colour_map(one, 35, vmax=vmax)
    assert np.array_equal(pixels(map_picture(one, vmax=vmax)), large[3::7, 2::5])


def test_each_map_of_the_wall_stands_in_its_place():
    maps = values(2, 3, 4, 5)
    wall = pixels(wall_picture(maps))
    assert wall.shape == (8, 15, 3)
    for r, c in np.ndindex(2, 3):
        own = wall[4 * r : 4 * r + 4, 5 * c : 5 * c + 5]
        assert np.array_equal(own, pixels(map_picture(maps[r, c])))


def test_on_one_scale_the_weaker_map_is_darker():
    maps = np.stack([values(4, 4), values(4, 4) / 4])[None]  # (1, 2, 4, 4)
    brightness = pixels(wall_picture(maps, vmax=maps.max())).sum(-1)
    assert brightness[:, 4:].max() < brightness[:, :4].max() / 2


def test_a_map_of_zeros_stays_black_beside_another():
    maps = np.stack([np.zeros((2, 2)), np.ones((2, 2))])[None]
    wall = pixels(wall_picture(maps))
    assert (wall[:, :2] == wall[0, 0]).all() and wall[0, 0].sum() < 10
    assert wall[:, 2:].sum(-1).min() > 400


def test_it_is_small():
    assert wall_picture(values(12, 12, 14, 14)).mode == "P"
