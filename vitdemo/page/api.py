"""Named API endpoints: what a script would want of the page, as JSON.

from gradio_client import Client, handle_file
Client("http://localhost:7860").predict(handle_file("cat.jpg"), api_name="/classify")
"""

from collections.abc import Iterable

import gradio as gr
from PIL import Image

from vitdemo.attention import FUSIONS
from vitdemo.class_maps import maps as maps_of_class
from vitdemo.errors import ImageError, RunError
from vitdemo.export import save_maps
from vitdemo.inputs import load_image, visible_square
from vitdemo.metrics.tested_runs import class_table
from vitdemo.page.kit import (
    LIGHT_QUEUE,
    LONG_QUEUE,
    MODEL_QUEUE,
    SEND_A_FILE,
    PathImage,
    cache_folder,
    for_people,
)
from vitdemo.workbench import Workbench


def build(workbench: Workbench) -> None:
    """Register the endpoints that a script would want; nothing of them is visible."""

    @for_people
    def runs() -> list:
        """Every readable run: name, recipe, epochs, test accuracy (null before its evaluation)."""
        return [
            {
                "name": run.name,
                "recipe": run.config["recipe"].get("name"),
                "epochs": len(run.history),
                "has_weights": run.has_weights,
                "test_accuracy": workbench.accuracy(run),
            }
            for run in workbench.runs()[0]
        ]

    @for_people
    def classify(picture) -> dict:
        """Class probabilities of every trained model for one picture."""
        answers, _ = workbench.answers(read(picture))
        return {
            a.run.name: dict(zip(a.run.classes, map(float, a.probabilities), strict=True))
            for a in answers
        }

    @for_people
    def maps(picture, run, layer, fusion, discard_ratio) -> dict:
        """Heads (H, rows, columns), their mean, and the rollout up to `layer` (1..L), as lists."""
        look = workbench.look(workbench.run(run), read(picture))
        if layer not in range(1, look.layers + 1):
            raise RunError(f"There is no layer {layer}: choose 1 to {look.layers}.")
        heads = look.head_maps(int(layer))  # (H, rows, columns)
        rollout = look.rollout_map(int(layer), fusion=fusion, discard_ratio=discard_ratio)
        return {
            "heads": heads.tolist(),
            "mean": heads.mean(0).tolist(),
            "rollout": rollout.tolist(),
        }

    @for_people
    def maps_file(picture, run) -> str:
        """All maps of one picture by one model, as an .npz with a README of its shapes."""
        return save_maps(workbench, run, read(picture), cache_folder(file))

    @for_people
    def why(picture, run, target, against) -> dict:
        """Maps (rows, columns) of one class by every method, as lists; empty: the predicted class.

        With `against` another class, what speaks for the one and not for the other.
        """
        classes = {"target": target or None, "against": against or None}
        found = maps_of_class(workbench, workbench.run(run), read(picture), **classes)
        return {
            "class": found.named,
            "probability": float(found.probabilities[found.target]),
            "maps": {m.method.name: m.values.tolist() for m in found.maps},
        }

    @for_people
    def metrics(run) -> dict:
        """Accuracy and per-class metrics on the test set, with 95% intervals, and their means."""
        table = workbench.cache.of(class_table, workbench.run(run))
        classes = {
            name: {"support": int(table.support[c])}
            | {column: _json_number(values[c]) for column, values in table.columns.items()}
            | {f"{n}_interval": _json_numbers(s[:, c]) for n, s in table.intervals.items()}
            for c, name in enumerate(table.classes)
        }
        return {
            "accuracy": table.accuracy,
            "accuracy_interval": _json_numbers(table.accuracy_interval),
            "classes": classes,
            "macro": {name: _json_number(mean) for name, mean in table.macro.items()},
            "weighted": {name: _json_number(mean) for name, mean in table.weighted.items()},
        }

    with gr.Row(visible=False):
        picture = PathImage(type="filepath", image_mode=None, label="picture")
        run = gr.Textbox(label="run")
        layer = gr.Number(1, label="layer")
        fusion = gr.Radio(list(FUSIONS), value="mean", label="fusion")
        discard_ratio = gr.Slider(0, 0.95, 0, label="discard_ratio")
        target = gr.Textbox(label="target")
        against = gr.Textbox(label="against")
        out = gr.JSON()
        file = gr.File(label="file")
        button = gr.Button()
    button.click(runs, None, out, api_name="runs", **LIGHT_QUEUE)
    button.click(classify, picture, out, api_name="classify", **MODEL_QUEUE)
    map_inputs = [picture, run, layer, fusion, discard_ratio]
    button.click(maps, map_inputs, out, api_name="attention", **MODEL_QUEUE)
    button.click(maps_file, [picture, run], file, api_name="maps", **MODEL_QUEUE)
    button.click(why, [picture, run, target, against], out, api_name="why", **LONG_QUEUE)
    button.click(metrics, run, out, api_name="metrics", **LIGHT_QUEUE)


def read(path: str | None) -> Image.Image:
    """Read the square of an upload that models see. Raises `ImageError`."""
    if path is None:
        raise ImageError(f"No image was sent. {SEND_A_FILE}")
    return visible_square(load_image(path))


def _json_number(value: float) -> float | None:
    """NaN (a metric that is not defined) has no JSON: null."""
    return None if value != value else float(value)


def _json_numbers(values: Iterable[float]) -> list[float | None]:
    return [_json_number(value) for value in values]
