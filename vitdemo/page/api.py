"""Named API endpoints, which return the page's results to scripts as JSON.

from gradio_client import Client, handle_file
Client("http://localhost:7860").predict(handle_file("cat.jpg"), api_name="/classify")
"""

from collections.abc import Iterable

import gradio as gr
from PIL import Image

from vitdemo.analyses.class_attribution import compute_class_attribution as maps_of_class
from vitdemo.context import AppContext
from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.errors import ImageError, RunError
from vitdemo.explain.attention import FUSIONS
from vitdemo.metrics.classification_report import compute_classification_report
from vitdemo.page.gradio_patches import NOT_A_FILE_MESSAGE, PathImage
from vitdemo.page.kit import (
    LIGHT_QUEUE,
    LONG_QUEUE,
    MODEL_QUEUE,
    make_cache_folder,
    show_user_errors,
)
from vitdemo.publishing.maps_file import save_maps


class Endpoints:
    """Functions of the API endpoints.

    With `--mcp`, gradio offers each function as a tool. Agents read its name and docstring. A tool
    call from another computer arrives as a request from this computer, so endpoints cannot check
    `is_local_request`. `file` is the component of files that endpoints write.
    """

    def __init__(self, context: AppContext, file: gr.File):
        self.context, self.file = context, file

    @show_user_errors
    def runs(self) -> list:
        """List all trained models with recipe, epochs and test accuracy.

        The test accuracy is a fraction from 0 to 1, or null if the model is not evaluated. A model
        without weights has only test results.
        """
        return [
            {
                "name": run.name,
                "recipe": run.config["recipe"].get("name"),
                "epochs": len(run.history),
                "has_weights": run.has_weights,
                "test_accuracy": self.context.test_accuracy(run),
            }
            for run in self.context.list_runs()[0]
        ]

    @show_user_errors
    def classify(self, picture: str) -> dict:
        """Classify the centre crop of an image with every model.

        The result contains the probability of each class, by model name.

        Args:
            picture: Image file. Agents send a public URL or a data URL (base64).
        """
        answers, _ = self.context.predict_all(load_uploaded_image(picture))
        return {
            a.run.name: dict(zip(a.run.classes, map(float, a.probabilities), strict=True))
            for a in answers
        }

    @show_user_errors
    def attention(
        self, picture: str, run: str, layer: int, fusion: str, discard_ratio: float
    ) -> dict:
        """Compute the attention maps of one layer of a Vision Transformer for one image.

        The result contains the attention from the class token to the patches. `heads` (heads, rows,
        columns) has one map per head, and `mean` (rows, columns) is the mean map. `rollout` (rows,
        columns) is attention rollout from layer 1 to this layer. Attention itself does not explain
        a prediction: see the tool `why`.

        Args:
            picture: Image file. Agents send a public URL or a data URL (base64).
            run: Name of the model, as in the result of the tool `runs`.
            layer: Number of the layer, from 1.
            fusion: Method by which rollout combines the heads of a layer.
            discard_ratio: Fraction of the lowest weights that rollout discards, from 0 to 0.95.
        """
        look = self.context.trace_image(self.context.find_run(run), load_uploaded_image(picture))
        if layer not in range(1, look.num_layers + 1):
            raise RunError(f"Layer {layer} does not exist. Choose 1 to {look.num_layers}.")
        heads = look.head_maps(int(layer))  # (H, rows, columns)
        rollout = look.rollout_map(int(layer), fusion=fusion, discard_ratio=discard_ratio)
        return {
            "heads": heads.tolist(),
            "mean": heads.mean(0).tolist(),
            "rollout": rollout.tolist(),
        }

    @show_user_errors
    def maps(self, picture: str, run: str) -> str:
        """Write all maps of one image and one model into a file.

        The result is an .npz file of NumPy arrays, with a description of each array.

        Args:
            picture: Image file. Agents send a public URL or a data URL (base64).
            run: Name of the model, as in the result of the tool `runs`.
        """
        return save_maps(
            self.context, run, load_uploaded_image(picture), make_cache_folder(self.file)
        )

    @show_user_errors
    def why(self, picture: str, run: str, target: str, against: str) -> dict:
        """Compute the attribution maps of a class for one image, by every method.

        The result contains the explained `class`, its `probability`, and `maps` (rows, columns) by
        method. In maps with a sign, positive values support the class, and negative values oppose
        it.

        Args:
            picture: Image file. Agents send a public URL or a data URL (base64).
            run: Name of the model, as in the result of the tool `runs`.
            target: Name of the class to explain. Empty: the predicted class.
            against: Name of a class whose logit is subtracted from the logit of `target`, or empty.
        """
        classes = {"target": target or None, "against": against or None}
        found = maps_of_class(
            self.context, self.context.find_run(run), load_uploaded_image(picture), **classes
        )
        return {
            "class": found.class_text,
            "probability": float(found.probabilities[found.target]),
            "maps": {m.method.name: m.values.tolist() for m in found.maps},
        }

    @show_user_errors
    def metrics(self, run: str) -> dict:
        """Return the test results of a model: its accuracy, and the metrics of each class.

        All values are fractions from 0 to 1, and undefined metrics are null. Names that end with
        `interval` are 95% confidence intervals over test images. `macro` and `weighted` are means
        over the classes.

        Args:
            run: Name of the model, as in the result of the tool `runs`.
        """
        table = self.context.cache.call(compute_classification_report, self.context.find_run(run))
        classes = {
            name: {"support": int(table.support[c])}
            | {column: _to_json_number(values[c]) for column, values in table.columns.items()}
            | {f"{n}_interval": _to_json_numbers(s[:, c]) for n, s in table.intervals.items()}
            for c, name in enumerate(table.classes)
        }
        return {
            "accuracy": table.accuracy,
            "accuracy_interval": _to_json_numbers(table.accuracy_interval),
            "classes": classes,
            "macro": {name: _to_json_number(mean) for name, mean in table.macro.items()},
            "weighted": {name: _to_json_number(mean) for name, mean in table.weighted.items()},
        }


def register_endpoints(context: AppContext) -> None:
    """Register the API endpoints, which have no visible components."""
    with gr.Row(visible=False):
        picture = PathImage(type="filepath", image_mode=None, label="picture")
        run = gr.Textbox(label="run")
        layer = gr.Number(1, label="layer")
        fusion = gr.Radio(list(FUSIONS), value="mean", label="fusion")
        discard_ratio = gr.Slider(0, 0.95, 0, label="discard_ratio")
        target = gr.Textbox("", label="target")
        against = gr.Textbox("", label="against")
        out = gr.JSON()
        file = gr.File(label="file")
        button = gr.Button()
    own = Endpoints(context, file)
    button.click(own.runs, None, out, api_name="runs", **LIGHT_QUEUE)
    button.click(own.classify, picture, out, api_name="classify", **MODEL_QUEUE)
    map_inputs = [picture, run, layer, fusion, discard_ratio]
    button.click(own.attention, map_inputs, out, api_name="attention", **MODEL_QUEUE)
    button.click(own.maps, [picture, run], file, api_name="maps", **MODEL_QUEUE)
    button.click(own.why, [picture, run, target, against], out, api_name="why", **LONG_QUEUE)
    button.click(own.metrics, run, out, api_name="metrics", **LIGHT_QUEUE)


def load_uploaded_image(path: str | None) -> Image.Image:
    """Return the centre crop of an uploaded image. Raises `ImageError` for an invalid file."""
    if path is None:
        raise ImageError(f"No image was sent. {NOT_A_FILE_MESSAGE}")
    return crop_visible_square(load_image(path))


def _to_json_number(value: float) -> float | None:
    """Return `value`, or None for NaN (an undefined metric), which JSON cannot represent."""
    return None if value != value else float(value)


def _to_json_numbers(values: Iterable[float]) -> list[float | None]:
    return [_to_json_number(value) for value in values]
