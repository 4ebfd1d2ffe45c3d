"""What the head wall, an asked patch and the rollout's steps are, against plain loops."""

import math

import numpy as np
import pytest
import torch
from PIL import Image

from tests.making import KINDS, TIMM, make_run, timm_spec
from vitdemo.errors import RunError
from vitdemo.explorer import Explorer, heads

SPECS = {
    **KINDS,
    "pooled with registers": timm_spec(class_token=False, global_pool="avg", reg_tokens=2),
    "14 x 14": timm_spec(image_size=112),
}
NAMES = {  # of the tokens before the patches
    "class token": ["class token"],
    "distilled": ["class token", "distillation token"],
    "registers": ["class token", "register 1", "register 2", "register 3", "register 4"],
    "average pooled": [],
    "pooled with registers": ["register 1", "register 2"],
    "14 x 14": ["class token"],
}


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for seed, (name, spec) in enumerate(SPECS.items()):
        make_run(root / name, spec, seed=seed)
    return Explorer([root], None, torch.device("cpu"))


def picture(seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture(params=SPECS)
def look(request, explorer):
    return explorer.look(explorer.run(request.param), picture())


@pytest.fixture
def plain(explorer):
    return explorer.look(explorer.run("class token"), picture())


def matrices(look) -> np.ndarray:
    """Attention (L, H, N, N) in float64."""
    return look.attention.double().numpy()


def test_tokens_have_names_in_the_order_of_the_model(look):
    tokens = heads.prefix_tokens(look)
    assert [token.name for token in tokens] == NAMES[look.run.name]
    assert [token.index for token in tokens] == list(range(len(tokens)))
    p, P = len(tokens), math.prod(look.grid)
    assert look.attention.shape[-1] == p + P
    last = heads.patch(look, *look.grid)
    assert last.index == p + P - 1
    assert last.name == f"the patch in row {look.grid[0]}, column {look.grid[1]}"


def test_a_patch_attends_to_its_row_and_is_attended_by_its_column(look):
    rows, columns = look.grid
    p, i = look.num_prefix_tokens, look.num_prefix_tokens + 1 * columns + 2
    token = heads.token_of(look, "2,3")
    assert token.index == i
    matrix = matrices(look)[1, 2]  # layer 2, head 3
    row = heads.ask(look, token, layer=2, head=3)
    column = heads.ask(look, token, layer=2, head=3, incoming=True)
    for r, c in np.ndindex(rows, columns):
        assert row.patches[r, c] == pytest.approx(matrix[i, p + r * columns + c], abs=1e-6)
        assert column.patches[r, c] == pytest.approx(matrix[p + r * columns + c, i], abs=1e-6)
    assert row.prefix == pytest.approx(matrix[i, :p], abs=1e-6)
    assert column.prefix == pytest.approx(matrix[:p, i], abs=1e-6)
    assert row.patches.sum() + row.prefix.sum() == pytest.approx(1, abs=1e-5)


def test_all_patches_together_are_their_mean(look):
    p, columns = look.num_prefix_tokens, look.grid[1]
    matrix, token = matrices(look)[0, 0], heads.all_patches(look)
    row, column = heads.ask(look, token), heads.ask(look, token, incoming=True)
    for r, c in np.ndindex(*look.grid):
        there = p + r * columns + c
        assert row.patches[r, c] == pytest.approx(matrix[p:, there].mean(), abs=1e-6)
        assert column.patches[r, c] == pytest.approx(matrix[there, p:].mean(), abs=1e-6)


def test_the_mean_of_heads_and_the_rollout_up_to_a_layer(look):
    token, p = heads.patch(look, 1, 2), look.num_prefix_tokens
    mean = heads.ask(look, token, source="mean", layer=2)
    expected = matrices(look)[1].mean(0)[p + 1, p:].reshape(look.grid)
    assert mean.patches == pytest.approx(expected, abs=1e-6)
    rolled = np.eye(look.attention.shape[-1])
    for layer in matrices(look):
        joined = (layer.mean(0) + np.eye(len(rolled))) / 2
        rolled = joined @ rolled
    asked = heads.ask(look, token, source="rollout", layer=2)
    assert asked.patches == pytest.approx(rolled[p + 1, p:].reshape(look.grid), abs=1e-6)
    assert asked.prefix == pytest.approx(rolled[p + 1, :p], abs=1e-6)


def test_without_a_choice_the_answers_own_token_is_asked(look):
    token = heads.token_of(look, "")
    pooled = look.run.name in ("average pooled", "pooled with registers")
    several = "both tokens together" if look.run.name == "distilled" else "class token"
    assert token.name == ("all patches together" if pooled else several)
    for layer in (1, 2):
        wanted = look.head_maps(layer)  # (H, rows, columns)
        assert heads.wall(look, token)[layer - 1] == pytest.approx(wanted, abs=1e-6)


def test_the_wall_holds_what_each_head_answers(look):
    for code, incoming in (("1,4", False), ("4,1", True), ("t0", False), ("mean", True)):
        token = heads.token_of(look, code)
        wall = heads.wall(look, token, incoming=incoming)
        for layer, head in np.ndindex(wall.shape[:2]):
            asked = heads.ask(look, token, layer=layer + 1, head=head + 1, incoming=incoming)
            assert np.array_equal(wall[layer, head], asked.patches)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("t0", "t0"),
        ("mean", "mean"),
        ("4,4", "4,4"),
        ("12,9", "4,4"),  # of a model with more patches
        ("0,2", "1,2"),
        ("t4", "t0"),  # a register, where there is none
        ("", "t0"),
        (None, "t0"),
        ("<b>", "t0"),
        ("9" * 5000 + ",1", "t0"),
        ("1,2,3", "t0"),
    ],
)
def test_a_code_means_the_nearest_token_there_is(plain, code, wanted):
    assert heads.token_of(plain, code).code == wanted


def test_sliders_between_two_models_mean_the_nearest_patch(plain):
    assert heads.patch(plain, 14, 2.4).place == (4, 2)
    assert heads.patch(plain, None, -1).place == (1, 1)


def test_the_wall_is_ordered_within_layers_or_across_them():
    values = np.array([[3.0, 1.0, 2.0], [0.5, 9.0, 1.0]])
    inside = heads.wall_order(values, (2, 3), across=False).tolist()
    assert inside == [[[1, 2], [1, 3], [1, 1]], [[2, 1], [2, 3], [2, 2]]]
    across = heads.wall_order(values, (2, 3), across=True).tolist()
    assert across == [[[2, 1], [1, 2], [2, 3]], [[1, 3], [1, 1], [2, 2]]]
    for choice in (False, True):
        own = heads.wall_order(None, (2, 3), across=choice).tolist()
        assert own == [[[1, 1], [1, 2], [1, 3]], [[2, 1], [2, 2], [2, 3]]]


def test_every_head_has_its_numbers(look):
    rows = heads.numbers(look)
    L, H = look.attention.shape[:2]
    assert [row[:2] for row in rows] == [(i + 1, j + 1) for i, j in np.ndindex(L, H)]
    p = look.num_prefix_tokens
    for layer, head, distance, entropy in rows:
        matrix = matrices(look)[layer - 1, head - 1]
        assert entropy == pytest.approx(-(matrix * np.log2(matrix)).sum(1).mean(), rel=1e-4)
        assert 0 < distance < math.hypot(*look.grid)
        assert distance == pytest.approx(plain_distance(matrix[p:, p:], look.grid), rel=1e-4)


def plain_distance(patches, grid) -> float:
    places = np.array(list(np.ndindex(*grid)))  # (P, 2)
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)  # (P, P)
    return ((patches * apart).sum(1) / patches.sum(1)).mean()


def test_the_steps_end_in_the_rollout_and_their_rows_sum_to_one(look):
    token = heads.answering(look)
    for settings in ({}, {"fusion": "max", "discard_ratio": 0.5, "residual": False}):
        steps = heads.steps(look, token, **settings)
        assert steps.layers == range(1, 3)
        assert steps.maps.shape == (2, *look.grid)
        assert steps.deviations.max() < 1e-5
    plain = heads.steps(look, token)
    for layer in (1, 2):
        wanted = look.rollout_map(layer, fusion="mean", discard_ratio=0.0)
        assert plain.maps[layer - 1] == pytest.approx(wanted, abs=1e-6)


def test_a_later_first_layer_leaves_out_the_earlier_ones(plain):
    steps = heads.steps(plain, heads.answering(plain), first_layer=2, residual=False)
    assert steps.layers == range(2, 3)
    wanted = matrices(plain)[1].mean(0)[0, 1:].reshape(plain.grid)
    assert steps.maps[0] == pytest.approx(wanted, abs=1e-6)


def test_deviations_are_those_of_the_matrix(plain, monkeypatch):
    off = torch.full((2, 1, 17, 17), 1 / 17)
    off[1, 0, 3, 3] += 0.25
    monkeypatch.setattr(heads, "rollout_steps", lambda *args, **options: off)
    deviations = heads.steps(plain, heads.answering(plain)).deviations
    assert deviations == pytest.approx([0, 0.25], abs=1e-6)


def test_an_unknown_source_is_named(plain):
    with pytest.raises(ValueError, match=r"'median'.*head, mean, rollout"):
        heads.ask(plain, heads.answering(plain), source="median")


def test_a_second_picture_has_its_own_maps(explorer):
    run = explorer.run("class token")
    first, second = explorer.look(run, picture(1)), explorer.look(run, picture(2))
    token = heads.answering(first)
    assert not np.allclose(heads.wall(first, token), heads.wall(second, token))
    again = explorer.look(run, picture(1))
    assert np.array_equal(heads.wall(first, token), heads.wall(again, token))


def test_a_model_that_cannot_be_explained_is_told_in_a_sentence(tmp_path):
    make_run(tmp_path / "strange", TIMM)
    explorer = Explorer([tmp_path], None, torch.device("cpu"))
    run = explorer.run("strange")
    explorer.model(run).blocks[0].extra = torch.nn.Identity()
    with pytest.raises(RunError, match=r"^'strange': Cannot explain .*'extra'.*\.$"):
        explorer.look(run, picture())
