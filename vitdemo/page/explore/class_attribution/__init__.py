"""The section "Why this class?": attribution maps of a class, and the faithfulness test.

The payload of the maps:

    {"run": str, "target": class, "against": second class or None, "problem": str,
     "probabilities": of both classes, "seen": file, "grid": rows and columns of the patches,
     "maps": see `describe_map`,
     "first": name of the map that is large if the user chose none,
     "measured": see `describe_measurement`, "scores": see `score_payload`,
     "truth": see `ground_truth.describe_truth`,
     "has_slow": whether slow maps or their checks are missing,
     "is_untested": whether the test of a map is missing,
     "is_quick": whether the test takes only seconds, so that the browser starts it}

It contains slow maps, results of the faithfulness test and the best order only if they are in the
cache. Three tasks compute them. A ground truth model is so small that all maps are computed at
once. The fold *Details* is a separate document. Its curves and
checks are therefore computed only if a user opens the fold.
"""

from functools import partial

import gradio as gr

from vitdemo.analyses.class_attribution import (
    AttributionMap,
    ClassAttribution,
    compute_class_attribution,
    find_best_order,
    measure_faithfulness,
)
from vitdemo.analyses.ranked_patches import (
    compare_ranking,
    count_ranked,
    find_best_ranking,
    get_grid,
)
from vitdemo.context import AppContext
from vitdemo.documents.payload import blocks_to_json
from vitdemo.errors import RunError
from vitdemo.explain.attributions import OnStep, list_methods
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import (
    ImageFile,
    add_view,
    choose_layer,
    document_payload,
    is_quick,
    load_square,
    round_numbers,
)
from vitdemo.page.explore.class_attribution.blocks import (
    FILL_LABELS,
    PROBABILITY_DIGITS,
    describe_method,
    label_fill,
    result_blocks,
    score_payload,
)
from vitdemo.page.explore.class_attribution.ground_truth import describe_truth
from vitdemo.page.explore.class_attribution.ranking import parse_ranking, ranking_blocks
from vitdemo.page.explore.class_attribution.tensors import GRAPH, make_loops
from vitdemo.page.feature import Feature, PageSetup, Report, ViewData
from vitdemo.page.gradio_patches import UncheckedDropdown
from vitdemo.page.image_sources import TRUE_CLASS_KEY, get_truth_task
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW, DETAILS = "class_attribution", "class_attribution_details"
RANKING_VIEW = "attribution_ranking"
DETAILS_TITLE = "Details"
CHOICES = keys.LAYER, keys.EXPLAINED_CLASS, keys.SECOND_CLASS, keys.PATCH_REPLACEMENT


def build(setup: PageSetup) -> None:
    classes = list_first_classes(setup)

    def add_class_list(key: keys.TextKey, label: str) -> None:
        choices = [(label, key.start), *classes]
        setup.controls.add(key, UncheckedDropdown, choices, value=key.start)

    with gr.Row(elem_classes="vd-filters"):
        add_class_list(keys.EXPLAINED_CLASS, "predicted class")
    add_view(VIEW, elem_id="attribution-maps")
    add_view(RANKING_VIEW, elem_id="ranking-results")
    with gr.Accordion(
        DETAILS_TITLE, open=False, elem_id="attribution-details", elem_classes="vd-about"
    ):
        with gr.Row(elem_classes="vd-filters"):
            add_class_list(keys.SECOND_CLASS, "none")
            setup.controls.add(keys.PATCH_REPLACEMENT, UncheckedDropdown)
        add_view(DETAILS, elem_id="faithfulness-results")


def list_first_classes(setup: PageSetup) -> list[str]:
    """Return the classes of the initial model, to choose from before the first payload."""
    runs = setup.context.explainable_runs()
    classes = (run.classes for run in runs if run.name == setup.shown["model"].value)
    return list(dict.fromkeys(next(classes, ())))


@needs(keys.IMAGE, keys.MODEL, *CHOICES)
def payload(context: AppContext, state: ViewState) -> ViewData:
    found, problem = load_class_attribution(context, state, check_fast=False)
    truth, maps = None, found.maps
    if shows_truth(state):
        truth = describe_truth(found, state.image)
        maps = sorted(maps, key=lambda each: -truth["shares"][each.method.name])
    fill = choose_fill(found, state)
    known = found.cached_results.get(fill)
    missing = found.maps if known is None else known.list_missing(found.maps)
    target, against = found.target, found.against
    indices = [target] if against is None else [target, against]
    return ViewData(
        {
            "run": found.run.name,
            "target": found.run.classes[target],
            "against": None if against is None else found.run.classes[against],
            "problem": problem,
            "probabilities": round_numbers(found.probabilities[indices], PROBABILITY_DIGITS),
            "seen": ImageFile(found.input_image),
            "grid": list(get_grid(context, found)),
            "maps": [describe_map(found, each, fill) for each in maps],
            "first": choose_large_map(found, fill),
            "measured": describe_measurement(found, fill),
            "scores": score_payload(known),
            "truth": truth,
            "has_slow": truth is None and has_missing_maps(context, found),
            "is_untested": len(missing) > 0,
            "is_quick": is_quick(context, found.run),
        },
        control_updates(
            found,
            choose_target(found.run, state),
            fill,
            load_square(context, state.image).info.get(TRUE_CLASS_KEY),
        ),
    )


@needs(keys.IMAGE, keys.MODEL, *CHOICES)
def details_payload(context: AppContext, state: ViewState) -> list:
    found, _ = load_class_attribution(context, state)
    known = found.cached_results.get(choose_fill(found, state))
    return document_payload(result_blocks(found, known))


@needs(keys.IMAGE, keys.MODEL, *CHOICES, keys.RANKING)
def ranking_payload(context: AppContext, state: ViewState) -> list:
    """Return the comparison of a complete ranking by hand with the maps, as a document."""
    if not state[keys.RANKING]:
        return []
    found, _ = load_class_attribution(context, state, check_fast=False)
    patches = parse_ranking(state[keys.RANKING], get_grid(context, found))
    if len(patches) < count_ranked(get_grid(context, found)):
        return []
    image, fill = load_square(context, state.image), choose_fill(found, state)
    compared = compare_ranking(context, found, image, patches, fill=fill)
    return document_payload(ranking_blocks(found, compared, len(patches)))


def describe_map(maps: ClassAttribution, attribution_map: AttributionMap, fill: str) -> dict:
    method, is_signed = attribution_map.method, attribution_map.is_signed
    described = describe_method(method, is_signed, maps.best_maps(fill))
    values = blocks_to_json(attribution_map.values, ImageFile)
    return described | {"title": attribution_map.title, "values": values}


def choose_large_map(maps: ClassAttribution, fill: str) -> str:
    """Return the map with the highest score on this image.

    Before the test, return the map with the highest mean score on many images.
    """
    if (known := maps.cached_results.get(fill)) is None:
        return maps.maps[0].method.name
    return max(known.ranks, key=lambda name: known.scores[name].score)


def describe_measurement(maps: ClassAttribution, fill: str) -> dict | None:
    """Return how the mean scores of the run were measured, or None without mean scores."""
    if (found := maps.summaries.get(fill)) is None:
        return None
    settings = {"count": found.pictures, "part": found.part, "steps": found.steps}
    return {**settings, "fill": FILL_LABELS[fill].lower()}


def compute_slow_maps(context: AppContext, state: ViewState, report: Report) -> None:
    """Compute the slow maps, then run their sanity checks."""
    on_step = add_text(report, "Computing slow maps")
    load_class_attribution(context, state, include_slow=True, on_step=on_step)
    on_step = add_text(report, "Checking slow maps")
    load_class_attribution(context, state, include_slow=True, check_slow=True, on_step=on_step)


def run_faithfulness_test(context: AppContext, state: ViewState, report: Report) -> None:
    found, _ = load_class_attribution(context, state, check_fast=False)
    on_step = add_text(report, "Running the faithfulness test")
    image, fill = load_square(context, state.image), choose_fill(found, state)
    measure_faithfulness(context, found, image, fill=fill, on_step=on_step)


def search_best_order(context: AppContext, state: ViewState, report: Report) -> None:
    """Run the missing parts of the faithfulness test, then search for the best orders.

    The first search is for the first patches of an order: see `ranked_patches`. The page offers the
    task until the second one has ended.
    """
    run_faithfulness_test(context, state, report)
    found, _ = load_class_attribution(context, state, check_fast=False)
    image, fill = load_square(context, state.image), choose_fill(found, state)
    for text, search in (("ranking", find_best_ranking), ("order", find_best_order)):
        on_step = add_text(report, f"Searching for the best {text}")
        search(context, found, image, fill=fill, on_step=on_step)


SLOW_TASK, TEST_TASK, ORDER_TASK = (f"{VIEW}.{task}" for task in ("slow", "faithfulness", "order"))
FEATURE = Feature(
    payloads={VIEW: payload, DETAILS: details_payload, RANKING_VIEW: ranking_payload},
    graphs={VIEW: GRAPH},
    tasks={
        SLOW_TASK: compute_slow_maps,
        TEST_TASK: run_faithfulness_test,
        ORDER_TASK: search_best_order,
    },
    loops={SLOW_TASK: partial(make_loops, VIEW)},
)


def add_text(report: Report, text: str) -> OnStep:
    return lambda done, total: report(done, total, text)


def load_class_attribution(
    context: AppContext, state: ViewState, *, include_slow: bool = False, **options
) -> tuple[ClassAttribution, str]:
    """Return the maps of the view state, and a message if a chosen class is unsuitable.

    If the model does not have a chosen class, or if both classes are equal, there is no second
    class. For `options`, see `compute_class_attribution`.
    """
    run, image = context.find_run(state.model), load_square(context, state.image)
    options |= {"include_slow": include_slow or shows_truth(state)}
    options |= {"layer": choose_layer(context, state, run) if context.count_layers(run) else None}
    classes = {"target": state[keys.EXPLAINED_CLASS], "against": state[keys.SECOND_CLASS]}
    chosen = {name: value or None for name, value in classes.items()}
    try:
        return compute_class_attribution(context, run, image, **chosen, **options), ""
    except RunError as error:
        target = choose_target(run, state) or None
        return compute_class_attribution(context, run, image, target=target, **options), str(error)


def shows_truth(state: ViewState) -> bool:
    """Return whether the image is a ground truth image of the state's model."""
    return get_truth_task(state.image) == state.model


def choose_target(run: Run, state: ViewState) -> str:
    """Return the chosen class of `run`; "" for the predicted class."""
    chosen = state[keys.EXPLAINED_CLASS]
    return chosen if chosen in run.classes else ""


def has_missing_maps(context: AppContext, maps: ClassAttribution) -> bool:
    """Return whether `compute_slow_maps` would compute slow maps or their checks."""
    slow = [each for each in list_methods(context.load_model(maps.run)) if each.is_slow]
    checks = {each.method.name: each.check for each in maps.maps}
    is_checked = maps.against is not None or all(checks.get(each.name) for each in slow)
    return not is_checked or any(each.name not in checks for each in slow)


def choose_fill(maps: ClassAttribution, state: ViewState) -> str:
    """Return the chosen replacement for removed patches, or the first that the model supports."""
    chosen = state[keys.PATCH_REPLACEMENT]
    return chosen if chosen in maps.fills else maps.fills[0]


def control_updates(
    maps: ClassAttribution, target: str, fill: str, true_class: str | None = None
) -> dict[str, dict]:
    """Return the choices and the values of both class lists and of the replacement.

    The `true_class` of a test image is marked, and is the first of the classes.
    """
    classes = maps.run.classes
    ordered = sorted(dict.fromkeys(classes), key=lambda name: name != true_class)
    names = [(f"{name} (the true class)" if name == true_class else name, name) for name in ordered]
    predicted = f"predicted class ({classes[int(maps.probabilities.argmax())]})"
    against = "" if maps.against is None else classes[maps.against]
    fills = [(label_fill(name, maps.run), name) for name in FILL_LABELS if name in maps.fills]
    return {
        keys.EXPLAINED_CLASS.name: {"choices": [(predicted, ""), *names], "value": target},
        keys.SECOND_CLASS.name: {"choices": [("none", ""), *names], "value": against},
        keys.PATCH_REPLACEMENT.name: {"choices": fills, "value": fill},
    }
