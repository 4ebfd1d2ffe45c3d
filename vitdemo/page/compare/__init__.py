"""The Compare models tab: every run in one table, timed here; what each recipe has otherwise than
another's; and the models on changed pictures."""

from collections.abc import Iterator

import gradio as gr

from vitdemo.errors import VitdemoError
from vitdemo.page.compare import ablation, models, robustness
from vitdemo.page.compare.models import Latency, ModelRow, latency, model_rows, trained_rows
from vitdemo.page.components.notes import Notes
from vitdemo.page.kit import LONG_QUEUE, QUIET
from vitdemo.workbench import Workbench

INTRO = (
    "All models beside each other, from the files of their runs: what they cost, how good they "
    "are, how sure that is, and how fast they answer on this machine."
)
NOTHING = (
    "There is no run yet. Start one with `python train.py vit-small-cpu`: it appears in this table."
)
Measured = dict[str, list[Latency]]  # by run, in the order of `models.BATCHES`


def build(tab: gr.Tab, workbench: Workbench) -> None:
    """Lay out and wire the tab, which draws when it is opened."""
    gr.Markdown(INTRO)
    table = Notes(elem_id="models")
    timed = gr.State({}, time_to_live=3600)  # what this user has measured
    with gr.Row():
        time_button = gr.Button("Measure latency here", size="sm", scale=0, min_width=200)
        stop_timing = gr.Button("Stop", size="sm", scale=0, min_width=100)
    state = Notes(elem_id="latency")
    reported = Notes(elem_id="reported")
    ablation.build(tab, workbench)
    robustness.build(tab, workbench)

    def open_tab(measured):
        rows = model_rows(workbench)
        return model_table(rows, measured), reported_table({row.recipe for row in rows})

    def time_all(measured, progress=gr.Progress()):  # noqa: B008 - gradio reads the default
        for known, words in timings(workbench, measured, progress):
            yield model_table(model_rows(workbench), known), known, words

    tab.select(open_tab, inputs=timed, outputs=[table, reported], **QUIET)
    timing = time_button.click(
        time_all,
        inputs=timed,
        outputs=[table, timed, state],
        api_visibility="private",
        show_progress_on=state,
        **LONG_QUEUE,
    )
    stop_timing.click(None, cancels=timing)


def model_table(rows: list[ModelRow], measured: Measured) -> list[dict]:
    """The table, and what its columns say; saved are all columns."""
    if not rows:
        return [{"notice": NOTHING}]
    header, texts = models.cells(rows, measured)
    shown, cells, same = models.told_once(header, texts)
    words = "; ".join(f"{title}: {text}" for title, text in same.items() if text != models.DASH)
    return [
        *({"notice": row.problem} for row in rows if row.problem),
        {"head": shown, "rows": cells, "file": "vitdemo-models", "whole": [header, *texts]},
        *([{"quiet": f"The same for all: {words}."}] if words else []),
        explained(models.HEADER),
    ]


def explained(words: dict[str, str]) -> dict:
    """What each number says, one sentence each, folded away."""
    items = [[title, f": {text}"] for title, text in words.items()]
    return {"fold": "What the numbers mean", "blocks": [{"items": items}]}


def reported_table(known: set[str]) -> list[dict]:
    """The figures of others, apart from ours; those for a recipe of the table first."""
    header, rows = models.reported_cells()
    rows = sorted(rows, key=lambda row: row[0] not in known)
    table = {"head": header, "rows": rows}
    return [
        {"title": "Reported elsewhere, not measured here"},
        {
            "text": "What others report for CIFAR-10 with the same recipe or its like. Some chose "
            "their best epoch on the test set, which flatters; none was checked by this project."
        },
        {"fold": f"{len(rows)} figures and their sources", "blocks": [table]},
    ]


def timings(
    workbench: Workbench, measured: Measured, progress: gr.Progress
) -> Iterator[tuple[Measured, list[dict]]]:
    """After each model, all that is measured by then, and in words how it was."""
    measured, problems, words = dict(measured), [], []
    runs = trained_rows(workbench)
    names = [run.name for run in runs]
    for number, run in enumerate(runs):
        progress((number, len(runs)), desc=f"Timing {run.name}", unit="models")
        try:
            measured[run.name] = [latency(workbench, run, batch) for batch in models.BATCHES]
            words = latency_words({name: measured[name] for name in names if name in measured})
        except VitdemoError as error:
            problems.append({"notice": str(error)})
        yield measured, [*problems, *words]
    if not runs:
        yield measured, [{"notice": "There is no trained model to time."}]


def latency_words(measured: Measured) -> list[dict]:
    """The times of each run, which stand far to the right in the table, and how they were taken."""
    batches = " and ".join(map(str, models.BATCHES))
    each = "; ".join(
        f"{name} " + " and ".join(f"{found.milliseconds:.1f}" for found in several)
        for name, several in measured.items()
    )
    device = next(iter(measured.values()))[0].device
    return [
        {"text": f"Milliseconds for {batches} pictures at once: {each}."},
        {
            "quiet": f"Median of at least 5 forward passes after {models.WARM_UP} to warm up, on "
            f"{device}, without reading or scaling the pictures. Other work on the machine at the "
            "same time slows it."
        },
    ]
