"""The section "Why this class?": attribution maps side by side, and the faithfulness test."""

from collections.abc import Callable
from functools import partial
from html import escape

import gradio as gr

from vitdemo.analyses.class_maps import ClassMaps, compute_class_maps, measure_faithfulness
from vitdemo.errors import Stopped, VitdemoError
from vitdemo.explain.faithfulness import NUM_COPIES, NUM_RANDOM_ORDERS
from vitdemo.explain.faithfulness.sanity import NUM_RANDOM_HEADS
from vitdemo.page.components.article import Document, DocumentBlock
from vitdemo.page.components.maps import MapRow
from vitdemo.page.explore.class_maps import drawing
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.image_sources import TRUE_CLASS_KEY
from vitdemo.page.kit import (
    LIGHT_QUEUE,
    LONG_QUEUE,
    NO_API,
    Cancellation,
    UncheckedDropdown,
    UncheckedRadio,
    show_user_errors,
    update_choices,
)
from vitdemo.page.sections import LazySection

PROGRESS_PLACEHOLDER = gr.Progress()  # a default value: gradio passes its own object at each call
PREDICTED_CLASS_VALUE, NO_CLASS_VALUE = (
    "",
    "",
)  # values of the two class lists: the predicted class, no second class
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
    """Lay out the section and connect its events."""
    context = look.context
    gr.Markdown(CLASS_MAPS_INTRO)
    with gr.Row():
        target = UncheckedDropdown(
            [("the predicted class", PREDICTED_CLASS_VALUE)],
            value=PREDICTED_CLASS_VALUE,
            label="Class to explain",
            elem_id="why-class",
            min_width=220,
        )
        against = UncheckedDropdown(
            [("none", NO_CLASS_VALUE)],
            value=NO_CLASS_VALUE,
            label="Second class",
            elem_id="why-against",
            min_width=220,
        )
        fill = UncheckedRadio(
            [(words, name) for name, words in drawing.FILL_LABELS.items()],
            value="drop",
            label="Replacement for removed patches",
            elem_id="why-fill",
            min_width=320,
        )
    shown = Document(elem_id="why-maps")
    with gr.Row():
        slow = gr.Button("Compute slow maps", elem_id="why-slow")
        measure = gr.Button("Test faithfulness", elem_id="why-measure")
        cancel = gr.Button("Cancel", elem_id="why-cancel", variant="stop", visible=False)
    gr.Markdown(FAITHFULNESS_HELP)
    meter = Document(elem_id="why-meter")
    stops = Cancellation()
    look.url_params |= {"why": target, "not": against, "fill": fill}
    asked = [target, against, fill]

    def ask(image, name, target, against, **options) -> ClassMaps:
        run, classes = (
            context.find_run(name),
            {"target": target or None, "against": against or None},
        )
        return compute_class_maps(context, run, image, **classes, **options)

    def redraw(image, name, target, against, fill):
        stops.stop_different(image, name, target, against, fill)
        return render_class_maps(ask(image, name, target, against, include_slow=False), fill)

    def draw(image, name, target, against, fill):
        """Return the maps, and the choices of the controls for this image and model."""
        stops.stop_different(image, name, target, against, fill)
        try:
            found = ask(image, name, target, against, include_slow=False)
        except VitdemoError as error:  # the model does not have this class
            found = ask(image, name, PREDICTED_CLASS_VALUE, NO_CLASS_VALUE, include_slow=False)
            target, against = None, None  # `choices` then selects the first entries
            gr.Info(escape(str(error)))
        *updates, fill = update_controls(
            found, target, against, fill, image.info.get(TRUE_CLASS_KEY)
        )
        return *render_class_maps(found, fill), *updates

    def at_length(work: Callable[..., ClassMaps], words: str) -> Callable:
        """Return a handler that runs `work` with a progress bar.

        The handler stops if the user cancels, or chooses another image or class.
        """

        @show_user_errors
        def handler(image, name, target, against, fill, progress=PROGRESS_PLACEHOLDER):
            raise_if_stopped = stops.make_check(image, name, target, against, fill)

            def on_step(done, total):
                raise_if_stopped()
                progress((done, total), desc=words, unit="steps")

            try:
                raise_if_stopped()
                found = work(image, name, target, against, fill, on_step)
                raise_if_stopped()
            except Stopped:
                return gr.skip(), gr.skip()
            return render_class_maps(found, fill)

        return handler

    def slow_maps(image, name, target, against, fill, on_step) -> ClassMaps:
        return ask(image, name, target, against, include_slow=True, on_step=on_step)

    def checked_maps(image, name, target, against, fill, on_step) -> ClassMaps:
        return ask(
            image, name, target, against, include_slow=True, check_slow=True, on_step=on_step
        )

    def measured(image, name, target, against, fill, on_step) -> ClassMaps:
        found = ask(image, name, target, against, include_slow=False)
        measure_faithfulness(context, found, image, fill=fill, on_step=on_step)
        return ask(image, name, target, against, include_slow=False)  # with the cached result

    def start(image, name, *choices):
        if image is None or name is None:
            return buttons(working=False)
        stops.start(image, name, *choices)
        return buttons(working=True)

    def stop():
        stops.stop()
        return buttons(working=False)

    def buttons(working: bool) -> tuple[dict, dict, dict]:
        free = gr.update(interactive=not working)
        return free, free, gr.update(visible=working)

    controls = [slow, measure, cancel]
    look.add("why", draw, asked, [shown, meter, *asked], triggers=[])
    changed = LazySection(["why"], redraw, asked, [shown, meter])
    look.draw_on(partial(gr.on, [choice.input for choice in asked]), [changed])
    slowly = [
        (slow_maps, "Computing slow maps"),
        (checked_maps, "Testing dependence on class and head"),
    ]
    truly = [(measured, "Running the faithfulness test")]
    for button, works in ((slow, slowly), (measure, truly)):
        question = [*look.common_inputs, *asked]
        done = button.click(start, question, controls, **NO_API, **LIGHT_QUEUE)
        for work, words in works:
            done = done.then(
                at_length(work, words),
                inputs=question,
                outputs=[shown, meter],
                show_progress_on=meter,
                **NO_API,
                **LONG_QUEUE,
            )
        done.then(lambda: buttons(working=False), outputs=controls, **NO_API, **LIGHT_QUEUE)
    cancel.click(stop, None, controls, **NO_API, **LIGHT_QUEUE)


def render_class_maps(found: ClassMaps, fill: str) -> tuple[list[MapRow], list[DocumentBlock]]:
    """Return the attribution maps, and the cached results of the faithfulness test, if any."""
    known = found.cached_results.get(fill)
    return [drawing.class_map_row(found, known, fill)], drawing.faithfulness_blocks(found, known)


def update_controls(
    found: ClassMaps,
    target: str | None,
    against: str | None,
    fill: str,
    true_class: str | None = None,
) -> tuple[dict, dict, dict, str]:
    """Return updates of both class menus and the replacement menu, and the chosen replacement.

    The `true_class` of a test image is marked, and is the first of the classes.
    """
    ordered = sorted(dict.fromkeys(found.run.classes), key=lambda name: name != true_class)
    names = [(f"{name} (the true class)" if name == true_class else name, name) for name in ordered]
    predicted = found.run.classes[int(found.probabilities.argmax())]
    fills = [(words, name) for name, words in drawing.FILL_LABELS.items() if name in found.fills]
    targets, _ = update_choices(
        [(f"the predicted class ({predicted})", PREDICTED_CLASS_VALUE), *names], target
    )
    others, _ = update_choices([("none", NO_CLASS_VALUE), *names], against)
    update, fill = update_choices(fills, fill)
    return targets, others, update, fill
