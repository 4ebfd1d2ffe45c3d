"""The tab Train in a real Chromium: plots, tables, settings and the report."""

import itertools
import re

import pytest
from playwright.sync_api import expect

from tests.browser.actions import (
    download,
    download_image,
    fill_slider,
    fits_window,
    open_export_menu,
    open_fold,
    open_tab,
    record_model_requests,
    unfold,
    wait_for_frames,
    wait_until_idle,
)
from tests.support.factories import (
    declare_ablation,
    make_history_record,
    make_run,
    make_unfinished_run,
)
from vitdemo import runs
from vitdemo.page.training import results
from vitdemo.page.training.curves import NO_SELECTION_MESSAGE

UPDATE_INTERVAL_MS = 6000  # milliseconds between updates of an open tab
# Clicks the first visible element `label` as soon as it exists, while gradio creates the rest.
JS_CLICK_EARLY = """label => {
    const timer = setInterval(() => {
        const found = [...document.querySelectorAll(label)].find((each) => each.checkVisibility());
        if (!found) return;
        clearInterval(timer);
        found.click();
    }, 5);
}"""
EVIL = '<b>${alert("1")}`'  # a possible name of a run folder


def open_with_fake_clock(open_page, address):
    """Open the page with a clock that the test can advance."""
    page = open_page("about:blank", stranger=True)  # the clock is replaced in all tabs
    page.clock.install()
    page.goto(address)
    return page


@pytest.fixture(scope="module")
def progress(open_shared, page_url):
    """Page that tests share; each of them selects all runs again."""
    page = open_shared(page_url)
    open_tab(page, "Train")
    page.locator("#plots svg").nth(2).wait_for()
    return page


def chosen_runs(page):
    """Return the ticked entries of the legend."""
    return page.locator("#runs .entry:has(:checked)")


def test_the_first_screen_has_the_form_and_the_accuracy_of_the_chosen_runs(open_page, page_url):
    page = open_page(f"{page_url}?tab=training", width=1366)
    page.set_viewport_size({"width": 1366, "height": 768})
    page.locator("#plots svg").nth(2).wait_for()
    form = page.locator("#train-here").bounding_box()
    accuracy, loss, gap = (page.locator("#plots figure").nth(i).bounding_box() for i in range(3))
    problems = page.locator("#header .problems").bounding_box()  # of a damaged run, without data
    assert form["x"] + form["width"] < accuracy["x"]
    assert accuracy["y"] + accuracy["height"] - problems["height"] <= 768
    assert loss["y"] == gap["y"] > accuracy["y"]
    expect(page.locator("#preset input")).to_have_value("First steps")
    expect(page.locator("#training-settings input")).to_have_count(5)
    expect(page.locator("#cost")).to_contain_text("not measured yet")
    expect(page.locator("#train-dataset .get")).to_be_visible()  # until then, no start button
    expect(page.locator("#start-training")).to_be_hidden()


def test_lines_are_labelled_at_their_ends_without_overlap(progress):
    page = progress
    expect(page.locator("#plots svg")).to_have_count(3)

    def labels(i):
        return page.locator("#plots figure").nth(i).locator(".end")

    names = ["resnet", "timm", "vit"]
    assert sorted(labels(0).all_text_contents()) == sorted([*names, *["training"] * 3])
    assert sorted(labels(1).all_text_contents()) == names
    rows = sorted(each.bounding_box()["y"] for each in labels(0).all())
    assert all(low + 8 < high for low, high in itertools.pairwise(rows))
    places = page.evaluate(
        "() => vitdemo.load('components/line_labels.js')"
        ".then(({ separateLabels }) => [[5, 6, 90], [95, 99], [1, 2, 3]]"
        ".map((each, i) => separateLabels(each, [0, i < 2 ? 100 : 20])))"
    )
    assert places == [[5, 16, 90], [89, 100], None]


def test_labels_of_plots_are_readable_on_a_phone(progress):
    progress.set_viewport_size({"width": 390, "height": 900})
    wait_for_frames(progress)
    assert fits_window(progress)
    label = progress.locator("#plots svg text").first
    scale = label.evaluate("(each) => each.getScreenCTM().a")
    assert 11 * scale >= 9.5  # pixels
    progress.set_viewport_size({"width": 1280, "height": 900})


def test_plots_follow_the_chosen_runs_from_none_to_all(progress):
    page = progress
    expect(page.locator("#plots svg")).to_have_count(3)
    open_fold(page, "Runs and axes", "#runs .entry")
    expect(chosen_runs(page)).to_have_text(["resnet", "timm", "vit"])
    requests = record_model_requests(page, results.VIEW)
    page.locator("#learning summary").first.click()
    expect(page.locator("#learning svg")).to_have_count(2)  # learning rate, time per epoch
    assert len(requests) == 1  # the results of all epochs are sent while they are visible
    unfold(page.locator("#learning .article"))
    expect(page.locator("#learning")).to_contain_text("97.50")
    lines, box = page.locator("#plots [id^='curve-']"), page.locator("#runs")
    expect(lines).to_have_count(15)  # three runs with five curves each
    select_all = box.get_by_role("checkbox", name="Select all: Models")
    select_all.uncheck()
    expect(page.locator("#plots")).to_contain_text(NO_SELECTION_MESSAGE)
    expect(lines).to_have_count(0)
    expect(page.locator("#learning .article")).to_have_text(NO_SELECTION_MESSAGE)
    page.locator("#report button").click()
    expect(page.get_by_text("Choose at least one run").first).to_be_visible()
    box.get_by_role("checkbox", name="vit").check()
    expect(lines).to_have_count(5)
    box.get_by_role("checkbox", name="resnet").check()
    expect(lines).to_have_count(10)
    assert select_all.evaluate("box => [box.checked, box.indeterminate]") == [False, True]
    button = open_export_menu(page).get_by_role("button", name="PNG: Accuracy")
    image, name = download_image(page, button)
    assert name.startswith("vitdemo-accuracy-of-")
    assert image.width > 600
    assert len(image.getcolors(1 << 24)) > 10  # lines on their background
    file = download(page, page.locator("#report button"))  # of the chosen runs
    name = r"report-resnet-and-1-more-\d{4}-\d\d-\d\d-\d{4}.html"
    assert re.fullmatch(name, file.suggested_filename)
    text = file.path().read_text(encoding="utf-8")
    assert "<title>resnet, vit: training report</title>" in text
    select_all.check()
    expect(lines).to_have_count(15)


def test_the_slider_reads_values_and_settings_redraw_the_plots(progress):
    figures, readouts = progress.locator("#plots figure"), progress.locator("#plots .said")
    strips = figures.first.locator(".strip")
    expect(strips).to_have_count(3)  # one per epoch
    title = strips.nth(1).locator("title").text_content()
    assert title.splitlines()[0] == "epoch 2"
    assert "vit: validation 70.00, training 75.00%" in title
    strips.nth(1).hover()
    assert strips.nth(1).evaluate("strip => getComputedStyle(strip).fillOpacity") == "0.07"
    slider = progress.get_by_label("Show values at epoch")
    slider.focus()
    progress.keyboard.press("ArrowLeft")
    expect(readouts.first).to_contain_text("epoch 2\n")
    expect(readouts.nth(1)).to_contain_text("vit: validation 1.1, training 1 loss")
    expect(progress).to_have_url(re.compile("training.epoch=2"))  # which the animation follows
    expect(slider).to_have_attribute("aria-valuetext", "epoch 2")
    figures.nth(1).locator(".strip").first.dispatch_event("click")
    expect(readouts.first).to_contain_text("epoch 1\n")
    expect(slider).to_have_value("0")
    expect(progress.locator("#plots figure[aria-label$='by epoch']")).to_have_count(3)
    open_fold(progress, "Runs and axes", "#runs .entry")
    requests = record_model_requests(progress)
    progress.get_by_role("radio", name="Minutes").check()
    expect(progress.locator("#plots figure[aria-label$='by minutes']")).to_have_count(3)
    fill_slider(progress, "#smoothing", 0.5)
    lines = progress.locator("#plots [id^='curve-']")
    expect(lines).to_have_count(30)  # each also with its unsmoothed values
    before = figures.nth(1).inner_html()  # the loss
    progress.get_by_role("radio", name="Logarithmic").check()
    progress.wait_for_function(
        "before => document.querySelector('#plots .wide').innerHTML !== before", arg=before
    )
    assert requests == []
    settings = ["training.axis=minutes", "training.smoothing=0.5", "training.scale=log"]
    expect(progress).to_have_url(re.compile(re.escape("&".join(settings))))
    assert "runs=" not in progress.url  # all runs, as at the start


def test_smoothing_matches_hand_worked_values(progress):
    def smooth(*arguments):
        load = "vitdemo.load('components/line_plots.js')"
        return progress.evaluate(
            f"(each) => {load}.then(({{ smoothCurve }}) => smoothCurve(...each))", [*arguments]
        )

    assert smooth([1, 2, 4], 0) == [1, 2, 4]
    # Weight 0.5 gives 1, (0.25*1 + 0.5*2)/0.75 and (0.125*1 + 0.25*2 + 0.5*4)/0.875.
    assert smooth([1, 2, 4], 0.5) == pytest.approx([1, 1.25 / 0.75, 2.625 / 0.875])
    assert smooth([None, 1, None, 4], 0.5) == [None, 1, None, pytest.approx(4.25 / 1.25)]
    assert smooth([], 0.9) == []


@pytest.mark.parametrize("fold", ["training-choices", "ingredients", "upload-model"])
def test_a_fold_that_is_opened_early_stays_open(open_page, page_url, fold):
    """Gradio closes it again while it creates the rest of the tab."""
    page = open_page("about:blank", stranger=True)
    label = f"#{fold} .label-wrap"
    page.add_init_script(f"({JS_CLICK_EARLY})({label!r})")
    page.goto(f"{page_url}?tab=training")
    page.locator("#plots svg").nth(2).wait_for()
    wait_until_idle(page)
    expect(page.locator(label)).to_contain_class("open")


def test_url_selects_runs_and_updates_stop_in_hidden_tabs(open_page, serve_runs, tmp_path):
    for name in ("timm", "vit"):
        make_run(tmp_path / "runs" / name)
    make_unfinished_run(tmp_path / "runs" / "growing")
    page = open_with_fake_clock(open_page, f"{serve_runs()}?tab=training&runs=timm,gone")
    page.get_by_role("button", name="Runs and axes").click()
    expect(chosen_runs(page)).to_have_text(["timm"])
    expect(page.locator("#runs").get_by_role("checkbox", name="vit")).not_to_be_checked()
    wait_until_idle(page)

    def requests_after_interval():
        requests = record_model_requests(page)
        page.clock.fast_forward(UPDATE_INTERVAL_MS)
        wait_until_idle(page)
        return requests

    assert requests_after_interval()
    open_tab(page, "Explore")
    wait_until_idle(page)
    assert requests_after_interval() == []
    open_tab(page, "Train")
    wait_until_idle(page)
    assert requests_after_interval()


def test_a_run_in_progress_updates_automatically(open_page, serve_runs, tmp_path):
    run = make_unfinished_run(tmp_path / "runs" / "growing", epochs=2)
    page = open_with_fake_clock(open_page, serve_runs())
    open_tab(page, "Train")
    page.get_by_role("button", name="Runs and axes").click()
    table, box = page.locator("#learning"), page.locator("#runs")
    table.get_by_text("More about these runs").click()
    unfold(table.locator(".article"))
    expect(table).to_contain_text("70.00")
    runs.append_record(run.path, make_history_record(3))
    page.clock.fast_forward(UPDATE_INTERVAL_MS)
    expect(table).to_contain_text("80.00")
    mixed = make_run(tmp_path / "<b>mixed", epochs=3)
    recipe = mixed.config["recipe"] | {"mixup": 0.5, "warmup_epochs": 1.5}
    runs.write_config(mixed.path, mixed.config | {"recipe": recipe})
    worse = [make_history_record(epoch) | {"train_accuracy": 0.2} for epoch in (1, 2, 3)]
    runs.rewrite_history(mixed.path, worse)
    mixed.path.rename(run.path.with_name("<b>mixed"))  # a new run
    page.clock.fast_forward(UPDATE_INTERVAL_MS)
    box.get_by_role("checkbox", name="<b>mixed").check()
    box.get_by_role("checkbox", name="growing").uncheck()
    expect(table.locator("tbody tr").first).to_contain_text("<b>mixed")
    expect(table.locator("tbody tr").first).to_contain_text("epoch 3, 1.5 min")  # to 80%
    expect(table).to_contain_text("<b>mixed, after 1.5 epochs: warm-up")
    expect(page.locator("#plots [id^='mark-']")).to_have_count(3)
    table.get_by_text("Why?").first.click()
    expect(table.get_by_text("With MixUp, each training image is a mixture")).to_be_visible()


def test_ablation_groups_open_and_link_to_the_ablation_table(open_page, serve_runs, tmp_path):
    """Use a model with weights and an ablation without weights."""
    root = tmp_path / "runs"
    make_run(root / "model")
    changes = {EVIL: {}, "longer": {"epochs": 9}, "trivial": {"policy": "trivial"}}
    for name, change in (changes | {"ema": {"ema_decay": 0.9}}).items():
        run = make_run(root / name, epochs=2)
        recipe = run.config["recipe"] | {"flip": False, "crop_padding": 0, "cutout": 4} | change
        runs.write_config(run.path, run.config | {"recipe": recipe})
        declare_ablation(runs.read_run(run.path), "".join(change), EVIL)
        (run.path / runs.WEIGHTS_FILE).unlink()
    page = open_page(serve_runs())
    open_tab(page, "Train")
    open_fold(page, "Runs and axes", "#runs .entry")
    legend, box = chosen_runs(page), page.locator("#runs")
    expect(legend).to_have_text(["model"])
    expect(box.locator("summary")).to_have_text(["More runs0 of 4", f"Ablation of {EVIL}0 of 4"])
    expect(box.get_by_role("checkbox", name="trivial")).to_be_hidden()  # its group is closed
    box.get_by_text("More runs").click()
    only = box.get_by_role("button", name=f"Select only these: Ablation of {EVIL}")
    only.click()
    expect(legend).to_have_text([EVIL, "ema", "longer", "trivial"])
    expect(box.get_by_role("checkbox", name="model", exact=True)).not_to_be_checked()
    wait_until_idle(page)
    make_run(root / "newcomer", epochs=1)
    box.get_by_role("checkbox", name="model", exact=True).check()
    expect(legend).to_have_count(6)
    box.locator(".entry").get_by_role("checkbox", name="ema").click()  # leaves the legend
    expect(legend).to_have_count(5)
    only.click()
    expect(legend).to_have_count(4)
    open_tab(page, "Compare models")
    base = page.locator("#gains-base select")
    expect(base.locator("optgroup").last).to_have_attribute("label", f"Ablation of {EVIL}")
    unfold(page.locator("#gains"))
    base.select_option("ema")
    expect(page.locator("#gains tbody tr").first).to_contain_text("ema")
    open_tab(page, "Train")
    page.get_by_text("More about these runs").click()
    page.get_by_role("button", name=f"Show the ablation of {EVIL}").click()
    compare = page.get_by_role("tab", name="Compare models")
    expect(compare).to_have_attribute("aria-selected", "true")
    expect(base).to_have_value(EVIL)
    expect(page.locator("#gains tbody tr").first).to_contain_text(EVIL)
    expect(page.locator("#gains")).to_contain_text("Not significant on these test images: ")
    open_tab(page, "Train")
    # On a first visit the content above is rendered late, so the page is too short to scroll.
    page.add_style_tag(content=".late :is(#models, #gains) { display: none; }")
    page.evaluate("document.body.className = 'late'")
    page.evaluate("setTimeout(() => { document.body.className = ''; }, 1000)")
    page.get_by_role("button", name=f"Show the ablation of {EVIL}").click()
    expect(compare).to_have_attribute("aria-selected", "true")
    page.wait_for_timeout(1500)
    assert abs(page.locator("#gains-base").bounding_box()["y"]) < 60
