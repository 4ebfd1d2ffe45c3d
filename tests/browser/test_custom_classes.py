"""The tab "Custom classes" in a real Chromium: training on digits, saving, publishing."""

import io
import re
import zipfile

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect
from sklearn.datasets import load_digits

from tests.browser.actions import (
    JS_DROP_OR_PASTE,
    START_MS,
    fits_window,
    mock_camera,
    open_tab,
    upload,
    wait_until_drawn,
)
from tests.support.factories import VIT, make_run, noise
from tests.support.serving import serve

DIGITS, IMAGES_PER_DIGIT = (1, 4, 7), 12


@pytest.fixture
def digits(tmp_path):
    """Return a zip file with the paths digit/image."""
    data = load_digits()
    with zipfile.ZipFile(tmp_path / "digits.zip", "w") as file:
        for digit in DIGITS:
            for i, values in enumerate(data.images[data.target == digit][:IMAGES_PER_DIGIT]):
                buffer = io.BytesIO()
                Image.fromarray((255 - values / 16 * 255).astype(np.uint8)).save(buffer, "PNG")
                if i == 0:
                    (tmp_path / f"{digit}.png").write_bytes(buffer.getvalue())
                file.writestr(f"digits/digit {digit}/{i}.png", buffer.getvalue())
    return tmp_path / "digits.zip"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Folder of the page's runs, which has one run."""
    root = tmp_path_factory.mktemp("runs")
    make_run(root / "vit", VIT)
    return root


@pytest.fixture(scope="module")
def address(root):
    """Address of a page that allows training."""
    with serve("--runs", str(root), "--data", str(root.with_name("none"))) as address:
        yield address


@pytest.fixture
def tab(open_page, address):
    page = open_page(f"{address}?tab=own")
    page.locator("#own-classes .name").wait_for()
    return page


def test_digits_are_trained_saved_published_and_unpublished(tab, digits, root, open_page):
    view, status = tab.locator("#own-classes"), tab.locator("#own-classes .say")
    view.locator(".name").fill("<b>extra</b>")
    tab.keyboard.press("Enter")
    expect(view.get_by_role("heading", name="<b>extra</b>")).to_be_visible()
    view.get_by_role("button", name="Remove class <b>extra</b>").click()
    expect(view.locator(".own")).to_have_count(0)
    view.locator("input.files").set_input_files(digits)
    expect(status).to_have_text(f"3 classes, {3 * IMAGES_PER_DIGIT} of at most 500 images.")
    view.get_by_role("button", name="Remove image 2 of digit 4").click()
    expect(status).to_contain_text(f"{3 * IMAGES_PER_DIGIT - 1} of at most")
    view.get_by_role("button", name="Undo").click()
    expect(status).to_contain_text(f"{3 * IMAGES_PER_DIGIT} of at most")
    expect(view.get_by_role("button", name="Undo")).to_be_hidden()
    tab.locator("#own-train").click()
    result = tab.locator("#own-result")
    expect(result).to_contain_text(f"on {3 * IMAGES_PER_DIGIT} images, 95% confidence interval")
    expect(result.get_by_role("heading", name="Confusion matrix")).to_be_visible()
    check_matrix(tab)
    expect(tab.locator(".primary:visible")).to_have_text(["Open camera"])
    tab.locator("#own-models .more summary").click()
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save the model").click()
    assert download.value.suggested_filename == "own-digit1-digit4-digit7.zip"
    name = "own-digit1-digit4-digit7"
    with zipfile.ZipFile(download.value.path()) as file:
        assert {f"{name}/config.json", f"{name}/model.safetensors"} <= {*file.namelist()}
    expect(result).to_contain_text(f"'{name}' was added to the models in every tab, but")
    tab.get_by_role("tab", name="Explore").click()
    tab.locator("#model select").select_option(name)
    expect(tab.locator("#attention .large")).to_have_attribute(
        "aria-label", re.compile("Large map")
    )
    expect(tab.locator("#model select")).to_have_value(name)
    expect(tab.locator("#answers .card", has_text=name)).to_have_count(1)  # on tab opening
    upload(tab, digits.with_name("1.png"))
    expect(tab.locator("#answers .card", has_text=name)).to_contain_text("cross-validated")
    stranger = open_page(tab.url.split("?")[0], stranger=True)
    wait_until_drawn(stranger)
    expect(stranger.locator("#model option", has_text=name)).to_have_count(0)
    expect(stranger.locator("#answers .card")).to_have_count(1)
    stranger.close()
    tab.get_by_role("tab", name="Custom classes").click()
    tab.get_by_role("button", name="Publish to all users").click()
    expect(tab.locator("#own-told")).to_contain_text("was published: all users")
    open_tab(tab, "Confusion matrix")
    choice = tab.locator("#results-model select")
    expect(choice.locator("option", has_text=f"{name}-1")).to_have_count(1)
    choice.select_option(f"{name}-1")
    expect(tab.locator("#confusion-matrix")).to_contain_text("digit 7")
    tab.get_by_role("tab", name="Train", exact=True).click()
    listed = tab.locator("#trainings").get_by_role("listitem").filter(has_text=f"{name}-1")
    expect(listed).to_contain_text("from Custom classes, published to all users")
    expect(listed).to_contain_text("cross-validated accuracy")
    expect(listed.get_by_role("button")).to_have_text(["Delete"])
    tab.get_by_role("tab", name="Custom classes").click()
    expect(tab.get_by_role("button", name="Publish to all users")).to_have_count(0)
    tab.get_by_role("button", name="Unpublish").click()
    expect(tab.locator("#own-told")).to_contain_text("no longer published")
    expect(tab.get_by_role("button", name="Publish to all users")).to_be_visible()
    expect(tab.get_by_role("button", name="Unpublish")).to_have_count(0)
    assert [each.name for each in root.glob("[!.]*")] == ["vit"]


def check_matrix(tab):
    """Check the coloured matrix, and that a cell of errors shows only its images."""
    result, total = tab.locator("#own-result"), len(DIGITS) * IMAGES_PER_DIGIT
    cells = result.locator(".pair td")
    counts = [int(text) for text in cells.all_inner_texts()]
    assert len(counts) == len(DIGITS) ** 2 and sum(counts) == total
    colours = cells.evaluate_all("all => all.map(each => getComputedStyle(each).backgroundColor)")
    assert len({*colours}) > 1
    wrong = total - sum(counts[:: len(DIGITS) + 1])
    images = result.locator(".errors figure")
    expect(images).to_have_count(wrong)
    if not wrong:
        return expect(result).to_contain_text("All images were classified correctly.")
    cell = cells.locator("button").first
    cell.click()
    expect(images).to_have_count(int(cell.inner_text()))
    result.get_by_role("button", name="Show all").click()
    expect(images).to_have_count(wrong)


def test_three_columns_become_one_and_show_what_to_do_first(tab):
    columns = tab.locator("#own-columns > .column")
    expect(columns.get_by_role("heading")).to_have_text(["1 Images", "2 Train", "3 Try"])
    expect(tab.locator("#own-models .missing")).to_be_visible()
    for width, distinct in ((1366, 3), (1024, 3), (390, 1)):
        tab.set_viewport_size({"width": width, "height": 800})
        lefts = {round(column.bounding_box()["x"]) for column in columns.all()}
        assert len(lefts) == distinct, width
        assert fits_window(tab)
        expect(tab.locator(".primary:visible")).to_have_text(["Open camera"])


def test_classifier_is_tried_live_on_the_camera_and_on_a_file(tab, digits):
    trial = tab.locator("#own-trial")
    expect(trial).to_contain_text("Train the classifier first.")
    expect(trial.get_by_role("button")).to_have_count(0)
    expect(trial.locator(".map figure")).to_have_count(0)
    tab.locator("#own-classes input.files").set_input_files(digits)
    tab.locator("#own-train").click()
    expect(trial.locator(".hint")).to_contain_text("Show the classifier an image")
    mock_camera(tab)
    trial.get_by_role("button", name="Open camera").click()
    expect(trial.locator(".bars li")).to_have_count(len(DIGITS))
    expect(trial.locator("video")).to_be_visible()
    first = trial.locator(".bars").inner_text()
    tab.wait_for_function(  # the camera's image changes, and so do the probabilities
        "first => document.querySelector('#own-trial .bars').innerText !== first", arg=first
    )
    trial.get_by_role("button", name="Close camera").click()
    expect(trial.locator("video")).to_be_hidden()
    trial.locator("input[type=file]").set_input_files(digits.with_name("4.png"))
    expect(trial.locator(".map img")).to_be_visible()
    expect(trial.locator(".say")).to_have_text("Prediction: digit 4")
    expect(trial.locator(".bars span").first).to_have_text("digit 4")
    expect(trial.locator(".map figcaption")).to_contain_text("is the same for every class")
    before = trial.locator(".map canvas").evaluate("each => each.toDataURL()")
    trial.get_by_role("radio", name="Class map: digit 4").check()
    expect(trial.locator(".map figcaption")).to_contain_text("for digit 4, from your classifier")
    assert trial.locator(".map canvas").evaluate("each => each.toDataURL()") != before
    expect(tab).to_have_url(re.compile("own.map=class"))
    tab.get_by_role("button", name="Remove image 1 of digit 7").click()
    expect(trial.locator(".hint")).to_contain_text("Train again")
    expect(tab.locator(".primary:visible")).to_have_text(["Train classifier"])


def test_folder_upload_and_errors_of_few_images_and_camera(tab, digits, tmp_path):
    """Add a class by hand and with the camera first, then add a folder."""
    view, status = tab.locator("#own-classes"), tab.locator("#own-classes .say")
    view.locator("input.files").set_input_files(tmp_path / "4.png")
    expect(view.locator(".failure")).to_contain_text("Enter a class name first")
    view.locator(".name").fill("mug")
    tab.keyboard.press("Enter")
    expect(status).to_contain_text("1 class, 0 of")
    expect(view.locator(".own.chosen h3")).to_have_text("mug")
    view.locator(".name").fill("Mug")
    tab.keyboard.press("Enter")
    expect(view.locator(".failure")).to_contain_text("A class 'Mug' already exists")
    expect(tab.locator("#own-models .missing")).to_contain_text("There are too few classes (1)")
    dropped = [*(tmp_path / "4.png").read_bytes()]
    tab.evaluate(JS_DROP_OR_PASTE, ["#own-classes .own", "drop", dropped])
    expect(status).to_contain_text("1 class, 1 of")
    view.locator(".name").fill("cup")
    expect(view.locator(".own.chosen")).to_have_count(0)
    tab.evaluate(
        JS_DROP_OR_PASTE, ["#own-classes .drop", "drop", [*(tmp_path / "7.png").read_bytes()]]
    )
    expect(status).to_contain_text("2 classes, 2 of")  # the class of the field
    view.get_by_role("button", name="Remove class cup").click()
    view.get_by_role("button", name="Open camera").click()
    expect(status).to_contain_text("camera")
    mock_camera(tab)
    view.get_by_role("button", name="mug", exact=True).click()
    expect(view.locator(".name")).to_have_value("mug")
    view.get_by_role("button", name="Open camera").click()
    shutter = view.get_by_role("button", name="Hold to take photos")
    shutter.click(delay=900)  # held down
    expect(status).to_contain_text(re.compile("1 class, [2-9] of"))
    view.get_by_role("button", name="Close camera").click()
    expect(shutter).to_be_hidden()
    # No action applies yet.
    expect(tab.locator("#own-models").get_by_role("button")).to_have_count(0)
    view.get_by_role("button", name="Remove class mug").click()
    expect(view.locator(".own")).to_have_count(0)
    with zipfile.ZipFile(digits) as file:
        file.extractall(tmp_path / "folder")
    (tmp_path / "folder" / "digits" / "digit 4" / "notes.txt").write_text("none")
    for path in ("digit 4/.hidden", "digit 4/.ipynb_checkpoints/x.png", "__MACOSX/digit 4/._1.png"):
        (tmp_path / "folder" / "digits" / path).parent.mkdir(exist_ok=True, parents=True)
        noise(5).save(tmp_path / "folder" / "digits" / path, "PNG")
    view.locator("input.folder").set_input_files(tmp_path / "folder" / "digits")
    expect(view.locator(".say")).to_have_text(
        f"3 classes, {3 * IMAGES_PER_DIGIT} of at most 500 images."
    )
    names = {f"digit {digit}" for digit in DIGITS}
    assert {*view.locator(".own h3").all_inner_texts()} == names
    problem = "Skipped 1 file without an image suffix: digits/digit 4/notes.txt."
    expect(view.locator(".problems li")).to_have_text([problem])
    tab.locator("#own-models .more summary").click()
    tab.get_by_role("button", name="Fine-tune the whole model").click()
    expect(tab.get_by_text("Choose such a backbone instead of 'vit'")).to_be_visible()
    expect(tab.get_by_role("button", name="Start fine-tuning")).to_have_count(0)


def test_fine_tuning_asks_who_sees_it_and_is_private_by_default(digits, tmp_path, open_page):
    """Fine-tune for oneself, cancel it, then fine-tune for all users."""
    public = tmp_path / "runs"
    public.mkdir()
    roots = ("--runs", "assets/runs", "--runs", str(public))
    with serve(*roots, "--data", str(tmp_path / "none")) as address:
        page = open_page(f"{address}?tab=own")
        page.locator("#own-classes input.files").set_input_files(digits)
        question = page.get_by_role("group", name="Who may see the fine-tuned model?")
        page.locator("#own-models .more summary").click()
        page.get_by_role("button", name="Fine-tune the whole model").click()
        only_me = question.get_by_role("radio", name="Only you")
        expect(only_me).to_be_checked()
        expect(only_me).to_be_focused()
        expect(question).to_contain_text("The server deletes the model and your images one hour")
        expect(question).to_contain_text("All users see the training run and its results")
        question.get_by_role("radio", name="All users of this page").check()
        question.get_by_role("button", name="Cancel").click()
        expect(question).to_have_count(0)
        assert list_images(public) == []  # nothing was started
        page.get_by_role("button", name="Fine-tune the whole model").click()
        expect(only_me).to_be_checked()  # again
        page.get_by_role("button", name="Start fine-tuning").click()
        cancel = page.get_by_role("button", name="Cancel fine-tuning")
        expect(cancel).to_be_visible()
        expect(page.locator("#own-models")).to_contain_text("Fine-tuning: ")
        expect(page.get_by_role("button", name="Fine-tune the whole model")).to_have_count(0)
        assert list_images(public) == [] and not [*public.glob("own-*")]
        open_tab(page, "Train")
        page.locator("#plots figure").first.wait_for()
        expect(page.locator("#training-shown li:visible")).to_have_count(0)
        open_tab(page, "Custom classes")
        cancel.click()
        expect(cancel).to_have_count(0)
        page.get_by_role("button", name="Fine-tune the whole model").click()
        question.get_by_role("radio", name="All users of this page").check()
        page.get_by_role("button", name="Start fine-tuning").click()
        expect(page.locator("#own-told")).to_contain_text("All users of this page see this")
        assert len(list_images(public / "own-classes-1")) == 3 * IMAGES_PER_DIGIT
        open_tab(page, "Train")
        listed = page.locator("#live").get_by_role("listitem").filter(has_text="own-classes-1")
        listed.get_by_role("button", name="Delete").click(timeout=START_MS)
        listed.get_by_role("button", name="Delete own-classes-1 permanently").click()
        expect(listed).to_have_count(0)
        page.close()  # before its server


def list_images(folder):
    return [*folder.rglob("*.png")]
