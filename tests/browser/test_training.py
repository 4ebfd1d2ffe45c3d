"""Training progress in a real Chromium: plots that follow the choices, words, and the report."""

import re

import pytest
from playwright.sync_api import expect

from tests.making import make_run, record
from tests.serving import serve
from vitdemo import runs


@pytest.fixture
def progress(open_page, page_url):
    page = open_page(page_url)
    page.get_by_role("tab", name="Training progress").click()
    page.locator("#plots svg").nth(4).wait_for()
    return page


def test_training_progress_draws_five_plots_and_the_figures(progress):
    page = progress
    expect(page.locator("#plots svg")).to_have_count(5)
    expect(page.locator("#plots .legend strong")).to_have_text(["resnet", "timm", "vit"])
    expect(page.locator("#learning")).to_contain_text("97.50")


def test_plots_follow_the_chosen_runs_from_none_to_all(progress):
    page = progress
    lines = page.locator("#plots [id^='curve-']")
    runs_box = page.locator("#runs")
    expect(lines).to_have_count(21)  # loss and accuracy twice, the others once, three runs
    every = runs_box.get_by_role("checkbox", name="All of Models")
    every.uncheck()
    expect(page.get_by_text("Choose a run above")).to_be_visible()
    expect(lines).to_have_count(0)
    runs_box.get_by_role("checkbox", name="vit").check()
    expect(lines).to_have_count(7)
    runs_box.get_by_role("checkbox", name="timm").check()
    expect(lines).to_have_count(14)
    assert every.evaluate("box => [box.checked, box.indeterminate]") == [False, True]


def test_an_address_says_which_runs(open_page, page_url):
    page = open_page(f"{page_url}?tab=training&runs=timm,gone")
    expect(page.locator("#plots .legend strong")).to_have_text(["timm"])
    expect(page.locator("#runs").get_by_role("checkbox", name="vit")).not_to_be_checked()


def test_a_growing_run_updates_by_itself(open_page, tmp_path):
    run = make_run(tmp_path / "runs" / "growing", epochs=2)
    with serve("--runs", str(run.path.parent), "--data", str(tmp_path / "none")) as address:
        page = open_page(address)
        page.get_by_role("tab", name="Training progress").click()
        expect(page.locator("#learning")).to_contain_text("70.00")
        runs.append_record(run.path, record(3))
        expect(page.locator("#learning")).to_contain_text("80.00")
        make_run(tmp_path / "runs" / "newcomer", epochs=1)
        expect(page.locator("#runs")).to_contain_text("newcomer")
        page.close()  # before its server, or the browser reports a lost connection


def test_minutes_smoothing_and_scale_redraw(progress):
    page = progress
    lines = page.locator("#plots [id^='curve-']")
    expect(page.locator("#plots figure[aria-label$='by epoch']")).to_have_count(5)
    page.get_by_role("radio", name="Minutes").check()
    expect(page.locator("#plots figure[aria-label$='by minutes']")).to_have_count(5)
    page.locator("#smoothing input[type=number]").fill("0.5")
    page.locator("#smoothing input[type=number]").press("Enter")
    expect(lines).to_have_count(42)  # each with its true values behind it
    loss = page.locator("#plots figure").first
    before = loss.inner_html()
    page.get_by_role("radio", name="Logarithmic").check()
    page.wait_for_function(
        "before => document.querySelector('#plots figure').innerHTML !== before", arg=before
    )


def test_the_values_can_be_read_without_a_pointer(progress):
    words = progress.locator("#plots .said")
    slider = progress.get_by_label("Read the curves at epoch")
    slider.focus()
    progress.keyboard.press("ArrowLeft")
    expect(words.first).to_contain_text("epoch 2\n")
    expect(words.nth(1)).to_contain_text("vit: validation 70.00, training 75.00 %")
    expect(slider).to_have_attribute("aria-valuetext", "epoch 2")
    progress.locator("#plots figure").nth(1).locator(".strip").first.dispatch_event("click")
    expect(words.first).to_contain_text("epoch 1\n")
    expect(slider).to_have_value("0")


def test_the_page_asks_for_news_only_while_the_tab_is_open(progress):
    def asked(seconds):
        heard = []
        progress.on("request", lambda request: heard.append(request.url))
        progress.wait_for_timeout(1000 * seconds)
        return [url for url in heard if "/queue/join" in url]

    assert asked(6)
    progress.get_by_role("tab", name="Look", exact=True).click()
    progress.wait_for_timeout(1000)
    assert asked(6) == []
    progress.get_by_role("tab", name="Training progress").click()
    assert asked(6)


def test_pointing_at_a_plot_says_all_values_there(progress):
    strips = progress.locator("#plots figure").first.locator(".strip")
    expect(strips).to_have_count(3)  # an epoch each
    words = strips.nth(1).locator("title").text_content()
    assert words.splitlines()[0] == "epoch 2"
    assert "vit: validation 1.1, training 1 loss" in words
    strips.nth(1).hover()
    assert strips.nth(1).evaluate("strip => getComputedStyle(strip).fillOpacity") == "0.07"


def test_milestones_and_reasons_stand_below_the_plots(open_page, tmp_path):
    run = make_run(tmp_path / "runs" / "<b>mixed", epochs=3)
    recipe = run.config["recipe"] | {"mixup": 0.5, "warmup_epochs": 1.5}
    runs.write_config(run.path, run.config | {"recipe": recipe})
    worse = [record(epoch) | {"train_accuracy": 0.2} for epoch in (1, 2, 3)]
    runs.rewrite_history(run.path, worse)
    with serve("--runs", str(run.path.parent), "--data", str(tmp_path / "none")) as address:
        page = open_page(address)
        page.get_by_role("tab", name="Training progress").click()
        words = page.locator("#learning")
        expect(words.locator("tbody tr").first).to_contain_text("epoch 3, 1.5 min")  # to 80 %
        expect(words).to_contain_text("<b>mixed, after 1.5 epochs: warm-up")
        expect(page.locator("#plots [id^='mark-']")).to_have_count(5)
        words.locator("summary").first.click()
        expect(words.get_by_text("Under MixUp the model sees two pictures")).to_be_visible()
        page.close()


def test_the_report_is_of_the_chosen_runs(progress):
    page = progress
    page.locator("#runs").get_by_role("checkbox", name="timm").uncheck()
    with page.expect_download() as download:
        page.locator("#report").click()
    name = r"report-resnet-and-1-more-\d{4}-\d\d-\d\d-\d{4}.html"
    assert re.fullmatch(name, download.value.suggested_filename)
    text = download.value.path().read_text(encoding="utf-8")
    assert "<title>resnet, vit: training report</title>" in text


def test_a_report_of_nothing_is_told(progress):
    progress.locator("#runs").get_by_role("checkbox", name="All of Models").uncheck()
    progress.locator("#report").click()
    expect(progress.get_by_text("Choose at least one run").first).to_be_visible()


@pytest.fixture
def many(tmp_path):
    """A model with its weights, and an ablation of which the figures alone are here."""
    root = tmp_path / "runs"
    make_run(root / "model")
    changes = {"<b>plain": {}, "longer": {"epochs": 9}, "trivial": {"policy": "trivial"}}
    for name, change in (changes | {"ema": {"ema_decay": 0.9}}).items():
        run = make_run(root / name, epochs=2)
        recipe = run.config["recipe"] | {"flip": False, "crop_padding": 0, "cutout": 4} | change
        runs.write_config(run.path, run.config | {"recipe": recipe})
        (run.path / runs.WEIGHTS).unlink()
    return root


def test_models_come_first_and_an_ablation_at_a_click(open_page, many, tmp_path):
    with serve("--runs", str(many), "--data", str(tmp_path / "none")) as address:
        page = open_page(address)
        page.get_by_role("tab", name="Training progress").click()
        drawn = page.locator("#plots .legend strong")
        expect(drawn).to_have_text(["model"])
        box = page.locator("#runs")
        expect(box.locator("summary")).to_have_text(["Models1 of 1", "Ablation of <b>plain0 of 4"])
        expect(box.get_by_role("checkbox", name="trivial")).to_be_hidden()  # its group is closed
        box.get_by_role("button", name="Only Ablation of <b>plain").click()
        expect(drawn).to_have_text(["<b>plain", "ema", "longer", "trivial"])
        expect(box.get_by_role("checkbox", name="model", exact=True)).not_to_be_checked()
        make_run(many / "newcomer", epochs=1)
        box.get_by_role("checkbox", name="All of Models").check()
        expect(drawn).to_have_count(6)
        box.locator("summary", has_text="Ablation").click()
        box.get_by_role("checkbox", name="ema").uncheck()
        expect(drawn).to_have_count(5)
        page.close()


def test_an_ablation_leads_to_what_its_ingredients_bought(open_page, many, tmp_path):
    with serve("--runs", str(many), "--data", str(tmp_path / "none")) as address:
        page = open_page(address)
        page.get_by_role("tab", name="Training progress").click()
        page.locator("#runs").get_by_role("button", name="Only Ablation of <b>plain").click()
        page.get_by_role("button", name="ingredient of the ablation of <b>plain bought").click()
        expect(page.get_by_role("tab", name="Compare models")).to_have_attribute(
            "aria-selected", "true"
        )
        expect(page.locator("#gains-base select")).to_have_value("<b>plain")
        expect(page.locator("#gains")).to_contain_text("No more than chance explains: ")
        page.close()
