"""The report: whole by itself, escaped, and with the numbers of the runs' files."""

import re
from dataclasses import replace
from datetime import datetime, timezone
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.making import CLASSES, RESNET, evaluation, make_run
from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.figures.curves import COLOURS
from vitdemo.metrics import accuracy, confusion, per_class
from vitdemo.metrics.calibrated_runs import calibration
from vitdemo.metrics.curves import average_precision, macro_mean
from vitdemo.metrics.intervals import bootstrap
from vitdemo.metrics.tested_runs import paired_test
from vitdemo.report import flat, report, report_name

NOW = datetime(2026, 5, 4, 3, 2, tzinfo=timezone.utc)


class Reader(HTMLParser):
    """Tags with their attributes, and the words of each cell."""

    def __init__(self, page: str):
        super().__init__()
        self.tags, self.cells, self.open = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "br", "path", "use"):
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def words_of(page: str) -> str:
    """What the page says, its lines joined; the tags are still there."""
    return " ".join(unescape(page).split())


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "vit")


def test_it_is_whole_by_itself(run, tmp_path):
    page = report([run, make_run(tmp_path / "resnet", RESNET)], now=NOW)
    for tag, attributes in Reader(page).tags:
        assert tag not in ("script", "link", "iframe", "img", "object", "embed", "base")
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "xlink:href", "action"):
                assert value.startswith("#")
    assert "@import" not in page and "url(h" not in page
    assert "prefers-color-scheme: dark" in page
    assert "2026-05-04 at 03:02 UTC" in page


def test_its_numbers_are_those_of_the_evaluation(run):
    reader = Reader(report([run]))
    cells, first_words = set(reader.cells), {cell.split(" (")[0] for cell in reader.cells}
    found = run.evaluation
    metrics = per_class(found.probabilities, found.labels)
    wanted = {f"{100 * accuracy(found.probabilities, found.labels):.2f} %", "97.50 %"}
    wanted |= {
        f"{macro_mean(getattr(metrics, name)):.3f}" for name in ("f1", "roc_auc", "precision")
    }
    wanted |= {f"{metrics.recall[3]:.3f}", "0.750", "cat"}
    wanted |= {f"{average_precision(found.probabilities, found.labels)[3]:.3f}"}
    assert wanted <= first_words
    assert f"cat ({metrics.f1[3]:.3f})" in cells
    intervals = bootstrap(confusion(found.probabilities, found.labels))
    low, high = intervals.recall[:, 3]
    assert f"0.750 ({low:.3f} to {high:.3f})" in cells
    low, high = 100 * intervals.accuracy
    assert f"97.50 % ({low:.2f} to {high:.2f} %)" in cells


def test_two_models_are_compared_picture_by_picture(run, tmp_path):
    wrong = evaluation(1)
    wrong.probabilities[:30] = np.roll(wrong.probabilities[:30], 1, axis=1)
    other = make_run(tmp_path / "other", tested=wrong)
    elsewhere = make_run(tmp_path / "elsewhere", tested=replace(evaluation(2), fingerprint="?"))
    page = report([run, other, elsewhere])
    found = paired_test(run, other)
    assert (found.overall.first_only, found.overall.second_only) == (30, 0)
    assert found.sentence() in words_of(page)
    assert {"vit, other", "+15.00", "30"} <= set(Reader(page).cells)
    assert words_of(page).count("were tested on different pictures") == 2
    assert "Two by two" not in report([run])


def test_calibration_is_told_with_and_without_a_temperature(run, tmp_path):
    found = calibration(run)
    page = words_of(report([run]))
    assert f"Its calibration error is {100 * found.before.error:.2f} %" in page
    assert "No temperature was fitted" in page
    asked = evaluation(1)
    held_out = {"validation_probabilities": asked.probabilities, "validation_labels": asked.labels}
    scaled = make_run(tmp_path / "scaled", tested=replace(evaluation(0), **held_out))
    temperature = calibration(scaled).scaled.temperature
    page = words_of(report([scaled]))
    assert f"Divided by a temperature of {temperature:.3f}, fitted on 200 validation" in page


def test_the_matrix_has_a_cell_for_every_pair(run):
    page = report([run])
    assert page.count('<td class="right"') == len(CLASSES)
    assert page.count('<td class="wrong"') == len(CLASSES) * (len(CLASSES) - 1)
    assert "5 cats were taken for dogs (25.0 % of all cats)." in page


def test_every_figure_says_what_it_shows(run):
    figures = [attributes for tag, attributes in Reader(report([run])).tags if tag == "figure"]
    assert len(figures) == 6
    assert all("of vit" in figure["aria-label"] for figure in figures)


def test_what_is_named_like_html_is_shown_as_words(tmp_path):
    run = make_run(tmp_path / "<img src=x>")
    evil = "<script>alert(1)</script>"
    recipe = run.config["recipe"] | {"summary": evil, evil: evil}
    config = run.config | {"recipe": recipe, "classes": [evil, *CLASSES[1:]], "command": evil}
    runs.write_config(run.path, config)
    reader = Reader(report([runs.read_run(run.path)]))
    assert not {"script", "img"} & {tag for tag, _ in reader.tags}
    assert evil in reader.cells


def test_a_run_without_an_evaluation_or_an_epoch_says_so(run):
    (run.path / runs.EVALUATION).unlink()
    runs.rewrite_history(run.path, [])
    page = report([runs.read_run(run.path)])
    assert "evaluation.npz" in page and "not finished" in page
    assert "no epoch has ended yet" in page and "<svg" not in page


def test_an_evaluation_of_nan_is_named_and_the_rest_is_there(run):
    bad = evaluation(0)
    bad.probabilities[4] = float("nan")
    runs.write_evaluation(run.path, bad)
    page = report([runs.read_run(run.path)])
    assert "NaN or infinite probabilities" in page and page.count("<svg") == 4


def test_settings_that_differ_are_marked(run, tmp_path):
    other = make_run(tmp_path / "resnet", RESNET)
    page = report([run, other])
    marked = re.findall(r'<tr class="marked"><th scope="row">([^<]+)', page)
    assert {"name", "model.family"} <= set(marked)
    assert "epochs" not in marked


def test_why_training_looks_worse_is_explained_where_it_does(run):
    worse = [r | {"train_accuracy": 0.1} for r in run.history]
    config = run.config | {"recipe": run.config["recipe"] | {"mixup": 0.5}}
    page = words_of(report([replace(run, history=tuple(worse), config=config)]))
    assert "below validation accuracy in 3 of 3 epochs" in page and "Under MixUp the model" in page


def test_each_run_has_the_colour_that_it_has_on_the_page(run, tmp_path):
    other = make_run(tmp_path / "other")
    page = report([run, other], order=["first", "other", "vit"])
    colour = dict(re.findall(r"<b>(\w+)</b> <i style=.color: (#\w+)", page))
    assert colour == {"vit": COLOURS[2][0], "other": COLOURS[1][0]}


def test_chances_are_corrected_for_the_number_of_pairs(run, tmp_path):
    worse = evaluation(0)
    worse.probabilities[:6] = np.roll(worse.probabilities[:6], 1, axis=1)
    others = [make_run(tmp_path / name, tested=worse) for name in ("b", "c")]
    assert paired_test(run, others[0]).overall.p == pytest.approx(2 / 2**6)  # 0.031, before
    page = report([run, *others])
    assert "vit is right on 6 pictures that b gets wrong, 0 the other way round: could be" in page
    assert Reader(page).cells.count("p = 0.094") == 2  # three times that


def test_a_note_of_the_recipe_is_no_figure_of_the_run(run):
    config = run.config | {"recipe": run.config["recipe"] | {"note": "94.32 %, not measured yet"}}
    assert "not measured yet" not in report([replace(run, config=config)])


def test_an_area_of_nearly_one_is_not_rounded_to_one(tmp_path):
    sure = evaluation(0)
    sure.probabilities[:] = 0.9 * np.eye(10)[sure.labels] + 0.01
    sure.probabilities[0, :2], sure.probabilities[20, :2] = (0.40, 0.52), (0.45, 0.47)
    found = Reader(report([make_run(tmp_path / "vit", tested=sure)])).cells
    assert "> 0.999" in found  # of 20 × 180 pairs one is the wrong way round


def test_an_ablation_ends_in_what_each_ingredient_bought(run, tmp_path):
    assert "ingredient" not in report([run])
    others = []
    for name, change in (("a", {"epochs": 9}), ("b", {"flip": False}), ("c", {"cutout": 8})):
        other = make_run(tmp_path / name)
        config = other.config | {"recipe": other.config["recipe"] | change}
        runs.write_config(other.path, config)
        others.append(runs.read_run(other.path))
    page = report([run, *others])
    assert "the ablation of vit" in page
    assert "No more than chance explains: " in page and "Cutout: none → 8 (+0.0 points)" in page


def test_reports_have_names_of_their_own(run, tmp_path):
    assert report_name([run], now=NOW) == "report-vit-2026-05-04-0302.html"
    odd = make_run(tmp_path / "<a b>")
    assert report_name([odd, run], now=NOW) == "report--a-b--and-1-more-2026-05-04-0302.html"
    assert report_name([], now=NOW).startswith("report-nothing")


def test_of_no_run_there_is_no_report():
    with pytest.raises(RunError, match="at least one run"):
        report([])


def test_flat_names_what_is_nested():
    found = flat({"model": {"family": "vit", "options": {}}, "betas": [0.9, 0.99], "note": ""})
    assert found == {"model.family": "vit", "betas": "0.9, 0.99", "note": "–"}
    assert flat({"resumed": [{"a": 1}, {"a": 2}]}) == {"resumed.1.a": "1", "resumed.2.a": "2"}
