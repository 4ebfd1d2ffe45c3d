"""`metrics.recipe_ablation`: what recipes have otherwise, and what it bought, counted by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.making import RESNET, VIT, evaluation, make_run
from tests.test_metrics_learning import with_recipe
from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.metrics import recipe_ablation
from vitdemo.metrics.learning import DEFAULTS
from vitdemo.metrics.paired import McNemar
from vitdemo.metrics.recipe_ablation import (
    Ablation,
    Gain,
    ablations,
    conclusion,
    differences,
    gain_rows,
    is_at_chance,
    settings,
)
from vitdemo.page.compare.ablation import ablation, bases, drawn, gain_table
from vitdemo.recipes import RECIPES
from vitdemo.workbench import Workbench

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "base")


@pytest.fixture
def base(tmp_path):
    """A finished run; 5 of the 20 cats among its 200 test pictures are wrong."""
    return make_run(tmp_path / "base")


def add(base, name: str, cats: int, dogs: int = 0, validation: int = 0, **changes) -> None:
    """A run with another recipe that names `cats` of the five cats rightly, `dogs` wrongly, and
    of 10 validation pictures as many more than the base as `validation` says."""
    run = make_run(base.path.parent / name, recipe=changes)
    shares = evaluation(0).probabilities.copy()
    shares[60 : 60 + cats] = np.eye(10, dtype=np.float32)[3]
    shares[100 : 100 + dogs] = np.eye(10, dtype=np.float32)[3]
    found = replace(run.evaluation, probabilities=shares)
    if validation:
        runs.write_evaluation(base.path, validated(base.evaluation, 5))
        found = validated(found, 5 + validation)
    runs.write_evaluation(run.path, found)


def validated(tested: runs.Evaluation, right: int) -> runs.Evaluation:
    """`tested`, and 10 validation pictures of which it names so many rightly."""
    shares = np.eye(10, dtype=np.float32)[(np.arange(10) >= right).astype(int)]
    labels = np.zeros(10, np.int64)
    return replace(tested, validation_probabilities=shares, validation_labels=labels)


def beside(base, name: str = "base"):
    return ablation(Workbench([base.path.parent], None, CPU), name)


ADAMW = "AdamW, learning rate 0.001"
IDLE = {  # without SGD, MixUp, a teacher, dropped patches or a head's epochs
    "momentum": 0.5,
    "head_learning_rate": 1.0,
    "unmixed_epochs": 5,
    "whole_epochs": 5,
    "teacher_share": 0.1,
}
MIXED = {"mixup": 0.2, "unmixed_epochs": 5}
MUON = {"optimizer": "muon", "learning_rate": 2e-3}
CYCLE = {"schedule": "one-cycle"}


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        (
            {},
            {"policy": "trivial", "learning_rate": 3e-4, "flip": False},
            [
                "learning rate: 0.001 → 0.0003",
                "horizontal flip: yes → no",
                "augmentation: none → TrivialAugment",
            ],
        ),
        ({}, {}, []),
        ({}, {"name": "other", "summary": "!", "note": "!", "keep": "1,2"}, []),
        ({}, IDLE, []),
        # What a setting brings with it is no second difference.
        ({}, MIXED, ["MixUp: none → 0.2"]),
        (MIXED, MIXED | {"unmixed_epochs": 9}, ["last epochs without MixUp and CutMix: 5 → 9"]),
        (
            {},
            {"optimizer": "sgd", "momentum": 0.5},
            [f"optimizer: {ADAMW} → SGD, learning rate 0.001"],
        ),
        ({}, MUON, [f"optimizer: {ADAMW} → Muon, learning rate 0.002"]),
        (MUON, MUON | {"learning_rate": 3e-3}, ["learning rate: 0.002 → 0.003"]),
        (CYCLE, CYCLE | {"warmup_epochs": 5}, []),
        ({}, {"warmup_epochs": 5}, ["warm-up epochs: 0 → 5"]),
        ({}, {"betas": [0.9, 0.95]}, ["betas: 0.9 and 0.999 → 0.9 and 0.95"]),
        ({}, {"teacher": "assets/runs/conv"}, ["teacher: none → conv"]),
        ({}, {"train_pictures": 20_000}, ["training images: all → 20000"]),
    ],
)
def test_a_difference_says_both_values(untouched, first, second, wanted):
    assert differences(*(with_recipe(untouched, **each) for each in (first, second))) == wanted


def test_a_field_that_an_old_run_does_not_know_has_its_default(untouched):
    recipe = {k: v for k, v in untouched.config["recipe"].items() if k != "cutout"}
    old = replace(untouched, config=untouched.config | {"recipe": recipe})
    assert differences(old, untouched) == []
    assert differences(old, with_recipe(untouched, cutout=8)) == ["Cutout: none → 8"]


def test_sizes_are_compared_within_one_kind_of_model(untouched):
    options = VIT.options | {"depth": 4, "drop_rate": 0.1}
    deeper = replace(untouched, spec=replace(VIT, options=options))
    assert differences(untouched, deeper) == ["depth: 3 → 4", "dropout: 0 → 0.1"]
    assert differences(untouched, replace(untouched, spec=RESNET)) == ["model: vit → resnet18"]


# Whose own names are the field's words.
PLAIN = "epochs batch_size optimizer learning_rate weight_decay momentum betas alternating_flip"
PLAIN += " label_smoothing patch_dropout teacher shuffled_labels seed patch_size depth"


def test_every_setting_of_a_recipe_has_a_plain_name():
    options = {name for recipe in RECIPES.values() for name in recipe.model.options}
    wanted = {*options, *DEFAULTS} - {*recipe_ablation._SILENT, *PLAIN.split()}
    assert wanted <= {*recipe_ablation._TITLES}


def test_what_a_model_leaves_out_is_said_by_name(untouched):
    bare = replace(untouched, spec=replace(VIT, options=VIT.options | {"pos_embed": "none"}))
    assert differences(untouched, bare) == ["position embedding: learned → none"]


def test_where_the_weights_came_from_is_said(untouched):
    def of(**config):
        return settings(replace(untouched, config=untouched.config | config))["start"]

    early = {"run": "vit-masked", "epochs": 8}
    assert of() == "random weights"
    assert of(started_from=early) == "weights of vit-masked after 8 epochs"
    assert of(started_from=early) != of(started_from=early | {"epochs": 16})
    assert of(command="python train.py vit --weights a.safetensors") == "weights from a file"
    again = early | {"run": "vit-seed-3-masked"}  # the start of this seed is no other ingredient
    recipe = untouched.config["recipe"] | {"seed": 3}
    assert of(started_from=again, recipe=recipe) == of(started_from=early)
    assert of(started_from=again) == "weights of vit-seed-3-masked after 8 epochs"
    assert settings(with_recipe(untouched, pretrained=True))["start"] == "pretrained weights"


def test_a_gain_is_counted_picture_by_picture(base):
    odd = make_run(base.path.parent / "odd")
    runs.write_evaluation(odd.path, replace(odd.evaluation, fingerprint="1" * 16))
    assert "odd is not compared with base" in gain_table(beside(base))[-1].text
    add(base, "better", cats=4, dogs=1, policy="trivial")
    found = beside(base)
    (gain,) = found.gains
    assert gain.run == "better" and gain.differences == ("augmentation: none → TrivialAugment",)
    assert (gain.test.first_accuracy, gain.test.difference) == (198 / 200, 3 / 200)
    assert gain.test.interval[0] < 3 / 200 < gain.test.interval[1]
    assert gain.p == pytest.approx(2 * (1 + 5) / 2**5)  # at most one of five coins falls so
    table, left_out = gain_table(found)
    assert [cells[0] for cells in table.rows] == ["base", "better"]
    assert table.rows[1][1:3] == ["99.00", "+1.5"]
    assert table.file == "beside-base"
    assert left_out.text == found.left_out[0] and "odd is not compared with base" in left_out.text
    add(base, "as good", cats=4, dogs=1)
    assert [each.p for each in beside(base).gains] == pytest.approx([2 * gain.p] * 2)  # corrected
    (base.path / runs.EVALUATION).unlink()
    with pytest.raises(RunError):
        beside(base)


def test_ingredients_come_first_and_the_best_of_them_on_the_validation_pictures(base):
    add(base, "tested well", cats=5, validation=1, policy="trivial")
    add(base, "validated well", cats=1, validation=3, policy="rand")
    add(base, "not validated", cats=2, cutout=8)
    add(base, "and better", cats=4, cutout=4)
    add(base, "far", cats=5, validation=5, epochs=100, policy="trivial", flip=False)
    found = beside(base)
    order = ["validated well", "tested well", "and better", "not validated", "far"]
    assert [gain.run for gain in found.gains] == order
    assert found.gains[0].validation == pytest.approx(0.3)
    column = [cells[5] for cells in gain_rows(found)[1][1:]]
    assert column == ["+30.0", "+10.0", "–", "–", "+50.0"]
    table, others = gain_table(found)
    assert [cells[0] for cells in table.rows] == ["base", *order[:-1]]
    assert [cells[0] for cells in others.pieces[0].rows] == ["far"]
    assert "for the 5 comparisons shown here" in str(table)


def test_an_ablation_ends_in_a_conclusion():
    def gain(run, gained, p):  # in pictures of 1,000
        test = McNemar(500, max(gained, 0), max(-gained, 0), 1000, p)
        return Gain(run, (f"{run}: none → 1",), test, p, None)

    far = Gain("far", ("x", "y", "z"), McNemar(0, 500, 0, 1000, 0.0), 0, None)
    gains = (gain("a", 100, 0.001), gain("b", 10, 0.3), gain("c", -10, 0.01),
             gain("d", -54, 0.001), far)  # fmt: skip
    assert conclusion(Ablation("base", 0.5, gains, ())) == [
        "More accurate than base: a: none → 1 (+10.0 points).",
        "Less accurate than base: d: none → 1 (−5.4 points); c: none → 1 (−1.0 points).",
        "Not significant on these test images: b: none → 1 (+1.0 points).",
        "base was trained with only one seed. These verdicts cover the variation between test "
        "images, but not between training seeds.",
    ]
    assert conclusion(Ablation("base", 0.5, (), ())) == []


def test_other_seeds_of_a_recipe_stand_beside_what_its_ingredients_gain(base):
    add(base, "trivial", cats=4, policy="trivial")
    add(base, "again", cats=1, seed=1)
    add(base, "trivial again", cats=3, policy="trivial", seed=1)
    add(base, "alone", cats=5, policy="rand", seed=2)  # no base with its seed
    found = beside(base)
    assert [gain.run for gain in found.near] == ["alone", "trivial"]
    assert [gain.run for gain in found.repeats] == ["again"]
    alone, trivial = found.near
    assert found.again(trivial) == pytest.approx([2 / 200])  # 3 cats less 1
    assert found.again(alone) == []
    assert conclusion(found) == [
        "Not significant on these test images: augmentation: none → RandAugment and seed: 0 → 2 "
        "(+2.5 points); augmentation: none → TrivialAugment (+2.0 points; with another seed +1.0; "
        "mean +1.5, 95% interval over seeds −4.9 to +7.9).",
        "With another seed, the baseline's recipe reaches 98.00%, compared with 97.50%. The "
        "standard deviation over 2 seeds is 0.35 percentage points. A gain measured with one seed "
        "must therefore exceed 6.4 points (95%, Student's t with 1 degree of freedom). For gains "
        "measured with several seeds, the 95% interval of the mean must exclude 0.",
    ]


def seed_ablation(gains: dict[str, list[int]], seeds: list[int]) -> Ablation:
    """An ablation of images of 1,000: what each ingredient and the base gain by seed, 0 first."""

    def gain(more: int, *words: str) -> Gain:
        test = McNemar(500, max(more, 0), max(-more, 0), 1000, 0.0)
        return Gain("-".join(words), words, test, 0.0, None)

    repeats = [gain(more, f"seed: 0 → {i}") for i, more in enumerate(seeds, 1)]
    found = [
        gain(more, name, *([f"seed: 0 → {i}"] if i else []))
        for name, each in gains.items()
        for i, more in enumerate(each)
    ]
    return Ablation("base", 0.5, (*found, *repeats), ())


def test_a_gain_counts_only_beyond_the_variation_between_seeds():
    # The base's seeds reach 50.0, 49.6 and 49.3%: a deviation of 0.35, a threshold of 2.14 points.
    found = seed_ablation({"small": [14], "large": [-30], "kept": [22, 15, 18]}, [-4, -7])
    assert found.seed_threshold == pytest.approx(4.3027 * 2**0.5 * 0.003512, rel=1e-3)
    verdicts = {gain.run: found.exceeds_seeds(gain) for gain in found.near}
    # Paired with the base of its seed, "kept" gains 2.2, 1.9 and 2.5 points.
    assert found.seed_gains(found.near[-1]) == pytest.approx([0.022, 0.019, 0.025])
    assert verdicts == {"small": False, "large": True, "kept": True}
    better, worse, by_seed, seeds = conclusion(found)
    assert better == (
        "More accurate than base: kept (+2.2 points; with other seeds +1.9 and +2.5; mean +2.2, "
        "95% interval over seeds +1.5 to +2.9)."
    )
    assert worse == "Less accurate than base: large (−3.0 points)."
    assert by_seed == (
        "Significant on these test images, but within the variation between seeds: small "
        "(+1.4 points)."
    )
    assert "exceed 2.1 points" in seeds


def test_a_gain_that_seeds_do_not_repeat_is_none():
    found = seed_ablation({"a": [30, -4, -7]}, [-4, -7])  # +3.0, 0.0 and 0.0 with their own base
    assert found.exceeds_seeds(found.near[0]) is False  # though 3.0 is above the threshold of one
    assert conclusion(found)[0].startswith("Significant on these test images, but within")
    alone = seed_ablation({"a": [30]}, [])
    assert alone.seed_threshold is None and alone.exceeds_seeds(alone.near[0]) is None


def test_of_repeats_that_with_the_most_ingredients_is_the_base(base):
    for name, change in {"a": {"epochs": 9}, "b": {"flip": False}, "c": {"cutout": 8}}.items():
        add(base, name, cats=1, **change)
    add(base, "again", cats=1, seed=1)  # earlier by name, and near a, b and c but for the seed
    add(base, "a again", cats=1, seed=1, epochs=9)
    found = ablations(Workbench([base.path.parent], None, CPU).runs()[0])
    assert found == {"base": ["base", "a", "a again", "again", "b", "c"]}


def test_what_differs_in_one_ingredient_is_drawn(base):
    add(base, "far", cats=4, policy="rand", cutout=8)
    add(base, "other seed", cats=4, seed=1)
    assert drawn(beside(base)) == []
    add(base, "near", cats=4, policy="<rand>")
    (plots,) = drawn(beside(base))
    svg = plots.figures[0].svg
    assert "augmentation: none → &lt;rand&gt;" in svg and "Cutout" not in svg


def test_an_ablation_is_a_run_and_what_differs_a_little(base):
    def found():
        return ablations(Workbench([base.path.parent], None, CPU).runs()[0])

    add(base, "a", cats=1, policy="trivial")
    add(base, "b", cats=1, epochs=100)
    add(base, "longer still", cats=1, epochs=200)
    assert found() == {}  # two are no ablation
    add(base, "c", cats=1, ema_decay=0.9)
    add(base, "two", cats=1, mixup=0.2, cutmix=1.0)
    add(base, "three", cats=1, mixup=0.2, cutmix=1.0, flip=False)
    add(base, "others", cats=1, cutout=8, flip=False)
    group = ["a", "b", "c", "longer still", "two"]
    assert found() == {"base": ["base", *group]}
    add(base, "twin", cats=1)
    assert found() == {"base": ["base", *group], "twin": ["twin", *group]}
    for name in ("b", "c", "longer still"):
        far = runs.read_run(base.path.parent / name)
        runs.write_config(far.path, far.config | {"data": {"name": "synthetic"}})
    assert found() == {}  # other pictures


@pytest.mark.parametrize(("count", "least"), [(2, 0.56), (3, 0.41), (10, 0.2)])
def test_nothing_learnt_is_hardly_better_than_a_guess_however_many_classes(tmp_path, count, least):
    labels = np.arange(600) % count
    for right, learnt in ((least - 0.01, False), (least + 0.01, True)):
        answers = np.where(np.arange(600) < round(600 * right), labels, (labels + 1) % count)
        shares = np.eye(count, dtype=np.float32)[answers]
        tested = runs.Evaluation(shares, labels, "0" * 16, 0.001)
        classes = tuple("abcdefghij"[:count])
        run = make_run(tmp_path / f"{count} {learnt}", classes=classes, tested=tested)
        assert is_at_chance(run) != learnt


def test_the_ablation_with_the_most_ingredients_comes_first_whatever_the_seeds(base):
    for seed, again in ((0, ""), (1, " again")):
        add(base, f"another{again}", cats=1, epochs=100, seed=seed)
        add(base, f"another a{again}", cats=1, epochs=100, cutout=8, seed=seed)
        add(base, f"another b{again}", cats=1, epochs=100, policy="trivial", seed=seed)
    add(base, "c", cats=1, policy="trivial")
    add(base, "d", cats=1, flip=False)
    add(base, "e", cats=1, ema_decay=0.9)
    workbench = Workbench([base.path.parent], None, CPU)
    found = ablations(workbench.runs()[0])
    several = ["another", "another a", "another a again", "another again", "another b"]
    assert found == {
        "base": ["base", "another", "another again", "c", "d", "e"],
        "another": [*several, "another b again", "base"],
    }
    assert next(iter(found)) == bases(workbench)[0].name == "base"


def test_seeds_make_no_ablation(base):
    for seed in (1, 2, 3):
        add(base, f"seed-{seed}", cats=1, seed=seed)
        add(base, f"trivial-{seed}", cats=1, seed=seed, policy="trivial")
    assert ablations(Workbench([base.path.parent], None, CPU).runs()[0]) == {}


def test_the_base_of_an_ablation_is_offered_first_and_then_the_plainest_run(base):
    add(base, "worse", cats=0, dogs=3, epochs=1, policy="rand", flip=False)
    add(base, "better", cats=4)
    (make_run(base.path.parent / "untested").path / runs.EVALUATION).unlink()
    workbench = Workbench([base.path.parent], None, CPU)
    assert [run.name for run in bases(workbench)] == ["worse", "base", "better"]
    for name, change in (("a", {"epochs": 9}), ("b", {"flip": False}), ("c", {"cutout": 8})):
        add(base, name, cats=3, **change)
    assert [run.name for run in bases(workbench)][:3] == ["base", "better", "worse"]
