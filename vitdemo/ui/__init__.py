"""The page: `build_page` composes the tabs, one file each, and nothing else."""

import gradio as gr
import torch

from vitdemo.data import CIFAR10_CLASSES
from vitdemo.errors import DataError
from vitdemo.explorer import Explorer
from vitdemo.ui import api, confusion, html, look, metrics, progress

# System fonts: the page is whole without a network.
THEME = gr.themes.Soft(
    primary_hue="blue",
    neutral_hue="slate",
    font=["system-ui", "sans-serif"],
    font_mono=["ui-monospace", "monospace"],
)
CSS = html.CSS


def build_page(explorer: Explorer) -> gr.Blocks:
    """The whole page over `explorer`; start it with `launch(theme=THEME, css=CSS)`."""
    with gr.Blocks(title="vitdemo", delete_cache=(3600, 3600)) as page:
        gr.HTML(lambda: header(explorer), elem_id="header", apply_default_css=False)
        with gr.Tabs():
            with gr.Tab("Look", id="look"):
                look.build(
                    page,
                    explained_runs=explorer.explained_runs,
                    run_named=explorer.run,
                    answers=explorer.answers,
                    look=explorer.look,
                    test_picture=explorer.test_picture,
                    test_size=lambda: test_size(explorer),
                )
            with gr.Tab("Training progress", id="training"):
                progress.build(page, runs=explorer.runs)
            with gr.Tab("Per-class metrics", id="metrics"):
                metrics.build(page, evaluated_runs=explorer.evaluated_runs)
            with gr.Tab("Confusion matrix", id="confusion"):
                confusion.build(page, evaluated_runs=explorer.evaluated_runs)
        api.build(explorer)
    return page


def header(explorer: Explorer) -> str:
    """Title, device, and what is there; every damaged or missing thing named in a line."""
    found, problems = explorer.runs()
    trained = sum(run.has_weights for run in found)
    facts = f"Runs on {device_words(explorer.device)} · {count_words(trained, 'trained model')}"
    if not found:
        roots = " or ".join(str(root) for root in explorer.roots)
        problems = [
            *problems,
            f"There is no run in {roots} yet: train one with `python train.py vit-small-cpu`, or "
            "pass --runs the folder that holds yours.",
        ]
    return (
        '<h1 style="margin: 0">vitdemo</h1><p style="margin: 0">See how a Vision Transformer '
        f'learns and looks. <span class="vd-quiet">{html.escape(facts)}</span></p>'
        + html.notices(problems)
    )


def device_words(device: torch.device) -> str:
    if device.type == "cuda":
        return f"CUDA ({torch.cuda.get_device_name(device)})"
    return {"mps": "Apple's GPU (MPS)", "cpu": "CPU"}[device.type]


def count_words(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def test_size(explorer: Explorer) -> int:
    """Number of test pictures. Raises `DataError` with the way out where they are not there."""
    source = explorer.source()
    if not source.classes:
        raise DataError("The data set has no classes.")
    return len(explorer.test_pictures())


__all__ = ["CIFAR10_CLASSES", "CSS", "THEME", "build_page"]
