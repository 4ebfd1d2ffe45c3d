"""Per-class metrics and Compare models in a real Chromium."""

import csv
import io
import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.actions import choose_option, export, open_tab, unfold
from tests.support import held_tasks
from tests.support.factories import (
    CLASSES,
    RESNET,
    VIT,
    make_context,
    make_evaluation,
    make_run,
    write_noise_images,
)
from tests.support.serving import serve
from vitdemo import runs


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Folder of runs: "best", "second" (all cats wrong), "<i>held" (as "best")."""
    root = tmp_path_factory.mktemp("compared")
    make_run(root / "best", VIT)
    second = make_run(root / "second", RESNET, seed=1)
    probabilities = make_evaluation(1).probabilities.copy()
    probabilities[60:80] = np.eye(10, dtype=np.float32)[5]  # all cats predicted as dogs
    runs.write_evaluation(second.path, replace(second.evaluation, probabilities=probabilities))
    make_run(root / "<i>held", VIT, seed=2)
    return root


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Image folder with the classes of the runs."""
    counts = {f"{part}/{name}": 2 for part in ("train", "test") for name in CLASSES}
    return write_noise_images(tmp_path_factory.mktemp("data"), counts)


@pytest.fixture(scope="module")
def address(root, data):
    folders = "--runs", str(root), "--data", str(data)
    with serve(*folders, program=held_tasks.PROGRAM) as address:
        yield address


@pytest.fixture(scope="module")
def compared_views(view_server, root):
    """Address of the views of these runs, without a dataset."""
    return view_server.add(make_context(root))


@pytest.fixture(scope="module")
def measured_views(view_server, root, data):
    """Address of the views of these runs, with a dataset."""
    return view_server.add(make_context(root, data_root=data))


@pytest.fixture(scope="module")
def page(address, open_shared):  # the page ends before its server
    """Shared page; each test uses a tab, or a part of one, that no other test changes."""
    page = open_shared(address)
    page.locator("#answers .card").first.wait_for()
    return page


# The ends of each interval, and the value between them, in percent of the plot's width.
JS_WHISKERS = """all => all.map((line) => {
    const circle = line.parentElement.querySelector("circle.chosen");
    const ends = [line.getAttribute("x1"), circle.getAttribute("cx"), line.getAttribute("x2")];
    return ends.map(parseFloat);
})"""


def test_a_second_model_is_compared_and_curves_follow_the_classes(page):
    open_tab(page, "Per-class metrics")
    table, ranking, pair = (page.locator(f"#{p}") for p in ("per-class", "ranking", "paired-test"))
    page.locator("#results-model select").select_option("best")
    expect(table).to_contain_text("best classifies 97.50% of 200 test images correctly")
    classes = table.locator(".rows button")
    expect(classes).to_have_count(10)
    expect(classes.first).to_have_attribute("aria-pressed", "true")  # cat, the worst class
    expect(classes.first.locator("circle")).to_have_count(2)
    expect(classes.first).to_have_accessible_name(re.compile(r"cat: precision .*; recall 0\.750 "))
    # Each interval reaches from below its value to above it, unless the value is 1.
    ends = table.locator(".rows line.whisker").evaluate_all(JS_WHISKERS)
    assert any(high > value for _, value, high in ends)
    assert all(low < value <= high for low, value, high in ends)
    expect(table.locator("table")).to_be_hidden()
    table.get_by_text("Table of all metrics").click()
    tracks = table.locator("tbody tr td:last-child .vd-track")
    expect(tracks).to_have_count(10)  # all bars of a column have the same scale
    cell = table.locator("tbody tr:first-child td:last-child .vd-bar b")
    longest = "cell => { for (const node of cell.childNodes) node.data &&= '> 0.999'; }"
    cell.evaluate(longest)  # the longest possible text, without removing the template's nodes
    widths = tracks.evaluate_all("all => all.map(track => Math.round(track.clientWidth))")
    assert len(set(widths)) == 1 and widths[0] > 40, widths
    table.get_by_role("button", name="F1", exact=True).click()  # worst first
    expect(table.locator("tbody th").first).to_have_text("cat")
    expect(table.locator("tfoot th")).to_have_text(["Macro average", "Weighted average"])
    expect(pair).to_have_text("")
    page.locator("#results-other select").select_option("second")
    expect(pair).to_contain_text(
        "Only best is correct on 15 images, and only second is correct on 0. The difference is "
        "significant (p < 0.001)."
    )
    expect(classes.first.locator("circle.other")).to_have_count(1)  # second never predicts cat
    expect(classes.nth(1).locator("circle.other")).to_have_count(2)
    pair.get_by_text("Paired test of each class").click()
    cat = pair.locator("tbody tr").nth(3)
    expect(cat.locator("td").nth(1)).to_have_text("+75.0")
    expect(cat.locator("td").last).to_have_text("best")
    curves = ranking.locator("[id*='curve-']")
    expect(curves).to_have_count(4)  # two models, two figures
    page.locator("#results-other select").select_option("")
    expect(pair).to_have_text("")
    expect(curves).to_have_count(2)
    page.locator("#results-model select").select_option("second")
    names = ranking.locator("tbody th")
    expect(names).to_have_text(["cat"])  # the worst one
    choose_option(page, "#curve-classes", "dog")
    expect(names).to_have_text(["cat", "dog"])
    expect(ranking.locator("figure svg")).to_have_count(2)
    area = ranking.locator("tbody tr").nth(1).locator("td").nth(1)
    expect(area.locator("small")).to_have_text(re.compile(r"^[01]\.\d{3} to [01]\.\d{3}$"))
    lines = export(page, "CSV: Points of the curves").path().read_text().splitlines()
    assert lines[0] == "class,model,curve,x,y,threshold"
    assert lines[1].startswith("cat,second,ROC,0.00000,0.00000,")
    classes.filter(has_text="ship").hover()
    expect(table.locator(".reading")).to_contain_text("ship: precision ")
    classes.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    second = classes.nth(1).get_attribute("data-pick")
    expect(names).to_have_text([second])  # the chosen class instead of cat and dog
    expect(page.locator("#curve-classes")).to_contain_text(second)
    expect(classes.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(classes.nth(1)).to_be_focused()
    page.locator("#curve-classes").get_by_role("button", name="Remove").first.click()
    expect(ranking).to_contain_text("Choose a class above")


def test_url_restores_models_and_classes_and_a_lesson_resets_them(open_views, compared_views):
    chosen = "metrics.model=second&metrics.other=best&metrics.classes=ship,dog"
    places = "results-model+results-other+per-class+paired-test+ranking"
    page = open_views(compared_views, places, f"{chosen}&calibration.model=best", is_new=True)
    expect(page.locator("#per-class")).to_contain_text("second classifies")
    expect(page.locator("#paired-test h2")).to_have_text("second and best on the same images")
    names = page.locator("#ranking tbody th")
    expect(names).to_have_text(["ship", "ship", "dog", "dog"])
    expect(page.locator("#results-other select")).to_have_value("best")
    now = ("metrics.classes=ship,dog", "results.model=second", "results.other=best")
    page.wait_for_url(lambda url: all(each in url for each in now) and "metrics.model" not in url)
    page.evaluate("vitdemo.store.open('')")  # as a lesson does
    expect(page.locator("#per-class")).to_contain_text("<i>held classifies")
    expect(page.locator("#paired-test")).to_have_text("")
    expect(names).to_have_text(["cat"])
    expect(page.locator("#results-model select")).to_have_value("<i>held")
    expect(page.locator("#results-other select")).to_have_value("")
    page.wait_for_url(lambda url: "results.model" not in url and "calibration" not in url)


def test_url_contains_chosen_classes_with_commas_but_no_default(open_page, serve_runs, tmp_path):
    make_run(tmp_path / "runs" / "vit", classes=("ship, small", "100%", *CLASSES[2:]))
    page = open_page(serve_runs())
    names = page.locator("#ranking tbody th")
    for _ in range(2):
        open_tab(page, "Per-class metrics")
        expect(names).to_have_text(["cat"])  # the class with the lowest F1
        expect(page.locator("#curve-classes")).to_contain_text("cat")
        assert "metrics.classes" not in page.url
        page.evaluate("vitdemo.store.open('?tab=explore')")  # as a lesson does
    open_tab(page, "Per-class metrics")
    for number, name in enumerate(["ship, small", "100%"], start=2):
        choose_option(page, "#curve-classes", name)
        expect(names).to_have_count(number)
    page.wait_for_url(re.compile("metrics.classes=cat,ship"))
    page = open_page(page.url)  # a reload would abort open requests, which gradio reports
    expect(names).to_have_text(["cat", "ship, small", "100%"])
    expect(page.locator("#curve-classes")).to_contain_text("ship, small")


def test_new_run_is_offered_when_the_tab_opens_again(open_page, serve_runs, tmp_path):
    make_run(tmp_path / "runs" / "first")
    page = open_page(serve_runs())
    for name in ("Per-class metrics", "Confusion matrix"):
        run = f"trained before {name}"
        open_tab(page, name)
        options = page.locator("#results-model option")
        expect(options.first).to_be_attached()
        open_tab(page, "Explore")
        make_run(tmp_path / "runs" / run)
        open_tab(page, name)
        expect(options.filter(has_text=run)).to_have_count(1)


def overlap(one: dict, other: dict) -> bool:
    """Return whether two boxes share more than three pixels, the space above letters."""

    def share(start: str, size: str) -> float:
        ends = [box[start] + box[size] for box in (one, other)]
        return min(ends) - max(one[start], other[start])

    return share("x", "width") > 0 and share("y", "height") > 3


JS_CENTRES = "dots => dots.map(({ cx, cy }) => [cx.baseVal.value, cy.baseVal.value])"


def test_dots_show_a_card_and_open_their_model(open_views, compared_views):
    page = open_views(compared_views, "model+model-scatter")
    scatter = page.locator("#model-scatter")
    dots, card = scatter.locator(".dot"), scatter.locator(".shown")
    expect(dots).to_have_count(3)
    expect(card).to_be_hidden()
    second = scatter.locator("[data-pick=second]")
    second.hover()
    expect(card).to_contain_text("Test accuracy")
    expect(card.locator("strong")).to_have_text("second")
    scatter.get_by_role("button", name="Multiply-adds", exact=True).click()
    expect(scatter).to_contain_text("multiply-adds per image (million)")
    page.wait_for_url(re.compile(r"compare\.x=macs"))
    expect(scatter).to_contain_text("3 runs without this value are not shown.")
    expect(dots).to_have_count(0)
    scatter.get_by_role("button", name="Parameters", exact=True).click()
    scatter.locator(".dot[tabindex='0']").focus()
    page.keyboard.press("Home")
    first = scatter.locator(".dot:focus").get_attribute("data-pick")
    expect(card.locator("strong")).to_have_text(first)
    page.keyboard.press("ArrowRight")
    name = scatter.locator(".dot:focus").get_attribute("data-pick")
    assert name != first
    page.keyboard.press("Enter")
    expect(page.locator("#model select")).to_have_value(name)
    page.wait_for_function("vitdemo.store.state.tab === 'explore'")  # which the page opens


def test_included_models_have_readable_labels_and_failed_runs_are_apart(
    view_server, shipped, open_views
):
    page = open_views(view_server.add(shipped), "model-scatter+per-class")
    scatter = page.locator("#model-scatter")
    for axis in ("Parameters", "Multiply-adds", "Training time"):
        scatter.get_by_role("button", name=axis, exact=True).click()
        names = scatter.locator("svg text.name")
        expect(names.filter(has_text="finetune-deit-tiny")).to_have_count(1)
        boxes = [names.nth(i).bounding_box() for i in range(names.count())]
        assert not any(itertools.starmap(overlap, itertools.combinations(boxes, 2)))
        centres = scatter.locator(".dot").evaluate_all(JS_CENTRES)
        assert all(math.dist(*pair) > 1 for pair in itertools.combinations(centres, 2))
    assert scatter.locator("svg").bounding_box()["width"] > 0.9 * page.viewport_size["width"]
    failed = scatter.locator(".failed button")
    expect(failed).to_have_text([re.compile("too-fast"), re.compile("shuffled-labels")])
    expect(scatter.locator("[data-pick='vit-plain-cpu-too-fast']")).to_have_count(0)
    scatter.locator("[data-pick=resnet18]").click()
    expect(page.locator("#per-class")).to_contain_text("resnet18 classifies")
    page.wait_for_url(re.compile("results.model=resnet18"))
    page.wait_for_function("vitdemo.store.state.tab === 'metrics'")  # which the page opens


def open_model_table(page) -> None:
    open_tab(page, "Compare models")
    expect(page.locator("#model-scatter .dot").first).to_be_visible()
    expect(page.locator("#models table")).to_have_count(0)  # folded
    page.get_by_role("button", name="Table of all models").click()


def test_model_table_shows_latency_exports_csv_and_fits_a_phone(page):
    open_model_table(page)
    table = page.locator("#models table").first
    expect(table.locator("tbody th")).to_have_text(["<i>held", "best", "second"])
    expect(page.locator("#models")).to_contain_text("Same value for all models: ")
    titles = table.locator("thead th:visible")
    expect(titles.nth(1)).to_have_text("Test accuracy (%)")
    latency = table.locator("thead th", has_text="Latency, 1 image (ms)")
    expect(latency).to_be_hidden()
    page.get_by_role("button", name="Measure latency", exact=True).click()
    expect(page.locator("#latency")).to_contain_text("Median of at least 5 forward passes")
    expect(latency).to_be_visible()
    column = titles.all_text_contents().index("Latency, 1 image (ms)")
    latency_cell = table.locator("tbody tr").last.locator("td:visible").nth(column - 1)
    expect(latency_cell).to_have_text(re.compile(r"^\d+\.\d$"))
    text = export(page, "CSV: vitdemo-models").path().read_text()
    assert "Recipe" in text  # a hidden column, since it repeats the names
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[0]["Test accuracy (%)"] == "97.5"
    assert float(rows[-1]["Latency, 1 image (ms)"]) == float(latency_cell.inner_text())
    page.set_viewport_size({"width": 390, "height": 844})
    box = table.locator("tbody td").first.bounding_box()
    assert box["x"] + box["width"] <= 390  # the accuracy is visible without scrolling
    page.set_viewport_size({"width": 1280, "height": 900})


def test_ablation_with_any_baseline_and_robustness_with_a_curve_per_change(
    open_views, measured_views
):
    places = "gains-base+gains+robust-models+robust-changes+robustness"
    page = open_views(measured_views, places)
    rows = page.locator("#gains tbody tr")
    unfold(page.locator("#gains"))
    expect(rows.locator("th")).to_have_text(["second", "<i>held", "best"])
    expect(rows.nth(2)).to_contain_text("model: resnet18 → vit")
    page.locator("#gains-base select").select_option("best")
    expect(rows.locator("th").first).to_have_text("best")
    unfold(page.locator("#gains"))
    expect(rows.locator("th")).to_have_text(["best", "second", "<i>held"])  # single changes first
    expect(rows.nth(1)).to_contain_text("−7.5")
    expect(rows.nth(2)).to_contain_text("none (same recipe)")
    expect(rows.nth(1)).to_contain_text("model: vit → resnet18")
    robust, changes = page.locator("#robustness"), page.locator("#robust-changes")
    measure = page.get_by_role("button", name="Measure robustness")
    page.locator("#robust-models").get_by_role("checkbox", name="<i>held").uncheck()
    changes.get_by_role("checkbox", name="Noise").uncheck()
    measure.click()
    expect(robust.locator("tbody th")).to_have_text(["best", "second"])
    expect(robust.locator("figcaption")).to_have_text(["Blur"])
    expect(robust.locator("[id^='curve-']")).to_have_count(2)
    expect(robust).to_contain_text("on 20 test images")
    changes.get_by_role("checkbox", name="Blur").uncheck()
    measure.click()
    expect(robust).to_contain_text("Choose at least one model and one change above.")


def test_choices_are_in_the_url_and_results_stay_visible(address, open_page, root):
    options = "compare.base=best&robust-models=best&compare.changes=blur&compare.count=200"
    page = open_page(f"{address}?{options}&tab=compare")
    unfold(page.locator("#gains"))
    expect(page.locator("#gains tbody th").first).to_have_text("best")
    expect(page.locator("#gains-base select")).to_have_value("best")
    expect(page.locator("#robust-models").get_by_role("checkbox", checked=True)).to_have_count(1)
    changes = page.locator("#robust-changes").get_by_role("checkbox", checked=True)
    expect(changes).to_have_count(1)
    robust = page.locator("#robustness")
    measure = robust.get_by_role("button", name="Measure robustness")
    cancel = robust.get_by_role("button", name="Cancel")
    expect(cancel).to_have_count(0)
    hold = root / held_tasks.HOLD_FILE
    hold.touch()
    measure.click()
    expect(cancel).to_be_visible()
    page.locator("#gains-base select").select_option("second")  # does not cancel the measurement
    page.locator("#robust-changes").get_by_role("checkbox", name="Noise").check()
    page.wait_for_url(re.compile("compare.base=second"))
    expect(cancel).to_be_visible()
    hold.unlink()
    expect(robust.locator("tbody th")).to_have_text(["best"])
    expect(measure).to_be_enabled()
    expect(cancel).to_have_count(0)
    page = open_page(f"{address}?{options}&tab=compare")
    expect(page.locator("#robustness figcaption")).to_have_text(["Blur"])
    page.locator("#robust-changes").get_by_role("checkbox", name="Blur").uncheck()
    expect(page.locator("#robustness figcaption")).to_have_count(0)


def test_diverged_run_is_reported_in_every_tab(open_views, view_runs, tmp_path):
    run = make_run(tmp_path / "runs" / "bad")
    broken = run.evaluation.probabilities * np.nan
    runs.write_evaluation(run.path, replace(run.evaluation, probabilities=broken))
    places = ("per-class", "model-scatter")
    page = open_views(view_runs(), "+".join(places))
    for place in places:
        notice = page.locator(f"#{place} .vd-notice:visible").first
        expect(notice).to_contain_text("The evaluation of 'bad' cannot be used: NaN")
