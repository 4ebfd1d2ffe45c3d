"""The benchmark of activation patching: pairs, hand-over, and its table."""

import re

import numpy as np
import pytest
import torch

from benchmarks.patching import find_hand_over, find_largest, iter_pairs, print_patching_table
from tests.support.factories import make_context, make_run, write_noise_images
from vitdemo import runs
from vitdemo.analyses.activation_patching import PatchingResult
from vitdemo.errors import DataError


def make_result(special: list[float], patches: list[float]) -> PatchingResult:
    curves = {"class token": np.array(special), "patches": np.array(patches)}
    maps = np.arange(4.0 * len(special)).reshape(-1, 2, 2)
    return PatchingResult(1, maps, curves, np.zeros((len(special), 2)))


def test_hand_over_is_the_layer_from_which_the_special_tokens_have_the_larger_share():
    assert find_hand_over(make_result([0, 0.2, 0.6, 1], [1, 0.9, 0.5, 0])) == 2
    assert find_hand_over(make_result([0, 0.95, 0.2, 1], [1, 0.9, 0.5, 0])) == 3  # not at layer 1
    result = make_result([0, 1], [1, 0])
    del result.curves["class token"]
    assert find_hand_over(result) is None
    assert find_largest(result).tolist() == [3, 7]


def test_table_has_one_row_per_layer(tmp_path, capsys):
    run = make_run(tmp_path / "runs" / "vit")
    counts = {f"{part}/{name}": 3 for part in ("train", "test") for name in run.classes}
    data = write_noise_images(tmp_path / "data", counts)
    context = make_context(tmp_path / "runs", data_root=data)
    with pytest.raises(DataError, match="'vit' predicts the same class"):
        list(iter_pairs(context, run, 3))
    # Centre the logits, so that the random weights predict several classes.
    images = [context.load_test_image(n).image for n in range(30)]
    logits = torch.stack([context.trace_image(run, image).logits for image in images])
    weights = context.load_model(run).state_dict()
    weights["head.bias"] -= logits.mean(0)
    runs.write_weights(run.path, weights)
    run = runs.read_run(run.path)
    pairs = list(iter_pairs(context, run, 3))
    assert len(pairs) == 3
    assert all(first != second for first, second in (pair.predicted for pair in pairs))
    print_patching_table(context, run, 3)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    head, _, *rows = lines
    assert head.count("|") == 6 and "1 x 1 patches, largest" in head
    assert [row.split("|")[1].strip() for row in rows] == ["0", "1", "2", "3"]
    assert re.fullmatch(r"\| 0 \| -?0\.00 \(.*\) \| 1\.00 \(.*\) \|.*", rows[0])
    assert re.fullmatch(r"\| 3 \| 1\.00 \(.*\) \| -?0\.00 \(.*\) \|.*", rows[3])
