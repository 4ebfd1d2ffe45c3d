"""The Compare models tab: table of all runs with latency, ablations, and robustness."""

from collections.abc import Callable, Iterator

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.errors import Stopped, VitdemoError
from vitdemo.metrics import DASH
from vitdemo.page import space
from vitdemo.page.compare import ablation, models, robustness
from vitdemo.page.compare.models import (
    Latency,
    ModelRow,
    list_trained_runs,
    measure_run_latency,
    model_rows,
)
from vitdemo.page.components.article import Details, Document, DocumentBlock, Heading, Notice, Text
from vitdemo.page.components.run_choice import ABLATION_PREFIX, group_runs
from vitdemo.page.components.table import Column, Table
from vitdemo.page.kit import LIGHT_QUEUE, REFRESH_EVENT, Cancellation
from vitdemo.page.sections import LazySections
from vitdemo.runs import Run
from vitdemo.training.devices import is_zero_gpu

COMPARE_INTRO = (
    "All models in one table: cost, accuracy with confidence interval, calibration, and latency "
    "on this machine."
)
NO_RUNS_MESSAGE = (
    "There are no runs yet. Start one with `python train.py vit-small-cpu`; it appears in this "
    "table."
)
FOLDED_LABEL = "ablation runs"
LatenciesByRun = dict[
    str, list[Latency]
]  # run name -> one latency per batch size in `models.LATENCY_BATCH_SIZES`
MeasureRun = Callable[[Run], list[Latency]]


def build(tab: gr.Tab, context: AppContext, on_baseline_pick: Callable) -> None:
    """Lay out the tab and connect its events; its content is computed when the user opens it.

    `on_baseline_pick` registers a handler of the event `pick`, whose value is a baseline's name.
    """
    gr.Markdown(COMPARE_INTRO)
    table = Document(elem_id="models")
    timed = gr.State({}, time_to_live=3600)  # latencies measured in this session
    with gr.Row():
        time_button = gr.Button("Measure latency", size="sm", scale=0, min_width=200)
        gpu_button = gr.Button(
            "Measure latency on a GPU",
            size="sm",
            scale=0,
            min_width=200,
            visible=is_zero_gpu(),
            elem_id="latency-gpu",
        )
        stop_timing = gr.Button("Stop", size="sm", scale=0, min_width=100)
    state, stops = Document(elem_id="latency"), Cancellation()
    reported, sections = Document(elem_id="reported"), LazySections([], queue=LIGHT_QUEUE)

    def drawn(rows: list[ModelRow], measured: LatenciesByRun) -> list[DocumentBlock]:
        return model_table(rows, measured, ablation_run_names(context))

    def open_tab(measured):
        rows = model_rows(context)
        return drawn(rows, measured), published_table({row.recipe for row in rows})

    def here(run: Run) -> list[Latency]:
        return [measure_run_latency(context, run, batch) for batch in models.LATENCY_BATCH_SIZES]

    def listen(button: gr.Button, time_of: MeasureRun) -> None:
        def time_all(measured, progress=gr.Progress()):  # noqa: B008 - gradio reads the default
            for known, words in measure_latencies(
                context, measured, time_of, progress, stops.make_check()
            ):
                yield drawn(model_rows(context), known), known, words

        stops.start_on_click(button, time_all, timed, [table, timed, state], show_progress_on=state)

    sections.add("", open_tab, [timed], [table, reported])
    ablation.build(tab, sections, context, on_baseline_pick)
    robustness.build(sections, context)
    sections.draw_on(tab.select, sections.section_list)
    sections.wire({})
    listen(time_button, here)
    if is_zero_gpu():
        measure = space.gpu_function(space.measure_on_gpu, space.GPU_SECONDS)
        listen(gpu_button, lambda run: measure(context.load_model(run), run.preprocessing.size))
    stop_timing.click(stops.stop, **REFRESH_EVENT)


def ablation_run_names(context: AppContext) -> set[str]:
    """Return the names of the runs that run menus list under an ablation."""
    groups = context.cache.call(group_runs, context.list_runs()[0])
    return {name for label, names in groups if label.startswith(ABLATION_PREFIX) for name in names}


def model_table(
    rows: list[ModelRow], measured: LatenciesByRun, folded: set[str]
) -> list[DocumentBlock]:
    """Return the table of models, and the columns with the same value for all models.

    The rows of the runs `folded` are hidden at first. Exports contain all rows and columns.
    """
    if not rows:
        return [Notice(NO_RUNS_MESSAGE)]
    header, texts = models.model_cells(rows, measured)
    same = models.constant_columns(header, texts)
    words = "; ".join(f"{name}: {text}" for name, text in same.items() if text not in ("", DASH))
    aside = [i for i, row in enumerate(rows) if row.name in folded]
    aside = aside if len(aside) < len(rows) else []
    columns = [
        Column(name, text, numeric=name not in models.TEXT_COLUMNS, hidden=name in same)
        for name, text in models.COLUMN_HELP.items()
    ]
    return [
        *(Notice(row.problem) for row in rows if row.problem),
        Table(columns, texts, file="vitdemo-models", folded=aside, folded_words=FOLDED_LABEL),
        *([Text(f"Same value for all models: {words}.", quiet=True)] if words else []),
    ]


def published_table(known: set[str]) -> list[DocumentBlock]:
    """Return the table of published results, with the recipes `known` first."""
    header, rows = models.published_cells()
    rows = sorted(rows, key=lambda row: row[0] not in known)
    table = Table([Column(name, numeric=False) for name in header], rows)
    return [
        Heading("Published results"),
        Text(
            "Results of others on CIFAR-10 with the same or a similar recipe. We did not verify "
            "them. Some authors selected the best epoch on the test set, which overestimates the "
            "accuracy."
        ),
        Details(f"{len(rows)} results with sources", [table]),
    ]


def measure_latencies(
    context: AppContext,
    measured: LatenciesByRun,
    measure_run: MeasureRun,
    progress: gr.Progress,
    raise_if_stopped: Callable[[], None],
) -> Iterator[tuple[LatenciesByRun, list[DocumentBlock]]]:
    """Measure the latency of each model; after each, yield all latencies and their description."""
    measured, problems, words = dict(measured), [], []
    runs = list_trained_runs(context)
    names = [run.name for run in runs]
    for number, run in enumerate(runs):
        progress((number, len(runs)), desc=f"Timing {run.name}", unit="models")
        try:
            raise_if_stopped()
            measured[run.name] = measure_run(run)
            words = describe_latencies({name: measured[name] for name in names if name in measured})
        except VitdemoError as error:
            problems.append(Notice(str(error)))
        except Stopped:
            return
        yield measured, [*problems, *words]
    if not runs:
        yield measured, [Notice("There is no trained model. Train one first.")]


def describe_latencies(measured: LatenciesByRun) -> list[DocumentBlock]:
    """Describe the latency of each run and the measurement."""
    batches = " and ".join(map(str, models.LATENCY_BATCH_SIZES))
    each = "; ".join(
        f"{name} " + " and ".join(f"{found.milliseconds:.1f}" for found in several)
        for name, several in measured.items()
    )
    device = next(iter(measured.values()))[0].device
    return [
        Text(f"Latency in milliseconds for batches of {batches} images: {each}."),
        Text(
            f"Median of at least 5 forward passes on {device}, after {models.WARM_UP_PASSES} "
            "warm-up "
            "passes. Reading and resizing the images is not included. Other programs running at "
            "the same time increase the latency.",
            quiet=True,
        ),
    ]
