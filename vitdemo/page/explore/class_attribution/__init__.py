"""The section "Why this class?": attribution maps side by side, and the faithfulness test.

The payload is two documents, for the two elements of the view:

    {"maps": blocks, "faithfulness": blocks}

It contains the slow maps and the results of the faithfulness test that are in the cache. The two
tasks compute them.
"""

import gradio as gr

from vitdemo.analyses.class_maps import (
    ClassMaps,
    compute_class_maps,
    measure_faithfulness,
)
from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.explain.attributions import OnStep
from vitdemo.explain.faithfulness import NUM_COPIES, NUM_RANDOM_ORDERS
from vitdemo.explain.faithfulness.sanity import NUM_RANDOM_HEADS
from vitdemo.page.bridge import (
    Report,
    ViewData,
    ViewState,
    add_view,
    document_payload,
    load_square,
)
from vitdemo.page.explore.class_attribution.blocks import (
    FILL_LABELS,
    class_map_row,
    faithfulness_blocks,
)
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.gradio_patches import UncheckedDropdown, UncheckedRadio
from vitdemo.page.image_sources import TRUE_CLASS_KEY

VIEW = "class_attribution"
TEXTS = {
    "compute_slow_maps": "Compute slow maps",
    "test_faithfulness": "Test faithfulness",
}
# Values of the two class lists, also in URLs: the predicted class, and no second class.
PREDICTED_CLASS_VALUE = NO_CLASS_VALUE = ""
CLASS_MAPS_INTRO = (
    "Each map shows which patches support a class, according to one attribution method. The "
    "methods often disagree. Choose a second class to compare the reasons for the two classes. The "
    "**faithfulness test** removes patches in the order of each map and measures how the "
    "probability of the class changes. A plausible map may still fail this test."
)
FAITHFULNESS_HELP = (
    "**Faithfulness test.** *Deletion* removes patches, those with the highest map values first. "
    "*Insertion* restores them in the same order. The score is the area under the insertion curve "
    "minus the area under the deletion curve, in percentage points. It measures how well the map "
    "predicts the response of **this model** to removed patches. It does not measure whether the "
    "prediction is correct, or which patches a human would use.\n\n"
    "Compare each score with four baselines:\n"
    "- **Random orders** use neither the image nor the model. "
    f"A map is tested against {NUM_RANDOM_ORDERS} of them.\n"
    "- **Transformed copies** are the same map, rotated, flipped or shifted. They are needed "
    "because smooth maps score high at any position. "
    f"A map is tested against up to {NUM_COPIES} of them.\n"
    "- **Centre first** ranks patches by their distance to the centre, because most photos show "
    "their subject there.\n"
    "- The **edge map** (Sobel gradient, mean per patch) uses the image but no model.\n\n"
    "The tests against random orders and transformed copies have p-values. *Not significantly "
    "better* means p > 0.05. Centre first and the edge map have only one score per image, so this "
    "comparison has no p-value. The false-positive rate of 5% applies to each map separately, and "
    "only to maps that do not use the image. With vit-scratch, an edge map passes both tests on "
    "10 of 40 validation images. The mean relevance of other images passes both tests on 8 of "
    "40.\n\n"
    "Do not compare scores between models, because a model's confidence changes the score of the "
    "same order. If the logits of vit-scratch are halved, the mean score of relevance falls from "
    "36 to 19 points. Do not compare scores between replacements either. The included Vision "
    "Transformers were trained with half of the patches dropped (PatchDropout). The included "
    "convolutional model was trained with a square removed from each image (Cutout). Other models "
    "may never have seen a removed patch.\n\n"
    "**Does the map depend on the class and on the classifier head?** Below each map is its rank "
    "correlation with the map for the runner-up class. The next line gives its rank correlations "
    f"with the maps of {NUM_RANDOM_HEADS} models with a randomised classifier head (Adebayo et al. "
    "2018): mean, minimum and maximum. The baseline is the correlation between these maps, which "
    "is not 0. A map passes the check if its correlation is not significantly higher than the "
    "baseline. If both correlations are near 1, the map depends only on the image and on the "
    "layers before the classifier head."
)


def build(look: ExploreTab) -> None:
    """Lay out the section, whose view the browser draws."""
    classes = list_first_classes(look)
    gr.Markdown(CLASS_MAPS_INTRO)
    with gr.Row():
        target = UncheckedDropdown(
            [("the predicted class", PREDICTED_CLASS_VALUE), *classes],
            value=PREDICTED_CLASS_VALUE,
            label="Class to explain",
            elem_id="why-class",
            min_width=220,
        )
        against = UncheckedDropdown(
            [("none", NO_CLASS_VALUE), *classes],
            value=NO_CLASS_VALUE,
            label="Second class",
            elem_id="why-against",
            min_width=220,
        )
        fill = UncheckedRadio(
            [(words, name) for name, words in FILL_LABELS.items()],
            value="drop",
            label="Replacement for removed patches",
            elem_id="why-fill",
            min_width=320,
        )
    add_view(VIEW, elem_id="why-maps")
    gr.Markdown(FAITHFULNESS_HELP)
    add_view(VIEW, elem_id="why-meter")
    look.controls |= {"why": target, "not": against, "fill": fill}


def list_first_classes(look: ExploreTab) -> list[str]:
    """Return the classes of the initial model, to choose from before the first payload."""
    runs = look.context.explainable_runs()
    classes = (run.classes for run in runs if run.name == look.model.value)
    return list(dict.fromkeys(next(classes, ())))


def payload(context: AppContext, state: ViewState) -> ViewData:
    """Return the documents of the view, and updates of its controls. Raises `VitdemoError`."""
    found, problem = load_class_maps(context, state, include_slow=False)
    fill = choose_fill(found, state)
    known = found.cached_results.get(fill)
    return ViewData(
        {
            "maps": document_payload([class_map_row(found, known, fill, problem)]),
            "faithfulness": document_payload(faithfulness_blocks(found, known)),
        },
        control_updates(
            found,
            state.read_choice("why", found.run.classes, PREDICTED_CLASS_VALUE),
            fill,
            load_square(context, state.image).info.get(TRUE_CLASS_KEY),
        ),
    )


def compute_slow_maps(context: AppContext, state: ViewState, report: Report) -> None:
    """Compute the slow maps, then check how they depend on the class and the classifier head."""
    on_step = add_text(report, "Computing slow maps")
    load_class_maps(context, state, include_slow=True, on_step=on_step)
    on_step = add_text(report, "Testing dependence on class and classifier head")
    load_class_maps(context, state, include_slow=True, check_slow=True, on_step=on_step)


def run_faithfulness_test(context: AppContext, state: ViewState, report: Report) -> None:
    """Run the faithfulness test on the maps that the view shows."""
    found, _ = load_class_maps(context, state, include_slow=False)
    on_step = add_text(report, "Running the faithfulness test")
    image, fill = load_square(context, state.image), choose_fill(found, state)
    measure_faithfulness(context, found, image, fill=fill, on_step=on_step)


TASKS = {f"{VIEW}.slow": compute_slow_maps, f"{VIEW}.faithfulness": run_faithfulness_test}


def add_text(report: Report, text: str) -> OnStep:
    """Return a function that reports its progress with `text`."""
    return lambda done, total: report(done, total, text)


def load_class_maps(context: AppContext, state: ViewState, **options) -> tuple[ClassMaps, str]:
    """Return the maps of the view state, and a message if it has an unsuitable class.

    If the model does not have a chosen class, or if both classes are equal, there is no second
    class. For `options`, see `compute_class_maps`.
    """
    run, image = context.find_run(state.model), load_square(context, state.image)
    target = state.read_choice("why", run.classes, PREDICTED_CLASS_VALUE) or None
    chosen = {"target": state.read_text("why") or None, "against": state.read_text("not") or None}
    try:
        return compute_class_maps(context, run, image, **chosen, **options), ""
    except RunError as error:
        return compute_class_maps(context, run, image, target=target, **options), str(error)


def choose_fill(found: ClassMaps, state: ViewState) -> str:
    """Return the chosen replacement for removed patches, or the first that the model supports."""
    return state.read_choice("fill", found.fills, found.fills[0])


def control_updates(
    found: ClassMaps, target: str, fill: str, true_class: str | None = None
) -> dict[str, dict]:
    """Return the choices and the values of both class lists and of the replacement.

    The `true_class` of a test image is marked, and is the first of the classes.
    """
    classes = found.run.classes
    ordered = sorted(dict.fromkeys(classes), key=lambda name: name != true_class)
    names = [(f"{name} (the true class)" if name == true_class else name, name) for name in ordered]
    predicted = f"the predicted class ({classes[int(found.probabilities.argmax())]})"
    against = NO_CLASS_VALUE if found.against is None else classes[found.against]
    fills = [(words, name) for name, words in FILL_LABELS.items() if name in found.fills]
    return {
        "why": {"choices": [(predicted, PREDICTED_CLASS_VALUE), *names], "value": target},
        "not": {"choices": [("none", NO_CLASS_VALUE), *names], "value": against},
        "fill": {"choices": fills, "value": fill},
    }
