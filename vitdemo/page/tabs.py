"""Synchronisation of the open tab with the page's address and the browser history."""

import json
from pathlib import Path

import gradio as gr

from vitdemo.page.kit import HIDDEN

SCRIPT = (Path(__file__).parent / "tabs.js").read_text(encoding="utf-8")


def remember(page: gr.Blocks, tabs: gr.Tabs) -> None:
    """Open the tab named in the address when `page` loads, and keep the address up to date."""
    labels = json.dumps({tab.id: tab.label for tab in tabs.children})
    script = SCRIPT[SCRIPT.index("() =>") :].replace("LABELS", labels)
    page.load(None, js=script, **HIDDEN)
