"""Write what `tests/browser/test_golden.py` expects anew."""

from tests.browser.conftest import chromium
from tests.golden import HERE, everything

with chromium() as browser:
    found = everything(browser.new_page(reduced_motion="reduce"))
for old in HERE.glob("*.txt"):
    old.unlink()
for name, text in found.items():
    (HERE / f"{name}.txt").write_text(f"{text.strip()}\n", encoding="utf-8")
