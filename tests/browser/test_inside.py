"""The section "Inside the model" in a real Chromium: each part by mouse and by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.actions import (
    choose_model,
    fits_window,
    record_model_requests,
    record_requests,
    set_layer,
    set_model,
    set_state,
    upload,
    wait_until_idle,
)
from tests.support import held_tasks
from tests.support.factories import make_run, random_model, write_noise_images
from tests.support.view_server import FILES_URL
from vitdemo import runs
from vitdemo.analyses.sinks import compute_sinks
from vitdemo.data.image_files import crop_visible_square, load_image


@pytest.fixture
def inside(kept_page):
    """Shared page, whose tests restore model and layer, with the part "Layer by layer" open."""
    kept_page.locator("#sections").get_by_role("tab", name="Inside the model").click()
    open_part(kept_page, "Layer by layer")
    kept_page.locator("#lens-patches table").first.wait_for()
    return kept_page


@pytest.fixture
def open_parts(open_views, shown_views):
    """Return a function that shows views of a model without the page around them."""

    def open_parts(ids: str, model: str = "timm", query: str = ""):
        return open_views(shown_views, ids, f"picture=photo:cat&model={model}&{query}")

    return open_parts


def open_part(page, title):
    page.locator("#part select").select_option(title)


def open_head_ablation(page):
    """Open the part, and return its grid of heads and the heads that are off."""
    open_part(page, "Switch off")
    return find_heads(page)


def find_heads(page):
    """Return the grid of heads and the heads that are off."""
    grid = page.locator("#head-effects")
    expect(grid.locator("[data-pick]")).to_have_count(6)  # 2 layers of 3 heads
    return grid, grid.locator("[aria-pressed=true]")


def list_patch_titles(page):
    return page.locator("#lens-patches .vd-patches td").evaluate_all("all => all.map(c => c.title)")


def test_logit_lens_ends_in_the_prediction_and_sets_the_layer(inside):
    strip = inside.locator("#lens .vd-strip")
    expect(strip.locator("thead button")).to_have_count(3)  # timm's 2 layers and the embedding
    last = strip.locator("tbody tr td:last-child").evaluate_all("all => all.map(c => c.title)")
    cards = inside.locator("#answers .card")
    top = cards.filter(has=inside.get_by_role("heading", name="timm")).locator("li").first
    name, value = top.locator("span").inner_text(), top.locator("b").inner_text()
    assert f"After layer 2: {name} {value}" in last
    pressed, before = inside.locator("#lens [aria-pressed=true]"), list_patch_titles(inside)
    expect(pressed).to_have_text("2")
    pressed.focus()
    inside.keyboard.press("ArrowLeft")
    inside.keyboard.press("Enter")
    expect(pressed).to_have_text("1")
    expect(inside.locator("#layer input[type=number]")).to_have_value("1")
    assert list_patch_titles(inside) != before
    inside.locator("#lens").get_by_role("button", name="Before the first layer").click()
    expect(inside.locator("#lens-patches")).to_contain_text("before the first layer")
    slider = inside.locator("#layer input[type=range]")
    slider.focus()
    inside.keyboard.press("End")
    expect(pressed).to_have_text("2")
    assert list_patch_titles(inside) == before
    # A layer change updates only the open part, and parts without layers hide the slider.
    requests = record_model_requests(inside)
    open_part(inside, "Embeddings")
    expect(slider).to_be_hidden()
    open_part(inside, "One head")
    wait_until_idle(inside)
    requests.clear()
    slider.press("ArrowLeft")
    wait_until_idle(inside)
    assert len(requests) == 1


def contrast(*colours: str) -> float:
    """Return the contrast of two colours "rgb(...)", as WCAG 2.1 defines it."""
    luminances = []
    for colour in colours:
        channels = [int(number) / 255 for number in re.findall(r"\d+", colour)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        luminances.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)
    return max(luminances) / min(luminances)


def test_cells_have_sufficient_contrast_and_colours_by_value(open_parts, photo):
    inside = open_parts("picture+layer-by-layer+head-effects+without+accuracy-without")
    inside.locator("#lens-patches table").first.wait_for()

    def cells(selector):
        return inside.locator(selector).evaluate_all("""all => all.map((cell) => {
            const { backgroundColor, color } = getComputedStyle(cell);
            return [cell.innerText, backgroundColor, color];
        })""")

    painted = cells("#lens .vd-strip tbody td") + cells("#lens-patches .vd-patches td")
    assert len(painted) == 3 * 10 + 16
    grid, off = find_heads(inside)
    heads = cells("#head-effects [data-pick]")
    assert min(contrast(ground, ink) for _, ground, ink in painted + heads) > 4.5
    changes = [float(text.replace("−", "-")) for text, *_ in heads]
    for change, (_, ground, _) in zip(changes, heads, strict=True):
        red, _, blue = (int(number) for number in re.findall(r"\d+", ground))
        if abs(change) > 0.2 * max(map(abs, changes)):
            assert (red > blue) == (change < 0)  # orange supports the class
    # Without a dataset the page offers its download.
    measure = inside.get_by_role("button", name="Measure accuracy on test images")
    message = inside.locator("#accuracy-without")
    measure.click()
    expect(message).to_contain_text("Switch off at least one head first")
    grid.get_by_role("button", name="Layer 1, head 1").click()
    expect(off).to_have_count(1)
    measure.click()
    expect(message).to_contain_text("Download CIFAR-10")
    # A new image redraws the part; another model starts with all heads on.
    upload(inside, photo)
    expect(grid.locator("[data-pick]")).not_to_have_text([text for text, *_ in heads])
    set_model(inside, "vit")
    expect(grid).to_contain_text("layer 3")
    expect(grid.locator("[data-pick]")).to_have_count(6)  # 3 layers of 2 heads
    expect(off).to_have_count(0)
    set_model(inside, "timm")
    expect(grid).not_to_contain_text("layer 3")


def test_heads_are_switched_off_and_on_even_with_fast_clicks(inside):
    grid, off = open_head_ablation(inside)
    predictions = inside.locator("#without")
    title, changes = predictions.locator("h3"), predictions.locator(".points")
    expect(title).to_have_text("All heads are on")
    expect(changes).to_have_text(["±0.0"] * 5)
    grid.get_by_role("button", name="Layer 2, head 1").click()
    expect(title).to_have_text("Without layer 2 head 1")
    assert changes.all_inner_texts() != ["±0.0"] * 5
    for key in ("ArrowUp", "ArrowRight", "Enter"):
        inside.keyboard.press(key)
    expect(title).to_have_text("Without layer 1 head 2, layer 2 head 1")
    expect(off).to_have_count(2)
    inside.wait_for_url(re.compile("heads_off=1.2"))
    inside.keyboard.press("Enter")  # on again
    expect(title).to_have_text("Without layer 2 head 1")
    inside.get_by_role("button", name="Switch all heads on").click()
    expect(off).to_have_count(0)
    expect(title).to_have_text("All heads are on")
    grid.locator("[data-pick]").evaluate_all("""async (all) => {
        const names = all.map((button) => button.dataset.pick);
        for (const name of [...names, names[2]]) {  // the third one off, and on again
            document.querySelector(`#head-effects [data-pick="${name}"]`).click();
            await new Promise((done) => setTimeout(done, 30));
        }
    }""")
    expect(off).to_have_count(5)
    expect(title).to_contain_text("layer 1 head 2, layer 2 head 1, layer 2 head 2")
    expect(off).to_have_count(5)
    inside.wait_for_url(re.compile(r"heads_off=1.1[+]1.2[+]2.1[+]2.2[+]2.3"))
    inside.get_by_role("button", name="Switch all heads on").click()
    expect(off).to_have_count(0)


def test_heads_of_a_visited_view_belong_to_its_model(open_parts):
    inside = open_parts("head-effects+without")
    _, off = find_heads(inside)
    view = "?section=inside&inside=ablation"
    inside.evaluate("search => vitdemo.store.open(search)", f"{view}&model=timm&heads_off=1.2+2.3")
    expect(off).to_have_count(2)
    inside.evaluate("search => vitdemo.store.open(search)", f"{view}&model=vit&heads_off=3.1")
    expect(off).to_have_accessible_name(re.compile("Layer 3, head 1, off"))
    expect(inside.locator("#without h3")).to_have_text("Without layer 3 head 1")
    set_model(inside, "timm")
    expect(off).to_have_count(0)
    inside.wait_for_function("!location.search.includes('heads_off=')")


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ([-0.02, 0.01], "-2.0 to +1.0. The interval contains 0: the change is not significant."),
        ([-0.02, -0.01], "-2.0 to -1.0. The interval excludes 0: the loss is significant."),
        ([0.01, 0.02], "+1.0 to +2.0. The interval excludes 0: the gain is significant."),
    ],
)
def test_change_of_the_accuracy_is_described_with_its_significance(open_parts, interval, verdict):
    page = open_parts("accuracy-without")
    heads = [[layer, 1] for layer in range(1, 9)]
    data = {"run": "vit", "heads": heads, "images": 1000, "accuracies": [0.8, 0.79]}
    data |= {"change": sum(interval) / 2, "interval": interval}
    path = f"{FILES_URL}/page/explore/inside/head_ablation/view.js"
    describe = "async ([path, data]) => (await import(path)).describeAccuracies(data)"
    text = page.evaluate(describe, [path, data]).replace("\N{MINUS SIGN}", "-")
    assert text.startswith(
        "vit, accuracy on 1,000 test images: **80.0%** with all heads, **79.0%**"
    )
    assert "layer 6 head 1 and 2 more. Change: " in text and text.endswith(verdict)


def test_accuracy_without_a_head_and_maps_across_epochs_are_shown(open_page, serve_runs, tmp_path):
    """Use a model whose measurement is held, and one with the weights of two epochs."""
    run = make_run(tmp_path / "runs" / "first")
    hold = tmp_path / "runs" / held_tasks.HOLD_FILE
    hold.touch()
    counts = {"train": 1, "test": 15}
    counts = {f"{part}/{name}": n for part, n in counts.items() for name in run.classes}
    data = write_noise_images(tmp_path / "data", counts)
    run = make_run(tmp_path / "runs" / "vit")
    (run.path / "epochs").mkdir()
    for epoch in (1, 3):
        runs.write_weights(run.path / "epochs", random_model(run.spec, epoch).state_dict())
        (run.path / "epochs" / runs.WEIGHTS_FILE).rename(
            run.path / f"epochs/{epoch:04d}.safetensors"
        )
    address = f"{serve_runs(data=data, program=held_tasks.PROGRAM)}?section=inside"
    page = open_page(f"{address}&model=first&inside=ablation&heads_off=2.1")
    expect(page.locator("#head-effects [aria-pressed=true]")).to_have_count(1)
    measure = page.get_by_role("button", name="Measure accuracy on test images")
    message, cancel = page.locator("#accuracy-without"), page.get_by_role("button", name="Cancel")
    measure.click()
    expect(message).to_contain_text("predictions")  # the progress bar
    cancel.click()
    expect(message).to_contain_text("The measurement was cancelled.")
    expect(cancel).to_have_count(0)
    wait_until_idle(page)
    expect(message).to_contain_text("The measurement was cancelled.")
    hold.unlink()
    measure.click()
    expect(message).to_contain_text(re.compile(r"first, accuracy on 150 test images: .* with all"))
    expect(message).to_contain_text("95% confidence interval")
    hold.touch()
    measure.click()
    expect(cancel).to_be_visible()
    choose_model(page, "vit")  # another model cancels the measurement and clears the result
    expect(cancel).to_have_count(0)
    expect(message).not_to_contain_text(re.compile("confidence interval|cancelled"))
    page = open_page(f"{address}&model=vit&layer=2&inside=epochs")  # a former part
    expect(page.get_by_role("tab", name="Train", exact=True)).to_have_attribute(
        "aria-selected", "true"
    )
    page.locator("#film").scroll_into_view_if_needed()
    film = page.locator("#film")
    expect(film.locator(".when")).to_contain_text(re.compile("vit after epoch 3: [a-z]+"))
    expect(film.locator(".tile")).to_have_text(["1", "3"])
    expect(film.locator(".layer")).to_contain_text(f"Layer 2 of {run.spec.options['depth']}")


def test_positions_and_filters_are_described(open_parts):
    inside = open_parts("positions+filters")
    # Position embeddings are selected by mouse and by keyboard.
    grid, chosen = inside.locator("#positions"), inside.locator("#positions [aria-pressed=true]")
    expect(chosen).to_have_text("+1.0")
    before = grid.locator("[data-pick]").all_inner_texts()
    grid.get_by_role("button", name="Row 1, column 4").click()
    expect(grid.locator("caption")).to_have_text("Row 1, column 4")
    expect(chosen).to_have_text("+1.0")
    assert grid.locator("[data-pick]").all_inner_texts() != before
    inside.keyboard.press("ArrowDown")
    inside.keyboard.press("Enter")
    expect(grid.locator("caption")).to_have_text("Row 2, column 4")
    assert len(inside.locator("#all-positions figure").get_attribute("aria-label")) > 40
    tiles = inside.locator("#filters .vd-cut")
    expect(tiles).to_have_count(28)
    set_state(inside, "filters", "The strongest filters")
    expect(tiles).to_have_count(48)
    assert "Filter 1: norm" in tiles.first.get_attribute("aria-label")


@pytest.mark.parametrize("name", ["class-token", "average-pooled"])
def test_one_head_view_equals_the_trace(
    open_views, kinds_views, context_of_kinds, look_of, photo, name
):
    query = f"model={name}&layer=2&picture=photo:cat"
    page = open_views(kinds_views, "picture+one-head", query)
    trace, view = look_of(name, photo), page.locator("#one-head")
    view.locator(".steps li").first.wait_for()
    before = view.locator("img").get_attribute("src")
    upload(page, photo)
    expect(view.locator("img")).not_to_have_attribute("src", before)
    view.locator("select.head").select_option(index=2)
    view.locator("summary").click()
    for query in (0, 5):
        view.locator("select.query").select_option(index=query)
        rows = view.locator(".numbers tbody tr")
        expect(rows).to_have_count(trace.attention.shape[-1])
        weights = [float(text) / 100 for text in rows.locator("td:last-child").all_inner_texts()]
        assert weights == pytest.approx(trace.attention[1, 2, query].tolist(), abs=1e-6)
    requests = record_requests(page)
    key, box = trace.num_prefix_tokens + 3, view.locator(".map").bounding_box()
    cell = box["width"] / trace.grid[1]
    view.locator(".map").hover(position={"x": 3.5 * cell, "y": 0.5 * cell})  # row 1, column 4
    share = float(view.locator(".weight").inner_text().removesuffix("%")) / 100
    assert share == pytest.approx(float(trace.attention[1, 2, 5, key]), rel=0.06)
    square = crop_visible_square(load_image(photo), position=0.5)
    sinks = compute_sinks(context_of_kinds, context_of_kinds.find_run(name), square)
    row, column = sinks.positions[1, 2]
    rows = view.locator(".sink li")
    expect(rows).to_have_count(5)
    expect(rows.nth(1)).to_contain_text(f"patch row {row}, column {column}")
    expect(rows.nth(2)).to_contain_text(f"× {sinks.norm_ratios[1, 2]:.2f}")
    texts = [rows.nth(i).locator("b").inner_text().replace("−", "-") for i in (3, 4)]
    numbers = [float(text) for text in texts]
    similarities = sinks.similarities.sinks[1, 2], sinks.similarities.patches[1, 2]
    assert numbers == pytest.approx(similarities, abs=6e-3)
    view.locator(".map").click(position={"x": 3.5 * cell, "y": 0.5 * cell})
    expect(view.locator("select.query")).to_have_value("1,4")
    page.wait_for_url(re.compile(r"one_head.head=3(&.*)?&one_head.query=1,4"))
    view.locator("select.key").focus()
    page.keyboard.press("Home")
    expect(view.locator(".steps li")).to_have_count(4)
    assert requests == []


def test_choices_are_restored_from_the_url_and_fit_another_model(open_parts):
    query = (
        "layer=2&lens.embedding=true&one_head.head=3&one_head.query=2,3&one_head.key=4,1"
        "&positions.patch=4,2&residual_stream.class=dog&residual_stream.other=frog"
    )
    inside = open_parts("one-head+positions+layer-by-layer", query=query)
    selects = inside.locator("#one-head select, #residual-stream select")
    expect(selects).to_have_count(5)
    for select, value in zip(selects.all(), ("3", "2,3", "4,1", "dog", "frog"), strict=True):
        expect(select).to_have_value(value)
    expect(inside.locator("#positions caption")).to_have_text("Row 4, column 2")
    patches = inside.locator("#lens-patches .vd-said")
    expect(patches).to_contain_text("before the first layer")
    set_model(inside, "vit")  # 2 heads
    expect(selects.first).to_have_value("2")
    expect(selects.nth(1)).to_have_value("2,3")
    expect(inside.locator("#one-head .steps li")).to_have_count(4)
    set_state(inside, "one_head.query", "99,1")
    expect(selects.nth(1)).to_have_value("t0")
    set_model(inside, "timm")
    expect(selects.first).to_have_value("3")
    # A change of the layer ends the view of the embedding.
    set_layer(inside, 1)
    expect(patches).to_contain_text("after layer 1")
    inside.wait_for_function("!location.search.includes('lens.embedding')")


def test_residual_stream_sums_to_the_logit(open_parts):
    view = open_parts("layer-by-layer").locator("#layer-by-layer")
    table = view.locator("details").filter(has_text="Contribution of each part")
    table.locator("summary").click()
    table.locator("tbody tr").first.wait_for()

    def check_sum():
        texts = table.locator("tbody td:last-child").all_inner_texts()
        *parts, total = [float(text.replace("\N{MINUS SIGN}", "-")) for text in texts]
        assert len(parts) == 2 + 2 * 2  # embedding, two layers' attention and MLP, biases
        assert sum(parts) == pytest.approx(total, abs=5e-4) and max(map(abs, parts)) > 0.1
        return parts, total

    def read_sum(part):
        expect(reading).to_contain_text(part)
        text = re.search(r"Sum up to here: (\S+)\.$", reading.inner_text())[1]
        return float(text.replace("\N{MINUS SIGN}", "-"))

    parts, before = check_sum()
    bars, reading = view.locator(".parts .column"), view.locator(".reading")
    expect(bars).to_have_count(3 + 2 * 2)  # also the total
    expect(reading).to_contain_text("Largest contribution")
    bars.nth(0).hover()
    assert read_sum("Embedding: ") == pytest.approx(parts[0], abs=0.006)
    view.locator(".parts").press("ArrowRight")
    assert read_sum("Layer 1, attention: ") == pytest.approx(sum(parts[:2]), abs=0.006)
    view.locator(".parts").press("End")
    expect(reading).to_contain_text(f"{before:.2f}".replace("-", "\N{MINUS SIGN}"))
    view.locator("select.other").select_option(index=2)
    expect(view.locator(".heads")).to_contain_text("minus the logit of")
    after = check_sum()[1]
    assert after != before
    expect(view.locator(".sum b")).to_have_text(f"{after:+.2f}".replace("-", "\N{MINUS SIGN}"))
    expect(view.locator(".heads tbody td")).to_have_count(2 * 3)
    # The bars, the heads and the table show the same layer; a click on a bar chooses it.
    bars.nth(2).click()
    expect(view.locator(".vd-strip [aria-pressed=true]")).to_have_text("1")
    expect(view.locator(".column.chosen")).to_have_count(2)
    expect(view.locator(".heads [aria-current] th")).to_have_text("layer 1")
    expect(view.locator("#lens-patches .vd-said")).to_contain_text("after layer 1")


def test_diagram_opens_parts_and_a_tab(inside):
    open_part(inside, "Architecture")
    diagram = inside.locator("#diagram")
    expect(diagram.locator(".strip").nth(1).locator("canvas")).to_have_count(2)  # a map per layer
    diagram.get_by_role("button", name="Patch embedding").click()
    expect(inside.locator("#filters .vd-cut")).to_have_count(28)
    expect(inside.locator("#patches figure")).to_have_count(7)
    expect(inside.locator("#patches")).to_contain_text("4 × 4 patches of 8 × 8 pixels")
    open_part(inside, "Architecture")
    inside.locator("#diagram").get_by_role("button", name="Classifier").press("Enter")
    why = inside.get_by_role("tab", name="Why this class?")
    expect(why).to_have_attribute("aria-selected", "true")


def test_resnet_has_filters_and_notices_for_missing_parts(open_parts):
    places = ("layer-by-layer", "head-effects", "positions", "patches", "one-head")
    inside = open_parts("+".join([*places, "diagram", "filters"]), "resnet")
    for place in places:
        expect(inside.locator(f"#{place} .vd-notice")).to_contain_text(
            re.compile("is (no|not a) Vision Transformer")
        )
    expect(inside.locator("#head-effects [data-pick]")).to_have_count(0)
    expect(inside.locator("#diagram")).to_contain_text("'resnet' is convolutional")
    first_layer = re.compile(r"A layer of 3 x 3 filters: 3 channels to \d+ \(conv1\)")
    expect(inside.locator("#diagram")).to_contain_text(first_layer)
    expect(inside.locator("#filters .vd-cut")).to_have_count(27)  # 3 colours of 3 x 3
    set_model(inside, "timm")
    expect(inside.locator("#filters .vd-cut")).not_to_have_count(27)


def test_every_box_of_the_diagram_opens_its_part(inside):
    inside.set_viewport_size({"width": 1366, "height": 768})
    diagram = inside.locator("#diagram")
    for name, part in {
        "Tokens and positions": "embeddings",
        "Multi-head self-attention": "one_head",
        "Residual stream": "layers",
        "Logit lens": "layers",
    }.items():
        open_part(inside, "Architecture")
        diagram.get_by_role("button", name=name).click()
        expect(inside.locator(f"#part-{part}")).to_be_visible()


def test_url_opens_its_part_and_invalid_values_the_first(open_page, page_url):
    page = open_page(f"{page_url}?section=inside&inside=filters&filters=The+strongest+filters")
    expect(page.locator("#filters .vd-cut")).to_have_count(48)
    strange = open_page(f"{page_url}?section=inside&inside=<b>&heads_off=9.9+x+1.1.1")
    expect(strange.locator("#diagram .flow")).to_be_visible()
    _, off = open_head_ablation(strange)
    expect(off).to_have_count(0)


def test_every_part_fits_a_phone(inside):
    inside.set_viewport_size({"width": 390, "height": 844})
    for part, title in {
        "diagram": "Architecture",
        "embeddings": "Embeddings",
        "one_head": "One head",
        "layers": "Layer by layer",
        "ablation": "Switch off",
        "similar_patches": "Similar patches",
        "patching": "Activation patching",
    }.items():
        open_part(inside, title)
        expect(inside.locator("#part p")).not_to_have_text("")
        inside.locator(f"#part-{part} :is(.flow, .vd-said, .quiet)").first.wait_for()
        assert fits_window(inside), part


@pytest.mark.parametrize(
    ("former", "place"),
    [
        ("section=inside&inside=filters", "#filters"),
        ("section=inside&inside=positions", "#positions"),
        ("section=inside&inside=lens", "#lens"),
        ("section=inside&inside=residual_stream", "#residual-stream"),
        ("section=inside&inside=ablation", "#head-effects"),
        ("tab=data&data.model=vit", "#patches"),
    ],
)
def test_former_links_open_the_part_that_contains_the_view(open_page, page_url, former, place):
    page = open_page(f"{page_url}?{former}")
    expect(page.locator(place)).to_be_visible()
    if "data.model" in former:
        expect(page.locator("#model select")).to_have_value("vit")
    page.wait_for_url(lambda url: former.rpartition("inside=")[2] not in url or "ablation" in url)
    expect(page.get_by_role("tab", name="Explore", exact=True)).to_have_attribute(
        "aria-selected", "true"
    )
