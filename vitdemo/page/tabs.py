"""The page's address names the open tab; the browser's Back and Forward go through those opened."""

import json
from pathlib import Path

import gradio as gr

from vitdemo.page.kit import HIDDEN

SCRIPT = (Path(__file__).parent / "tabs.js").read_text(encoding="utf-8")


def remember(page: gr.Blocks, tabs: gr.Tabs) -> None:
    """Open the tab of the `page` that its address names, and write there which one is open."""
    labels = json.dumps({tab.id: tab.label for tab in tabs.children})
    script = SCRIPT[SCRIPT.index("() =>") :].replace("LABELS", labels)
    page.load(None, js=script, **HIDDEN)
