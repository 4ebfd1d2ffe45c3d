"""Export of all maps of one image to a single `.npz` file that includes a README.

arrays = compute_all_maps(context, context.find_run("finetune-deit-tiny"), image)
arrays["rollout"].shape  # (L, rows, columns)
"""

import re
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from vitdemo.analyses.perturbation import compute_ranking_maps
from vitdemo.context import AppContext
from vitdemo.explain.attributions import attribute_many
from vitdemo.explain.checks import to_numpy
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.runs import Run

README_FILE = "README.txt"
# Description of each exported array; `render_readme` explains the letters.
ARRAY_DESCRIPTIONS = {
    "seen": "model input: the cropped and resized image, uint8 (S, S, 3)",
    "logits": "logits (C,)",
    "probabilities": "class probabilities, the softmax of the logits (C,)",
    "attention": "attention weights of every head; row = query, column = key (L, H, N, N)",
    "heads": "attention of the classifier's input tokens to the patches (L, H, rows, columns)",
    "rollout": "attention rollout after each layer, mean over heads (L, rows, columns)",
    "relevance": "relevance of each patch for the class in `class_index` (rows, columns)",
    "attnlrp": "the same by AttnLRP; negative values oppose the class (rows, columns)",
    "class_index": "index of the predicted class ()",
    "classes": "class names (C,)",
}


def compute_all_maps(context: AppContext, run: Run, image: Image.Image) -> dict[str, np.ndarray]:
    """Compute all maps of `run`'s model for an RGB image, by the names in `ARRAY_DESCRIPTIONS`.

    For a model without classes, class-specific maps are left out. Raises `RunError`.
    """
    look = context.trace_image(run, image)
    found = {
        "seen": look.input_image,
        "attention": to_numpy(look.attention),
        "heads": np.stack([look.head_maps(layer + 1) for layer in range(look.num_layers)]),
        "rollout": compute_ranking_maps(look)["rollout"],
    }
    found |= _compute_class_arrays(context, look, image) if run.classes else {}
    return {name: found[name] for name in ARRAY_DESCRIPTIONS if name in found}


def _compute_class_arrays(
    context: AppContext, trace: ImageTrace, image: Image.Image
) -> dict[str, np.ndarray]:
    run, target = trace.run, int(trace.logits.argmax())
    _, pixels = context.prepare_input(run.preprocessing, image)
    maps = attribute_many(["relevance", "attnlrp"], context.load_model(run), pixels, target)
    return {
        "logits": to_numpy(trace.logits),
        "probabilities": to_numpy(trace.logits.float().softmax(0)),
        **{name: to_numpy(values[0]) for name, values in maps.items()},
        "class_index": np.array(target),
        "classes": np.array(run.classes),
    }


def render_readme(run: Run, arrays: dict[str, np.ndarray]) -> str:
    """Return the text of the README that describes the exported `arrays` of `run`."""
    lines = [
        f"Maps of one image by the model '{run.name}', computed with vitdemo.",
        "",
        "L layers, H attention heads, N tokens (first the special tokens, such as the class",
        "token, then the patches row by row), C classes, S side of the image in pixels.",
        "Maps have the rows and columns of the patch grid.",
        "Attention and rollout do not depend on the class, so they do not explain a prediction.",
        "",
        "    maps = numpy.load(FILE)",
        *(
            f"    maps['{name}']  # {ARRAY_DESCRIPTIONS[name]}: {value.shape}"
            for name, value in arrays.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def save_maps(context: AppContext, name: str, image: Image.Image, folder: Path) -> str:
    """Save all maps of the run `name` for `image` in `folder`; return the path of the file.

    The file also contains a README, because an `.npz` file is a zip archive.
    """
    run = context.find_run(name)
    arrays = compute_all_maps(context, run, image)
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", run.name).strip("-")
    path = folder / f"vitdemo-maps-{plain}.npz"
    np.savez_compressed(path, **arrays)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(README_FILE, render_readme(run, arrays))
    return str(path)
