"""The page header: device, number of models, and warnings about damaged or missing runs."""

from collections.abc import Callable
from pathlib import Path

import gradio as gr
import torch

from vitdemo.installation import TRAIN_COMMAND
from vitdemo.page.components.header import HeaderContent, HeaderView
from vitdemo.page.kit import REFRESH_EVENT
from vitdemo.runs import Run
from vitdemo.runs.provenance import device_name


def build(
    page: gr.Blocks,
    *,
    runs: Callable[[], tuple[list[Run], list[str]]],
    roots: list[Path],
    device: torch.device,
) -> None:
    """Lay out the header; `runs` returns the runs in the folders `roots`, and error messages."""

    def show():
        return header_content(*runs(), roots, device)

    view = HeaderView(show(), elem_id="header")
    page.load(show, outputs=view, **REFRESH_EVENT)


def header_content(
    found: list[Run], problems: list[str], roots: list[Path], device: torch.device
) -> HeaderContent:
    """Return the content of the page header, with one sentence per damaged or missing run."""
    trained = sum(run.has_weights for run in found)
    models = f"{trained} trained model{'' if trained == 1 else 's'}"
    if trained < len(found):
        left = len(found) - trained
        models += f", results of {left} more run{'' if left == 1 else 's'}"
    if not found:
        places = " or ".join(f"'{root}'" for root in roots)
        way_out = (
            f"There are no runs in {places} yet. Train one with `{TRAIN_COMMAND} vit-small-cpu`, "
            "or pass the folder that contains your runs with --runs."
        )
        problems = [*problems, way_out]
    return HeaderContent(
        f"Runs on {device.type.upper()}, {device_name(device)} · {models}", problems
    )
