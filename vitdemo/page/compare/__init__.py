"""The Compare models tab: table of all runs with latency, ablations, and robustness."""

from collections.abc import Callable, Iterator

import gradio as gr

from vitdemo.errors import Stopped, VitdemoError
from vitdemo.metrics import DASH
from vitdemo.page import space
from vitdemo.page.compare import ablation, models, robustness
from vitdemo.page.compare.models import Latency, ModelRow, latency, model_rows, trained_rows
from vitdemo.page.components.article import Article, Folded, Heading, Notice, Piece, Text
from vitdemo.page.components.run_choice import ABLATION, grouped
from vitdemo.page.components.table import Column, Table
from vitdemo.page.kit import LIGHT_QUEUE, QUIET, Stops
from vitdemo.page.sections import Sections
from vitdemo.runs import Run
from vitdemo.training.devices import on_zero_gpu
from vitdemo.workbench import Workbench

INTRO = (
    "All models in one table: cost, accuracy with confidence interval, calibration, and latency "
    "on this machine."
)
NOTHING = (
    "There are no runs yet. Start one with `python train.py vit-small-cpu`; it appears in this "
    "table."
)
FOLDED = "ablation runs"
Measured = dict[str, list[Latency]]  # by run name, in the order of `models.BATCHES`
TimeOf = Callable[[Run], list[Latency]]


def build(tab: gr.Tab, workbench: Workbench, gains_of: Callable) -> None:
    """Lay out and wire the tab, which is drawn when it is opened.

    `gains_of` registers a handler of the event that opens an ablation, given by its baseline.
    """
    gr.Markdown(INTRO)
    table = Article(elem_id="models")
    timed = gr.State({}, time_to_live=3600)  # latencies measured in this session
    with gr.Row():
        time_button = gr.Button("Measure latency", size="sm", scale=0, min_width=200)
        gpu_button = gr.Button(
            "Measure latency on a GPU",
            size="sm",
            scale=0,
            min_width=200,
            visible=on_zero_gpu(),
            elem_id="latency-gpu",
        )
        stop_timing = gr.Button("Stop", size="sm", scale=0, min_width=100)
    state, stops = Article(elem_id="latency"), Stops()
    reported, sections = Article(elem_id="reported"), Sections([], queue=LIGHT_QUEUE)

    def drawn(rows: list[ModelRow], measured: Measured) -> list[Piece]:
        return model_table(rows, measured, of_ablations(workbench))

    def open_tab(measured):
        rows = model_rows(workbench)
        return drawn(rows, measured), reported_table({row.recipe for row in rows})

    def here(run: Run) -> list[Latency]:
        return [latency(workbench, run, batch) for batch in models.BATCHES]

    def listen(button: gr.Button, time_of: TimeOf) -> None:
        def time_all(measured, progress=gr.Progress()):  # noqa: B008 - gradio reads the default
            for known, words in timings(workbench, measured, time_of, progress, stops.watch()):
                yield drawn(model_rows(workbench), known), known, words

        stops.button(button, time_all, timed, [table, timed, state], show_progress_on=state)

    sections.add("", open_tab, [timed], [table, reported])
    ablation.build(tab, sections, workbench, gains_of)
    robustness.build(sections, workbench)
    sections.draw_on(tab.select, sections.all)
    sections.wire({})
    listen(time_button, here)
    if on_zero_gpu():
        measure = space.gpu_function(space.times_on_gpu, space.SECONDS)
        listen(gpu_button, lambda run: measure(workbench.model(run), run.preprocessing.size))
    stop_timing.click(stops.stop, **QUIET)


def of_ablations(workbench: Workbench) -> set[str]:
    """Return the names of the runs that are listed under an ablation in run menus."""
    groups = workbench.cache.of(grouped, workbench.runs()[0])
    return {name for label, names in groups if label.startswith(ABLATION) for name in names}


def model_table(rows: list[ModelRow], measured: Measured, folded: set[str]) -> list[Piece]:
    """Return the table of models with its column help.

    The runs `folded` are hidden at first; exports contain all rows and columns.
    """
    if not rows:
        return [Notice(NOTHING)]
    header, texts = models.cells(rows, measured)
    same = models.told_once(header, texts)
    words = "; ".join(f"{name}: {text}" for name, text in same.items() if text not in ("", DASH))
    aside = [i for i, row in enumerate(rows) if row.name in folded]
    aside = aside if len(aside) < len(rows) else []
    columns = [
        Column(name, text, numeric=name not in models.WORDS, hidden=name in same)
        for name, text in models.HEADER.items()
    ]
    return [
        *(Notice(row.problem) for row in rows if row.problem),
        Table(columns, texts, file="vitdemo-models", folded=aside, folded_words=FOLDED),
        *([Text(f"Same value for all models: {words}.", quiet=True)] if words else []),
    ]


def reported_table(known: set[str]) -> list[Piece]:
    """Return the published results of others; those for the recipes `known` come first."""
    header, rows = models.reported_cells()
    rows = sorted(rows, key=lambda row: row[0] not in known)
    table = Table([Column(name, numeric=False) for name in header], rows)
    return [
        Heading("Published results"),
        Text(
            "Results of others on CIFAR-10 with the same or a similar recipe. We did not verify "
            "them. Some authors selected the best epoch on the test set, which overestimates the "
            "accuracy."
        ),
        Folded(f"{len(rows)} results with sources", [table]),
    ]


def timings(
    workbench: Workbench,
    measured: Measured,
    time_of: TimeOf,
    progress: gr.Progress,
    raise_if_stopped: Callable[[], None],
) -> Iterator[tuple[Measured, list[Piece]]]:
    """After each model, yield all latencies so far, and a text with the measurements."""
    measured, problems, words = dict(measured), [], []
    runs = trained_rows(workbench)
    names = [run.name for run in runs]
    for number, run in enumerate(runs):
        progress((number, len(runs)), desc=f"Timing {run.name}", unit="models")
        try:
            raise_if_stopped()
            measured[run.name] = time_of(run)
            words = latency_words({name: measured[name] for name in names if name in measured})
        except VitdemoError as error:
            problems.append(Notice(str(error)))
        except Stopped:
            return
        yield measured, [*problems, *words]
    if not runs:
        yield measured, [Notice("There is no trained model. Train one first.")]


def latency_words(measured: Measured) -> list[Piece]:
    """Describe the latency of each run, and how it was measured."""
    batches = " and ".join(map(str, models.BATCHES))
    each = "; ".join(
        f"{name} " + " and ".join(f"{found.milliseconds:.1f}" for found in several)
        for name, several in measured.items()
    )
    device = next(iter(measured.values()))[0].device
    return [
        Text(f"Latency in milliseconds for batches of {batches} images: {each}."),
        Text(
            f"Median of at least 5 forward passes on {device}, after {models.WARM_UP} warm-up "
            "passes. Reading and resizing the images is not included. Other programs running at "
            "the same time increase the latency.",
            quiet=True,
        ),
    ]
