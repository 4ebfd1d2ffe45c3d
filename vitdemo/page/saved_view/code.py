"""Write Python code that computes the large attention map of a view state.

The map is `values` (rows, columns). The code draws the map over the model's input, saves the image
and prints the values. The code therefore shows a result both as a script and in a notebook.
"""

import re

from vitdemo.analyses.class_attribution import choose_first_map
from vitdemo.context import AppContext
from vitdemo.data.photos import OURS
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.figures import SEQUENTIAL_COLOURMAP
from vitdemo.installation import included_folder
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import choose_layer, load_trace
from vitdemo.page.explore.attention_maps.tensors import read_rollout_settings
from vitdemo.page.feature import Report
from vitdemo.page.image_sources import (
    ImageRequest,
    list_photos,
    parse_test_source,
    parse_truth_source,
)
from vitdemo.page.view_state import ViewState
from vitdemo.runs import Run

TASK = "saved_code"
HOW_TO_RUN = (
    "# Run this with vitdemo's Python: in its folder, or anywhere after `pip install FOLDER`."
)
IMAGE_FILE = "vitdemo-map.png"
OPACITY = 0.6  # opacity of the map over the image
FILE_NAME = "vitdemo-map.py"
PROGRESS = "Writing the code"
OWN_PHOTO = "photo.jpg"


def write_saved_code(context: AppContext, state: ViewState, report: Report) -> dict:
    """Return Python code that draws the large map. A task of the bridge. Raises `VitdemoError`."""
    report(0, 0, PROGRESS)
    return {"name": FILE_NAME, "text": write_code(context, state)}


def write_code(context: AppContext, state: ViewState) -> str:
    """Return the code of the large map of `state`, which has an image. Raises `VitdemoError`."""
    run, trace = context.find_run(state.model), load_trace(context, state)
    source = state[keys.MAP_SOURCE] or choose_first_map(context, run)[0]
    layer = choose_layer(context, state, run)
    imports, image = _image_lines(state.image)
    more, matrix = _matrix_lines(state, trace, source, layer)
    is_column = state[keys.DIRECTION] == "incoming" and source != "similar"
    rows, words = _token_rows(trace, state[keys.TOKEN])
    values = f"matrix[p:, {rows}].mean(1)" if is_column else f"matrix[{rows}, p:].mean(0)"
    relation = "of each patch to" if is_column else "to each patch of"
    title = f"{run.name}, {source}, layer {layer}"
    lines = [
        HOW_TO_RUN,
        "import matplotlib.pyplot as plt",
        "",
        "import vitdemo",
        *sorted([*imports, *(line for line in more if line.startswith("from "))]),
        "",
        image,
        f"trace = vitdemo.trace({_model_argument(run)!r}, image)",
        "p = trace.num_prefix_tokens  # special tokens before the patches",
        *(line for line in more if not line.startswith("from ")),
        matrix,
        f"values = {values}.reshape(trace.grid).cpu().numpy()  # {relation} {words}",
        "",
        "height, width = trace.input_image.shape[:2]",
        "plt.imshow(trace.input_image)",
        f"plt.imshow(values, cmap={SEQUENTIAL_COLOURMAP!r}, alpha={OPACITY}, "
        "extent=(0, width, height, 0))",
        "plt.colorbar()",
        f"plt.title({title!r})",
        f"plt.savefig({IMAGE_FILE!r})",
        "print(values)",
        f'print("The image of the map is in {IMAGE_FILE}.")',
    ]
    return "\n".join(lines) + "\n"


def _image_lines(request: ImageRequest) -> tuple[list[str], str]:
    """Return the imports, and the line that loads and crops the image."""
    imports = ["from vitdemo.data.image_files import crop_visible_square, load_image"]
    crop = f"position={request.crop_position:.4g})"
    number, test_set_id = parse_test_source(request.source) or (None, "")
    if number is not None and not test_set_id:
        imports = ["from vitdemo.data.image_files import crop_visible_square"]
        imports.append("from vitdemo.notebook import get_context")
        loaded = f"get_context().load_test_image({number}).image"
        return imports, f"image = crop_visible_square({loaded}, {crop}"
    if place := parse_truth_source(request.source):
        imports = ["from vitdemo.data.ground_truth import make_ground_truth_image"]
        return imports, f"image = make_ground_truth_image{place!r}.image"
    file = list_photos().get(request.source)
    if file and file.startswith(str(OURS)):
        imports.append("from vitdemo.installation import included_folder")
        name = file.removeprefix(str(OURS))[1:]
        return imports, (
            f'image = crop_visible_square(load_image(included_folder("photos") / {name!r}), {crop}'
        )
    note = "" if file else "  # the file of your photo"
    return imports, f"image = crop_visible_square(load_image({file or OWN_PHOTO!r}), {crop}{note}"


def _model_argument(run: Run) -> str:
    """Return the argument `model` of `vitdemo.trace` for `run`."""
    folders = [included_folder(name).resolve() for name in ("runs", "ground_truth")]
    return run.path.name if run.path.parent.resolve() in folders else str(run.path)


def _matrix_lines(
    state: ViewState, trace: ImageTrace, source: str, layer: int
) -> tuple[list[str], str]:
    """Return imports and preparatory lines, and the line that computes the matrix (N, N)."""
    head = min(round(state[keys.HEAD]), trace.attention.shape[1])
    if source == "rollout":
        settings = read_rollout_settings(state, layer)
        words = ", ".join(f"{name}={value!r}" for name, value in settings.arguments.items())
        return (
            [
                "from vitdemo.explain.attention import rollout_steps",
                f"steps = rollout_steps(trace.attention[:, None], {words}, num_prefix_tokens=p)",
            ],
            f"matrix = steps[{layer - settings.first_layer}, 0]  # rollout up to layer {layer}",
        )
    if source in ("norm", "norm-head"):
        name = "summed_head_norms" if source == "norm" else "head_norms"
        where = f"[{layer - 1}]" if source == "norm" else f"[{layer - 1}, {head - 1}]"
        return (
            [
                "from vitdemo.notebook import get_context",
                f"from vitdemo.explain.norms import {name}, norms_to_weights",
                f"norms = {name}(trace.attention, get_context().value_products(trace))",
            ],
            f"matrix = norms_to_weights(norms){where}  # layer {layer}",
        )
    of_layer = {
        "head": f"trace.attention[{layer - 1}, {head - 1}]  # layer {layer}, head {head}",
        "mean": f"trace.attention[{layer - 1}].mean(0)  # layer {layer}, mean of the heads",
        "similar": f"trace.token_similarity[{layer - 1}]  # cosine similarity after layer {layer}",
    }
    return [], f"matrix = {of_layer[source]}"


def _token_rows(trace: ImageTrace, token: str) -> tuple[str, str]:
    """Return a token's index as code, and its name; by default, the token of the classifier."""
    p, (rows, columns) = trace.num_prefix_tokens, trace.grid
    if token == "mean":
        return "p:", "the average patch"
    if found := re.fullmatch(r"(\d{1,4}),(\d{1,4})", token):
        row, column = (
            min(max(int(number), 1), limit)
            for number, limit in zip(found.groups(), (rows, columns), strict=True)
        )
        return (
            f"[p + {(row - 1) * columns + column - 1}]",
            f"the patch in row {row}, column {column}",
        )
    if (found := re.fullmatch(r"t(\d{1,3})", token)) and int(found[1]) < p:
        return f"[{int(found[1])}]", trace.prefix_names[int(found[1])]
    first, last = trace.classifier_rows.start or 0, trace.classifier_rows.stop
    return (f"{first}:{last}", trace.reader_name) if last else (f"{first}:", trace.reader_name)
