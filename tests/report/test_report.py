"""Tests of the report: self-contained, escaped, and with the numbers of the run folders."""

import re
from dataclasses import replace
from datetime import datetime, timezone
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.support.factories import (
    CLASSES,
    RESNET,
    VIT,
    declare_ablation,
    make_evaluation,
    make_run,
    make_unfinished_run,
)
from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.figures.curves import COLOURS
from vitdemo.metrics import confusion_matrix
from vitdemo.metrics.calibration_report import compute_calibration_report
from vitdemo.metrics.classification_report import compare_runs, format_three_decimals
from vitdemo.report import get_report_name, render_report
from vitdemo.report.calibration import describe_calibration, summarise_calibration
from vitdemo.report.comparison import comparison_blocks
from vitdemo.report.settings import MAX_RUNS_PER_TABLE, flatten_dict, provenance_blocks

NOW = datetime(2026, 5, 4, 3, 2, tzinfo=timezone.utc)


class Reader(HTMLParser):
    """HTML parser that collects tags with their attributes."""

    def __init__(self, page: str):
        super().__init__()
        self.tags = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def read_cells(page: str) -> list[str]:
    """Return the text of each cell of all tables."""
    return [plain(cell) for cell in re.findall(r"<t[hd]\b.*?>(.*?)</t[hd]>", page, re.DOTALL)]


def plain(page: str) -> str:
    """Return the text of the page as one line."""
    return " ".join(unescape(re.sub(r"<[^>]*>", "", page)).split())


EVIL = "<script>alert(1)</script>"


def make_run_with_recipe(path, spec=VIT, tested=None, **recipe):
    """Create a run with the given fields of its recipe, which belongs to the ablation of "vit"."""
    run = make_run(path, spec, tested=tested, recipe=recipe)
    change = {"vit": "", "b": "model", "c": "cutout", "d": "flip"}.get(path.name)
    return run if change is None else declare_ablation(run, change, "vit")


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Ablation study of "vit", and a run on other images whose texts are all markup.

    "b" and "c" have six more errors than "vit", and "c" also has validation predictions. "d" has
    no evaluation, and its training accuracy is below its validation accuracy.
    """
    root = tmp_path_factory.mktemp("runs")
    worse, other = make_evaluation(0), make_evaluation(1)
    worse.probabilities[:6] = np.roll(worse.probabilities[:6], 1, axis=1)
    held_out = {"validation_probabilities": other.probabilities, "validation_labels": other.labels}
    study = [
        make_run_with_recipe(root / "vit", note="94.32%, not measured yet"),
        make_run_with_recipe(root / "b", RESNET, worse),
        make_run_with_recipe(root / "c", tested=replace(worse, **held_out), cutout=8),
        make_run_with_recipe(root / "d", flip=False),
    ]
    runs.rewrite_history(root / "d", [r | {"train_accuracy": 0.1} for r in study[3].history])
    (root / "d" / runs.EVALUATION_FILE).unlink()
    study[3] = runs.read_run(root / "d")
    evil = make_run_with_recipe(
        root / "<img src=x>", tested=replace(make_evaluation(2), fingerprint="?"), summary=EVIL
    )
    recipe = evil.config["recipe"] | {EVIL: EVIL}
    changes = {"recipe": recipe, "classes": [EVIL, *CLASSES[1:]], "command": EVIL}
    runs.write_config(evil.path, evil.config | changes)
    return [*study, runs.read_run(evil.path)]


@pytest.fixture(scope="module")
def page(shown):
    return render_report(shown, now=NOW)


@pytest.fixture(scope="module")
def alone(shown):
    return render_report(shown[:1])


def test_report_is_self_contained_and_escapes_names(page):
    for tag, attributes in Reader(page).tags:
        assert tag not in ("script", "link", "iframe", "img", "object", "embed", "base")
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "xlink:href", "action"):
                assert value.startswith(("#", "data:image/png;base64,"))
    assert "@import" not in page and "url(h" not in page
    assert "prefers-color-scheme: dark" in page
    assert "2026-05-04 at 03:02 UTC" in page
    assert EVIL in read_cells(page)


def test_models_are_compared_on_the_same_images(shown, page, alone):
    vit, b, *_ = shown
    comparison = compare_runs(vit, b).overall
    assert (comparison.first_only, comparison.second_only) == (6, 0)
    assert comparison.p == pytest.approx(2 / 2**6)  # 0.031, before correction
    cells = read_cells(page)
    assert {"vit, b", "+3.0", "6"} <= set(cells)
    assert cells.count("0.094") == 2  # after correction for three pairs
    text = plain(page)
    assert (
        "Only vit is correct on 6 images, and only b is correct on 0. The difference is not" in text
    )
    assert text.count("were tested on different images") == 3
    assert "evaluation.npz" in text  # missing in one run
    assert "below validation accuracy in 3 of 3 epochs" in text
    (table,) = comparison_blocks([vit, b, shown[2], vit])  # no sentences for many pairs
    assert len(table.rows) == 6
    assert "Pairwise comparison" in page and "Pairwise comparison" not in alone


def test_calibration_text_with_and_without_temperature(shown, page, alone):
    report = compute_calibration_report(shown[0])
    for sentence in (summarise_calibration(report), describe_calibration(report)):
        assert sentence.replace("**", "") in plain(alone)
    assert "No temperature can be fitted" in plain(alone)
    scaled = compute_calibration_report(shown[2]).scaled
    text = f"A temperature of {scaled.temperature:.3f} was fitted on the 200 validation images"
    assert text in plain(page) and text not in plain(alone)


def test_ablation_section_reports_the_gain_of_each_change(page, alone):
    text = plain(page)
    assert "changes to the recipe of vit" in text and "Ablation" not in alone
    gain = "Not significant on these test images: model: vit → resnet18 (−3.0 points)"
    assert f"{gain}; Cutout" in text
    assert "Validation gain" in text


def test_different_settings_are_marked(page):
    marked = re.findall(r'<tr><th scope="row">([^<]+)</th><td class="words"><b>', page)
    assert {"name", "model.family", "cutout"} <= set(marked)
    assert "epochs" not in marked
    assert "not measured yet" not in page  # a note may describe another run


def test_runs_have_the_same_colours_as_on_the_page(page, shown):
    colours = dict(re.findall(r"<b>(\w+)</b> <span><i style=.color: (#\w+)", page))
    numbers = runs.number_runs(shown)  # by start time
    assert colours == {name: COLOURS[numbers[name]][0] for name in ("vit", "b", "c", "d")}


def test_matrix_is_complete_and_figures_name_the_run(shown, alone):
    evaluation = shown[0].evaluation
    counts = confusion_matrix(evaluation.probabilities, evaluation.labels)
    cells = read_cells(alone)
    first = cells.index("true \\ predicted") + 1 + len(CLASSES)
    rows = np.array(cells[first : first + counts.size + len(CLASSES)]).reshape(len(CLASSES), -1)
    assert rows[:, 0].tolist() == [*CLASSES]
    assert (rows[:, 1:].astype(int) == counts).all()
    figures = [attributes for tag, attributes in Reader(alone).tags if tag == "figure"]
    assert len(figures) == 8
    assert all("of vit" in figure["aria-label"] for figure in figures)


def test_missing_evaluation_and_history_are_reported(tmp_path):
    run = make_unfinished_run(tmp_path / "vit")
    runs.rewrite_history(run.path, [])
    page = render_report([runs.read_run(run.path)])
    assert "evaluation.npz" in page and "not finished" in page
    assert "no epoch has ended yet" in page and "<svg" not in page


def test_evaluation_with_nan_is_reported_and_the_rest_is_shown(tmp_path):
    bad = make_evaluation(0)
    bad.probabilities[4] = float("nan")
    page = render_report([make_run(tmp_path / "vit", tested=bad)])
    assert "NaN or infinite probabilities" in page and page.count("<svg") == 5


def test_report_names(shown):
    assert get_report_name(shown[:1], now=NOW) == "report-vit-2026-05-04-0302.html"
    escaped = get_report_name([shown[-1], shown[0]], now=NOW)
    assert escaped == "report--img-src-x--and-1-more-2026-05-04-0302.html"
    with pytest.raises(RunError, match="at least one run"):
        render_report([])


def test_formatting_of_numbers_and_nested_dicts():
    nested = {"model": {"family": "vit", "options": {}}, "betas": [0.9, 0.99], "note": ""}
    flat = flatten_dict(nested)
    assert flat == {"model.family": "vit", "betas": "0.9, 0.99", "note": "–"}
    assert flatten_dict({"resumed": [{"a": 1}, {"a": 2}]}) == {
        "resumed.1.a": "1",
        "resumed.2.a": "2",
    }
    formatted = [format_three_decimals(value) for value in (0.9994, 0.9996, 1, float("nan"))]
    assert formatted == ["0.999", "> 0.999", "1.000", "–"]


def test_a_wide_table_is_split_and_repeats_its_first_column(shown):
    runs_of_two_tables = shown[:1] * (MAX_RUNS_PER_TABLE + 1)
    first, second = provenance_blocks(runs_of_two_tables)
    assert (len(first.columns), len(second.columns)) == (MAX_RUNS_PER_TABLE + 1, 2)
    assert [row[0] for row in first.rows] == [row[0] for row in second.rows]


def test_definitions_are_written_once(page):
    """Require one explanation per term, although each run has a table with these columns."""
    definitions = page[page.index("<h2>Definitions</h2>") :]
    terms = re.findall(r"<li><b>([^<]+)</b>:", definitions)
    assert len(terms) == len({*terms})
    assert {"ECE (%)", "Recall", "Expected by chance", "p (Holm)", "Gain, points"} <= {*terms}
