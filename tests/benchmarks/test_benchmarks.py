"""Tests of the benchmarks."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import ttest_rel

from benchmarks import (
    claims,
    faithfulness,
    near_duplicates,
    ood,
    speedrun,
    standard_loop,
    test_sets,
    train,
    train_all,
)
from benchmarks.faithfulness_checks.candidates import CANDIDATES
from tests.project.test_layers import find_import_faults
from tests.support.factories import CLASSES, VIT, make_run, noise
from vitdemo import data, runs
from vitdemo.data.synthetic import SyntheticDataset
from vitdemo.errors import DataError
from vitdemo.explain.attributions import METHODS
from vitdemo.explain.faithfulness import FILLS
from vitdemo.explain.faithfulness.summary import (
    BASELINE_NAMES,
    FaithfulnessSummary,
    read_summaries,
    write_summaries,
)
from vitdemo.runs import reference
from vitdemo.training.recipes import RECIPES, Recipe

TINY_RECIPE = Recipe("tiny", "for tests", VIT, epochs=2, batch_size=8, head_epochs=1)


def parse_table(text: str) -> tuple[list[str], list[str]]:
    """Return the lines before a printed table of one row, and the cells of that row."""
    *lines, head, _, row = text.splitlines()
    assert row.count("|") == head.count("|")
    return lines, [cell.strip().replace(",", "") for cell in row.strip("|").split("|")]


def test_speed_table_names_machine_and_versions(monkeypatch, capsys):
    monkeypatch.setitem(RECIPES, "tiny", TINY_RECIPE)
    train.main(["tiny", "--device", "cpu", "--steps", "2", "--epochs", "2"])
    (machine, ceiling, _), cells = parse_table(capsys.readouterr().out)
    assert f"torch {torch.__version__.split('+')[0]}" in machine
    assert "TFLOP/s" in ceiling
    name, batch, mode, rate, percent, *_ = cells
    assert (name, batch, mode) == ("`tiny`", "8", "off")
    assert float(rate) > 0
    assert 0 <= float(percent.removesuffix("%")) < 100  # a busy machine rounds to 0.0


def test_standard_loop_is_compared_with_vitdemo(monkeypatch, capsys):
    model = replace(VIT, image_size=32)
    monkeypatch.setitem(
        RECIPES, "tiny", replace(TINY_RECIPE, model=model, policy="auto", cutmix=1.0)
    )
    monkeypatch.setattr(standard_loop, "NUM_WORKERS", 1)
    train.main(["--usual", "tiny", "--steps", "2", "--epochs", "2"])
    name, batch, augmentation, theirs, ours, ratio = parse_table(capsys.readouterr().out)[1]
    assert (name, batch, augmentation) == ("`tiny`", "8", "crop flip auto")
    assert float(ratio) == pytest.approx(float(ours) / float(theirs), rel=0.1)


def test_both_loops_use_only_common_settings():
    recipe = standard_loop.disable_settings(RECIPES["vit-scratch"])
    assert (recipe.mixup, recipe.cutmix, recipe.teacher) == (0, 0, "")
    assert recipe.policy == "auto"
    with pytest.raises(ValueError, match="'vit-small-masked' trains without labels"):
        standard_loop.disable_settings(RECIPES["vit-small-masked"])


def test_standard_transforms_match_the_recipe():
    recipe = replace(TINY_RECIPE, policy="trivial", erasing=0.25, model=replace(VIT, image_size=48))
    names = [type(step).__name__ for step in standard_loop.build_transform(recipe).transforms]
    assert names == ["RandomCrop", "RandomHorizontalFlip", "TrivialAugmentWide", "Resize",
                     "ToTensor", "Normalize", "RandomErasing"]  # fmt: skip
    plain = replace(recipe, policy="none", erasing=0.0, crop_padding=0, flip=False)
    image = standard_loop.to_pil_image(standard_loop.random_dataset(1).images[0])
    assert standard_loop.build_transform(plain)(image).shape == (3, 48, 48)


def test_matmul_rate_counts_a_multiply_add_as_two_operations(monkeypatch):
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(train.time, "perf_counter", lambda: next(clock))
    assert train.measure_matmul_rate(torch.device("cpu"), repeats=1) == 2 * 1024**3 / 2


@pytest.mark.parametrize(("target", "seconds"), [(0.0, 30.0), (0.7, 60.0), (0.9, None)])
def test_time_to_accuracy_counts_whole_epochs(tmp_path, target, seconds):
    run = make_run(tmp_path / "run", epochs=4)  # 0.4, 0.7, 0.8, 0.85; 30 s each
    assert train.seconds_to_accuracy(run, target) == seconds
    later = replace(run, config=run.config | {"started_from": {"seconds": 15}})
    assert train.seconds_to_accuracy(later, target) == (seconds and seconds + 15)


def test_time_table_is_read_from_run_folders(tmp_path, capsys):
    make_run(tmp_path / "one", epochs=8)
    train.main(["--runs", str(tmp_path)])
    assert "| `one` | a test machine | 8 | 4.0 | 180 s | - |" in capsys.readouterr().out


def test_train_all_resumes_stopped_runs(monkeypatch, tmp_path, capsys):
    for name, file in {"done": "evaluation.npz", "begun": "config.json"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
    commands = []

    def run(command):
        commands.append(command[2:])
        return subprocess.CompletedProcess(command, 130 if "begun" in command else 0)

    monkeypatch.setattr(subprocess, "run", run)
    arguments = ["done", "begun", f"new --seed 1 --out={tmp_path / 'other'}"]
    assert train_all.main([*arguments, "--minutes", "5", "--runs", str(tmp_path)]) == 1
    begun, new = commands
    assert begun[0] == "begun" and "--resume" in begun and "--minutes" in begun
    assert new[:5] == ["new", "--seed", "1", "--out", str(tmp_path / "other")]
    assert "--resume" not in new and "--minutes" in new
    assert capsys.readouterr().out.splitlines()[:2] == ["done: finished", "begun: stopped"]


@pytest.mark.parametrize(("ratio", "finished"), [(0.75, True), (0.0, False)])
def test_pretraining_is_finished_when_weights_exist(tmp_path, ratio, finished):
    (tmp_path / "config.json").write_text(f'{{"recipe": {{"mask_ratio": {ratio}}}}}')
    assert not train_all.is_finished(tmp_path)
    (tmp_path / "model.safetensors").touch()
    assert train_all.is_finished(tmp_path) == finished


def test_no_run_starts_without_enough_time(tmp_path, capsys):
    assert train_all.main(["vit-scratch", "--minutes", "0.1", "--runs", str(tmp_path)]) == 1
    assert "vit-scratch: not started" in capsys.readouterr().out


def test_speedrun_trains_each_seed_after_a_warm_up(monkeypatch, tmp_path, capsys):
    commands = []

    def run(command):
        commands.append(command[2:])
        correct = 2 if "0" in command else 3
        labels = np.arange(4)
        predictions = np.where(labels < correct, labels, labels - 1)
        tested = runs.Evaluation(np.eye(4, dtype=np.float32)[predictions], labels, "test", 0.001)
        make_run(Path(command[-1]), epochs=4, classes=CLASSES[:4], tested=tested)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    arguments = ["--recipe", "vit-plain", "--seeds", "2", "--options", "--batch-size 64"]
    assert speedrun.main([*arguments, "--runs", str(tmp_path)]) == 0
    warm_up, *seeds = commands
    assert "--full-patch-epochs" in warm_up
    assert [command[:6] for command in (warm_up, *seeds)] == [
        ["vit-plain", "--compile", "reduce-overhead", "--batch-size", "64", option]
        for option in ("--epochs", "--seed", "--seed")
    ]
    row = capsys.readouterr().out.splitlines()[-1]
    assert [cell.strip() for cell in row.strip("|").split("|")][1:-1] == [
        "2", "62.50%", "50.00 to 75.00%", "120.0 s", "120.0 s",
    ]  # fmt: skip


def test_speedrun_stops_after_a_failed_run(monkeypatch, tmp_path):
    monkeypatch.setattr(subprocess, "run", lambda command: subprocess.CompletedProcess(command, 2))
    with pytest.raises(SystemExit, match="2"):
        speedrun.main(["--runs", str(tmp_path)])


@pytest.mark.parametrize("module", [speedrun, train, train_all, standard_loop])
def test_training_benchmarks_import_only_modules_allowed_for_train_py(module):
    """Check that they do not need the page; a test of train.py checks what it really loads."""
    assert find_import_faults("train", Path(module.__file__).read_text("utf-8")) == []


def test_near_duplicate_is_found_by_correlation():
    random = torch.Generator().manual_seed(0)
    others = torch.randint(0, 256, (7, 3, 8, 8), generator=random, dtype=torch.uint8)
    images = torch.randint(0, 256, (4, 3, 8, 8), generator=random, dtype=torch.uint8)
    images[1] = others[5] // 2 + 40  # correlation ignores contrast
    highest = near_duplicates.highest_correlation(images, others)
    rows = [batch.flatten(1).double().numpy() for batch in (images, others)]
    expected = np.corrcoef(*rows)[:4, 4:].max(1)
    np.testing.assert_allclose(highest, expected, atol=1e-5)
    assert (highest > near_duplicates.DEFAULT_CORRELATION).tolist() == [False, True, False, False]


def test_near_duplicates_are_counted_with_mirrored_images_and_by_run(tmp_path, monkeypatch, capsys):
    random = torch.Generator().manual_seed(1)
    train = torch.randint(0, 256, (20, 3, 8, 8), generator=random, dtype=torch.uint8)
    test = torch.randint(0, 256, (200, 3, 8, 8), generator=random, dtype=torch.uint8)
    test[0], test[1] = train[3], train[4].flip(-1)
    parts = {"train": SimpleNamespace(images=train), "test": SimpleNamespace(images=test)}
    source = SimpleNamespace(load=parts.__getitem__)
    monkeypatch.setattr(near_duplicates.data, "open_dataset", lambda *_, **__: source)
    run = make_run(tmp_path / "vit")
    monkeypatch.setattr("sys.argv", ["near_duplicates.py", "--runs", str(tmp_path)])
    near_duplicates.main()
    count, mirrored, accuracy = capsys.readouterr().out.splitlines()
    assert count.endswith("1 of 200 test images") and mirrored == "or mirrored: 2"
    correct = run.evaluation.probabilities.argmax(1) == run.evaluation.labels
    others = f"{100 * correct[1:].mean():.2f}% on the others"
    assert accuracy == f"vit: accuracy {100 * correct[0]:.2f}% on these images, {others}"


def test_claims_are_measured_on_the_available_runs(tmp_path, monkeypatch, capsys):
    make_run(tmp_path / "vit", VIT)
    arguments = ["claims.py", "--runs", str(tmp_path), "--data", str(tmp_path / "none")]
    monkeypatch.setattr("sys.argv", arguments)
    claims.main()
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    results = {}
    for name, *cells in rows:
        results.setdefault(name, []).append(cells)
    assert {claim.__name__ for claim in claims.CLAIMS} <= {*results}
    assert "not measured" in results["heads_off"][0][1]  # without test images
    assert "pairs x 15.63" in results["costs"][1][1] and "x 3.9" in results["costs"][0][1]


@torch.inference_mode()
def test_attention_claims_are_computed_on_test_images(tmp_path):
    run = make_run(tmp_path / "vit", VIT)
    inputs = claims.ClaimInputs([run], SyntheticDataset("synthetic", tmp_path, CLASSES), 4)
    for claim in (claims.largest_weights, claims.class_token_shares, claims.heads_off):
        rows = claim(inputs)
        assert rows and all(name.startswith("vit") for name, _ in rows)
    ((_, accuracies),) = claims.lens_accuracy(inputs)
    assert len(accuracies.split()) == VIT.options["depth"] + 1


def test_intervals_of_bursts_cover_the_accuracy_only_with_the_effective_size():
    by_image, bootstrap, effective = test_sets.measure_coverage(0.9, 1.0, 60)
    assert by_image < 0.6 and bootstrap < 0.8 and effective > 0.85  # 37%, 53%, 96% of 1,000


class SyntheticWithLabels(SyntheticDataset):
    """A synthetic dataset with the loaders of real datasets."""

    def load_labels(self, part):
        return self.load(part).labels

    def load_subset(self, part, indices, size=32):
        return self.load(part).subset(indices)


def test_out_of_distribution_images_are_compared_by_three_scores(tmp_path, monkeypatch, capsys):
    recipe = {"seed": 0, "validation_share": 0.5}
    source = SyntheticWithLabels("synthetic", tmp_path, CLASSES[:4])
    images = source.load("train")
    run = make_run(tmp_path / "runs" / "vit", classes=source.classes, recipe=recipe)
    fingerprint = data.compute_fingerprint(images, source.classes)
    runs.write_config(run.path, run.config | {"data": {"fingerprint": fingerprint}})
    run = runs.read_run(run.path)
    monkeypatch.setattr(reference, "MIN_VALIDATION", 8)
    statistics = reference.compute_reference(run, images, images, torch.device("cpu"))
    reference.write_reference(run.path, statistics, fingerprint)
    for i in range(12):
        for folder in (tmp_path / "other", tmp_path / "known" / CLASSES[0]):
            folder.mkdir(parents=True, exist_ok=True)
            noise(i).save(folder / f"{i}.png")
    monkeypatch.setattr(data, "open_dataset", lambda root, **_: source)
    arguments = ["--runs", tmp_path / "runs", "--images", 40, "--device", "cpu"]
    arguments += ["--known", tmp_path / "known", "--other", tmp_path / "other"]
    monkeypatch.setattr("sys.argv", ["ood.py", *map(str, arguments)])
    ood.main()
    out = capsys.readouterr().out
    rates = re.search(r"\| other \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", out)
    assert all(0 <= float(rate) <= 1 for rate in rates.groups())
    flagged = re.search(r"\| test images \| 40 \| (.*) \|", out)[1].split(" | ")
    assert [float(rate) for rate in flagged] == sorted(float(rate) for rate in flagged)
    assert "| photos of the classes | 12 |" in out


def test_auroc_is_the_fraction_of_ordered_pairs():
    assert ood.auroc(np.array([1.0, 2, 3]), np.array([0.0])) == 1
    assert ood.auroc(np.array([1.0, 3]), np.array([2.0, 2])) == 0.5


@pytest.fixture
def split_run(tmp_path, monkeypatch):
    """Run with a validation split of synthetic images, which every benchmark then opens."""
    source = SyntheticWithLabels("synthetic", tmp_path, CLASSES)
    monkeypatch.setattr(data, "open_dataset", lambda *_, **__: source)
    run = make_run(tmp_path / "runs" / "vit")
    split = {"seed": 3, "train_pictures": 180, "validation_pictures": 60}
    recipe = run.config["recipe"] | {"validation_share": 0.25}
    runs.write_config(run.path, run.config | {"split": split, "recipe": recipe})
    return runs.read_run(run.path), source


def test_validation_images_are_held_out_and_alternate_by_class(split_run):
    run, source = split_run
    sample = faithfulness.draw_validation_images(run, source, 20)
    assert sorted(sample.labels[:10].tolist()) == list(range(10))
    training_set = source.load("train")
    indices, _ = data.stratified_split(training_set.labels, 0.25, 3)
    training_images = {image.numpy().tobytes() for image in training_set.images[indices]}
    assert not training_images & {image.numpy().tobytes() for image in sample.images}
    other = SyntheticWithLabels("synthetic", source.root, CLASSES[:5])
    with pytest.raises(DataError, match="'vit' has 60 validation images, but this dataset has 30"):
        faithfulness.draw_validation_images(run, other, 20)


def test_faithfulness_of_candidates_keeps_the_scores_of_layers(split_run, monkeypatch, capsys):
    run, _ = split_run
    stored = FaithfulnessSummary(9, {"relevance": 0.5}, (), layers=(0.1, 0.2, 0.3))
    write_summaries(run.path, {"drop": stored, "mean": stored})
    arguments = ["--images", "3", "--steps", "4", "--runs", str(run.path.parent), "--device", "cpu"]
    monkeypatch.setattr(
        "sys.argv", ["faithfulness.py", *arguments, "--quick", "--candidates", *CANDIDATES]
    )
    faithfulness.main()
    output = capsys.readouterr().out
    compared = {"attnlrp", *CANDIDATES}
    assert all(f"| vit | {fill} | {name} | " in output for name in compared for fill in FILLS[:2])
    for summary in read_summaries(run.path).values():
        assert summary.pictures == 3 and summary.layers == stored.layers
        assert set(summary.scores) == {*METHODS, *BASELINE_NAMES}


def test_comparisons_are_paired_and_corrected_over_all_rows():
    scores = np.random.default_rng(0).normal(size=(3, 8))
    names = ("relevance", "attnlrp", "rollout")
    rows = [
        {"mean": {name: (0, own[i]) for name, own in zip(names, scores, strict=True)}}
        for i in range(8)
    ]
    run = SimpleNamespace(run=SimpleNamespace(name="vit"), fills=["mean"], rows=rows)
    *_, first, second = faithfulness.comparison_table([run], "relevance").splitlines()
    p = {name: ttest_rel(own, scores[0]).pvalue for name, own in zip(names, scores, strict=True)}
    low, high = sorted([p["attnlrp"], p["rollout"]])
    expected = {low: min(2 * low, 1), high: min(max(2 * low, high), 1)}
    for line in (first, second):
        name, value = line.split(" | ")[2], float(line.split(" | ")[-1].strip(" |"))
        assert value == pytest.approx(expected[p[name]], rel=0.1)


def test_scores_of_other_maps_are_kept_for_the_same_number_of_images(
    split_run, monkeypatch, capsys
):
    run, _ = split_run
    old = FaithfulnessSummary(3, {"occlusion": 0.25, "relevance": 9.0}, ())
    write_summaries(run.path, {"drop": old, "mean": replace(old, pictures=4)})
    arguments = ["--images", "3", "--steps", "4", "--runs", str(run.path.parent), "--device", "cpu"]
    arguments += ["--quick", "--maps", "attnlrp", "relevance"]
    monkeypatch.setattr("sys.argv", ["faithfulness.py", *arguments])
    faithfulness.main()
    found = read_summaries(run.path)
    measured = {"attnlrp", "relevance", *BASELINE_NAMES}
    assert {*found["drop"].scores} == measured | {"occlusion"} and {
        *found["mean"].scores
    } == measured
    assert found["drop"].scores["occlusion"] == 0.25 and found["drop"].scores["relevance"] < 9


@pytest.mark.parametrize("extra", [[], ["--extra"]])
def test_faithfulness_results_contain_steps_and_baselines(extra, split_run, monkeypatch, capsys):
    run, _ = split_run
    arguments = ["--images", "3", "--steps", "4", "--runs", str(run.path.parent), "--device", "cpu"]
    monkeypatch.setattr("sys.argv", ["faithfulness.py", *arguments, *extra])
    faithfulness.main()
    output = capsys.readouterr().out
    for line in output.splitlines():
        if line.startswith("| relevance"):
            assert line.count("|") in (6, 8 + 3 * len(extra))
    assert ("ROAD" in output) is bool(extra) and "| edge map | " in output
    summaries = read_summaries(run.path)
    assert set(summaries) == {"drop", "mean"}
    for summary in summaries.values():
        assert (summary.pictures, summary.steps, summary.part) == (3, 4, "validation")
        assert set(summary.scores) > {"relevance", *BASELINE_NAMES} and len(summary.layers) == 3
