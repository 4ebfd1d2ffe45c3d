"""The page's head: its name, the device it runs on, what is there, and what is damaged."""

from collections.abc import Callable
from pathlib import Path

import gradio as gr
import torch

from vitdemo.page.components.header import Facts, Header
from vitdemo.page.kit import QUIET
from vitdemo.runs import Run
from vitdemo.runs.provenance import device_name


def build(
    page: gr.Blocks,
    *,
    runs: Callable[[], tuple[list[Run], list[str]]],
    roots: list[Path],
    device: torch.device,
) -> None:
    """`runs` reads the run folders as they are now; `roots` is where it looks."""

    def show():
        return facts(*runs(), roots, device)

    view = Header(show(), elem_id="header")
    page.load(show, outputs=view, **QUIET)


def facts(found: list[Run], problems: list[str], roots: list[Path], device: torch.device) -> Facts:
    """Device and models; every damaged or missing thing is named in a sentence of its own."""
    trained = sum(run.has_weights for run in found)
    models = f"{trained} trained model{'' if trained == 1 else 's'}"
    if trained < len(found):
        models += f", figures of {len(found) - trained} more"
    if not found:
        places = " or ".join(f"'{root}'" for root in roots)
        way_out = (
            f"There is no run in {places} yet: train one with `python train.py vit-small-cpu`, or "
            "pass --runs the folder that holds yours."
        )
        problems = [*problems, way_out]
    return Facts(f"Runs on {device.type.upper()}, {device_name(device)} · {models}", problems)
