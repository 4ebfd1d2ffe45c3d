"""Visible output of the included models, compared with text files in this folder.

    python -m tests.golden  # writes the files again; `git diff` then shows the changes

`api.txt` has the responses of the named endpoints, `maps.txt` the file of "Download all maps", and
`report.txt` the report. Each other file has one tab: texts, labels, tables and the values of
controls, in the order of the page and without markup. Integers must be equal. A number with
decimals may differ by one in its last digit, because processors round differently.
"""

import difflib
import math
import re
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
from gradio_client import Client, handle_file
from playwright.sync_api import Page, expect

from tests.browser.actions import RESULTS_SECTIONS, open_tab
from tests.support.serving import ROOT, serve
from vitdemo.report import render_report
from vitdemo.runs import RECORD_FIELDS, read_run

HERE = Path(__file__).parent
SHIPPED = ROOT / "assets" / "runs"
PHOTO = ROOT / "assets" / "photos" / "cat.jpg"
RUN = "vit-scratch"
REPORTED = ("finetune-deit-tiny", "conv-baseline", "vit-plain-cpu", "vit-plain-cpu-muon")
THEN = datetime(2026, 1, 1)
READ = (HERE / "read.js").read_text(encoding="utf-8")
SHORT = ("explore", "per-class-metrics", "train")  # parts of the page that are always compared
NOTHING = "nothing"  # name of a folder without a dataset
OF_THIS_MACHINE = ((r"Runs on .* · ", "Runs on … · "), (rf"'?/\S+/{NOTHING}'?", NOTHING))
WAITING = "[data-view]:is([data-empty], [aria-busy=true]):visible"  # views without their data
ROW = rf"(?:[^\n]*?  ){{{len(RECORD_FIELDS)}}}[^\n]*\n"  # of the table of all epochs
EPOCHS = re.compile(rf"^(run  epoch  stage.*\n)((?:{ROW})*)", re.MULTILINE)
NUMBER = re.compile(r"([-−+]?\d+\.(\d+))")


def everything(
    page: Page, wanted: dict[str, str] | None = None, *, is_short: bool = False
) -> dict[str, str]:
    """Return {"api": text, ...} of a page on the CPU without a dataset, read in the browser `page`.

    Each part of the page is read until it equals `wanted` or no longer changes. If `is_short`, only
    the parts `SHORT` of the page are read.
    """
    page.set_default_timeout(60_000)
    with (
        tempfile.TemporaryDirectory() as folder,
        serve("--runs", str(SHIPPED), "--data", f"{folder}/{NOTHING}") as address,
    ):
        client = Client(address, verbose=False, download_files=folder)
        texts = {"api": api(client), "maps": maps(client)}
        client.close()
        texts |= tabs(page, address, wanted, is_short=is_short)
        page.goto("about:blank")  # the page would report errors when the server ends
    page.set_content(render_report([read_run(SHIPPED / name) for name in REPORTED], now=THEN))
    texts["report"] = f"{page.locator('svg').count()} figures\n{read(page, 'body')}"
    return texts


def api(client: Client) -> str:
    """Return the responses of the named endpoints; `summarise` summarises lists of numbers."""
    photo = handle_file(PHOTO)
    requests = {
        "runs": (),
        "classify": (photo,),
        "attention": (photo, RUN, 4, "mean", 0.5),
        "why": (photo, RUN, "cat", "dog"),
        "metrics": (RUN,),
    }
    lines = []
    for name, arguments in requests.items():
        lines += flatten(client.predict(*arguments, api_name=f"/{name}"), f"/{name}")
    return "\n".join(lines)


def flatten(value, name: str) -> Iterator[str]:
    """Yield a line for each number, text and array in the response of an endpoint."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{name} {key}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for item in value:
            yield from flatten(item, name)
    elif isinstance(value, list) and len(value) == 2:  # an interval
        yield f"{name}: {value[0]:.4f} to {value[1]:.4f}"
    elif isinstance(value, list):
        yield f"{name}: {summarise(np.array(value, float))}"
    else:
        yield f"{name}: {value:.4f}" if isinstance(value, float) else f"{name}: {value}"


def maps(client: Client) -> str:
    """Return every array of "Download all maps", and the README in the file."""
    path = client.predict(handle_file(PHOTO), RUN, api_name="/maps")
    with np.load(path) as arrays:
        lines = [f"{key}: {show(arrays[key])}" for key in arrays.files if key != "README.txt"]
        return "\n".join([Path(path).name, *lines, bytes(arrays["README.txt"]).decode()])


def show(values: np.ndarray) -> str:
    is_text = values.dtype.kind in "US"
    return f"{values.dtype} {' '.join(values) if is_text else summarise(values)}"


def summarise(values: np.ndarray) -> str:
    """Summarise an array: shape, mean, standard deviation, maximum and position-weighted mean."""
    values = values.astype(float)
    largest = np.abs(values).max()
    digits = max(1, 2 - math.floor(math.log10(largest))) if largest > 0 else 1
    statistics = {"mean": values.mean(), "spread": values.std(), "max": values.max()}
    statistics["placed"] = values.ravel() @ np.linspace(0, 1, values.size) / values.size
    return f"{values.shape} " + ", ".join(f"{k} {v:.{digits}f}" for k, v in statistics.items())


def tabs(
    page: Page, address: str, wanted: dict[str, str] | None, *, is_short: bool
) -> dict[str, str]:
    """Return the text of each tab, or of `SHORT`: {"explore": text, ...}."""
    page.goto(f"{address}?model={RUN}")
    page.locator("#answers .card").first.wait_for()
    lists = page.get_by_role("tablist")
    first, *others = lists.nth(0).get_by_role("tab").all_inner_texts()
    inner = [f"{first} {name}" for name in lists.nth(1).get_by_role("tab").all_inner_texts()]
    at = others.index("Results")
    others[at : at + 1] = RESULTS_SECTIONS
    texts = {}
    for name in (first, *inner[1:], *others):
        label, place = name.removeprefix(f"{first} "), name.lower().replace(" ", "-").strip("?")
        if is_short and place not in SHORT:
            continue
        open_tab(page, label)
        if label == "Compare models":
            page.get_by_role("button", name="Table of all models").click()
        root = "body" if name == first else f"[role=tabpanel][aria-label='{label}']"
        texts[place] = read_settled(page, root, wanted and wanted.get(place, ""))
    return texts


def read_settled(page: Page, root: str, wanted: str | None) -> str:
    """Return the text below `root` once it equals `wanted` or has not changed for some time.

    The time starts when no view waits for its first data.
    """
    page.locator(root).first.wait_for(state="attached")
    expect(page.locator(f"{root} [data-empty]:visible")).to_have_count(0, timeout=60_000)
    last, since, patience = "", time.monotonic(), 4 if wanted is None else 15
    limit = since + 60
    while time.monotonic() < since + patience:
        page.wait_for_timeout(300)
        text = read(page, root)
        if time.monotonic() < limit and page.locator(root).locator(WAITING).count():
            since = max(since, time.monotonic() - patience / 2)
        if wanted and is_close(wanted, text):
            return text
        if text != last:
            last, since = text, time.monotonic()
    return last


def read(page: Page, root: str) -> str:
    text = shorten_epochs(page.evaluate(READ, root))
    for pattern, plain in OF_THIS_MACHINE:
        text = re.sub(pattern, plain, text)
    return text


def shorten_epochs(text: str) -> str:
    """Replace the rows of the table of all epochs by their number, because runs do not change."""
    return EPOCHS.sub(lambda found: f"{found[1]}{found[2].count(chr(10))} rows\n", text)


def difference(wanted: str, actual: str) -> str:
    """Return differing words and numbers as [-wanted-] {+found+}; "" if there are none."""
    if is_close(wanted, actual):
        return ""
    before, after = wanted.split(), actual.split()
    plain = [NUMBER.sub("#", word) for word in before], [NUMBER.sub("#", word) for word in after]
    changes = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, *plain, autojunk=False).get_opcodes():
        if kind != "equal":
            changes.append((a, before[a:b], after[c:d]))
            continue
        pairs = zip(range(a, b), before[a:b], after[c:d], strict=True)
        changes += [(place, [old], [new]) for place, old, new in pairs if not close(old, new)]
    return "\n".join(
        f"{' '.join(before[max(0, place - 8) : place])} [-{' '.join(old)}-] {{+{' '.join(new)}+}}"
        for place, old, new in changes
    )


def is_close(wanted: str, actual: str) -> bool:
    """Return whether all words are equal except for numbers that are close."""
    before, after = wanted.split(), actual.split()
    return len(before) == len(after) and all(
        old == new or (NUMBER.sub("#", old) == NUMBER.sub("#", new) and close(old, new))
        for old, new in zip(before, after, strict=True)
    )


def close(old: str, new: str) -> bool:
    """Return whether the decimal numbers in two words differ by at most one in the last digit."""
    return all(
        abs(float(a.replace("−", "-")) - float(b.replace("−", "-"))) < 1.01 * 0.1 ** len(decimals)
        for (a, decimals), (b, _) in zip(NUMBER.findall(old), NUMBER.findall(new), strict=True)
    )
