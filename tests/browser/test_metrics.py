"""Per-class metrics, Calibration and Compare models in a real Chromium."""

import csv
import io
import re
import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.making import CLASSES, RESNET, VIT, evaluation, make_run
from tests.serving import serve
from vitdemo import runs


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The runs "best", "second" (no cat right) and "<i>held", which has validation answers."""
    root = tmp_path_factory.mktemp("compared")
    make_run(root / "best", VIT)
    second = make_run(root / "second", RESNET, seed=1)
    said = evaluation(1).probabilities.copy()
    said[60:80] = np.eye(10, dtype=np.float32)[5]  # all cats are dogs
    runs.write_evaluation(second.path, replace(second.evaluation, probabilities=said))
    held = make_run(root / "held", VIT, seed=2)
    answers = held.evaluation
    sure = {"validation_probabilities": answers.probabilities, "validation_labels": answers.labels}
    runs.write_evaluation(held.path, replace(answers, **sure))
    shutil.move(held.path, root / "<i>held")
    return root


@pytest.fixture(scope="module")
def address(root, tmp_path_factory):
    nowhere = tmp_path_factory.mktemp("data") / "none"
    with serve("--runs", str(root), "--data", str(nowhere)) as address:
        yield address


@pytest.fixture
def open_tab(open_page, address):
    """open_tab(name, width=..., scheme=...) -> the page with that tab open."""

    def open_tab(name, **options):
        page = open_page(address, **options)
        page.locator("#answers .card").first.wait_for()
        go_to(page, name)
        return page

    return open_tab


def go_to(page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def choose(page, place: str, name: str) -> None:
    page.locator(f"{place} input").click()
    page.get_by_role("option", name=name, exact=True).click()


# --- per class -----------------------------------------------------------------------------------


def test_classes_sort_worst_first_and_have_intervals_and_both_means(open_tab):
    page = open_tab("Per-class metrics")
    table = page.locator("#per-class")
    first = table.locator("tbody tr").first
    page.locator("#metrics-model select").select_option("best")
    expect(first.locator("th")).to_have_text("airplane")
    table.get_by_role("button", name="F1", exact=True).click()  # worst first
    expect(first.locator("th")).to_have_text("cat")
    expect(first.locator("td").nth(2)).to_contain_text(re.compile(r"0\.750.*0\.\d+ to [01]\.\d+"))
    expect(table.locator("tfoot th")).to_have_text(["Macro average", "Weighted average"])
    expect(table).to_contain_text("Top-k accuracy: the true class is among the two most probable")
    expect(table).to_contain_text("97.50 % of 200 test pictures")


def test_bars_of_one_column_are_of_one_scale(open_tab):
    page = open_tab("Per-class metrics")
    tracks = page.locator("#per-class tbody tr td:last-child .vd-track")
    expect(tracks).to_have_count(10)
    widths = tracks.evaluate_all("all => all.map(track => Math.round(track.clientWidth))")
    assert len(set(widths)) == 1 and widths[0] > 40, widths


def test_panels_and_groups_have_names(open_tab):
    page = open_tab("Per-class metrics")
    expect(page.get_by_role("tabpanel", name="Per-class metrics")).to_be_visible()
    levels = page.locator("h1:visible, h2:visible, h3:visible").evaluate_all(
        "all => all.map(heading => Number(heading.tagName[1]))"
    )
    assert all(b - a <= 1 for a, b in pairwise(levels)) and levels[0] == 1


def test_the_csv_holds_the_table_with_its_intervals(open_tab):
    page = open_tab("Per-class metrics")
    page.locator("#metrics-model select").select_option("best")
    expect(page.locator("#per-class")).to_contain_text("classified correctly by best")
    with page.expect_download() as download:
        page.locator("#per-class").get_by_role("button", name="Download CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0].startswith("Class,Support,Precision,Recall,F1,Average precision,ROC-AUC,")
    assert lines[0].endswith('"F1, low","F1, high"')
    assert lines[4].startswith("cat,20,1,0.75,0.857143,")
    assert [line.split(",")[0] for line in lines[11:]] == ["Macro average", "Weighted average"]


def test_a_second_model_is_compared_in_words(open_tab):
    page = open_tab("Per-class metrics")
    page.locator("#metrics-model select").select_option("best")
    expect(page.locator("#paired-test")).to_have_text("")
    page.locator("#metrics-other select").select_option("second")
    pair = page.locator("#paired-test")
    expect(pair).to_contain_text(
        "best is right on 15 pictures that second gets wrong, 0 the other way round: more than "
        "chance explains (p < 0.001)."
    )
    cat = pair.locator("tbody tr").nth(3)
    expect(cat.locator("td").nth(1)).to_have_text("+75.0")
    expect(cat.locator("td").last).to_have_text("best")
    expect(pair.locator("li").first).to_have_text(
        "best and second are right on the same airplanes: no difference."
    )
    expect(page.locator("#ranking [id*='curve-']")).to_have_count(4)  # two models, two figures
    page.locator("#metrics-other select").select_option("")
    expect(pair).to_have_text("")
    expect(page.locator("#ranking [id*='curve-']")).to_have_count(2)


def test_curves_follow_the_classes_and_end_in_numbers(open_tab):
    page = open_tab("Per-class metrics")
    page.locator("#metrics-model select").select_option("second")
    ranking = page.locator("#ranking")
    names = ranking.locator("tbody th")
    expect(names).to_have_text(["cat"])  # the worst one
    choose(page, "#curve-classes", "dog")
    expect(names).to_have_text(["cat", "dog"])
    expect(ranking.locator("figure svg")).to_have_count(2)
    area = ranking.locator("tbody tr").nth(1).locator("td").nth(1)
    expect(area.locator("small")).to_have_text(re.compile(r"^[01]\.\d{3} to [01]\.\d{3}$"))
    with page.expect_download() as download:
        ranking.get_by_role("button", name="Download the curves as CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "class,model,curve,x,y,threshold"
    assert lines[1].startswith("cat,second,ROC,0.00000,0.00000,")
    for _ in range(2):
        page.locator("#curve-classes").get_by_role("button", name="Remove").first.click()
    expect(ranking).to_contain_text("Choose a class above")


# --- calibration ---------------------------------------------------------------------------------


def test_calibration_without_validation_answers_says_how_to_get_them(open_tab, root):
    page = open_tab("Calibration")
    view = page.locator("#calibration")
    page.locator("#calibration-model select").select_option("best")
    expect(view.locator(".vd-notice")).to_contain_text(f"python train.py evaluate {root / 'best'}")
    expect(view.locator("figure svg")).to_have_count(2)
    expect(view).not_to_contain_text("temperature of")
    answers = view.locator("tbody tr td:first-of-type").all_inner_texts()
    assert sum(map(int, answers)) == 200


def test_a_temperature_comes_from_validation_answers(open_tab):
    page = open_tab("Calibration")
    page.locator("#calibration-model select").select_option("<i>held")
    view = page.locator("#calibration")
    expect(page.locator("#calibration-model select")).to_have_value("<i>held")
    expect(view).to_contain_text("fitted on the 200 validation pictures (never on the test set)")
    expect(view.locator("thead th").last).to_have_text("Right of those, %")
    expect(view.locator(".vd-notice")).to_have_count(0)


# --- all models ----------------------------------------------------------------------------------


def test_the_table_of_models_is_timed_and_exported(open_tab):
    page = open_tab("Compare models")
    table = page.locator("#models table").first
    expect(table.locator("tbody th")).to_have_text(["<i>held", "best", "second"])
    page.get_by_role("button", name="Measure latency here").click()
    expect(page.locator("#latency")).to_contain_text("Median of at least 5 forward passes")
    cells = table.locator("tbody tr").last.locator("td")
    titles = table.locator("thead th").all_text_contents()[1:]
    one, many = (titles.index(f"{of} here (ms)") for of in ("1 picture", "32 pictures"))
    expect(cells.nth(one)).to_have_text(re.compile(r"^\d+\.\d$"))
    expect(cells.nth(many)).to_have_text(re.compile(r"^\d+\.\d$"))
    with page.expect_download() as download:
        page.locator("#models").get_by_role("button", name="Download CSV").click()
    text = download.value.path().read_text()
    assert text.startswith("Model,Test accuracy")
    assert "Recipe" in text  # which is not shown: it repeats the names
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[0]["Test accuracy (%)"] == "97.5"
    assert float(rows[-1]["1 picture here (ms)"]) == float(cells.nth(one).inner_text())


def test_the_table_tells_once_what_all_models_share(open_tab):
    page = open_tab("Compare models", width=390)
    table = page.locator("#models table").first
    expect(table.locator("tbody tr")).to_have_count(3)
    titles = table.locator("thead th:visible").all_text_contents()
    assert titles[:2] == ["Model", "Test accuracy (%)"]
    assert "1 picture here (ms)" not in titles  # not timed yet
    expect(page.locator("#models")).to_contain_text("The same for all: ")
    box = table.locator("tbody td").first.bounding_box()
    assert box["x"] + box["width"] <= 390  # the accuracy is seen without scrolling


def test_what_others_report_stands_apart(open_tab):
    page = open_tab("Compare models")
    reported = page.locator("#reported")
    expect(reported).to_contain_text("Reported elsewhere, not measured here")
    reported.get_by_text("figures and their sources").click()
    expect(reported.get_by_text("SHI-Labs/Compact-Transformers").first).to_be_visible()


def test_an_ingredient_is_seen_beside_any_run(open_tab):
    page = open_tab("Compare models")
    rows = page.locator("#gains tbody tr")
    expect(rows.locator("th")).to_have_text(["second", "<i>held", "best"])
    expect(rows.nth(2)).to_contain_text("model: resnet18 → vit")
    page.locator("#gains-base select").select_option("best")
    expect(rows.locator("th")).to_have_text(["best", "second", "<i>held"])  # an ingredient first
    expect(rows.nth(1)).to_contain_text("−7.5")
    expect(rows.nth(2)).to_contain_text("nothing: the same recipe")
    with page.expect_download() as download:
        page.locator("#gains").get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "beside-best.csv"
    assert "model: vit → resnet18" in download.value.path().read_text()


def test_without_pictures_robustness_names_the_way_out(open_tab):
    page = open_tab("Compare models")
    expect(page.locator("#robust-models").get_by_role("checkbox").first).to_be_checked()
    page.get_by_role("button", name="Measure robustness").click()
    expect(page.locator("#robustness .vd-notice").first).to_contain_text("train.py download")


def test_robustness_draws_a_curve_for_each_change(open_page, root, put_pictures):
    data = put_pictures({f"{part}/{name}": 2 for part in ("train", "test") for name in CLASSES})
    with serve("--runs", str(root), "--data", str(data)) as address:
        page = open_page(address)
        page.get_by_role("tab", name="Compare models").click()
        page.locator("#robust-models").get_by_role("checkbox", name="<i>held").uncheck()
        page.locator("#robust-changes").get_by_role("checkbox", name="Noise").uncheck()
        page.get_by_role("button", name="Measure robustness").click()
        robust = page.locator("#robustness")
        expect(robust.locator("tbody th")).to_have_text(["best", "second"])
        expect(robust.locator("figcaption")).to_have_text(["Blur"])
        expect(robust.locator("[id^='curve-']")).to_have_count(2)
        expect(robust).to_contain_text("of 20 test pictures")
        page.close()


def test_robustness_asks_for_a_choice(open_tab):
    page = open_tab("Compare models")
    for name in ("Noise", "Blur"):
        page.locator("#robust-changes").get_by_role("checkbox", name=name).uncheck()
    page.get_by_role("button", name="Measure robustness").click()
    expect(page.locator("#robustness")).to_contain_text("Choose a model and a change above.")


# --- everywhere ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_nothing_is_wider_than_the_window(open_tab, width, scheme):
    page = open_tab("Per-class metrics", width=width, scheme=scheme)
    for name, place in {
        "Per-class metrics": "#ranking svg",
        "Calibration": "#calibration svg",
        "Compare models": "#models table",
    }.items():
        go_to(page, name)
        page.locator(place).first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_diverged_run_is_named_in_every_tab(open_page, tmp_path):
    run = make_run(tmp_path / "runs" / "bad")
    broken = run.evaluation.probabilities * np.nan
    runs.write_evaluation(run.path, replace(run.evaluation, probabilities=broken))
    with serve("--runs", str(tmp_path / "runs"), "--data", str(tmp_path / "none")) as address:
        page = open_page(address)
        for name in ("Per-class metrics", "Calibration", "Compare models"):
            page.get_by_role("tab", name=name).click()
            notice = page.get_by_role("tabpanel").locator(".vd-notice:visible").first
            expect(notice).to_contain_text("The evaluation of 'bad' cannot be used: NaN")
        page.close()
