"""Differences between recipes and their effect on accuracy, compared with hand-worked counts."""

from dataclasses import replace

import numpy as np
import pytest

from tests.metrics.test_training_progress import with_recipe
from tests.support.factories import (
    RESNET,
    VIT,
    declare_ablation,
    make_context,
    make_evaluation,
    make_run,
    make_unfinished_run,
)
from vitdemo import runs
from vitdemo.documents import Plots
from vitdemo.errors import RunError
from vitdemo.metrics import recipe_ablation
from vitdemo.metrics.paired import McNemarResult
from vitdemo.metrics.recipe_ablation import (
    AblationGain,
    RecipeAblation,
    ablation_table,
    describe_settings,
    find_ablations,
    is_at_chance,
    list_differences,
    summarise_ablation,
)
from vitdemo.metrics.training_progress import RECIPE_DEFAULTS
from vitdemo.page.results.compare.recipe_ablation import compute_run_ablation, list_baselines
from vitdemo.report.ablation import ablation_blocks, gain_figure, gain_table_blocks
from vitdemo.training.recipes import RECIPES


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "base")


@pytest.fixture
def base(tmp_path):
    """Finished run that misclassifies 5 of the 20 cats among its 200 test images."""
    return declare_ablation(make_run(tmp_path / "base"), "")


def add_run(base, name: str, cats: int, dogs: int = 0, validation: int = 0, **changes) -> None:
    """Add a run with other recipe settings: `cats` of the 5 cats correct, `dogs` incorrect.

    Of 10 validation images, it classifies `validation` more correctly than the baseline.
    """
    run = make_run(base.path.parent / name, recipe=changes)
    declare_ablation(run, "; ".join(f"{k}: {v}" for k, v in changes.items() if k != "seed"))
    probabilities = make_evaluation(0).probabilities.copy()
    probabilities[60 : 60 + cats] = np.eye(10, dtype=np.float32)[3]
    probabilities[100 : 100 + dogs] = np.eye(10, dtype=np.float32)[3]
    evaluation = replace(run.evaluation, probabilities=probabilities)
    if validation:
        runs.write_evaluation(base.path, with_validation(base.evaluation, 5))
        evaluation = with_validation(evaluation, 5 + validation)
    runs.write_evaluation(run.path, evaluation)


def with_validation(evaluation: runs.Evaluation, correct: int) -> runs.Evaluation:
    """Return `evaluation` with 10 validation images, of which `correct` are correct."""
    probabilities = np.eye(10, dtype=np.float32)[(np.arange(10) >= correct).astype(int)]
    labels = np.zeros(10, np.int64)
    return replace(evaluation, validation_probabilities=probabilities, validation_labels=labels)


def compare_to_base(base):
    return compute_run_ablation(make_context(base.path.parent), "base")


ADAMW = "AdamW, learning rate 0.001"
UNUSED_SETTINGS = {  # no effect without SGD, MixUp, a teacher, PatchDropout or head epochs
    "momentum": 0.5,
    "head_learning_rate": 1.0,
    "unmixed_epochs": 5,
    "whole_epochs": 5,
    "teacher_share": 0.1,
}
MIXUP_RECIPE = {"mixup": 0.2, "unmixed_epochs": 5}
MUON_RECIPE = {"optimizer": "muon", "learning_rate": 2e-3}
ONE_CYCLE_RECIPE = {"schedule": "one-cycle"}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
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
        ({}, UNUSED_SETTINGS, []),
        # A setting that depends on another one is not a second difference.
        ({}, MIXUP_RECIPE, ["MixUp: none → 0.2"]),
        (
            MIXUP_RECIPE,
            MIXUP_RECIPE | {"unmixed_epochs": 9},
            ["last epochs without MixUp and CutMix: 5 → 9"],
        ),
        (
            {},
            {"optimizer": "sgd", "momentum": 0.5},
            [f"optimizer: {ADAMW} → SGD, learning rate 0.001"],
        ),
        ({}, MUON_RECIPE, [f"optimizer: {ADAMW} → Muon, learning rate 0.002"]),
        (MUON_RECIPE, MUON_RECIPE | {"learning_rate": 3e-3}, ["learning rate: 0.002 → 0.003"]),
        (ONE_CYCLE_RECIPE, ONE_CYCLE_RECIPE | {"warmup_epochs": 5}, []),
        ({}, {"warmup_epochs": 5}, ["warm-up epochs: 0 → 5"]),
        ({}, {"betas": [0.9, 0.95]}, ["betas: 0.9 and 0.999 → 0.9 and 0.95"]),
        ({}, {"teacher": "assets/runs/conv"}, ["teacher: none → conv"]),
        ({}, {"train_pictures": 20_000}, ["training images: all → 20000"]),
    ],
)
def test_differences_show_both_values(untouched, first, second, expected):
    old, new = (with_recipe(untouched, **recipe) for recipe in (first, second))
    assert list_differences(old, new) == expected


def test_model_sizes_are_compared_only_within_a_family(untouched):
    options = VIT.options | {"depth": 4, "drop_rate": 0.1}
    deeper = replace(untouched, spec=replace(VIT, options=options))
    assert list_differences(untouched, deeper) == ["depth: 3 → 4", "dropout: 0 → 0.1"]
    bare = replace(untouched, spec=replace(VIT, options=VIT.options | {"pos_embed": "none"}))
    assert list_differences(untouched, bare) == ["position embedding: learned → none"]
    assert list_differences(untouched, replace(untouched, spec=RESNET)) == ["model: vit → resnet18"]


# These settings need no title, because their names are standard terms.
UNTITLED = "epochs batch_size optimizer learning_rate weight_decay momentum betas alternating_flip"
UNTITLED += " label_smoothing patch_dropout teacher shuffled_labels seed patch_size depth"


def test_every_recipe_setting_has_a_plain_title():
    options = {name for recipe in RECIPES.values() for name in recipe.model.options}
    titled = {*options, *RECIPE_DEFAULTS} - {*recipe_ablation._IGNORED_FIELDS, *UNTITLED.split()}
    assert titled <= {*recipe_ablation._FIELD_TITLES}


def test_settings_describe_the_initial_weights(untouched):
    def start(**config):
        return describe_settings(replace(untouched, config=untouched.config | config))["start"]

    origin = {"run": "vit-masked", "epochs": 8}
    assert start() == "random weights"
    assert start(started_from=origin) == "weights of vit-masked after 8 epochs"
    assert start(started_from=origin) != start(started_from=origin | {"epochs": 16})
    assert start(command="python train.py vit --weights a.safetensors") == "weights from a file"
    other = origin | {"run": "vit-seed-3-masked"}
    recipe = untouched.config["recipe"] | {"seed": 3}  # so only the seed differs
    assert start(started_from=other, recipe=recipe) == start(started_from=origin)
    assert start(started_from=other) == "weights of vit-seed-3-masked after 8 epochs"
    assert (
        describe_settings(with_recipe(untouched, pretrained=True))["start"] == "pretrained weights"
    )


def test_gains_are_computed_from_paired_images(base):
    other_images = make_run(base.path.parent / "odd")
    runs.write_evaluation(other_images.path, replace(other_images.evaluation, fingerprint="1" * 16))
    assert "odd is not compared with base" in gain_table_blocks(compare_to_base(base))[-1].text
    add_run(base, "better", cats=4, dogs=1, policy="trivial")
    ablation = compare_to_base(base)
    (gain,) = ablation.gains
    assert gain.run == "better" and gain.differences == ("augmentation: none → TrivialAugment",)
    assert (gain.test.first_accuracy, gain.test.difference) == (198 / 200, 3 / 200)
    assert gain.test.interval[0] < 3 / 200 < gain.test.interval[1]
    assert gain.p == pytest.approx(2 * (1 + 5) / 2**5)  # two-sided binomial test of 4 and 1
    folded, exclusions = gain_table_blocks(ablation)
    (table,) = folded.pieces
    assert [cells[0] for cells in table.rows] == ["base", "better"]
    assert table.rows[1][1:3] == ["99.00", "+1.5"]
    assert table.file == "ablation-of-base"
    assert exclusions.text == ablation.exclusion_messages[0]
    assert "odd is not compared with base" in exclusions.text
    add_run(base, "as good", cats=4, dogs=1)
    corrected = [each.p for each in compare_to_base(base).gains]
    assert corrected == pytest.approx([2 * gain.p] * 2)
    (base.path / runs.EVALUATION_FILE).unlink()
    with pytest.raises(RunError):
        compare_to_base(base)


def test_single_changes_come_first_sorted_by_validation_gain(base):
    add_run(base, "tested well", cats=5, validation=1, policy="trivial")
    add_run(base, "validated well", cats=1, validation=3, policy="rand")
    add_run(base, "not validated", cats=2, cutout=8)
    add_run(base, "and better", cats=4, cutout=4)
    add_run(base, "far", cats=5, validation=5, epochs=100, policy="trivial", flip=False)
    ablation = compare_to_base(base)
    order = ["validated well", "tested well", "and better", "not validated", "far"]
    assert [gain.run for gain in ablation.gains] == order
    assert ablation.gains[0].validation_gain == pytest.approx(0.3)
    column = [cells[5] for cells in ablation_table(ablation)[1][1:]]
    assert column == ["+30.0", "+10.0", "–", "–", "+50.0"]
    folded, others = gain_table_blocks(ablation)
    (table,) = folded.pieces
    assert [cells[0] for cells in table.rows] == ["base", *order[:-1]]
    assert [cells[0] for cells in others.pieces[0].rows] == ["far"]


def test_conclusion_groups_gains_by_significance():
    def gain(run, gained, p):  # `gained` is a number of images out of 1,000
        test = McNemarResult(500, max(gained, 0), max(-gained, 0), 1000, p)
        return AblationGain(run, (f"{run}: none → 1",), test, p, None)

    far = AblationGain("far", ("x", "y", "z"), McNemarResult(0, 500, 0, 1000, 0.0), 0, None)
    gains = (gain("a", 100, 0.001), gain("b", 10, 0.3), gain("c", -10, 0.01),
             gain("d", -54, 0.001), far)  # fmt: skip
    assert summarise_ablation(RecipeAblation("base", 0.5, gains, ())) == [
        "More accurate than base: a: none → 1 (+10.0 points).",
        "Less accurate than base: d: none → 1 (−5.4 points); c: none → 1 (−1.0 points).",
        "Not significant on these test images: b: none → 1 (+1.0 points).",
        "base was trained with only one seed. These verdicts cover the variation between test "
        "images, but not between training seeds.",
    ]
    assert summarise_ablation(RecipeAblation("base", 0.5, (), ())) == []


def test_conclusion_reports_gains_with_other_seeds(base):
    add_run(base, "trivial", cats=4, policy="trivial")
    add_run(base, "again", cats=1, seed=1)
    add_run(base, "trivial again", cats=3, policy="trivial", seed=1)
    add_run(base, "alone", cats=5, policy="rand", seed=2)  # the baseline has no run with this seed
    ablation = compare_to_base(base)
    assert [gain.run for gain in ablation.single_changes] == ["alone", "trivial"]
    assert [gain.run for gain in ablation.seed_repeats] == ["again"]
    alone, trivial = ablation.single_changes
    assert ablation.other_seed_gains(trivial) == pytest.approx([2 / 200])  # 3 cats minus 1
    assert ablation.other_seed_gains(alone) == []
    assert summarise_ablation(ablation) == [
        "Not significant on these test images: augmentation: none → RandAugment and seed: 0 → 2 "
        "(+2.5 points); augmentation: none → TrivialAugment (+2.0 points; with another seed +1.0; "
        "mean +1.5, 95% interval over seeds −4.9 to +7.9).",
        "The test accuracy of the baseline is 97.50%. With another seed, it is 98.00%. The "
        "standard deviation over 2 seeds is 0.35 percentage points. A gain measured with one seed "
        "is larger than the variation between seeds only if it exceeds 6.4 points (95%, Student's "
        "t with 1 degree of freedom). For gains measured with several seeds, the 95% interval of "
        "the mean must exclude 0.",
    ]


def make_seed_ablation(gains: dict[str, list[int]], seeds: list[int]) -> RecipeAblation:
    """Build an ablation on 1,000 images from the gains of each change and the baseline by seed."""

    def gain(gained: int, *differences: str) -> AblationGain:
        test = McNemarResult(500 + min(gained, 0), max(gained, 0), max(-gained, 0), 1000, 0.0)
        return AblationGain("-".join(differences), differences, test, 0.0, None)

    repeats = [gain(gained, f"seed: 0 → {i}") for i, gained in enumerate(seeds, 1)]
    changes = [
        gain(gained, name, *([f"seed: 0 → {i}"] if i else []))
        for name, by_seed in gains.items()
        for i, gained in enumerate(by_seed)
    ]
    return RecipeAblation("base", 0.5, (*changes, *repeats), ())


def test_gain_must_exceed_the_variation_between_seeds():
    # The baseline reaches 50.0, 49.6 and 49.3%, so the threshold is 2.14 points.
    ablation = make_seed_ablation({"small": [14], "large": [-30], "kept": [22, 15, 18]}, [-4, -7])
    assert ablation.seed_threshold == pytest.approx(4.3027 * 2**0.5 * 0.003512, rel=1e-3)
    verdicts = {gain.run: ablation.exceeds_seed_variation(gain) for gain in ablation.single_changes}
    # Each gain of "kept" is relative to the baseline with the same seed.
    gains = ablation.paired_seed_gains(ablation.single_changes[-1])
    assert gains == pytest.approx([0.022, 0.019, 0.025])
    assert verdicts == {"small": False, "large": True, "kept": True}
    better, worse, by_seed, seeds = summarise_ablation(ablation)
    assert better == (
        "More accurate than base: kept (+2.2 points; with other seeds +1.9 and +2.5; mean +2.2, "
        "95% interval over seeds +1.5 to +2.9)."
    )
    assert worse == "Less accurate than base: large (−3.0 points)."
    assert by_seed == (
        "Significant on these test images, but within the variation between seeds: small "
        "(+1.4 points)."
    )
    assert "exceeds 2.1 points" in seeds


def test_gain_not_repeated_with_other_seeds_is_not_counted():
    # The gains relative to the baseline of the same seed are 3.0, 0.0 and 0.0 points.
    ablation = make_seed_ablation({"a": [30, -4, -7]}, [-4, -7])
    assert ablation.exceeds_seed_variation(ablation.single_changes[0]) is False
    assert summarise_ablation(ablation)[0].startswith(
        "Significant on these test images, but within"
    )
    alone = make_seed_ablation({"a": [30]}, [])
    assert alone.seed_threshold is None
    assert alone.exceeds_seed_variation(alone.single_changes[0]) is None


def test_plot_shows_only_single_changes(base):
    add_run(base, "far", cats=4, policy="rand", cutout=8)
    add_run(base, "other seed", cats=4, seed=1)
    blocks = ablation_blocks(compare_to_base(base))
    assert not any(isinstance(block, Plots) for block in blocks)
    add_run(base, "near", cats=4, policy="<rand>")
    svg = gain_figure(compare_to_base(base)).svg
    assert "augmentation: none → &lt;rand&gt;" in svg and "Cutout" not in svg


def find_in(base) -> dict[str, list[str]]:
    return find_ablations(make_context(base.path.parent).list_runs()[0])


def test_declared_runs_with_at_least_three_changes_form_an_ablation(base):
    add_run(base, "a", cats=1, policy="trivial")
    add_run(base, "b", cats=1, epochs=100)
    add_run(base, "longer still", cats=1, epochs=200)
    add_run(base, "again", cats=1, seed=1)
    add_run(base, "a again", cats=1, seed=1, policy="trivial")
    assert find_in(base) == {}  # two changes, one of them with two values, one with two seeds
    add_run(base, "c", cats=1, ema_decay=0.9)
    declare_ablation(make_run(base.path.parent / "d"), "other", baseline="missing")
    make_run(base.path.parent / "e")  # its recipe is not in the table
    group = ["a", "a again", "again", "b", "c", "longer still"]
    assert find_in(base) == {"base": ["base", *group]}
    for name in ("b", "c", "longer still"):
        far = runs.read_run(base.path.parent / name)
        runs.write_config(far.path, far.config | {"data": {"name": "synthetic"}})
    assert find_in(base) == {}  # these runs have another dataset


def test_damaged_declarations_are_ignored(base):
    for number, damaged in enumerate((None, "base", [{"baseline": "base"}], ["base"], [{}])):
        run = make_run(base.path.parent / str(number))
        runs.write_config(run.path, run.config | {"ablations": damaged})
    assert find_in(base) == {}


@pytest.mark.parametrize(("count", "threshold"), [(2, 0.56), (3, 0.41), (10, 0.2)])
def test_accuracy_at_chance_is_detected_for_any_class_count(tmp_path, count, threshold):
    labels = np.arange(600) % count
    for accuracy, learned in ((threshold - 0.01, False), (threshold + 0.01, True)):
        predicted = np.where(np.arange(600) < round(600 * accuracy), labels, (labels + 1) % count)
        probabilities = np.eye(count, dtype=np.float32)[predicted]
        evaluation = runs.Evaluation(probabilities, labels, "0" * 16, 0.001)
        classes = tuple("abcdefghij"[:count])
        run = make_run(tmp_path / f"{count} {learned}", classes=classes, tested=evaluation)
        assert is_at_chance(run) != learned


def test_ablation_with_the_most_runs_of_the_baselines_seed_comes_first(base):
    def add_changes(names: str, baseline: str) -> None:
        for name in names:
            change = name if name != baseline else ""
            declare_ablation(make_run(base.path.parent / name), change, baseline)

    add_changes("abcde", "a")
    add_changes("fgh", "base")
    assert [*find_in(base)] == ["a", "base"]
    assert list_baselines(make_context(base.path.parent))[0].name == "a"
    add_changes("ij", "base")
    assert [*find_in(base)] == ["base", "a"]


def test_baselines_are_sorted_by_ablation_then_rising_accuracy(base):
    add_run(base, "worse", cats=0, dogs=3, epochs=1, policy="rand", flip=False)
    add_run(base, "better", cats=4)
    make_unfinished_run(base.path.parent / "untested")
    context = make_context(base.path.parent)
    assert [run.name for run in list_baselines(context)] == ["worse", "base", "better"]
    for name, change in (("a", {"epochs": 9}), ("b", {"flip": False}), ("c", {"cutout": 8})):
        add_run(base, name, cats=3, **change)
    assert [run.name for run in list_baselines(context)][:2] == ["base", "worse"]
