"""Synchronisation of the open tab with the page's URL and the browser history."""

import json
from pathlib import Path

import gradio as gr

from vitdemo.page.kit import NO_PROGRESS

TABS_SCRIPT = (Path(__file__).parent / "tabs.js").read_text(encoding="utf-8")


def sync_with_address(page: gr.Blocks, tabs: gr.Tabs) -> None:
    """Open the tab named in the URL when `page` loads, and update the URL when it changes."""
    labels = json.dumps({tab.id: tab.label for tab in tabs.children})
    script = TABS_SCRIPT[TABS_SCRIPT.index("() =>") :].replace("LABELS", labels)
    page.load(None, js=script, **NO_PROGRESS)
